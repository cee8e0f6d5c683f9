-- Intent: servers from which nothing is leased as usual: paused, or with an open breaker. Few, most often none.
-- Locks:  none.
-- Index:  mcp_registration_health_closed.
select h.registration_id                                                 as "registration_id!",
       h.paused_at is not null                                           as "paused!",
       (extract(epoch from h.open_until - now()) * 1000000)::bigint      as "open_for?"
  from david.mcp_registration_health h
 where h.trips > 0 or h.paused_at is not null
