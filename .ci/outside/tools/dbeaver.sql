-- DBeaver: when it connects, its navigator, its session and lock managers, the statistics of its tables.
select current_schema(), session_user;
select version();
set application_name = 'DBeaver - Main';
show search_path;
select db.oid, db.* from pg_catalog.pg_database db where datname = current_database();
select db.oid, db.* from pg_catalog.pg_database db where 1 = 1 and datallowconn and not datistemplate or db.datname = 'postgres' order by db.datname;
select count(*) from pg_catalog.pg_settings where name = 'edb_redwood_date';
select name, setting from pg_catalog.pg_settings where name in ('standard_conforming_strings', 'server_version_num');
select n.oid, n.*, d.description from pg_catalog.pg_namespace n left outer join pg_catalog.pg_description d on d.objoid = n.oid and d.objsubid = 0 and d.classoid = 'pg_namespace'::regclass
order by nspname;
select t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description
from pg_catalog.pg_type t left outer join pg_catalog.pg_type et on et.oid = t.typelem left outer join pg_catalog.pg_class c on c.oid = t.typrelid
  left outer join pg_catalog.pg_description d on t.oid = d.objoid where t.typname is not null and (c.relkind is null or c.relkind = 'c') and (et.typcategory is null or et.typcategory <> 'C') limit 5;
-- rows
select c.relname, c.relkind, c.relnatts, d.description, case when c.relkind = 'v' then pg_get_viewdef(c.oid, true) is not null end as has_query, c.relispartition,
  (select count(*) from pg_catalog.pg_inherits i where i.inhrelid = c.oid) as parents
from pg_catalog.pg_class c left outer join pg_catalog.pg_description d on d.objoid = c.oid and d.objsubid = 0 and d.classoid = 'pg_class'::regclass
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = 'shop' and c.relkind not in ('i', 'I', 'c') order by 1;
select c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr, pg_catalog.pg_get_partkeydef(c.oid) as partition_key
from pg_catalog.pg_class c left outer join pg_catalog.pg_description d on d.objoid = c.oid and d.objsubid = 0 and d.classoid = 'pg_class'::regclass
where c.relnamespace = 'shop'::regnamespace and c.relkind not in ('i', 'I', 'c');
select c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value, dsc.description, dep.objid
from pg_catalog.pg_attribute a join pg_catalog.pg_class c on a.attrelid = c.oid
  left outer join pg_catalog.pg_attrdef ad on a.attrelid = ad.adrelid and a.attnum = ad.adnum
  left outer join pg_catalog.pg_description dsc on c.oid = dsc.objoid and a.attnum = dsc.objsubid
  left outer join pg_depend dep on dep.refobjid = a.attrelid and dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid
where not a.attisdropped and c.oid = 'shop.sale'::regclass order by a.attnum;
-- rows
select c.conname, c.contype, c.conkey, c.confkey, c.confdeltype, t.relname as tabrelname, rt.relname as refnamespace, d.description, pg_get_constraintdef(c.oid) as definition
from pg_catalog.pg_constraint c inner join pg_catalog.pg_class t on t.oid = c.conrelid left outer join pg_catalog.pg_class rt on rt.oid = c.confrelid
  left outer join pg_catalog.pg_description d on d.objoid = c.oid and d.objsubid = 0 and d.classoid = 'pg_constraint'::regclass
where t.relnamespace = 'shop'::regnamespace order by c.conname;
select i.*, i.indkey as keys, c.relname, c.relnamespace, c.relam, c.reltablespace, tc.relname as tabrelname, dsc.description, pg_catalog.pg_get_expr(i.indpred, i.indrelid, true) as pred_expr,
  pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as expr, pg_catalog.pg_relation_size(i.indexrelid) as index_rel_size, pg_catalog.pg_stat_get_numscans(i.indexrelid) as index_num_scans
from pg_catalog.pg_index i inner join pg_catalog.pg_class c on c.oid = i.indexrelid inner join pg_catalog.pg_class tc on tc.oid = i.indrelid
  left outer join pg_catalog.pg_description dsc on i.indexrelid = dsc.objoid
where i.indrelid = 'shop.sale'::regclass order by tabrelname, c.relname;
select c.oid, c.relname, c.relnamespace, pg_catalog.pg_total_relation_size(c.oid) as total_rel_size, pg_catalog.pg_relation_size(c.oid) as rel_size
from pg_class c where c.relnamespace = 'shop'::regnamespace and c.relkind not in ('i', 'I', 'c');
select t.oid, pg_stat_get_numscans(t.oid) as seq_scan, pg_stat_get_live_tuples(t.oid), pg_stat_get_last_analyze_time(t.oid) from pg_class t where t.oid = 'shop.sale'::regclass;
select r.* from pg_catalog.pg_auth_members r;
select a.oid, a.*, pd.description from pg_catalog.pg_roles a left join pg_catalog.pg_shdescription pd on a.oid = pd.objoid order by a.rolname;
select * from pg_catalog.pg_stat_activity where datname = current_database();
select sa.*, (select count(*) from pg_catalog.pg_locks l where l.pid = sa.pid) as locks from pg_catalog.pg_stat_activity sa;
select blocked.pid, blocked.query, pg_blocking_pids(blocked.pid) from pg_catalog.pg_stat_activity blocked where blocked.pid = pg_backend_pid();
select x.oid, x.*, pg_catalog.pg_get_userbyid(extowner), n.nspname as schema_name from pg_catalog.pg_extension x join pg_namespace n on n.oid = x.extnamespace;
select e.oid, a.name as extname, e.extversion, a.default_version, a.installed_version, a.comment from pg_catalog.pg_available_extensions a left join pg_catalog.pg_extension e on e.extname = a.name;
select l.oid, l.* from pg_catalog.pg_language l order by l.oid;
select t.oid, t.*, pg_tablespace_location(t.oid) loc from pg_catalog.pg_tablespace t order by t.oid;
select c.oid, c.* from pg_catalog.pg_collation c limit 3;
select p.oid, p.*, pg_catalog.pg_get_expr(p.proargdefaults, 0) as arg_defaults, pg_get_function_result(p.oid) from pg_catalog.pg_proc p limit 3;
select x.oid, x.* from pg_catalog.pg_trigger x where not tgisinternal;
select x.oid, x.* from pg_catalog.pg_event_trigger x;
select x.oid, x.* from pg_catalog.pg_foreign_server x;
-- rows
select grantee, table_name, privilege_type, is_grantable from information_schema.table_privileges where table_schema = 'shop' order by 1, 2, 3;
-- rows
select column_name, privilege_type, grantee from information_schema.column_privileges where table_schema = 'shop' and table_name = 'customer' order by 3, 1, 2;
explain (format json) select * from shop.sale where customer = 1;
