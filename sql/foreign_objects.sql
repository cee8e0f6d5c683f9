-- Intent: how much stands in schema david before its first migration, which must be nothing. Nothing is
--         foreign once the record is there: one snapshot for both, since somebody else may have begun
--         to migrate since has_migrations.sql looked.
-- Locks:  none.
-- Index:  catalogue.
with standing as (
    select c.relname as name
      from pg_catalog.pg_class c
     where c.relnamespace = to_regnamespace('david')
       and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
     union all
    select p.proname
      from pg_catalog.pg_proc p
     where p.pronamespace = to_regnamespace('david')
     union all
    select t.typname
      from pg_catalog.pg_type t
      left join pg_catalog.pg_class c on c.oid = t.typrelid
     where t.typnamespace = to_regnamespace('david')
       -- Not a table's row type, nor the array type that every type brings with it.
       and (t.typrelid = 0 or c.relkind = 'c')
       and not exists (select from pg_catalog.pg_type e where e.typarray = t.oid)
)
select count(*) as "objects!"
  from standing
 where not exists (select from standing s where s.name = '_sqlx_migrations')
