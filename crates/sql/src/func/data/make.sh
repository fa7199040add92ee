#!/bin/sh
# Makes the tables of types, functions, operators, casts and aggregates in this folder from the catalog of a
# PostgreSQL 15 server: their oids, names and signatures are what clients expect. Only rows whose types Liger has
# are kept. Usage: PGHOST=... PGUSER=... ./make.sh
set -eu
here=$(dirname "$0")
types="'bool','bytea','char','name','int8','int2','int2vector','int4','regproc','text','oid','tid','xid','cid',
'oidvector','json','regclass','regtype','regnamespace','regrole','regprocedure','regoper','regoperator',
'regcollation','regconfig','regdictionary','float4','float8','unknown','bpchar','varchar',
'date','time','timestamp','timestamptz','interval','timetz','numeric','uuid','jsonb','jsonpath','xid8','pg_lsn',
'pg_node_tree','cstring','record','void','any','anyelement','anyarray','anynonarray','anyenum','anycompatible',
'anycompatiblearray','anycompatiblenonarray','trigger','refcursor','aclitem','pg_snapshot'"
query() { psql -XAtF "$(printf '\t')" -c "$1" > "$here/$2"; }
kept="with kept as (select oid from pg_type where typname in ($types) union
  select typarray from pg_type where typname in ($types) and typarray <> 0)"
query "$kept select oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typdelim,
  typelem, typarray, typalign, typstorage, typcollation, typinput::oid, typoutput::oid, typreceive::oid, typsend::oid
  from pg_type where oid in (select oid from kept) order by oid" types.tsv
query "$kept select p.oid, proname, prokind, proisstrict, provolatile, proretset, provariadic, pronargdefaults,
  prorettype, proargtypes, array_to_string(proallargtypes, ' '), array_to_string(proargmodes, ' '),
  array_to_string(proargnames, ' '),
  case when l.lanname = 'internal' then prosrc else proname || '/' || pronargs end
  from pg_proc p join pg_language l on l.oid = prolang
  where p.oid < 16384 and prorettype in (select oid from kept)
  and not exists (select from unnest(coalesce(proallargtypes, proargtypes)) t where t not in (select oid from kept))
  and prosrc !~ '(_am_handler|gin_|gist|brin_|spg_|btint|xml|^ts_|tsquery|tsvector|binary_upgrade|logical_slot|replication|_typanalyze|selectivity|sel$|joinsel|support$|recv$|recv_|sortsupport|skipsupport|_cache_|equalimage)'
  and proname !~ '(^pg_stat_get|^pg_ls_|wal|^pg_replication|^pg_logical|^lo_|^loread|^lowrite|control_recovery|backup|snapshot|^pg_read|^be_lo|publication|subscription|extension_|^pg_identify|^pg_get_object)'
  order by p.oid" functions.tsv
query "$kept select oid, oprname, oprleft, oprright, oprresult, oprcom, oprnegate, oprcode::oid, oprcanhash,
  oprcanmerge from pg_operator where (oprleft = 0 or oprleft in (select oid from kept))
  and oprright in (select oid from kept) and oprresult in (select oid from kept) order by oid" operators.tsv
query "$kept select castsource, casttarget, castfunc, castcontext, castmethod from pg_cast
  where castsource in (select oid from kept) and casttarget in (select oid from kept)
  order by castsource, casttarget" casts.tsv
query "select aggfnoid::oid, aggkind, aggnumdirectargs from pg_aggregate where aggkind <> 'n' order by 1" aggregates.tsv
