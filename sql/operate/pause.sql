-- Intent: stop a server. $1 registration, $2 reason, $3 the person behind a shared login. Whether this call did.
-- Locks:  those of the function (migration 0008).
-- Index:  the function's.
select david.pause_registration($1, $2, $3) as "changed!"
