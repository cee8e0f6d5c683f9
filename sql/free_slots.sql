-- Intent: up to $3 free slots each of servers ($1) that bound their calls ($2). The caller holds hold_slots.sql.
-- Locks:  none.
-- Index:  mcp_action_tasks_call_slot.
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
            limit w.wanted) s
