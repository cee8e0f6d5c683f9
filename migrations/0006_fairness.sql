-- Fair and bounded: what a replica needs to lease from many servers without one of them standing in the
-- way of the others, and to be woken at once.

-- ---------------------------------------------------------------------------------------------
-- One row per server that was ever in trouble or was paused: shared by all replicas
-- ---------------------------------------------------------------------------------------------

create table david.mcp_registration_health (
    -- No foreign key: a registration may be deleted while its last rows end.
    registration_id  varchar(64)  primary key,
    -- The circuit breaker. How often it opened in a row; zero is closed.
    trips            integer      not null default 0,
    -- Nothing is leased until then; after that, one replica at a time leases one row to see.
    open_until       timestamptz,
    opened_at        timestamptz,
    -- What operators stopped. Nothing is leased until they resume.
    paused_at        timestamptz,
    paused_by        text,
    paused_reason    text,
    -- What replicas saw of it, added up every few seconds, for people.
    requests         bigint       not null default 0,
    failures         bigint       not null default 0,
    latency_ms       real,
    last_success_at  timestamptz,
    last_failure_at  timestamptz,
    last_error       text,
    updated_at       timestamptz  not null default now(),
    constraint health_open_until_once_tripped check ((trips > 0) = (open_until is not null)
        and (open_until is null) = (opened_at is null)),
    constraint health_pause_names_who check ((paused_at is null) = (paused_by is null)),
    constraint health_counters_not_negative check (trips >= 0 and requests >= 0 and failures between 0 and requests)
) with (fillfactor = 50);

-- What every replica reads each second: servers from which nothing is leased as usual.
create index mcp_registration_health_closed on david.mcp_registration_health (registration_id)
    where trips > 0 or paused_at is not null;

comment on table david.mcp_registration_health is
    'Per server: circuit breaker, pause, and what the replicas saw of it. A server without a row was never in trouble.';
comment on column david.mcp_registration_health.trips is
    'How often the breaker opened without a success since; zero means closed.';
comment on column david.mcp_registration_health.open_until is
    'Nothing is leased until then; after that one row at a time, to see.';
comment on column david.mcp_registration_health.latency_ms is 'Of answered requests, smoothed (milliseconds).';
comment on column david.mcp_registration_health.requests is 'Requests whose end a replica saw, since the row exists.';
comment on column david.mcp_registration_health.failures is 'Those of them that brought no answer.';

-- ---------------------------------------------------------------------------------------------
-- A bound on calls in flight per server, across the fleet
-- ---------------------------------------------------------------------------------------------

alter table david.mcp_server_registrations
    add column max_calls integer
        constraint registrations_max_calls_positive check (max_calls between 1 and 10000);

comment on column david.mcp_server_registrations.max_calls is
    'tools/call requests in flight at most, all replicas together; none means that only the replicas'' own bounds hold.';

-- Counting what is in flight and then adding to it overshoots; a slot per call cannot. A slot counts while the
-- row is in calling, whatever ended that.
alter table david.mcp_action_tasks
    add column call_slot integer,
    add constraint tasks_call_slot_positive check (call_slot > 0);

create unique index mcp_action_tasks_call_slot on david.mcp_action_tasks (registration_id, call_slot)
    where phase = 'calling' and call_slot is not null;

-- ---------------------------------------------------------------------------------------------
-- Fairness
-- ---------------------------------------------------------------------------------------------

-- When work has piled up, or a server is closed, rows are leased lane by lane: a lane is what one server has in
-- one phase. In another collation than the columns', so that no query that looks for one row of a server takes
-- this index for the one on its remote id, as a plan made while the table was empty would.
create index mcp_action_tasks_lanes on david.mcp_action_tasks (registration_id collate "C", phase collate "C", due_at)
    where phase <> 'finalised';

-- Cancels overtake: there are few of them, and somebody waits.
create index mcp_action_tasks_cancelling on david.mcp_action_tasks (due_at) where phase = 'cancelling';

-- ---------------------------------------------------------------------------------------------
-- Wake-ups
-- ---------------------------------------------------------------------------------------------

-- `notify` serialises the commits of all that notify, so at most one transaction in 20 ms does. A sequence
-- remembers when: it is not transactional, so nobody waits for anybody and nothing bloats under a long
-- snapshot. Two at once may both notify, which does no harm; a wake-up that is left out is made up for by
-- replicas, which look once more after 20 ms and every idle interval anyway.
create sequence david.mcp_wake_up_ms as bigint minvalue 0 start 0;

create function david.wake_workers() returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_now  bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint;
    v_last bigint;
begin
    select s.last_value into v_last from david.mcp_wake_up_ms s;
    -- A clock that was set back must not silence it.
    if v_now - v_last between 0 and 19 then
        return;
    end if;
    perform setval('david.mcp_wake_up_ms', v_now);
    perform pg_notify('david_tasks', '');
end
$$;

revoke all on function david.wake_workers() from public;

comment on function david.wake_workers() is
    'Tells idle replicas that something is due, at most every 20 ms. Never needed for correctness.';

create function david.wake_for_tasks() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform david.wake_workers();
    return null;
end
$$;

create trigger wake_for_new_tasks after insert on david.mcp_action_tasks
    for each statement execute function david.wake_for_tasks();
alter table david.mcp_action_tasks enable always trigger wake_for_new_tasks;

-- A change from outside (a cancel, an answer, an operator) bumps the fence, gives the lease up and makes the
-- row due; a lease, a release and a commit never do all three.
create trigger wake_for_changed_tasks after update on david.mcp_action_tasks
    for each row
    when (new.fence > old.fence and new.leased_by is null and new.phase <> 'finalised' and new.due_at <= now())
    execute function david.wake_for_tasks();
alter table david.mcp_action_tasks enable always trigger wake_for_changed_tasks;

-- ---------------------------------------------------------------------------------------------
-- Cancellation, however the Run's row is written
-- ---------------------------------------------------------------------------------------------

-- Without a list of columns: what a `before` trigger of Core's sets is not in the list of the statement.
drop trigger cancel_actions_with_run on david.runs;

create trigger cancel_actions_with_run
    after update on david.runs
    for each row
    when (new.cancelled_at is not null or new.status = 'cancelled')
    execute function david.cancel_actions_with_run();

alter table david.runs enable always trigger cancel_actions_with_run;
