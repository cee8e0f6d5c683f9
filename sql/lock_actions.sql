-- Intent: second step of a commit that ends or begins Actions.
-- Locks:  the Actions, for no key update, in id order; locked ones are skipped like Runs.
-- Index:  primary key.
select a.id as "id!"
  from david.actions a
 where a.id = any ($1::text[])
 order by a.id
   for no key update skip locked
