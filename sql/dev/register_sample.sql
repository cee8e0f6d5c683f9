-- Intent: register the sample server of `david-tasks dev`, as Core would. $1 is its URL. A second time changes nothing.
-- Locks:  none.
-- Index:  primary key.
insert into david.mcp_server_registrations (id, owner_id, name, url, normalized_url, identity_key)
values ('reg_sample', 'user_dev', 'the sample server', $1, $1, 'sample')
    on conflict do nothing
