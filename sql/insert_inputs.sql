-- Intent: the questions of a new round, one row per key; a key of the same round that is known
--         stays as it is.
-- Locks:  key share on the tasks, which are held.
-- Index:  inputs_one_per_round_and_key.
insert into david.mcp_input_requests (task_id, round, key, request)
select w.task_id, w.round, w.key, w.request::json
  from unnest($1::bigint[], $2::int[], $3::text[], $4::text[]) as w (task_id, round, key, request)
    on conflict (task_id, round, key) do nothing
