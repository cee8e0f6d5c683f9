-- A million unfinished rows of 200 servers (one of them has a third) and 400,000 that ended within a day. Triggers
-- are off meanwhile: what they do is not what is measured.
alter table david.mcp_action_tasks disable trigger all;
alter table david.mcp_action_calls disable trigger all;
alter table david.actions disable trigger all;

insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key)
select 'reg_' || n, 'user', 'server ' || n, 'https://mcp.example/' || n, 'https://mcp.example/' || n, n::text
  from generate_series(1, 200) n;

insert into david.mcp_registration_health (registration_id, requests, failures, latency_ms, trips, open_until, opened_at)
select 'reg_' || n, 1000, n, 12, (n % 40 = 0)::int, case when n % 40 = 0 then now() + interval '1 minute' end, case when n % 40 = 0 then now() end
  from generate_series(1, 200) n;

insert into david.runs (id, user_id) select 'run_' || n, 'user' from generate_series(1, 140000) n;

insert into david.actions (id, run_id, tool_name, status)
select 'act_' || n, 'run_' || (n / 10 + 1), 'tool', 'processing' from generate_series(1, 1400000) n;

insert into david.mcp_action_tasks
       (action_id, registration_id, phase, due_at, fence, call_fence, leased_by, remote_task_id, attempt, lapses,
        input_round, outcome, finalised_at, call_slot)
select 'act_' || n,
       'reg_' || (case when n % 3 = 0 then 1 else 1 + (hashint4(n) & 1023) % 200 end),
       p.phase,
       now() + case when p.phase in ('queued') then interval '1 minute' * (random() * 60 - 0.5)
                    when p.phase = 'input_required' then interval '1 hour' * random()
                    else interval '1 second' * (random() * 30 - 0.2) end,
       2, case when p.phase = 'calling' then 1 end,
       case when p.phase = 'calling' or (p.phase = 'working' and n % 2 = 0) then md5('replica' || n / 2 % 8)::uuid end,
       case when p.phase in ('working', 'input_required', 'cancelling') then 'task-' || md5(n::text) end,
       case when n % 20000 = 0 then 7 else 0 end,
       case when n % 100000 = 0 then 3 else 0 end,
       case when p.phase = 'input_required' then 1 else 0 end,
       case when p.phase = 'cancelling' then 'run_cancelled'
            when p.phase = 'finalised' then (array['succeeded', 'succeeded', 'succeeded', 'succeeded', 'succeeded', 'tool_error', 'deadline_exceeded', 'run_cancelled'])[1 + n % 8] end,
       case when p.phase = 'finalised' then now() - interval '1 second' * (86400 * random()) end,
       case when p.phase = 'calling' then n end
  from generate_series(1, 1400000) n
 cross join lateral (select case when n % 7 in (0, 1) then 'finalised'
                                 when n % 2000 = 3 then 'calling'
                                 when n % 200 = 5 then 'cancelling'
                                 when n % 500 = 9 then 'input_required'
                                 when n % 10 < 3 then 'queued'
                                 else 'working' end as phase) p;

insert into david.mcp_input_requests (task_id, round, key, request, created_at)
select t.id, 1, 'question-1', '{"method": "elicitation/create"}', now() - interval '1 minute' * (t.id % 90)
  from david.mcp_action_tasks t
 where t.phase = 'input_required';

insert into david.mcp_task_events (task_id, action_id, run_id, registration_id, event, transition, phase, fence)
select t.id, t.action_id, 'run_1', t.registration_id, e.event, 'track', t.phase, 1
  from david.mcp_action_tasks t
 cross join (values ('MCP_TASK_CREATED'), ('MCP_TASK_CANCEL_REQUESTED')) e (event);

alter table david.mcp_action_tasks enable trigger all;
alter table david.mcp_action_calls enable trigger all;
alter table david.actions enable trigger all;
-- `enable trigger all` makes ordinary triggers of those that always fire, which changes nothing here.
vacuum analyze;
