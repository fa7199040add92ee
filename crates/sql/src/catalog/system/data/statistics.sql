-- pg_catalog.pg_stat_sys_tables
select * from pg_catalog.pg_stat_all_tables
where schemaname in ('pg_catalog', 'information_schema') or schemaname like 'pg\_toast%';

-- pg_catalog.pg_stat_sys_indexes
select * from pg_catalog.pg_stat_all_indexes
where schemaname in ('pg_catalog', 'information_schema') or schemaname like 'pg\_toast%';

-- pg_catalog.pg_stat_xact_all_tables
select relid, schemaname, relname, seq_scan, seq_tup_read, idx_scan, idx_tup_fetch, n_tup_ins, n_tup_upd, n_tup_del,
  n_tup_hot_upd
from pg_catalog.pg_stat_all_tables;

-- pg_catalog.pg_stat_xact_sys_tables
select * from pg_catalog.pg_stat_xact_all_tables
where schemaname in ('pg_catalog', 'information_schema') or schemaname like 'pg\_toast%';

-- pg_catalog.pg_stat_xact_user_tables
select * from pg_catalog.pg_stat_xact_all_tables
where schemaname not in ('pg_catalog', 'information_schema') and schemaname not like 'pg\_toast%';

-- pg_catalog.pg_statio_sys_tables
select * from pg_catalog.pg_statio_all_tables
where schemaname in ('pg_catalog', 'information_schema') or schemaname like 'pg\_toast%';

-- pg_catalog.pg_statio_all_indexes
select relid, indexrelid, schemaname, relname, indexrelname, 0::int8 as idx_blks_read, 0::int8 as idx_blks_hit
from pg_catalog.pg_stat_all_indexes;

-- pg_catalog.pg_statio_sys_indexes
select * from pg_catalog.pg_statio_all_indexes
where schemaname in ('pg_catalog', 'information_schema') or schemaname like 'pg\_toast%';

-- pg_catalog.pg_statio_user_indexes
select * from pg_catalog.pg_statio_all_indexes
where schemaname not in ('pg_catalog', 'information_schema') and schemaname not like 'pg\_toast%';

-- pg_catalog.pg_statio_all_sequences
select c.oid as relid, n.nspname as schemaname, c.relname, 0::int8 as blks_read, 0::int8 as blks_hit
from pg_catalog.pg_class c left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'S';

-- pg_catalog.pg_statio_sys_sequences
select * from pg_catalog.pg_statio_all_sequences
where schemaname in ('pg_catalog', 'information_schema') or schemaname like 'pg\_toast%';

-- pg_catalog.pg_statio_user_sequences
select * from pg_catalog.pg_statio_all_sequences
where schemaname not in ('pg_catalog', 'information_schema') and schemaname not like 'pg\_toast%';

-- pg_catalog.pg_stat_database
select d.oid as datid, d.datname,
  (select count(*) from pg_catalog.pg_stat_activity a where a.datid = d.oid)::int4 as numbackends,
  coalesce(case when d.oid > 0 then p.committed end, 0)::int8 as xact_commit,
  coalesce(case when d.oid > 0 then p.rolled_back end, 0)::int8 as xact_rollback, 0::int8 as blks_read,
  0::int8 as blks_hit, 0::int8 as tup_returned, 0::int8 as tup_fetched, 0::int8 as tup_inserted,
  0::int8 as tup_updated, 0::int8 as tup_deleted, 0::int8 as conflicts,
  coalesce(case when d.oid > 0 then p.temporary_files end, 0)::int8 as temp_files,
  coalesce(case when d.oid > 0 then p.temporary_bytes end, 0)::int8 as temp_bytes, 0::int8 as deadlocks, null::int8 as checksum_failures,
  null::timestamptz as checksum_last_failure, 0::float8 as blk_read_time, 0::float8 as blk_write_time,
  0::float8 as session_time, 0::float8 as active_time, 0::float8 as idle_in_transaction_time, 0::int8 as sessions,
  0::int8 as sessions_abandoned, 0::int8 as sessions_fatal, 0::int8 as sessions_killed,
  pg_catalog.pg_postmaster_start_time() as stats_reset
from (select 0::oid as oid, null::name as datname union all select oid, datname from pg_catalog.pg_database) d
  cross join (select sum(committed) as committed, sum(rolled_back) as rolled_back,
    sum(temporary_files) as temporary_files, sum(temporary_bytes) as temporary_bytes from pg_catalog.pod_activity) p;

-- pg_catalog.pg_stat_archiver
select 0::int8 as archived_count, null::text as last_archived_wal, null::timestamptz as last_archived_time,
  0::int8 as failed_count, null::text as last_failed_wal, null::timestamptz as last_failed_time,
  pg_catalog.pg_postmaster_start_time() as stats_reset;

-- pg_catalog.pg_stat_bgwriter
select 0::int8 as checkpoints_timed, 0::int8 as checkpoints_req, 0::float8 as checkpoint_write_time,
  0::float8 as checkpoint_sync_time, 0::int8 as buffers_checkpoint, 0::int8 as buffers_clean,
  0::int8 as maxwritten_clean, 0::int8 as buffers_backend, 0::int8 as buffers_backend_fsync,
  0::int8 as buffers_alloc, pg_catalog.pg_postmaster_start_time() as stats_reset;

-- pg_catalog.pg_stat_wal
select 0::int8 as wal_records, 0::int8 as wal_fpi, coalesce(sum(log_appended_bytes), 0)::numeric as wal_bytes,
  0::int8 as wal_buffers_full, 0::int8 as wal_write, 0::int8 as wal_sync, 0::float8 as wal_write_time,
  0::float8 as wal_sync_time, pg_catalog.pg_postmaster_start_time() as stats_reset
from pg_catalog.pod_activity;

-- pg_catalog.pg_stat_gssapi
select pid, false as gss_authenticated, null::text as principal, false as encrypted
from pg_catalog.pg_stat_activity;

-- pg_catalog.pg_stats
select n.nspname as schemaname, c.relname as tablename, a.attname, s.stainherit as inherited,
  s.stanullfrac as null_frac, s.stawidth as avg_width, s.stadistinct as n_distinct,
  case when s.stakind1 = 1 then s.stavalues1 end as most_common_vals,
  case when s.stakind1 = 1 then s.stanumbers1 end as most_common_freqs,
  case when s.stakind2 = 2 then s.stavalues2 end as histogram_bounds,
  case when s.stakind3 = 3 then s.stanumbers3[1] end as correlation, null::anyarray as most_common_elems,
  null::real[] as most_common_elem_freqs, null::real[] as elem_count_histogram
from pg_catalog.pg_statistic s join pg_catalog.pg_class c on c.oid = s.starelid
  join pg_catalog.pg_attribute a on c.oid = a.attrelid and a.attnum = s.staattnum
  left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where not a.attisdropped and has_table_privilege(c.oid, 'select');

-- pg_catalog.pg_stat_progress_copy
select pid, datid, datname, relid, case when relid is not null then command end as command,
  case when relid is not null then 'PIPE' end as type, bytes_done as bytes_processed,
  case when relid is not null then 0::int8 end as bytes_total, rows_done as tuples_processed,
  rows_excluded as tuples_excluded
from pg_catalog.pod_progress where command in ('COPY FROM', 'COPY TO');

-- pg_catalog.pg_stat_progress_create_index
select pid, datid, datname, relid, index_relid, case when relid is not null then command end as command,
  case when phase is null or phase = 'initializing' then phase
    when phase = 'reading rows' then 'building index: scanning table'
    when phase = 'sorting entries' then 'building index: sorting live tuples'
    else 'building index: loading tuples in tree' end as phase,
  case when relid is not null then 0::int8 end as lockers_total,
  case when relid is not null then 0::int8 end as lockers_done,
  case when relid is not null then 0::int8 end as current_locker_pid,
  case when relid is not null then coalesce(pages_expected, 0) end as blocks_total,
  case when relid is not null
    then coalesce(pages_expected * rows_read / nullif(greatest(rows_read, rows_expected), 0), 0) end as blocks_done,
  case when relid is not null then coalesce(rows_total, 0) end as tuples_total, rows_done as tuples_done,
  case when relid is not null then 0::int8 end as partitions_total,
  case when relid is not null then 0::int8 end as partitions_done
from pg_catalog.pod_progress where command like 'CREATE INDEX%';

-- pg_catalog.pg_stat_progress_analyze
select pid, datid, datname, relid,
  case when phase = 'reading rows' then 'acquiring sample rows'
    when phase = 'computing' then 'computing statistics' else phase end as phase,
  case when relid is not null then coalesce(pages_expected, 0) end as sample_blks_total,
  case when relid is not null
    then coalesce(pages_expected * rows_read / nullif(greatest(rows_read, rows_expected), 0), 0)
  end as sample_blks_scanned,
  case when relid is not null then 0::int8 end as ext_stats_total,
  case when relid is not null then 0::int8 end as ext_stats_computed,
  case when relid is not null then 0::int8 end as child_tables_total,
  case when relid is not null then 0::int8 end as child_tables_done,
  case when relid is not null then 0::oid end as current_child_table_relid
from pg_catalog.pod_progress where command = 'ANALYZE';
