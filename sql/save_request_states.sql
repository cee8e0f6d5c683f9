-- Intent: keep the opaque state of calls that ask for input, byte for byte.
-- Locks:  the calls.
-- Index:  primary key.
update david.mcp_action_calls c
   set request_state = w.request_state
  from unnest($1::text[], $2::bytea[]) as w (action_id, request_state)
 where c.action_id = w.action_id
