-- Intent: as lock_runs.sql for one row, waiting for whoever changes the Run.
-- Locks:  the Run, for share.
-- Index:  primary key.
select r.id                                                    as "id!",
       (r.cancelled_at is not null or r.status = 'cancelled')  as "cancelled!"
  from david.runs r
 where r.id = any ($1::text[])
 order by r.id
   for share
