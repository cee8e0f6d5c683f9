-- Intent: as lease.sql, lane by lane: from each lane (server $4, phase $5) at most $6 rows, and $1 in all. What
--         piled up on one server stands in nobody's way, and a closed server's lanes are not among them.
--         $2 is the replica, $3 the lease in microseconds.
-- Locks:  the leased task rows, for update; rows locked by anybody else are skipped, so this
--         statement never waits.
-- Index:  mcp_action_tasks_lanes once per lane; the primary key to write.
with due as materialized (
    select d.id, d.due_at
      from unnest($4::text[], $5::text[], $6::bigint[]) as lane (registration_id, phase, most)
     cross join lateral (
               select t.id, t.due_at
                 from david.mcp_action_tasks t
                where t.registration_id collate "C" = lane.registration_id
                  and t.phase collate "C" = lane.phase
                  and t.phase <> 'finalised'
                  and t.due_at <= now()
                  and t.lapses < 2
                order by t.due_at
                limit lane.most
                  for update skip locked) d
     limit $1::bigint
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
