-- Queries larger than work_mem: what they answer is what they answer with room for all of it.
show work_mem;
show hash_mem_multiplier;
set work_mem = '63kB';
set work_mem = '64kB';
set hash_mem_multiplier = 1.0;
set hash_mem_multiplier = 0.5;
show work_mem;
create table big (id int primary key, k int, n numeric, t text, d date, x float8, u uuid, j jsonb, a int[], b bytea);
insert into big select i, (i * 7919) % 501, (i * 31 % 1000) / 7.0, case when i % 11 = 0 then null else 'text ' || (i * 37 % 2003) end, date '2000-01-01' + i % 700, i / 3.0::float8, ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, jsonb_build_object('i', i, 'l', array[i, i + 1]), array[i % 5, i], decode(lpad(to_hex(i), 8, '0'), 'hex') from generate_series(1, 3000) i;
create table small (k int, name text);
insert into small select i, 'name ' || i from generate_series(0, 249) i union all select null, 'none' union all select 5, 'again';

-- Sorting.
select id, k, t from (select id, k, t, row_number() over (order by t desc nulls last, k, id) as r from big) s where r in (1, 2, 500, 1500, 2728, 2729, 3000) order by r;
select count(*), sum(case when ok then 1 else 0 end) from (select (t, id) >= (lag(t) over (order by t, id), lag(id) over (order by t, id)) as ok from big where t is not null) s;
select id, n from big order by n desc, id offset 2990;
select id, j, a, b, u, d from big order by x desc offset 2997;
select id, j, a, b, u from big order by j desc limit 3;
select id from big order by a desc, id limit 4;
select id from big order by t nulls first, id limit 3;
select id, k from big order by k, id desc limit 5 offset 1000;
select k from big order by k fetch first 3 rows with ties;
select md5(string_agg(id::text, ',' order by t desc, n, id)) from big;
select md5(string_agg(t, ',' order by b desc)) from big;
select distinct on (k) k, id from big order by k, id desc limit 4;
select count(*), sum(id) from (select distinct on (k, d) k, d, id from big order by k, d, id) s;
select count(*), count(distinct t), count(distinct n), sum(distinct k), count(distinct (k, d)) from big;
select k, count(distinct t), array_agg(id order by id desc) from big where k < 3 group by k order by k;
select percentile_disc(array[0.1, 0.5, 0.9]) within group (order by x), mode() within group (order by k) from big;

-- Grouping.
select count(*), sum(c), min(s), max(s) from (select t, count(*) as c, sum(id) as s from big group by t) g;
select count(*), sum(c), max(m) from (select id, count(*) as c, max(t) as m from big group by id, d) g;
select t, count(*), sum(n)::numeric(20, 4), min(d), max(x)::numeric(20, 4) from big group by t order by t nulls first limit 3;
select count(*), sum(c) from (select t, k, count(*) as c from big group by grouping sets ((t), (k), (t, k), ())) g;
select k, t, count(*) from big where id < 9 group by rollup (k, t) order by k nulls last, t nulls last;
select count(*), sum(c) from (select k, d, count(*) as c from big group by cube (k, d)) g;
select count(*) from (select t, array_agg(id) as l, string_agg(t, ',') as s from big group by t having count(*) > 1) g;
select count(*), sum(c) from (select j, count(*) as c from big group by j) g;
select count(*), sum(length(l)) from (select k, string_agg(t, ',' order by t, id) as l from big group by k) g;

-- Rows that differ, and set operations.
select count(*), sum(length(t)) from (select distinct t from big) s;
select count(*) from (select distinct j, a, b, u from big) s;
select t from (select distinct t, k from big) s order by t nulls first, k limit 2;
select count(*), sum(id) from (select id, t from big union select id, t from big where id % 2 = 0) s;
select count(*), sum(id) from (select id, t from big union all select id, t from big where id % 2 = 0) s;
select count(*), sum(id) from (select id, t from big intersect select id, t from big where id % 3 = 0) s;
select count(*), sum(id) from (select id, t from big except select id, t from big where id % 3 = 0) s;
select count(*) from (select t from big intersect all select t from big where id % 2 = 0) s;
select count(*) from (select t from big except all select t from big where id % 2 = 0) s;
select count(*) from (select k, t from big except select k, t from big where id < 1500) s;
select count(*) from (select t from big except select t from big where t is not null) s;
select t from (select t, id from big union select t, -id from big) s order by id limit 3;

-- Joins.
select count(*), sum(a.id), sum(b.id) from big a join big b on a.id = b.id;
select count(*), sum(a.id), sum(b.id) from big a join big b on a.t = b.t;
select count(*), count(b.id), sum(b.id) from big a left join big b on a.id = b.id + 1500;
select count(*), count(a.id), count(b.id) from big a full join big b on a.id = b.id + 1000;
select count(*), count(a.id), count(b.id) from big a full join big b on a.t = b.t and a.id < b.id;
select count(*), count(a.id), count(b.id) from big a right join (select * from big where id <= 2000) b on a.t = b.t and a.k = b.k;
select count(*), count(s.name), count(b.id) from small s full join big b on s.k = b.k;
select count(*), sum(b.id) from small s join big b using (k);
select count(*), sum(a.id) from big a join big b on a.n = b.n and a.d = b.d;
select a.id, b.id from big a join big b on a.x = b.x where a.id > 2997 order by a.id;
select count(*) from big a join big b on a.u = b.u join big c on b.b = c.b left join big d on d.j = c.j;
-- One key has all rows: it cannot be divided.
select count(*), sum(b.id) from small s join (select 1 as one, id, t from big) b on s.k = b.one;
select count(*), sum(a.id), sum(b.id) from (select 7 as one, id from big where id <= 1000) a join (select 7 as one, id, t from big where id <= 2000) b on a.one = b.one;
select count(*), sum(a.id), count(b.t) from (select 7 as one, id from big where id <= 900) a left join (select 7 as one, id, t from big) b on a.one = b.one and b.id = a.id * 4;
select count(*), count(a.id), count(b.id) from (select 7 as one, id from big where id <= 900) a full join (select 7 as one, id, t from big) b on a.one = b.one and b.id = a.id * 4;

-- IN, EXISTS and what NULLs make of them.
select count(*) from big where id in (select id + 1000 from big);
select count(*) from big where id not in (select id + 1000 from big);
select count(*) from big where t in (select t from big where id % 3 = 0);
select count(*) from big where t not in (select t from big where id % 3 = 0);
select count(*) from big where t not in (select t from big where id % 3 = 0 and t is not null);
select count(*) from big where (k, t) in (select k, t from big where id > 1500);
select count(*) from big where (id, t) not in (select id + 1500, t from big);
select count(*) from big where (id, t) not in (select id + 1500, t from big where t is not null);
select count(*), count(r), count(*) filter (where r) from (select (k, t) in (select k, t from big where id > 1500) as r from big) s;
select count(*) from big a where exists (select from big b where b.x = a.x + 500);
select count(*) from big a where not exists (select from big b where b.t = a.t and b.id <> a.id);
select count(*) from big a where not exists (select from big b where b.n = a.n and b.d = a.d and b.id > a.id);
select sum((select count(*) from big b where b.t = a.t)) from big a;
select sum((select max(b.id) from big b where b.k = a.k and b.id <= a.id)) from big a where a.id % 10 = 0;

-- Windows.
select sum(r), sum(s), sum(f), sum(l) from (select row_number() over (order by t, id) as r, sum(id) over (order by id) as s, first_value(id) over (partition by k order by id) as f, lead(id, 2, 0) over (order by id desc) as l from big) w;
select sum(r), sum(d), sum(p)::numeric(12, 4), sum(c)::numeric(12, 4), sum(n) from (select rank() over (order by k) as r, dense_rank() over (order by k) as d, percent_rank() over (order by k)::numeric as p, cume_dist() over (order by k)::numeric as c, ntile(7) over (order by k, id) as n from big) w;
select sum(a), sum(b), sum(c), sum(d) from (select sum(id) over (order by id rows between 3 preceding and 1 following) as a, count(*) over (order by k range between 2 preceding and 2 following) as b, count(*) over (order by k groups between 1 preceding and current row exclude current row) as c, last_value(id) over (partition by k order by id rows between unbounded preceding and unbounded following) as d from big) w;
select sum(v), count(v) from (select nth_value(id, 3) over (partition by d order by id range between unbounded preceding and unbounded following exclude ties) as v from big) w;
select k, id, r, total from (select k, id, rank() over (partition by k order by id desc) as r, count(*) over () as total from big) w where r = 1 and k < 3 order by k;
select count(*), sum(c) from (select k, count(*) over (partition by k) as c from (select distinct k, d from big) s) w;

-- WITH, and what is kept.
with w as materialized (select * from big) select count(*), sum(a.id) from w a join w b on a.id = b.id;
with recursive r as (select 1 as n, repeat('x', 40) as t union all select n + 1, t from r where n < 4000) select count(*), sum(n), sum(length(t)) from r;
select count(*) from big a cross join lateral (select b.id from big b where b.id between a.id and a.id + 1 order by b.t limit 1) l;
select array_length(array(select t from big), 1);
create table copied as select * from big order by t, id;
select count(*), sum(id) from copied;
insert into copied select id + 10000, k, n, t, d, x, u, j, a, b from copied;
select count(*), sum(id), count(distinct u) from copied;
create materialized view seen as select t, count(*) as c from copied group by t;
select count(*), sum(c) from seen;
refresh materialized view seen;
select count(*), sum(c) from seen;
update copied set n = 0 where id > 10000 and t in (select t from big where id < 100);
with gone as (delete from copied where id > 10000 returning id) select count(*), sum(id) from gone;

-- Cursors.
begin;
declare c scroll cursor with hold for select id, t, j from big order by x;
fetch 2 from c;
fetch absolute 2999 from c;
fetch backward 2 from c;
fetch last from c;
fetch first from c;
fetch relative 1500 from c;
move backward 1000 in c;
fetch 1 from c;
commit;
fetch absolute -2 from c;
fetch backward 1 from c;
move all in c;
fetch next from c;
fetch prior from c;
close c;
fetch 1 from c;

-- Limits.
set temp_file_limit = '100kB';
select count(*) from (select * from big order by t offset 0) s;
select count(*) from (select distinct j, t from big) s;
select count(*) from small;
reset temp_file_limit;
show temp_file_limit;
select count(*) from (select * from big order by t offset 0) s;
select 1 / (id - 3000) from (select * from big order by x offset 0) s order by id desc limit 1;
reset work_mem;
reset hash_mem_multiplier;
