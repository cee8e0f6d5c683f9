-- Intent: which of these rights the connecting role has not: $1 privileges, $2 what on ('david', a table, a function
--         with its arguments), $3 columns ('' when it is the whole). What does not exist is missing, too.
-- Locks:  none.
-- Index:  none.
select w.privilege as "privilege!", w.object as "object!", w.field as "field!"
  from unnest($1::text[], $2::text[], $3::text[]) w (privilege, object, field)
 where not case
           when w.privilege = 'usage' then
               to_regnamespace(w.object) is not null and has_schema_privilege(to_regnamespace(w.object)::oid, 'usage')
           when w.privilege = 'execute' then
               to_regprocedure(w.object) is not null and has_function_privilege(to_regprocedure(w.object)::oid, 'execute')
           when to_regclass(w.object) is null then false
           when w.field = '' then has_table_privilege(to_regclass(w.object)::oid, w.privilege)
           else exists (select from pg_catalog.pg_attribute a
                         where a.attrelid = to_regclass(w.object) and a.attname = w.field and a.attnum > 0
                           and has_column_privilege(a.attrelid, a.attnum, w.privilege)) end
 order by w.object, w.privilege, w.field
