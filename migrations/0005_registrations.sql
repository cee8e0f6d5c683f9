-- A registration that cannot be right is refused with a word on what to do, and without repeating it: what a
-- CHECK refuses, Postgres shows in full.

create function david.check_registration() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- However many slashes: what reads it later may be lenient.
    if new.url ~ '^[^:/?#]+:[/\\]*[^/?#\\]*@' or new.normalized_url ~ '^[^:/?#]+:[/\\]*[^/?#\\]*@' then
        raise exception 'the URL of registration % holds a user name or a password', new.id
            using errcode = 'DT001',
                  hint = 'Leave it out of the URL: set auth_type to bearer and credential_id to the name of a credential that the workers have.';
    end if;
    return new;
end
$$;

create trigger registrations_checked before insert or update of url, normalized_url on david.mcp_server_registrations
    for each row execute function david.check_registration();
alter table david.mcp_server_registrations enable always trigger registrations_checked;

comment on column david.mcp_server_registrations.url is
    'Where the server is: https unless the workers trust its host. Never a user name or a password.';
comment on column david.mcp_server_registrations.normalized_url is
    'The URL as Core compares it: lower-case scheme and host, no default port, no fragment.';
comment on column david.mcp_server_registrations.identity_key is
    'One registration per owner and server: Core''s hash of transport and normalized_url, in hex. Any other unique word does.';
