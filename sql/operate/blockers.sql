-- Intent: what keeps vacuum from removing dead rows, and for how long it has.
-- Locks:  none.
-- Index:  none.
select b.kind                                             as "kind!",
       b.name                                             as "name!",
       b.role,
       b.application,
       b.state,
       extract(epoch from now() - b.since)::float8        as age_seconds,
       coalesce(b.xmin_age, 0)                            as "xmin_age!",
       b.what_to_do                                       as "what_to_do!"
  from david.v_blockers b
 order by b.xmin_age desc
 limit 50
