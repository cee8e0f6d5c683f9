-- Intent: cancel a Run as Core does. $1 is the Run. Whether this call did.
-- Locks:  the Run, then its Actions (migration 0002).
-- Index:  primary key.
select david.cancel_run($1) as "changed!"
