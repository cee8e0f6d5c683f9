-- Intent: how many rows do not get on, by reason, as far as david.v_stuck lists them (its bounds are in
--         docs/views.md). For /metrics, read once a minute at most: it takes some ten milliseconds.
-- Locks:  none.
-- Index:  those of david.v_stuck.
select s.reason as "reason!", count(*) as "stuck!"
  from david.v_stuck s
 group by s.reason
