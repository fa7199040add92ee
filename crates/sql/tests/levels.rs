//! READ COMMITTED and REPEATABLE READ over hosts: what is seen when, who waits for whom, and how that ends.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads")]

mod client;
mod databases;
mod sessions;
mod support;

use std::thread;
use std::time::{Duration, Instant};

use client::Printed;
use liger_sql::exec::EngineDatabase;
use sessions::{Connected, ask, connect, error_of, until, with_logs, with_pod};

const LEVELS: [&str; 2] = ["read committed", "repeatable read"];

/// Sessions at a level, and a table of 200 rows of 10 that all hosts have a part of.
fn sessions<const N: usize>(databases: &[EngineDatabase], level: &str) -> [Connected; N] {
    let mut sessions = std::array::from_fn(|n| connect(&databases[n % databases.len()]));
    for session in &mut sessions {
        ask(session, &format!("set default_transaction_isolation = '{level}'; set lock_timeout = '10s'"));
    }
    ask(&mut sessions[0], "drop table if exists t cascade; create table t (id int primary key, v int)");
    ask(&mut sessions[0], "create index on t (v)");
    ask(&mut sessions[0], "insert into t select g, 10 from generate_series(1, 200) g");
    sessions
}

/// Runs a statement that has to wait until `free` has been done, and what it answers then.
fn behind(waiter: &mut Connected, sql: &str, free: impl FnOnce()) -> Result<String, String> {
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut printed = Printed::default();
            let ran = waiter.simple(sql, &mut printed);
            (Instant::now(), ran.map(|()| printed.lines.join(" ")).map_err(|error| error.state.to_string()))
        });
        thread::sleep(Duration::from_millis(60));
        assert!(!waiting.is_finished(), "{sql} waits");
        let freed = Instant::now();
        free();
        let (at, answer) = waiting.join().expect("it answers");
        assert!(at >= freed, "{sql} has waited");
        answer
    })
}

#[test]
fn who_reads_waits_for_nobody() {
    with_logs(2, 3, |databases| {
        for level in LEVELS {
            let [writer, own, other] = &mut sessions(databases, level);
            ask(writer, "begin; update t set v = 11 where id <= 100; delete from t where id = 200");
            ask(writer, "insert into t values (201, 12)");
            for reader in [own, other] {
                ask(reader, "begin");
                assert_eq!(ask(reader, "select count(*), sum(v) from t"), "200|2000", "{level}");
                assert_eq!(ask(reader, "select v from t where id = 5"), "10", "{level}");
                assert_eq!(ask(reader, "select v from t where id = 201"), "", "{level}");
                assert_eq!(ask(reader, "select count(*) from t where v > 10"), "0", "{level}");
                // What was read in passing is free again, and what the transaction has changed is not.
                ask(reader, "update t set v = v + 1 where id = 150");
                assert_eq!(ask(reader, "select sum(v) from t where id between 149 and 151"), "31", "{level}");
                assert_eq!(ask(writer, "savepoint a; update t set v = v where id = 149; rollback to a"), "");
                ask(reader, "update t set v = v - 1 where id = 150");
                ask(reader, "commit");
                assert_eq!(ask(reader, "select v from t where id = 200"), "10", "{level}");
                assert_eq!(ask(reader, "select sum(v) from t where id < 10"), "90", "{level}");
            }
            ask(writer, "commit");
        }
    });
}

#[test]
fn a_statement_sees_what_has_committed_and_the_transactions_own_changes() {
    with_logs(2, 3, |databases| {
        for level in LEVELS {
            let committed = level == LEVELS[0];
            let [writer, reader] = &mut sessions(databases, level);
            ask(reader, "begin; update t set v = v + 1 where id % 2 = 0; delete from t where id = 1");
            ask(reader, "insert into t values (0, 7), (300, 8)");
            assert_eq!(ask(reader, "select count(*), sum(v) from t"), "201|2105", "{level}");
            ask(writer, "update t set v = 0 where id = 3; insert into t values (301, 5)");
            ask(writer, "delete from t where id = 5");
            let seen = if committed { "201|2090" } else { "201|2105" };
            assert_eq!(ask(reader, "select count(*), sum(v) from t"), seen, "{level}");
            let first = if committed { "0|7 2|11 3|0" } else { "0|7 2|11 3|10" };
            assert_eq!(ask(reader, "select id, v from t order by id limit 3"), first, "{level}");
            assert_eq!(ask(reader, "select id from t where v in (7, 8) order by id desc"), "300 0");
            assert_eq!(ask(reader, "select v from t where id = 1"), "", "{level}");
            ask(reader, "savepoint a; update t set v = 100 where id in (0, 2); rollback to a");
            assert_eq!(ask(reader, "select v from t where id in (0, 2) order by id"), "7 11", "{level}");
            ask(reader, "commit");
            assert_eq!(ask(reader, "select count(*), sum(v) from t"), "201|2090", "{level}");
        }
    });
}

#[test]
fn parts_of_a_statement_see_what_was_there_when_it_began() {
    with_logs(2, 3, |databases| {
        for level in LEVELS {
            let [one, other] = &mut sessions(databases, level);
            ask(one, "begin; update t set v = 20 where id = 1");
            // It has found row 1 by a value that the row has no more when it goes.
            let sql = "with gone as (delete from t where id = 1 and v in (10, 20) returning v) \
                       select (select v from gone), count(*) from t where v = 10 and id < 3";
            let (sum, seen) = (behind(other, sql, || _ = ask(one, "commit")), ["20|2", "20|1"]);
            let sum = sum.expect("by itself it is run again");
            assert!(seen.contains(&&*sum), "{level}: {sum}");
            assert_eq!(ask(one, "select count(*) from t"), "199");
        }
    });
}

#[test]
fn who_changes_a_row_waits_for_who_has_it_and_looks_again() {
    with_logs(2, 3, |databases| {
        let mut all: [Connected; 3] = sessions(databases, "read committed");
        let (first, others) = all.split_first_mut().expect("three");
        for waiter in others {
            ask(
                first,
                "update t set v = 10 where id between 5 and 9; begin; update t set v = v + 5 where id = 7",
            );
            let add = "update t set v = v + 1 where id = 7 returning v";
            assert_eq!(behind(waiter, add, || _ = ask(first, "commit")), Ok("16".into()));
            ask(first, "begin; update t set v = 20 where id in (5, 6)");
            // Found as they were, and looked at again: of the two one is left that is wanted.
            let sql = "update t set v = v + 1 where v = 10 and id between 6 and 8 returning id, v";
            assert_eq!(behind(waiter, sql, || _ = ask(first, "commit")), Ok("8|11".into()));
            ask(first, "begin; update t set v = 30 where id = 5");
            let taken = behind(waiter, "begin; select v from t where v >= 20 and id < 6 for update", || {
                ask(first, "rollback");
            });
            assert_eq!(taken, Ok("20".into()));
            ask(waiter, "commit");
            ask(first, "begin; delete from t where id = 9");
            assert_eq!(
                behind(waiter, "delete from t where id = 9 returning id", || _ = ask(first, "commit")),
                Ok("".into())
            );
            ask(first, "insert into t values (9, 10)");
            ask(first, "begin; insert into t values (1000, 1)");
            let put =
                "insert into t values (1000, 2) on conflict (id) do update set v = t.v + 10 returning v";
            assert_eq!(behind(waiter, put, || _ = ask(first, "commit")), Ok("11".into()));
            ask(first, "begin; delete from t where id = 1000");
            assert_eq!(
                behind(waiter, "insert into t values (1000, 3)", || _ = ask(first, "rollback")),
                Err("23505".into())
            );
            ask(first, "delete from t where id = 1000");
        }
    });
}

#[test]
fn in_repeatable_read_the_first_who_changes_a_row_wins() {
    with_logs(2, 3, |databases| {
        let mut all: [Connected; 3] = sessions(databases, "repeatable read");
        let (first, others) = all.split_first_mut().expect("three");
        for waiter in others {
            ask(first, "update t set v = 10 where id < 10");
            ask(waiter, "begin; select 1 from t where id = 1");
            ask(first, "begin; update t set v = 11 where id = 7");
            let late = behind(waiter, "update t set v = v + 1 where id = 7", || _ = ask(first, "commit"));
            assert_eq!(late, Err("40001".into()));
            ask(waiter, "rollback; begin; select 1 from t where id = 1; savepoint a");
            ask(first, "update t set v = 12 where id = 8");
            let newer = "40001 could not serialize access due to concurrent update";
            assert_eq!(error_of(waiter, "update t set v = 0 where v < 20 and id = 8"), newer);
            ask(waiter, "rollback to a");
            assert_eq!(ask(waiter, "select v from t where id = 8"), "10");
            // What nobody else has changed, and what is its own, may be.
            ask(waiter, "update t set v = v + 1 where id in (3, 4); update t set v = v + 1 where id = 3");
            ask(waiter, "insert into t values (500, 1); update t set v = 2 where id = 500");
            ask(first, "begin; delete from t where id = 6");
            let gone = behind(waiter, "delete from t where id = 6", || _ = ask(first, "commit"));
            assert_eq!(gone, Err("40001".into()));
            ask(waiter, "rollback to a; update t set v = 100 where id = 3; commit");
            assert_eq!(ask(first, "select id, v from t where id in (3, 6, 500) order by id"), "3|100");
            ask(first, "insert into t values (6, 10)");
            // By itself a statement that came too late is run again.
            ask(first, "begin; update t set v = v + 1 where id = 2");
            let again = behind(waiter, "update t set v = v + 1 where id = 2 returning v", || {
                _ = ask(first, "commit")
            });
            assert_eq!(again, Ok("12".into()));
        }
    });
}

#[test]
fn a_wait_ends_by_time_by_nowait_and_by_a_cancel() {
    with_logs(2, 3, |databases| {
        for level in LEVELS {
            let mut all: [Connected; 3] = sessions(databases, level);
            let (first, others) = all.split_first_mut().expect("three");
            for waiter in others {
                ask(first, "begin; update t set v = v + 5 where id = 7");
                ask(waiter, "begin; update t set v = 9 where id = 1; savepoint a; set lock_timeout = 50");
                let timeout = "55P03 canceling statement due to lock timeout";
                assert_eq!(error_of(waiter, "update t set v = 9 where id = 7"), timeout, "{level}");
                ask(waiter, "rollback to a");
                let nowait = "55P03 could not obtain lock on row in relation \"t\"";
                assert_eq!(error_of(waiter, "select * from t where id = 7 for update nowait"), nowait);
                ask(waiter, "rollback to a");
                let skipped =
                    "select count(*) from (select 1 from t where id in (6, 7) for update skip locked) s";
                assert_eq!(ask(waiter, skipped), "1", "{level}");
                ask(waiter, "commit");
                assert_eq!(
                    ask(first, "select v from t where id = 1"),
                    if level == LEVELS[0] { "9" } else { "10" }
                );
                ask(first, "rollback; update t set v = 10 where id = 1");
            }
        }
    });
}

/// Each of these sessions makes this change of a row, from `first` on, and then wants that of the next one:
/// one of them is told. It does the same again at once, and comes behind the others.
fn in_a_circle(players: &mut [Connected], change: &str, first: usize) {
    let count = players.len();
    for (session, id) in players.iter_mut().zip(first..) {
        ask(session, &format!("begin; {change} where id = {id}"));
    }
    let wants = |(n, session): (usize, &mut Connected)| {
        let (own, next) = (first + n, first + (n + 1) % count);
        let rest = format!("update t set v = 100 where id = {next}; commit");
        let (mut ran, mut told) = (session.simple(&rest, &mut Printed::default()), Vec::new());
        while let Err(error) = ran {
            told.push(format!("{} {:?}", error.state, error.detail));
            assert!(told.len() < 20, "it is in the way again and again: {told:?}");
            ask(session, "rollback");
            let again = format!("begin; {change} where id = {own}; {rest}");
            ran = session.simple(&again, &mut Printed::default());
        }
        told
    };
    thread::scope(|scope| {
        let waiting: Vec<_> =
            players.iter_mut().enumerate().map(|player| scope.spawn(move || wants(player))).collect();
        let ends = waiting.into_iter().map(|one| one.join().expect("it answers"));
        let told: Vec<String> = ends.flatten().collect();
        let all_so = told.iter().all(|error| error.starts_with("40P01"));
        // On a busy machine somebody may not have looked in time.
        assert!((1..4).contains(&told.len()) && all_so, "{count} from {first}: {told:?}");
    });
}

#[test]
fn transactions_that_wait_for_each_other_are_told() {
    with_logs(3, 3, |databases| {
        for hosts in [1, 3] {
            let mut all: [Connected; 3] = sessions(&databases[..hosts], "read committed");
            all.iter_mut().for_each(|session| _ = ask(session, "set deadlock_timeout = 100"));
            // Entries of an index that lie next to each other are in each other's way, too.
            ask(&mut all[0], "drop index t_v_idx");
            for count in [2, 3] {
                in_a_circle(&mut all[..count], "update t set v = 7", 1);
            }
            let left = "select count(*) from pg_locks where locktype = 'tuple'";
            until("nobody waits any more", || ask(&mut all[0], left) == "0");
        }
    });
}

/// Only their owner knows who has them.
#[test]
fn cycles_through_rows_that_no_other_host_has_had_are_told() {
    with_logs(2, 3, |databases| {
        let mut all: [Connected; 2] = sessions(databases, "read committed");
        all.iter_mut().for_each(|session| _ = ask(session, "set deadlock_timeout = 100"));
        ask(&mut all[0], "drop index t_v_idx");
        for change in ["update t set v = 7", "delete from t"] {
            for first in (1001..1021).step_by(2) {
                for (session, id) in all.iter_mut().zip(first..) {
                    ask(session, &format!("insert into t values ({id}, 0) on conflict do nothing"));
                }
                in_a_circle(&mut all, change, first);
            }
        }
        let put = "insert into t select id, 0 from generate_series(3001, 3020) id";
        (3001..3021).step_by(2).for_each(|first| in_a_circle(&mut all, put, first));
    });
}

/// Long values are rows of their own, which are put next to those of others.
#[test]
fn transactions_that_change_long_values_end() {
    with_logs(2, 3, |databases| {
        let mut all: [Connected; 4] = sessions(databases, "read committed");
        ask(&mut all[0], "drop table t; create table t (id int primary key, v int, pad text)");
        ask(&mut all[0], "insert into t select g, 100, '' from generate_series(0, 19) g");
        all.iter_mut().for_each(|session| _ = ask(session, "set deadlock_timeout = 50"));
        let work = |(n, session): (usize, &mut Connected)| {
            for number in 1..=25 {
                let mixed = (n + 1) * 7919 + number * 104_729;
                let (from, pad) = (mixed / 64 % 20, "x".repeat(2000 + n));
                let to = (from + 1 + mixed / 4096 % 19) % 20;
                let sql = format!(
                    "begin; update t set v = v - 1, pad = '{pad}' where id = {from}; \
                     update t set v = v + 1 where id = {to}; commit"
                );
                while let Err(error) = session.simple(&sql, &mut Printed::default()) {
                    assert_eq!(error.state.to_string(), "40P01", "{n}, {number}: {error}");
                    ask(session, "rollback");
                }
            }
        };
        thread::scope(|scope| {
            for player in all.iter_mut().enumerate() {
                scope.spawn(move || work(player));
            }
        });
        assert_eq!(ask(&mut all[0], "select sum(v), count(*) from t"), "2000|20");
    });
}

#[test]
fn an_entry_of_then_may_lead_to_a_row_that_is_removed_now() {
    with_logs(2, 3, |databases| {
        let [one, other] = &mut sessions(databases, "read committed");
        ask(one, "begin; update t set v = 20 where id = 1");
        // When its row is found to have another value, and goes, the entry of the old one is there still.
        let sql = "with gone as (delete from t where id = 1 returning v) \
                   select (select v from gone), (select count(*) from t where v = 10)";
        assert_eq!(behind(other, &format!("begin; {sql}"), || _ = ask(one, "commit")), Ok("20|199".into()));
        ask(other, "commit");
        assert_eq!(ask(one, "select count(*) from t"), "199");
    });
}

#[test]
fn many_rows_that_are_locked_and_not_changed_are_read_as_others() {
    with_logs(2, 3, |databases| {
        let [one] = &mut sessions(databases, "read committed");
        ask(one, "insert into t select g, 1 from generate_series(1001, 21000) g");
        ask(one, "begin; update t set v = 2 where id = 21000");
        assert_eq!(ask(one, "select count(*) from (select 1 from t where id > 1000 for update) s"), "20000");
        assert_eq!(
            ask(one, "select count(*), sum(v), max(v) from t where id > 1000 or v > 100"),
            "20000|20001|2"
        );
        ask(one, "savepoint a; delete from t where id > 2000; rollback to a");
        assert_eq!(ask(one, "select count(*), sum(v) from t"), "20200|22001");
        ask(one, "rollback");
    });
}

#[test]
fn snapshots_are_shared_at_the_levels_that_have_one() {
    with_logs(2, 3, |databases| {
        let [one, other] = &mut sessions(databases, "read committed");
        ask(one, "begin read only");
        let export =
            "0A000 pg_export_snapshot() of a transaction that does not read one snapshot is not supported";
        assert_eq!(error_of(one, "select pg_export_snapshot()"), export);
        ask(one, "rollback; begin isolation level repeatable read, read only");
        let name = ask(one, "select pg_export_snapshot()");
        ask(other, "insert into t values (1000, 1)");
        ask(other, "begin read only");
        let import = format!("set transaction snapshot '{name}'");
        let refused = "0A000 SET TRANSACTION SNAPSHOT at READ COMMITTED is not supported";
        assert_eq!(error_of(other, &import), refused);
        ask(other, "rollback; begin isolation level repeatable read, read only");
        ask(other, &import);
        assert_eq!(ask(other, "select count(*) from t"), "200");
        ask(other, "commit");
        ask(one, "commit");
    });
}

#[test]
fn more_wait_for_a_row_than_there_are_numbers() {
    with_logs(2, 3, |databases| {
        let mut all: [Connected; 91] = sessions(databases, "read committed");
        let (first, waiters) = all.split_first_mut().expect("91");
        ask(first, "begin; update t set v = 0 where id = 1");
        thread::scope(|scope| {
            let waiting: Vec<_> = waiters
                .iter_mut()
                .map(|session| scope.spawn(|| ask(session, "update t set v = v + 1 where id = 1")))
                .collect();
            thread::sleep(Duration::from_millis(300));
            assert!(waiting.iter().all(|one| !one.is_finished()));
            // Whoever they wait for goes on.
            assert_eq!(ask(first, "select count(*) from t where v < 5"), "1");
            ask(first, "update t set v = 1 where id = 1; commit");
            assert_eq!(ask(first, "select count(*) from t"), "200");
        });
        assert_eq!(ask(first, "select v from t where id = 1"), "91");
    });
}

#[test]
fn foreign_keys_hold_at_every_level() {
    with_logs(2, 3, |databases| {
        for level in LEVELS {
            let mut all: [Connected; 3] = sessions(databases, level);
            let (first, others) = all.split_first_mut().expect("three");
            ask(first, "drop table if exists c; create table c (id int primary key, t int references t)");
            for waiter in others {
                ask(first, "begin; insert into c values (1, 7)");
                let gone = behind(waiter, "delete from t where id = 7", || _ = ask(first, "commit"));
                assert_eq!(gone, Err("23503".into()), "{level}");
                ask(first, "delete from c; begin; delete from t where id = 7");
                let put = behind(waiter, "insert into c values (1, 7)", || _ = ask(first, "commit"));
                assert_eq!(put, Err("23503".into()), "{level}");
                ask(first, "insert into t values (7, 10)");
            }
        }
    });
}

#[test]
fn transfers_of_all_hosts_lose_nothing() {
    with_logs(2, 3, |databases| {
        let mut all: [Connected; 5] = sessions(databases, "read committed");
        let (reader, writers) = all.split_first_mut().expect("five");
        thread::scope(|scope| {
            let transfers: Vec<_> = writers
                .iter_mut()
                .zip(1u64..)
                .map(|(session, seed)| {
                    scope.spawn(move || {
                        let mut state = seed;
                        let mut random = |most: u64| {
                            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            (state >> 33) % most + 1
                        };
                        for _ in 0..100 {
                            // In one order, so that nobody waits for who waits for it.
                            let (one, two) = (random(20), random(20));
                            let (low, high) = (one.min(two), one.max(two) + 1);
                            let sum = ask(session, "begin; select sum(v) from t");
                            assert_eq!(sum, "2000");
                            ask(session, &format!("update t set v = v - 1 where id = {low}"));
                            ask(session, &format!("update t set v = v + 1 where id = {high}"));
                            assert_eq!(ask(session, "select sum(v) from t"), "2000");
                            ask(session, "commit");
                        }
                    })
                })
                .collect();
            while !transfers.iter().all(|one| one.is_finished()) {
                assert_eq!(ask(reader, "select count(*), sum(v) from t"), "200|2000");
            }
        });
        assert_eq!(ask(reader, "select count(*), sum(v) from t"), "200|2000");
    });
}

#[test]
fn where_no_logs_are_kept_all_transactions_are_serializable() {
    with_pod(2, 3, |databases| {
        let [one, two] = &mut sessions(databases, "read committed");
        ask(one, "begin; select sum(v) from t");
        assert_eq!(error_of(two, "update t set v = 1 where id = 1").split(' ').next(), Some("40001"));
        ask(one, "commit");
    });
}
