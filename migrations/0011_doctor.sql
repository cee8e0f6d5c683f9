-- What `david-tasks doctor` looks at and no view showed: where the servers are, and which migrations there are.

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

-- What set_up_roles granted so far, whichever migration said so last, stays as it is.
alter function david.set_up_roles(text) rename to set_up_roles_before_0011;

create function david.set_up_roles(p_prefix text default 'david_') returns setof text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_kind  text;
    v_role  text;
begin
    return query select m.role from david.set_up_roles_before_0011(p_prefix) m (role);

    foreach v_kind in array array['worker', 'operator'] loop
        v_role := p_prefix || v_kind;
        if exists (select from pg_roles r where r.rolname = v_role) then
            execute format('grant select on david.v_registrations to %I', v_role);
            -- Is the schema as new as the binary needs?
            if to_regclass('david._sqlx_migrations') is not null then
                execute format('grant select on david._sqlx_migrations to %I', v_role);
            end if;
        end if;
    end loop;
end
$$;

comment on function david.set_up_roles(text) is
    'Creates the roles that are missing, if it may, and grants them what they need; returns those that are still missing. For the schema''s owner.';
comment on function david.set_up_roles_before_0011(text) is 'A part of david.set_up_roles, which is what to call.';

revoke all on function david.set_up_roles(text), david.set_up_roles_before_0011(text) from public;

select david.set_up_roles();
