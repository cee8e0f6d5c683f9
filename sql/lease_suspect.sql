-- Intent: as lease.sql, for a row that ended two leases or more without a commit. The caller passes
--         1 as $1 and does nothing else meanwhile, so that a row that kills its replica kills it alone.
--         $2 is the replica, $3 the lease in microseconds.
-- Locks:  the leased task rows, for update; rows locked by anybody else are skipped, so this
--         statement never waits.
-- Index:  mcp_action_tasks_suspect for the inner select, which runs exactly once as an init plan;
--         primary keys for the rest.
with leased as (
    update david.mcp_action_tasks t
       set due_at     = now() + $3::bigint * interval '1 microsecond',
           fence      = t.fence + 1,
           lapses     = t.lapses + 1,
           leased_by  = $2::uuid,
           updated_at = now()
     where t.id = any (array(
               select d.id
                 from david.mcp_action_tasks d
                where d.phase <> 'finalised'
                  and d.due_at <= now()
                  and d.lapses >= 2
                order by d.due_at
                limit $1::bigint
                  for update skip locked))
 returning t.*
)
select t.id                                                        as "id!",
       t.action_id                                                 as "action_id!",
       t.registration_id                                           as "registration_id!",
       t.phase                                                     as "phase!",
       t.fence                                                     as "fence!",
       t.call_fence                                                as "call_fence?",
       t.lapses - 1                                                as "lapses!",
       t.remote_task_id                                            as "remote_task_id?",
       t.remote_status                                             as "remote_status?",
       (extract(epoch from t.remote_expires_at) * 1000000)::bigint as "remote_expires_at?",
       t.remote_ttl_ms                                             as "remote_ttl_ms?",
       t.poll_interval_ms                                          as "poll_interval_ms?",
       t.attempt                                                   as "attempt!",
       t.polls                                                     as "polls!",
       t.input_round                                               as "input_round!",
       (extract(epoch from t.execution_deadline) * 1000000)::bigint as "execution_deadline!",
       t.outcome                                                   as "outcome?",
       a.tool_call_id                                              as "tool_call_id?",
       a.tool_name                                                 as "tool_name!",
       r.id                                                        as "run_id!",
       r.user_id                                                   as "user_id!",
       (r.cancelled_at is not null or r.status = 'cancelled')      as "run_cancelled!",
       g.owner_id                                                  as "registration_owner_id?",
       g.url                                                       as "registration_url?",
       g.credential_id                                             as "registration_credential_id?",
       g.enabled                                                   as "registration_enabled?",
       g.timeout_seconds                                           as "registration_timeout_seconds?",
       g.input_policy                                              as "registration_input_policy?",
       c.remote_tool_name                                          as "remote_tool_name?",
       c.arguments::text                                           as "arguments?",
       c.idempotent                                                as "idempotent?",
       c.request_state                                             as "request_state?",
       (extract(epoch from now()) * 1000000)::bigint               as "now!"
  from leased t
  join david.actions a on a.id = t.action_id
  join david.runs r on r.id = a.run_id
  left join david.mcp_server_registrations g on g.id = t.registration_id
  left join david.mcp_action_calls c on c.action_id = t.action_id
