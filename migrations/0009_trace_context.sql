-- W3C trace context: from Core through the row to the server that is called, so that one trace shows the Run, the
-- wait and the tool. (https://www.w3.org/TR/trace-context/; MCP carries it in _meta, SEP-414.)

alter table david.mcp_action_calls
    add column traceparent text,
    add column tracestate  text,
    add constraint calls_traceparent_is_w3c check (
        traceparent ~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$'),
    add constraint calls_tracestate_is_w3c check (tracestate ~ '^[\x20-\x7e]+$' and octet_length(tracestate) <= 512),
    add constraint calls_tracestate_has_traceparent check (tracestate is null or traceparent is not null);

comment on column david.mcp_action_calls.traceparent is
    'W3C trace context of whoever asked for the call; sent along with tools/call, and the parent of the worker''s spans.';
comment on column david.mcp_action_calls.tracestate is 'Its tracestate, if it has one.';

-- david.submit_action with two more parameters, both optional; and a repetition that names another tool call or turn is
-- something else.
--
-- Submits one Action's tool call, or adopts a remote task that Core created itself (with
-- p_remote_task_id). Returns the task's row id. Submitting the same again returns the same id; the trace
-- context is the first submission's.
create function david.submit_action(
    p_action_id          varchar,
    p_run_id             varchar,
    p_registration_id    varchar,
    p_tool_name          varchar,
    p_remote_tool_name   varchar,
    p_arguments          json         default '{}',
    p_tool_call_id       varchar      default null,
    p_turn_index         integer      default 0,
    p_idempotent         boolean      default false,
    p_deadline_in        interval     default interval '24 hours',
    p_remote_task_id     text         default null,
    p_remote_expires_at  timestamptz  default null,
    p_traceparent        text         default null,
    p_tracestate         text         default null
) returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_id     bigint;
    v_known  record;
begin
    if p_action_id is null or p_action_id !~ '^act_.' then
        raise exception 'Action id % does not start with act_', coalesce(quote_literal(p_action_id), 'null')
            using errcode = 'DT001', hint = 'Pass Core''s own Action id, act_ and its suffix.';
    end if;
    if p_run_id is null or p_registration_id is null then
        raise exception 'Action %: the Run and the registration must be named', p_action_id using errcode = 'DT001';
    end if;
    if greatest(length(p_action_id), length(p_registration_id), length(p_tool_call_id)) > 64 then
        raise exception 'Action %: the ids of Action, registration and tool call may have 64 characters at most', left(p_action_id, 64)
            using errcode = 'DT001';
    end if;
    if coalesce(p_tool_name, '') = '' or length(p_tool_name) > 64 then
        raise exception 'Action %: the tool name must have 1 to 64 characters, this one has %',
                        p_action_id, length(coalesce(p_tool_name, '')) using errcode = 'DT001';
    end if;
    if coalesce(p_remote_tool_name, '') = '' or length(p_remote_tool_name) > 255 then
        raise exception 'Action %: the remote tool name must have 1 to 255 characters, this one has %',
                        p_action_id, length(coalesce(p_remote_tool_name, '')) using errcode = 'DT001';
    end if;
    if p_arguments is null or json_typeof(p_arguments) <> 'object' then
        raise exception 'Action %: the arguments must be a JSON object, not %',
                        p_action_id, coalesce(json_typeof(p_arguments), 'null')
            using errcode = 'DT001', hint = 'A tool without arguments takes {}.';
    end if;
    if p_deadline_in is null or p_deadline_in <= interval '0' or p_deadline_in > interval '10 years' then
        raise exception 'Action %: the deadline must lie ahead, and within ten years, not % from now',
                        p_action_id, coalesce(p_deadline_in::text, 'null')
            using errcode = 'DT001', hint = 'Pass a positive interval, such as interval ''2 hours''.';
    end if;
    if octet_length(p_remote_task_id) not between 1 and 4096 then
        raise exception 'Action %: a remote task id has 1 to 4096 bytes, this one has %', p_action_id, octet_length(p_remote_task_id)
            using errcode = 'DT001';
    end if;
    if exists (select
                 from david.mcp_action_tasks t
                where t.registration_id = p_registration_id
                  and t.remote_task_key = david.remote_task_key(p_remote_task_id)
                  and t.phase <> 'finalised'
                  and t.action_id <> p_action_id) then
        raise exception 'Action %: another live Action has this remote task', p_action_id
            using errcode = 'DT002', hint = 'A remote task belongs to one Action; nothing was changed.';
    end if;
    if p_remote_expires_at not between timestamptz '1970-01-01Z' and timestamptz '9999-12-31 23:59:59Z' then
        raise exception 'Action %: the remote expiry % is out of reach', p_action_id, p_remote_expires_at
            using errcode = 'DT001', hint = 'Leave it out for a task without an expiry.';
    end if;
    if p_remote_expires_at is not null and p_remote_task_id is null then
        raise exception 'Action %: a remote expiry needs a remote task', p_action_id using errcode = 'DT001';
    end if;
    if not exists (select from david.runs r where r.id = p_run_id) then
        raise exception 'Run % does not exist', p_run_id
            using errcode = 'DT003', hint = 'Insert it into david.runs first.';
    end if;

    insert into david.actions (id, run_id, tool_call_id, tool_name, turn_index, function_args)
    values (p_action_id, p_run_id, p_tool_call_id, p_tool_name, coalesce(p_turn_index, 0), p_arguments)
        on conflict (id) do nothing;

    -- A header that somebody else's client sent may be anything. As W3C asks, one that is no trace context
    -- begins no trace; it does not stop the work.
    if p_traceparent !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' then
        p_traceparent := null;
    end if;
    if p_traceparent is null or p_tracestate !~ '^[\x20-\x7e]+$' or octet_length(p_tracestate) > 512 then
        p_tracestate := null;
    end if;

    insert into david.mcp_action_calls (action_id, remote_tool_name, arguments, idempotent, traceparent, tracestate)
    values (p_action_id, p_remote_tool_name, p_arguments, coalesce(p_idempotent, false), p_traceparent, p_tracestate)
        on conflict (action_id) do nothing;

    insert into david.mcp_action_tasks
           (action_id, registration_id, phase, remote_task_id, remote_expires_at, execution_deadline)
    values (p_action_id, p_registration_id,
            case when p_remote_task_id is null then 'queued' else 'working' end,
            p_remote_task_id, p_remote_expires_at, now() + p_deadline_in)
        on conflict (action_id) do nothing
    returning id into v_id;

    -- Whoever was first: what stands there now must be what was asked for.
    select t.id, a.run_id, a.tool_call_id, a.turn_index, t.registration_id, a.tool_name, c.remote_tool_name, c.arguments::text as arguments,
           c.idempotent, t.remote_task_id
      into v_known
      from david.actions a
      join david.mcp_action_calls c on c.action_id = a.id
      join david.mcp_action_tasks t on t.action_id = a.id
     where a.id = p_action_id;

    if (v_known.run_id, v_known.tool_call_id, v_known.turn_index, v_known.registration_id,
        v_known.tool_name, v_known.remote_tool_name, v_known.arguments, v_known.idempotent)
       is distinct from
       (p_run_id, p_tool_call_id, coalesce(p_turn_index, 0), p_registration_id,
        p_tool_name, p_remote_tool_name, p_arguments::text, coalesce(p_idempotent, false))
       -- A remote task that would be dropped here would run on, unseen.
       or (p_remote_task_id is not null and v_known.remote_task_id is distinct from p_remote_task_id) then
        raise exception 'Action % was submitted before as something else', p_action_id
            using errcode = 'DT002', hint = 'Use a new Action id for a new call; nothing was changed.';
    end if;

    return v_known.id;
end
$$;

-- Beside the old one a call without the new parameters would fit both.
drop function david.submit_action(varchar, varchar, varchar, varchar, varchar, json, varchar, integer, boolean, interval, text, timestamptz);
