-- Handing outputs over to a Core that keeps its own tables: leased, and at least once. A consumer that
-- dies before it has acknowledged leaves them to the next. Who reads tool_outputs where it stands needs
-- none of this.

alter table david.tool_outputs
    -- Taken, and not to be taken by anybody else before.
    add column taken_until      timestamptz  not null default '-infinity',
    add column acknowledged_at  timestamptz;

create index tool_outputs_to_take on david.tool_outputs (taken_until, id) where acknowledged_at is null;

-- Takes up to p_limit outputs that nobody has acknowledged or holds, for p_term. The same output comes
-- again after p_term unless it is acknowledged; its message_id is the same each time, so that a consumer
-- recognises it.
create function david.take_outputs(p_limit integer, p_term interval default interval '1 minute')
    returns table (action_id varchar, run_id varchar, message_id text, outcome text, is_error boolean,
                   envelope json, created_at timestamptz, run_cancelled boolean)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if p_limit is null or p_limit not between 1 and 10000 then
        raise exception 'p_limit must be between 1 and 10000, not %', coalesce(p_limit::text, 'null') using errcode = 'DT001';
    end if;
    if p_term is null or p_term <= interval '0' or p_term > interval '1 day' then
        raise exception 'p_term must be more than zero and at most a day, not %', coalesce(p_term::text, 'null')
            using errcode = 'DT001', hint = 'It is the time you need to write the outputs down and to acknowledge them.';
    end if;

    return query
    with taken as (
        update david.tool_outputs o
           set taken_until = now() + p_term
         where o.id = any (array(
                   select d.id
                     from david.tool_outputs d
                    where d.acknowledged_at is null
                      and d.taken_until <= now()
                    order by d.taken_until, d.id
                    limit p_limit
                      for update skip locked))
     returning o.*
    )
    select t.action_id, a.run_id, t.message_id, t.outcome, t.is_error, t.envelope, t.created_at,
           (r.cancelled_at is not null or r.status = 'cancelled')
      from taken t
      join david.actions a on a.id = t.action_id
      join david.runs r on r.id = a.run_id
     order by t.id;
end
$$;

comment on function david.take_outputs(integer, interval) is
    'Hands over outputs at least once: acknowledge with david.ack_outputs within p_term, or they come again. run_cancelled: the Run was cancelled after the output was written.';

-- Acknowledges outputs of these Actions; how many were not acknowledged before. An Action that has none,
-- or that is gone, is passed over, so that a consumer may always repeat itself.
create function david.ack_outputs(p_action_ids varchar[]) returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_acknowledged integer;
begin
    if p_action_ids is null then
        raise exception 'p_action_ids must be an array, not null' using errcode = 'DT001';
    end if;

    -- In the order of ids, as everybody who locks several of them does.
    with mine as (
        select o.id
          from david.tool_outputs o
         where o.action_id = any (p_action_ids)
           and o.acknowledged_at is null
         order by o.id
           for update
    )
    update david.tool_outputs o
       set acknowledged_at = now()
      from mine
     where o.id = mine.id;
    get diagnostics v_acknowledged = row_count;
    return v_acknowledged;
end
$$;

comment on function david.ack_outputs(varchar[]) is
    'Outputs of these Actions are not handed over again. Returns how many were not acknowledged before.';
