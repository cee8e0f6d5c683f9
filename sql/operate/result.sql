-- Intent: an Action's envelope, as it was stored. $1 is the Action. Takes the right to read outputs, which Core
--         has and an operator has not.
-- Locks:  none.
-- Index:  the unique one on action_id.
select o.envelope::text as "envelope!"
  from david.tool_outputs o
 where o.action_id = $1
