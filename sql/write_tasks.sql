-- Intent: fourth step of a commit: the new state of every row, as the transition says. All rows are
--         locked and were compared; the fence is compared once more, since a write without it
--         must not exist.
-- Locks:  none beyond those held.
-- Index:  primary key.
update david.mcp_action_tasks t
   set phase             = w.phase,
       due_at            = now() + w.due_in * interval '1 microsecond',
       fence             = w.fence,
       call_fence        = w.call_fence,
       lapses            = 0,
       leased_by         = case when w.kept then t.leased_by end,
       remote_task_id    = w.remote_task_id,
       remote_status     = w.remote_status,
       remote_expires_at = timestamptz 'epoch' + w.remote_expires_at * interval '1 microsecond',
       remote_ttl_ms     = w.remote_ttl_ms,
       poll_interval_ms  = w.poll_interval_ms,
       attempt           = w.attempt,
       polls             = w.polls,
       last_polled_at    = case when w.polled then now() else t.last_polled_at end,
       last_error        = w.last_error,
       input_round       = w.input_round,
       outcome           = w.outcome,
       call_slot         = w.call_slot,
       finalised_at      = case when w.phase = 'finalised' then coalesce(t.finalised_at, now()) end,
       updated_at        = now()
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
              $7::bool[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[],
              $13::int[], $14::int[], $15::bool[], $16::text[], $17::int[], $18::text[], $19::int[])
    as w (id, guard, phase, due_in, fence, call_fence,
          kept, remote_task_id, remote_status, remote_expires_at, remote_ttl_ms, poll_interval_ms,
          attempt, polls, polled, last_error, input_round, outcome, call_slot)
 where t.id = w.id
   and t.fence = w.guard
