-- Intent: which migrations this database has.
-- Locks:  none.
-- Index:  primary key.
select version as "version!", success as "success!"
  from david._sqlx_migrations
 order by version
