-- Intent: one line of history per transition worth telling.
-- Locks:  none.
-- Index:  none read.
insert into david.mcp_task_events
       (task_id, action_id, run_id, registration_id, tool_call_id, provider_name,
        event, transition, phase, outcome, fence, replica, detail)
select w.task_id, w.action_id, w.run_id, w.registration_id, w.tool_call_id, w.provider_name,
       w.event, w.transition, w.phase, w.outcome, w.fence, $12::uuid, w.detail
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
              $7::text[], $8::text[], $9::text[], $10::text[], $11::bigint[], $13::text[])
    as w (task_id, action_id, run_id, registration_id, tool_call_id, provider_name,
          event, transition, phase, outcome, fence, detail)
