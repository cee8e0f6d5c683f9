-- Intent: how tidy the hot table is.
-- Locks:  none.
-- Index:  none.
select coalesce(h.live_rows, 0) as "live_rows!", coalesce(h.dead_rows, 0) as "dead_rows!"
  from david.v_table_health h
 where h.table_name = 'mcp_action_tasks'
