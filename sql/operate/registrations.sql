-- Intent: the enabled servers, to see whether they can be reached. $1 at most.
-- Locks:  none.
-- Index:  none; registrations are few beside Actions.
select r.registration_id as "registration_id!", r.url as "url!", r.auth_type as "auth_type!", r.credential_id
  from david.v_registrations r
 where r.enabled
 order by r.registration_id
 limit $1
