-- Intent: was this database ever migrated?
-- Locks:  none.
-- Index:  catalogue.
select to_regclass('david._sqlx_migrations') is not null as "recorded!"
