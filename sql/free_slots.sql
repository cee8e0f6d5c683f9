-- Intent: up to $3 free slots each of servers ($1) that bound their calls ($2). The caller holds hold_slots.sql.
-- Locks:  none.
-- Index:  mcp_action_tasks_call_slot, once per slot; mcp_action_tasks_lanes, as many calls as there are slots.
select w.registration_id as "registration_id!",
       s.slot            as "slot!"
  from unnest($1::text[], $2::int[], $3::bigint[]) as w (registration_id, max_calls, wanted)
 cross join lateral (
           select n as slot
             from generate_series(1, w.max_calls) n
            where not exists (select
                                from david.mcp_action_tasks t
                               where t.registration_id = w.registration_id
                                 and t.call_slot = n
                                 and t.call_slot is not null
                                 and t.phase = 'calling')
            -- A bound that was just set or lowered counts the calls that came before it.
            limit greatest(0, least(w.wanted, w.max_calls - (
                      select count(*)
                        from (select
                                from david.mcp_action_tasks t
                               where t.registration_id collate "C" = w.registration_id
                                 and t.phase collate "C" = 'calling'
                                 and t.phase <> 'finalised'
                               limit w.max_calls) calling)))) s
