-- Functions and operators by their texts.
select 'abs(int4)'::regprocedure, 'abs(int4)'::regprocedure::oid, 'now'::regproc, 1397::regproc, 1397::regprocedure;
select '+(int4, integer)'::regoperator, '-(none,int4)'::regoperator, '||/'::regoper, 551::regoper, 551::regoperator;
select 'pg_catalog.abs(int4)'::regprocedure, 'now()'::regprocedure, '0'::regoper, 99999::regprocedure, 99999::regoperator;
select 'abs'::regprocedure;
select 'abs(int4'::regprocedure;
select 'abs(text)'::regprocedure;
select 'nope(text)'::regprocedure;
select 'abs'::regproc;
select 'nope'::regoper;
select '-'::regoper;
select '+(int4)'::regoperator;
select '+(int4,int4,int4)'::regoperator;
select '*(text,text)'::regoperator;
-- A name that something else has before it in the search path is shown with its schema.
create type public."text" as enum ('a', 'b');
create domain public.int4 as pg_catalog.int4 check (value > 0);
create table named_alike (a text, b public."text", c public."text"[], d public.int4);
select attname, atttypid::regtype, format_type(atttypid, atttypmod), pg_type_is_visible(atttypid)
  from pg_attribute where attrelid = 'named_alike'::regclass and attnum > 0 order by attnum;
insert into named_alike values ('x', 'a', '{a,b}', 1);
select * from named_alike;
create schema behind;
create table behind.twice (a int primary key);
create view behind.seen as select 1 as one;
set search_path = public, behind;
select 'behind.twice'::regclass, 'behind.seen'::regclass, 'behind.twice_pkey'::regclass;
create table public.twice (a int primary key);
select 'behind.twice'::regclass, 'twice'::regclass, 'behind.twice_pkey'::regclass, 'twice_pkey'::regclass;
select c.oid::regclass, pg_table_is_visible(c.oid) from pg_class c where relname = 'twice' order by c.oid;
create table public.pg_class (a int);
select 'public.pg_class'::regclass, 'pg_class'::regclass;
drop table public.pg_class, public.twice, named_alike;
reset search_path;
drop schema behind cascade;
drop type public."text";
drop domain public.int4;
