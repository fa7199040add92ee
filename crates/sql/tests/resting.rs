//! Transactions that rest have no worker: their clients think, or they wait for a lock, or sleep. There may
//! be many more of them than workers, and than numbers for their locks.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and time passes")]

mod client;
mod databases;
mod sessions;
mod support;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use client::Printed;
use databases::with_hosts_of;
use liger_engine::row::policy::Patient;
use liger_sql::exec::{EngineDatabase, SqlHost};
use sessions::{Ticking, ask, connect, error_of};
use support::pod_with;

/// More than the numbers that locks can name, several times.
const MANY: usize = 150;
const LONG_NS: u64 = 3_000_000_000;
static PATIENT: Patient = Patient { writers_ns: LONG_NS, readers_ns: LONG_NS, colleagues_ns: LONG_NS };

fn with_pod(hosts: u8, workers: u8, body: impl FnOnce(&[EngineDatabase], &[Arc<SqlHost>])) {
    with_hosts_of(pod_with(hosts, &PATIENT).1, workers, |all| {
        let open = |host: &Arc<_>| EngineDatabase::new(Arc::clone(host), || Box::new(Ticking));
        body(&all.iter().map(open).collect::<Vec<_>>(), all);
    });
}

#[test]
fn others_go_on_beside_idle_blocks() {
    // One worker is lent, and the other answers other hosts.
    with_pod(2, 2, |databases, _| {
        let mut other = connect(&databases[0]);
        ask(&mut other, "create table t (k int primary key, v int)");
        ask(&mut other, &format!("insert into t select g, 0 from generate_series(1, {}) g", MANY + 2));
        let last = MANY + 1;
        let mut blocks: Vec<_> = (0..MANY).map(|i| connect(&databases[i % 2])).collect();
        for (k, block) in (1..).zip(&mut blocks) {
            // Each holds a row for itself, and one that all have read.
            ask(
                block,
                &format!("begin; update t set v = v + 1 where k = {k}; select v from t where k = {last}"),
            );
        }
        assert_eq!(ask(&mut other, "select 1"), "1");
        assert_eq!(ask(&mut other, "show max_connections"), "100", "what their host says");
        assert_eq!(ask(&mut other, &format!("update t set v = 5 where k = {} returning v", MANY + 2)), "5");
        ask(&mut other, "create table u (a int); drop table u");
        // What they hold is held.
        for k in [3, last] {
            let look = format!("select v from t where k = {k} for update nowait");
            assert!(error_of(&mut other, &look).starts_with("55P03"), "{k}");
        }
        for (k, block) in (1..).zip(&mut blocks).collect::<Vec<_>>().into_iter().rev() {
            let seen = ask(block, &format!("update t set v = v + 1 where k = {k} returning v"));
            assert_eq!(seen, "2");
            match k % 3 {
                0 => ask(block, "savepoint s; update t set v = 50 where k > 1000; rollback to s; rollback"),
                _ => ask(block, "commit"),
            };
        }
        let kept = (1..=MANY).filter(|k| k % 3 > 0).count();
        let found = ask(&mut other, &format!("select count(*), sum(v) from t where v > 0 and k < {last}"));
        assert_eq!(found, format!("{kept}|{}", 2 * kept));
        assert_eq!(ask(&mut other, &format!("update t set v = 7 where k = {last} returning v")), "7");
    });
}

#[test]
fn transactions_are_parked_where_numbers_are_scarce_and_end_with_their_host() {
    with_pod(1, 3, |databases, hosts| {
        let database = &databases[0];
        let mut other = connect(database);
        ask(&mut other, "create table t (k int primary key, v int); insert into t values (1, 1)");
        let mut blocks: Vec<_> = (0..MANY).map(|_| connect(database)).collect();
        blocks.iter_mut().for_each(|block| _ = ask(block, "begin; select v from t"));
        assert_eq!(hosts[0].slots.idle(), 2, "they have no workers");
        assert_eq!(ask(&mut other, "select v from t"), "1");
        // All but some of them are gone.
        blocks.truncate(3);
        assert!(error_of(&mut other, "select v from t for update nowait").starts_with("55P03"));
        drop(blocks);
        assert_eq!(ask(&mut other, "update t set v = 2 returning v"), "2");
        let mut last: Vec<_> = (0..MANY).map(|_| connect(database)).collect();
        last.iter_mut().for_each(|block| _ = ask(block, "begin; select v from t"));
        hosts[0].slots.close();
        for block in &mut last {
            assert!(error_of(block, "select v from t").starts_with("57P01"));
        }
    });
}

#[test]
fn who_waits_for_a_row_has_no_worker() {
    with_pod(1, 2, |databases, _| {
        let (mut holder, mut other) = (connect(&databases[0]), connect(&databases[0]));
        ask(&mut other, "create table t (k int primary key, v int); insert into t values (1, 0), (2, 0)");
        ask(&mut holder, "begin; update t set v = 1 where k = 1");
        thread::scope(|scope| {
            let waits = || {
                let mut waiter = connect(&databases[0]);
                ask(&mut waiter, "begin; update t set v = v + 10 where k = 1 returning v; commit")
            };
            let waiting = [scope.spawn(waits), scope.spawn(waits)];
            thread::sleep(Duration::from_millis(30));
            // The only worker is there for others, and for the one that they wait for.
            assert_eq!(ask(&mut other, "update t set v = 3 where k = 2 returning v"), "3");
            ask(&mut holder, "commit");
            let mut seen = waiting.map(|one| one.join().expect("no panic"));
            seen.sort();
            assert_eq!(seen, ["11", "21"]);
        });
    });
}

#[test]
fn who_sleeps_has_no_worker() {
    with_pod(1, 2, |databases, _| {
        let mut other = connect(&databases[0]);
        ask(&mut other, "create table t (k int)");
        thread::scope(|scope| {
            let sleeps =
                || _ = ask(&mut connect(&databases[0]), "select pg_sleep(0.5) from pg_class limit 1");
            let sleeping = [scope.spawn(sleeps), scope.spawn(sleeps), scope.spawn(sleeps)];
            thread::sleep(Duration::from_millis(100));
            let begun = Instant::now();
            ask(&mut other, "insert into t values (1); select * from t");
            assert!(begun.elapsed() < Duration::from_millis(300), "{:?}", begun.elapsed());
            sleeping.into_iter().for_each(|one| one.join().expect("no panic"));
        });
    });
}

#[test]
fn a_copy_whose_client_says_nothing_has_no_worker() {
    with_pod(1, 2, |databases, hosts| {
        let (mut loader, mut other) = (connect(&databases[0]), connect(&databases[0]));
        ask(&mut other, "create table t (k int primary key, v int); insert into t values (9, 9)");
        let (slots, other) = (hosts[0].slots.clone(), Mutex::new(other));
        let meanwhile = move || {
            assert_eq!(slots.idle(), 1, "the only one that is lent");
            let mut other = other.lock().expect("one at a time");
            assert_eq!(ask(&mut other, "update t set v = v + 1 where k = 9 returning k"), "9");
        };
        let mut sink = Printed::default();
        sink.copied = b"1\t1\n2\t2\n".to_vec();
        sink.meanwhile = Some(Box::new(meanwhile));
        loader.simple("copy t from stdin", &mut sink).expect("it is read");
        sink.meanwhile = None;
        assert_eq!(sink.tags, ["COPY 2"]);
        assert_eq!(ask(&mut loader, "select k, v from t order by k"), "1|1 2|2 9|11");
    });
}

#[test]
fn a_statement_whose_client_takes_no_rows_has_no_worker() {
    with_pod(1, 2, |databases, hosts| {
        let (mut reader, mut other) = (connect(&databases[0]), connect(&databases[0]));
        ask(&mut other, "create table t (k int primary key); insert into t select generate_series(1, 50)");
        ask(&mut other, "create table u (k int primary key, v int); insert into u values (9, 0)");
        let (slots, other) = (hosts[0].slots.clone(), Arc::new(Mutex::new(other)));
        let rows =
            ["select k from t", "declare c cursor for select k from t; fetch all from c", "copy t to stdout"];
        for rows in rows {
            let (slots, other) = (slots.clone(), other.clone());
            let meanwhile = move || {
                assert_eq!(slots.idle(), 1, "the only one that is lent");
                ask(&mut other.lock().expect("one at a time"), "update u set v = v + 1");
            };
            let mut sink = Printed::default();
            sink.meanwhile = Some(Box::new(meanwhile));
            reader.simple(&format!("begin; {rows}; commit"), &mut sink).expect("it is told");
        }
        assert_eq!(ask(&mut reader, "select v from u"), "150");
    });
}

#[test]
fn a_long_statement_lends_its_worker() {
    with_pod(1, 2, |databases, _| {
        let mut other = connect(&databases[0]);
        ask(
            &mut other,
            "create table t (k int primary key, v int); insert into t select generate_series(1, 2000), 0",
        );
        let long = [
            // No rows of the engine; those of a table, read again and again; changes.
            "select count(*) from generate_series(1, 3000) a, generate_series(1, 3000) b where a = b",
            "select count(*) from t a, lateral (select max(v) m from t b where b.v < a.k + a.v) c",
            "update t set v = v + 1",
        ];
        for long in long {
            thread::scope(|scope| {
                let runs = || {
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_millis(500) {
                        ask(&mut connect(&databases[0]), long);
                    }
                };
                // Three of them do not pass the worker on among themselves.
                let runs = [scope.spawn(runs), scope.spawn(runs), scope.spawn(runs)];
                let mut others = 0;
                while !runs.iter().any(|one| one.is_finished()) {
                    ask(&mut other, "select 1 from pg_class limit 1");
                    others += 1;
                }
                runs.into_iter().for_each(|one| one.join().expect("no panic"));
                assert!(others > 20, "{others} statements beside {long}");
            });
        }
    });
}
