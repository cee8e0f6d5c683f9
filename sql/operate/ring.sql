-- Intent: ring the bell that david.wake_workers() rings, as any role may, to hear whether it is heard.
-- Locks:  none.
-- Index:  none.
select pg_notify('david_tasks', '')::text as rung
