-- Intent: move answers on: answered → sending before they leave, sending → sent once acknowledged.
-- Locks:  the questions; their tasks are held.
-- Index:  inputs_one_per_round_and_key.
update david.mcp_input_requests i
   set state   = w.state,
       sent_at = case when w.state = 'sent' then now() end
  from unnest($1::bigint[], $2::int[], $3::text[], $4::text[]) as w (task_id, round, key, state)
 where i.task_id = w.task_id
   and i.round = w.round
   and i.key = w.key
   and i.state in ('answered', 'sending')
