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

/// One a line, with what stands for what at their head.
const SHAPES: &str = include_str!("growth.sql");

const TABLES: &str = "\
    create table a (k int primary key, v int); create table c (w bigint); \
    create table b (x int, y int, primary key (x, y)); \
    create table p (u1 int, u2 int unique, th int, hu int); create index on p (u1); \
    create table d (id int primary key, up int, t text, tags int[], j jsonb, n numeric, ts timestamp); \
    create table e (id int primary key, d int references d, x int); create index on e (d); \
    create table g (id int primary key); create table f (id int primary key, g int references g); \
    create table h (id int primary key, a int references a deferrable)";

const ROWS_OF_TABLES: &str = "\
    insert into a select g, g from generate_series(1, {n}) g; \
    insert into b select g, g from generate_series(1, {n}) g; \
    insert into c select g from generate_series(1, {n}) g; \
    insert into p select g, g, g % ({n} / 2), g % 10 from generate_series(1, {n}) g; \
    insert into d select g, nullif(g - 1 - (g - 1) % 10, 0), 'text ' || g, array[g, g % 7], \
        jsonb_build_object('a', g, case when g % 2 = 0 then 'b' else 'c' end, 1), g / 3.0, \
        timestamp '2024-01-01' + g * interval '1 hour' from generate_series(1, {n}) g; \
    insert into e select g, g, g from generate_series(1, {n}) g; \
    insert into g select g from generate_series(1, {n}) g; \
    insert into f select g, g from generate_series(1, {n} / 2) g";

/// Of some the smaller run is small: what they do besides counts too.
const BESIDES: u64 = 200;

fn shapes() -> impl Iterator<Item = &'static str> {
    SHAPES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// A shape for so many rows.
fn filled(shape: &str, rows: u64) -> String {
    let list = |one: &dyn Fn(u64) -> String| (0..rows).map(one).collect::<Vec<_>>().join(", ");
    let parts: [(&str, &dyn Fn(u64) -> String); 3] = [
        ("{list}", &|number| (3 * number).to_string()),
        ("{rows}", &|number| format!("({})", 3 * number)),
        ("{pairs}", &|number| format!("({}, {number})", 3 * number)),
    ];
    let filled = shape.replace("{n}", &rows.to_string());
    parts.iter().fold(filled, |filled, (name, one)| match filled.contains(name) {
        true => filled.replace(name, &list(one)),
        false => filled,
    })
}

#[test]
fn statements_do_as_many_times_more_as_there_are_rows() {
    let costs = |rows: u64| {
        let (mut costs, mut refused) = (Vec::new(), Vec::new());
        with_hosts(1, 2, |hosts| {
            let database = EngineDatabase::new(hosts[0].clone(), || Box::new(Fixed));
            let mut session = database.open(start()).expect("a session opens");
            let mut run = |sql: &str| {
                let mut printed = Printed::default();
                let sql = filled(sql.trim_start_matches("~ "), rows);
                if let Err(error) = session.simple(&sql, &mut printed) {
                    refused.push(format!("{error}: {}", &sql[..sql.len().min(100)]));
                    session.simple("rollback", &mut printed).expect("a block ends");
                }
                let observed = hosts[0].slots.observed();
                observed.rows_visited() + observed.calls()
            };
            run(TABLES);
            run(ROWS_OF_TABLES);
            for shape in shapes() {
                let before = run("select 1");
                costs.push(run(shape) - before);
            }
        });
        assert!(refused.is_empty(), "{}", refused.join("\n"));
        costs
    };
    let (few, many) = (costs(ROWS), costs(4 * ROWS));
    let mut worse = Vec::new();
    for ((shape, few), many) in shapes().zip(few).zip(many) {
        println!("{few:6} {many:6}  {shape}");
        let most = if shape.starts_with('~') { 170 } else { 45 };
        if 10 * many > most * (few + BESIDES) {
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
