-- Intent: can this server and database hold the ledger?
-- Locks:  none.
-- Index:  none.
select current_setting('server_version_num')::integer as "version_number!",
       current_setting('server_version')              as "version!",
       pg_encoding_to_char(d.encoding)::text          as "encoding!"
  from pg_catalog.pg_database d
 where d.datname = current_database()
