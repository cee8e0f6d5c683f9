-- Intent: the envelopes of the Actions that end with this commit, one each for ever. An output
--         that is there already stays: a second one must not wedge the row.
-- Locks:  key share on the Actions, which are held.
-- Index:  outputs_one_per_action.
insert into david.tool_outputs (action_id, outcome, is_error, envelope)
select w.action_id, w.outcome, w.outcome <> 'succeeded', w.envelope::json
  from unnest($1::text[], $2::text[], $3::text[]) as w (action_id, outcome, envelope)
    on conflict (action_id) do nothing
