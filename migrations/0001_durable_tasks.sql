-- The ledger (Core's tables), the remote work of its Actions, and the rules that may not depend on
-- any program's good behaviour: legal rows, one output per Action, fencing of outside changes,
-- and cancellation in the commit that cancels the Run.
--
-- Numbers in brackets are the rules in ARCHITECTURE.md.

create schema if not exists david;

-- ---------------------------------------------------------------------------------------------
-- Core's tables
-- ---------------------------------------------------------------------------------------------

create table david.runs (
    id            varchar(64)  primary key,
    user_id       varchar(64)  not null,
    assistant_id  varchar(64),
    thread_id     varchar(64),
    status        varchar(32)  not null default 'queued',
    created_at    timestamptz  not null default now(),
    completed_at  timestamptz,
    failed_at     timestamptz,
    cancelled_at  timestamptz,
    expires_at    timestamptz,
    last_error    varchar(256),
    -- A misspelt 'canceled' would be no cancellation at all, and nobody would notice.
    constraint runs_status_known check (status in (
        'deleted', 'active', 'queued', 'in_progress', 'pending_action', 'completed', 'failed',
        'cancelling', 'cancelled', 'pending', 'processing', 'expired', 'retrying', 'offline'))
);

create table david.actions (
    id             varchar(64)  primary key,
    run_id         varchar(64)  not null references david.runs (id) on delete cascade,
    tool_call_id   varchar(64),
    tool_name      varchar(64)  not null,
    turn_index     integer      not null default 0,
    function_args  json,
    status         varchar(32)  not null default 'pending',
    result         json,
    triggered_at   timestamptz  not null default now(),
    processed_at   timestamptz,
    is_processed   boolean      not null default false,
    constraint actions_status_known check (status in (
        'pending', 'processing', 'completed', 'failed', 'expired', 'cancelled', 'retrying'))
);

create index actions_run_id on david.actions (run_id);

create table david.mcp_server_registrations (
    id               varchar(64)    primary key,
    owner_id         varchar(64)    not null,
    name             varchar(255)   not null,
    url              varchar(2048)  not null,
    normalized_url   varchar(2048)  not null,
    identity_key     varchar(64)    not null,
    transport        varchar(32)    not null default 'streamable_http',
    auth_type        varchar(16)    not null default 'none',
    credential_id    varchar(64),
    timeout_seconds  integer        not null default 30,
    enabled          boolean        not null default true,
    created_at       timestamptz    not null default now(),
    updated_at       timestamptz    not null default now(),
    constraint registrations_identity unique (owner_id, identity_key),
    -- A stdio server loses its tasks with its process.
    constraint registrations_transport_known check (transport = 'streamable_http'),
    constraint registrations_auth_type_known check (auth_type in ('none', 'bearer')),
    constraint registrations_bearer_names_credential check ((auth_type = 'bearer') = (credential_id is not null)),
    constraint registrations_timeout_bounded check (timeout_seconds between 1 and 300),
    constraint registrations_url_is_http check (url ~* '^https?://[^/?#]'),
    -- [14] A password in a URL would be a credential at rest.
    constraint registrations_url_without_credentials check (
        url !~ '^[^:/?#]+://[^/?#]*@' and normalized_url !~ '^[^:/?#]+://[^/?#]*@')
);

-- ---------------------------------------------------------------------------------------------
-- Remote work
-- ---------------------------------------------------------------------------------------------

-- What to call. Cold: written once, read at dispatch.
create table david.mcp_action_calls (
    action_id         varchar(64)   primary key references david.actions (id) on delete cascade,
    remote_tool_name  varchar(255)  not null,
    -- json, not jsonb: a NUL or a huge number in an argument must not be refused or rewritten [15].
    arguments         json          not null default '{}',
    -- Core's word that a second call does no harm [1].
    idempotent        boolean       not null default false,
    -- Opaque state of a tools/call that asked for input, echoed byte for byte.
    request_state     bytea,
    constraint calls_remote_tool_name_given check (remote_tool_name <> ''),
    constraint calls_arguments_are_an_object check (json_typeof(arguments) = 'object')
);

-- convert_to is only stable because conversions can be redefined; a UTF-8 database converts to
-- UTF-8 by copying.
create function david.remote_task_key(remote_task_id text) returns bytea
    language sql immutable strict parallel safe
    return pg_catalog.sha256(pg_catalog.convert_to(remote_task_id, 'UTF8'));

-- The hot table: narrow, one row per Action with remote work.
create table david.mcp_action_tasks (
    id                  bigint        generated always as identity primary key,
    action_id           varchar(64)   not null references david.actions (id) on delete cascade,
    -- No foreign key: a deleted registration is an outcome, not an error.
    registration_id     varchar(64)   not null,
    phase               text          not null default 'queued',
    due_at              timestamptz   not null default now(),
    fence               bigint        not null default 0,
    call_fence          bigint,
    lapses              integer       not null default 0,
    leased_by           uuid,
    remote_task_id      text,
    -- A 4 KB id does not fit an index entry; its hash does.
    remote_task_key     bytea         generated always as (david.remote_task_key(remote_task_id)) stored,
    remote_status       text,
    remote_expires_at   timestamptz,
    remote_ttl_ms       bigint,
    poll_interval_ms    bigint,
    attempt             integer       not null default 0,
    polls               integer       not null default 0,
    last_polled_at      timestamptz,
    last_error          text,
    input_round         integer       not null default 0,
    execution_deadline  timestamptz   not null default now() + interval '24 hours',
    outcome             text,
    finalised_at        timestamptz,
    created_at          timestamptz   not null default now(),
    updated_at          timestamptz   not null default now(),

    constraint tasks_one_per_action unique (action_id),
    -- The output's message id is made of the Action's suffix, so the suffix must identify it [9].
    constraint tasks_action_id_prefixed check (action_id ~ '^act_.'),

    -- [17] What the phase types of the reconciler cannot express cannot be stored.
    constraint tasks_phase_known check (phase in (
        'queued', 'calling', 'working', 'input_required', 'cancelling', 'finalised')),
    constraint tasks_queued_has_no_remote_task check (phase <> 'queued' or remote_task_id is null),
    constraint tasks_calling_has_call_fence check (
        phase <> 'calling' or (call_fence is not null and remote_task_id is null)),
    constraint tasks_working_has_remote_task check (phase <> 'working' or remote_task_id is not null),
    constraint tasks_input_required_has_round check (phase <> 'input_required' or input_round > 0),
    constraint tasks_cancelling_has_remote_task check (phase <> 'cancelling' or remote_task_id is not null),
    constraint tasks_outcome_marks_local_end check ((outcome is not null) = (phase in ('cancelling', 'finalised'))),
    constraint tasks_finalised_at_marks_finalised check ((finalised_at is not null) = (phase = 'finalised')),
    constraint tasks_outcome_known check (outcome in (
        'succeeded', 'tool_error', 'remote_failed', 'call_rejected', 'remote_cancelled', 'run_cancelled',
        'task_expired', 'task_missing', 'deadline_exceeded', 'outcome_unknown', 'registration_missing',
        'registration_disabled', 'registration_forbidden', 'endpoint_forbidden', 'unauthorised',
        'input_unsupported', 'input_timed_out', 'protocol_error', 'quarantined', 'result_too_large',
        'remote_unreachable')),
    -- A success has nothing left to cancel.
    constraint tasks_success_owes_no_cancel check (phase <> 'cancelling' or outcome <> 'succeeded'),
    constraint tasks_remote_task_id_bounded check (octet_length(remote_task_id) between 1 and 4096),
    constraint tasks_remote_status_known check (remote_status in (
        'working', 'input_required', 'completed', 'failed', 'cancelled')),
    constraint tasks_remote_facts_have_remote_task check (
        remote_task_id is not null
        or (remote_status is null and remote_expires_at is null and remote_ttl_ms is null and poll_interval_ms is null)),
    -- An infinite instant could not be read by anybody, and would stop every lease that meets it.
    constraint tasks_instants_in_reach check (
        execution_deadline between timestamptz '1970-01-01Z' and timestamptz '9999-12-31 23:59:59Z'
        and due_at between timestamptz '1970-01-01Z' and timestamptz '9999-12-31 23:59:59Z'
        and coalesce(remote_expires_at between timestamptz '1970-01-01Z' and timestamptz '9999-12-31 23:59:59Z', true)),
    constraint tasks_fence_orders_calls check (fence >= 0 and call_fence between 0 and fence),
    constraint tasks_counters_not_negative check (
        lapses >= 0 and attempt >= 0 and polls >= 0 and input_round >= 0
        and remote_ttl_ms >= 0 and poll_interval_ms >= 0)
) with (
    -- Every lease moves due_at, which is indexed, so updates are never HOT; free space on the page
    -- still halves index growth, and vacuum must come before the due index fills with dead entries.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);

-- The lease's index. due_at is the visibility timeout too: a leased row lies in the future.
create index mcp_action_tasks_due on david.mcp_action_tasks (due_at) where phase <> 'finalised';

-- Rows that killed leases before are leased alone [16].
create index mcp_action_tasks_suspect on david.mcp_action_tasks (due_at) where phase <> 'finalised' and lapses >= 2;

-- A server's id belongs to one live row; finished rows may share it, since servers restart their ids.
create unique index mcp_action_tasks_remote_task on david.mcp_action_tasks (registration_id, remote_task_key)
    where phase <> 'finalised' and remote_task_key is not null;

create table david.tool_outputs (
    id          bigint       generated always as identity primary key,
    action_id   varchar(64)  not null references david.actions (id) on delete cascade,
    -- Deterministic, so that a repeated hand-over makes the same message [9].
    message_id  text         generated always as ('message_' || substr(action_id, 5)) stored,
    outcome     text         not null,
    is_error    boolean      not null,
    envelope    json         not null,
    created_at  timestamptz  not null default now(),
    constraint outputs_one_per_action unique (action_id),
    constraint outputs_action_id_prefixed check (action_id ~ '^act_.'),
    constraint outputs_envelope_is_an_object check (json_typeof(envelope) = 'object')
);

create table david.mcp_input_requests (
    id           bigint       generated always as identity primary key,
    task_id      bigint       not null references david.mcp_action_tasks (id) on delete cascade,
    round        integer      not null,
    key          text         not null,
    request      json         not null,
    state        text         not null default 'pending',
    response     json,
    created_at   timestamptz  not null default now(),
    answered_at  timestamptz,
    sent_at      timestamptz,
    constraint inputs_one_per_round_and_key unique (task_id, round, key),
    constraint inputs_round_counts_from_one check (round > 0),
    constraint inputs_state_known check (state in ('pending', 'answered', 'sending', 'sent')),
    constraint inputs_response_once_answered check ((response is not null) = (state <> 'pending')),
    constraint inputs_answered_at_once_answered check ((answered_at is not null) = (state <> 'pending')),
    constraint inputs_sent_at_once_sent check ((sent_at is not null) = (state = 'sent'))
);

-- Append-only history of transitions, not of polls. No foreign keys: it outlives what it tells of.
create table david.mcp_task_events (
    id               bigint       generated always as identity primary key,
    at               timestamptz  not null default clock_timestamp(),
    task_id          bigint       not null,
    action_id        varchar(64)  not null,
    run_id           varchar(64)  not null,
    registration_id  varchar(64)  not null,
    tool_call_id     varchar(64),
    provider_name    varchar(64),
    event            text         not null,
    transition       text         not null,
    phase            text         not null,
    outcome          text,
    fence            bigint       not null,
    replica          uuid,
    detail           text
);

create index mcp_task_events_action on david.mcp_task_events (action_id, id);

-- ---------------------------------------------------------------------------------------------
-- Registrations: what may change
-- ---------------------------------------------------------------------------------------------

create function david.keep_registration_identity() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'registration %: owner, URL and authentication cannot change', old.id
        using errcode = 'integrity_constraint_violation',
              hint = 'Insert a new registration and delete this one; name, timeout_seconds and enabled may change.';
end
$$;

create trigger keep_registration_identity
    before update on david.mcp_server_registrations
    for each row
    when ((old.id, old.owner_id, old.url, old.normalized_url, old.identity_key, old.transport, old.auth_type, old.credential_id)
          is distinct from
          (new.id, new.owner_id, new.url, new.normalized_url, new.identity_key, new.transport, new.auth_type, new.credential_id))
    execute function david.keep_registration_identity();

-- ---------------------------------------------------------------------------------------------
-- Cancellation [6] [7] [8]
-- ---------------------------------------------------------------------------------------------

-- Moves what is unfinished of a cancelled Run. The caller holds the Run's row lock (the trigger's
-- update, or a lease's repair); Actions and tasks follow in id order, which is the order every
-- commit takes, so neither can wait for the other in a circle.
--
-- Bumping the fence is what makes it final: a replica that holds an older lease writes nothing.
create function david.cancel_actions_of_run(p_run_id varchar) returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_moved bigint;
begin
    perform 1
       from david.actions a
      where a.run_id = p_run_id
        and exists (select from david.mcp_action_tasks t where t.action_id = a.id and t.outcome is null)
      order by a.id
        for no key update of a;

    with unfinished as (
        select t.id
          from david.mcp_action_tasks t
          join david.actions a on a.id = t.action_id
         where a.run_id = p_run_id
           and t.outcome is null
         order by t.id
           for update of t
    ), moved as (
        update david.mcp_action_tasks t
           set phase        = case when t.remote_task_id is null then 'finalised' else 'cancelling' end,
               finalised_at = case when t.remote_task_id is null then now() end,
               outcome      = 'run_cancelled',
               fence        = t.fence + 1,
               due_at       = now(),
               attempt      = 0,
               lapses       = 0,
               leased_by    = null,
               updated_at   = now()
          from unfinished u
         where t.id = u.id
     returning t.id, t.action_id, t.registration_id, t.phase, t.fence
    ), acted as (
        update david.actions a
           set status       = 'cancelled',
               processed_at = now()
          from moved m
         where a.id = m.action_id
           and a.status not in ('completed', 'failed', 'expired', 'cancelled')
    ), told as (
        insert into david.mcp_task_events
               (task_id, action_id, run_id, registration_id, tool_call_id, provider_name,
                event, transition, phase, outcome, fence)
        select m.id, m.action_id, p_run_id, m.registration_id, a.tool_call_id, a.tool_name,
               case m.phase when 'cancelling' then 'MCP_TASK_CANCEL_REQUESTED' else 'MCP_TASK_CANCELLED' end,
               'cancel_run', m.phase, 'run_cancelled', m.fence
          from moved m
          join david.actions a on a.id = m.action_id
    )
    select count(*) into v_moved from moved;

    return v_moved;
end
$$;

revoke all on function david.cancel_actions_of_run(varchar) from public;

create function david.cancel_actions_with_run() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform david.cancel_actions_of_run(new.id);
    return null;
end
$$;

-- Security definer: a role that may only update Runs cancels. Every committed update that leaves
-- the Run cancelled repairs; an unfinished Action cannot hide behind a repeated cancel.
create trigger cancel_actions_with_run
    after update of status, cancelled_at on david.runs
    for each row
    when (new.cancelled_at is not null or new.status = 'cancelled')
    execute function david.cancel_actions_with_run();

alter table david.runs enable always trigger cancel_actions_with_run;

-- A task is born queued, or working when Core adopts a remote task it created itself; for a
-- cancelled Run it is born ended. `for share` makes an insert and a cancel wait for each other:
-- whichever commits first is seen by the other.
create function david.place_task() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_cancelled boolean;
begin
    select r.cancelled_at is not null or r.status = 'cancelled'
      into v_cancelled
      from david.runs r
     where r.id = (select a.run_id from david.actions a where a.id = new.action_id)
       for share;

    if not found then
        raise exception 'Action % does not exist', new.action_id
            using errcode = 'foreign_key_violation',
                  hint = 'Insert its Run and the Action first, or call david.submit_action.';
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

create trigger place_task
    before insert on david.mcp_action_tasks
    for each row
    execute function david.place_task();

alter table david.mcp_action_tasks enable always trigger place_task;

-- In an after trigger, so that `on conflict do nothing` does it at most once.
create function david.tell_of_task_born_ended() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update david.actions
       set status       = 'cancelled',
           processed_at = now()
     where id = new.action_id
       and status not in ('completed', 'failed', 'expired', 'cancelled');

    insert into david.mcp_task_events
           (task_id, action_id, run_id, registration_id, tool_call_id, provider_name,
            event, transition, phase, outcome, fence)
    select new.id, a.id, a.run_id, new.registration_id, a.tool_call_id, a.tool_name,
           case new.phase when 'cancelling' then 'MCP_TASK_CANCEL_REQUESTED' else 'MCP_TASK_CANCELLED' end,
           'born_cancelled', new.phase, new.outcome, new.fence
      from david.actions a
     where a.id = new.action_id;

    return null;
end
$$;

create trigger tell_of_task_born_ended
    after insert on david.mcp_action_tasks
    for each row
    when (new.outcome is not null)
    execute function david.tell_of_task_born_ended();

alter table david.mcp_action_tasks enable always trigger tell_of_task_born_ended;
