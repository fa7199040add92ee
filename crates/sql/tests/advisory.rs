//! Advisory locks, between sessions of all hosts of a pod.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and time passes")]

mod client;
mod databases;
mod sessions;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use client::Printed;
use liger_sql::session::{Interrupt, InterruptReason};
use liger_sql::storage::advisory::{Holder, Lock, Mode, Request, acquire, all};
use sessions::{Connected, ask, connect, connect_with, error_of, until, with_pod};

/// Advisory locks as any session sees them.
fn shown(session: &mut Connected) -> String {
    let sql = "select classid, objid, objsubid, mode, granted from pg_locks where locktype = 'advisory' \
               order by classid, objid, mode, granted";
    ask(session, sql)
}

#[test]
fn a_lock_of_one_host_is_one_of_all() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        assert_eq!(ask(&mut a, "select pg_advisory_lock(7)"), "");
        assert_eq!(ask(&mut a, "select pg_try_advisory_lock(7)"), "t");
        assert_eq!(ask(&mut b, "select pg_try_advisory_lock(7), pg_try_advisory_lock_shared(7)"), "f|f");
        assert_eq!(ask(&mut b, "select pg_try_advisory_lock(0, 7), pg_try_advisory_lock(8)"), "t|t");
        assert_eq!(shown(&mut b), "0|7|1|ExclusiveLock|t 0|7|2|ExclusiveLock|t 0|8|1|ExclusiveLock|t");
        // Taken twice, given back twice.
        assert_eq!(ask(&mut a, "select pg_advisory_unlock(7)"), "t");
        assert_eq!(ask(&mut b, "select pg_try_advisory_lock(7)"), "f");
        assert_eq!(ask(&mut b, "select pg_advisory_unlock(7)"), "f");
        assert_eq!(ask(&mut a, "select pg_advisory_unlock(7), pg_advisory_unlock(7)"), "t|f");
        assert_eq!(ask(&mut b, "select pg_try_advisory_lock(7)"), "t");
        assert_eq!(ask(&mut b, "select pg_advisory_unlock_all()"), "");
        assert_eq!(shown(&mut a), "");
    });
}

#[test]
fn shared_locks_keep_exclusive_ones_out() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        ask(&mut a, "select pg_advisory_lock_shared(-1)");
        assert_eq!(ask(&mut b, "select pg_try_advisory_lock_shared(-1), pg_try_advisory_lock(-1)"), "t|f");
        assert_eq!(ask(&mut a, "select pg_try_advisory_lock(-1), pg_advisory_unlock(-1)"), "f|f");
        assert_eq!(ask(&mut b, "select pg_advisory_unlock_shared(-1)"), "t");
        // Its own shared lock is in nobody's way but others'.
        assert_eq!(ask(&mut a, "select pg_try_advisory_lock(-1)"), "t");
        assert_eq!(ask(&mut a, "select pg_advisory_unlock(-1)"), "t");
        assert_eq!(ask(&mut b, "select pg_try_advisory_lock(-1), pg_try_advisory_lock_shared(-1)"), "f|t");
        assert_eq!(shown(&mut a), "4294967295|4294967295|1|ShareLock|t 4294967295|4294967295|1|ShareLock|t");
    });
}

#[test]
fn transactions_and_sessions_end_their_own() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        let free = |b: &mut Connected, key: i32| {
            let got = ask(b, &format!("select pg_try_advisory_lock({key})")) == "t";
            if got {
                ask(b, &format!("select pg_advisory_unlock({key})"));
            }
            got
        };
        ask(&mut a, "begin; select pg_advisory_xact_lock(1), pg_advisory_lock(2); savepoint s");
        ask(&mut a, "select pg_advisory_xact_lock(3), pg_advisory_lock(4), pg_advisory_xact_lock(1)");
        assert_eq!([1, 2, 3, 4].map(|key| free(&mut b, key)), [false; 4]);
        ask(&mut a, "rollback to s");
        assert_eq!([1, 2, 3, 4].map(|key| free(&mut b, key)), [false, false, true, false]);
        assert_eq!(ask(&mut a, "select pg_advisory_unlock(1)"), "f", "those of transactions end with them");
        ask(&mut a, "rollback");
        assert_eq!([1, 2, 3, 4].map(|key| free(&mut b, key)), [true, false, true, false]);
        // A failure ends the transaction's locks at once.
        ask(&mut a, "begin; select pg_advisory_xact_lock(1)");
        assert_eq!(
            error_of(&mut a, "select pg_advisory_xact_lock(5), 1 / (select 0)"),
            "22012 division by zero"
        );
        assert_eq!([1, 5, 2].map(|key| free(&mut b, key)), [true, true, false]);
        ask(&mut a, "rollback");
        // By itself a statement is a transaction; what it locks for the session stays, failed or not.
        assert_eq!(error_of(&mut a, "select pg_advisory_lock(6), 1 / (select 0)"), "22012 division by zero");
        ask(&mut a, "select pg_advisory_xact_lock(7)");
        assert_eq!([6, 7].map(|key| free(&mut b, key)), [false, true]);
        ask(&mut a, "discard all");
        assert_eq!([2, 4, 6].map(|key| free(&mut b, key)), [true; 3]);
        ask(&mut a, "select pg_advisory_lock(8); begin; select pg_advisory_xact_lock(9)");
        drop(a);
        until("the session's locks are given back", || free(&mut b, 8) && free(&mut b, 9));
        assert_eq!(shown(&mut b), "");
    });
}

#[test]
fn who_waits_is_woken_and_counts_once() {
    with_pod(2, 3, |databases| {
        let (mut a, mut watcher) = (connect(&databases[0]), connect(&databases[0]));
        let begun = Instant::now();
        for _ in 0..8 {
            ask(&mut a, "select pg_advisory_lock(2)");
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| {
                    let mut b = connect(&databases[1]);
                    ask(&mut b, "select pg_advisory_lock(1), pg_advisory_lock(2)");
                    ask(&mut b, "select pg_advisory_unlock(1), pg_advisory_unlock(1), pg_advisory_unlock(2)")
                });
                until("it is shown as waiting", || shown(&mut watcher).contains("0|2|1|ExclusiveLock|f"));
                ask(&mut a, "select pg_advisory_unlock(2)");
                assert_eq!(waits.join().expect("no panic"), "t|f|t", "a statement that begins anew");
            });
        }
        // Without a bell each would take a quarter of a second.
        println!("8 hand-overs in {:?}", begun.elapsed());
        until("nothing is left", || shown(&mut watcher).is_empty());
    });
}

#[test]
fn waiting_ends_when_it_is_told_to() {
    with_pod(2, 3, |databases| {
        let interrupt = Arc::new(Interrupt::default());
        let (mut a, mut b) = (connect(&databases[0]), connect_with(&databases[1], interrupt.clone()));
        ask(&mut a, "select pg_advisory_lock(1)");
        ask(&mut b, "create table t (x int)");
        for begin in ["", "begin; ", "begin; insert into t values (1); "] {
            let sql = format!("{begin}select pg_advisory_lock(1)");
            let begun = Instant::now();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(60));
                    interrupt.raise(InterruptReason::Cancel);
                });
                assert_eq!(error_of(&mut b, &sql), "57014 canceling statement due to user request");
            });
            interrupt.rearm();
            ask(&mut b, "rollback");
            ask(&mut b, "set lock_timeout = 40");
            assert_eq!(error_of(&mut b, &sql), "55P03 canceling statement due to lock timeout");
            ask(&mut b, "rollback");
            ask(&mut b, "set lock_timeout = 0");
            assert!(begun.elapsed() < Duration::from_secs(3), "{:?}: {sql}", begun.elapsed());
        }
        assert_eq!(ask(&mut b, "select count(*) from t"), "0");
        until("nobody waits", || shown(&mut a) == "0|1|1|ExclusiveLock|t");
    });
}

#[test]
fn of_two_that_wait_for_each_other_one_is_told() {
    with_pod(2, 3, |databases| {
        for begin in ["select 1", "begin", "begin; insert into t values (1)"] {
            let mut a = connect(&databases[0]);
            ask(&mut a, "create table if not exists t (x int)");
            let wait = |at: usize, own: i32, other: i32, met: &std::sync::Barrier| {
                let mut session = connect(&databases[at]);
                ask(&mut session, "set deadlock_timeout = '50ms'");
                ask(&mut session, begin);
                ask(&mut session, &format!("select pg_advisory_lock({own})"));
                met.wait();
                session
                    .simple(&format!("select pg_advisory_lock({other})"), &mut Printed::default())
                    .map_err(|error| format!("{} {:?}", error.state, error.detail))
            };
            let met = std::sync::Barrier::new(2);
            let (one, two) = std::thread::scope(|scope| {
                let one = scope.spawn(|| wait(0, 1, 2, &met));
                let two = scope.spawn(|| wait(1, 2, 1, &met));
                (one.join().expect("no panic"), two.join().expect("no panic"))
            });
            assert!(one.is_ok() != two.is_ok(), "{begin}: {one:?}, {two:?}");
            let told = one.and(two).expect_err("one of them");
            assert!(told.starts_with("40P01 Some(\"Process "), "{told}");
            assert!(told.contains(" waits for ExclusiveLock on advisory lock [5,0,"), "{told}");
        }
    });
}

#[test]
fn who_waits_keeps_no_worker_from_others() {
    // Two workers for sessions, four of which wait.
    with_pod(1, 3, |databases| {
        let mut a = connect(&databases[0]);
        ask(&mut a, "create table t (x int)");
        ask(&mut a, "select pg_advisory_lock(1)");
        std::thread::scope(|scope| {
            let wait = |at: usize| {
                let mut session = connect(&databases[0]);
                let begin = ["select 1", "begin"][at % 2];
                ask(&mut session, begin);
                ask(&mut session, "select pg_advisory_xact_lock(1)");
            };
            let waits: Vec<_> = (0..4).map(|at| scope.spawn(move || wait(at))).collect();
            until("all wait", || shown(&mut a).matches("|f").count() == 4);
            ask(&mut a, "select pg_advisory_unlock(1)");
            waits.into_iter().for_each(|one| one.join().expect("no panic"));
        });
        // Those that have done something keep their workers: one of them is told.
        ask(&mut a, "select pg_advisory_lock(1)");
        std::thread::scope(|scope| {
            let wait = || {
                let mut session = connect(&databases[0]);
                ask(&mut session, "set deadlock_timeout = '100ms'; begin; insert into t values (1)");
                session
                    .simple("select pg_advisory_lock(1)", &mut Printed::default())
                    .map_err(|error| error.state.to_string())
            };
            let waits = [scope.spawn(wait), scope.spawn(wait)];
            ask(&mut a, "select pg_sleep(0.3)");
            ask(&mut a, "select pg_advisory_unlock(1)");
            let ended = waits.map(|one| one.join().expect("no panic"));
            println!("{ended:?}");
            assert!(ended.iter().all(|one| one.as_ref().map_or_else(|state| state == "40P01", |()| true)));
        });
    });
}

#[test]
fn at_most_one_session_is_inside() {
    with_pod(2, 3, |databases| {
        let inside = AtomicI32::new(0);
        let run = |at: usize| {
            let mut session = connect(&databases[at % 2]);
            for _ in 0..30 {
                ask(&mut session, "select pg_advisory_lock(42)");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two sessions are inside");
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(ask(&mut session, "select pg_advisory_unlock(42)"), "t");
            }
        };
        std::thread::scope(|scope| {
            let run = &run;
            (0..4).for_each(|at| _ = scope.spawn(move || run(at)));
        });
    });
}

#[test]
fn locks_of_lives_that_have_ended_are_free() {
    let (pod, mut hosts) = support::pod(2);
    let lives: Vec<u32> = hosts.iter().map(|host| host.catalog.numbers().life() as u32).collect();
    let classes = hosts[0].catalog.classes().clone();
    let by = |host: u8, life: u32, lock: i64| Request {
        lock: Lock::One(lock),
        mode: Mode::Exclusive,
        holder: Holder { host, life, process_id: 1 },
    };
    let mut take = |wanted: Request, since| hosts[0].run(|tx, _| acquire(tx, &classes, &wanted, since));
    assert!(take(by(1, lives[1], 1), None));
    assert!(!take(by(0, lives[0], 1), Some(5)));
    assert!(!take(by(0, lives[0], 1), Some(5)), "a request waits once");
    // Of an earlier life of host 1, and of a host that is no member.
    assert!(take(by(1, lives[1] + 9, 2), None) && take(by(7, 1, 3), None));
    assert!(take(by(0, lives[0], 2), None) && take(by(0, lives[0], 3), None));
    assert_eq!(hosts[0].run(|tx, _| all(tx, &classes)).len(), 4);
    // Host 1 comes again: of what it held nothing is left.
    let two = hosts.pop().expect("host 1");
    let again = support::open(&pod, two.host);
    assert!(hosts[0].run(|tx, _| acquire(tx, &classes, &by(0, lives[0], 1), None)));
    assert!(hosts[0].run(|tx, _| all(tx, &classes)).iter().all(|entry| entry.request.holder.host == 0));
    assert!(again.catalog.numbers().life() > u64::from(lives[1]));
}
