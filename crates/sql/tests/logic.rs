//! Statements whose answers PostgreSQL 15 gave (`logic/make.py`), run over a store in memory.
//!
//! `LOGIC_FILE=name` runs one file, `LOGIC_ALL=1` shows every difference instead of the first twenty.

mod client;

use client::{Fixed, Printed, answer, files, run, start};
use liger_sql::exec::LocalSession;
use liger_sql::exec::memory::Memory;
use liger_sql::session::Session;

#[test]
fn answers_are_postgresql_s() {
    let (mut total, mut failed) = (0, Vec::new());
    for (name, path) in files() {
        let session = LocalSession::new(Memory::default(), start(), Box::new(Fixed));
        let mut session = session.expect("a session without settings opens");
        let mut report = String::new();
        let (good, all) = run(&path, &mut session, &mut report);
        total += good;
        println!("{name}: {good} of {all}");
        if std::env::var_os("LOGIC_ALL").is_some() {
            println!("{report}");
        }
        if good < all {
            failed.push(format!("{name}: {} differences\n{report}", all - good));
        }
    }
    println!("{total} statements answered as PostgreSQL does");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn alternatives_of_ranges_are_looked_up() {
    let mut session = LocalSession::new(Memory::default(), start(), Box::new(Fixed)).expect("it opens");
    answer(&mut session, "create table t (id int primary key, k int, w int); create index t_k on t (k)");
    let mut plan =
        |condition: &str| answer(&mut session, &format!("explain select id from t where {condition}"));
    let has = |lines: &[String], words: &str| lines.iter().any(|line| line.contains(words));
    let several = plan("k between 1 and 2 or k between 5 and 6 or id = 3");
    assert!(has(&several, "BitmapOr") && has(&several, "Bitmap Index Scan on t_pkey"), "{several:?}");
    assert!(has(&several, "Index Cond: ((k >= 5) AND (k <= 6))"), "{several:?}");
    // One that no index finds makes the others useless, and one index for all of it is better.
    assert!(has(&plan("k between 1 and 2 or w = 5"), "Seq Scan on t"));
    assert!(!has(&plan("id = 5 and (k < 1 or k > 5)"), "BitmapOr"));
}

/// What a plan is said to cost, and how many rows it is said to have, is no figure of PostgreSQL's.
#[test]
fn plans_tell_what_they_expect() {
    let mut session = LocalSession::new(Memory::default(), start(), Box::new(Fixed)).expect("it opens");
    answer(&mut session, "create table t (id int primary key, k int); create index t_k on t (k)");
    let mut first = |sql: &str| answer(&mut session, &format!("explain {sql} /* order by */")).swap_remove(0);
    let function = first("select * from generate_series(1, 3) g");
    assert!(function.starts_with("Function Scan") && function.contains(" rows=100 "), "{function}");
    let bitmap = first("select * from t where k between 1 and 2 or k between 5 and 6");
    let cost = bitmap.split_once("..").and_then(|(_, cost)| cost.split(' ').next()?.parse::<f64>().ok());
    let is_low = cost.is_some_and(|cost| 0.1 < cost && cost < 10.0);
    assert!(bitmap.starts_with("Bitmap Heap Scan") && is_low, "{bitmap}");
}

/// What PostgreSQL has no plan for, or another one: what is kept by hash or by values, and what an index
/// finds.
#[test]
fn queries_that_look_outside_are_shown_as_they_are_answered() {
    let mut session = LocalSession::new(Memory::default(), start(), Box::new(Fixed)).expect("it opens");
    answer(
        &mut session,
        "create table t (k int, v int); create table u (x int, y int); create index u_y on u (y)",
    );
    let mut plan =
        |sql: &str| answer(&mut session, &format!("explain (costs off) {sql} /* order by */")).join("\n");
    let counted = [
        "Seq Scan on t",
        "  SubPlan 1",
        "    ->  Memoize",
        "          Cache Key: t.v",
        "          Cache Mode: binary",
        "          ->  Aggregate",
        "                ->  ",
    ]
    .join("\n");
    let by_hash = plan("select (select count(*) from u where u.x = t.v) from t");
    let hash = ["Hash", "Hash Cond: (t.v = u.x)", "->  Seq Scan on u"].join("\n                      ");
    assert_eq!(by_hash, format!("{counted}{hash}"));
    let by_index = plan("select (select count(*) from u where u.y = t.v) from t");
    assert!(by_index.starts_with(&format!("{counted}Index Scan using u_y on u")), "{by_index}");
    let by_values = plan("select (select count(*) from u where u.x > t.v) from t");
    assert!(by_values.starts_with(&format!("{counted}Seq Scan on u")), "{by_values}");
    for each in ["for update", "where random() > 2 and u.x = t.v"] {
        let run = plan(&format!("select array(select x from u {each}) from t"));
        assert!(!run.contains("Memoize") && !run.contains("Hash"), "{run}");
    }
    let semi = plan("select k from t where exists (select 1 from u where u.x = t.v)");
    assert!(semi.starts_with("Hash Semi Join\n  Hash Cond: (t.v = u.x)"), "{semi}");
    let probed = plan("select k from t where exists (select 1 from u where u.y = t.v)");
    assert!(!probed.contains("Hash") && probed.contains("Index Scan using u_y on u"), "{probed}");
    let looked_up = plan("select x from u where y in (select v from t)");
    assert!(looked_up.contains("Index Cond: (y = ANY ($0))"), "{looked_up}");
    let ranged = plan("select t.k from t, u where u.x = t.v and u.y < 5");
    assert!(ranged.starts_with("Hash Join") && ranged.contains("Index Scan using u_y on u"), "{ranged}");
}

#[test]
fn copy_takes_no_text_that_is_too_long_for_a_domain() {
    let mut session = LocalSession::new(Memory::default(), start(), Box::new(Fixed)).expect("it opens");
    answer(&mut session, "create domain short as varchar(3); create table t (a short)");
    let mut copy = |rows: &str| {
        let mut sink = Printed::default();
        sink.copied = rows.into();
        session.simple("copy t from stdin", &mut sink).map_err(|error| error.message.clone())
    };
    assert_eq!(copy("abc\n"), Ok(()));
    assert_eq!(copy("abcd\n"), Err("value too long for type character varying(3)".to_string()));
}
