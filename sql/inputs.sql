-- Intent: the present round of questions of the rows $1.
-- Locks:  none.
-- Index:  primary key of mcp_action_tasks, then inputs_one_per_round_and_key.
select i.task_id                                             as "task_id!",
       i.key                                                 as "key!",
       i.request::text                                       as "request!",
       i.state                                               as "state!",
       i.response::text                                      as "response?",
       (extract(epoch from i.created_at) * 1000000)::bigint  as "created_at!"
  from david.mcp_action_tasks t
  join david.mcp_input_requests i on i.task_id = t.id and i.round = t.input_round
 where t.id = any ($1::bigint[])
 order by i.id
