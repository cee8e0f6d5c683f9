-- Intent: what schema david consists of, one line each, by name: definitions are worded differently by versions of
--         Postgres. A trigger's line says whether it fires, an index is there when it is valid.
-- Locks:  none.
-- Index:  none.
select s.line as "line!"
  from (select 'column ' || c.relname || '.' || a.attname as line
          from pg_catalog.pg_class c
          join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
         where c.relnamespace = 'david'::regnamespace and c.relkind in ('r', 'v') and c.relname <> '_sqlx_migrations'
         union all
        select 'constraint ' || c.relname || '.' || k.conname
          from pg_catalog.pg_constraint k
          join pg_catalog.pg_class c on c.oid = k.conrelid
         where c.relnamespace = 'david'::regnamespace and c.relname <> '_sqlx_migrations'
           and k.contype in ('c', 'f', 'p', 'u') and k.convalidated
         union all
        select 'index ' || i.relname
          from pg_catalog.pg_index x
          join pg_catalog.pg_class i on i.oid = x.indexrelid
          join pg_catalog.pg_class c on c.oid = x.indrelid
         where c.relnamespace = 'david'::regnamespace and c.relname <> '_sqlx_migrations' and x.indisvalid
         union all
        select 'trigger ' || c.relname || '.' || t.tgname || ' '
               || case t.tgenabled when 'A' then 'always' when 'O' then 'enabled' else 'disabled' end
          from pg_catalog.pg_trigger t
          join pg_catalog.pg_class c on c.oid = t.tgrelid
         where c.relnamespace = 'david'::regnamespace and not t.tgisinternal
         union all
        select 'function ' || p.proname || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid) || ')'
          from pg_catalog.pg_proc p
         where p.pronamespace = 'david'::regnamespace
         union all
        select 'sequence ' || c.relname
          from pg_catalog.pg_class c
         where c.relnamespace = 'david'::regnamespace and c.relkind = 'S') s
 order by s.line collate "C"
