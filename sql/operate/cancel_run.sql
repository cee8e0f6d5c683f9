-- Intent: cancel a Run. $1 Run, $2 reason, $3 the person behind a shared login. Whether this call did.
-- Locks:  the Run, then its Actions (migration 0011).
-- Index:  primary key.
select david.cancel_run($1, $2, $3) as "changed!"
