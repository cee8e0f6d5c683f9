-- What operators do: stop and start a server, wake, end or release rows, and throw old rows away. Each function
-- says who did it and why: in david.mcp_operator_log, and in the Action's own history where there is one. Each
-- may be called again with no further effect, and fails with a message that says what to do. SQLSTATEs as in
-- 0002, and one more:
--
--   DT001  the arguments make no sense
--   DT003  there is no such registration or Action
--   DT004  too late: it has ended
--   DT005  not now: a call may be on the wire

create table david.mcp_operator_log (
    id               bigint       generated always as identity primary key,
    at               timestamptz  not null default clock_timestamp(),
    function         text         not null,
    -- Who was logged in, and on whose behalf, as the caller says.
    login            text         not null default session_user,
    acting_for       text,
    reason           text         not null,
    action_id        varchar(64),
    registration_id  varchar(64),
    replica          uuid,
    rows_changed     bigint       not null
);

comment on table david.mcp_operator_log is 'What operators did, one line per call that changed something.';
comment on column david.mcp_operator_log.login is 'The session''s user, whatever role it has set.';
comment on column david.mcp_operator_log.acting_for is 'p_by: the person behind a login that several share, as the caller says.';

-- Ended Actions that were pruned stay ended: a submission that is repeated after months must not call again [1].
alter table david.actions add column pruned_at timestamptz;
comment on column david.actions.pruned_at is 'When david.prune deleted what david-tasks kept of it. Set by david.prune only.';

-- Retention's way to what was handed over.
create index tool_outputs_acknowledged on david.tool_outputs (acknowledged_at) where acknowledged_at is not null;

-- ---------------------------------------------------------------------------------------------
-- Who and why
-- ---------------------------------------------------------------------------------------------

-- One clause for an event's detail.
create function david.signed(p_by text, p_reason text) returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(btrim(p_reason), '') = '' then
        raise exception 'a reason must be given' using errcode = 'DT001', hint = 'Whoever reads the history will want to know it.';
    end if;
    if length(p_reason) > 500 or length(p_by) > 128 then
        raise exception 'the reason may have 500 characters at most, p_by 128; they have % and %', length(p_reason), coalesce(length(p_by), 0)
            using errcode = 'DT001';
    end if;
    return coalesce(nullif(btrim(p_by), ''), session_user) || ': ' || p_reason;
end
$$;

create function david.note(p_function text, p_by text, p_reason text, p_rows bigint,
                           p_action_id varchar default null, p_registration_id varchar default null, p_replica uuid default null)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    insert into david.mcp_operator_log (function, acting_for, reason, action_id, registration_id, replica, rows_changed)
    values (p_function, nullif(btrim(p_by), ''), p_reason, p_action_id, p_registration_id, p_replica, p_rows)
$$;

-- ---------------------------------------------------------------------------------------------
-- Servers
-- ---------------------------------------------------------------------------------------------

-- Nothing of this server is leased from now on. Rows stay as they are: what a replica holds it drops when it
-- next reads the registrations, and a call on the wire is waited for. (A fence would stop neither, and would
-- only throw away a reply that is in hand.) Whether this call was the one that paused it.
create function david.pause_registration(p_registration_id varchar, p_reason text, p_by text default null) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform david.signed(p_by, p_reason);
    if not exists (select from david.mcp_server_registrations g where g.id = p_registration_id) then
        raise exception 'registration % does not exist', quote_nullable(p_registration_id)
            using errcode = 'DT003', hint = 'select registration_id, registration_name from david.v_registration_health; lists them.';
    end if;

    insert into david.mcp_registration_health as h (registration_id, paused_at, paused_by, paused_reason)
    values (p_registration_id, now(), coalesce(nullif(btrim(p_by), ''), session_user), p_reason)
        on conflict (registration_id) do update
       set paused_at = excluded.paused_at, paused_by = excluded.paused_by, paused_reason = excluded.paused_reason,
           updated_at = now()
     where h.paused_at is null;
    if not found then
        return false;
    end if;

    perform david.note('pause_registration', p_by, p_reason, 1, p_registration_id => p_registration_id);
    return true;
end
$$;

comment on function david.pause_registration(varchar, text, text) is
    'Nothing of this server is leased until david.resume_registration. Deadlines go on. Returns whether this call paused it.';

-- Whether this call was the one that resumed it.
create function david.resume_registration(p_registration_id varchar, p_reason text, p_by text default null) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform david.signed(p_by, p_reason);
    update david.mcp_registration_health
       set paused_at = null, paused_by = null, paused_reason = null, updated_at = now()
     where registration_id = p_registration_id
       and paused_at is not null;
    if not found then
        if not exists (select from david.mcp_server_registrations g where g.id = p_registration_id)
           and not exists (select from david.mcp_registration_health h where h.registration_id = p_registration_id) then
            raise exception 'registration % does not exist', quote_nullable(p_registration_id)
                using errcode = 'DT003', hint = 'select registration_id, registration_name from david.v_registration_health; lists them.';
        end if;
        return false;
    end if;

    perform david.note('resume_registration', p_by, p_reason, 1, p_registration_id => p_registration_id);
    perform david.wake_workers();
    return true;
end
$$;

comment on function david.resume_registration(varchar, text, text) is
    'Ends a pause: what is due is leased at once. Returns whether this call ended it.';

-- ---------------------------------------------------------------------------------------------
-- One Action
-- ---------------------------------------------------------------------------------------------

-- Locks Run, Action and task, in this order, which is a commit's, and returns the task. A Run that was
-- cancelled where its canceller could not see the task is repaired first [6] [7].
create function david.hold_action(p_action_id varchar) returns david.mcp_action_tasks
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_action     record;
    v_cancelled  boolean;
    v_task       david.mcp_action_tasks;
begin
    select a.run_id, a.pruned_at into v_action from david.actions a where a.id = p_action_id;
    if not found then
        raise exception 'Action % does not exist', quote_nullable(p_action_id) using errcode = 'DT003';
    end if;

    select r.cancelled_at is not null or r.status = 'cancelled' into v_cancelled
      from david.runs r where r.id = v_action.run_id for share;
    if v_cancelled then
        perform david.cancel_actions_of_run(v_action.run_id);
    end if;
    perform 1 from david.actions a where a.id = p_action_id for no key update;
    select t.* into v_task from david.mcp_action_tasks t where t.action_id = p_action_id for update;

    if not found then
        if v_action.pruned_at is not null then
            raise exception 'Action % has ended, and was pruned at %', p_action_id, v_action.pruned_at using errcode = 'DT004';
        end if;
        raise exception 'Action % has no remote work', p_action_id
            using errcode = 'DT003', hint = 'It is no MCP Action, or Core deleted it just now.';
    end if;
    return v_task;
end
$$;

create function david.tell_of_operator(p_task david.mcp_action_tasks, p_event text, p_transition text, p_detail text) returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    insert into david.mcp_task_events
           (task_id, action_id, run_id, registration_id, tool_call_id, provider_name, event, transition, phase, outcome, fence, detail)
    select p_task.id, a.id, a.run_id, p_task.registration_id, a.tool_call_id, a.tool_name, p_event, p_transition,
           p_task.phase, p_task.outcome, p_task.fence, p_detail
      from david.actions a
     where a.id = p_task.action_id
$$;

-- Makes an Action due now, as if it had never failed. Whether that changed anything.
create function david.retry_now(p_action_id varchar, p_reason text, p_by text default null) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_detail  text := david.signed(p_by, p_reason);
    v_task    david.mcp_action_tasks;
    v_health  record;
begin
    v_task := david.hold_action(p_action_id);

    if v_task.phase = 'finalised' then
        raise exception 'Action % has ended: %', p_action_id, v_task.outcome
            using errcode = 'DT004', hint = 'An Action ends once. To do the work again, submit a new Action.';
    end if;
    if v_task.phase = 'calling' then
        raise exception 'Action % is being called', p_action_id
            using errcode = 'DT005',
                  hint = format('A call is never made twice. It ends by itself after %s at the latest; david.fail_action ends it now.', v_task.due_at);
    end if;

    select h.paused_at, h.open_until into v_health
      from david.mcp_registration_health h where h.registration_id = v_task.registration_id;
    if v_health.paused_at is not null then
        raise notice 'the server of Action % is paused; nothing happens before david.resume_registration(%, …)',
                     p_action_id, quote_literal(v_task.registration_id);
    elsif v_health.open_until > now() then
        raise notice 'the circuit breaker of the server of Action % is open until %', p_action_id, v_health.open_until;
    end if;

    if v_task.due_at <= now() and v_task.attempt = 0 and v_task.lapses = 0 and v_task.leased_by is null then
        return false;
    end if;

    -- [7] A change from outside bumps the fence, or a held lease's release would overwrite the wake-up.
    update david.mcp_action_tasks
       set due_at = now(), fence = fence + 1, attempt = 0, lapses = 0, leased_by = null, updated_at = now()
     where id = v_task.id
 returning * into v_task;
    perform david.tell_of_operator(v_task, 'MCP_TASK_RECOVERED', 'retry_now', v_detail);
    perform david.note('retry_now', p_by, p_reason, 1, p_action_id => p_action_id);
    return true;
end
$$;

comment on function david.retry_now(varchar, text, text) is
    'Makes an unfinished Action due now and forgets its failures. Not while it is being called (DT005). Returns whether that changed anything.';

-- Ends an Action as failed. Its outcome is `quarantined`: taken out by a decision of ours, whatever its server
-- would have said. Whether this call ended it.
create function david.fail_action(p_action_id varchar, p_reason text, p_by text default null) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_detail  text := david.signed(p_by, p_reason);
    v_task    david.mcp_action_tasks;
begin
    v_task := david.hold_action(p_action_id);

    if v_task.outcome is not null then
        if v_task.outcome = 'quarantined'
           and exists (select from david.mcp_task_events e where e.action_id = p_action_id and e.transition = 'fail_action') then
            return false;
        end if;
        raise exception 'Action % has ended: %', p_action_id, v_task.outcome
            using errcode = 'DT004',
                  hint = case v_task.phase when 'cancelling' then 'Only a remote cancel is owed; david.give_up_cancel gives that up.'
                                           else 'An Action ends once.' end;
    end if;

    update david.mcp_action_tasks
       set phase        = case when remote_task_id is null then 'finalised' else 'cancelling' end,
           finalised_at = case when remote_task_id is null then now() end,
           outcome      = 'quarantined',
           fence        = fence + 1,
           due_at       = now(),
           attempt      = 0,
           lapses       = 0,
           leased_by    = null,
           last_error   = 'An operator ended it; ' || v_detail,
           updated_at   = now()
     where id = v_task.id
 returning * into v_task;

    -- An Action that Core ended itself stays as Core left it.
    update david.actions
       set status = 'failed', processed_at = now()
     where id = p_action_id
       and status not in ('completed', 'failed', 'expired', 'cancelled');

    -- The envelope of docs/envelopes, as the reconciler writes it. The reason is for operators, not for the model.
    insert into david.tool_outputs (action_id, outcome, is_error, envelope)
    select a.id, 'quarantined', true,
           ('{"version":1,"action_id":' || to_json(a.id::text) || ',"tool_call_id":' || to_json(coalesce(a.tool_call_id, '')::text)
            || ',"tool_name":' || to_json(a.tool_name::text)
            || ',"is_error":true,"outcome":"quarantined","content":[],"error":{"kind":"quarantined","message":"An operator ended the Action.","source":"local"}}')::json
      from david.actions a
     where a.id = p_action_id
        on conflict (action_id) do nothing;

    perform david.tell_of_operator(v_task, 'MCP_TASK_FAILED', 'fail_action', v_detail);
    if v_task.phase = 'cancelling' then
        perform david.tell_of_operator(v_task, 'MCP_TASK_CANCEL_REQUESTED', 'fail_action', v_detail);
    end if;
    perform david.note('fail_action', p_by, p_reason, 1, p_action_id => p_action_id);
    return true;
end
$$;

comment on function david.fail_action(varchar, text, text) is
    'Ends an unfinished Action as failed (outcome quarantined), with one output, and has its remote task cancelled. Returns whether this call ended it.';

-- Ends a row whose remote cancel does not get through, or that cannot be leased without harm. Whether this
-- call ended it.
create function david.give_up_cancel(p_action_id varchar, p_reason text, p_by text default null) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_detail  text := david.signed(p_by, p_reason);
    v_task    david.mcp_action_tasks;
begin
    v_task := david.hold_action(p_action_id);

    if v_task.phase = 'finalised' then
        return false;
    end if;
    if v_task.phase <> 'cancelling' then
        raise exception 'Action % owes no cancel: it is %', p_action_id, v_task.phase
            using errcode = 'DT001', hint = 'david.fail_action ends an Action that has not ended.';
    end if;

    update david.mcp_action_tasks
       set phase = 'finalised', finalised_at = now(), fence = fence + 1, due_at = now(), leased_by = null,
           last_error = 'An operator gave its cancel up; ' || v_detail, updated_at = now()
     where id = v_task.id
 returning * into v_task;
    perform david.tell_of_operator(v_task, 'MCP_TASK_CANCELLED', 'give_up_cancel', v_detail);
    perform david.note('give_up_cancel', p_by, p_reason, 1, p_action_id => p_action_id);
    return true;
end
$$;

comment on function david.give_up_cancel(varchar, text, text) is
    'Finalises a row in cancelling without a remote cancel; the remote task may run on. Its outcome stays. Returns whether this call did.';

-- ---------------------------------------------------------------------------------------------
-- A replica
-- ---------------------------------------------------------------------------------------------

-- Takes a replica's leases away: its rows are due at once, and what it still writes is refused by the fence.
-- Whatever it had seen of them the next poll sees again. Not so a call: a row in calling stays, and lapses by
-- itself [1]. The lapse of each lease stays counted, since nobody knows which row stopped the replica [16].
create function david.release_leases(p_replica uuid, p_reason text, p_by text default null, p_limit integer default 10000) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_detail  text := david.signed(p_by, p_reason);
    v_rows    bigint;
    v_calls   bigint;
begin
    if p_replica is null then
        raise exception 'p_replica must be named' using errcode = 'DT001', hint = 'select replica from david.v_leases; lists them.';
    end if;
    if p_limit is null or p_limit not between 1 and 100000 then
        raise exception 'p_limit must be between 1 and 100000, not %', coalesce(p_limit::text, 'null') using errcode = 'DT001';
    end if;

    with held as (
        select t.id
          from david.mcp_action_tasks t
         where t.id = any (array(
                   select l.id
                     from david.mcp_action_tasks l
                    where l.phase <> 'finalised' and l.phase <> 'calling'
                      and l.leased_by = p_replica
                    limit p_limit))
           -- Once more, of the row as it is when it is locked.
           and t.leased_by = p_replica
           and t.phase not in ('calling', 'finalised')
         order by t.id
           for update skip locked
    ), released as (
        update david.mcp_action_tasks t
           set due_at = now(), fence = t.fence + 1, leased_by = null, updated_at = now()
          from held h
         where t.id = h.id
     returning t.*
    ), told as (
        insert into david.mcp_task_events
               (task_id, action_id, run_id, registration_id, tool_call_id, provider_name, event, transition, phase, outcome, fence, detail)
        select r.id, a.id, a.run_id, r.registration_id, a.tool_call_id, a.tool_name, 'MCP_TASK_RECOVERED', 'release_leases',
               r.phase, r.outcome, r.fence, v_detail
          from released r
          join david.actions a on a.id = r.action_id
    )
    select count(*) into v_rows from released;

    select count(*) into v_calls
      from david.mcp_action_tasks t
     where t.phase <> 'finalised' and t.phase = 'calling' and t.leased_by = p_replica;
    if v_calls > 0 then
        raise notice '% rows of replica % are in calling and stay: their calls may be on the wire; they lapse by themselves', v_calls, p_replica;
    end if;
    if v_rows > 0 then
        perform david.note('release_leases', p_by, p_reason, v_rows, p_replica => p_replica);
    end if;
    return v_rows;
end
$$;

comment on function david.release_leases(uuid, text, text, integer) is
    'Takes up to p_limit leases from a replica that hangs or is gone; rows in calling stay. Returns how many; call it again until 0.';

-- ---------------------------------------------------------------------------------------------
-- Retention
-- ---------------------------------------------------------------------------------------------

-- Deletes up to p_batch of each: tasks (with their questions and arguments) that were finalised longer ago than
-- p_finalised_before, outputs that were acknowledged longer ago, and history as old whose task is gone. Waits
-- for nobody: what is locked is left for the next call. Runs and Actions are Core's; an Action that was
-- pruned remembers it.
create function david.prune(p_finalised_before interval, p_batch integer default 1000,
                            p_outputs text default 'acknowledged', p_reason text default 'retention', p_by text default null)
    returns table (tasks bigint, outputs bigint, events bigint)
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
declare
    v_before   timestamptz := now() - p_finalised_before;
    v_actions  varchar[];
begin
    perform david.signed(p_by, p_reason);
    if p_finalised_before is null or p_finalised_before <= interval '0' then
        raise exception 'p_finalised_before must be more than zero, not %', coalesce(p_finalised_before::text, 'null')
            using errcode = 'DT001', hint = 'Pass how long to keep what has ended, such as interval ''30 days''.';
    end if;
    if p_batch is null or p_batch not between 1 and 100000 then
        raise exception 'p_batch must be between 1 and 100000, not %', coalesce(p_batch::text, 'null') using errcode = 'DT001';
    end if;
    if p_outputs is null or p_outputs not in ('acknowledged', 'all') then
        raise exception 'p_outputs must be ''acknowledged'' or ''all'', not %', quote_nullable(p_outputs)
            using errcode = 'DT001',
                  hint = 'all also deletes outputs that nobody acknowledged: for a Core that reads them where they stand.';
    end if;

    -- Action before task, each by id, as everybody.
    v_actions := array(
        select l.id
          from david.actions l
         where l.id = any (array(
                   select c.action_id
                     from david.outcomes_there_are() k
                    cross join lateral (
                          select t.action_id, t.finalised_at
                            from david.mcp_action_tasks t
                           where t.phase = 'finalised'
                             and t.outcome = k.outcome
                             and t.finalised_at < v_before
                           order by t.finalised_at
                           limit p_batch) c
                    order by c.finalised_at
                    limit p_batch))
         order by l.id
           for no key update skip locked);
    v_actions := array(
        select t.action_id
          from david.mcp_action_tasks t
         where t.action_id = any (v_actions)
           and t.phase = 'finalised'
         order by t.id
           for update skip locked);
    delete from david.mcp_action_tasks t where t.action_id = any (v_actions);
    get diagnostics tasks = row_count;
    delete from david.mcp_action_calls c where c.action_id = any (v_actions);
    update david.actions a set pruned_at = now() where a.id = any (v_actions);

    delete from david.tool_outputs o
     where o.id = any (array(
               select d.id
                 from david.tool_outputs d
                where d.acknowledged_at < v_before
                order by d.acknowledged_at
                limit p_batch
                  for update skip locked));
    get diagnostics outputs = row_count;
    if p_outputs = 'all' and outputs < p_batch then
        declare
            v_more bigint;
        begin
            delete from david.tool_outputs o
             where o.id = any (array(
                       select d.id
                         from david.tool_outputs d
                        where d.created_at < v_before
                          and not exists (select from david.mcp_action_tasks t where t.action_id = d.action_id and t.phase <> 'finalised')
                        order by d.id
                        limit p_batch - outputs
                          for update skip locked));
            get diagnostics v_more = row_count;
            outputs := outputs + v_more;
        end;
    end if;

    delete from david.mcp_task_events e
     where e.id = any (array(
               select d.id
                 from david.mcp_task_events d
                where d.at < v_before
                  and not exists (select from david.mcp_action_tasks t where t.id = d.task_id)
                order by d.id
                limit p_batch
                  for update skip locked));
    get diagnostics events = row_count;

    if tasks + outputs + events > 0 then
        perform david.note('prune', p_by, p_reason, tasks + outputs + events);
    end if;
    return next;
end
$$;

comment on function david.prune(interval, integer, text, text, text) is
    'Deletes up to p_batch each of tasks finalised, outputs acknowledged and history older than that. Call it again until all three are 0. p_outputs ''all'' also deletes outputs that nobody acknowledged.';

-- As in 0001, and a pruned Action is refused: its task is gone, and it would be called a second time [1].
create or replace function david.place_task() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_cancelled  boolean;
    v_run_id     varchar;
    v_pruned_at  timestamptz;
begin
    select a.run_id into v_run_id from david.actions a where a.id = new.action_id;

    select r.cancelled_at is not null or r.status = 'cancelled'
      into v_cancelled
      from david.runs r
     where r.id = v_run_id
       for share;

    if not found then
        raise exception 'Action % does not exist', new.action_id
            using errcode = 'foreign_key_violation',
                  hint = 'Insert its Run and the Action first, or call david.submit_action.';
    end if;

    -- Held, or a prune under way would be overlooked.
    select a.pruned_at into v_pruned_at from david.actions a where a.id = new.action_id for share;
    if v_pruned_at is not null then
        raise exception 'Action % has ended, and was pruned at %', new.action_id, v_pruned_at
            using errcode = 'DT004', hint = 'Use a new Action id for a new call; nothing was changed.';
    end if;

    if new.phase <> (case when new.remote_task_id is null then 'queued' else 'working' end) then
        raise exception 'a task cannot be inserted in phase %', new.phase
            using errcode = 'check_violation',
                  hint = 'Insert it as queued, or as working with the remote_task_id of a task to adopt.';
    end if;

    if new.remote_task_id is null
       and not exists (select from david.mcp_action_calls c where c.action_id = new.action_id) then
        raise exception 'Action % has no row in mcp_action_calls', new.action_id
            using errcode = 'foreign_key_violation',
                  hint = 'Insert what to call first, or call david.submit_action.';
    end if;

    if v_cancelled then
        new.outcome := 'run_cancelled';
        if new.remote_task_id is null then
            new.phase        := 'finalised';
            new.finalised_at := now();
        else
            new.phase := 'cancelling';
        end if;
    end if;

    return new;
end
$$;

-- Who may call what is said in 0010.
revoke all on function david.signed(text, text), david.note(text, text, text, bigint, varchar, varchar, uuid),
    david.pause_registration(varchar, text, text), david.resume_registration(varchar, text, text), david.hold_action(varchar),
    david.tell_of_operator(david.mcp_action_tasks, text, text, text), david.retry_now(varchar, text, text),
    david.fail_action(varchar, text, text), david.give_up_cancel(varchar, text, text),
    david.release_leases(uuid, text, text, integer),
    david.prune(interval, integer, text, text, text) from public;
