-- Where a recursive query may name itself.
with recursive t(n) as (select 1 union all select t.n + u.n from t, t as u) select * from t;
with recursive t(n) as (select 1 union all select n + 1 from t where n in (select n from t)) select * from t;
with recursive t(n) as (select 1 union all select n + 1 from (values (1)) v(x) left join t on true) select * from t;
with recursive t(n) as (select 1 union all select n + 1 from t right join (values (1)) v(x) on true) select * from t;
with recursive t(n) as (select 1 union all select n + 1 from t full join (values (1)) v(x) on true) select * from t;
with recursive t(n) as (select 1 union all select n + 1 from t left join (values (1)) v(x) on true where n < 3) select * from t order by n;
with recursive t(n) as (select 1 union all select max(n) + 1 from t) select * from t;
with recursive t(n) as (select 1 union all (select n + 1 from t where n < 3 intersect all select 2)) select * from t order by n;
with recursive t(n) as (select 1 union all (select 5 except select n from t)) select * from t;
with recursive t(n) as (select 1 union all (select n + 1 from t where n < 4 except select 9)) select * from t order by n;
with recursive t(n) as (select 1 union all (select n + 1 from t where n < 4 except all select 9)) select * from t order by n;
with recursive t(n) as (select n from t union all select 1) select * from t;
with recursive t(n) as (select n from t) select * from t;
with recursive t(n) as (select 1 intersect select n from t) select * from t;
with recursive t(n) as (select 1 union all select n + 1 from t where n < 5 order by 1) select * from t;
with recursive t(n) as (select 1 union all select n + 1 from t where n < 5 limit 3) select * from t;
with recursive t(n) as (select 1 union all select n + 1 from t where n < 5 offset 1) select * from t;
with recursive t(n) as (select 1 union all select n + 1 from (select n from t where n < 5) s) select sum(n) from t;
with recursive t(n) as (select 1 union all select n + 1 from t where n < 5) select count(*), max(n) from t;
with recursive t(n) as (select 1 union all select n + 1 from t) select n from t limit 4;
with recursive t(n) as (select 1 union select (n + 1) % 5 from t) select n from t order by n;
-- What a table keeps is about its row only.
create table subs (a int, b int);
insert into subs values (1, 2);
alter table subs alter a set default (select 1);
alter table subs add check (a in (select 1));
alter table subs alter a type bigint using (select 1);
alter table subs alter a type bigint using sum(a);
create index on subs ((a + (select 1)));
create index on subs (a) where a in (select 1);
create index on subs ((sum(a)));
create index on subs ((row_number() over ()));
create domain sub as int check (value > (select 1));
alter table subs add column c int default (select 1);
select * from subs;
-- What is not there is told by its name, and nothing is let through in silence.
select count(*) from subs where a in (select b from subs);
drop table subs;
