-- Intent: one batch of retention. $1 is how long to keep what has ended, in microseconds; $2 rows of each kind at
--         most, $3 which outputs, $4 reason, $5 the person behind a shared login.
-- Locks:  those of the function (migration 0008), which waits for nobody.
-- Index:  the function's.
select p.tasks as "tasks!", p.outputs as "outputs!", p.events as "events!"
  from david.prune($1::bigint * interval '1 microsecond', $2, $3, $4, $5) p
