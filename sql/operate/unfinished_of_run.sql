-- Intent: the unfinished Actions of an Action's Run, that Action among them. $1 is the Action.
-- Locks:  none.
-- Index:  those of v_action.
select v.action_id as "action_id!", v.run_id as "run_id!", v.outcome
  from david.v_action v
 where v.run_id = (select a.run_id from david.v_action a where a.action_id = $1)
   and (v.outcome is null or v.action_id = $1)
 order by v.action_id
