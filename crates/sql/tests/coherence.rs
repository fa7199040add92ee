//! `EXPLAIN (ANALYZE, COHERENCE)`: what the nodes of a plan do to shared memory.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and time passes")]

mod client;
mod databases;
mod sessions;
mod support;

use client::Printed;
use sessions::{Connected, ask, connect, error_of, with_pod};

/// The answer's lines.
fn lines(session: &mut Connected, sql: &str) -> Vec<String> {
    let mut printed = Printed::default();
    session.simple(sql, &mut printed).unwrap_or_else(|error| panic!("{sql}: {error}"));
    printed.lines
}

/// The number behind `name=` in a line.
fn number(line: &str, name: &str) -> u64 {
    let at = line.find(&format!("{name}=")).unwrap_or_else(|| panic!("{name} in {line}"));
    let digits = line[at + name.len() + 1..].chars().take_while(char::is_ascii_digit);
    digits.collect::<String>().parse().expect("a number")
}

const MEASURED: &str = "explain (analyze, coherence, costs off, timing off, summary off)";

#[test]
fn each_node_is_charged_with_what_it_does() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        ask(&mut a, "create table t (id int primary key, v text); create table u (id int primary key)");
        ask(
            &mut a,
            "insert into t select g, 'v' from generate_series(1, 50) g; \
             insert into u select g from generate_series(1, 12) g",
        );
        let plan = &format!("{MEASURED} select * from generate_series(1, 3) g");
        let none = lines(&mut a, plan);
        assert!(
            none[0].starts_with(
                "Function Scan on generate_series g (actual rows=3 loops=1) (sync=0 hwcc bytes=0 "
            ),
            "{none:?}"
        );
        // Rows of another host cost sync words, messages and lines; the second time they are there.
        let all = &format!("{MEASURED} select * from t");
        let (first, again) = (lines(&mut b, all), lines(&mut b, all));
        println!("{first:#?} {again:#?}");
        assert!(first[0].starts_with("Seq Scan on t (actual rows=50 loops=1) ("), "{first:?}");
        assert!(number(&first[0], "messages") > 0 && number(&first[0], "invalidated") > 0);
        assert_eq!(number(&first[0], "hwcc bytes"), 8 * number(&first[0], "sync"));
        assert!(number(&again[0], "messages") < number(&first[0], "messages"));
        // The scans of a join are charged each for itself.
        let join = lines(&mut b, &format!("{MEASURED} delete from u using t where t.id = u.id"));
        println!("{join:#?}");
        assert!(join[0] == "Delete on u" && join[1].contains("(actual rows=12 loops=1)"), "{join:?}");
        let sums = |lines: &[String], name: &str| {
            let total = lines.iter().find(|line| line.starts_with("Coherence: ")).expect("a sum");
            let nodes = lines.iter().filter(|line| line.contains("loops=")).map(|line| number(line, name));
            (nodes.sum::<u64>(), number(total, name))
        };
        let (nodes, total) = sums(&join, "sync");
        // The scan locks its target's rows for the change, and the change is written when the block commits.
        assert!(nodes > 0 && total == nodes, "{join:?}");
        assert_eq!(ask(&mut a, "select count(*) from u"), "0", "it has run");
        // Making rows in another host's places is no node's.
        let made = lines(&mut b, &format!("{MEASURED} insert into u select id from t"));
        println!("{made:#?}");
        let (nodes, total) = sums(&made, "messages");
        assert!(total > nodes, "{made:?}");
        assert_eq!(ask(&mut a, "select count(*) from u"), "50", "it has run");
    });
}

/// What a statement over many rows needs of another host comes in batches: rows, entries of indexes, rows
/// that foreign keys refer to.
#[test]
fn many_rows_of_another_host_wait_for_few_answers() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        let tables = "create table p (id int primary key, v int); create index on p (v); \
                      create table c (id int primary key, p int references p); \
                      insert into p select g, 7 * g from generate_series(1, 640) g";
        ask(&mut b, tables);
        let batched = |session: &mut Connected, sql: &str, least: u64| {
            let told = lines(session, &format!("{MEASURED} {sql}"));
            let total = told.iter().find(|line| line.starts_with("Coherence: ")).expect("a sum");
            let (messages, waits) = (number(total, "messages"), number(total, "waits"));
            assert!(messages >= least && waits <= 16 + messages / 16, "{sql}: {total}");
        };
        batched(&mut a, "insert into p select g, 7 * g from generate_series(1001, 1640) g", 500);
        let values: Vec<String> = (2001..2641).map(|id| format!("({id}, {})", 7 * id)).collect();
        batched(&mut a, &format!("insert into p values {}", values.join(", ")), 500);
        batched(&mut a, "insert into c select g, g - 5000 from generate_series(5001, 5640) g", 500);
        batched(&mut a, "update p set v = v + 1 where id > 1000", 500);
        batched(&mut a, "delete from p where id > 2000", 0);
        assert_eq!(ask(&mut b, "select count(*), sum(v) from p"), "1280|7352320");
        assert_eq!(ask(&mut b, "select count(*) from c"), "640");
        assert_eq!(ask(&mut b, "select count(*) from p where v = 7 * id + 1"), "640");
    });
}

#[test]
fn options_are_checked_and_formats_are_two() {
    with_pod(1, 3, |databases| {
        let mut a = connect(&databases[0]);
        let refused = "22023 EXPLAIN option COHERENCE requires ANALYZE";
        assert_eq!(error_of(&mut a, "explain (coherence) select 1"), refused);
        assert_eq!(error_of(&mut a, "explain (coherence on, analyze off) select 1"), refused);
        assert_eq!(error_of(&mut a, "explain (wal) select 1"), "22023 EXPLAIN option WAL requires ANALYZE");
        assert_eq!(
            error_of(&mut a, "explain (nosuch) select 1"),
            "42601 unrecognized EXPLAIN option \"nosuch\""
        );
        assert_eq!(
            error_of(&mut a, "explain (analyze 7) select 1"),
            "42601 analyze requires a Boolean value"
        );
        assert_eq!(ask(&mut a, "explain (coherence off, costs off) select 1"), "Result");
        ask(&mut a, "create table t (id int primary key); insert into t values (1), (2)");
        let json = ask(&mut a, "explain (analyze, coherence, format json) select * from t where id > 0");
        let read: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        let plan = &read[0]["Plan"];
        assert_eq!((&plan["Actual Rows"], &plan["Actual Loops"]), (&2.into(), &1.into()));
        assert_eq!((&plan["Node Type"], &plan["Index Name"]), (&"Index Scan".into(), &"t_pkey".into()));
        assert!(plan["Sync Operations"].is_u64() && plan["Total Cost"].is_f64(), "{json}");
        assert!(
            read[0]["Coherence"]["Sync Operations"].is_u64() && read[0]["Coherence"]["Messages"] == 0,
            "{json}"
        );
    });
}

#[test]
fn plans_have_the_shape_that_tools_read() {
    with_pod(1, 3, |databases| {
        let mut a = connect(&databases[0]);
        ask(&mut a, "create table t (id int primary key, v int); create table u (id int, v int)");
        ask(
            &mut a,
            "insert into t select g, g % 5 from generate_series(1, 40) g; insert into u values (1, 2)",
        );
        let text = lines(&mut a, "explain select v, count(*) from t where v > 1 group by v");
        assert!(
            text[0].starts_with("HashAggregate  (cost=") && text[0].contains(" rows=13 width="),
            "{text:?}"
        );
        // How many rows the table has is known, and nothing of its values.
        assert!(
            text[2].contains("->  Seq Scan on t  (cost=0.00..") && text[2].contains(" rows=13 "),
            "{text:?}"
        );
        let query = "select u.v, (select max(v) from t) from u join t on t.v = u.v order by t.id limit 3";
        let json = ask(&mut a, &format!("explain (analyze, format json) {query}"));
        let read: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        assert!(read[0]["Planning Time"].is_f64() && read[0]["Execution Time"].is_f64(), "{json}");
        let (mut next, mut kinds) = (vec![&read[0]["Plan"]], Vec::new());
        while let Some(node) = next.pop() {
            kinds.push(node["Node Type"].as_str().expect("a name").to_string());
            for name in ["Startup Cost", "Total Cost", "Actual Startup Time", "Actual Total Time"] {
                assert!(node[name].is_f64(), "{name} {json}");
            }
            for name in ["Plan Rows", "Plan Width", "Actual Rows", "Actual Loops"] {
                assert!(node[name].is_u64(), "{name} {json}");
            }
            assert!(node["Actual Total Time"].as_f64() >= node["Actual Startup Time"].as_f64(), "{json}");
            next.extend(node["Plans"].as_array().into_iter().flatten());
        }
        kinds.sort();
        assert_eq!(
            kinds,
            ["Aggregate", "Hash", "Hash Join", "Limit", "Seq Scan", "Seq Scan", "Seq Scan", "Sort"]
        );
        let (limit, sort) = (&read[0]["Plan"], &read[0]["Plan"]["Plans"][0]);
        assert_eq!((&limit["Actual Rows"], &sort["Actual Rows"]), (&3.into(), &8.into()), "{json}");
        assert_eq!(sort["Sort Key"][0], "t.id", "{json}");
        let first = &sort["Plans"][0]["Plans"][0];
        assert_eq!(first["Subplan Name"], "InitPlan 1 (returns $0)", "{json}");
    });
}
