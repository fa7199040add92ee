//! Changes of tables wait for those who use these tables, and for nobody else; those wait for them. Between
//! sessions of all hosts of a pod.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and time passes")]

mod client;
mod databases;
mod sessions;
mod support;

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use client::Printed;
use sessions::{ask, connect, error_of, shown, until, waits_until, with_pod};

#[test]
fn a_change_waits_for_users_of_its_table_on_every_host() {
    with_pod(2, 3, |databases| {
        for host in [0, 1] {
            let (mut user, mut watcher) = (connect(&databases[host]), connect(&databases[0]));
            ask(&mut watcher, "create table t (a int primary key); create table other (a int)");
            ask(&mut watcher, "insert into t values (1)");
            ask(&mut user, "begin; select * from t");
            // What has nothing to do with it goes on, changes of other tables too.
            ask(&mut watcher, "alter table other add column b int; insert into other values (1, 2)");
            ask(&mut watcher, "comment on table t is 'in use'; grant select on t to public");
            let change = || {
                let mut b = connect(&databases[1]);
                ask(&mut b, "alter table t add column b int default 5; select * from t")
            };
            let said = waits_until(change, &mut watcher, || _ = ask(&mut user, "commit"));
            assert_eq!(said, "1|5");
            assert_eq!(shown(&mut watcher), "");
            ask(&mut watcher, "drop table t, other");
        }
    });
}

#[test]
fn users_wait_for_a_change_and_see_it() {
    with_pod(2, 3, |databases| {
        let (mut changes, mut watcher) = (connect(&databases[0]), connect(&databases[1]));
        ask(
            &mut watcher,
            "create table t (a int primary key); insert into t values (1); create table o (a int)",
        );
        ask(&mut watcher, "create table child (a int references t); create view v as select a from t");
        for (n, (statement, wanted)) in [
            ("select * from t", "1"),
            ("insert into t values (2)", ""),
            ("select * from v", "1 2"),
            ("insert into child values (1)", ""),
            ("begin; select * from o; select * from t; commit", "1 2"),
        ]
        .into_iter()
        .enumerate()
        {
            ask(&mut changes, &format!("begin; alter table t alter a set default {n}"));
            // Who uses other tables does not wait.
            ask(&mut watcher, "insert into o select 1 where false; select * from o");
            let used = || ask(&mut connect(&databases[1]), statement);
            let said = waits_until(used, &mut watcher, || _ = ask(&mut changes, "commit"));
            assert_eq!(said, wanted, "{statement}");
        }
        ask(&mut changes, "begin; alter table t add column b int default 7");
        let used = || ask(&mut connect(&databases[0]), "select * from t");
        assert_eq!(waits_until(used, &mut watcher, || _ = ask(&mut changes, "commit")), "1|7 2|7");
        // A change that is taken back, and a table that goes.
        ask(&mut changes, "begin; alter table t rename to gone");
        let used = || ask(&mut connect(&databases[1]), "select count(*) from t");
        let said = waits_until(used, &mut watcher, || _ = ask(&mut changes, "rollback"));
        assert_eq!(said, "2");
        ask(&mut changes, "begin; drop table child; drop view v; drop table t");
        let used = || error_of(&mut connect(&databases[1]), "select count(*) from t");
        let said = waits_until(used, &mut watcher, || _ = ask(&mut changes, "commit"));
        assert_eq!(said, "42P01 relation \"t\" does not exist");
    });
}

#[test]
fn prepared_statements_wait_and_are_planned_again() {
    with_pod(2, 3, |databases| {
        let (mut user, mut changes) = (connect(&databases[0]), connect(&databases[1]));
        let mut watcher = connect(&databases[0]);
        ask(&mut changes, "create table t (a int); insert into t values (1), (2)");
        ask(&mut user, "prepare p as select count(*) from t; execute p");
        ask(&mut changes, "begin; truncate t; insert into t values (3)");
        let said =
            waits_until(|| ask(&mut user, "execute p"), &mut watcher, || _ = ask(&mut changes, "commit"));
        assert_eq!(said, "1");
    });
}

#[test]
fn changes_of_the_catalog_follow_each_other() {
    with_pod(2, 3, |databases| {
        let (mut first, mut second) = (connect(&databases[0]), connect(&databases[1]));
        ask(&mut first, "begin; create table a (x int)");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| ask(&mut second, "create table b (x int); select count(*) from a"));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!other.is_finished());
            ask(&mut first, "create table c (x int); commit");
            assert_eq!(other.join().expect("no panic"), "0");
        });
        // A block that has looked at the catalog before, and waits in its middle, sees what it waited for.
        ask(&mut first, "begin; alter table a add column y int");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                ask(
                    &mut second,
                    "begin; select * from c; alter table a add column z int; commit; \
                     insert into a values (1, 2, 3); select * from a",
                )
            });
            std::thread::sleep(Duration::from_millis(100));
            assert!(!other.is_finished());
            ask(&mut first, "commit");
            assert_eq!(other.join().expect("no panic"), "1|2|3");
        });
    });
}

#[test]
fn waits_end_with_their_time_and_with_cycles() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        ask(&mut a, "create table t (x int); create table u (x int)");
        ask(&mut a, "begin; select * from t");
        ask(&mut b, "set lock_timeout = 50");
        let told = "55P03 canceling statement due to lock timeout";
        assert_eq!(error_of(&mut b, "alter table t add column y int"), told);
        assert_eq!(error_of(&mut b, "begin; select * from u; savepoint s; drop table t"), told);
        assert_eq!(ask(&mut b, "rollback to s; select count(*) from u; commit"), "0");
        // It is nobody's meanwhile.
        ask(&mut a, "insert into t values (1); commit");
        ask(&mut a, "begin; alter table t add column y int");
        assert_eq!(error_of(&mut b, "select * from t"), told);
        assert_eq!(error_of(&mut b, "create table w (x int)"), told);
        assert_eq!(ask(&mut b, "select count(*) from u"), "0");
        ask(&mut a, "commit");
        // Each uses what the other wants to change.
        ask(&mut b, "set lock_timeout = 0; set deadlock_timeout = 50");
        ask(&mut a, "set deadlock_timeout = 50; begin; select * from t");
        ask(&mut b, "begin; select * from u");
        let told = AtomicI32::new(0);
        std::thread::scope(|scope| {
            for (session, statement) in
                [(&mut a, "alter table u add column z int"), (&mut b, "alter table t add column z int")]
            {
                let told = &told;
                scope.spawn(move || {
                    if let Err(error) = session.simple(statement, &mut Printed::default()) {
                        assert_eq!(error.state.to_string(), "40P01", "{error}");
                        told.fetch_add(1, Ordering::SeqCst);
                    }
                    ask(session, "rollback");
                });
            }
        });
        assert_eq!(told.load(Ordering::SeqCst), 1, "one of two");
        assert_eq!(ask(&mut a, "select count(*) from pg_locks where locktype = 'relation'"), "0");
    });
}

#[test]
fn lock_table_keeps_others_out() {
    with_pod(2, 3, |databases| {
        let (mut a, mut b) = (connect(&databases[0]), connect(&databases[1]));
        let mut watcher = connect(&databases[0]);
        ask(&mut a, "create table t (x int); insert into t values (1)");
        ask(&mut a, "begin; lock table t");
        let refused = "55P03 could not obtain lock on relation \"t\"";
        assert_eq!(error_of(&mut b, "begin; lock table t nowait"), refused);
        ask(&mut b, "rollback");
        until("one lock", || shown(&mut watcher) == "t|AccessExclusiveLock|t");
        let used = || ask(&mut b, "update t set x = x + 1; select * from t");
        assert_eq!(waits_until(used, &mut watcher, || _ = ask(&mut a, "commit")), "2");
        // Two that both want it: one after the other, and no conflict.
        let sum = AtomicI32::new(0);
        std::thread::scope(|scope| {
            for n in 0..4 {
                let (database, sum) = (&databases[n % 2], &sum);
                scope.spawn(move || {
                    let mut session = connect(database);
                    for _ in 0..10 {
                        ask(
                            &mut session,
                            "begin; lock table t in exclusive mode; update t set x = x + 1; commit",
                        );
                        sum.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(ask(&mut a, "select x from t"), (2 + sum.load(Ordering::SeqCst)).to_string());
        // A table that goes while somebody waits for it.
        ask(&mut a, "begin; drop table t");
        let lock = || error_of(&mut b, "begin; lock table t");
        let said = waits_until(lock, &mut watcher, || _ = ask(&mut a, "commit"));
        assert!(said.starts_with("42P01 "), "{said}");
    });
}

#[test]
fn traffic_goes_on_beside_changes_of_other_tables() {
    with_pod(2, 3, |databases| {
        let mut a = connect(&databases[0]);
        ask(
            &mut a,
            "create table busy (id int primary key, n int); \
             insert into busy select g, 0 from generate_series(1, 20) g",
        );
        let (stop, runs) = (AtomicBool::new(false), AtomicI32::new(0));
        std::thread::scope(|scope| {
            for n in 0..4 {
                let (database, stop, runs) = (&databases[n % 2], &stop, &runs);
                scope.spawn(move || {
                    let mut session = connect(database);
                    if n >= 2 {
                        // There are no logs, so it is serializable and waits as the others do.
                        ask(&mut session, "set default_transaction_isolation = 'read committed'");
                    }
                    while !stop.load(Ordering::SeqCst) {
                        let id = n * 5 + 1;
                        ask(
                            &mut session,
                            &format!(
                                "begin; select * from busy where id = {id}; \
                                 update busy set n = n + 1 where id = {id}; commit"
                            ),
                        );
                        runs.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            for n in 0..20 {
                let (mut b, before) = (connect(&databases[n % 2]), runs.load(Ordering::SeqCst));
                if n % 4 < 2 {
                    ask(&mut b, "set default_transaction_isolation = 'read committed'");
                }
                ask(
                    &mut b,
                    &format!(
                        "create table made_{n} (id int primary key); create index on made_{n} (id); \
                         insert into made_{n} values (1)"
                    ),
                );
                ask(&mut b, &format!("alter table made_{n} add column more text; drop table made_{n}"));
                // Of a busy table too: it gets its turn.
                ask(&mut b, &format!("alter table busy add column c{n} int default {n}"));
                until("others go on", || runs.load(Ordering::SeqCst) > before);
            }
            stop.store(true, Ordering::SeqCst);
        });
        assert_eq!(ask(&mut a, "select sum(n) from busy"), runs.load(Ordering::SeqCst).to_string());
    });
}

#[test]
fn what_is_prepared_in_a_block_waits_as_what_is_run() {
    with_pod(2, 3, |databases| {
        let (mut user, mut changes) = (connect(&databases[0]), connect(&databases[1]));
        let mut watcher = connect(&databases[0]);
        ask(&mut changes, "create table t (a int); create table o (a int); insert into o values (4)");
        // Its first statement could have begun anew; a Parse behind it cannot.
        ask(&mut user, "begin; select * from o");
        ask(&mut changes, "begin; alter table t add column b int");
        let parse = || {
            user.parse("p", "select * from t", &[]).map_or_else(|error| error.to_string(), |()| "well".into())
        };
        assert_eq!(waits_until(parse, &mut watcher, || _ = ask(&mut changes, "commit")), "well");
        let columns = user.describe_statement("p").expect("it was made").columns.map(<[_]>::len);
        assert_eq!(columns, Some(2));
        assert_eq!(ask(&mut user, "select * from o; commit"), "4", "the block goes on");
    });
}
