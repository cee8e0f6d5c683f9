-- Intent: first step of a commit: keep these Runs from being cancelled until it is done, and read
--         whether they are already.
-- Locks:  the Runs, for share, in id order. A Run somebody else is changing is skipped: its rows
--         leave the batch and are committed one by one (lock_run.sql).
-- Index:  primary key.
select r.id                                                    as "id!",
       (r.cancelled_at is not null or r.status = 'cancelled')  as "cancelled!"
  from david.runs r
 where r.id = any ($1::text[])
 order by r.id
   for share skip locked
