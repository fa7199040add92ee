-- What drivers, object-relational mappers and pg_dump ask.
select pg_typeof(array_agg(g)), pg_typeof(array_agg(g::text)), pg_typeof(array_agg(g::oid)), pg_typeof(array_agg(g::text::name)) from generate_series(1, 2) g;
select pg_typeof(array_append('{1}'::int[], 2)), pg_typeof(array_cat(array['a'], array['b'])), pg_typeof(array_remove('{1,2}'::int8[], 2));
select pg_typeof(array_agg(attnum)), 1 = any(array_agg(attnum)) from pg_attribute where attrelid = 'pg_class'::regclass and attnum < 3 and attnum > 0;
-- asyncpg, of a type that it does not know
WITH RECURSIVE typeinfo_tree( oid, ns, name, kind, basetype, elemtype, elemdelim, range_subtype, attrtypoids, attrnames, depth) AS ( SELECT ti.oid, ti.ns, ti.name, ti.kind, ti.basetype, ti.elemtype, ti.elemdelim, ti.range_subtype, ti.attrtypoids, ti.attrnames, 0 FROM ( SELECT t.oid AS oid, ns.nspname AS ns, t.typname AS name, t.typtype AS kind, (CASE WHEN t.typtype = 'd' THEN (WITH RECURSIVE typebases(oid, depth) AS ( SELECT t2.typbasetype AS oid, 0 AS depth FROM pg_type t2 WHERE t2.oid = t.oid UNION ALL SELECT t2.typbasetype AS oid, tb.depth + 1 AS depth FROM pg_type t2, typebases tb WHERE tb.oid = t2.oid AND t2.typbasetype != 0 ) SELECT oid FROM typebases ORDER BY depth DESC LIMIT 1) ELSE NULL END) AS basetype, t.typelem AS elemtype, elem_t.typdelim AS elemdelim, COALESCE( range_t.rngsubtype, multirange_t.rngsubtype) AS range_subtype, (CASE WHEN t.typtype = 'c' THEN (SELECT array_agg(ia.atttypid ORDER BY ia.attnum) FROM pg_attribute ia INNER JOIN pg_class c ON (ia.attrelid = c.oid) WHERE ia.attnum > 0 AND NOT ia.attisdropped AND c.reltype = t.oid) ELSE NULL END) AS attrtypoids, (CASE WHEN t.typtype = 'c' THEN (SELECT array_agg(ia.attname::text ORDER BY ia.attnum) FROM pg_attribute ia INNER JOIN pg_class c ON (ia.attrelid = c.oid) WHERE ia.attnum > 0 AND NOT ia.attisdropped AND c.reltype = t.oid) ELSE NULL END) AS attrnames FROM pg_catalog.pg_type AS t INNER JOIN pg_catalog.pg_namespace ns ON ( ns.oid = t.typnamespace) LEFT JOIN pg_type elem_t ON ( t.typlen = -1 AND t.typelem != 0 AND t.typelem = elem_t.oid ) LEFT JOIN pg_range range_t ON ( t.oid = range_t.rngtypid ) LEFT JOIN pg_range multirange_t ON ( t.oid = multirange_t.rngmultitypid ) ) AS ti WHERE ti.oid = any('{1007}'::oid[]) UNION ALL SELECT ti.oid, ti.ns, ti.name, ti.kind, ti.basetype, ti.elemtype, ti.elemdelim, ti.range_subtype, ti.attrtypoids, ti.attrnames, tt.depth + 1 FROM ( SELECT t.oid AS oid, ns.nspname AS ns, t.typname AS name, t.typtype AS kind, (CASE WHEN t.typtype = 'd' THEN (WITH RECURSIVE typebases(oid, depth) AS ( SELECT t2.typbasetype AS oid, 0 AS depth FROM pg_type t2 WHERE t2.oid = t.oid UNION ALL SELECT t2.typbasetype AS oid, tb.depth + 1 AS depth FROM pg_type t2, typebases tb WHERE tb.oid = t2.oid AND t2.typbasetype != 0 ) SELECT oid FROM typebases ORDER BY depth DESC LIMIT 1) ELSE NULL END) AS basetype, t.typelem AS elemtype, elem_t.typdelim AS elemdelim, COALESCE( range_t.rngsubtype, multirange_t.rngsubtype) AS range_subtype, (CASE WHEN t.typtype = 'c' THEN (SELECT array_agg(ia.atttypid ORDER BY ia.attnum) FROM pg_attribute ia INNER JOIN pg_class c ON (ia.attrelid = c.oid) WHERE ia.attnum > 0 AND NOT ia.attisdropped AND c.reltype = t.oid) ELSE NULL END) AS attrtypoids, (CASE WHEN t.typtype = 'c' THEN (SELECT array_agg(ia.attname::text ORDER BY ia.attnum) FROM pg_attribute ia INNER JOIN pg_class c ON (ia.attrelid = c.oid) WHERE ia.attnum > 0 AND NOT ia.attisdropped AND c.reltype = t.oid) ELSE NULL END) AS attrnames FROM pg_catalog.pg_type AS t INNER JOIN pg_catalog.pg_namespace ns ON ( ns.oid = t.typnamespace) LEFT JOIN pg_type elem_t ON ( t.typlen = -1 AND t.typelem != 0 AND t.typelem = elem_t.oid ) LEFT JOIN pg_range range_t ON ( t.oid = range_t.rngtypid ) LEFT JOIN pg_range multirange_t ON ( t.oid = multirange_t.rngmultitypid ) ) ti, typeinfo_tree tt WHERE (tt.elemtype IS NOT NULL AND ti.oid = tt.elemtype) OR (tt.attrtypoids IS NOT NULL AND ti.oid = any(tt.attrtypoids)) OR (tt.range_subtype IS NOT NULL AND ti.oid = tt.range_subtype) OR (tt.basetype IS NOT NULL AND ti.oid = tt.basetype) ) SELECT DISTINCT *, basetype::regtype::text AS basetype_name, elemtype::regtype::text AS elemtype_name, range_subtype::regtype::text AS range_subtype_name FROM typeinfo_tree ORDER BY depth DESC ;
-- pg_dump
select typname[0], typname[1], typname[2], typname[63], typname[64], typname[-1] from pg_type where oid = 1007;
SELECT oid, typname, typelem, CASE WHEN typrelid = 0 THEN ' '::"char" ELSE (SELECT relkind FROM pg_class WHERE oid = typrelid) END AS typrelkind, typtype, typisdefined, typname[0] = '_' AND typelem != 0 AND (SELECT typarray FROM pg_type te WHERE oid = pg_type.typelem) = oid AS isarray FROM pg_type where oid in (23, 1007, 1009) order by oid;
SELECT label, provider, classoid, objoid, objsubid FROM pg_catalog.pg_seclabels ORDER BY classoid, objoid, objsubid;
-- sequences are tables of one row
create schema shop;
create sequence shop.numbers start 10 increment 5;
select last_value, is_called from shop.numbers;
select last_value from pg_sequences where sequencename = 'numbers';
select nextval('shop.numbers'), nextval('shop.numbers');
select last_value, is_called from shop.numbers;
select n.last_value as a, numbers.is_called from shop.numbers n, shop.numbers;
select last_value from pg_sequences where sequencename = 'numbers';
select setval('shop.numbers', 100, false);
select last_value, is_called from shop.numbers;
-- serial columns of a schema that is not on the search path
create table shop.t (id serial primary key, v text default 'x');
insert into shop.t default values returning *;
select column_default from information_schema.columns where table_schema = 'shop' and table_name = 't' order by ordinal_position;
select pg_get_serial_sequence('shop.t', 'id');
set search_path = shop;
select column_default from information_schema.columns where table_schema = 'shop' and table_name = 't' order by ordinal_position;
create type mood as enum ('sad', 'ok');
create sequence own;
create table u (a int default nextval('own'), b int default nextval('own'::regclass) + 1, m mood default 'ok'::mood check (m <> 'sad'::mood));
alter table u alter b set default nextval('own') * 10;
create view v as select t.id, u.m from t, u where u.m >= 'ok'::mood;
create view w as with t as (select id + 1 as id from t) select t.id, (select max(last_value) from own) as l from t;
reset search_path;
insert into shop.u default values returning *;
insert into shop.u (m) values ('sad');
select * from shop.v;
select * from shop.w;
select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 'shop.u'::regclass order by adnum;
select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'shop.u'::regclass;
drop sequence shop.own;
-- subscripts of jsonb
select ('{"a": [1, {"b": "x"}], "c": null}'::jsonb)['a'], ('{"a": [1, {"b": "x"}]}'::jsonb)['a'][1]['b'], ('[10, 20]'::jsonb)[1], ('[10, 20]'::jsonb)[-1], ('{"c": null}'::jsonb)['c'], ('{"1": 5}'::jsonb)[1];
select ('[1, 2]'::jsonb)['0'], ('[1]'::jsonb)[null::int], (null::jsonb)['a'];
select ('[1]'::jsonb)[1:2];
select ('[1]'::jsonb)[1.5];
-- read-only transactions
begin read only;
select count(*) from shop.t;
insert into shop.t default values;
rollback;
begin;
set transaction read only;
with d as (delete from shop.t returning id) select * from d;
rollback;
start transaction read only;
create table x (a int);
rollback;
begin read only;
select id from shop.t for update;
rollback;
begin read only;
drop table shop.t;
rollback;
set default_transaction_read_only = on;
update shop.t set v = 'y';
set default_transaction_read_only = off;
update shop.t set v = 'y';
-- a recursion that nobody reads to its end
with recursive t(n) as (select 1 union all select n + 1 from t) select (select n from t limit 1), (select max(n) from (select n from t limit 5) x), (select n from t offset 3 limit 1);
-- sleeping
select pg_sleep(0.001), pg_sleep_for('1 millisecond'), pg_sleep(-1), pg_sleep_until('2000-01-01');
-- pgjdbc: fields of records that a query within makes
create table keyed (a int, b int, c text, primary key (b, a));
create index keyed_c on keyed (c, a desc);
select (x.keys).n, (x.keys).x, a.attname from (select information_schema._pg_expandarray(i.indkey) as keys, i.indrelid from pg_index i where i.indrelid = 'keyed'::regclass and i.indisprimary) x join pg_attribute a on a.attrelid = x.indrelid and a.attnum = (x.keys).x order by 1;
select (information_schema._pg_expandarray(array['p', 'q'])).n;
select (y.k).x from (select (x.keys) as k from (select information_schema._pg_expandarray(array['p', 'q']) as keys) x) y order by 1;
select pg_typeof((x.keys).x), pg_typeof((x.keys).n), (x.keys).x + 1 from (select information_schema._pg_expandarray(i.indkey) as keys from pg_index i where i.indrelid = 'keyed'::regclass and i.indisprimary) x order by 3;
select (x.r).f2 from (select row(1, 'two'::text) as r) x;
select (t.k).c from (select keyed as k from keyed) t;
select (x.keys).z from (select information_schema._pg_expandarray(array['p']) as keys) x;
-- cursors that outlive their transaction
begin;
declare held cursor with hold for select g from generate_series(1, 5) g;
declare lost cursor for select 1;
commit;
fetch 2 from held;
fetch 1 from lost;
begin;
select 1 / 0;
rollback;
fetch 2 from held;
begin;
declare late cursor with hold for select 2;
rollback;
fetch 1 from late;
close held;
fetch 1 from held;
-- what pg_dump writes of identity columns and domains
create table made (id bigint not null, other int);
alter table made alter column id add generated always as identity (sequence name made_own start with 7 increment by 1 no minvalue no maxvalue cache 1);
insert into made values (default, 1) returning id;
select last_value, is_called from made_own;
select pg_get_serial_sequence('made', 'id');
create domain small as int default 5 check (value < 10);
select typdefault, pg_get_expr(typdefaultbin, 0) from pg_type where typname = 'small';
