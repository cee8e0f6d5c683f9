-- Intent: tell whoever listens on channel $1 each of the payloads $2, once, in order. Nothing is kept.
-- Locks:  the notify queue, for the length of this statement's own commit: it shares no transaction
--         with anything else, so it holds up nobody's (DESIGN §8).
-- Index:  none.
select count(pg_notify($1, payload)) as "told!" from unnest($2::text[]) as payload
