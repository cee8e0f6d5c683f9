-- Intent: how many replicas have a lease that has not lapsed.
-- Locks:  none.
-- Index:  those of v_leases.
select count(*) filter (where l.lapsed < l.leases) as "alive!" from david.v_leases l
