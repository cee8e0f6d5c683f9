-- Intent: one line of history per transition worth telling. A lease makes a transition once, so what it
--         told under its fence already is a write made again after a COMMIT whose answer was lost [2].
--         `offset 0` keeps that a look at the index per row: as a join, planned while the table was young,
--         it read all the history for every batch.
-- Locks:  none; the tasks are held.
-- Index:  mcp_task_events_action.
insert into david.mcp_task_events
       (task_id, action_id, run_id, registration_id, tool_call_id, provider_name,
        event, transition, phase, outcome, fence, replica, detail)
select w.task_id, w.action_id, w.run_id, w.registration_id, w.tool_call_id, w.provider_name,
       w.event, w.transition, w.phase, w.outcome, w.fence, $12::uuid, w.detail
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
              $7::text[], $8::text[], $9::text[], $10::text[], $11::bigint[], $13::text[])
    as w (task_id, action_id, run_id, registration_id, tool_call_id, provider_name,
          event, transition, phase, outcome, fence, detail)
 where not exists (
           select
             from david.mcp_task_events e
            where e.action_id = w.action_id
              and e.fence = w.fence
              and e.event = w.event
              and e.transition = w.transition
           offset 0
       )
