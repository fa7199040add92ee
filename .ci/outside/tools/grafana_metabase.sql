-- Grafana's source PostgreSQL: its tests, and the choices of its query builder.
select current_setting('server_version_num')::int / 100 as version;
select extversion from pg_extension where extname = 'timescaledb';
-- rows
select case when table_schema = any (array(select trim(s) from unnest(string_to_array(replace(current_setting('search_path'), '"$user"', user), ',')) s)) then quote_ident(table_name)
  else quote_ident(table_schema) || '.' || quote_ident(table_name) end as "table"
from information_schema.tables where quote_ident(table_schema) not in ('information_schema', 'pg_catalog', '_timescaledb_cache') order by 1;
-- rows
select quote_ident(column_name) as "column", data_type as "type" from information_schema.columns where quote_ident(table_schema) || '.' || quote_ident(table_name) = 'shop.sale' order by ordinal_position;
-- rows
select floor(extract(epoch from at) / 86400) * 86400 as "time", avg(total) as value from shop.sale where at between '2024-01-01T00:00:00Z' and '2024-12-01T00:00:00Z' group by 1 order by 1;
-- Metabase: its synchronization, and what it asks for privileges.
select current_setting('TIMEZONE');
show timezone;
-- rows
select n.nspname as schema, c.relname as name, case c.relkind when 'r' then 'TABLE' when 'p' then 'PARTITIONED TABLE' when 'v' then 'VIEW' when 'f' then 'FOREIGN TABLE' when 'm' then 'MATERIALIZED VIEW' end as type,
  d.description, nullif(stat.n_live_tup, 0) is null or true as counted
from pg_catalog.pg_class c inner join pg_catalog.pg_namespace n on c.relnamespace = n.oid
  left join pg_catalog.pg_description d on c.oid = d.objoid and d.objsubid = 0 and d.classoid = 'pg_class'::regclass left join pg_stat_user_tables stat on n.nspname = stat.schemaname and c.relname = stat.relname
where c.relnamespace = n.oid and n.nspname !~ '^information_schema|catalog_history|pg_' and c.relkind in ('r', 'p', 'v', 'f', 'm') order by type, schema, name;
-- rows
with table_privileges as (select null as role, t.schemaname as schema, t.objectname as table, pg_catalog.has_any_column_privilege(current_user, format('%I.%I', t.schemaname, t.objectname), 'update') as update,
  pg_catalog.has_any_column_privilege(current_user, format('%I.%I', t.schemaname, t.objectname), 'select') as select, pg_catalog.has_any_column_privilege(current_user, format('%I.%I', t.schemaname, t.objectname), 'insert') as insert,
  pg_catalog.has_table_privilege(current_user, format('%I.%I', t.schemaname, t.objectname), 'delete') as delete
  from (select schemaname, tablename as objectname from pg_catalog.pg_tables union select schemaname, viewname from pg_catalog.pg_views union select schemaname, matviewname from pg_catalog.pg_matviews) t
  where t.schemaname !~ '^pg_' and t.schemaname <> 'information_schema' and pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage'))
select t.* from table_privileges t where t.select or t.update or t.insert or t.delete order by 2, 3;
-- rows
select c.column_name as name, case when c.udt_schema in ('public', 'pg_catalog') then format('%s', c.udt_name) else format('"%s"."%s"', c.udt_schema, c.udt_name) end as "database-type", c.ordinal_position - 1 as "database-position",
  c.table_schema as "table-schema", c.table_name as "table-name", pk.column_name is not null as "pk?", col_description(format('%I.%I', c.table_schema, c.table_name)::regclass, c.ordinal_position) as "field-comment",
  (c.column_default is null or lower(c.column_default) = 'null') and c.is_nullable = 'NO' and not (c.column_default is not null and c.column_default like '%nextval(%' or c.is_identity <> 'NO') as "database-required",
  c.column_default is not null and c.column_default like '%nextval(%' or c.is_identity <> 'NO' as "database-is-auto-increment"
from information_schema.columns c left join (select tc.table_schema, tc.table_name, kc.column_name from information_schema.table_constraints tc
    join information_schema.key_column_usage kc on tc.constraint_name = kc.constraint_name and tc.table_schema = kc.table_schema and tc.table_name = kc.table_name where tc.constraint_type = 'PRIMARY KEY') pk
  on c.table_schema = pk.table_schema and c.table_name = pk.table_name and c.column_name = pk.column_name
where c.table_schema !~ '^information_schema|catalog_history|pg_' order by "table-schema", "table-name", "database-position";
-- rows
select fk_ns.nspname as "fk-table-schema", fk_table.relname as "fk-table-name", fk_column.attname as "fk-column-name", pk_ns.nspname, pk_table.relname, pk_column.attname
from pg_constraint c join pg_class fk_table on c.conrelid = fk_table.oid join pg_namespace fk_ns on c.connamespace = fk_ns.oid join pg_attribute fk_column on c.conrelid = fk_column.attrelid
  join pg_class pk_table on c.confrelid = pk_table.oid join pg_namespace pk_ns on pk_table.relnamespace = pk_ns.oid join pg_attribute pk_column on c.confrelid = pk_column.attrelid
where fk_ns.nspname !~ '^information_schema|catalog_history|pg_' and c.contype = 'f'::char and fk_column.attnum = any (c.conkey) and pk_column.attnum = any (c.confkey) order by 1, 2;
-- rows
select tmp.table_schema, tmp.table_name, trim(both '"' from pg_catalog.pg_get_indexdef(tmp.ci_oid, tmp.pos, false)) as "field-name"
from (select n.nspname as table_schema, ct.relname as table_name, ci.oid as ci_oid, (information_schema._pg_expandarray(i.indkey)).n as pos, (information_schema._pg_expandarray(i.indkey)).x as attr
  from pg_catalog.pg_class ct join pg_catalog.pg_namespace n on ct.relnamespace = n.oid join pg_catalog.pg_index i on ct.oid = i.indrelid join pg_catalog.pg_class ci on ci.oid = i.indexrelid
  where pg_catalog.pg_get_expr(i.indpred, i.indrelid) is null and n.nspname = 'shop') as tmp where tmp.pos = 1 order by 1, 2, 3;
-- rows
select nspname, typname from pg_type t join pg_namespace n on n.oid = t.typnamespace where t.oid in (select distinct enumtypid from pg_enum);
