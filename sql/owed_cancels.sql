-- Intent: how many Actions have ended while their remote task is owed a cancel, counted up to 10,000. For
--         /metrics, read every 15 seconds at most.
-- Locks:  none.
-- Index:  mcp_action_tasks_cancelling.
select count(*) as "owed!"
  from (select
          from david.mcp_action_tasks t
         where t.phase = 'cancelling'
         limit 10000) owed
