//! A cancel or a time-out ends every statement that runs, wherever it is.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "somebody else interrupts, and time passes")]

mod client;

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Fixed, answer, start};
use liger_sql::exec::LocalSession;
use liger_sql::exec::memory::Memory;
use liger_sql::session::{Activity, Interrupt, InterruptReason, ServerView};

const WAIT: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(1500);

/// Each would run for minutes, or for ever.
const ENDLESS: &[&str] = &[
    "select count(*) from generate_series(1, 1000000000000) g",
    "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b",
    "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b where a < b and a > b",
    "select count(*) from generate_series(1, 100000) a join generate_series(1, 100000) b on a % 2 = b % 2",
    "select count(*) from generate_series(1, 100000) a left join generate_series(1, 100000) b on a > b * 9",
    "select count(*) from generate_series(1, 90000) a full join generate_series(1, 90000) b on a % 2 = b % 2",
    "select count(*) from pg_attribute a, pg_attribute b, pg_attribute c",
    "select count(*) from pg_attribute a left join pg_attribute b on a.attnum < b.attnum, pg_attribute c",
    "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t",
    "with recursive t(n) as (select 1 union select n + 1 from t) select count(*) from t",
    "with recursive t(n) as (select 1 union all select n from t) select count(*) from t",
    "with recursive t(n) as (select 1 union all select n from t, (values (1), (2)) v) select count(*) from t",
    "select (select count(*) from generate_series(1, a)) from generate_series(1, 1000000) a",
    "select exists (select from generate_series(1, 100000) a, generate_series(1, 100000) b where a * b < 0)",
    "select 1 from generate_series(1, 9999) a where a not in (select -b from generate_series(1, 30000000) b)",
    "select from generate_series(1, 999) a where a not in (select -a * b from generate_series(1, 9999999) b)",
    "select a, b from generate_series(1, 3000) a, generate_series(1, 3000) b order by md5(a::text || b)",
    "select string_agg(a::text, ',' order by -a) from generate_series(1, 5000000) a",
    "select count(distinct a % 3000000) from generate_series(1, 5000000) a",
    "select a, rank() over (order by -a) from generate_series(1, 5000000) a",
    "select a % 10000000, count(*) from generate_series(1, 10000000) a group by 1",
    "select a from generate_series(1, 10000000) a except all select a from generate_series(1, 10000000) a",
    "select distinct on (a % 7) a from generate_series(1, 10000000) a order by a % 7, -a",
    "insert into t select a from generate_series(1, 10000000) a",
    "update t set a = a + 1 from generate_series(1, 100000) b, generate_series(1, 100000) c",
    "delete from t using generate_series(1, 100000) b, generate_series(1, 100000) c where b * c < 0",
    "explain analyze select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b",
    "create table u as select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b",
    "copy (select a from generate_series(1, 100000) a, generate_series(1, 100000) b) to stdout (format csv)",
    "select pg_sleep(1000)",
    "select pg_sleep_for('1 hour')",
];

#[test]
fn every_statement_ends_when_it_is_told_to() {
    let start = start();
    let interrupt = start.interrupt.clone();
    let session = LocalSession::new(Memory::default(), start, Box::new(Fixed));
    let mut session = session.expect("a session without settings opens");
    answer(&mut session, "create table t (a int); insert into t select generate_series(1, 100)");
    for sql in ENDLESS {
        let begun = Instant::now();
        let got = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(WAIT);
                interrupt.raise(InterruptReason::StatementTimeout);
            });
            answer(&mut session, sql)
        });
        let took = begun.elapsed();
        interrupt.rearm();
        println!("{took:?} {sql}");
        assert_eq!(got.last().map(String::as_str), Some("ERROR 57014"), "{sql}: {:?}", got.last());
        assert!(took < WAIT + PATIENCE, "{took:?}: {sql}");
    }
    assert_eq!(answer(&mut session, "select count(*) from t"), ["100"]);
}

/// A server of one session.
struct Alone(Arc<Interrupt>);

impl ServerView for Alone {
    fn connections_max(&self) -> usize {
        100
    }

    fn activity(&self) -> Vec<Activity> {
        Vec::new()
    }

    fn started_us(&self) -> i64 {
        0
    }

    fn role_of(&self, process_id: i32, stop: Option<InterruptReason>) -> Option<String> {
        if let Some(reason) = stop {
            self.0.raise(reason);
        }
        (process_id == 1).then(|| "postgres".to_string())
    }

    fn password_verifier(&self, password: &str) -> String {
        password.to_string()
    }
}

#[test]
fn a_session_that_ends_itself_fails_with_that_statement() {
    let mut start = start();
    let interrupt = start.interrupt.clone();
    start.server = Arc::new(Alone(interrupt.clone()));
    let session = LocalSession::new(Memory::default(), start, Box::new(Fixed));
    let mut session = session.expect("a session without settings opens");
    let got = answer(&mut session, "select pg_cancel_backend(pg_backend_pid())");
    assert_eq!(got.last().map(String::as_str), Some("ERROR 57014"), "{got:?}");
    interrupt.rearm();
    let got = answer(&mut session, "select pg_terminate_backend(pg_backend_pid())");
    assert_eq!(got.last().map(String::as_str), Some("ERROR 57P01"), "{got:?}");
}
