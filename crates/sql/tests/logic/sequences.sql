-- Numbers of sequences and transactions: what goes back with a block, and what does not.
create sequence s; create sequence other; create table t (a int generated always as identity, b serial, c int);

-- A block that has changed the catalog, but not the sequence, does not give numbers back.
begin; create table x (a int);
select nextval('s'), nextval('s');
insert into t (c) values (1) returning a, b;
savepoint p;
select nextval('s');
rollback to p;
select nextval('s'), currval('s');
rollback;
select nextval('s');
insert into t (c) values (1) returning a, b;
begin; alter table t add d int; select setval('s', 40);
rollback;
select nextval('s');

-- Nor where only its name, its owner or its rights have changed.
create role sequences_r1;
begin; alter sequence s rename to s2; grant select on s2 to sequences_r1; alter sequence s2 owned by t.c;
select nextval('s2');
select last_value, is_called from s2;
rollback;
select nextval('s');
begin; alter sequence s owner to sequences_r1; select nextval('s');
rollback;
select nextval('s');
drop role sequences_r1;

-- A sequence that the block has altered does, as a whole, whatever it says.
begin; alter sequence s increment 5;
select nextval('s'), nextval('s');
select nextval('other');
rollback;
select nextval('s'), nextval('other');
begin; alter sequence s increment 1;
select nextval('s');
select setval('s', 77);
rollback;
select nextval('s');
begin; alter sequence s restart;
select nextval('s'), nextval('s');
rollback;
select nextval('s');
begin; alter sequence s restart with 200;
select nextval('s'), nextval('s');
commit;
select nextval('s');
begin; alter table t alter a restart with 50; insert into t (c) values (2) returning a, b;
rollback;
insert into t (c) values (2) returning a, b;
begin; truncate t restart identity; insert into t (c) values (3) returning a, b;
rollback;
insert into t (c) values (3) returning a, b;

-- A savepoint gives back only what has begun the sequence anew behind it.
begin; create sequence mine start 10;
select nextval('mine');
savepoint p;
select nextval('mine');
rollback to p;
select nextval('mine');
commit;
select nextval('mine');
begin; alter sequence mine restart with 100; select nextval('mine');
savepoint p;
select nextval('mine');
rollback to p;
select nextval('mine');
savepoint q; alter sequence mine restart with 100; select nextval('mine');
savepoint r; select nextval('mine'), nextval('mine'), nextval('mine');
rollback to q;
select nextval('mine');
commit;
select nextval('mine');
begin; savepoint p; alter sequence mine restart; select nextval('mine'), nextval('mine');
rollback to p;
select last_value, is_called from mine;
commit;
select nextval('mine');
begin; savepoint p; truncate t restart identity; insert into t (c) values (4) returning a, b;
rollback to p;
insert into t (c) values (4) returning a, b;
commit;

-- The oid of a sequence that was rolled back may be given again: its numbers are not.
begin; create sequence gone; select nextval('gone'), nextval('gone');
rollback;
create sequence again; select nextval('again');

-- So do temporary ones.
create temp sequence own; select nextval('own');
begin; create table x (a int); select nextval('own');
rollback;
select nextval('own');
begin; alter sequence own restart with 20; select nextval('own');
savepoint p;
select nextval('own');
rollback to p;
select nextval('own');
rollback;
select nextval('own');
begin; alter sequence own increment 10; select nextval('own');
rollback;
select nextval('own');
begin; savepoint p; alter sequence own restart with 30; select nextval('own'), nextval('own');
rollback to p;
select nextval('own');
commit;
select nextval('own');
create temp table tt (a int generated always as identity, c int);
insert into tt (c) values (1), (2);
begin; truncate tt restart identity; insert into tt (c) values (3) returning a;
rollback;
insert into tt (c) values (4) returning a;

-- The values of one row are computed in the order of the table's columns, those of several as they are listed.
create sequence turn; create table ordered (a int default nextval('turn'), b int, c int default nextval('turn'), d int);
insert into ordered (d, c, b) values (nextval('turn'), default, nextval('turn')) returning *;
insert into ordered (d, c, b) values (nextval('turn'), default, nextval('turn')), (nextval('turn'), default, nextval('turn')) returning *;
insert into ordered (d, b) select nextval('turn'), nextval('turn') returning *;
with w as (select 1 as x) insert into ordered (d, b) values ((select x from w), (select x + 1 from w)) returning *;
-- What comes behind a row that fails draws none.
create table keyed (a int primary key default nextval('turn'), b int);
insert into keyed values (1, 1), (nextval('turn'), 2), (1, 3), (nextval('turn'), 4);
select nextval('turn');
insert into keyed (b, a) values (1, 1), (nextval('turn'), 1), (nextval('turn'), 4);
select nextval('turn');

-- Types, limits and the number that is there, one against the other.
create sequence q1;
alter sequence q1 as smallint; select * from pg_sequences where sequencename='q1';
alter sequence q1 as int; select * from pg_sequences where sequencename='q1';
alter sequence q1 maxvalue 100; alter sequence q1 as bigint;  select * from pg_sequences where sequencename='q1';
alter sequence q1 no maxvalue; select setval('q1', 50);
alter sequence q1 maxvalue 40;
alter sequence q1 minvalue 60;
alter sequence q1 minvalue 60 start 70;
alter sequence q1 minvalue 60 start 70 restart;
alter sequence q1 increment -1; select * from pg_sequences where sequencename='q1';
alter sequence q1 minvalue -3 no maxvalue start -2;
alter sequence q1 no maxvalue start -2 restart; select * from pg_sequences where sequencename='q1';
create sequence q2 as smallint maxvalue 40000;
create sequence q2 as smallint minvalue -40000;
create sequence q2 as int increment -1; select * from pg_sequences where sequencename='q2';
alter sequence q2 as smallint; select * from pg_sequences where sequencename='q2';
alter sequence q2 as bigint increment 1; select * from pg_sequences where sequencename='q2';
alter sequence q2 as bigint increment 1 minvalue -5 maxvalue 7 restart 3 cycle; select * from pg_sequences where sequencename='q2';
alter sequence q2 as smallint maxvalue 70000;
select nextval('q2');select nextval('q2');
alter sequence q2 maxvalue 3;
alter sequence q2 as text;
alter sequence q2 as smallint as int;
create sequence q3 as int start 3000000000;
create sequence q3 as int maxvalue 3 maxvalue 5;
create table typed(a smallint generated always as identity, b serial);
alter table typed alter a type int; select * from pg_sequences where sequencename='typed_a_seq';
alter table typed alter b type bigint; select * from pg_sequences where sequencename='typed_b_seq';
alter table typed alter a set maxvalue 5 set cache 2; select * from pg_sequences where sequencename='typed_a_seq';
alter table typed alter a type smallint; select * from pg_sequences where sequencename='typed_a_seq';
-- Options are looked at before the name, and after what is altered.
create sequence s_taken;
create sequence s_taken minvalue 5 maxvalue 1;
create sequence s_taken increment 0;
create sequence nowhere.s minvalue 5 maxvalue 1;
create sequence if not exists s_taken minvalue 5 maxvalue 1;

create sequence s_taken owned by nowhere.t;
create sequence s_other owned by nowhere.t minvalue 5 maxvalue 1;
create sequence s_taken cycle no cycle;
alter sequence s_missing cycle no cycle;
alter sequence if exists s_missing cycle no cycle;
alter sequence s_taken increment 0 cycle no cycle;
alter sequence s_taken owned by nowhere.t increment 0;
alter sequence s_taken owned by none owned by none;
create table s_of (a int generated always as identity (cycle increment 0 no cycle));
select 1 / 0; alter sequence s_taken cycle no cycle;
drop sequence s_taken;
create schema s_away;
create table s_owner (a int generated always as identity);
create table s_away.s_owner (a int);
alter sequence s_owner_a_seq no minvalue owned by s_away.s_owner.a;
alter sequence s_owner_a_seq owned by s_owner.nosuch;
alter sequence s_owner_a_seq owned by s_owner.a;
alter sequence s_owner_a_seq owned by none increment 0;
alter sequence s_owner_a_seq owned by none;
