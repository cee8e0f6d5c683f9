-- Intent: close the breakers of servers that answer again.
-- Locks:  the health rows; one that is locked is being written by another replica that knows as well.
-- Index:  primary key.
update david.mcp_registration_health h
   set trips = 0, opened_at = null, open_until = null, last_success_at = now(), updated_at = now()
 where h.registration_id in (
           select o.registration_id
             from david.mcp_registration_health o
            where o.registration_id = any ($1::text[])
              and o.trips > 0
            order by o.registration_id
              for update skip locked)
