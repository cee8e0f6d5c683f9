-- What Core calls, in any language. Every function is idempotent and fails with a message that
-- says what to do; SQLSTATEs of class DT are ours and stable:
--
--   DT001  the arguments make no sense
--   DT002  this id was used before for something else
--   DT003  there is no such Run, Action or question
--   DT004  too late: it has ended

-- Submits one Action's tool call, or adopts a remote task that Core created itself (with
-- p_remote_task_id). Returns the task's row id. Submitting the same again returns the same id.
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
    p_remote_expires_at  timestamptz  default null
) returns bigint
    language plpgsql
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

    insert into david.mcp_action_calls (action_id, remote_tool_name, arguments, idempotent)
    values (p_action_id, p_remote_tool_name, p_arguments, coalesce(p_idempotent, false))
        on conflict (action_id) do nothing;

    insert into david.mcp_action_tasks
           (action_id, registration_id, phase, remote_task_id, remote_expires_at, execution_deadline)
    values (p_action_id, p_registration_id,
            case when p_remote_task_id is null then 'queued' else 'working' end,
            p_remote_task_id, p_remote_expires_at, now() + p_deadline_in)
        on conflict (action_id) do nothing
    returning id into v_id;

    -- Whoever was first: what stands there now must be what was asked for.
    select t.id, a.run_id, t.registration_id, a.tool_name, c.remote_tool_name, c.arguments::text as arguments,
           c.idempotent, t.remote_task_id
      into v_known
      from david.actions a
      join david.mcp_action_calls c on c.action_id = a.id
      join david.mcp_action_tasks t on t.action_id = a.id
     where a.id = p_action_id;

    if (v_known.run_id, v_known.registration_id, v_known.tool_name, v_known.remote_tool_name, v_known.arguments, v_known.idempotent)
       is distinct from
       (p_run_id, p_registration_id, p_tool_name, p_remote_tool_name, p_arguments::text, coalesce(p_idempotent, false))
       -- A remote task that would be dropped here would run on, unseen.
       or (p_remote_task_id is not null and v_known.remote_task_id is distinct from p_remote_task_id) then
        raise exception 'Action % was submitted before as something else', p_action_id
            using errcode = 'DT002', hint = 'Use a new Action id for a new call; nothing was changed.';
    end if;

    return v_known.id;
end
$$;

-- Cancels a Run and, by the trigger, its unfinished MCP Actions in the same commit. Returns
-- whether this call was the one that cancelled it.
create function david.cancel_run(p_run_id varchar) returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_already boolean;
begin
    select r.cancelled_at is not null or r.status = 'cancelled'
      into v_already
      from david.runs r
     where r.id = p_run_id
       for no key update;

    if not found then
        raise exception 'Run % does not exist', coalesce(p_run_id, 'null') using errcode = 'DT003';
    end if;

    update david.runs
       set status       = 'cancelled',
           cancelled_at = coalesce(cancelled_at, now())
     where id = p_run_id
       and (status <> 'cancelled' or cancelled_at is null);

    return not v_already;
end
$$;

-- Answers one question of an Action that waits for input, and wakes it. Returns whether this call
-- was the one that answered it; the same answer again is no error, another one is.
create function david.answer_input(p_action_id varchar, p_key text, p_response json) returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_task   record;
    v_input  record;
begin
    if p_response is null or json_typeof(p_response) <> 'object' then
        raise exception 'the answer to % of Action % must be a JSON object, not %',
                        quote_nullable(p_key), p_action_id, coalesce(json_typeof(p_response), 'null')
            using errcode = 'DT001',
                  hint = 'An elicitation takes {"action": "accept", "content": {…}}, or "decline" or "cancel" as the action.';
    end if;

    select t.id, t.phase, t.input_round
      into v_task
      from david.mcp_action_tasks t
     where t.action_id = p_action_id
       for update;

    if not found then
        raise exception 'Action % does not exist or has no remote task', coalesce(p_action_id, 'null') using errcode = 'DT003';
    end if;

    select i.id, i.state, i.response::text as response
      into v_input
      from david.mcp_input_requests i
     where i.task_id = v_task.id
       and i.key = p_key
       and i.round = v_task.input_round;

    if not found then
        raise exception 'Action % does not ask for %', p_action_id, quote_nullable(p_key)
            using errcode = 'DT003',
                  hint = 'select key, request from david.v_input_required where action_id = … lists what it asks for.';
    end if;

    if v_input.state <> 'pending' then
        if v_input.response = p_response::text then
            return false;
        end if;
        raise exception '% of Action % was answered before', quote_literal(p_key), p_action_id
            using errcode = 'DT002', hint = 'A key may be answered once.';
    end if;

    if v_task.phase <> 'input_required' then
        raise exception 'Action % does not wait for input any more: it is %', p_action_id, v_task.phase using errcode = 'DT004';
    end if;

    update david.mcp_input_requests
       set state = 'answered', response = p_response, answered_at = now()
     where id = v_input.id;

    -- [7] A change from outside bumps the fence and makes the row due, or a held lease's release
    -- would overwrite the wake-up.
    update david.mcp_action_tasks
       set fence = fence + 1, due_at = now(), lapses = 0, leased_by = null, updated_at = now()
     where id = v_task.id;

    return true;
end
$$;
