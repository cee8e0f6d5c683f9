-- Intent: as lock_actions.sql for one row, waiting.
-- Locks:  the Action, for no key update.
-- Index:  primary key.
select a.id as "id!"
  from david.actions a
 where a.id = any ($1::text[])
 order by a.id
   for no key update
