# Statements whose costs are counted with tables of two sizes (growth.rs): one a line.
#
# {n}: the number of rows; {list}: as many numbers; {rows}: the same as rows of VALUES; {pairs}: of two columns.
# Tables: a (k key, v); b (x, y key); p (u1 indexed, u2 unique, th, hu); c (w bigint), without an index. th
# repeats itself, hu has ten values, w is as v. d (id key, up: the one before in tens, t, tags, j, n, ts);
# e (id key, d: of d, indexed; x); g (id key), of which f (id key, g) has no index; h as e, deferred.
# ~: takes the square of them, in PostgreSQL too: a table without an index is gone through again and again.

# what is asked of lists, of subqueries and of joins
select count(*) from a where v in (select y from b)
select count(*) from a where v not in (select y + 7 from b)
select count(*) from a where v not in (select nullif(y, 3) from b)
select count(*) from a where (k, v) in (select y, y from b)
select count(*) from a where v <> all (select y from b where y > 9)
select count(*) from a where v in (select w from c)
select count(*) from a where k::numeric in (select w::numeric from c)
select count(*) from a where v in ({list})
select count(*) from a where v not in ({list})
select count(*) from a where v = any (array[{list}])
select count(*) from a where v <> all (array[{list}])
select count(*) from a where v = any ((select array_agg(y) from b)::int[])
select count(*) from a where v = any (array(select y from b))
select count(*) from a where exists (select 1 from b where b.x = a.k)
select count(*) from a where exists (select 1 from c where c.w = a.k)
select count(*) from a where not exists (select 1 from c where c.w = a.k + 1)
select count(*) from a where exists (select 1 from c join p on p.th = c.w where c.w = a.v and p.u2 > 0)
select count(*) from a where exists (select 1 from p where p.th = a.v and not exists (select 1 from c where c.w = p.u1 and c.w = a.k))
select count(*) from a where v = 1 or exists (select 1 from c where c.w = a.k)
select count(*) from a where v in (select u1 from p where p.th = a.v)
select sum((select count(*) from p where p.th = a.v)) from a
select sum((select max(u1) from p where p.hu > o.hu)) from p o
select count(*) from a, lateral (select w from c where c.w = a.v order by w limit 1) t
select count(*) from a left join lateral (select count(*) as n from c where c.w = a.v) t on true
select count(*) from p s, p t join lateral (values (s.u1)) v(x) on t.u2 = v.x
select count(*) from a join c on a.v = c.w
select count(*) from a left join c on a.v = c.w where c.w is null
select count(*) from a full join c on a.v = c.w
select count(*) from a join b on a.v = b.y where a.k <= {n} and b.x <= {n}
select count(*) from a join generate_series(1, {n}) g on a.v = g
select count(*) from a where exists (select 1 from p left join c on c.w = p.u2 where p.u1 = a.v)
update a set v = v where v in (select w from c)
delete from c where not exists (select 1 from a where a.v = c.w)
insert into c select v from a where v not in (select w from c)
select count(*) from (select v, count(*) from a group by v) t
select count(*) from (select v from a union select w from c) t
select count(*) from (select v from a except select w from c) t

# joins
select count(*) from a join c on a.k = c.w join p on p.u1 = a.v
select count(*) from a join b on b.x = a.k join p on p.u2 = b.y
select count(*) from a left join p on p.u2 = a.k left join c on c.w = p.th
select count(*) from c right join a on a.v = c.w
select count(*) from a full join p on a.k = p.u2 where a.k is null
select count(*) from a natural join (select w as v from c) t
select count(*) from a cross join (values (1), (2)) t(x)
select count(*) from a x join a y on x.k = y.v and x.v < y.k + 5
select count(*) from c x join c y on x.w = y.w
select count(*) from c x join c y on x.w + 1 = y.w - 1
select count(*) from p s join p t on s.th = t.th and s.u1 <> t.u1
select count(*) from a join c on a.v = c.w and a.k > 3 where c.w < 100000
select count(*) from a left join c on a.v = c.w and c.w > 10
select count(*) from (select v from a group by v) x join (select w from c group by w) y on x.v = y.w
select count(*) from a join c on a.v::text = c.w::text
select count(*) from a join d on d.id = a.v join e on e.d = d.id
select count(*) from a join lateral (select * from p where p.u2 = a.k) t on true
select count(*) from a left join lateral (select t.u1 from p t where t.u1 = a.v limit 1) l on true
select count(*) from p o join lateral (select count(*) as n from p i where i.u1 = o.u1) t on t.n = 1
select count(*) from a, generate_series(1, 3) g
select count(*) from generate_series(1, {n}) x join generate_series(1, {n}) y on x = y
select count(*) from (select k, v from a order by v) s join c on c.w = s.v
select count(*) from a join (select distinct w from c) t on t.w = a.v
select count(*) from a join (select w from c union select u1 from p) t on t.w = a.v
select sum(a.v) from a join c on a.v = c.w where exists (select 1 from p where p.u1 = c.w)
select count(*) from a semi where semi.k in (select c.w from c join p on p.u2 = c.w)
select a.k from a join c on c.w = a.v order by c.w desc limit 5

# queries in expressions
select count(*) from a where (select p.u1 from p where p.u2 = a.k) = a.k
select count(*) from a where k = (select max(u2) from p)
select count(*) from a where v > (select avg(w) from c)
select k, (select count(*) from e where e.d = a.k) from a
select k, (select string_agg(t, ',') from d where d.id = a.k) from a
select k, array(select w from c where c.w = a.v) from a
select k, exists (select 1 from p where p.th = a.v) from a
select count(*) from a where not exists (select 1 from p where p.u1 = a.v and p.u2 < 0)
select count(*) from a where exists (select 1 from c where c.w = a.v and c.w > 5) or k = 3
select count(*) from a where k in (select u2 from p where hu = 3) and v not in (select w from c where w < 0)
select count(*) from a where (k, v) in (select u1, u2 from p)
select count(*) from a where row(k, v) = any (select u1, u2 from p)
select count(*) from a where k <> all (select u2 from p where u2 < 0)
select count(*) from a where v = any (select w from c where w % 2 = 0)
select count(*) from a where v = some (select th from p)
select count(*) from a where k in (select x from b where y in (select w from c))
select count(*) from a where exists (select 1 from b where b.x = a.k and exists (select 1 from c where c.w = b.y))
select coalesce((select u1 from p where u2 = a.k), 0) from a
select case when v in (select w from c) then 1 else 0 end from a
select count(*) from (select (select p.hu from p where p.u2 = a.k) as h from a) t where h = 3
select count(*) from a where (select count(*) from c) = {n}
select count(*) from p where u1 = (select min(k) from a where a.k = p.u2)
select count(*) from c where w = (select max(p.u1) from p where p.u2 = c.w)

# sets
select count(*) from (select v from a union all select w from c) t
select count(*) from (select v from a intersect select w from c) t
select count(*) from (select v from a intersect all select w from c) t
select count(*) from (select v from a except all select w from c) t
select count(*) from (select k, v from a union select u1, u2 from p union select x, y from b) t
select count(*) from (select v from a except select w from c intersect select u1 from p) t
select v from a union select w from c order by 1 limit 3
select distinct hu from p
select distinct th, hu from p order by 1, 2
select count(distinct th) from p
select distinct on (th) th, u1 from p order by th, u1 desc
select distinct on (hu) hu, u1 from p
select count(*) from (select distinct t from d) x

# groups
select th, count(*) from p group by th
select th, hu, sum(u1) from p group by th, hu having count(*) > 1
select hu, min(u1), max(u2), avg(th) from p group by hu order by hu
select th, count(distinct hu) from p group by th
select th, array_agg(u1 order by u2 desc) from p group by th
select th, string_agg(u1::text, ',' order by u1) from p group by th
select hu, jsonb_agg(u1) from p group by hu
select hu, jsonb_object_agg(u1, u2) from p group by hu
select th, hu, count(*) from p group by grouping sets ((th, hu), (th), ())
select th, hu, count(*) from p group by rollup (th, hu)
select th, hu, count(*) from p group by cube (th, hu)
select hu, grouping(hu), count(*) from p group by grouping sets ((hu), ())
select count(*) filter (where hu = 3), sum(u1) filter (where th > 2) from p
select percentile_cont(0.5) within group (order by u1) from p
select mode() within group (order by th) from p
select th % 7, count(*) from p group by 1 order by 2 desc, 1 limit 3
select lower(t), count(*) from d group by lower(t)
select n, count(*) from d group by n
select tags, count(*) from d group by tags
select j -> 'a', count(*) from d group by 1

# windows
select u1, row_number() over (order by u2) from p
select u1, rank() over (partition by hu order by th) from p
select u1, sum(u1) over (partition by th) from p
select u1, sum(u1) over (order by u2) from p
select u1, sum(u1) over (order by u2 rows between 2 preceding and current row) from p
select u1, avg(u1) over (order by u2 rows between 3 preceding and 3 following) from p
select u1, lag(u1) over (order by u2), lead(u1, 2) over (order by u2) from p
select u1, first_value(u1) over (partition by hu order by u2), last_value(u1) over (partition by hu) from p
select u1, ntile(4) over (order by u2), percent_rank() over (order by u2), cume_dist() over (order by u2) from p
select u1, sum(u1) over w, count(*) over w from p window w as (partition by th order by u2)
select * from (select u1, row_number() over (partition by th order by u1) as r from p) t where r = 1
select u1, sum(u1) over (order by u2 range between 5 preceding and current row) from p
select u1, sum(u1) over (order by th groups between 1 preceding and current row) from p
select u1, nth_value(u1, 2) over (order by u2) from p
select u1, max(u1) over (order by u2 rows between unbounded preceding and current row) from p

# order and limits
select k from a order by v
select k from a order by v desc, k limit 10
select k from a order by v offset {n} - 5
select k from a order by k limit 10 offset 20
select w from c order by w nulls first fetch first 3 rows with ties
select t from d order by t collate "C", id
select n from d order by n desc
select ts from d order by ts desc limit 7
select tags from d order by tags
select j from d order by j
select max(v), min(v) from a
select max(k), min(k) from a
select k from a where k > {n} / 2 order by k limit 3
select k from a where k between 10 and {n} - 10 order by k desc limit 3

# WITH
with t as (select v from a) select count(*) from t x join t y on x.v = y.v
with t as materialized (select w from c) select count(*) from a where v in (select w from t)
with t as (select w from c), u as (select w from t where w > 3) select count(*) from u join a on a.k = u.w
with recursive t(n) as (select 1 union all select n + 1 from t where n < {n}) select count(*) from t
with recursive t(n) as (select 1 union select n + 1 from t where n < {n}) select count(*) from t
with recursive t(n) as (select 1 union all select a.k from t join a on a.k = t.n + 1) select count(*) from t
~ with recursive t(id, up) as (select id, up from d where up is null union all select d.id, d.up from d join t on d.up = t.id) select count(*) from t
~ with recursive t(n, m) as (select k, v from a where k < 5 union select a.k, a.v from a join t on a.k = t.m + 4) select count(*) from t
with t as (select th, count(*) as n from p group by th) select count(*) from p join t using (th) where t.n > 1

# texts, arrays, documents
select count(*) from d where t like 'text 1%'
select count(*) from d where t like '%7'
select count(*) from d where t ilike '%EXT 2%'
select count(*) from d where t ~ '^text [0-9]+$'
select count(*) from d where t similar to 'text (1|2)%'
select count(*) from d where t = 'text 5'
select sum(length(t)), max(upper(t)), min(substr(t, 3)) from d
select count(*) from d where position('9' in t) > 0
select string_agg(t, ',') from d
select string_agg(t, ',' order by t) from d
select length(string_agg(t, ',')) from d
select count(*) from regexp_split_to_table((select string_agg(t, ',') from d), ',') x
select count(*) from string_to_table((select string_agg(t, ',') from d), ',') x
select array_length(string_to_array((select string_agg(t, ',') from d), ','), 1)
select replace((select string_agg(t, ',') from d), 'text', 'other')
select length(repeat('x', {n})), md5(repeat('x', {n})), reverse(repeat('x', {n}))
select count(*) from (select regexp_matches(string_agg(t, ','), '[0-9]+', 'g') from d) x
select translate(string_agg(t, ','), 'tex', 'abc') from d
select count(*) from d where 3 = any (tags)
select count(*) from d where tags @> array[2]
select count(*) from d where tags && array[3, 900]
select array_agg(id) from d
select count(*) from unnest((select array_agg(k) from a)) x
select count(*) from d, unnest(tags) x
select count(*) from d, unnest(tags) with ordinality x(v, at) where at = 1
select array_length(array_agg(k) || array_agg(v), 1) from a
select count(*) from a where k = any ((select array_agg(w) from c)::int[])
select array_position(array_agg(k), {n}) from a
select array_remove(array_agg(k), 3), array_replace(array_agg(k), 3, 4) from a
select count(*) from d where j ->> 'a' = '3'
select count(*) from d where j @> '{"a": 3}'
select count(*) from d where j ? 'b'
select sum((j ->> 'a')::int) from d
select count(*) from jsonb_array_elements((select jsonb_agg(k) from a)) x
select count(*) from jsonb_each((select jsonb_object_agg(k, v) from a)) x
select count(*) from json_each((select json_object_agg(k, v) from a)) x
select count(*) from jsonb_to_recordset((select jsonb_agg(jsonb_build_object('k', k)) from a)) x(k int)
select count(*) from jsonb_path_query((select jsonb_agg(k) from a), '$[*] ? (@ > 3)') x
select jsonb_agg(k) || jsonb_agg(v) from a
select to_jsonb(array_agg(t)) from d
select count(*) from d where jsonb_path_exists(j, '$.a ? (@ > 3)')
select json_agg(a) from a
select row_to_json(a) from a

# lists
select count(*) from a where k in ({list})
select count(*) from a where k not in ({list})
select count(*) from a where k = any ('{{list}}'::int[])
select count(*) from a join (values {rows}) t(x) on t.x = a.k
select count(*) from (values {rows}) t(x)
select count(*) from a where k in (values {rows})
select count(*) from a where v in ({list}) and k in ({list})
select count(*) from a where case when v in ({list}) then true else false end
select greatest({list}), least({list})
select count(*) from a where coalesce(nullif(v, 3), 0) in ({list})

# changes
begin; insert into c select w from c; rollback
begin; insert into d (id, t) select {n} + k, 'new' from a; rollback
begin; insert into a values {pairs} on conflict do nothing; rollback
begin; insert into a select k, 0 from a on conflict (k) do update set v = excluded.v; rollback
begin; insert into a select k + {n} / 2, 0 from a on conflict (k) do update set v = a.v + 1 where a.v > 3; rollback
begin; insert into a select k + {n}, v from a returning k, v; rollback
begin; update a set v = v + 1; rollback
begin; update a set k = k + {n}; rollback
begin; update a set v = c.w from c where c.w = a.v; rollback
begin; update a set v = p.hu from p where p.u2 = a.k; rollback
begin; update a set v = (select max(u1) from p where p.u2 = a.k); rollback
begin; update p set (th, hu) = (select a.k, a.v from a where a.k = p.u1); rollback
begin; update p set th = t.n from (select hu, count(*) as n from p group by hu) t where t.hu = p.hu; rollback
begin; update a set v = v where k in ({list}); rollback
begin; update c set w = w + 1 where w = any (array[{list}]); rollback
begin; update p set u1 = u1 + 1 returning u1; rollback
begin; delete from a; rollback
begin; delete from a using c where c.w = a.v; rollback
begin; delete from a using p, c where p.u2 = a.k and c.w = p.u1; rollback
begin; delete from p where th in (select v from a) returning u1; rollback
begin; delete from c where w in ({list}); rollback
begin; delete from e where d in (select id from d where up is null); rollback
begin; truncate c; rollback
begin; merge into a using c on c.w = a.k when matched then update set v = 0 when not matched then insert values (c.w, 0); rollback
begin; merge into a using (select u2, hu from p) s on s.u2 = a.k when matched and s.hu = 3 then delete when matched then update set v = s.hu; rollback
begin; merge into c using a on a.v = c.w when matched then do nothing when not matched then insert values (a.v); rollback
begin; with t as (delete from c returning w) insert into c select w + 1 from t; rollback
begin; with t as (update a set v = 0 returning k) select count(*) from p join t on t.k = p.u1; rollback
begin; with t as (insert into c select v from a returning w) select count(*) from t join a on a.k = t.w; rollback

# foreign keys and other constraints
begin; insert into e select 2 * {n} + k, k, k from a; rollback
begin; insert into f select {n} + k, k from a; rollback
begin; update e set d = d; rollback
begin; update e set d = 1 + d % {n}; rollback
begin; delete from e; delete from d where id > 3 and up is null; rollback
begin; delete from f; delete from g; rollback
~ begin; delete from g where id > {n} / 2; rollback
~ begin; update g set id = id + {n} where id > {n} / 2; rollback
begin; set constraints all deferred; insert into h select k, k from a; set constraints all immediate; rollback
begin; alter table a add check (v > -5); rollback
begin; alter table c add primary key (w); rollback
begin; alter table e drop constraint e_d_fkey; alter table e add foreign key (d) references d; rollback
begin; create unique index on c (w); rollback
begin; create index on p (th) where hu = 3; rollback
begin; create table t as select * from p; rollback
begin; alter table c add x int default 5; rollback
begin; alter table c add x int default 5; update c set x = w; rollback
begin; alter table c alter w type numeric; rollback
begin; alter table a alter v set not null; rollback
begin; create temp table t as select k from a; create index on t (k); select count(*) from t join a using (k); rollback
begin; create materialized view t as select th, count(*) from p group by th; refresh materialized view t; rollback
analyze a

# cursors and the like
begin; declare x cursor for select k from a order by k; fetch all x; rollback
begin; declare x scroll cursor for select k from a order by v; fetch last x; fetch first x; move all x; rollback
begin; select k from a for update; rollback
begin; select k from a where v in (select w from c) for update; rollback
begin; select k from a order by v limit 3 for update skip locked; rollback
prepare x as select count(*) from a where v = $1; execute x (3); deallocate x
begin; savepoint s; update a set v = 0; rollback to s; rollback
explain analyze select count(*) from a join c on a.v = c.w
