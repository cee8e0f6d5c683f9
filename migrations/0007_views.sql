-- What people and dashboards look at: views, as a contract (version 1). A column may be added at the end of a
-- view; none is removed or changes its meaning. docs/views.md has them all, with how long each takes.
--
-- With a million unfinished rows an exact count takes too long to be looked at every few seconds. So what is
-- counted is counted exactly up to a bound, and estimated from a sample of the table's pages beyond it; a
-- column `estimated` says which. The bounds are small enough for rows that moved since the last vacuum, where an
-- index alone does not tell whether an entry still counts. Most views stand on a function, for two reasons: it reads with the
-- rights of the schema's owner what its caller may not read, and it keeps the planner from compiling (jit)
-- for longer than the whole view takes.
--
-- What servers said (last_error, detail) may quote an argument. It is shown to whoever may read
-- david.mcp_task_events, where it stands too, and is null for everybody else. A remote task id is never shown;
-- a fingerprint tells two of them apart [14].

-- ---------------------------------------------------------------------------------------------
-- Indexes. A lease and a release of a healthy row write none of these: its predicates do not hold.
-- ---------------------------------------------------------------------------------------------

-- Ended Actions, by how and when: for v_outcomes and for retention. Written once in an Action's life.
create index mcp_action_tasks_ended on david.mcp_action_tasks (outcome, finalised_at) where phase = 'finalised';

-- What fails again and again, for v_stuck.
create index mcp_action_tasks_failing on david.mcp_action_tasks (attempt) where phase <> 'finalised' and attempt >= 5;

-- What waits for an answer, for v_input_required and v_stuck.
create index mcp_action_tasks_asking on david.mcp_action_tasks (due_at) where phase = 'input_required';

-- ---------------------------------------------------------------------------------------------
-- Parts of several views
-- ---------------------------------------------------------------------------------------------

-- Every lane there is, with the oldest due_at in it: one probe of mcp_action_tasks_lanes per lane, however
-- many rows it holds.
create function david.lanes() returns table (registration_id varchar, phase text, oldest_due_at timestamptz)
    language sql stable
as $$
    with recursive lane as (
        (select t.registration_id, t.phase, t.due_at
           from david.mcp_action_tasks t
          where t.phase <> 'finalised'
          order by t.registration_id collate "C", t.phase collate "C", t.due_at
          limit 1)
        union all
        select n.registration_id, n.phase, n.due_at
          from lane l
         cross join lateral (
               select t.registration_id, t.phase, t.due_at
                 from david.mcp_action_tasks t
                where t.phase <> 'finalised'
                  and (t.registration_id collate "C", t.phase collate "C") > (l.registration_id, l.phase)
                order by t.registration_id collate "C", t.phase collate "C", t.due_at
                limit 1) n
    )
    select l.registration_id, l.phase, l.due_at from lane l
$$;

-- Every outcome that a finalised row has: one probe of mcp_action_tasks_ended each.
create function david.outcomes_there_are() returns table (outcome text)
    language sql stable
as $$
    with recursive kind as (
        (select t.outcome from david.mcp_action_tasks t where t.phase = 'finalised' order by t.outcome limit 1)
        union all
        select n.outcome
          from kind k
         cross join lateral (
               select t.outcome
                 from david.mcp_action_tasks t
                where t.phase = 'finalised' and t.outcome > k.outcome
                order by t.outcome
                limit 1) n
    )
    select k.outcome from kind k
$$;

-- How much of the hot table a sample of this many pages is, in percent.
create function david.sample_percent(p_pages integer) returns double precision
    language sql stable
as $$
    select least(100, 100.0 * p_pages
                 / greatest(pg_relation_size('david.mcp_action_tasks') / current_setting('block_size')::bigint, 1))
$$;

-- ---------------------------------------------------------------------------------------------
-- v_backlog
-- ---------------------------------------------------------------------------------------------

create function david.backlog()
    returns table (registration_id varchar, phase text, tasks bigint, due bigint, oldest_due_at timestamptz, estimated boolean)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set enable_seqscan = off
as $$
    with lane as materialized (
        select * from david.lanes()
    ), bound as materialized (
        select greatest(10, 8000 / greatest(count(*), 1)) as rows from lane
    ), counted as materialized (
        select l.registration_id, l.phase, l.oldest_due_at, c.tasks, c.due, c.tasks > (select b.rows from bound b) as over
          from lane l
         cross join lateral (
               select count(*) as tasks, count(*) filter (where r.due_at <= now()) as due
                 from (select t.due_at
                         from david.mcp_action_tasks t
                        where t.phase <> 'finalised'
                          and t.registration_id collate "C" = l.registration_id
                          and t.phase collate "C" = l.phase
                        order by t.due_at
                        limit (select b.rows + 1 from bound b)) r) c
    ), percent as materialized (
        select david.sample_percent(600) as share
    ), sampled as materialized (
        select t.registration_id, t.phase,
               (count(*) * 100 / (select p.share from percent p))::bigint                                     as tasks,
               (count(*) filter (where t.due_at <= now()) * 100 / (select p.share from percent p))::bigint    as due
          from david.mcp_action_tasks t tablesample system ((select p.share from percent p))
         where t.phase <> 'finalised'
           and exists (select from counted c where c.over)
         group by t.registration_id, t.phase
    )
    select c.registration_id, c.phase,
           case when c.over then greatest(c.tasks, s.tasks) else c.tasks end,
           -- The bound is reached in the order of due_at: fewer due rows than that are all there are.
           case when c.over and c.due = c.tasks then greatest(c.due, s.due) else c.due end,
           c.oldest_due_at,
           c.over
      from counted c
      left join sampled s on s.registration_id = c.registration_id and s.phase = c.phase
$$;

create view david.v_backlog as
select b.registration_id,
       g.name  as registration_name,
       b.phase,
       b.tasks,
       b.due,
       b.oldest_due_at,
       b.estimated
  from david.backlog() b
  left join david.mcp_server_registrations g on g.id = b.registration_id;

comment on view david.v_backlog is 'Unfinished work, by server and phase.';
comment on column david.v_backlog.registration_id is 'The server''s registration.';
comment on column david.v_backlog.registration_name is 'Its name; null once it is deleted.';
comment on column david.v_backlog.phase is 'queued, calling, working, input_required or cancelling.';
comment on column david.v_backlog.tasks is 'Rows in that phase, leased or not.';
comment on column david.v_backlog.due is 'Those of them that may be leased now and are not.';
comment on column david.v_backlog.oldest_due_at is 'The earliest due_at among them, exact; in the future when nothing is due.';
comment on column david.v_backlog.estimated is 'Whether tasks (and due, if all that was counted is due) comes from a sample. Small numbers are exact.';

-- ---------------------------------------------------------------------------------------------
-- v_due_lag
-- ---------------------------------------------------------------------------------------------

create function david.due_lag()
    returns table (registration_id varchar, due bigint, p50 interval, p99 interval, oldest interval, estimated boolean)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set enable_seqscan = off
as $$
    with lane as materialized (
        select l.* from david.lanes() l where l.oldest_due_at <= now()
    ), bound as materialized (
        select greatest(4, 4000 / greatest(count(*), 1)) as rows from lane
    ), taken as materialized (
        select l.registration_id, l.phase, l.oldest_due_at, c.due_at, c.rows > (select b.rows from bound b) as over
          from lane l
         cross join lateral (
               select array_agg(r.due_at) as due_at, count(*) as rows
                 from (select t.due_at
                         from david.mcp_action_tasks t
                        where t.phase <> 'finalised'
                          and t.registration_id collate "C" = l.registration_id
                          and t.phase collate "C" = l.phase
                          and t.due_at <= now()
                        order by t.due_at
                        limit (select b.rows + 1 from bound b)) r) c
    ), crowded as materialized (
        select t.registration_id, t.phase, t.oldest_due_at from taken t where t.over
    ), percent as materialized (
        select david.sample_percent(300) as share
    ), sampled as materialized (
        select t.registration_id, t.phase, t.due_at
          from david.mcp_action_tasks t tablesample system ((select p.share from percent p))
         where t.phase <> 'finalised'
           and t.due_at <= now()
           and exists (select from crowded)
    ), weighed as materialized (
        select t.registration_id, u.due_at, 1::double precision as weight, false as guessed
          from taken t
         cross join lateral unnest(t.due_at) u (due_at)
         where not t.over
         union all
        select s.registration_id, s.due_at, 100 / (select p.share from percent p), true
          from sampled s
          join crowded c on c.registration_id = s.registration_id and c.phase = s.phase
         union all
        -- The oldest of a crowded lane, so that it is there even if the sample missed it.
        select c.registration_id, c.oldest_due_at, 1, true from crowded c
    ), ranked as materialized (
        select w.registration_id, w.due_at, w.weight, w.guessed,
               sum(w.weight) over (partition by w.registration_id order by w.due_at desc)  as upto,
               sum(w.weight) over (partition by w.registration_id)                         as whole,
               sum(w.weight) over (order by w.due_at desc)                                 as upto_all,
               sum(w.weight) over ()                                                       as whole_all
          from weighed w
    )
    select r.registration_id, sum(r.weight)::bigint,
           now() - max(r.due_at) filter (where r.upto >= 0.5 * r.whole),
           now() - max(r.due_at) filter (where r.upto >= 0.99 * r.whole),
           now() - min(r.due_at), bool_or(r.guessed)
      from ranked r
     group by r.registration_id
     union all
    select null, coalesce(sum(r.weight), 0)::bigint,
           now() - max(r.due_at) filter (where r.upto_all >= 0.5 * r.whole_all),
           now() - max(r.due_at) filter (where r.upto_all >= 0.99 * r.whole_all),
           now() - min(r.due_at), coalesce(bool_or(r.guessed), false)
      from ranked r
$$;

create view david.v_due_lag as
select l.registration_id,
       g.name  as registration_name,
       l.due,
       l.p50,
       l.p99,
       l.oldest,
       l.estimated
  from david.due_lag() l
  left join david.mcp_server_registrations g on g.id = l.registration_id;

comment on view david.v_due_lag is
    'How long due rows have waited to be leased, by server, and in total in the row without a registration_id.';
comment on column david.v_due_lag.registration_id is 'The server''s registration; null in the row for all of them.';
comment on column david.v_due_lag.registration_name is 'Its name.';
comment on column david.v_due_lag.due is 'Rows that are due and not leased.';
comment on column david.v_due_lag.p50 is 'Half of them have waited for less.';
comment on column david.v_due_lag.p99 is 'All but one in a hundred have waited for less.';
comment on column david.v_due_lag.oldest is 'The longest wait, exact. That of a paused or closed server is meant to grow.';
comment on column david.v_due_lag.estimated is 'Whether due, p50 and p99 come from a sample.';

-- ---------------------------------------------------------------------------------------------
-- v_leases
-- ---------------------------------------------------------------------------------------------

create function david.leases()
    returns table (replica uuid, leases bigint, calls bigint, lapsed bigint, last_leased_at timestamptz,
                   next_lapse_at timestamptz, estimated boolean)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set enable_seqscan = off
as $$
    -- A lease ends within minutes, so leased rows lie near the head of the due index.
    with near as materialized (
        select t.leased_by, t.phase, t.due_at, t.updated_at
          from david.mcp_action_tasks t
         where t.phase <> 'finalised'
           and t.due_at <= now() + interval '10 minutes'
         order by t.due_at
         limit 8001
    ), crowd as materialized (
        select count(*) > 8000 as over from near
    ), percent as materialized (
        select david.sample_percent(600) as share
    ), leased as (
        select n.leased_by, n.phase, n.due_at, n.updated_at, 1::double precision as weight
          from near n
         where n.leased_by is not null
           and not (select c.over from crowd c)
         union all
        select t.leased_by, t.phase, t.due_at, t.updated_at, 100 / (select p.share from percent p)
          from david.mcp_action_tasks t tablesample system ((select p.share from percent p))
         where t.phase not in ('calling', 'finalised')
           and t.leased_by is not null
           and (select c.over from crowd c)
         union all
        -- Calls are few, and matter.
        select r.leased_by, 'calling', r.due_at, r.updated_at, 1
          from (select l.registration_id from david.lanes() l where l.phase = 'calling' and (select c.over from crowd c)) l
         cross join lateral (
               select t.leased_by, t.due_at, t.updated_at
                 from david.mcp_action_tasks t
                where t.phase <> 'finalised'
                  and t.registration_id collate "C" = l.registration_id
                  and t.phase collate "C" = 'calling'
                  and t.leased_by is not null
                order by t.due_at
                limit 2000) r
    )
    select l.leased_by,
           sum(l.weight)::bigint,
           count(*) filter (where l.phase = 'calling'),
           coalesce(sum(l.weight) filter (where l.due_at <= now()), 0)::bigint,
           max(l.updated_at),
           min(l.due_at),
           (select c.over from crowd c)
      from leased l
     group by l.leased_by
$$;

create view david.v_leases as
select l.replica, l.leases, l.calls, l.lapsed, l.last_leased_at, l.next_lapse_at, l.estimated
  from david.leases() l;

comment on view david.v_leases is
    'What each replica has leased. A replica without a lease has no line; one whose leases all lapsed is gone.';
comment on column david.v_leases.replica is 'Identity of one boot of a replica; its log has it as replica.';
comment on column david.v_leases.leases is 'Rows it has leased.';
comment on column david.v_leases.calls is 'Those of them with a tools/call that may be on the wire; never released by hand. Exact.';
comment on column david.v_leases.lapsed is 'Leases past their time: whoever leases next takes these rows over.';
comment on column david.v_leases.last_leased_at is 'When it last leased or wrote one of them.';
comment on column david.v_leases.next_lapse_at is 'When the first of its leases ends, or ended.';
comment on column david.v_leases.estimated is
    'Whether more than 8,000 rows are due within ten minutes: then leases and lapsed come from a sample, and a replica with few leases may be missing.';

-- ---------------------------------------------------------------------------------------------
-- v_stuck
-- ---------------------------------------------------------------------------------------------

create function david.stuck()
    returns table (action_id varchar, run_id varchar, registration_id varchar, registration_name varchar, phase text,
                   reason text, explanation text, what_to_do text, since timestamptz, due_at timestamptz, attempt integer,
                   lapses integer, execution_deadline timestamptz, last_error text)
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
               when 'server_down' then 'Repair the server: it is tried again by itself. ' || g.giving_up
               when 'call_lost' then 'Start a replica: the next lease ends it as outcome_unknown, or calls again if it is idempotent.'
               when 'not_leased' then 'See that replicas run and reach the database: select * from david.v_leases; and whether the whole queue is late: select * from david.v_due_lag;'
               when 'lapsing' then 'Look for why replicas died in their logs. ' || g.giving_up
               when 'failing' then format('Read last_error; when the server is repaired: select david.retry_now(%L, ''why''); ', j.action_id) || g.giving_up
               when 'unanswered' then format('select * from david.v_input_required where action_id = %L; then david.answer_input. ', j.action_id) || g.giving_up
               else format('To try at once: select david.retry_now(%L, ''why'');', j.action_id)
           end,
           case j.reason
               when 'lapsing' then j.updated_at
               when 'failing' then j.updated_at
               when 'unanswered' then j.asked_at
               when 'put_off' then j.updated_at
               else j.due_at
           end,
           j.due_at, j.attempt, j.lapsed, j.execution_deadline, j.last_error
      from judged j
      join david.actions a on a.id = j.action_id
     cross join lateral (
           select case j.phase
                      when 'cancelling' then format('To give its cancel up: select david.give_up_cancel(%L, ''why'');', j.action_id)
                      else format('To give it up: select david.fail_action(%L, ''why'');', j.action_id)
                  end as giving_up) g
     where j.reason is not null
$$;

create view david.v_stuck as
select s.action_id, s.run_id, s.registration_id, s.registration_name, s.phase, s.reason, s.explanation, s.what_to_do,
       s.since, s.due_at, s.attempt, s.lapses, s.execution_deadline,
       case when (select has_table_privilege('david.mcp_task_events', 'select')) then s.last_error end as last_error
  from david.stuck() s;

comment on view david.v_stuck is
    'Rows that do not get on, why, and what to do: up to 10 per server and phase that are overdue by two minutes, and up to 500 of each other kind.';
comment on column david.v_stuck.action_id is 'The Action.';
comment on column david.v_stuck.run_id is 'Its Run.';
comment on column david.v_stuck.registration_id is 'The server''s registration.';
comment on column david.v_stuck.registration_name is 'Its name; null once it is deleted.';
comment on column david.v_stuck.phase is 'The row''s phase.';
comment on column david.v_stuck.reason is
    'One word for programs: paused, server_down, call_lost, not_leased, lapsing, failing, unanswered, put_off.';
comment on column david.v_stuck.explanation is 'The same in a sentence.';
comment on column david.v_stuck.what_to_do is 'What helps, with the statement to run.';
comment on column david.v_stuck.since is 'Since when, as far as the row shows.';
comment on column david.v_stuck.due_at is 'When it may next be leased.';
comment on column david.v_stuck.attempt is 'Tries that failed in a row.';
comment on column david.v_stuck.lapses is 'Leases in a row that ended without a commit; the present one is not counted.';
comment on column david.v_stuck.execution_deadline is 'When the Action ends as deadline_exceeded.';
comment on column david.v_stuck.last_error is 'What went wrong last, in up to 500 characters. Null for who may not read david.mcp_task_events.';

-- ---------------------------------------------------------------------------------------------
-- v_registration_health
-- ---------------------------------------------------------------------------------------------

create function david.registration_health()
    returns table (registration_id varchar, registration_name varchar, owner_id varchar, enabled boolean, breaker text,
                   open_until timestamptz, trips integer, paused_at timestamptz, paused_by text, paused_reason text,
                   requests bigint, failures bigint, latency_ms real, last_success_at timestamptz, last_failure_at timestamptz,
                   last_error text, calls_in_flight bigint, call_slots_used bigint, max_calls integer)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
    select coalesce(g.id, h.registration_id), g.name, g.owner_id, g.enabled,
           case when coalesce(h.trips, 0) = 0 then 'closed' when h.open_until > now() then 'open' else 'half_open' end,
           h.open_until, coalesce(h.trips, 0), h.paused_at, h.paused_by, h.paused_reason,
           coalesce(h.requests, 0), coalesce(h.failures, 0), h.latency_ms, h.last_success_at, h.last_failure_at, h.last_error,
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

create view david.v_registration_health as
select h.registration_id, h.registration_name, h.owner_id, h.enabled, h.breaker, h.open_until, h.trips, h.paused_at, h.paused_by,
       h.paused_reason, h.requests, h.failures,
       round((1 - h.failures::numeric / nullif(h.requests, 0)), 4) as success_rate,
       h.latency_ms, h.last_success_at, h.last_failure_at,
       case when (select has_table_privilege('david.mcp_task_events', 'select')) then h.last_error end as last_error,
       h.calls_in_flight, h.call_slots_used, h.max_calls
  from david.registration_health() h;

comment on view david.v_registration_health is 'Every server: how it answers, its circuit breaker, whether it is paused, calls in flight.';
comment on column david.v_registration_health.registration_id is 'The server''s registration.';
comment on column david.v_registration_health.registration_name is 'Its name; null once it is deleted.';
comment on column david.v_registration_health.owner_id is 'The user it belongs to.';
comment on column david.v_registration_health.enabled is 'Whether Core allows traffic to it; null once it is deleted.';
comment on column david.v_registration_health.breaker is
    'closed: all is well; open: nothing is leased until open_until; half_open: one row at a time is tried.';
comment on column david.v_registration_health.open_until is 'When an open breaker lets a row through.';
comment on column david.v_registration_health.trips is 'How often it opened in a row.';
comment on column david.v_registration_health.paused_at is 'When an operator paused it; null when nobody did.';
comment on column david.v_registration_health.paused_by is 'Who did.';
comment on column david.v_registration_health.paused_reason is 'Why.';
comment on column david.v_registration_health.requests is 'Requests whose end a replica saw, ever.';
comment on column david.v_registration_health.failures is 'Those of them that brought no answer.';
comment on column david.v_registration_health.success_rate is 'The share that brought one, 0 to 1; null before the first.';
comment on column david.v_registration_health.latency_ms is 'Of answered requests, smoothed, in milliseconds.';
comment on column david.v_registration_health.last_success_at is 'When it last answered.';
comment on column david.v_registration_health.last_failure_at is 'When it last did not.';
comment on column david.v_registration_health.last_error is 'Why it did not. Null for who may not read david.mcp_task_events.';
comment on column david.v_registration_health.calls_in_flight is 'tools/call requests that may be on the wire, all replicas together; counted up to 10,000.';
comment on column david.v_registration_health.call_slots_used is 'Those of them that hold one of max_calls slots.';
comment on column david.v_registration_health.max_calls is 'How many slots there are; null when there is no bound.';

-- ---------------------------------------------------------------------------------------------
-- v_outcomes
-- ---------------------------------------------------------------------------------------------

create function david.outcomes() returns table (outcome text, last_hour bigint, last_day bigint, estimated boolean)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set enable_seqscan = off
as $$
    with kind as materialized (
        select * from david.outcomes_there_are()
    ), bound as materialized (
        select greatest(500, 10000 / greatest(count(*), 1)) as rows from kind
    ), counted as materialized (
        -- The newest first, so that what the bound cuts off is never the last hour's alone.
        select k.outcome, c.last_hour, c.last_day, c.last_day > (select b.rows from bound b) as over
          from kind k
         cross join lateral (
               select count(*) as last_day, count(*) filter (where r.finalised_at > now() - interval '1 hour') as last_hour
                 from (select t.finalised_at
                         from david.mcp_action_tasks t
                        where t.phase = 'finalised'
                          and t.outcome = k.outcome
                          and t.finalised_at > now() - interval '24 hours'
                        order by t.finalised_at desc
                        limit (select b.rows + 1 from bound b)) r) c
    ), percent as materialized (
        select david.sample_percent(800) as share
    ), sampled as materialized (
        select t.outcome,
               (count(*) * 100 / (select p.share from percent p))::bigint as last_day,
               (count(*) filter (where t.finalised_at > now() - interval '1 hour') * 100 / (select p.share from percent p))::bigint as last_hour
          from david.mcp_action_tasks t tablesample system ((select p.share from percent p))
         where t.phase = 'finalised'
           and t.finalised_at > now() - interval '24 hours'
           and exists (select from counted c where c.over)
         group by t.outcome
    )
    select c.outcome,
           case when c.over and c.last_hour = c.last_day then greatest(c.last_hour, s.last_hour) else c.last_hour end,
           case when c.over then greatest(c.last_day, s.last_day) else c.last_day end,
           c.over
      from counted c
      left join sampled s on s.outcome = c.outcome
     where c.last_day > 0
$$;

create view david.v_outcomes as
select o.outcome, o.last_hour, o.last_day, o.estimated from david.outcomes() o;

comment on view david.v_outcomes is
    'How Actions ended. One that still owes a remote cancel is in v_cancelling and comes here once that is settled.';
comment on column david.v_outcomes.outcome is 'One word, see docs/state-machine.md.';
comment on column david.v_outcomes.last_hour is 'Ends within the last hour.';
comment on column david.v_outcomes.last_day is 'Ends within the last 24 hours, the last one among them.';
comment on column david.v_outcomes.estimated is 'Whether there were too many in a day to count, some thousands: then last_day comes from a sample, and last_hour too if it alone had as many. Up to 500 are always counted.';

-- ---------------------------------------------------------------------------------------------
-- v_cancelling
-- ---------------------------------------------------------------------------------------------

create function david.cancelling()
    returns table (action_id varchar, run_id varchar, registration_id varchar, registration_name varchar, outcome text,
                   remote_task text, since timestamptz, due_at timestamptz, attempt integer, replica uuid, last_error text)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set enable_seqscan = off
as $$
    select t.action_id, a.run_id, t.registration_id, g.name, t.outcome,
           'sha256:' || left(encode(t.remote_task_key, 'hex'), 12),
           e.at, t.due_at, t.attempt, t.leased_by, t.last_error
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

create view david.v_cancelling as
select c.action_id, c.run_id, c.registration_id, c.registration_name, c.outcome, c.remote_task, c.since, c.due_at, c.attempt,
       c.replica,
       case when (select has_table_privilege('david.mcp_task_events', 'select')) then c.last_error end as last_error
  from david.cancelling() c;

comment on view david.v_cancelling is
    'Actions that have ended here while their remote task is owed a tasks/cancel: the 1,000 that are due first. v_backlog counts them all.';
comment on column david.v_cancelling.action_id is 'The Action; it has ended.';
comment on column david.v_cancelling.run_id is 'Its Run.';
comment on column david.v_cancelling.registration_id is 'The server''s registration.';
comment on column david.v_cancelling.registration_name is 'Its name; null once it is deleted.';
comment on column david.v_cancelling.outcome is 'How the Action ended.';
comment on column david.v_cancelling.remote_task is 'Fingerprint of the remote task''s id.';
comment on column david.v_cancelling.since is 'Since when the cancel is owed; null when history is older than its retention.';
comment on column david.v_cancelling.due_at is 'When it is sent, or sent again.';
comment on column david.v_cancelling.attempt is 'Tries that failed in a row.';
comment on column david.v_cancelling.replica is 'The replica that is at it.';
comment on column david.v_cancelling.last_error is 'What went wrong last. Null for who may not read david.mcp_task_events.';

-- ---------------------------------------------------------------------------------------------
-- v_action and v_timeline: one Action. Read them by action_id or run_id.
-- ---------------------------------------------------------------------------------------------

create view david.v_action with (security_barrier) as
select t.action_id,
       a.run_id,
       t.registration_id,
       g.name                                                         as registration_name,
       a.tool_name,
       a.status,
       t.phase,
       t.outcome,
       t.due_at,
       case when t.due_at > now() then t.leased_by end                as leased_by,
       t.fence,
       t.attempt,
       t.lapses,
       t.polls,
       t.last_polled_at,
       'sha256:' || left(encode(t.remote_task_key, 'hex'), 12)        as remote_task,
       t.remote_status,
       t.remote_expires_at,
       t.execution_deadline,
       t.created_at,
       t.updated_at,
       t.finalised_at,
       case when (select has_table_privilege('david.mcp_task_events', 'select')) then t.last_error end as last_error
  from david.mcp_action_tasks t
  join david.actions a on a.id = t.action_id
  left join david.mcp_server_registrations g on g.id = t.registration_id;

comment on view david.v_action is 'One Action with remote work as it stands. Ask for it by action_id or run_id.';
comment on column david.v_action.action_id is 'The Action.';
comment on column david.v_action.run_id is 'Its Run.';
comment on column david.v_action.registration_id is 'The server''s registration.';
comment on column david.v_action.registration_name is 'Its name; null once it is deleted.';
comment on column david.v_action.tool_name is 'The tool, by the name that the model knows.';
comment on column david.v_action.status is 'Core''s status of the Action.';
comment on column david.v_action.phase is 'Where it stands, see docs/state-machine.md.';
comment on column david.v_action.outcome is 'How it ended; null while it has not.';
comment on column david.v_action.due_at is 'When it may next be leased; the end of the lease while it is leased.';
comment on column david.v_action.leased_by is 'The replica that has it leased now.';
comment on column david.v_action.fence is 'Counts leases and changes from outside.';
comment on column david.v_action.attempt is 'Tries that failed in a row.';
comment on column david.v_action.lapses is 'Leases in a row that ended without a commit, the present one counted.';
comment on column david.v_action.polls is 'Polls that were written down; those that brought no news are not.';
comment on column david.v_action.last_polled_at is 'The last of those.';
comment on column david.v_action.remote_task is 'Fingerprint of the remote task''s id; null before there is one.';
comment on column david.v_action.remote_status is 'What the server last said of it.';
comment on column david.v_action.remote_expires_at is 'When the server may forget it.';
comment on column david.v_action.execution_deadline is 'When the Action ends as deadline_exceeded.';
comment on column david.v_action.created_at is 'When it was submitted.';
comment on column david.v_action.updated_at is 'When the row was last written.';
comment on column david.v_action.finalised_at is 'When nothing was left to do.';
comment on column david.v_action.last_error is 'What went wrong last. Null for who may not read david.mcp_task_events.';

create view david.v_timeline with (security_barrier) as
select e.action_id,
       e.at,
       e.event,
       e.transition,
       e.phase,
       e.outcome,
       e.fence,
       e.replica,
       e.run_id,
       e.registration_id,
       e.provider_name  as tool_name,
       e.id             as position,
       case when (select has_table_privilege('david.mcp_task_events', 'select')) then e.detail end as detail
  from david.mcp_task_events e;

comment on view david.v_timeline is
    'What happened to an Action: transitions, not polls. Ask for it by action_id, order by position.';
comment on column david.v_timeline.action_id is 'The Action.';
comment on column david.v_timeline.at is 'When.';
comment on column david.v_timeline.event is 'One of MCP_TASK_CREATED, _WORKING, _INPUT_REQUIRED, _COMPLETED, _FAILED, _CANCEL_REQUESTED, _CANCELLED, _EXPIRED, _RECOVERED.';
comment on column david.v_timeline.transition is 'What was done, see docs/state-machine.md; or the function that an operator called.';
comment on column david.v_timeline.phase is 'The phase after it.';
comment on column david.v_timeline.outcome is 'How the Action ended, if it did.';
comment on column david.v_timeline.fence is 'The row''s fence after it.';
comment on column david.v_timeline.replica is 'The replica that did it; null for functions and triggers of the database.';
comment on column david.v_timeline.run_id is 'Its Run.';
comment on column david.v_timeline.registration_id is 'The server''s registration.';
comment on column david.v_timeline.tool_name is 'The tool, by the name that the model knows.';
comment on column david.v_timeline.position is 'Order of the lines.';
comment on column david.v_timeline.detail is 'Why, or who and why for an operator. Null for who may not read david.mcp_task_events.';

-- ---------------------------------------------------------------------------------------------
-- v_input_required: comments for the columns that had none
-- ---------------------------------------------------------------------------------------------

alter view david.v_input_required set (security_barrier = true);

comment on column david.v_input_required.action_id is 'The Action that was asked.';
comment on column david.v_input_required.run_id is 'Its Run.';
comment on column david.v_input_required.user_id is 'Whose Run it is, and so who may be asked.';
comment on column david.v_input_required.registration_id is 'The server''s registration.';
comment on column david.v_input_required.registration_name is 'Its name; null once it is deleted.';
comment on column david.v_input_required.tool_name is 'The tool, by the name that the model knows.';
comment on column david.v_input_required.execution_deadline is 'When the Action ends as deadline_exceeded, answered or not.';

-- ---------------------------------------------------------------------------------------------
-- v_blockers and v_table_health: the database itself
-- ---------------------------------------------------------------------------------------------

-- With the rights of the schema's owner, who needs pg_read_all_stats (or to be a superuser) to see what
-- other roles' sessions hold back. No statement's text: it may hold arguments.
create function david.blockers()
    returns table (kind text, name text, role text, application text, state text, since timestamptz, xmin_age bigint, what_to_do text)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
    select case when s.backend_type = 'walsender' then 'standby' else 'transaction' end,
           s.pid::text, s.usename::text, s.application_name, s.state, coalesce(s.xact_start, s.backend_start),
           greatest(age(s.backend_xmin), age(s.backend_xid))::bigint,
           case when s.backend_type = 'walsender' then 'A standby with hot_standby_feedback runs a long query; end it there.'
                else format('If it is older than a few minutes: select pg_terminate_backend(%s);', s.pid) end
      from pg_stat_activity s
     where s.pid <> pg_backend_pid()
       and (s.datname = current_database() or s.backend_type = 'walsender')
       and s.backend_type in ('client backend', 'walsender', 'parallel worker', 'background worker')
       and coalesce(s.backend_xmin, s.backend_xid) is not null
     union all
    select 'prepared transaction', p.gid, p.owner::text, null, 'prepared', p.prepared, age(p.transaction)::bigint,
           format('Whoever prepared it must end it: commit prepared %L; or rollback prepared %1$L;', p.gid)
      from pg_prepared_xacts p
     where p.database = current_database()
     union all
    select 'replication slot', r.slot_name::text, null, null,
           case when r.active then 'active' else 'inactive' end, null,
           greatest(age(r.xmin), age(r.catalog_xmin))::bigint,
           case when r.active then 'Its consumer lags; see pg_replication_slots.'
                else format('If nobody will come back for it: select pg_drop_replication_slot(%L);', r.slot_name) end
      from pg_replication_slots r
     where coalesce(r.xmin, r.catalog_xmin) is not null
$$;

create view david.v_blockers as
select b.kind, b.name, b.role, b.application, b.state, b.since, b.xmin_age, b.what_to_do from david.blockers() b;

comment on view david.v_blockers is
    'What keeps vacuum from removing dead rows, the oldest of which slow every lease: transactions, prepared ones, standbys, replication slots. Order by xmin_age desc. Sees sessions of other roles if the schema''s owner has pg_read_all_stats.';
comment on column david.v_blockers.kind is 'transaction, standby, prepared transaction or replication slot.';
comment on column david.v_blockers.name is 'Process id, prepared transaction''s name or slot''s name.';
comment on column david.v_blockers.role is 'Whose it is.';
comment on column david.v_blockers.application is 'Its application_name.';
comment on column david.v_blockers.state is 'idle in transaction is the usual culprit.';
comment on column david.v_blockers.since is 'When it began; unknown for a slot.';
comment on column david.v_blockers.xmin_age is 'How many transactions ago: what died since then cannot be removed.';
comment on column david.v_blockers.what_to_do is 'What ends it.';

-- With the owner's rights, since the statistics of a table are for those who may read it.
create function david.table_health()
    returns table (table_name text, live_rows bigint, dead_rows bigint, last_vacuum timestamptz, last_analyze timestamptz,
                   table_bytes bigint, index_bytes bigint, bloat_bytes bigint, indexes json)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
    select c.relname::text, s.n_live_tup, s.n_dead_tup,
           greatest(s.last_vacuum, s.last_autovacuum), greatest(s.last_analyze, s.last_autoanalyze),
           pg_table_size(c.oid), pg_indexes_size(c.oid),
           -- What live rows need, at the table's fillfactor, against what the table takes.
           case when w.width is not null then
               greatest(0, pg_relation_size(c.oid) - (s.n_live_tup * (28 + w.width) * 100.0 / coalesce(f.fillfactor, 100))::bigint)
           end,
           (select json_object_agg(i.relname, pg_relation_size(i.oid) order by i.relname)
              from pg_index x
              join pg_class i on i.oid = x.indexrelid
             where x.indrelid = c.oid)
      from pg_class c
      join pg_stat_all_tables s on s.relid = c.oid
      left join lateral (
           select sum(p.avg_width * (1 - p.null_frac)) as width
             from pg_stats p
            where p.schemaname = 'david' and p.tablename = c.relname) w on true
      left join lateral (
           select o.option_value::numeric as fillfactor
             from pg_options_to_table(c.reloptions) o
            where o.option_name = 'fillfactor') f on true
     where c.relnamespace = 'david'::regnamespace
       and c.relkind = 'r'
       and c.relname <> '_sqlx_migrations'
$$;

create view david.v_table_health as
select h.table_name, h.live_rows, h.dead_rows,
       round(h.dead_rows::numeric / nullif(h.live_rows + h.dead_rows, 0), 4) as dead_share,
       h.last_vacuum, h.last_analyze, h.table_bytes, h.index_bytes, h.bloat_bytes, h.indexes
  from david.table_health() h;

comment on view david.v_table_health is
    'Size and tidiness of every table; mcp_action_tasks is the hot one. Row counts are the statistics collector''s.';
comment on column david.v_table_health.table_name is 'The table.';
comment on column david.v_table_health.live_rows is 'Live rows, estimated.';
comment on column david.v_table_health.dead_rows is 'Dead rows that vacuum has not removed yet, estimated.';
comment on column david.v_table_health.dead_share is 'Dead among all, 0 to 1. Above 0.2 in mcp_action_tasks: look at v_blockers and last_vacuum.';
comment on column david.v_table_health.last_vacuum is 'When vacuum was last there, by itself or by hand.';
comment on column david.v_table_health.last_analyze is 'When its statistics were last taken.';
comment on column david.v_table_health.table_bytes is 'Size without indexes.';
comment on column david.v_table_health.index_bytes is 'Size of all its indexes.';
comment on column david.v_table_health.bloat_bytes is 'What the table takes beyond what its live rows need, a rough estimate; null before the first analyze.';
comment on column david.v_table_health.indexes is 'Size of each index in bytes, by name.';

-- ---------------------------------------------------------------------------------------------
-- v_registrations
-- ---------------------------------------------------------------------------------------------

create view david.v_registrations as
select g.id             as registration_id,
       g.name           as registration_name,
       g.owner_id,
       g.url,
       g.auth_type,
       g.credential_id,
       g.enabled,
       g.timeout_seconds,
       g.max_calls
  from david.mcp_server_registrations g;

comment on view david.v_registrations is 'Every server: where it is and how it is called. For operators and workers; a URL is no viewer''s business.';
comment on column david.v_registrations.registration_id is 'The server''s registration.';
comment on column david.v_registrations.registration_name is 'Its name.';
comment on column david.v_registrations.owner_id is 'The user it belongs to.';
comment on column david.v_registrations.url is 'Its MCP endpoint. Never holds a credential.';
comment on column david.v_registrations.auth_type is 'none or bearer.';
comment on column david.v_registrations.credential_id is 'Which bearer credential it wants: a name, not the token.';
comment on column david.v_registrations.enabled is 'Whether Core allows traffic to it.';
comment on column david.v_registrations.timeout_seconds is 'Longest that one tools/call may take.';
comment on column david.v_registrations.max_calls is 'How many calls may be on the wire at once, all replicas together; null when there is no bound.';

-- Who may look is said in 0010.
revoke all on function david.lanes(), david.outcomes_there_are(), david.sample_percent(integer), david.backlog(), david.due_lag(),
    david.leases(), david.stuck(),
    david.registration_health(), david.outcomes(), david.cancelling(), david.blockers(), david.table_health() from public;
