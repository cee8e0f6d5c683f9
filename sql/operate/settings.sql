-- Intent: settings as a session of this role gets them, whatever this session has set for itself. $1 are their names.
-- Locks:  none.
-- Index:  none.
select s.name as "name!", coalesce(s.reset_val, '') as "value!"
  from pg_catalog.pg_settings s
 where s.name = any ($1::text[])
