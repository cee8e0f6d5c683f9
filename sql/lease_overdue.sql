-- Intent: up to $1 rows of closed servers ($4) whose deadline has come, or whose call was lost and is not made again:
--         they end without the server's help (an expiry does not: the server is asked first). $2 is the
--         replica, $3 the lease in microseconds.
-- Locks:  the leased task rows, for update; rows locked by anybody else are skipped, so this
--         statement never waits.
-- Index:  mcp_action_tasks_lanes, all that is due on these servers: run it seldom. The primary
--         key to write.
with due as materialized (
    select d.id, d.due_at
      from david.mcp_action_tasks d
     where d.registration_id collate "C" = any ($4::text[])
       and d.phase <> 'finalised'
       and d.outcome is null
       and d.due_at <= now()
       and d.lapses < 2
       and (d.execution_deadline <= now()
            or d.phase = 'calling'
               and not exists (select from david.mcp_action_calls c where c.action_id = d.action_id and c.idempotent))
     limit $1::bigint
       for update skip locked
), leased as (
    update david.mcp_action_tasks t
       set due_at     = now() + $3::bigint * interval '1 microsecond',
           fence      = t.fence + 1,
           lapses     = t.lapses + 1,
           leased_by  = $2::uuid,
           updated_at = now()
     where t.id = any (array(select id from due))
 returning t.id, t.fence
)
select l.id                                          as "id!",
       l.fence                                       as "fence!",
       (extract(epoch from now()) * 1000000)::bigint as "now!",
       (extract(epoch from d.due_at) * 1000000)::bigint as "due_at?"
  from leased l
  left join due d on d.id = l.id
