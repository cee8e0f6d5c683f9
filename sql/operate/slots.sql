-- Intent: replication slots that nobody reads, and how much WAL each keeps.
-- Locks:  none.
-- Index:  none.
select s.slot_name::text as "name!",
       case when pg_is_in_recovery() then null
            else pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::bigint end as kept_bytes
  from pg_catalog.pg_replication_slots s
 where not s.active
   and s.restart_lsn is not null
