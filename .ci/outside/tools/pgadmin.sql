-- pgAdmin 4: when it connects, its dashboard of a server and of a database, its tree.
set datestyle = iso;
set client_min_messages = notice;
select set_config('bytea_output', 'hex', false) from pg_settings where name = 'bytea_output';
set client_encoding = 'UTF8';
select db.oid as did, db.datname, db.datallowconn, pg_encoding_to_char(db.encoding) as serverencoding, has_database_privilege(db.oid, 'CREATE') as cancreate, datistemplate
from pg_catalog.pg_database db where db.datname = current_database();
select roles.oid as id, roles.rolname as name, roles.rolsuper as is_superuser, case when roles.rolsuper then true else roles.rolcreaterole end as can_create_role,
  case when roles.rolsuper then true else roles.rolcreatedb end as can_create_db,
  case when 'pg_signal_backend' = any (array(with recursive cte as (select pg_roles.oid, pg_roles.rolname from pg_roles where pg_roles.oid = roles.oid
    union all select m.roleid, pgr.rolname from cte cte_1 join pg_auth_members m on m.member = cte_1.oid join pg_roles pgr on pgr.oid = m.roleid) select rolname from cte)) then true else false end as can_signal_backend
from pg_catalog.pg_roles as roles where rolname = current_user;
select 1 from pg_catalog.pg_extension where extname in ('bdr', 'pgstattuple');
select (select count(*) from pg_catalog.pg_stat_activity where state = 'active' and datname = current_database()) as active,
  (select sum(xact_commit) + sum(xact_rollback) from pg_catalog.pg_stat_database) as transactions, (select sum(xact_commit) from pg_catalog.pg_stat_database) as commits,
  (select sum(xact_rollback) from pg_catalog.pg_stat_database) as rollbacks, (select sum(tup_inserted) from pg_catalog.pg_stat_database) as inserts,
  (select sum(tup_updated) from pg_catalog.pg_stat_database) as updates, (select sum(tup_fetched) from pg_catalog.pg_stat_database) as fetched,
  (select sum(blks_read) from pg_catalog.pg_stat_database) as reads, (select sum(blks_hit) from pg_catalog.pg_stat_database) as hits;
select 'session_stats' as chart_name, pg_catalog.row_to_json(t) as chart_data
from (select (select count(*) from pg_catalog.pg_stat_activity) as "Total", (select count(*) from pg_catalog.pg_stat_activity where state = 'active') as "Active",
  (select count(*) from pg_catalog.pg_stat_activity where state = 'idle') as "Idle") t;
select pid, datname, usename, application_name, client_addr is null as local, pg_catalog.to_char(backend_start, 'YYYY-MM-DD HH24:MI:SS TZ') as backend_start, state,
  wait_event_type || ': ' || wait_event as wait_event, pg_catalog.array_to_string(pg_catalog.pg_blocking_pids(pid), ', ') as blocking_pids, query,
  pg_catalog.to_char(state_change, 'YYYY-MM-DD HH24:MI:SS TZ') as state_change, backend_type,
  case when state = 'active' then round((extract(epoch from now() - query_start) / 60)::numeric, 2) else 0 end as active_since
from pg_catalog.pg_stat_activity where datname = current_database() order by pid;
select pid, locktype, datname, relation::regclass, page, tuple, virtualxid, transactionid, classid::regclass, objid, objsubid, virtualtransaction, mode, granted, fastpath
from pg_catalog.pg_locks l left outer join pg_catalog.pg_database d on l.database = d.oid order by pid, locktype;
select name, database, pg_catalog.to_char(prepared, 'YYYY-MM-DD HH24:MI:SS TZ') as prepared, owner, transaction as xid from (select gid as name, * from pg_catalog.pg_prepared_xacts) p;
select name, category, setting, unit, short_desc from pg_catalog.pg_settings order by category limit 3;
select pid, usename, application_name, state, sync_state, sent_lsn, pg_wal_lsn_diff(sent_lsn, replay_lsn) from pg_catalog.pg_stat_replication;
select slot_name, slot_type, active, restart_lsn, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) from pg_catalog.pg_replication_slots;
select pg_catalog.pg_is_in_recovery() as inrecovery, case when pg_is_in_recovery() then pg_is_wal_replay_paused() else false end as isreplaypaused;
select db.oid as did, db.datname as name, db.dattablespace as spcoid, spcname, datallowconn, pg_encoding_to_char(encoding) as encoding, pg_get_userbyid(datdba) as datowner, datcollate, datctype,
  datconnlimit, has_database_privilege(db.oid, 'CREATE') as cancreate, current_setting('default_tablespace') as default_tablespace, descr.description as comments, db.datistemplate as is_template,
  (select array_to_string(array_agg(setting), ', ') from pg_db_role_setting d, unnest(d.setconfig) setting where d.setdatabase = db.oid) as settings, array_to_string(db.datacl::text[], ', ') as acl
from pg_database db left outer join pg_tablespace ta on db.dattablespace = ta.oid left outer join pg_shdescription descr on (db.oid = descr.objoid and descr.classoid = 'pg_database'::regclass)
where db.datname = current_database();
select pg_stat_get_db_numbackends(oid), datid, xact_commit, pg_size_pretty(pg_database_size(d.datid)) as size, stats_reset from pg_stat_database d join pg_database db on db.oid = d.datid
where db.datname = current_database();
select datname, numbackends, deadlocks, temp_files, blk_read_time, slave.confl_tablespace, slave.confl_lock from pg_stat_database db join pg_stat_database_conflicts slave using (datid, datname);
-- rows
select nsp.nspname as name, has_schema_privilege(nsp.oid, 'CREATE') as can_create, has_schema_privilege(nsp.oid, 'USAGE') as has_usage, des.description
from pg_catalog.pg_namespace nsp left outer join pg_catalog.pg_description des on des.objoid = nsp.oid and des.classoid = 'pg_namespace'::regclass
where nspname not like 'pg!_%' escape '!' and nspname <> 'information_schema' and nspname = 'shop' order by nspname;
-- rows
select rel.relname as name, (select count(*) from pg_catalog.pg_trigger where tgrelid = rel.oid and tgisinternal = false) as triggercount, rel.relpersistence,
  (select count(1) from pg_catalog.pg_inherits where inhrelid = rel.oid limit 1) as is_inherits, des.description
from pg_catalog.pg_class rel left outer join pg_catalog.pg_description des on des.objoid = rel.oid and des.objsubid = 0 and des.classoid = 'pg_class'::regclass
where rel.relkind in ('r', 's', 't', 'p') and rel.relnamespace = 'shop'::regnamespace and not rel.relispartition order by rel.relname;
-- rows
select att.attname as name, att.attnum, pg_catalog.format_type(ty.oid, null) as datatype, pg_catalog.format_type(ty.oid, att.atttypmod) as displaytypname, att.attnotnull as not_null,
  case when att.atthasdef or att.attidentity != '' or ty.typdefault is not null then true else false end as has_default_val, des.description, seq.seqincrement, att.attidentity, att.attgenerated,
  coll.collname is null as no_collation
from pg_catalog.pg_attribute att join pg_catalog.pg_type ty on ty.oid = atttypid left outer join pg_catalog.pg_description des on des.objoid = att.attrelid and des.objsubid = att.attnum
    and des.classoid = 'pg_class'::regclass
  left outer join (pg_catalog.pg_depend dep join pg_catalog.pg_class cs on dep.classid = 'pg_class'::regclass and dep.objid = cs.oid and cs.relkind = 'S') on dep.refobjid = att.attrelid
    and dep.refobjsubid = att.attnum
  left outer join pg_catalog.pg_sequence seq on cs.oid = seq.seqrelid left outer join pg_catalog.pg_collation coll on att.attcollation = coll.oid and coll.collname <> 'default'
where att.attrelid = 'shop.sale'::regclass and att.attnum > 0 and att.attisdropped is false order by att.attnum;
select nspname as schema_name, cl.relname, st.n_tup_ins, st.n_tup_upd, n_live_tup, pg_size_pretty(pg_relation_size(st.relid) + coalesce(pg_indexes_size(st.relid), 0)) as size, st.last_vacuum,
  statio.heap_blks_read, statio.idx_blks_hit
from pg_stat_all_tables st join pg_class cl on cl.oid = st.relid and cl.relkind in ('r', 's', 't', 'p') join pg_namespace n on n.oid = cl.relnamespace
  join pg_statio_all_tables statio on statio.relid = st.relid where n.nspname = 'shop';
select attname, null_frac, avg_width, n_distinct, most_common_vals, histogram_bounds, correlation from pg_catalog.pg_stats where schemaname = 'shop' and tablename = 'sale';
select indexrelname, idx_scan, idx_tup_read, pg_size_pretty(pg_relation_size(indexrelid)) as size from pg_stat_all_indexes where schemaname = 'shop';
select indexrelname, idx_blks_read, idx_blks_hit from pg_statio_all_indexes where schemaname = 'shop';
select relname, blks_read, blks_hit from pg_statio_all_sequences where schemaname = 'shop';
select * from pg_stat_user_functions;
select ssl, version, cipher from pg_stat_ssl where pid = pg_backend_pid();
select gss_authenticated, encrypted from pg_catalog.pg_stat_gssapi where pid = pg_backend_pid();
