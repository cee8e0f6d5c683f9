-- Intent: as lock_tasks.sql for one row, waiting. Also the read that explains zero rows.
-- Locks:  the task row, for update.
-- Index:  primary key; outputs_one_per_action.
select t.id                as "id!",
       t.phase             as "phase!",
       t.fence             as "fence!",
       t.call_fence        as "call_fence?",
       t.remote_task_key   as "remote_task_key?",
       t.outcome           as "outcome?",
       o.envelope::text    as "envelope?"
  from david.mcp_action_tasks t
  left join david.tool_outputs o on o.action_id = t.action_id and t.outcome is not null
 where t.id = any ($1::bigint[])
 order by t.id
   for update of t
