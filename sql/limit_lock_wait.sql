-- Intent: a commit that waits for a lock waits $1 at most: a batch hardly at all, a row of its own longer.
-- Locks:  none.
-- Index:  none.
select set_config('lock_timeout', $1::text, true) as "lock_timeout!"
