-- Intent: storage options of the tables in schema david, one line each; a table without any has none.
-- Locks:  none.
-- Index:  none.
select c.relname::text as "table_name!", o.option_name as "name!", o.option_value as "value!"
  from pg_catalog.pg_class c
 cross join lateral pg_options_to_table(c.reloptions) o
 where c.relnamespace = to_regnamespace('david')
   and c.relkind = 'r'
