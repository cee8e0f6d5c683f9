-- Intent: the lanes (server and phase) in which something is due. One step per lane, due or not; none per row.
-- Locks:  none.
-- Index:  mcp_action_tasks_lanes, skipping from lane to lane.
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
select lane.registration_id as "registration_id!",
       lane.phase           as "phase!"
  from lane
 where lane.due_at <= now()
