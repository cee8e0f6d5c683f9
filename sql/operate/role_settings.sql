-- Intent: settings of $1's names that are tied to this database, or to a role that may use the schema.
-- Locks:  none.
-- Index:  none.
select r.rolname::text                      as "role?",
       d.datname::text                      as "database?",
       split_part(c.line, '=', 1)           as "name!",
       substr(c.line, strpos(c.line, '=') + 1) as "value!"
  from pg_catalog.pg_db_role_setting s
 cross join lateral unnest(s.setconfig) c (line)
  left join pg_catalog.pg_roles r on r.oid = s.setrole
  left join pg_catalog.pg_database d on d.oid = s.setdatabase
 where (s.setdatabase = 0 or d.datname = current_database())
   and (s.setrole = 0 or to_regnamespace('david') is null or has_schema_privilege(s.setrole, to_regnamespace('david')::oid, 'usage'))
   and split_part(c.line, '=', 1) = any ($1::text[])
 order by 1, 2, 3
