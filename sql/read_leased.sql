-- Intent: everything a decision about freshly leased rows may depend on. A row that somebody has changed
--         since is left out: it is due again, under another fence.
-- Locks:  none.
-- Index:  primary keys.
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
       g.max_calls                                                 as "registration_max_calls?",
       c.remote_tool_name                                          as "remote_tool_name?",
       c.arguments::text                                           as "arguments?",
       c.idempotent                                                as "idempotent?",
       c.request_state                                             as "request_state?",
       c.traceparent                                               as "traceparent?",
       c.tracestate                                                as "tracestate?"
  from unnest($1::bigint[], $2::bigint[]) as w (id, fence)
  join david.mcp_action_tasks t on t.id = w.id and t.fence = w.fence
  join david.actions a on a.id = t.action_id
  join david.runs r on r.id = a.run_id
  left join david.mcp_server_registrations g on g.id = t.registration_id
  left join david.mcp_action_calls c on c.action_id = t.action_id
