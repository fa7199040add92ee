//! The system's tables are looked up by their keys: that finds what a look at all of their rows finds, and
//! costs as much beside many tables as beside few.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads")]

mod client;
mod databases;
mod support;

use client::{Fixed, Printed, start};
use databases::with_hosts;
use liger_sql::exec::EngineDatabase;
use liger_sql::session::Database;

/// Tables of the system and their keys.
const KEYS: &[(&str, &str)] = &[
    ("pg_attrdef", "oid adrelid"),
    ("pg_attribute", "attrelid"),
    ("pg_class", "oid relname"),
    ("pg_constraint", "oid conrelid confrelid conindid contypid"),
    ("pg_depend", "objid"),
    ("pg_description", "objoid"),
    ("pg_enum", "oid enumtypid"),
    ("pg_index", "indexrelid indrelid"),
    ("pg_rewrite", "oid ev_class"),
    ("pg_sequence", "seqrelid"),
    ("pg_statistic", "starelid"),
    ("pg_type", "oid"),
];

/// Objects of all kinds, with all kinds of parts.
const OBJECTS: &str = "\
    create type mood as enum ('sad', 'ok'); \
    create domain small as int check (value < 10) constraint above check (value > 0); \
    create schema apart; create sequence apart.alone; \
    create table t1 (id serial primary key, m mood default 'ok', s small, \
        n int generated always as (1) stored); \
    create table t2 (id int generated always as identity, a int unique, c int unique deferrable, \
        b int references t1, check (a > b), primary key (id)); \
    create index on t2 (b, lower(a::text)) where a > 3; \
    create table apart.t1 (x mood[], y int); create view v1 as select * from t1; \
    create materialized view v2 as select id from v1; \
    alter table t1 add self int references t1; alter table t2 add foreign key (a) references t2 (a); \
    comment on table t1 is 'one'; comment on column t1.m is 'two'; comment on schema apart is 'three'; \
    comment on constraint t2_pkey on t2 is 'four'; comment on type mood is 'five'; \
    create temp table t3 (id serial primary key); create temp view v3 as select * from t3; \
    insert into t1 (s) values (3); analyze t1";

/// Runs statements beside so many tables; what each prints, and what it costs.
fn beside(tables: u32, statements: &[String]) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    with_hosts(1, 2, |hosts| {
        let database = EngineDatabase::new(hosts[0].clone(), || Box::new(Fixed));
        let mut session = database.open(start()).expect("a session opens");
        let mut run = |sql: &str| {
            let mut printed = Printed::default();
            session.simple(sql, &mut printed).unwrap_or_else(|error| panic!("{sql}: {error}"));
            let observed = hosts[0].slots.observed();
            (printed.lines.join("\n"), observed.rows_visited() + observed.calls())
        };
        run(OBJECTS);
        for table in 0..tables {
            run(&format!(
                "create table many{table} (id serial primary key, a int default 3 unique, check (a > 1)); \
                 create index on many{table} (a, id); comment on table many{table} is 'many'"
            ));
        }
        for statement in statements {
            let before = run("select 1").1;
            let (text, after) = run(statement);
            found.push((text, after - before));
        }
    });
    found
}

#[test]
fn keys_find_what_is_there() {
    let keys = KEYS.iter().flat_map(|(table, keys)| keys.split(' ').map(move |key| (table, key)));
    let statements: Vec<String> = keys
        .map(|(table, key)| {
            format!(
                "select count(*), sum(n), sum((all_of <> coalesce((select string_agg(x::text, '/' order by \
                 x::text) from {table} x where x.{key} = k), ''))::int) \
                 from (select {key} as k, count(*) as n, \
                 string_agg(x::text, '/' order by x::text) as all_of from {table} x group by {key}) t"
            )
        })
        .collect();
    for (statement, (text, _)) in statements.iter().zip(beside(3, &statements)) {
        println!("{text} {statement}");
        let numbers: Vec<i64> = text.split(['|', '\n']).filter_map(|it| it.trim().parse().ok()).collect();
        let [keys, rows, differ] = numbers[..] else { panic!("{statement} gave {text}") };
        assert!(keys > 0 && rows >= keys && differ == 0, "{statement} gave {text}");
    }
}

/// What psql asks for `\d t2`, and what others ask of one table.
const ASKED: &[&str] = &[
    "select c.oid, n.nspname, c.relname from pg_class c left join pg_namespace n on n.oid = c.relnamespace \
     where c.relname ~ '^(t2)$' and pg_table_is_visible(c.oid) order by 2, 3",
    "select c.relchecks, c.relkind, am.amname from pg_class c left join pg_class tc \
     on (c.reltoastrelid = tc.oid) left join pg_am am on (c.relam = am.oid) where c.oid = {t2}",
    "select a.attname, format_type(a.atttypid, a.atttypmod), (select pg_get_expr(d.adbin, d.adrelid, true) \
     from pg_attrdef d where d.adrelid = a.attrelid and d.adnum = a.attnum and a.atthasdef), \
     a.attnotnull, \
     (select c.collname from pg_collation c, pg_type t where c.oid = a.attcollation and t.oid = a.atttypid \
     and a.attcollation <> t.typcollation) from pg_attribute a where a.attrelid = {t2} and a.attnum > 0 \
     and not a.attisdropped order by a.attnum",
    "select c2.relname, i.indisprimary, pg_get_indexdef(i.indexrelid, 0, true) from pg_class c, \
     pg_class c2, pg_index i where c.oid = {t2} and c.oid = i.indrelid and i.indexrelid = c2.oid \
     order by i.indisprimary desc, c2.relname",
    "select r.conname, pg_get_constraintdef(r.oid, true) from pg_constraint r where r.conrelid = {t2} \
     and r.contype = 'c' order by 1",
    "select conname, pg_get_constraintdef(oid, true) from pg_constraint where confrelid = {t2} \
     and contype = 'f'",
    "select obj_description({t2}, 'pg_class'), col_description({t2}, 1), obj_description({t2})",
    "select pg_get_serial_sequence('t1', 'id'), pg_table_size('t1') is null",
    "select t.typname from pg_type t join pg_attribute a on a.atttypid = t.oid where a.attrelid = {t2}",
    "select seqstart from pg_sequence where seqrelid = 't1_id_seq'::regclass::oid",
    "select deptype from pg_depend where objid = 't1_id_seq'::regclass::oid and deptype = 'a'",
];

#[test]
fn one_table_costs_the_same_beside_many() {
    let statements: Vec<String> =
        ASKED.iter().map(|sql| sql.replace("{t2}", "'t2'::regclass::oid")).collect();
    let (few, many) = (beside(5, &statements), beside(60, &statements));
    let mut worse = Vec::new();
    for ((statement, few), many) in statements.iter().zip(few).zip(many) {
        println!("{:6} {:6} {statement}", few.1, many.1);
        assert_eq!(few.0, many.0, "{statement}");
        if many.1 > few.1 + few.1 / 4 + 20 {
            worse.push(format!("{} and {}: {statement}", few.1, many.1));
        }
    }
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}
