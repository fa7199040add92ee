//! How what a statement does grows with its tables: rows and index entries that it visits, functions that it
//! calls and conditions that it checks, counted by the host. Four times the rows may cost four times as much.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads")]

mod client;
mod databases;
mod support;

use client::{Fixed, Printed, start};
use databases::with_hosts;
use liger_sql::exec::EngineDatabase;
use liger_sql::session::Database;

/// Rows of the smaller tables; the greater ones have four times as many.
const ROWS: u64 = 250;

/// `{n}`: the number of rows, `{list}`: as many numbers. Tables a (k key, v), b (x, y key), p (u1 indexed, u2
/// unique, th, hu), c (w bigint) without indexes; th repeats itself, hu has ten values, w is as v.
const SHAPES: &[&str] = &[
    "select count(*) from a where v in (select y from b)",
    "select count(*) from a where v not in (select y + 7 from b)",
    "select count(*) from a where v not in (select nullif(y, 3) from b)",
    "select count(*) from a where (k, v) in (select y, y from b)",
    "select count(*) from a where v <> all (select y from b where y > 9)",
    "select count(*) from a where v in (select w from c)",
    "select count(*) from a where k::numeric in (select w::numeric from c)",
    "select count(*) from a where v in ({list})",
    "select count(*) from a where v not in ({list})",
    "select count(*) from a where v = any (array[{list}])",
    "select count(*) from a where v <> all (array[{list}])",
    "select count(*) from a where v = any ((select array_agg(y) from b)::int[])",
    "select count(*) from a where v = any (array(select y from b))",
    "select count(*) from a where exists (select 1 from b where b.x = a.k)",
    "select count(*) from a where exists (select 1 from c where c.w = a.k)",
    "select count(*) from a where not exists (select 1 from c where c.w = a.k + 1)",
    "select count(*) from a where exists (select 1 from c join p on p.th = c.w where c.w = a.v and p.u2 > 0)",
    "select count(*) from a where exists (select 1 from p where p.th = a.v and \
     not exists (select 1 from c where c.w = p.u1 and c.w = a.k))",
    "select count(*) from a where v = 1 or exists (select 1 from c where c.w = a.k)",
    "select count(*) from a where v in (select u1 from p where p.th = a.v)",
    "select sum((select count(*) from p where p.th = a.v)) from a",
    "select sum((select max(u1) from p where p.hu > o.hu)) from p o",
    "select count(*) from a, lateral (select w from c where c.w = a.v order by w limit 1) t",
    "select count(*) from a left join lateral (select count(*) as n from c where c.w = a.v) t on true",
    "select count(*) from p s, p t join lateral (values (s.u1)) v(x) on t.u2 = v.x",
    "select count(*) from a join c on a.v = c.w",
    "select count(*) from a left join c on a.v = c.w where c.w is null",
    "select count(*) from a full join c on a.v = c.w",
    "select count(*) from a join b on a.v = b.y where a.k <= {n} and b.x <= {n}",
    "select count(*) from a join generate_series(1, {n}) g on a.v = g",
    "select count(*) from a where exists (select 1 from p left join c on c.w = p.u2 where p.u1 = a.v)",
    "update a set v = v where v in (select w from c)",
    "delete from c where not exists (select 1 from a where a.v = c.w)",
    "insert into c select v from a where v not in (select w from c)",
    "select count(*) from (select v, count(*) from a group by v) t",
    "select count(*) from (select v from a union select w from c) t",
    "select count(*) from (select v from a except select w from c) t",
];

/// Of some the smaller run is small: what they do besides counts too.
const BESIDES: u64 = 200;

#[test]
fn statements_do_as_many_times_more_as_there_are_rows() {
    let costs = |rows: u64| {
        let mut costs = Vec::new();
        with_hosts(1, 2, |hosts| {
            let database = EngineDatabase::new(hosts[0].clone(), || Box::new(Fixed));
            let mut session = database.open(start()).expect("a session opens");
            let mut run = |sql: &str| {
                let mut printed = Printed::default();
                let sql = sql.replace("{n}", &rows.to_string());
                let list: Vec<String> = (0..rows).map(|number| (3 * number).to_string()).collect();
                let sql = sql.replace("{list}", &list.join(", "));
                session.simple(&sql, &mut printed).unwrap_or_else(|error| panic!("{sql}: {error}"));
                let observed = hosts[0].slots.observed();
                observed.rows_visited() + observed.calls()
            };
            run("create table a (k int primary key, v int); create table c (w bigint)");
            run("create table b (x int, y int, primary key (x, y)); \
                 create table p (u1 int, u2 int unique, th int, hu int)");
            run("create index on p (u1)");
            run("insert into a select g, g from generate_series(1, {n}) g");
            run("insert into b select g, g from generate_series(1, {n}) g");
            run("insert into c select g from generate_series(1, {n}) g");
            run("insert into p select g, g, g % ({n} / 2), g % 10 from generate_series(1, {n}) g");
            for shape in SHAPES {
                let before = run("select 1");
                costs.push(run(shape) - before);
            }
        });
        costs
    };
    let (few, many) = (costs(ROWS), costs(4 * ROWS));
    let mut worse = Vec::new();
    for ((shape, few), many) in SHAPES.iter().zip(few).zip(many) {
        println!("{few:6} {many:6}  {shape}");
        if 10 * many > 45 * (few + BESIDES) {
            worse.push(format!("{few} and {many} with four times the rows: {shape}"));
        }
    }
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}

/// A column that is the same in all rows comes with the table's description: nobody looks at the rows,
/// however many there are. Where each row has another value all of them are looked at, which is counted.
#[test]
fn a_column_with_a_constant_comes_without_a_look_at_the_rows() {
    with_hosts(1, 2, |hosts| {
        let database = EngineDatabase::new(hosts[0].clone(), || Box::new(Fixed));
        let mut session = database.open(start()).expect("a session opens");
        let mut visited = |sql: &str| {
            let before = hosts[0].slots.observed().rows_visited();
            session.simple(sql, &mut Printed::default()).unwrap_or_else(|error| panic!("{sql}: {error}"));
            hosts[0].slots.observed().rows_visited() - before
        };
        for (table, kind) in [("a", ""), ("b", "temporary")] {
            visited(&format!("create {kind} table {table} (k int primary key, v int, s text)"));
            visited(&format!("insert into {table} select g, g, g from generate_series(1, {ROWS}) g"));
            for column in [
                "c01 int",
                "c02 int not null default 7",
                "c03 int not null default 7, add c04 text default 'some ' || 'text'",
                "c05 timestamptz default now(), add c06 bool",
            ] {
                assert_eq!(visited(&format!("alter table {table} add {column}")), 0, "{table}: {column}");
            }
            assert_eq!(visited(&format!("alter table {table} alter c02 set default 9")), 0);
            // Where all columns have no room in the rows that are there, these are written anew, once.
            let long = "add l1 text default 'l', add l2 text default 'l', add l3 text, add l4 text";
            assert_eq!(visited(&format!("alter table {table} {long}")), ROWS, "{table}: rows grow");
            for column in ["r float default random()", "g int generated always as (v * 2) stored", "n serial"]
            {
                assert_eq!(visited(&format!("alter table {table} add {column}")), ROWS, "{table}: {column}");
            }
            // That a check holds, or that there is a row where NULL may not be, is seen in rows.
            assert_eq!(visited(&format!("alter table {table} add d int default 1 check (d > 0)")), ROWS);
        }
    });
}
