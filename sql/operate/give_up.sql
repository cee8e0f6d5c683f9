-- Intent: give a remote cancel up. $1 Action, $2 reason, $3 the person behind a shared login. Whether this call did.
-- Locks:  those of the function (migration 0008).
-- Index:  the function's.
select david.give_up_cancel($1, $2, $3) as "changed!"
