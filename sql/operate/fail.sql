-- Intent: end an Action as failed. $1 Action, $2 reason, $3 the person behind a shared login. Whether this call did.
-- Locks:  those of the function (migration 0008).
-- Index:  the function's.
select david.fail_action($1, $2, $3) as "changed!"
