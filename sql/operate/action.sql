-- Intent: one Action: how it stands, its history, what v_stuck says of it, its server, its open questions, as JSON
--         whose keys are the views' columns. $1 is the Action. `action` is null when there is no such row.
-- Locks:  none.
-- Index:  those of the views.
select json_build_object(
           'at', now(),
           'action', (
               select row_to_json(a)
                 from (select v.action_id, v.run_id, v.registration_id, v.registration_name, v.tool_name, v.status, v.phase,
                              v.outcome, v.due_at, v.leased_by, v.fence, v.attempt, v.lapses, v.polls, v.last_polled_at,
                              v.remote_task, v.remote_status, v.remote_expires_at, v.execution_deadline, v.created_at,
                              v.updated_at, v.finalised_at, v.last_error
                         from david.v_action v
                        where v.action_id = $1) a),
           'stuck', (
               select row_to_json(s)
                 from (select v.action_id, v.run_id, v.registration_id, v.registration_name, v.phase, v.reason, v.explanation,
                              v.what_to_do, v.since, v.due_at, v.attempt, v.lapses, v.execution_deadline, v.last_error
                         from david.v_stuck v
                        where v.action_id = $1) s),
           'server', (
               select row_to_json(h)
                 from (select v.registration_id, v.registration_name, v.enabled, v.breaker, v.open_until, v.trips, v.paused_at,
                              v.paused_by, v.paused_reason, v.last_success_at, v.last_failure_at, v.last_error
                         from david.v_registration_health v
                        where v.registration_id = (select a.registration_id from david.v_action a where a.action_id = $1)) h),
           'questions', (
               select coalesce(json_agg(i order by i.asked_at), '[]')
                 from (select v.action_id, v.run_id, v.registration_id, v.registration_name, v.tool_name, v.asked_by, v.round,
                              v.state, v.asked_at, v.execution_deadline
                         from david.v_input_required v
                        where v.action_id = $1) i),
           'timeline', (
               select coalesce(json_agg(e order by e.position), '[]')
                 from (select v.at, v.event, v.transition, v.phase, v.outcome, v.fence, v.replica, v.run_id, v.registration_id,
                              v.tool_name, v.position, v.detail
                         from david.v_timeline v
                        where v.action_id = $1) e)
       )::text as "json!"
