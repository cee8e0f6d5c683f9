-- Intent: what stands in schema david before its first migration, which must be nothing.
-- Locks:  none.
-- Index:  catalogue.
select count(*) as "relations!"
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'david'
   and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
