-- Intent: make an Action due now. $1 Action, $2 reason, $3 the person behind a shared login. Whether that changed anything.
-- Locks:  those of the function (migration 0008).
-- Index:  the function's.
select david.retry_now($1, $2, $3) as "changed!"
