-- postgres_exporter: what its collectors read.
select version();
show server_version;
show data_directory;
select pg_database.datname, pg_database.datconnlimit from pg_database;
select pg_database_size(datname) from pg_database where datname = current_database();
select count(*) as numbackends, datname, state, usename, application_name, backend_type, wait_event_type, wait_event, coalesce(max(extract(epoch from now() - xact_start))::float, 0) as max_tx_duration
from pg_stat_activity group by datname, state, usename, application_name, backend_type, wait_event_type, wait_event;
select pg_database.datname, tmp.mode, coalesce(count, 0) as count
from (values ('accesssharelock'), ('rowsharelock'), ('rowexclusivelock'), ('exclusivelock'), ('accessexclusivelock'), ('sireadlock')) as tmp(mode) cross join pg_database
  left join (select database, lower(mode) as mode, count(*) as count from pg_locks where database is not null group by database, lower(mode)) as tmp2
    on tmp.mode = tmp2.mode and pg_database.oid = tmp2.database order by 1;
select pg_postmaster_start_time as start_time_seconds from pg_postmaster_start_time();
select extract(epoch from pg_postmaster_start_time()) as start_time_seconds;
select case when not pg_is_in_recovery() then 0 when pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0
  else greatest(0, extract(epoch from (now() - pg_last_xact_replay_timestamp()))) end as lag, case when pg_is_in_recovery() then 1 else 0 end as is_replica;
select slot_name, slot_type, case when pg_is_in_recovery() then pg_last_wal_receive_lsn() - '0/0' else pg_current_wal_lsn() - '0/0' end as current_wal_lsn,
  coalesce(confirmed_flush_lsn, '0/0') - '0/0' as confirmed_lsn, active, safe_wal_size, wal_status from pg_replication_slots;
select *, (case pg_is_in_recovery() when 't' then pg_last_wal_receive_lsn() else pg_current_wal_lsn() end) as pg_current_wal_lsn,
  (case pg_is_in_recovery() when 't' then pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_lsn('0/0'))::float else pg_wal_lsn_diff(pg_current_wal_lsn(), pg_lsn('0/0'))::float end) as bytes,
  (case pg_is_in_recovery() when 't' then null else pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::float end) as pg_wal_lsn_diff from pg_stat_replication;
select datid, datname, numbackends, xact_commit, xact_rollback, blks_read, blks_hit, tup_returned, tup_fetched, tup_inserted, tup_updated, tup_deleted, conflicts, temp_files, temp_bytes, deadlocks,
  blk_read_time, blk_write_time, stats_reset, extract(epoch from active_time / 1000 * interval '1 s') from pg_stat_database;
select datid, datname, confl_tablespace, confl_lock, confl_snapshot, confl_bufferpin, confl_deadlock from pg_stat_database_conflicts;
select checkpoints_timed, checkpoints_req, checkpoint_write_time, checkpoint_sync_time, buffers_checkpoint, buffers_clean, maxwritten_clean, buffers_backend, buffers_backend_fsync, buffers_alloc,
  stats_reset from pg_stat_bgwriter;
select *, extract(epoch from now() - last_archived_time) as last_archive_age from pg_stat_archiver;
select current_database() datname, schemaname, relname, seq_scan, seq_tup_read, idx_scan, idx_tup_fetch, n_tup_ins, n_tup_upd, n_tup_del, n_tup_hot_upd, n_live_tup, n_dead_tup, n_mod_since_analyze,
  coalesce(last_vacuum, '1970-01-01Z') as last_vacuum, coalesce(last_autoanalyze, '1970-01-01Z') as last_autoanalyze, vacuum_count, pg_total_relation_size(relid) as total_size from pg_stat_user_tables;
select current_database() datname, schemaname, relname, heap_blks_read, heap_blks_hit, idx_blks_read, idx_blks_hit, toast_blks_read, tidx_blks_hit from pg_statio_user_tables;
select schemaname, relname, indexrelname, idx_blks_read, idx_blks_hit from pg_statio_user_indexes;
select schemaname, relname, indexrelname, idx_scan, last_tup from (select *, idx_tup_read as last_tup from pg_stat_user_indexes) i;
select name, setting, coalesce(unit, ''), short_desc, vartype from pg_settings where vartype in ('bool', 'integer', 'real') and name != 'sync_commit_cancel_wait' limit 3;
select datname, age(datfrozenxid) as age, mxid_age(datminmxid) from pg_database;
select trim(both '''' from replace(to_regclass('pg_stat_wal_receiver')::text, '''', '')), status, slot_name, conninfo from pg_stat_wal_receiver;
select count(*) as segments from pg_stat_progress_vacuum;
select p.pid, p.datname, p.relid::regclass, p.phase, p.heap_blks_total from pg_stat_progress_vacuum p;
select relname, now() - a.xact_start from pg_stat_activity a join pg_locks l on l.pid = a.pid join pg_class c on c.oid = l.relation where l.mode = 'ShareUpdateExclusiveLock';
select pg_roles.rolname, pg_roles.rolconnlimit from pg_roles;
select wal_records, wal_fpi, wal_bytes, wal_buffers_full from pg_stat_wal;
select name, setting from pg_settings where name in ('max_connections', 'shared_buffers', 'wal_segment_size', 'data_directory') order by 1;
show shared_buffers;
