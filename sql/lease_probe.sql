-- Intent: one row of a server whose breaker was open for long enough, to see whether it answers again. Only
--         one replica at a time gets it: whoever moves open_until on by $4 microseconds. Not a call, if there is
--         anything else to ask: an unanswered call's outcome is unknown for ever, an unanswered poll is nothing.
--         Nor a call that was lost, unless it is made again: that ends without asking anybody.
--         If there is not, its time-out counts as well, so that it is one call and not one every few seconds.
--         $1 is the server, $2 the replica, $3 the lease in microseconds, $5 the lanes (phases) that are due.
-- Locks:  the health row and the leased task row, for update; a locked one is skipped.
-- Index:  primary keys; mcp_action_tasks_lanes once per phase.
with mine as materialized (
    update david.mcp_registration_health h
       set open_until = now() + $4::bigint * interval '1 microsecond' + case when 'queued' = all ($5::text[]) then
               coalesce((select g.timeout_seconds from david.mcp_server_registrations g where g.id = $1), 0)
               * interval '1 second' else interval '0' end,
           updated_at = now()
     where h.registration_id in (
               select o.registration_id
                 from david.mcp_registration_health o
                where o.registration_id = $1
                  and o.open_until <= now()
                  and o.paused_at is null
                  for update skip locked)
 returning h.registration_id
), due as materialized (
    select d.id, d.due_at
      from mine
     cross join unnest($5::text[]) as lane (phase)
     cross join lateral (
               select t.id, t.due_at
                 from david.mcp_action_tasks t
                where t.registration_id collate "C" = $1
                  and t.phase collate "C" = lane.phase
                  and t.phase <> 'finalised'
                  and t.due_at <= now()
                  and t.lapses < 2
                  and (t.phase <> 'calling'
                       or exists (select from david.mcp_action_calls c where c.action_id = t.action_id and c.idempotent))
                order by t.due_at
                limit 1
                  for update skip locked) d
     order by lane.phase = 'queued'
     limit 1
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
