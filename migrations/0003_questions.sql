-- Questions of servers, for whoever answers them: where they are seen, and where they are not wanted.

-- Whether questions of this server are shown to anybody. 'fail': an Action that is asked ends as
-- input_unsupported, and its task is cancelled.
alter table david.mcp_server_registrations
    add column input_policy varchar(16) not null default 'surface'
        constraint registrations_input_policy_known check (input_policy in ('surface', 'fail'));

-- What waits for an answer now, and what was answered and is on its way.
create view david.v_input_required as
select t.action_id,
       a.run_id,
       r.user_id,
       t.registration_id,
       g.name                                                          as registration_name,
       a.tool_name,
       case when t.remote_task_id is null then 'call' else 'task' end  as asked_by,
       i.round,
       i.key,
       i.state,
       i.request,
       i.created_at                                                    as asked_at,
       t.execution_deadline
  from david.mcp_action_tasks t
  join david.mcp_input_requests i on i.task_id = t.id and i.round = t.input_round
  join david.actions a on a.id = t.action_id
  join david.runs r on r.id = a.run_id
  left join david.mcp_server_registrations g on g.id = t.registration_id
 where t.phase = 'input_required'
   and i.state <> 'sent';

comment on view david.v_input_required is
    'Questions of servers that wait for david.answer_input(action_id, key, response), and answers on their way.';
comment on column david.v_input_required.asked_by is
    'call: the server asks before it executes the tool; task: in the middle of it.';
comment on column david.v_input_required.round is
    'Counts how often this Action was asked; only the present round can be answered.';
comment on column david.v_input_required.key is 'What to pass to answer_input, with the Action.';
comment on column david.v_input_required.state is
    'pending: waits for an answer; answered: not sent yet; sending: sent, unless a replica died just then.';
comment on column david.v_input_required.request is
    'The server''s question, as it came: data, never opened or followed. elicitation/create in form mode has params.message and params.requestedSchema.';
comment on column david.v_input_required.asked_at is 'The worker''s --input-timeout counts from here.';
