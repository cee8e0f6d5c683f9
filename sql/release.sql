-- Intent: give leased rows back untouched: due at once, fence and counters as they were.
-- Locks:  the rows, for update, in id order; a locked one is being changed by somebody who bumps
--         the fence, and is skipped. Never a row in calling: a call may be on the wire [1].
-- Index:  primary key.
update david.mcp_action_tasks t
   set due_at = clock_timestamp(), lapses = greatest(t.lapses - 1, 0), leased_by = null, updated_at = now()
  from (
        select d.id
          from david.mcp_action_tasks d
          join unnest($1::bigint[], $2::bigint[]) as w (id, fence) on w.id = d.id and w.fence = d.fence
         where d.phase not in ('calling', 'finalised')
         order by d.id
           for update of d skip locked
       ) held
 where t.id = held.id
