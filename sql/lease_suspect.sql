-- Intent: as lease.sql, for a row that ended two leases or more without a commit. The caller passes
--         1 as $1 and does nothing else meanwhile, so that a row that kills its replica kills it alone.
--         $2 is the replica, $3 the lease in microseconds, $4 the servers that are closed, of which only those
--         rows are taken whose deadline has come: they end without the server's help.
-- Locks:  the leased task rows, for update; rows locked by anybody else are skipped, so this
--         statement never waits.
-- Index:  mcp_action_tasks_suspect to choose, exactly once; the primary key to write.
with due as materialized (
    select d.id, d.due_at
      from david.mcp_action_tasks d
     where d.phase <> 'finalised'
       and d.due_at <= now()
       and d.lapses >= 2
       and (d.registration_id <> all ($4::text[])
     or d.outcome is null and d.execution_deadline <= now())
     order by d.due_at
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
