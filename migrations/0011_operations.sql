-- What a review of the operators' side found:
--
--   what servers said reached everybody who may call the views' functions;
--   an operator cancelled a Run by writing into Core's table, without saying why;
--   retention read the whole history each time, and filled the operators' log;
--   a breaker could only be waited for, not closed.
--
-- The owner of a second set of roles calls david.set_up_roles('prefix') once more (docs/upgrading.md).

-- Whoever cannot have a table within this time lets the others go on, and is tried again.
set local lock_timeout = '10s';

-- ---------------------------------------------------------------------------------------------
-- What servers said leaves through views only, which know who reads them
-- ---------------------------------------------------------------------------------------------

-- A view is replaced, with its comments and grants; the function under it gives its name to one that has no
-- last_error.
alter function david.stuck() rename to stuck_0007;
alter function david.registration_health() rename to registration_health_0007;
alter function david.cancelling() rename to cancelling_0007;

create function david.stuck()
    returns table (action_id varchar, run_id varchar, registration_id varchar, registration_name varchar, phase text,
                   reason text, explanation text, what_to_do text, since timestamptz, due_at timestamptz, attempt integer,
                   lapses integer, execution_deadline timestamptz)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set enable_seqscan = off
as $$
    with overdue as materialized (
        select r.id
          from (select * from david.lanes() l where l.oldest_due_at < now() - interval '2 minutes' order by l.oldest_due_at limit 500) l
         cross join lateral (
               select t.id
                 from david.mcp_action_tasks t
                where t.phase <> 'finalised'
                  and t.registration_id collate "C" = l.registration_id
                  and t.phase collate "C" = l.phase
                  and t.due_at < now() - interval '2 minutes'
                order by t.due_at
                limit 10) r
         limit 500
    ), candidate as materialized (
        select o.id from overdue o
         union
        (select t.id from david.mcp_action_tasks t
          where t.phase <> 'finalised' and t.lapses >= 2 order by t.due_at limit 500)
         union
        (select t.id from david.mcp_action_tasks t
          where t.phase <> 'finalised' and t.attempt >= 5 order by t.attempt desc limit 500)
         union
        -- Whatever was put off for longer than a poll is ever put off.
        (select f.id
           from (select t.id, t.phase, t.due_at from david.mcp_action_tasks t
                  where t.phase <> 'finalised' order by t.due_at desc limit 1000) f
          where f.due_at > now() + interval '1 hour' and f.phase <> 'input_required'
          order by f.due_at desc
          limit 100)
         union
        (select w.id
           from (select t.id, t.input_round from david.mcp_action_tasks t
                  where t.phase = 'input_required' order by t.due_at limit 2000) w
          where exists (select
                          from david.mcp_input_requests i
                         where i.task_id = w.id and i.round = w.input_round and i.state = 'pending'
                           and i.created_at < now() - interval '1 hour')
          limit 100)
    ), judged as (
        select t.*, h.paused_at, h.paused_by, h.paused_reason, h.open_until, h.trips, g.name, g.enabled, g.id is null as deleted,
               -- A lease counts a lapse that its end takes back.
               t.lapses - (case when t.leased_by is not null and t.due_at > now() then 1 else 0 end) as lapsed,
               q.asked_at,
               case when t.due_at < now() - interval '2 minutes' and h.paused_at is not null then 'paused'
                    when t.due_at < now() - interval '2 minutes' and h.open_until > now() then 'server_down'
                    when t.due_at < now() - interval '2 minutes' and t.phase = 'calling' then 'call_lost'
                    when t.due_at < now() - interval '2 minutes' then 'not_leased'
                    when t.lapses - (case when t.leased_by is not null and t.due_at > now() then 1 else 0 end) >= 2 then 'lapsing'
                    when t.attempt >= 5 then 'failing'
                    when q.asked_at < now() - interval '1 hour' then 'unanswered'
                    when t.due_at > now() + interval '1 hour' and t.phase <> 'input_required' then 'put_off'
               end as reason
          from candidate c
          join david.mcp_action_tasks t on t.id = c.id
          left join david.mcp_registration_health h on h.registration_id = t.registration_id
          left join david.mcp_server_registrations g on g.id = t.registration_id
          left join lateral (
               select min(i.created_at) as asked_at
                 from david.mcp_input_requests i
                where t.phase = 'input_required'
                  and i.task_id = t.id and i.round = t.input_round and i.state = 'pending') q on true
    )
    select j.action_id, a.run_id, j.registration_id, j.name, j.phase, j.reason,
           case j.reason
               when 'paused' then format('%s paused this server at %s: %s', j.paused_by, date_trunc('second', j.paused_at), coalesce(j.paused_reason, 'no reason given'))
               when 'server_down' then format('The server failed too often: its circuit breaker is open until %s.', date_trunc('second', j.open_until))
               when 'call_lost' then 'A replica died while the call was on the wire, and nobody has leased the row since. Whether the tool ran is unknown.'
               when 'not_leased' then format('Due since %s, and no replica takes it.', date_trunc('second', j.due_at))
               when 'lapsing' then format('Its last %s leases ended without a commit: the row, or what its server answers, may kill replicas. It is leased alone.', j.lapsed)
               when 'failing' then format('The last %s tries in a row failed.', j.attempt)
               when 'unanswered' then format('The server asked for input at %s and nobody has answered.', date_trunc('second', j.asked_at))
               else format('Put off until %s, by the server or by hand.', date_trunc('second', j.due_at))
           end
           || case when j.execution_deadline <= now() and j.outcome is null then ' Its deadline has passed: the next lease ends it.' else '' end
           || case when j.deleted then ' Its registration is gone.' when not j.enabled then ' Its registration is disabled.' else '' end,
           case j.reason
               when 'paused' then format('select david.resume_registration(%L, ''why'');', j.registration_id)
               when 'server_down' then format('Repair the server: it is tried again by itself; at once: select david.resume_registration(%L, ''why''); ', j.registration_id) || g.giving_up
               when 'call_lost' then 'Start a replica: the next lease ends it as outcome_unknown, or calls again if it is idempotent.'
               when 'not_leased' then 'See that replicas run and reach the database: select * from david.v_leases; and whether the whole queue is late: select * from david.v_due_lag;'
               when 'lapsing' then 'Look for why replicas died in their logs. ' || g.giving_up
               when 'failing' then format('Read last_error; when the server is repaired: select david.retry_now(%L, ''why''); ', j.action_id) || g.giving_up
               when 'unanswered' then format('Core answers: select * from david.v_input_required where action_id = %L; then david.answer_input, as a member of david_core. ', j.action_id) || g.giving_up
               else format('To try at once: select david.retry_now(%L, ''why'');', j.action_id)
           end,
           case j.reason
               when 'lapsing' then j.updated_at
               when 'failing' then j.updated_at
               when 'unanswered' then j.asked_at
               when 'put_off' then j.updated_at
               else j.due_at
           end,
           j.due_at, j.attempt, j.lapsed, j.execution_deadline
      from judged j
      join david.actions a on a.id = j.action_id
     cross join lateral (
           select case j.phase
                      when 'cancelling' then format('To give its cancel up: select david.give_up_cancel(%L, ''why'');', j.action_id)
                      else format('To give it up: select david.fail_action(%L, ''why'');', j.action_id)
                  end as giving_up) g
     where j.reason is not null
$$;

create function david.registration_health()
    returns table (registration_id varchar, registration_name varchar, owner_id varchar, enabled boolean, breaker text,
                   open_until timestamptz, trips integer, paused_at timestamptz, paused_by text, paused_reason text,
                   requests bigint, failures bigint, latency_ms real, last_success_at timestamptz, last_failure_at timestamptz,
                   calls_in_flight bigint, call_slots_used bigint, max_calls integer)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
    select coalesce(g.id, h.registration_id), g.name, g.owner_id, g.enabled,
           case when coalesce(h.trips, 0) = 0 then 'closed' when h.open_until > now() then 'open' else 'half_open' end,
           h.open_until, coalesce(h.trips, 0), h.paused_at, h.paused_by, h.paused_reason,
           coalesce(h.requests, 0), coalesce(h.failures, 0), h.latency_ms, h.last_success_at, h.last_failure_at,
           c.calls, c.slots, g.max_calls
      from david.mcp_server_registrations g
      full join david.mcp_registration_health h on h.registration_id = g.id
     cross join lateral (
           select count(*) as calls, count(r.call_slot) as slots
             from (select t.call_slot
                     from david.mcp_action_tasks t
                    where t.phase <> 'finalised'
                      and t.registration_id collate "C" = coalesce(g.id, h.registration_id)
                      and t.phase collate "C" = 'calling'
                    limit 10000) r) c
$$;

create function david.cancelling()
    returns table (action_id varchar, run_id varchar, registration_id varchar, registration_name varchar, outcome text,
                   remote_task text, since timestamptz, due_at timestamptz, attempt integer, replica uuid)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set enable_seqscan = off
as $$
    select t.action_id, a.run_id, t.registration_id, g.name, t.outcome,
           'sha256:' || left(encode(t.remote_task_key, 'hex'), 12),
           e.at, t.due_at, t.attempt, t.leased_by
      from (select * from david.mcp_action_tasks t where t.phase = 'cancelling' order by t.due_at limit 1000) t
      join david.actions a on a.id = t.action_id
      left join david.mcp_server_registrations g on g.id = t.registration_id
      left join lateral (
           select e.at
             from david.mcp_task_events e
            where e.action_id = t.action_id and e.event = 'MCP_TASK_CANCEL_REQUESTED'
            order by e.id desc
            limit 1) e on true
     order by t.due_at
$$;

revoke all on function david.stuck(), david.registration_health(), david.cancelling() from public;

do $$
declare
    v_right record;
begin
    for v_right in
        select replace(p.proname, '_0007', '') as function, a.grantee::regrole::text as role
          from pg_proc p
         cross join lateral aclexplode(p.proacl) a
         where p.oid in ('david.stuck_0007()'::regprocedure, 'david.registration_health_0007()'::regprocedure,
                         'david.cancelling_0007()'::regprocedure)
           and a.grantee not in (0, p.proowner)
    loop
        execute format('grant execute on function david.%I() to %s', v_right.function, v_right.role);
    end loop;
end
$$;

create or replace view david.v_stuck as
select s.action_id, s.run_id, s.registration_id, s.registration_name, s.phase, s.reason, s.explanation, s.what_to_do,
       s.since, s.due_at, s.attempt, s.lapses, s.execution_deadline,
       case when (select has_table_privilege('david.mcp_task_events', 'select'))
            then (select t.last_error from david.mcp_action_tasks t where t.action_id = s.action_id) end as last_error
  from david.stuck() s;

create or replace view david.v_registration_health as
select h.registration_id, h.registration_name, h.owner_id, h.enabled, h.breaker, h.open_until, h.trips, h.paused_at, h.paused_by,
       h.paused_reason, h.requests, h.failures,
       round((1 - h.failures::numeric / nullif(h.requests, 0)), 4) as success_rate,
       h.latency_ms, h.last_success_at, h.last_failure_at,
       case when (select has_table_privilege('david.mcp_task_events', 'select'))
            then (select r.last_error from david.mcp_registration_health r where r.registration_id = h.registration_id) end as last_error,
       h.calls_in_flight, h.call_slots_used, h.max_calls
  from david.registration_health() h;

create or replace view david.v_cancelling as
select c.action_id, c.run_id, c.registration_id, c.registration_name, c.outcome, c.remote_task, c.since, c.due_at, c.attempt,
       c.replica,
       case when (select has_table_privilege('david.mcp_task_events', 'select'))
            then (select t.last_error from david.mcp_action_tasks t where t.action_id = c.action_id) end as last_error
  from david.cancelling() c;

drop function david.stuck_0007();
drop function david.registration_health_0007();
drop function david.cancelling_0007();

comment on column david.v_leases.calls is
    'Those of them with a tools/call that may be on the wire; never released by hand. Counted up to 2,000 per server when estimated.';
comment on column david.v_action.remote_status is 'What the server last said of it while it was held; how it ended is outcome.';
comment on view david.v_stuck is
    'Rows that do not get on, why, and what to do: up to 10 per server and phase that are overdue by two minutes (paused, server_down, call_lost, not_leased), and up to 500 of each other kind (lapsing: two leases in a row ended without a commit; failing: five tries in a row failed; unanswered: asked an hour ago; put_off: for more than an hour).';
comment on column david.v_registration_health.breaker is
    'closed: all is well; open: nothing is leased until open_until; half_open: one row at a time is tried, and after an hour without anything to try, all of them.';

-- ---------------------------------------------------------------------------------------------
-- The operators' log knows Runs
-- ---------------------------------------------------------------------------------------------

alter table david.mcp_operator_log add column run_id varchar(64);

drop function david.note(text, text, text, bigint, varchar, varchar, uuid);

create function david.note(p_function text, p_by text, p_reason text, p_rows bigint, p_action_id varchar default null,
                           p_registration_id varchar default null, p_replica uuid default null, p_run_id varchar default null)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    insert into david.mcp_operator_log (function, acting_for, reason, action_id, registration_id, replica, rows_changed, run_id)
    values (p_function, nullif(btrim(p_by), ''), p_reason, p_action_id, p_registration_id, p_replica, p_rows, p_run_id)
$$;

-- david.cancel_run(run) as an operator does it, who has no right to Core's tables and says why. Whether this call
-- was the one that cancelled it.
create function david.cancel_run(p_run_id varchar, p_reason text, p_by text default null) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_detail text := david.signed(p_by, p_reason);
    v_rows   bigint;
begin
    if not david.cancel_run(p_run_id) then
        return false;
    end if;

    -- The trigger told of it and knew neither who nor why. Nobody has read these lines yet.
    update david.mcp_task_events e
       set detail = v_detail
     where e.action_id = any (array(select a.id from david.actions a where a.run_id = p_run_id))
       and e.transition = 'cancel_run'
       and e.at >= transaction_timestamp();
    get diagnostics v_rows = row_count;
    perform david.note('cancel_run', p_by, p_reason, v_rows, p_run_id => p_run_id);
    return true;
end
$$;

comment on function david.cancel_run(varchar, text, text) is
    'Cancels a Run, for good, with its unfinished Actions; for operators. Returns whether this call did.';

-- ---------------------------------------------------------------------------------------------
-- Resuming closes the breaker, too
-- ---------------------------------------------------------------------------------------------

-- Whether this call changed anything.
create or replace function david.resume_registration(p_registration_id varchar, p_reason text, p_by text default null) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform david.signed(p_by, p_reason);
    update david.mcp_registration_health
       set paused_at = null, paused_by = null, paused_reason = null, trips = 0, open_until = null, opened_at = null,
           updated_at = now()
     where registration_id = p_registration_id
       and (paused_at is not null or trips > 0);
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
    'Ends a pause and closes the circuit breaker: what is due is leased at once. Returns whether that changed anything.';

-- ---------------------------------------------------------------------------------------------
-- Retention
-- ---------------------------------------------------------------------------------------------

-- Its way to old history, which otherwise is read from end to end.
create index if not exists mcp_task_events_at on david.mcp_task_events (at);

-- One batch, see david.prune. For the two functions below.
create function david.prune_batch(p_before timestamptz, p_batch integer, p_outputs text)
    returns table (tasks bigint, outputs bigint, events bigint)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
declare
    v_actions varchar[];
begin
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
                             and t.finalised_at < p_before
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
                where d.acknowledged_at < p_before
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
                        where d.created_at < p_before
                          and not exists (select from david.mcp_action_tasks t where t.action_id = d.action_id and t.phase <> 'finalised')
                        order by d.id
                        limit p_batch - outputs
                          for update skip locked));
            get diagnostics v_more = row_count;
            outputs := outputs + v_more;
        end;
    end if;

    -- The oldest first, by the index; each is asked for its task, whatever the planner thinks of that.
    delete from david.mcp_task_events e
     where e.id = any (array(
               select d.id
                 from david.mcp_task_events d
                where d.at < p_before
                  and not exists (select from david.mcp_action_tasks t where t.id = d.task_id offset 0)
                order by d.at
                limit p_batch
                  for update skip locked));
    get diagnostics events = row_count;

    -- What is known of servers that are gone.
    delete from david.mcp_registration_health h
     where h.updated_at < p_before
       and h.paused_at is null
       and not exists (select from david.mcp_server_registrations g where g.id = h.registration_id)
       and not exists (select
                         from david.mcp_action_tasks t
                        where t.phase <> 'finalised' and t.registration_id collate "C" = h.registration_id);
    return next;
end
$$;

create or replace function david.prune(p_finalised_before interval, p_batch integer default 1000,
                                       p_outputs text default 'acknowledged', p_reason text default 'retention', p_by text default null)
    returns table (tasks bigint, outputs bigint, events bigint)
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
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

    select b.tasks, b.outputs, b.events into tasks, outputs, events
      from david.prune_batch(now() - p_finalised_before, p_batch, p_outputs) b;
    if tasks + outputs + events > 0 then
        perform david.note('prune', p_by, p_reason, tasks + outputs + events);
    end if;
    return next;
end
$$;

-- The same by the worker itself, all the time: no operator did it, so the operators' log has nothing of it; and
-- it never takes what nobody acknowledged.
create function david.apply_retention(p_keep interval, p_batch integer)
    returns table (tasks bigint, outputs bigint, events bigint)
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if p_keep is null or p_keep <= interval '0' or p_batch is null or p_batch not between 1 and 100000 then
        raise exception 'p_keep must be more than zero and p_batch between 1 and 100000' using errcode = 'DT001';
    end if;
    return query select * from david.prune_batch(now() - p_keep, p_batch, 'acknowledged');
end
$$;

comment on function david.apply_retention(interval, integer) is
    'One batch of what ended longer ago than p_keep, as david.prune takes it; for the worker''s retention.';

-- ---------------------------------------------------------------------------------------------
-- Roles, as in 0010: an operator cancels with a reason, and the worker applies retention
-- ---------------------------------------------------------------------------------------------

create or replace function david.set_up_roles(p_prefix text default 'david_') returns setof text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_kind    text;
    v_role    text;
    v_grant   text;
    v_views   constant text := 'david.v_backlog, david.v_due_lag, david.v_leases, david.v_stuck, david.v_registration_health, '
                            || 'david.v_outcomes, david.v_cancelling, david.v_action, david.v_timeline, david.v_blockers, david.v_table_health';
    -- A view's functions are called with the rights of who reads it.
    v_readers constant text := 'david.backlog(), david.due_lag(), david.leases(), david.stuck(), david.registration_health(), '
                            || 'david.outcomes(), david.cancelling(), david.blockers(), david.table_health()';
    v_grants  text[];
    v_revoke  text;
    -- What an older level granted.
    v_revokes text[];
begin
    foreach v_kind in array array['core', 'worker', 'operator', 'viewer'] loop
        v_role := p_prefix || v_kind;
        if not exists (select from pg_roles r where r.rolname = v_role) then
            begin
                execute format('create role %I nologin', v_role);
            exception
                -- Somebody else, in another database of the cluster, was faster.
                when duplicate_object or unique_violation then
                    null;
                when insufficient_privilege then
                    raise notice 'role % is missing, and % may not create it', v_role, current_user
                        using hint = format('As a superuser: create role %I nologin; then, as the owner of schema david: select david.set_up_roles(%L);',
                                            v_role, p_prefix);
                    return next v_role;
                    continue;
            end;
        end if;

        v_grants := array['usage on schema david'] || case v_kind
            when 'core' then array[
                'select, insert, update, delete on david.runs, david.mcp_server_registrations',
                'select, insert, delete on david.actions',
                'update (id, run_id, tool_call_id, tool_name, turn_index, function_args, status, result, triggered_at, processed_at, is_processed) on david.actions',
                'select, insert on david.mcp_action_calls',
                -- Not the remote task's id, once it is there: it may be a secret of the worker and the server.
                'select (id, action_id, registration_id, phase, due_at, remote_status, remote_expires_at, polls, last_polled_at, last_error, input_round, execution_deadline, outcome, finalised_at, created_at, updated_at) on david.mcp_action_tasks',
                'insert (action_id, registration_id, phase, due_at, remote_task_id, remote_status, remote_expires_at, remote_ttl_ms, poll_interval_ms, execution_deadline) on david.mcp_action_tasks',
                'select on david.tool_outputs',
                'select on david.mcp_task_events',
                'select on david.v_input_required, david.v_action, david.v_timeline, david.v_stuck, david.v_registration_health',
                'execute on function david.stuck(), david.registration_health()',
                'execute on function david.remote_task_key(text)',
                'execute on function david.submit_action(varchar, varchar, varchar, varchar, varchar, json, varchar, integer, boolean, interval, text, timestamptz, text, text)',
                'execute on function david.cancel_run(varchar)',
                'execute on function david.answer_input(varchar, text, json)',
                'execute on function david.take_outputs(integer, interval), david.ack_outputs(varchar[])']
            when 'worker' then array[
                -- Of Runs it writes nothing; but a lock takes the right to update a column.
                'select, update (last_error) on david.runs',
                'select, update (status, processed_at) on david.actions',
                'select on david.mcp_server_registrations',
                'select, update (request_state) on david.mcp_action_calls',
                'select, update (phase, due_at, fence, call_fence, lapses, leased_by, remote_task_id, remote_status, remote_expires_at, remote_ttl_ms, poll_interval_ms, attempt, polls, last_polled_at, last_error, input_round, outcome, finalised_at, updated_at, call_slot) on david.mcp_action_tasks',
                'select, insert on david.tool_outputs',
                'select, insert, update (state, sent_at) on david.mcp_input_requests',
                'select, insert on david.mcp_task_events',
                'select, insert, update on david.mcp_registration_health',
                'select on ' || v_views || ', david.v_input_required, david.v_registrations',
                'execute on function ' || v_readers,
                'execute on function david.remote_task_key(text), david.cancel_actions_of_run(varchar), david.wake_workers(),
                                     david.apply_retention(interval, integer)']
            when 'operator' then array[
                'select on ' || v_views || ', david.v_input_required, david.v_registrations',
                'execute on function ' || v_readers,
                'select on david.mcp_task_events, david.mcp_operator_log',
                'execute on function david.pause_registration(varchar, text, text), david.resume_registration(varchar, text, text)',
                'execute on function david.retry_now(varchar, text, text), david.fail_action(varchar, text, text), david.give_up_cancel(varchar, text, text)',
                'execute on function david.release_leases(uuid, text, text, integer), david.prune(interval, integer, text, text, text)',
                'execute on function david.cancel_run(varchar, text, text)']
            else array[
                'select on ' || v_views,
                'select (action_id, run_id, registration_id, registration_name, tool_name, asked_by, round, state, asked_at, execution_deadline) on david.v_input_required',
                'execute on function ' || v_readers]
        end;
        if v_kind in ('worker', 'operator') and to_regclass('david._sqlx_migrations') is not null then
            -- Is the schema as new as the binary needs?
            v_grants := v_grants || 'select on david._sqlx_migrations'::text;
        end if;
        v_revokes := case v_kind
            when 'worker' then array['execute on function david.prune(interval, integer, text, text, text)']
            when 'operator' then array['execute on function david.cancel_run(varchar)',
                                       'select (id, status, cancelled_at), update (status, cancelled_at) on david.runs']
            else array[]::text[]
        end;
        foreach v_revoke in array v_revokes loop
            execute format('revoke %s from %I', v_revoke, v_role);
        end loop;
        foreach v_grant in array v_grants loop
            execute format('grant %s to %I', v_grant, v_role);
        end loop;
    end loop;
end
$$;

revoke all on function david.note(text, text, text, bigint, varchar, varchar, uuid, varchar), david.cancel_run(varchar, text, text),
    david.prune_batch(timestamptz, integer, text), david.apply_retention(interval, integer) from public;

select david.set_up_roles();
