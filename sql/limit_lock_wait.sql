-- Intent: a commit that waits for a lock waits bounded; after that the row is tried again later.
-- Locks:  none.
-- Index:  none.
set local lock_timeout = '5s'
