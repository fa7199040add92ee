//! Plans by cost: the answers are those of plans by rules, estimates are near what is there, orders of
//! joins of TPC-H's queries read no more than they must, and statistics are seen by all hosts.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads")]

mod client;
mod databases;
mod support;
#[path = "tpch/data.rs"]
mod tpch;

use std::sync::Arc;

use client::{Fixed, Printed, answer, start};
use databases::{with_hosts, with_pod};
use liger_sql::exec::memory::Memory;
use liger_sql::exec::{EngineDatabase, LocalSession};
use liger_sql::session::{Database, Interrupt, Session};

/// Joins of a (k key, v, w), b (x key, y indexed, z), c (w, t) and d (k, n key).
const JOINS: &[&str] = &[
    "select * from a join b on a.v = b.y",
    "select * from a left join b on a.k = b.y",
    "select * from a left join b on a.k = b.y where b.x is null",
    "select * from a left join b on a.k = b.y and b.z > 3 where a.v < 10",
    "select * from a left join b on a.k = b.y where b.z > 3",
    "select * from a left join b on a.k = b.y join c on c.w = a.v",
    "select * from a left join b on a.k = b.y join c on c.w = b.x",
    "select * from a left join b on a.k = b.y left join c on c.w = b.x and c.t like 'c%'",
    "select * from a left join (b join c on b.x = c.w) on a.k = b.y",
    "select * from a left join (b left join c on b.x = c.w) on a.k = b.y where coalesce(c.w, 0) < 20",
    "select * from a right join b on a.k = b.y join d on d.n = b.x",
    "select * from a right join b on a.k = b.y and a.v > 3 left join c on c.w = a.v",
    "select * from a full join b on a.k = b.y join c on c.w = coalesce(a.v, b.z)",
    "select * from a left join b on true where a.k < 3 and b.x < 4",
    "select * from a left join b on b.x = 5 join d on d.k = a.k",
    "select * from a left join b on a.v = 7",
    "select * from a join b on a.v = b.y join c on c.w = b.z join d on d.k = c.w",
    "select * from a, b, c, d where a.v = b.y and b.z = c.w and c.w = d.k and a.w < 5",
    "select * from a, b, d where a.v = b.y and d.n < 3",
    "select * from a, b, c where a.v = b.y and a.w + b.z = c.w",
    "select * from a, b where (a.v = b.y and a.w = 1) or (a.v = b.y and b.z = 2)",
    "select * from a, b where (a.k = 1 and b.x = 2) or (a.k = 3 and b.x = 4)",
    "select * from a, b where a.v = b.y and (a.w = 1 or b.z = 2)",
    "select * from a join b on a.v = b.y where exists (select 1 from c where c.w = a.k and c.w < b.x)",
    "select * from a join b on a.v = b.y where not exists (select 1 from d where d.k = b.z and d.n > a.w)",
    "select * from a join b on a.v = b.y where a.k in (select w from c) and b.z not in (select n from d)",
    "select * from a join b on a.v = b.y where a.w > (select avg(n) from d where d.k = b.z)",
    "select * from a join lateral (select * from b where b.y = a.v order by x limit 1) l on true \
     join c on c.w = l.x",
    "select * from a left join lateral (select * from b where b.y = a.v limit 0) l on true \
     join c on c.w = a.k",
    "select * from a join (select y, count(*) as n from b group by y) s on s.y = a.v join d on d.n = s.n",
    "with s as (select * from a where w = 2) select * from s join b on s.v = b.y left join s t on t.k = b.x",
    "select * from a join b on a.v = b.y join unnest(array[1, 2, 3]) u on u = b.z",
    "select * from a join b on a.v = b.y where a.k = 5",
    "select * from a join b on a.v = b.y where a.k between 5 and 9 or b.x = 3",
    "select * from a p join a q on p.v = q.k join a r on q.v = r.k left join a s on r.v = s.k and s.w = 1",
    "select * from a join b on a.v = b.y where false",
    "select * from a join b on a.v = b.y where a.w = null",
    "select * from a join b using (k) right join d using (k)",
    "select count(*) from a natural join d natural left join b",
];

fn run(session: &mut dyn Session, sql: &str) {
    let answered = answer(session, sql);
    assert!(!answered.iter().any(|line| line.starts_with("ERROR")), "{sql}: {answered:?}");
}

/// What each join gives, or the code of its error.
fn answers(session: &mut dyn Session) -> Vec<Vec<String>> {
    let sorted = |sql: &&str| {
        let mut lines = answer(session, sql);
        lines.sort();
        lines
    };
    JOINS.iter().map(sorted).collect()
}

#[test]
fn costs_change_no_answer() {
    let mut session = LocalSession::new(Memory::default(), start(), Box::new(Fixed)).expect("it opens");
    let session: &mut dyn Session = &mut session;
    run(session, "create table a (k int primary key, v int, w int); create table c (w int, t text)");
    run(session, "create table b (x int primary key, y int, z int, k int); create index on b (y)");
    run(session, "create table d (k int, n int unique)");
    run(session, "insert into a select g, g % 17, g % 5 from generate_series(1, 60) g");
    run(session, "insert into b select g, nullif(g % 23, 0), g % 9, g % 11 from generate_series(1, 70) g");
    run(session, "insert into c select nullif(g % 13, 5), 'c' || g from generate_series(1, 30) g");
    run(session, "insert into d select g % 15, g from generate_series(1, 25) g");
    let by_rules = answers(session);
    assert!(by_rules.iter().filter(|lines| lines.len() > 1).count() > 30, "the joins have rows");
    run(session, "analyze");
    let settings = [
        "set join_collapse_limit = 8",
        "set join_collapse_limit = 1",
        "set geqo_threshold = 2",
        "reset join_collapse_limit",
        "set enable_hashjoin = off",
        "set enable_hashjoin = on; set enable_nestloop = off",
        "set enable_nestloop = on; set enable_indexscan = off",
        "set enable_indexscan = on; set enable_seqscan = off",
    ];
    for setting in settings {
        run(session, setting);
        for ((sql, rules), costs) in JOINS.iter().zip(&by_rules).zip(answers(session)) {
            assert_eq!(*rules, costs, "{setting}: {sql}");
        }
    }
}

/// Rows that EXPLAIN expects of the topmost node.
fn expected(session: &mut dyn Session, sql: &str) -> f64 {
    let lines = answer(session, &format!("explain {sql} /* order by */"));
    let rows = lines[0].split("rows=").nth(1).and_then(|rest| rest.split(' ').next());
    rows.and_then(|rows| rows.parse().ok()).unwrap_or_else(|| panic!("{sql}: {lines:?}"))
}

#[test]
fn estimates_are_near_what_is_there() {
    let mut session = LocalSession::new(Memory::default(), start(), Box::new(Fixed)).expect("it opens");
    let session: &mut dyn Session = &mut session;
    // Half of the rows have one value, a tenth another one, the rest is spread; one column follows another.
    run(session, "create table s (k int, skew int, low int, word text, at date, gone int)");
    run(
        session,
        "insert into s select g, case when g % 2 = 0 then 1 when g % 10 = 1 then 2 else g end, g % 50, \
         chr(97 + g % 26) || g, date '2020-01-01' + g / 10, case when g % 4 = 0 then g end \
         from generate_series(1, 5000) g",
    );
    run(session, "create table r (low int, name text)");
    run(session, "insert into r select g, 'name' || g from generate_series(0, 49) g");
    run(session, "analyze");
    let conditions = [
        ("skew = 1", 1.05),
        ("skew = 2", 1.2),
        ("skew <> 1", 1.05),
        ("skew in (1, 2)", 1.1),
        ("skew > 2500", 1.3),
        ("skew between 1000 and 3000", 1.3),
        ("k < 100", 1.5),
        ("k between 1000 and 1999", 1.1),
        ("k > 4900 or k < 101", 1.5),
        ("not (k < 1000)", 1.05),
        ("low = 7", 1.2),
        ("low = any (array[1, 2, 3])", 1.2),
        ("low = 7 and k < 2500", 1.3),
        ("at >= date '2020-06-01' and at < date '2020-06-01' + interval '30 days'", 1.3),
        ("word like 'b%'", 1.3),
        ("word >= 'm'", 1.3),
        ("gone is null", 1.05),
        ("gone is not null", 1.05),
        ("gone < 1000", 1.3),
        ("gone between 1000 and 2000", 1.3),
    ];
    for (condition, most) in conditions {
        let sql = format!("select * from s where {condition}");
        let (expected, there) = (expected(session, &sql), answer(session, &sql).len() as f64);
        let ratio = (expected / there).max(there / expected);
        assert!(ratio <= most, "{condition}: {expected} expected, {there} there");
    }
    let joins = [
        ("select * from s join r on s.low = r.low", 1.1),
        ("select * from s join r on s.low = r.low where r.name = 'name7'", 1.2),
        ("select * from s join s t on s.k = t.k", 1.05),
        ("select * from s join s t on s.skew = t.skew where t.k < 3", 1.5),
        ("select * from r left join s on s.low = r.low and s.k < 0", 1.05),
        ("select low, count(*) from s group by low", 1.05),
        ("select distinct low from s", 1.05),
        ("select * from r where exists (select 1 from s where s.low = r.low)", 1.1),
    ];
    for (sql, most) in joins {
        let (expected, there) = (expected(session, sql), answer(session, sql).len() as f64);
        let ratio = (expected / there).max(there / expected);
        assert!(ratio <= most, "{sql}: {expected} expected, {there} there");
    }
}

/// TPC-H's queries.
fn queries() -> Vec<&'static str> {
    let text = include_str!("tpch/queries.sql");
    let each = text.split("-- ").filter(|part| !part.is_empty());
    each.map(|part| part.split_once('\n').expect("a query follows its number").1.trim()).collect()
}

/// Loads TPC-H; how many rows there are.
fn load(session: &mut dyn Session, scale: f64) -> u64 {
    run(session, include_str!("tpch/schema.sql"));
    let mut rows = 0;
    for table in tpch::TABLES {
        let mut copied = String::new();
        tpch::rows(table, scale, &mut |row| {
            rows += 1;
            copied += &row;
            copied.push('\n');
        });
        let mut printed = Printed::default();
        printed.copied = copied.into();
        let copy = format!("copy {table} from stdin with (delimiter '|')");
        session.simple(&copy, &mut printed).unwrap_or_else(|error| panic!("{table}: {error}"));
    }
    run(session, include_str!("tpch/indexes.sql"));
    rows
}

#[test]
fn tpc_h_is_joined_in_orders_that_read_little() {
    with_hosts(1, 2, |hosts| {
        let database = EngineDatabase::new(hosts[0].clone(), || Box::new(Fixed));
        let mut session = database.open(start()).expect("a session opens");
        let all = load(&mut *session, 0.002);
        let queries = queries();
        assert_eq!(queries.len(), 22);
        for (number, sql) in (1..).zip(queries) {
            let plan = answer(&mut *session, &format!("explain {sql}"));
            for (line, next) in plan.iter().zip(&plan[1..]) {
                // Two nations may meet by an OR over both.
                let joins = next.contains("Hash Cond") || next.contains("Join Filter");
                let crosses = line.contains("Hash Join") && !joins;
                assert!(!crosses, "{number} has a cross product:\n{}", plan.join("\n"));
            }
            let before = hosts[0].slots.observed().rows_visited();
            run(&mut *session, sql);
            let visited = hosts[0].slots.observed().rows_visited() - before;
            println!("query {number}: {visited} rows visited of {all}");
            assert!(visited <= 3 * all, "{number} visits {visited} of {all} rows:\n{}", plan.join("\n"));
        }
    });
}

#[test]
fn all_hosts_see_what_one_has_found_out() {
    with_pod(2, 2, |databases| {
        let mut one = databases[0].open(start()).expect("a session opens");
        let mut other = databases[1].open(start()).expect("a session opens");
        run(&mut *one, "create table t (k int primary key, v int)");
        run(&mut *one, "insert into t select g, g % 3 from generate_series(1, 600) g");
        let plan = "explain (costs off) select * from t where k > 0";
        let known = "select n_distinct, most_common_vals from pg_stats where attname = 'v'";
        assert!(answer(&mut *other, known).is_empty());
        run(&mut *other, &format!("prepare p as {plan}").replace("explain (costs off) ", ""));
        run(&mut *one, "begin; select * from t where k = 1");
        run(&mut *other, "analyze t");
        run(&mut *one, "commit");
        assert_eq!(answer(&mut *one, known), ["3|{0,1,2}"]);
        assert_eq!(answer(&mut *other, known), ["3|{0,1,2}"]);
        run(&mut *other, "execute p");
        // Almost all rows: no index is worth it.
        assert!(answer(&mut *one, plan).iter().any(|line| line.contains("Seq Scan")));
        run(&mut *one, "drop table t; create table t (k int primary key, v int)");
        assert!(answer(&mut *other, known).is_empty());
    });
}

#[test]
fn a_table_that_has_changed_is_analyzed_by_its_host() {
    with_pod(1, 2, |databases| {
        let mut session = databases[0].open(start()).expect("a session opens");
        let interrupt = Arc::new(Interrupt::default());
        let due = || databases[0].analyze_changed(0, &interrupt).expect("the host is at work");
        run(&mut *session, "create table t (k int primary key); create table u (k int)");
        run(&mut *session, "alter table u set (autovacuum_enabled = false)");
        run(&mut *session, "insert into t select g from generate_series(1, 50) g");
        run(&mut *session, "insert into u select g from generate_series(1, 500) g");
        assert!(due().is_empty());
        run(&mut *session, "insert into t values (51)");
        assert_eq!(due(), ["t"]);
        assert!(due().is_empty());
        let counts = "select n_live_tup, n_mod_since_analyze, analyze_count, autoanalyze_count, \
                      last_autoanalyze is null from pg_stat_user_tables where relname = 't'";
        assert_eq!(answer(&mut *session, counts), ["51|0|0|1|f"]);
        // What is rolled back is no change.
        run(&mut *session, "begin; update t set k = k + 1000; rollback");
        run(&mut *session, "update t set k = k + 1000 where k <= 5");
        assert!(due().is_empty());
        assert_eq!(answer(&mut *session, counts), ["51|5|0|1|f"]);
        run(&mut *session, "update t set k = k + 2000");
        assert_eq!(due(), ["t"]);
    });
}

/// Nobody has asked for it: it leaves the rows of other hosts where they are, and tells of the pod all the
/// same.
#[test]
fn a_host_that_analyzes_by_itself_looks_at_its_own_rows() {
    with_pod(2, 2, |databases| {
        let (mut one, mut other) = (
            databases[0].open(start()).expect("a session opens"),
            databases[1].open(start()).expect("a session opens"),
        );
        run(&mut *one, "create table t (k int primary key, v int)");
        let insert = "insert into t select g, g % 10 from generate_series(1, 1000) g";
        run(&mut *one, insert);
        let shared = "select rows_shared from pod_tables where relname = 't'";
        run(&mut *other, "update t set v = v where k <= 120");
        let there = answer(&mut *one, shared);
        let interrupt = Arc::new(Interrupt::default());
        let done = databases[1].analyze_changed(1, &interrupt).expect("the host is at work");
        assert_eq!(done, ["t"]);
        assert_eq!(answer(&mut *one, shared), there, "no row of host 0 has moved for it");
        let rows = answer(&mut *other, "select reltuples from pg_class where relname = 't'");
        let rows: f64 = rows[0].parse().expect("a number");
        assert!((700.0..1400.0).contains(&rows), "{rows} rows of 1000");
        assert_eq!(answer(&mut *one, "select n_distinct from pg_stats where attname = 'v'"), ["10"]);
        // Who is asked looks at all.
        run(&mut *other, "analyze t");
        assert_eq!(answer(&mut *other, "select reltuples from pg_class where relname = 't'"), ["1000"]);
        assert_ne!(answer(&mut *one, shared), there);
    });
}
