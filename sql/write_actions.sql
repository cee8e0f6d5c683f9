-- Intent: the Actions that begin or end with this commit. An Action that Core ended itself stays
--         as Core left it.
-- Locks:  none beyond those held.
-- Index:  primary key.
update david.actions a
   set status       = w.status,
       processed_at = case when w.status = 'processing' then a.processed_at else now() end
  from unnest($1::text[], $2::text[]) as w (id, status)
 where a.id = w.id
   and a.status not in ('completed', 'failed', 'expired', 'cancelled')
