-- Intent: add what this replica saw of each server since it last told: requests, failures, latency (an average of
--         the answered ones, milliseconds), and the last failure in words. For people; nothing is decided by it.
-- Locks:  the health rows, in id order.
-- Index:  primary key.
insert into david.mcp_registration_health as h
       (registration_id, requests, failures, latency_ms, last_success_at, last_failure_at, last_error)
select w.registration_id, w.requests, w.failures, w.latency_ms,
       case when w.requests > w.failures then now() end,
       case when w.failures > 0 then now() end,
       w.last_error
  from unnest($1::text[], $2::bigint[], $3::bigint[], $4::real[], $5::text[])
    as w (registration_id, requests, failures, latency_ms, last_error)
 order by w.registration_id
    on conflict (registration_id) do update
   set requests        = h.requests + excluded.requests,
       failures        = h.failures + excluded.failures,
       latency_ms      = coalesce((h.latency_ms * 3 + excluded.latency_ms) / 4, excluded.latency_ms, h.latency_ms),
       last_success_at = coalesce(excluded.last_success_at, h.last_success_at),
       last_failure_at = coalesce(excluded.last_failure_at, h.last_failure_at),
       last_error      = coalesce(excluded.last_error, h.last_error),
       updated_at      = now()
