-- Who may do what. Four roles to be granted to logins, none of which can log in itself:
--
--   david_core      submits, cancels, answers, takes outputs: functions, and plain inserts and updates of its tables
--   david_worker    what the statements in sql/ do, and nothing else
--   david_operator  views and operator functions; no table but the history
--   david_viewer    views, without questions and without what servers said
--
-- Roles belong to the whole cluster, so creating them takes CREATEROLE, which the schema's owner may not have.
-- david.set_up_roles() creates what it may, says what is missing, and grants. It is called here, and may be
-- called again at any time: after a superuser has created the roles, or, with another prefix, for a second
-- set of roles where one cluster holds two deployments.

create function david.set_up_roles(p_prefix text default 'david_') returns setof text
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
                'select on david.v_input_required, david.v_action, david.v_timeline',
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
                                     david.prune(interval, integer, text, text, text)']
            when 'operator' then array[
                'select on ' || v_views || ', david.v_input_required, david.v_registrations',
                'execute on function ' || v_readers,
                'select on david.mcp_task_events, david.mcp_operator_log',
                'execute on function david.pause_registration(varchar, text, text), david.resume_registration(varchar, text, text)',
                'execute on function david.retry_now(varchar, text, text), david.fail_action(varchar, text, text), david.give_up_cancel(varchar, text, text)',
                'execute on function david.release_leases(uuid, text, text, integer), david.prune(interval, integer, text, text, text)',
                'execute on function david.cancel_run(varchar)',
                -- For cancel_run, and nothing but that.
                'select (id, status, cancelled_at), update (status, cancelled_at) on david.runs']
            else array[
                'select on ' || v_views,
                'select (action_id, run_id, registration_id, registration_name, tool_name, asked_by, round, state, asked_at, execution_deadline) on david.v_input_required',
                'execute on function ' || v_readers]
        end;
        if v_kind in ('worker', 'operator') and to_regclass('david._sqlx_migrations') is not null then
            -- Is the schema as new as the binary needs?
            v_grants := v_grants || 'select on david._sqlx_migrations'::text;
        end if;
        foreach v_grant in array v_grants loop
            execute format('grant %s to %I', v_grant, v_role);
        end loop;
    end loop;
end
$$;

comment on function david.set_up_roles(text) is
    'Creates the roles that are missing, if it may, and grants them what they need; returns those that are still missing. For the schema''s owner.';

-- What Core calls writes columns that Core itself has no business to write: fences, leases, hand-over. All of
-- these check their arguments and have a fixed search_path. cancel_run stays as it is, since Core may update Runs.
alter function david.answer_input(varchar, text, json) security definer;
alter function david.take_outputs(integer, interval) security definer;
alter function david.ack_outputs(varchar[]) security definer;

-- A function is everybody's to call unless that is taken away. Without usage on the schema nobody could; but
-- usage is granted for reading a view, too.
revoke all on all functions in schema david from public;
revoke all on all tables in schema david from public;
revoke all on all sequences in schema david from public;
revoke all on schema david from public;

select david.set_up_roles();
