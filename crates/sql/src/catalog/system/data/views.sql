-- pg_catalog.pg_roles
select rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolconnlimit,
  '********'::text as rolpassword, rolvaliduntil, rolbypassrls, setconfig as rolconfig, r.oid
from pg_catalog.pg_authid r left join pg_catalog.pg_db_role_setting on r.oid = setrole and setdatabase = 0;

-- pg_catalog.pg_shadow
select rolname as usename, r.oid as usesysid, rolcreatedb as usecreatedb, rolsuper as usesuper,
  rolreplication as userepl, rolbypassrls as usebypassrls, rolpassword as passwd, rolvaliduntil as valuntil,
  setconfig as useconfig
from pg_catalog.pg_authid r left join pg_catalog.pg_db_role_setting on r.oid = setrole and setdatabase = 0
where rolcanlogin;

-- pg_catalog.pg_user
select usename, usesysid, usecreatedb, usesuper, userepl, usebypassrls, '********'::text as passwd, valuntil,
  useconfig
from pg_catalog.pg_shadow;

-- pg_catalog.pg_group
select rolname as groname, oid as grosysid,
  array(select member from pg_catalog.pg_auth_members where roleid = oid) as grolist
from pg_catalog.pg_authid where not rolcanlogin;

-- pg_catalog.pg_policies
select n.nspname as schemaname, c.relname as tablename, p.polname as policyname, null::text as permissive,
  null::name[] as roles, null::text as cmd, null::text as qual, null::text as with_check
from pg_catalog.pg_policy p join pg_catalog.pg_class c on c.oid = p.polrelid
  left join pg_catalog.pg_namespace n on n.oid = c.relnamespace;

-- pg_catalog.pg_rules
select n.nspname as schemaname, c.relname as tablename, r.rulename,
  pg_catalog.pg_get_ruledef(r.oid) as definition
from pg_catalog.pg_rewrite r join pg_catalog.pg_class c on c.oid = r.ev_class
  left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where r.rulename <> '_RETURN';

-- pg_catalog.pg_views
select n.nspname as schemaname, c.relname as viewname, pg_catalog.pg_get_userbyid(c.relowner) as viewowner,
  pg_catalog.pg_get_viewdef(c.oid) as definition
from pg_catalog.pg_class c left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'v';

-- pg_catalog.pg_tables
select n.nspname as schemaname, c.relname as tablename, pg_catalog.pg_get_userbyid(c.relowner) as tableowner,
  t.spcname as tablespace, c.relhasindex as hasindexes, c.relhasrules as hasrules,
  c.relhastriggers as hastriggers, c.relrowsecurity as rowsecurity
from pg_catalog.pg_class c left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_tablespace t on t.oid = c.reltablespace
where c.relkind in ('r', 'p');

-- pg_catalog.pg_matviews
select n.nspname as schemaname, c.relname as matviewname,
  pg_catalog.pg_get_userbyid(c.relowner) as matviewowner, t.spcname as tablespace,
  c.relhasindex as hasindexes, c.relispopulated as ispopulated,
  pg_catalog.pg_get_viewdef(c.oid) as definition
from pg_catalog.pg_class c left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_tablespace t on t.oid = c.reltablespace
where c.relkind = 'm';

-- pg_catalog.pg_indexes
select n.nspname as schemaname, c.relname as tablename, i.relname as indexname, t.spcname as tablespace,
  pg_catalog.pg_get_indexdef(i.oid) as indexdef
from pg_catalog.pg_index x join pg_catalog.pg_class c on c.oid = x.indrelid
  join pg_catalog.pg_class i on i.oid = x.indexrelid
  left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_tablespace t on t.oid = i.reltablespace
where c.relkind in ('r', 'm', 'p') and i.relkind in ('i', 'I');

-- pg_catalog.pg_sequences
select n.nspname as schemaname, c.relname as sequencename,
  pg_catalog.pg_get_userbyid(c.relowner) as sequenceowner, s.seqtypid::regtype as data_type,
  s.seqstart as start_value, s.seqmin as min_value, s.seqmax as max_value, s.seqincrement as increment_by,
  s.seqcycle as cycle, s.seqcache as cache_size, pg_catalog.pg_sequence_last_value(c.oid) as last_value
from pg_catalog.pg_sequence s join pg_catalog.pg_class c on c.oid = s.seqrelid
  left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'S';

-- pg_catalog.pg_settings
select * from pg_catalog.pg_show_all_settings() as a;

-- pg_catalog.pg_locks
select * from pg_catalog.pg_lock_status() as l;

-- pg_catalog.pg_cursors
select * from pg_catalog.pg_cursor() as c;

-- pg_catalog.pg_prepared_statements
select * from pg_catalog.pg_prepared_statement() as p;

-- pg_catalog.pg_prepared_xacts
select p.transaction, p.gid, p.prepared, u.rolname as owner, d.datname as database
from pg_catalog.pg_prepared_xact() as p left join pg_catalog.pg_authid u on p.ownerid = u.oid
  left join pg_catalog.pg_database d on p.dbid = d.oid;

-- pg_catalog.pg_timezone_names
select * from pg_catalog.pg_timezone_names() as n;

-- pg_catalog.pg_timezone_abbrevs
select * from pg_catalog.pg_timezone_abbrevs() as n;

-- pg_catalog.pg_available_extensions
select e.name, e.default_version, x.extversion as installed_version, e.comment
from pg_catalog.pg_available_extensions() as e left join pg_catalog.pg_extension x on e.name = x.extname;

-- pg_catalog.pg_stat_user_tables
select a.* from pg_catalog.pg_stat_all_tables a where a.schemaname not in ('pg_catalog', 'information_schema');

-- pg_catalog.pg_stat_user_indexes
select c.oid as relid, i.oid as indexrelid, n.nspname as schemaname, c.relname, i.relname as indexrelname,
  0::int8 as idx_scan, 0::int8 as idx_tup_read, 0::int8 as idx_tup_fetch
from pg_catalog.pg_class c join pg_catalog.pg_index x on c.oid = x.indrelid
  join pg_catalog.pg_class i on i.oid = x.indexrelid
  left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 't', 'm') and n.nspname not in ('pg_catalog', 'information_schema');

-- pg_catalog.pg_stat_all_tables
select c.oid as relid, n.nspname as schemaname, c.relname, 0::int8 as seq_scan, 0::int8 as seq_tup_read,
  0::int8 as idx_scan, 0::int8 as idx_tup_fetch, pg_catalog.pg_stat_get_tuples_inserted(c.oid) as n_tup_ins,
  pg_catalog.pg_stat_get_tuples_updated(c.oid) as n_tup_upd,
  pg_catalog.pg_stat_get_tuples_deleted(c.oid) as n_tup_del, 0::int8 as n_tup_hot_upd,
  pg_catalog.pg_stat_get_live_tuples(c.oid) as n_live_tup, 0::int8 as n_dead_tup,
  pg_catalog.pg_stat_get_mod_since_analyze(c.oid) as n_mod_since_analyze, 0::int8 as n_ins_since_vacuum,
  null::timestamptz as last_vacuum, null::timestamptz as last_autovacuum,
  pg_catalog.pg_stat_get_last_analyze_time(c.oid) as last_analyze,
  pg_catalog.pg_stat_get_last_autoanalyze_time(c.oid) as last_autoanalyze, 0::int8 as vacuum_count,
  0::int8 as autovacuum_count, pg_catalog.pg_stat_get_analyze_count(c.oid) as analyze_count,
  pg_catalog.pg_stat_get_autoanalyze_count(c.oid) as autoanalyze_count
from pg_catalog.pg_class c left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 't', 'm', 'p');

-- pg_catalog.pg_stat_all_indexes
select c.oid as relid, i.oid as indexrelid, n.nspname as schemaname, c.relname, i.relname as indexrelname,
  0::int8 as idx_scan, 0::int8 as idx_tup_read, 0::int8 as idx_tup_fetch
from pg_catalog.pg_class c join pg_catalog.pg_index x on c.oid = x.indrelid
  join pg_catalog.pg_class i on i.oid = x.indexrelid
  left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 't', 'm');

-- pg_catalog.pg_statio_all_tables
select c.oid as relid, n.nspname as schemaname, c.relname, 0::int8 as heap_blks_read, 0::int8 as heap_blks_hit,
  0::int8 as idx_blks_read, 0::int8 as idx_blks_hit, 0::int8 as toast_blks_read, 0::int8 as toast_blks_hit,
  0::int8 as tidx_blks_read, 0::int8 as tidx_blks_hit
from pg_catalog.pg_class c left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 't', 'm');

-- pg_catalog.pg_statio_user_tables
select * from pg_catalog.pg_statio_all_tables
where schemaname not in ('pg_catalog', 'information_schema');

-- pg_catalog.pg_seclabels
select l.objoid, l.classoid, l.objsubid, null::text as objtype, null::oid as objnamespace,
  null::text as objname, l.provider, l.label
from pg_catalog.pg_seclabel l
union all
select l.objoid, l.classoid, 0::int4, null::text, null::oid, null::text, l.provider, l.label
from pg_catalog.pg_shseclabel l;

-- information_schema.information_schema_catalog_name
select pg_catalog.current_database()::name as catalog_name;

-- information_schema.schemata
select pg_catalog.current_database()::name as catalog_name, n.nspname as schema_name,
  u.rolname as schema_owner, null::name as default_character_set_catalog,
  null::name as default_character_set_schema, null::name as default_character_set_name,
  null::varchar as sql_path
from pg_catalog.pg_namespace n, pg_catalog.pg_authid u
where n.nspowner = u.oid
  and (pg_catalog.pg_has_role(n.nspowner, 'USAGE')
    or pg_catalog.has_schema_privilege(n.oid, 'CREATE, USAGE'));

-- information_schema.tables
select pg_catalog.current_database()::name as table_catalog, n.nspname as table_schema,
  c.relname as table_name,
  (case when c.relpersistence = 't' then 'LOCAL TEMPORARY' when c.relkind = 'v' then 'VIEW'
    when c.relkind = 'f' then 'FOREIGN' else 'BASE TABLE' end)::varchar as table_type,
  null::name as self_referencing_column_name, null::varchar as reference_generation,
  null::name as user_defined_type_catalog, null::name as user_defined_type_schema,
  null::name as user_defined_type_name,
  (case when pg_catalog.pg_relation_is_updatable(c.oid, false) & 8 = 8 then 'YES' else 'NO' end)::varchar(3)
    as is_insertable_into,
  'NO'::varchar(3) as is_typed, null::varchar as commit_action
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'v', 'f', 'p')
  and (pg_catalog.pg_has_role(c.relowner, 'USAGE')
    or pg_catalog.has_table_privilege(c.oid,
      'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'));

-- information_schema.views
select pg_catalog.current_database()::name as table_catalog, n.nspname as table_schema,
  c.relname as table_name, pg_catalog.pg_get_viewdef(c.oid)::varchar as view_definition,
  (case when 'check_option=cascaded' = any (c.reloptions) then 'CASCADED'
    when 'check_option=local' = any (c.reloptions) then 'LOCAL' else 'NONE' end)::varchar as check_option,
  (case when pg_catalog.pg_relation_is_updatable(c.oid, false) & 20 = 20 then 'YES' else 'NO' end)::varchar(3)
    as is_updatable,
  (case when pg_catalog.pg_relation_is_updatable(c.oid, false) & 8 = 8 then 'YES' else 'NO' end)::varchar(3)
    as is_insertable_into,
  'NO'::varchar(3) as is_trigger_updatable, 'NO'::varchar(3) as is_trigger_deletable,
  'NO'::varchar(3) as is_trigger_insertable_into
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'v'
  and (pg_catalog.pg_has_role(c.relowner, 'USAGE')
    or pg_catalog.has_table_privilege(c.oid,
      'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'));

-- information_schema.columns
select pg_catalog.current_database()::name as table_catalog, n.nspname as table_schema,
  c.relname as table_name, a.attname as column_name, a.attnum::int4 as ordinal_position,
  (case when a.attgenerated = '' then pg_catalog.pg_get_expr(d.adbin, d.adrelid) end)::varchar
    as column_default,
  (case when a.attnotnull or (t.typtype = 'd' and t.typnotnull) then 'NO' else 'YES' end)::varchar(3)
    as is_nullable,
  (case when b.typelem <> 0 and b.typlen = -1 then 'ARRAY'
    when nb.nspname = 'pg_catalog' then pg_catalog.format_type(b.oid, null)
    else 'USER-DEFINED' end)::varchar as data_type,
  information_schema._pg_char_max_length(b.oid, a.modifier) as character_maximum_length,
  information_schema._pg_char_octet_length(b.oid, a.modifier) as character_octet_length,
  information_schema._pg_numeric_precision(b.oid, a.modifier) as numeric_precision,
  information_schema._pg_numeric_precision_radix(b.oid, a.modifier) as numeric_precision_radix,
  information_schema._pg_numeric_scale(b.oid, a.modifier) as numeric_scale,
  information_schema._pg_datetime_precision(b.oid, a.modifier) as datetime_precision,
  null::varchar as interval_type, null::int4 as interval_precision, null::name as character_set_catalog,
  null::name as character_set_schema, null::name as character_set_name,
  (case when co.oid is not null then pg_catalog.current_database() end)::name as collation_catalog,
  (case when co.oid is not null then 'pg_catalog' end)::name as collation_schema,
  co.collname as collation_name,
  (case when t.typtype = 'd' then pg_catalog.current_database() end)::name as domain_catalog,
  (case when t.typtype = 'd' then nt.nspname end)::name as domain_schema,
  (case when t.typtype = 'd' then t.typname end)::name as domain_name,
  pg_catalog.current_database()::name as udt_catalog, nb.nspname as udt_schema, b.typname as udt_name,
  null::name as scope_catalog, null::name as scope_schema, null::name as scope_name,
  null::int4 as maximum_cardinality, a.attnum::text::name as dtd_identifier,
  'NO'::varchar(3) as is_self_referencing,
  (case when a.attidentity in ('a', 'd') then 'YES' else 'NO' end)::varchar(3) as is_identity,
  (case a.attidentity when 'a' then 'ALWAYS' when 'd' then 'BY DEFAULT' end)::varchar as identity_generation,
  s.seqstart::varchar as identity_start, s.seqincrement::varchar as identity_increment,
  s.seqmax::varchar as identity_maximum, s.seqmin::varchar as identity_minimum,
  (case when s.seqcycle then 'YES' else 'NO' end)::varchar(3) as identity_cycle,
  (case when a.attgenerated <> '' then 'ALWAYS' else 'NEVER' end)::varchar as is_generated,
  (case when a.attgenerated <> '' then pg_catalog.pg_get_expr(d.adbin, d.adrelid) end)::varchar
    as generation_expression,
  (case when pg_catalog.pg_column_is_updatable(c.oid, a.attnum, false) then 'YES' else 'NO' end)::varchar(3)
    as is_updatable
from (select i.*, case when e.typtype = 'd' then e.typbasetype else e.oid end as base,
      case when e.typtype = 'd' then e.typtypmod else i.atttypmod end as modifier
    from pg_catalog.pg_attribute i join pg_catalog.pg_type e on e.oid = i.atttypid) a
  join pg_catalog.pg_class c on c.oid = a.attrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_type t on t.oid = a.atttypid
  join pg_catalog.pg_namespace nt on nt.oid = t.typnamespace
  join pg_catalog.pg_type b on b.oid = a.base
  join pg_catalog.pg_namespace nb on nb.oid = b.typnamespace
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join pg_catalog.pg_collation co on co.oid = a.attcollation and co.collname <> 'default'
  left join (select p.refobjid, p.refobjsubid, q.* from pg_catalog.pg_depend p
      join pg_catalog.pg_sequence q on p.objid = q.seqrelid
      where p.classid = 1259 and p.refclassid = 1259 and p.deptype = 'i') s
    on s.refobjid = c.oid and s.refobjsubid = a.attnum
where a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'v', 'f', 'p')
  and (pg_catalog.pg_has_role(c.relowner, 'USAGE')
    or pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES'));

-- information_schema.table_constraints
select pg_catalog.current_database()::name as constraint_catalog, n.nspname as constraint_schema,
  c.conname as constraint_name, pg_catalog.current_database()::name as table_catalog,
  n.nspname as table_schema, r.relname as table_name,
  (case c.contype when 'c' then 'CHECK' when 'f' then 'FOREIGN KEY' when 'p' then 'PRIMARY KEY'
    when 'u' then 'UNIQUE' end)::varchar as constraint_type,
  (case when c.condeferrable then 'YES' else 'NO' end)::varchar(3) as is_deferrable,
  (case when c.condeferred then 'YES' else 'NO' end)::varchar(3) as initially_deferred,
  'YES'::varchar(3) as enforced,
  (case when c.contype = 'u' then case when x.indnullsnotdistinct then 'NO' else 'YES' end end)::varchar(3)
    as nulls_distinct
from pg_catalog.pg_constraint c join pg_catalog.pg_class r on r.oid = c.conrelid
  join pg_catalog.pg_namespace n on n.oid = r.relnamespace
  left join pg_catalog.pg_index x on x.indexrelid = c.conindid
where r.relkind in ('r', 'p')
  and (pg_catalog.pg_has_role(r.relowner, 'USAGE')
    or pg_catalog.has_table_privilege(r.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'))
union all
select pg_catalog.current_database()::name, n.nspname,
  (n.oid::text || '_' || r.oid::text || '_' || a.attnum::text || '_not_null')::name,
  pg_catalog.current_database()::name, n.nspname, r.relname, 'CHECK'::varchar, 'NO'::varchar(3),
  'NO'::varchar(3), 'YES'::varchar(3), null::varchar(3)
from pg_catalog.pg_attribute a join pg_catalog.pg_class r on r.oid = a.attrelid
  join pg_catalog.pg_namespace n on n.oid = r.relnamespace
where a.attnotnull and a.attnum > 0 and not a.attisdropped and r.relkind in ('r', 'p')
  and (pg_catalog.pg_has_role(r.relowner, 'USAGE')
    or pg_catalog.has_table_privilege(r.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'));

-- information_schema.check_constraints
select pg_catalog.current_database()::name as constraint_catalog, n.nspname as constraint_schema,
  c.conname as constraint_name,
  substring(pg_catalog.pg_get_constraintdef(c.oid) from 7)::varchar as check_clause
from pg_catalog.pg_constraint c left join pg_catalog.pg_namespace n on n.oid = c.connamespace
where c.contype = 'c'
union
select pg_catalog.current_database()::name, n.nspname,
  (n.oid::text || '_' || r.oid::text || '_' || a.attnum::text || '_not_null')::name,
  (a.attname || ' IS NOT NULL')::varchar
from pg_catalog.pg_attribute a join pg_catalog.pg_class r on r.oid = a.attrelid
  join pg_catalog.pg_namespace n on n.oid = r.relnamespace
where a.attnotnull and a.attnum > 0 and not a.attisdropped and r.relkind in ('r', 'p')
  and pg_catalog.pg_has_role(r.relowner, 'USAGE');

-- information_schema.key_column_usage
select pg_catalog.current_database()::name as constraint_catalog, n.nspname as constraint_schema,
  c.conname as constraint_name, pg_catalog.current_database()::name as table_catalog,
  n.nspname as table_schema, r.relname as table_name, a.attname as column_name,
  k.place::int4 as ordinal_position,
  (case when c.contype = 'f'
    then information_schema._pg_index_position(c.conindid, c.confkey[k.place::int4]) end) as position_in_unique_constraint
from pg_catalog.pg_constraint c join pg_catalog.pg_class r on r.oid = c.conrelid
  join pg_catalog.pg_namespace n on n.oid = r.relnamespace
  cross join lateral unnest(c.conkey) with ordinality as k (number, place)
  join pg_catalog.pg_attribute a on a.attrelid = r.oid and a.attnum = k.number
where c.contype in ('p', 'u', 'f') and not a.attisdropped
  and (pg_catalog.pg_has_role(r.relowner, 'USAGE')
    or pg_catalog.has_column_privilege(r.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES'));

-- information_schema.constraint_column_usage
select pg_catalog.current_database()::name as table_catalog, n.nspname as table_schema,
  r.relname as table_name, a.attname as column_name,
  pg_catalog.current_database()::name as constraint_catalog, nc.nspname as constraint_schema,
  c.conname as constraint_name
from pg_catalog.pg_constraint c join pg_catalog.pg_namespace nc on nc.oid = c.connamespace
  join pg_catalog.pg_class r on r.oid = case c.contype when 'f' then c.confrelid else c.conrelid end
  join pg_catalog.pg_namespace n on n.oid = r.relnamespace
  join pg_catalog.pg_attribute a on a.attrelid = r.oid
where a.attnum = any (case c.contype when 'f' then c.confkey else c.conkey end)
  and not a.attisdropped and r.relkind in ('r', 'p') and pg_catalog.pg_has_role(r.relowner, 'USAGE');

-- information_schema.constraint_table_usage
select pg_catalog.current_database()::name as table_catalog, n.nspname as table_schema,
  r.relname as table_name, pg_catalog.current_database()::name as constraint_catalog,
  nc.nspname as constraint_schema, c.conname as constraint_name
from pg_catalog.pg_constraint c join pg_catalog.pg_namespace nc on nc.oid = c.connamespace
  join pg_catalog.pg_class r on r.oid = case c.contype when 'f' then c.confrelid else c.conrelid end
  join pg_catalog.pg_namespace n on n.oid = r.relnamespace
where c.contype in ('f', 'p', 'u') and r.relkind in ('r', 'p')
  and pg_catalog.pg_has_role(r.relowner, 'USAGE');

-- information_schema.referential_constraints
select pg_catalog.current_database()::name as constraint_catalog, n.nspname as constraint_schema,
  c.conname as constraint_name,
  (case when nk.nspname is not null then pg_catalog.current_database() end)::name
    as unique_constraint_catalog,
  nk.nspname as unique_constraint_schema, k.conname as unique_constraint_name,
  (case c.confmatchtype when 'f' then 'FULL' when 'p' then 'PARTIAL' when 's' then 'NONE' end)::varchar
    as match_option,
  (case c.confupdtype when 'c' then 'CASCADE' when 'n' then 'SET NULL' when 'd' then 'SET DEFAULT'
    when 'r' then 'RESTRICT' when 'a' then 'NO ACTION' end)::varchar as update_rule,
  (case c.confdeltype when 'c' then 'CASCADE' when 'n' then 'SET NULL' when 'd' then 'SET DEFAULT'
    when 'r' then 'RESTRICT' when 'a' then 'NO ACTION' end)::varchar as delete_rule
from pg_catalog.pg_constraint c join pg_catalog.pg_namespace n on n.oid = c.connamespace
  join pg_catalog.pg_class r on r.oid = c.conrelid
  left join pg_catalog.pg_constraint k
    on k.conindid = c.conindid and k.contype in ('p', 'u') and k.conrelid = c.confrelid
  left join pg_catalog.pg_namespace nk on nk.oid = k.connamespace
where c.contype = 'f'
  and (pg_catalog.pg_has_role(r.relowner, 'USAGE')
    or pg_catalog.has_table_privilege(r.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'));

-- information_schema.sequences
select pg_catalog.current_database()::name as sequence_catalog, n.nspname as sequence_schema,
  c.relname as sequence_name, pg_catalog.format_type(s.seqtypid, null)::varchar as data_type,
  information_schema._pg_numeric_precision(s.seqtypid, -1) as numeric_precision,
  2::int4 as numeric_precision_radix, 0::int4 as numeric_scale, s.seqstart::varchar as start_value,
  s.seqmin::varchar as minimum_value, s.seqmax::varchar as maximum_value,
  s.seqincrement::varchar as increment,
  (case when s.seqcycle then 'YES' else 'NO' end)::varchar(3) as cycle_option
from pg_catalog.pg_sequence s join pg_catalog.pg_class c on c.oid = s.seqrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where not exists (select 1 from pg_catalog.pg_depend d
    where d.classid = 1259 and d.objid = c.oid and d.deptype = 'i')
  and (pg_catalog.pg_has_role(c.relowner, 'USAGE')
    or pg_catalog.has_sequence_privilege(c.oid, 'SELECT, UPDATE, USAGE'));

-- information_schema.domains
select pg_catalog.current_database()::name as domain_catalog, nt.nspname as domain_schema,
  t.typname as domain_name,
  (case when t.typelem <> 0 and t.typlen = -1 then 'ARRAY'
    when nb.nspname = 'pg_catalog' then pg_catalog.format_type(t.typbasetype, null)
    else 'USER-DEFINED' end)::varchar as data_type,
  information_schema._pg_char_max_length(t.typbasetype, t.typtypmod) as character_maximum_length,
  information_schema._pg_char_octet_length(t.typbasetype, t.typtypmod) as character_octet_length,
  null::name as character_set_catalog, null::name as character_set_schema, null::name as character_set_name,
  null::name as collation_catalog, null::name as collation_schema, null::name as collation_name,
  information_schema._pg_numeric_precision(t.typbasetype, t.typtypmod) as numeric_precision,
  information_schema._pg_numeric_precision_radix(t.typbasetype, t.typtypmod) as numeric_precision_radix,
  information_schema._pg_numeric_scale(t.typbasetype, t.typtypmod) as numeric_scale,
  information_schema._pg_datetime_precision(t.typbasetype, t.typtypmod) as datetime_precision,
  null::varchar as interval_type, null::int4 as interval_precision, t.typdefault::varchar as domain_default,
  pg_catalog.current_database()::name as udt_catalog, nb.nspname as udt_schema, b.typname as udt_name,
  null::name as scope_catalog, null::name as scope_schema, null::name as scope_name,
  null::int4 as maximum_cardinality, '1'::name as dtd_identifier
from pg_catalog.pg_type t join pg_catalog.pg_namespace nt on nt.oid = t.typnamespace
  join pg_catalog.pg_type b on b.oid = t.typbasetype
  join pg_catalog.pg_namespace nb on nb.oid = b.typnamespace
where t.typtype = 'd';

-- information_schema.enabled_roles
select rolname as role_name from pg_catalog.pg_authid r where pg_catalog.pg_has_role(r.oid, 'USAGE');

-- information_schema.applicable_roles
select m.rolname as grantee, r.rolname as role_name,
  (case when a.admin_option then 'YES' else 'NO' end)::varchar(3) as is_grantable
from pg_catalog.pg_auth_members a join pg_catalog.pg_authid m on a.member = m.oid
  join pg_catalog.pg_authid r on a.roleid = r.oid
where pg_catalog.pg_has_role(m.oid, 'USAGE');

-- information_schema.routines
select pg_catalog.current_database()::name as specific_catalog, n.nspname as specific_schema,
  (p.proname::text || '_' || p.oid::text)::name as specific_name,
  pg_catalog.current_database()::name as routine_catalog, n.nspname as routine_schema,
  p.proname as routine_name, 'FUNCTION'::varchar as routine_type,
  pg_catalog.format_type(p.prorettype, null)::varchar as data_type,
  'EXTERNAL'::varchar as routine_body, p.prosrc::varchar as routine_definition,
  'INTERNAL'::varchar as external_language
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where p.prokind = 'f';

-- information_schema.parameters
select pg_catalog.current_database()::name as specific_catalog, null::name as specific_schema,
  null::name as specific_name, null::int4 as ordinal_position, null::varchar as parameter_mode,
  null::name as parameter_name, null::varchar as data_type
where false;

-- information_schema.triggers
select pg_catalog.current_database()::name as trigger_catalog, n.nspname as trigger_schema,
  t.tgname as trigger_name, null::varchar as event_manipulation,
  pg_catalog.current_database()::name as event_object_catalog, n.nspname as event_object_schema,
  c.relname as event_object_table, null::int4 as action_order, null::varchar as action_condition,
  null::varchar as action_statement, null::varchar as action_orientation, null::varchar as action_timing,
  null::name as action_reference_old_table, null::name as action_reference_new_table,
  null::name as action_reference_old_row, null::name as action_reference_new_row,
  null::timestamptz as created
from pg_catalog.pg_trigger t join pg_catalog.pg_class c on c.oid = t.tgrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where not t.tgisinternal;

-- information_schema.table_privileges
select g.rolname as grantor, coalesce(e.rolname, 'PUBLIC')::name as grantee,
  pg_catalog.current_database()::name as table_catalog, n.nspname as table_schema, c.relname as table_name,
  p.privilege_type::varchar as privilege_type,
  (case when p.is_grantable or p.grantee = c.relowner then 'YES' else 'NO' end)::varchar(3) as is_grantable,
  (case when p.privilege_type = 'SELECT' then 'YES' else 'NO' end)::varchar(3) as with_hierarchy
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  cross join lateral pg_catalog.aclexplode(coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))) as p
  join pg_catalog.pg_authid g on g.oid = p.grantor
  left join pg_catalog.pg_authid e on e.oid = p.grantee
where c.relkind in ('r', 'v', 'f', 'p');

-- information_schema.role_table_grants
select * from information_schema.table_privileges as p
where p.grantor in (select role_name from information_schema.enabled_roles)
  or p.grantee in (select role_name from information_schema.enabled_roles);
