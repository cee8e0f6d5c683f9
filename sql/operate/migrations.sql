-- Intent: which migrations this database has, whether each went through, and the hash of what was applied.
-- Locks:  none.
-- Index:  primary key.
select m.version as "version!", m.success as "success!", m.checksum as "checksum!"
  from david._sqlx_migrations m
 order by m.version
