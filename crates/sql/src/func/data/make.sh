#!/bin/sh
# Makes the tables of types, functions, operators, casts, aggregates and encodings in this folder from the catalog of a
# PostgreSQL 15 server: their oids, names and signatures are what clients expect. Only rows whose types Liger has
# are kept. Usage: PGHOST=... PGUSER=... ./make.sh
set -eu
here=$(dirname "$0")
types="'bool','bytea','char','name','int8','int2','int2vector','int4','regproc','text','oid','tid','xid','cid',
'oidvector','json','regclass','regtype','regnamespace','regrole','regprocedure','regoper','regoperator',
'regcollation','regconfig','regdictionary','float4','float8','unknown','bpchar','varchar',
'date','time','timestamp','timestamptz','interval','timetz','numeric','uuid','money','inet','cidr','macaddr','macaddr8','bit','varbit','jsonb','jsonpath','xid8','pg_lsn',
'pg_node_tree','cstring','record','void','any','anyelement','anyarray','anynonarray','anyenum','anycompatible',
'anycompatiblearray','anycompatiblenonarray','trigger','refcursor','aclitem','pg_snapshot'"
# Types that no value has: of functions that are not there.
named="'internal','language_handler','event_trigger','fdw_handler','index_am_handler','table_am_handler','tsm_handler',
'pg_ddl_command','anyrange','anymultirange','anycompatiblerange','anycompatiblemultirange'"
query() { psql -XAtF "$(printf '\t')" -c "$1" > "$here/$2"; }
kept="with kept as (select oid from pg_type where typname in ($types) union
  select typarray from pg_type where typname in ($types) and typarray <> 0)"
query "$kept select oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typdelim,
  typelem, typarray, typalign, typstorage, typcollation, typinput::oid, typoutput::oid, typreceive::oid, typsend::oid
  from pg_type where oid in (select oid from kept) or typname in ($named) order by oid" types.tsv
query "$kept select p.oid, proname, prokind, proisstrict, provolatile, proretset, provariadic, pronargdefaults,
  prorettype, proargtypes, array_to_string(proallargtypes, ' '), array_to_string(proargmodes, ' '),
  array_to_string(proargnames, ' '),
  case when l.lanname = 'internal' then prosrc else proname || '/' || pronargs end
  from pg_proc p join pg_language l on l.oid = prolang
  where p.oid < 16384 and prorettype in (select oid from kept)
  and not exists (select from unnest(coalesce(proallargtypes, proargtypes)) t where t not in (select oid from kept))
  and prosrc !~ '(_am_handler|gin_|gist|brin_|spg_|btint|xml|^ts_|tsquery|tsvector|binary_upgrade|logical_slot|replication|_typanalyze|selectivity|sel$|joinsel|support$|recv$|recv_|sortsupport|skipsupport|_cache_|equalimage)'
  and proname !~ '(^pg_stat_get|^pg_ls_|wal|^pg_replication|^pg_logical|^lo_|^loread|^lowrite|control_recovery|backup|snapshot|^pg_read|^be_lo|publication|subscription|extension_|^pg_identify|^pg_get_object)'
  or p.oid in (select typreceive from pg_type where oid in (select oid from kept) or typname in ($named))
  or proname in ('pg_last_wal_receive_lsn', 'pg_wal_lsn_diff',
    'pg_last_wal_replay_lsn', 'pg_is_wal_replay_paused', 'pg_get_wal_replay_pause_state', 'pg_available_extension_versions')
  or proname ~ '^pg_current_wal.*lsn$'
  or proargtypes = '26' and pronamespace = 11 and proname ~ '^pg_stat_get_(numscans|tuples|live|dead|mod_since|ins_since|blocks|last_.*time|(auto)?(vacuum|analyze)_count)'
  order by p.oid" functions.tsv
query "$kept select oid, oprname, oprleft, oprright, oprresult, oprcom, oprnegate, oprcode::oid, oprcanhash,
  oprcanmerge from pg_operator where (oprleft = 0 or oprleft in (select oid from kept))
  and oprright in (select oid from kept) and oprresult in (select oid from kept) order by oid" operators.tsv
query "$kept select castsource, casttarget, castfunc, castcontext, castmethod from pg_cast
  where castsource in (select oid from kept) and casttarget in (select oid from kept)
  order by castsource, casttarget" casts.tsv
query "select aggfnoid::oid, aggkind, aggnumdirectargs from pg_aggregate where aggkind <> 'n' order by 1" aggregates.tsv
# Number, name, bytes of a character, other names, and what the bytes from 80 to ff of encodings of one byte are.
psql -qXAtF "$(printf '\t')" -c "create function pg_temp.one(byte int, encoding text) returns text language plpgsql as \$\$
begin return to_hex(ascii(convert_from(set_byte('\\x00', 0, byte), encoding)));
exception when untranslatable_character or character_not_in_repertoire then return '-'; end \$\$" -c "
select n, pg_encoding_to_char(n), pg_encoding_max_length(n), (select string_agg(name, ' ' order by name) from
  regexp_split_to_table('abc alt big5 euccn eucjis2004 eucjp euckr euctw gb18030 gbk iso88591 iso885910 iso885913 iso885914
  iso885915 iso885916 iso88592 iso88593 iso88594 iso88595 iso88596 iso88597 iso88598 iso88599 johab koi8 koi8r koi8u latin1
  latin10 latin2 latin3 latin4 latin5 latin6 latin7 latin8 latin9 mskanji muleinternal shiftjis shiftjis2004 sjis sqlascii
  tcvn tcvn5712 uhc unicode utf8 vscii win win1250 win1251 win1252 win1253 win1254 win1255 win1256 win1257 win1258 win866
  win874 win932 win936 win949 win950 windows1250 windows1251 windows1252 windows1253 windows1254 windows1255 windows1256
  windows1257 windows1258 windows866 windows874 windows932 windows936 windows949 windows950', '\\s+') name
  where pg_char_to_encoding(name) = n),
  case when pg_encoding_max_length(n) = 1 and n > 0 then (select string_agg(pg_temp.one(byte, pg_encoding_to_char(n)), ' '
  order by byte) from generate_series(128, 255) byte) else '' end
from generate_series(0, 41) n order by n" > "$here/encodings.tsv"
