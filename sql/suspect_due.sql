-- Intent: is a row due now that the batch lease leaves out because it killed leases before?
-- Locks:  none.
-- Index:  mcp_action_tasks_suspect.
select exists (
           select
             from david.mcp_action_tasks t
            where t.phase <> 'finalised'
              and t.lapses >= 2
              and t.due_at <= now()
              and (t.registration_id <> all ($1::text[])
                   or t.outcome is null and t.execution_deadline <= now())
       ) as "suspect!"
