-- Intent: which server, database and role this connection leads to, for doctor.
-- Locks:  none.
-- Index:  none.
select current_setting('server_version_num')::integer                                     as "version_number!",
       current_setting('server_version')                                                  as "version!",
       pg_encoding_to_char(d.encoding)::text                                              as "encoding!",
       d.datname::text                                                                    as "database!",
       d.datconnlimit                                                                     as "database_limit!",
       r.rolname::text                                                                    as "role!",
       r.rolconnlimit                                                                     as "role_limit!",
       pg_is_in_recovery()                                                                as "standby!",
       (select count(*) from pg_stat_activity a where a.backend_type = 'client backend')  as "connections!",
       (select count(*) from pg_stat_activity a where a.backend_type = 'walsender')       as "standbys!"
  from pg_catalog.pg_database d
 cross join pg_catalog.pg_roles r
 where d.datname = current_database()
   and r.rolname = current_user
