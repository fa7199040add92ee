-- DataGrip: when it connects, and when it reads a database and a schema. It asks for what has changed by xmin.
select current_database() as a, current_schemas(false) as b;
select version();
show DateStyle;
select name, is_dst from pg_catalog.pg_timezone_names union distinct select abbrev as name, is_dst from pg_catalog.pg_timezone_abbrevs;
select round(extract(epoch from pg_postmaster_start_time() at time zone 'UTC')) as startup_time;
select case when pg_catalog.pg_is_in_recovery() then null else (pg_catalog.txid_current() % (2^32)::bigint)::varchar::bigint end as current_txid;
select n.oid::bigint as id, datname as name, d.description, datistemplate as is_template, datallowconn as allow_connections,
  pg_catalog.pg_get_userbyid(n.datdba) as "owner"
from pg_catalog.pg_database n left join pg_catalog.pg_shdescription d on n.oid = d.objoid
order by case when datname = pg_catalog.current_database() then -1::bigint else n.oid::bigint end;
-- rows
select n.xmin::varchar::bigint > 0 as state_number, nspname as name, d.description, pg_catalog.pg_get_userbyid(n.nspowner) as "owner"
from pg_catalog.pg_namespace n left join pg_catalog.pg_description d on n.oid = d.objoid and d.classoid = 'pg_catalog.pg_namespace'::regclass
where nspname = 'shop' order by case when nspname = pg_catalog.current_schema() then -1::bigint else n.oid::bigint end;
select r.oid::bigint as role_id, rolname as role_name, rolsuper as is_super, rolinherit as is_inherit, rolcreaterole as can_createrole,
  rolcreatedb as can_createdb, rolcanlogin as can_login, rolreplication as is_replication, rolconnlimit as conn_limit, rolvaliduntil as valid_until,
  rolbypassrls as bypass_rls, rolconfig as config, d.description
from pg_catalog.pg_roles r left join pg_catalog.pg_shdescription d on d.objoid = r.oid;
select member id, roleid role_id, admin_option from pg_catalog.pg_auth_members order by id, roleid::text;
select t.oid::bigint as id, t.spcname as name, t.xmin as state_number, pg_catalog.pg_get_userbyid(t.spcowner) as owner,
  pg_catalog.pg_tablespace_location(t.oid) as location, t.spcoptions as options, d.description as comment
from pg_catalog.pg_tablespace t left join pg_catalog.pg_shdescription d on d.objoid = t.oid;
select l.oid as id, l.xmin state_number, lanname as name, lanpltrusted as trusted, h.proname as handler, hs.nspname as handler_schema
from pg_catalog.pg_language l left join pg_catalog.pg_proc h on h.oid = lanplcallfoid left join pg_catalog.pg_namespace hs on hs.oid = h.pronamespace
order by lanname;
select a.oid as id, a.xmin as state_number, amname as name, h.oid as handler_id, pg_catalog.quote_ident(n.nspname) as handler_schema, amtype as type
from pg_am a join pg_proc h on a.amhandler = h.oid join pg_namespace n on h.pronamespace = n.oid;
select x.oid as id, x.xmin as state_number, extname as name, extversion as version, extnamespace as schema_id, nspname as schema_name,
  array(select unnest from unnest(available_versions) where unnest > extversion) as available_updates
from pg_catalog.pg_extension x join pg_namespace on x.extnamespace = pg_namespace.oid
  left join (select name, array_agg(version) as available_versions from pg_available_extension_versions() group by name) a on x.extname = a.name;
select fdw.oid as id, fdw.xmin as state_number, fdw.fdwname as name, pr.proname as handler, pv.proname as validator, fdw.fdwoptions as options
from pg_catalog.pg_foreign_data_wrapper fdw left join pg_catalog.pg_proc pr on fdw.fdwhandler = pr.oid left join pg_catalog.pg_proc pv on fdw.fdwvalidator = pv.oid;
select c.oid, c.xmin as state_number, c.castsource as castsource_id, c.casttarget as casttarget_id, c.castfunc as castfunc_id, c.castcontext, c.castmethod
from pg_cast c left join pg_catalog.pg_depend d on c.oid = d.objid limit 5;
-- rows
select t.oid, t.relkind, t.relname, t.relpersistence, t.relhasindex, pg_catalog.age(t.xmin) <= coalesce(nullif(greatest(pg_catalog.age('3'::varchar::xid), -1), -1), 2147483647)
from pg_catalog.pg_class t join pg_catalog.pg_namespace n on n.oid = t.relnamespace where n.nspname = 'shop' and t.relkind in ('r', 'v', 'm', 'p', 'f', 'S') order by 2, 3;
-- rows
select cls.oid::bigint as sequence_id, cls.xmin::text is not null as has_state, cls.relname as sequence_name, sq.seqstart as start_value, sq.seqincrement as inc_value,
  sq.seqmin as min_value, sq.seqmax as max_value, sq.seqcache as cache_size, sq.seqcycle as cycle_option, pg_catalog.format_type(sq.seqtypid, null) as data_type,
  pg_catalog.pg_get_userbyid(cls.relowner) as "owner"
from pg_catalog.pg_sequence sq join pg_catalog.pg_class cls on sq.seqrelid = cls.oid join pg_catalog.pg_namespace n on n.oid = cls.relnamespace
where n.nspname = 'shop' order by 3;
-- rows
select t.oid as type_id, t.typname as type_name, t.typtype as type_sub_kind, t.typcategory as type_category, t.typrelid as class_id, t.typbasetype as base_type_id,
  case when t.typtype in ('c', 'e') then null else pg_catalog.format_type(t.typbasetype, t.typtypmod) end as type_def, t.typndims as dimensions_number,
  t.typdefault as default_expression, t.typnotnull as mandatory, pg_catalog.pg_get_userbyid(t.typowner) as "owner"
from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace where n.nspname = 'shop' and t.typtype in ('d', 'e') order by 2;
-- rows
select enumlabel, enumsortorder from pg_catalog.pg_enum e join pg_catalog.pg_type t on t.oid = e.enumtypid where t.typname = 'state' order by 2;
-- rows
select c.attnum as column_position, c.attname as column_name, c.atttypmod as type_mod, c.attndims as dimensions_number, pg_catalog.format_type(c.atttypid, c.atttypmod) as type_spec,
  c.attnotnull as mandatory, (select pg_catalog.pg_get_expr(d.adbin, t.oid) from pg_catalog.pg_attrdef d where d.adrelid = t.oid and d.adnum = c.attnum) as default_expression,
  not c.attislocal as inherited, c.attisdropped as is_dropped, c.attidentity as identity_kind, c.attgenerated as generated
from pg_catalog.pg_attribute c join pg_catalog.pg_class t on t.oid = c.attrelid join pg_catalog.pg_namespace n on n.oid = t.relnamespace
where n.nspname = 'shop' and t.relname = 'sale' and c.attnum > 0 order by 1;
-- rows
select ind_head.indexrelid as index_id, k as col_idx, k <= indnkeyatts as in_key, ind_head.indkey[k - 1] as column_position, ind_head.indoption[k - 1] as column_options,
  ind_head.indcollation[k - 1] as collation, collname as collation_name,
  case when indexprs is null then null when ind_head.indkey[k - 1] = 0 then chr(27) || pg_get_indexdef(ind_head.indexrelid, k::int, true)
    else pg_get_indexdef(ind_head.indexrelid, k::int, true) end as expression,
  amcanorder as can_order, not opcdefault as has_class
from (select indexrelid, indexprs, indkey, indcollation, indoption, indclass, indnkeyatts, generate_subscripts(indkey, 1) + 1 as k from pg_catalog.pg_index) ind_head
  join pg_catalog.pg_class c on c.oid = ind_head.indexrelid join pg_catalog.pg_am am on am.oid = c.relam
  cross join lateral (select pg_indexam_has_property(am.oid, 'can_order') as amcanorder) p
  left join pg_catalog.pg_collation co on co.oid = ind_head.indcollation[k - 1] left join pg_catalog.pg_opclass oc on oc.oid = ind_head.indclass[k - 1]
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = 'shop' order by c.relname, k;
-- rows
select t.oid as table_id, relkind as table_kind, c.conname as con_name, c.contype as con_kind, c.conkey as con_columns, c.conindid as index_id, c.confrelid as ref_table_id,
  c.confkey as ref_columns, c.condeferrable as is_deferrable, c.condeferred as is_init_deferred, c.confupdtype as on_update, c.confdeltype as on_delete, c.connoinherit as no_inherit,
  pg_catalog.pg_get_expr(c.conbin, t.oid) as con_expression
from pg_catalog.pg_constraint c join pg_catalog.pg_class t on t.oid = c.conrelid join pg_catalog.pg_namespace n on n.oid = t.relnamespace
where n.nspname = 'shop' and t.relkind in ('r', 'v', 'f', 'p') order by 3;
select r.oid as rule_id, r.xmin as rule_state_number, r.rulename, translate(ev_type, '1234', 'SUID') as rule_event_code, r.ev_enabled as rule_fire_mode, r.is_instead
from pg_catalog.pg_rewrite r where r.rulename != '_RETURN'::name;
select t.tgrelid as table_id, t.oid as trigger_id, t.xmin as trigger_state_number, t.tgname as trigger_name, t.tgfoid as function_id, t.tgtype & 31 as bits, t.tgdeferrable,
  t.tginitdeferred, t.tgenabled as trigger_fire_mode, t.tgattr as columns, t.tgconstraint != 0 as is_constraint
from pg_catalog.pg_trigger t where not tgisinternal;
select p.oid, p.proname, p.xmin, p.proretset, p.proisstrict, p.provolatile, p.prokind, p.proargnames, p.proargmodes, p.proargtypes, p.proallargtypes, l.lanname, p.procost, p.prorows
from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang join pg_catalog.pg_namespace n on n.oid = p.pronamespace where n.nspname = 'shop';
select o.oid as op_id, o.xmin as state_number, oprname as op_name, oprkind, oprleft, oprright, oprresult, oprcode::oid from pg_catalog.pg_operator o limit 3;
select c.oid as id, c.xmin as state_number, collname, collcollate as lc_collate, collctype as lc_ctype, pg_get_userbyid(collowner) from pg_catalog.pg_collation c limit 3;
select o.oid, opcname, o.xmin, opcmethod, opckeytype, opcdefault, opcfamily, opfname, pg_get_userbyid(opcowner)
from pg_catalog.pg_opclass o join pg_catalog.pg_opfamily f on f.oid = o.opcfamily limit 3;
select d.objid as dependent_id, d.refobjid as owner_id, d.refobjsubid as owner_subobject_id from pg_catalog.pg_depend d where deptype = 'a' limit 3;
-- rows
select m.relname, m.relkind, pg_catalog.pg_get_viewdef(m.oid, true) is not null as has_source from pg_catalog.pg_class m join pg_catalog.pg_namespace n on n.oid = m.relnamespace
where n.nspname = 'shop' and m.relkind in ('m', 'v');
-- rows
select t.relname as object_name, t.relacl::text[] as acl from pg_catalog.pg_class t join pg_catalog.pg_namespace n on n.oid = t.relnamespace
where n.nspname = 'shop' and t.relacl is not null order by 1;
-- rows
select d.objsubid as position, c.relname, d.description from pg_catalog.pg_description d join pg_catalog.pg_class c on d.objoid = c.oid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = 'shop' and c.relkind != 'i' and d.classoid = 'pg_catalog.pg_class'::regclass order by 2, 1;
select s.oid as id, s.stxname, s.xmin, pg_get_userbyid(s.stxowner), s.stxkeys, s.stxkind from pg_catalog.pg_statistic_ext s;
select p.oid, p.xmin, polname, polrelid, polcmd, polpermissive, polroles from pg_catalog.pg_policy p;
