-- Intent: the registrations of rows that are held in memory, as they are now: a row is leased once per
--         term, but may not be polled for a second longer than its registration allows [11].
-- Locks:  none.
-- Index:  primary key.
select g.id,
       g.owner_id,
       g.url,
       g.credential_id,
       g.enabled,
       g.timeout_seconds,
       g.max_calls
  from david.mcp_server_registrations g
 where g.id = any ($1::text[])
