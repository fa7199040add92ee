#!/bin/sh
# Makes empty.tsv in this folder: views of PostgreSQL 15 that have no rows here (schema, name, column, its type), from a
# server. Types that are not there are text. Usage: PGHOST=... PGUSER=... ./make_empty.sh
set -eu
here=$(dirname "$0")
types=$(cut -f1 "$here/../../../func/data/types.tsv" | paste -sd,)
psql -XAtF "$(printf '\t')" -c "
select n.nspname, c.relname, attname, case when b.oid in ($types) then format_type(b.oid, null) else 'text' end
from pg_attribute a join pg_class c on c.oid = attrelid join pg_namespace n on n.oid = relnamespace join pg_type t on t.oid = atttypid
  cross join lateral (select case when t.typtype = 'd' then t.typbasetype else t.oid end) b(oid)
where attnum > 0 and relkind in ('v', 'r') and (n.nspname, c.relname) in (
  values ('pg_catalog', 'pg_available_extension_versions'), ('pg_catalog', 'pg_file_settings'), ('pg_catalog', 'pg_hba_file_rules'),
  ('pg_catalog', 'pg_ident_file_mappings'), ('pg_catalog', 'pg_publication_tables'), ('pg_catalog', 'pg_replication_origin_status'),
  ('pg_catalog', 'pg_replication_slots'), ('pg_catalog', 'pg_shmem_allocations'), ('pg_catalog', 'pg_backend_memory_contexts'),
  ('pg_catalog', 'pg_stat_database_conflicts'), ('pg_catalog', 'pg_stat_progress_basebackup'),
  ('pg_catalog', 'pg_stat_progress_cluster'),
  ('pg_catalog', 'pg_stat_progress_vacuum'), ('pg_catalog', 'pg_stat_recovery_prefetch'), ('pg_catalog', 'pg_stat_replication'),
  ('pg_catalog', 'pg_stat_replication_slots'), ('pg_catalog', 'pg_stat_slru'), ('pg_catalog', 'pg_stat_subscription'),
  ('pg_catalog', 'pg_stat_subscription_stats'), ('pg_catalog', 'pg_stat_user_functions'), ('pg_catalog', 'pg_stat_wal_receiver'),
  ('pg_catalog', 'pg_stat_xact_user_functions'), ('pg_catalog', 'pg_stats'), ('pg_catalog', 'pg_stats_ext'),
  ('pg_catalog', 'pg_stats_ext_exprs'), ('pg_catalog', 'pg_user_mappings'), ('information_schema', 'attributes'),
  ('information_schema', 'check_constraint_routine_usage'), ('information_schema', 'column_options'),
  ('information_schema', 'foreign_data_wrapper_options'), ('information_schema', 'foreign_data_wrappers'),
  ('information_schema', 'foreign_server_options'), ('information_schema', 'foreign_servers'),
  ('information_schema', 'foreign_table_options'), ('information_schema', 'foreign_tables'),
  ('information_schema', 'role_routine_grants'), ('information_schema', 'sql_features'), ('information_schema', 'sql_implementation_info'),
  ('information_schema', 'sql_parts'), ('information_schema', 'sql_sizing'), ('information_schema', 'routine_column_usage'), ('information_schema', 'routine_privileges'),
  ('information_schema', 'routine_routine_usage'), ('information_schema', 'routine_sequence_usage'),
  ('information_schema', 'routine_table_usage'), ('information_schema', 'transforms'),
  ('information_schema', 'triggered_update_columns'), ('information_schema', 'user_mapping_options'),
  ('information_schema', 'user_mappings'), ('information_schema', 'view_routine_usage'))
order by 1, 2, attnum" > "$here/empty.tsv"
