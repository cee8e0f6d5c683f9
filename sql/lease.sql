-- Intent: lease up to $1 due rows for the replica $2, the longest due first, and up to $4 owed cancels,
--         which overtake. $3 is the lease in microseconds. A lease pushes due_at into the future, which
--         is the visibility timeout, bumps the fence and counts a lapse that the commit takes back.
--         A row's due_at is when it was due, none for a cancel that only overtook.
--         $5 is a low-water mark (microseconds of the epoch): the index below it holds what was leased a
--         moment ago, dead entries which a long snapshot keeps. The caller sweeps from zero every second.
-- Locks:  the leased task rows, for update; rows locked by anybody else are skipped, so this
--         statement never waits.
-- Index:  mcp_action_tasks_due and mcp_action_tasks_cancelling to choose, exactly once; the primary key
--         to write.
with due as materialized (
    select d.id, d.due_at
      from david.mcp_action_tasks d
     where d.phase <> 'finalised'
       and d.due_at <= now()
       and d.due_at >= timestamptz 'epoch' + $5::bigint * interval '1 microsecond'
       and d.lapses < 2
     order by d.due_at
     limit $1::bigint
       for update skip locked
), cancels as materialized (
    select d.id
      from david.mcp_action_tasks d
     where d.phase = 'cancelling'
       and d.due_at <= now()
       and d.lapses < 2
     order by d.due_at
     limit $4::bigint
       for update skip locked
), leased as (
    update david.mcp_action_tasks t
       set due_at     = now() + $3::bigint * interval '1 microsecond',
           fence      = t.fence + 1,
           lapses     = t.lapses + 1,
           leased_by  = $2::uuid,
           updated_at = now()
     where t.id = any (array(select id from due) || array(select id from cancels))
 returning t.id, t.fence
)
select l.id                                          as "id!",
       l.fence                                       as "fence!",
       (extract(epoch from now()) * 1000000)::bigint as "now!",
       (extract(epoch from d.due_at) * 1000000)::bigint as "due_at?"
  from leased l
  left join due d on d.id = l.id
