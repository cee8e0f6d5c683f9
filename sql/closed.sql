-- Intent: servers from which nothing is leased as usual: paused, or with an open breaker. Few, most often none.
--         A breaker by which nothing was tried for an hour, for want of rows, holds up nobody any more; nor does
--         that of a server that is disabled or gone, whose rows can only end.
-- Locks:  none.
-- Index:  mcp_registration_health_closed.
select h.registration_id                                                 as "registration_id!",
       h.paused_at is not null                                           as "paused!",
       (extract(epoch from h.open_until - now()) * 1000000)::bigint      as "open_for?"
  from david.mcp_registration_health h
 where (h.trips > 0 or h.paused_at is not null)
   and (h.paused_at is not null
        or h.open_until > now() - interval '1 hour'
           and exists (select from david.mcp_server_registrations g where g.id = h.registration_id and g.enabled))
