-- Intent: how many calls a replica may have on the wire, which no release takes away. $1 is the replica.
-- Locks:  none.
-- Index:  those of v_leases.
select l.calls as "calls!"
  from david.v_leases l
 where l.replica = $1
