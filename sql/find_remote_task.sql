-- Intent: does any live row hold this remote id? Only a plain no permits cancelling an id that could
--         not be persisted [2].
-- Locks:  none.
-- Index:  mcp_action_tasks_remote_task.
select exists (
           select
             from david.mcp_action_tasks t
            where t.registration_id = $1::text
              and t.remote_task_key = david.remote_task_key($2::text)
              and t.phase <> 'finalised'
       ) as "held!"
