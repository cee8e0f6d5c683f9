-- Intent: may this remote id, which no row took in, be cancelled? Only if no live row holds it, since
--         a server may have given it to somebody else [2], and only while its registration is
--         there and enabled [11].
-- Locks:  none.
-- Index:  mcp_action_tasks_remote_task; primary key.
select exists (
           select
             from david.mcp_server_registrations g
            where g.id = $1::text
              and g.enabled
       )
       and not exists (
           select
             from david.mcp_action_tasks t
            where t.registration_id = $1::text
              and t.remote_task_key = david.remote_task_key($2::text)
              and t.phase <> 'finalised'
       ) as "may!"
