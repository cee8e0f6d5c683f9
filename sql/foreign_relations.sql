-- Intent: what stands in schema david before its first migration, which must be nothing. Nothing is
--         foreign once the record is there: one snapshot for both, since somebody else may have begun
--         to migrate since has_migrations.sql looked.
-- Locks:  none.
-- Index:  catalogue.
with standing as (
    select c.relname
      from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'david'
       and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
)
select count(*) as "relations!"
  from standing
 where not exists (select from standing s where s.relname = '_sqlx_migrations')
