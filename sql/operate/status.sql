-- Intent: one picture of everything an operator looks at first, as JSON whose keys are the views' columns, for any
--         role that may read the views. What v_input_required keeps from a viewer is not asked for.
-- Locks:  none.
-- Index:  those of the views (docs/views.md says how long each takes).
select json_build_object(
           'at', now(),
           'backlog', (
               select coalesce(json_agg(b order by b.registration_id, b.phase), '[]')
                 from (select v.registration_id, v.registration_name, v.phase, v.tasks, v.due, v.oldest_due_at, v.estimated
                         from david.v_backlog v) b),
           'due_lag', (
               select coalesce(json_agg(l order by l.registration_id nulls first), '[]')
                 from (select v.registration_id, v.registration_name, v.due,
                              extract(epoch from v.p50)::float8     as p50_seconds,
                              extract(epoch from v.p99)::float8     as p99_seconds,
                              extract(epoch from v.oldest)::float8  as oldest_seconds,
                              v.estimated
                         from david.v_due_lag v) l),
           'replicas', (
               select coalesce(json_agg(r order by r.replica), '[]')
                 from (select v.replica, v.leases, v.calls, v.lapsed, v.last_leased_at, v.next_lapse_at, v.estimated
                         from david.v_leases v) r),
           -- Only servers of which there is something to say.
           'servers', (
               select coalesce(json_agg(s order by s.registration_id), '[]')
                 from (select v.registration_id, v.registration_name, v.enabled, v.breaker, v.open_until, v.trips, v.paused_at,
                              v.paused_by, v.paused_reason, v.last_success_at, v.last_failure_at, v.last_error
                         from david.v_registration_health v
                        where v.breaker <> 'closed' or v.paused_at is not null) s),
           'stuck', (
               select coalesce(json_agg(s order by s.since, s.action_id), '[]')
                 from (select v.action_id, v.run_id, v.registration_id, v.registration_name, v.phase, v.reason, v.explanation,
                              v.what_to_do, v.since, v.due_at, v.attempt, v.lapses, v.execution_deadline, v.last_error
                         from david.v_stuck v) s),
           'cancelling', (
               select coalesce(json_agg(c order by c.due_at, c.action_id), '[]')
                 from (select v.action_id, v.run_id, v.registration_id, v.registration_name, v.outcome, v.remote_task, v.since,
                              v.due_at, v.attempt, v.replica, v.last_error
                         from david.v_cancelling v) c),
           'input_required', (
               select coalesce(json_agg(i order by i.asked_at, i.action_id), '[]')
                 from (select v.action_id, v.run_id, v.registration_id, v.registration_name, v.tool_name, v.asked_by, v.round,
                              v.state, v.asked_at, v.execution_deadline
                         from david.v_input_required v
                        order by v.asked_at
                        limit 1000) i),
           'outcomes', (
               select coalesce(json_agg(o order by o.outcome), '[]')
                 from (select v.outcome, v.last_hour, v.last_day, v.estimated from david.v_outcomes v) o)
       )::text as "json!"
