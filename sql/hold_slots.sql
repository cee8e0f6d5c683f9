-- Intent: one transaction at a time hands out slots of these servers, until its COMMIT. Others wait, for as long as
--         a batch takes to commit, or until lock_timeout.
-- Locks:  an advisory lock per server, in one order.
-- Index:  none.
select pg_advisory_xact_lock(1684104036, k.key)::text as "locked?"
  from (select distinct hashtext(w.registration_id) as key
          from unnest($1::text[]) as w (registration_id)
         order by 1) k
