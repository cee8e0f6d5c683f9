-- Intent: the database's clock, in microseconds of the epoch.
-- Locks:  none.
-- Index:  none.
select (extract(epoch from clock_timestamp()) * 1000000)::bigint as "micros!"
