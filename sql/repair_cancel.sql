-- Intent: move the unfinished Actions of a cancelled Run whose canceller could not see them (it
--         ran in repeatable read); the function is the trigger's own.
-- Locks:  Actions, then tasks, in id order; the Run is held.
-- Index:  actions_run_id.
select david.cancel_actions_of_run($1::text) as "moved!"
