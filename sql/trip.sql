-- Intent: open the breakers of servers ($1) that went on failing, each with its last failure in words ($2). The
--         pause doubles with every trip without a success in between, from $3 to $4 microseconds. Another
--         replica that says the same a moment later does not count; a failed probe ($5) does.
-- Locks:  the health rows, in id order.
-- Index:  primary key.
insert into david.mcp_registration_health as h (registration_id, trips, opened_at, open_until, last_error, last_failure_at)
select w.registration_id, 1, now(), now() + $3::bigint * interval '1 microsecond', w.reason, now()
  from unnest($1::text[], $2::text[]) as w (registration_id, reason)
 order by w.registration_id
    on conflict (registration_id) do update
   set trips           = h.trips + 1,
       opened_at       = coalesce(h.opened_at, now()),
       open_until      = now() + least($4::double precision, $3::double precision * power(2, least(h.trips, 30)))
                               * interval '1 microsecond',
       last_error      = excluded.last_error,
       last_failure_at = now(),
       updated_at      = now()
 where h.trips = 0 or h.open_until <= now() or h.registration_id = any ($5::text[])
