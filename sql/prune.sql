-- Intent: throw away one batch ($2 of each kind) of what ended longer ago than $1 microseconds. One replica at a
--         time: whoever finds another at it does nothing, and comes again.
-- Locks:  an advisory lock until the end of the transaction, if it is free; what david.apply_retention deletes, for
--         update, skipping what is locked. It never waits.
-- Index:  mcp_action_tasks_ended, once per outcome.
with turn as materialized (
    select pg_try_advisory_xact_lock(hashtext('david.prune')) as mine
)
select p.tasks   as "tasks!",
       p.outputs as "outputs!",
       p.events  as "events!"
  from turn
 cross join lateral david.apply_retention($1::bigint * interval '1 microsecond', $2::integer) p
 where turn.mine
