-- Intent: for how long the longest due row has waited that a replica would lease (microseconds); none when nothing
--         is due. What a breaker or an operator holds back is meant to wait, and left out. For /metrics, read every
--         15 seconds at most. One step per lane, none per row.
-- Locks:  none.
-- Index:  mcp_action_tasks_lanes, skipping from lane to lane; the primary key of mcp_registration_health.
with recursive lane (registration_id, phase, due_at) as (
    (select t.registration_id collate "C", t.phase collate "C", t.due_at
       from david.mcp_action_tasks t
      where t.phase <> 'finalised'
      order by t.registration_id collate "C", t.phase collate "C", t.due_at
      limit 1)
    union all
    select n.registration_id, n.phase, n.due_at
      from lane l
     cross join lateral (
               select t.registration_id collate "C" as registration_id, t.phase collate "C" as phase, t.due_at
                 from david.mcp_action_tasks t
                where t.phase <> 'finalised'
                  and (t.registration_id collate "C", t.phase collate "C") > (l.registration_id, l.phase)
                order by t.registration_id collate "C", t.phase collate "C", t.due_at
                limit 1) n
)
select (extract(epoch from now() - min(lane.due_at)) * 1000000)::bigint as "oldest?"
  from lane
 where lane.due_at <= now()
   and not exists (select
                     from david.mcp_registration_health h
                    where h.registration_id = lane.registration_id
                      and (h.trips > 0 or h.paused_at is not null))
