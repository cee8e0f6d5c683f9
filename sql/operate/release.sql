-- Intent: take leases away from a replica. $1 replica, $2 reason, $3 the person behind a shared login, $4 rows at most. How many.
-- Locks:  those of the function (migration 0008).
-- Index:  the function's.
select david.release_leases($1, $2, $3, $4) as "rows!"
