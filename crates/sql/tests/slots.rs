//! Slots on real pods: sessions on threads, changes of the catalog under load, and what outlives a pod.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "sessions are threads, and costs are measured")]

mod support;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use liger_engine::db::{DataDirectory, Host, JoinOptions, Pod, PodConfig};
use liger_engine::{Session, Transaction};
use liger_fabric::HostId;
use liger_fabric::native::MemorySpec;
use liger_sql::catalog::HostCatalog;
use liger_sql::catalog::change::NewIndex;
use liger_sql::catalog::check;
use liger_sql::catalog::definition::Held;
use liger_sql::catalog::object::IndexColumn;
use liger_sql::slots::{Running, Slots};
use liger_sql::storage::access::{Access, RowAccess, is_conflict, transact};
use liger_sql::storage::bulk::at_once;
use liger_sql::storage::classes::{Classes, Home};
use liger_sql::storage::table::PlainColumns;
use liger_sql::{SqlError, SqlState, Value};
use support::{Folder, SqlHost, account, accounts, oid_of, open, pod};

/// How long a transaction is tried again, and the pause before that.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(1);

/// Runs all hosts' workers while `sessions` runs.
fn serve(hosts: Vec<SqlHost>, workers: u8, sessions: impl FnOnce(&[Arc<Slots>])) -> Vec<SqlHost> {
    let slots: Vec<Arc<Slots>> = hosts.iter().map(|_| Slots::new()).collect();
    std::thread::scope(|scope| {
        let run = |(mut it, slots): (SqlHost, Arc<Slots>)| {
            scope.spawn(move || {
                it.lend(&slots, workers);
                it
            })
        };
        let threads: Vec<_> = hosts.into_iter().zip(slots.iter().cloned()).map(run).collect();
        let ran = catch_unwind(AssertUnwindSafe(|| sessions(&slots)));
        slots.iter().for_each(|slots| slots.close());
        ran.unwrap_or_else(|panic| resume_unwind(panic));
        threads.into_iter().map(|thread| thread.join().expect("no host panicked")).collect()
    })
}

/// Runs a transaction of one job, and again after conflicts, resting in between without a worker.
fn once<R>(
    slots: &Arc<Slots>,
    changes_catalog: bool,
    mut job: impl FnMut(&mut Running<'_>) -> liger_sql::Result<R>,
) -> liger_sql::Result<R> {
    let started = Instant::now();
    loop {
        let slot = slots.begin(changes_catalog, &mut || Ok(()))?;
        let made = slot.call(|running| {
            let made = job(running)?;
            running.catalog.finish(running.tx)?;
            Ok(made)
        });
        let ended = match made {
            Ok(made) => slot.commit(None, &mut || ()).map(|()| made),
            Err(error) => {
                drop(slot);
                Err(error)
            }
        };
        match ended {
            Err(error) if is_conflict(&error) && started.elapsed() < PATIENCE => sleep(PAUSE),
            ended => return ended,
        }
    }
}

/// Puts a row where nobody changes the table meanwhile.
fn put(running: &mut Running<'_>, table: &str, id: i32) -> liger_sql::Result<()> {
    let Some(oid) = oid_of(running.catalog, table) else { return Ok(()) };
    if running.catalog.hold(running.tx, oid)? != Held::Here {
        return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, "somebody changes the table"));
    }
    let rows = running.catalog.catalog().rows(oid)?;
    let values = account(id, "somebody", i64::from(id % 7));
    rows.insert(running.tx, running.host.numbers(), &values, &PlainColumns).map(|_| ())
}

#[test]
fn tables_change_while_sessions_of_all_hosts_work() {
    let (_, hosts) = pod(2);
    let mut hosts = serve(hosts, 2, |slots| {
        once(&slots[0], true, |r| accounts(r.catalog, r.tx, "t").map(|_| ())).expect("a table");
        std::thread::scope(|scope| {
            for (n, slots) in slots.iter().enumerate() {
                scope.spawn(move || {
                    for id in 0..150 {
                        once(slots, false, move |r| put(r, "t", 2 * id + n as i32)).expect("put");
                    }
                });
            }
            let slots = slots[1].clone();
            scope.spawn(move || {
                for round in 0..6 {
                    let made = once(&slots, true, move |r| {
                        let table = oid_of(r.catalog, "t").expect("it stays");
                        let columns = vec![IndexColumn::of(2)];
                        let name = format!("by_balance_{round}");
                        let new = NewIndex { name, table, columns, ..NewIndex::default() };
                        let index = r.catalog.create_index(r.tx, new)?.oid;
                        let rows = r.catalog.catalog().rows(table)?;
                        rows.fill_index(&at_once(r.tx), index, &PlainColumns)?;
                        Ok(index)
                    });
                    let index = made.expect("an index");
                    if round % 2 == 0 {
                        once(&slots, true, move |r| r.catalog.drop_object(r.tx, index)).expect("dropped");
                    }
                }
            });
        });
    });
    let problems = hosts[0].run(|tx, working| {
        let rows = working.catalog().rows(oid_of(working, "t").expect("it stays"))?;
        let mut count = 0;
        rows.each(tx, |_, _| {
            count += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        assert_eq!(count, 300);
        check::problems(tx, working.catalog(), &PlainColumns)
    });
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn a_slot_is_a_transaction_and_waits_for_nothing_meanwhile() {
    let (_, hosts) = pod(1);
    serve(hosts, 2, |slots| {
        let slots = &slots[0];
        once(slots, true, |r| accounts(r.catalog, r.tx, "t").map(|_| ())).expect("a table");
        let slot = slots.begin(false, &mut || Ok(())).expect("a slot");
        slot.call(|r| put(r, "t", 1)).expect("put");
        // A number of its own, in the middle.
        slots.aside(|r| r.catalog.take_oids(r.tx, 0, 1)).expect("worker 0 is free");
        slot.commit(None, &mut || ()).expect("nobody else is there");
        let slot = slots.begin(false, &mut || Ok(())).expect("a slot");
        slot.call(|r| put(r, "t", 2)).expect("put");
        drop(slot);
        let slot = slots.begin(false, &mut || Ok(())).expect("a slot");
        let there = slot.call(|r| {
            let rows = r.catalog.catalog().rows(oid_of(r.catalog, "t").expect("made above"))?;
            let there = |r: &mut Running<'_>, id| {
                let key = rows.key_of(r.tx, &[&Value::Int4(id)])?;
                Ok::<_, liger_sql::SqlError>(rows.get(r.tx, &key)?.is_some())
            };
            Ok((there(r, 1)?, there(r, 2)?))
        });
        assert_eq!(there.expect("read"), (true, false));
        let late = slot.call(|r| put(r, "t", 1)).expect_err("it is there");
        assert!(late.state == SqlState::UNIQUE_VIOLATION && !is_conflict(&late));
        // The only worker that is lent has been lent.
        let busy = || SqlError::new(SqlState::QUERY_CANCELED, "enough");
        let waited = slots.begin(false, &mut || Err(busy())).map(|_| ()).expect_err("nobody is free");
        assert_eq!(waited.state, SqlState::QUERY_CANCELED);
        slot.call(|r| put(r, "t", 3)).expect("put");
        // The slot is not given back: closing rolls it back.
        slots.close();
        let taken = std::iter::repeat_with(|| slot.call(|_| Ok(()))).find_map(Result::err);
        assert_eq!(taken.map(|error| error.state), Some(SqlState::ADMIN_SHUTDOWN));
    });
}

#[test]
fn the_catalog_and_all_rows_outlive_the_pod() {
    let folder = Folder::new();
    let config = PodConfig { partitions: 4, ..PodConfig::new(2, 2, 8 << 20, 96 << 20) };
    let make = || Pod::create(&MemorySpec::Memfd, &config, &Classes::schemas()).expect("a pod");
    let join = |pod: &Pod, data: &DataDirectory, n| -> Host {
        let mut options = JoinOptions::new(pod.plan());
        options.storage = Some(data.hold(&pod.control(), HostId(n)).expect("nobody holds it"));
        pod.join_with(HostId(n), options).expect("a free number")
    };
    let first = make();
    let data = DataDirectory::create(&first.control(), &folder.0, first.identity(7)).expect("a new folder");
    let joined: Vec<Host> = (0..2).map(|n| join(&first, &data, n)).collect();
    let mut hosts: Vec<SqlHost> = joined.into_iter().map(|host| open(&first, host)).collect();
    hosts.iter_mut().for_each(|it| it.host.checkpoint().expect("a good disk"));
    let table = hosts[0].run(|tx, working| accounts(working, tx, "kept")).oid;
    let SqlHost { host, catalog } = &mut hosts[1];
    let filled = host.alone(|session| {
        transact(session, |tx| {
            let rows = catalog.begin(tx)?.rows(table)?;
            let put = |id| {
                rows.insert(
                    tx,
                    catalog.numbers(),
                    &account(id, &"x".repeat(id as usize * 9), 1),
                    &PlainColumns,
                )
            };
            (0..50).map(put).collect::<liger_sql::Result<Vec<_>>>()
        })
    });
    assert_eq!(filled.expect("filled").len(), 50);
    drop(hosts);
    drop((data, first));
    let second = make();
    let data = DataDirectory::open(&second.control(), &folder.0, second.identity(0)).expect("the folder");
    data.begin(&second.control()).expect("sound files");
    let plan = data.plan_of_begun(&second.control()).expect("sound files");
    let mut joined: Vec<Host> = (0..2).map(|n| join(&second, &data, n)).collect();
    for host in &mut joined {
        host.recover(&data, &plan, 2).expect("sound files");
    }
    let mut hosts: Vec<SqlHost> = joined.into_iter().map(|host| open(&second, host)).collect();
    hosts[1].run(|tx, working| {
        assert_eq!(oid_of(working, "kept"), Some(table));
        let rows = working.catalog().rows(table)?;
        let key = rows.key_of(tx, &[&Value::Int4(49)])?;
        let row = rows.get(tx, &key)?.expect("it was acknowledged");
        assert_eq!(row.values[1].as_str().map(str::len), Some(441));
        assert_eq!(check::problems(tx, working.catalog(), &PlainColumns)?, Vec::<String>::new());
        Ok(())
    });
    hosts[0].run(|tx, working| accounts(working, tx, "more").map(|_| ()));
}

/// Nanoseconds of one of so many.
fn each(times: u32, work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_nanos() as f64 / f64::from(times)
}

/// Figures: `cargo test --release -p liger-sql --test slots -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures"]
fn what_it_costs() {
    const TIMES: u32 = 100_000;
    let (pod, mut hosts) = pod(2);
    let (usage, classes) =
        (hosts[0].host.alone(|s| s.host().usage(s.cx())), Classes::of(pod.catalog()).len());
    println!("{classes} classes, {} places: {usage:?}", pod.plan().config().partitions);
    let table = hosts[0].run(|tx, working| accounts(working, tx, "t")).oid;
    let SqlHost { host, catalog } = &mut hosts[0];
    let catalog: &HostCatalog = catalog;
    host.alone(|session| {
        let (engine, cx) = (session.host(), session.cx());
        transact(session, |tx| {
            let rows = catalog.begin(tx)?.rows(table)?;
            (0..1000).try_for_each(|id| {
                rows.insert(tx, catalog.numbers(), &account(id, "somebody", 5), &PlainColumns).map(|_| ())
            })
        })
        .expect("filled");
        let (mut own, mut keys) = (Vec::new(), Vec::new());
        transact(session, |tx| {
            let rows = catalog.begin(tx)?.rows(table)?;
            for id in 0..1000 {
                let key = rows.key_of(tx, &[&Value::Int4(id)])?;
                if tx.is_own(Home::place_of(&key)) {
                    own.push(id);
                    keys.push(key);
                }
            }
            Ok(())
        })
        .expect("looked at");
        let at = |n: u32| n as usize % own.len();
        let empty = each(TIMES, || (0..TIMES).for_each(|_| session.attempt(|_| Ok(())).expect("nothing")));
        let version = each(TIMES, || {
            (0..TIMES).for_each(|_| {
                let read =
                    session.attempt(|txn| Ok(catalog.begin(&mut RowAccess::new(txn, engine, cx)).is_ok()));
                assert!(read.expect("read"));
            });
        });
        let engine_table = classes_table(&pod, catalog, table);
        let raw = each(TIMES, || {
            (0..TIMES).for_each(|n| {
                let found = session.attempt(|txn| txn.get(engine_table, &keys[at(n)], |row| row.bytes()[20]));
                assert!(found.expect("read").is_some());
            });
        });
        let stored = each(TIMES, || {
            let rows = catalog.cached().rows(table).expect("made above");
            (0..TIMES).for_each(|n| {
                let found = session.attempt(|txn| {
                    let tx = &mut RowAccess::new(txn, engine, cx);
                    let key = rows.key_of(tx, &[&Value::Int4(own[at(n)])]).expect("a key");
                    Ok(rows.get(tx, &key).expect("read").is_some())
                });
                assert!(found.expect("read"));
            });
        });
        let whole = each(TIMES, || {
            (0..TIMES).for_each(|n| {
                transact(session, |tx| {
                    let rows = catalog.begin(tx)?.rows(table)?;
                    let key = rows.key_of(tx, &[&Value::Int4(own[at(n)])])?;
                    assert!(rows.get(tx, &key)?.is_some());
                    Ok(())
                })
                .expect("read");
            });
        });
        println!("ns a transaction: empty {empty:.0}, version {version:.0}, raw get {raw:.0}");
        println!("ns a transaction: get by storage {stored:.0}, version and get {whole:.0}");
    });
    serve(hosts, 2, |slots| {
        let slots = &slots[0];
        let times = 5000;
        let once = each(times, || (0..times).for_each(|_| once(slots, false, |_| Ok(())).expect("nothing")));
        println!("ns of an empty transaction through a slot, from another thread: {once:.0}");
    });
}

fn classes_table(pod: &Pod, catalog: &HostCatalog, table: u32) -> liger_engine::TableId {
    let size = catalog.cached().table(table).expect("made above").rows.size;
    Classes::of(pod.catalog()).table(size).expect("it has rows")
}

#[test]
fn workers_are_lent_in_turn() {
    let (_, hosts) = pod(1);
    serve(hosts, 2, |slots| {
        let slots = &slots[0];
        let only = slots.begin(false, &mut || Ok(())).expect("a worker");
        let served = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for n in 0..4 {
                // Who waits is asked whether it goes on when it has come and each time it has waited a while.
                let (asked, asks) = channel();
                let served = &served;
                scope.spawn(move || {
                    let mut waits = || {
                        asked.send(()).expect("the questions are counted");
                        Ok(())
                    };
                    let slot = slots.begin(false, &mut waits).expect("a worker");
                    served.lock().expect("nobody panics").push(n);
                    drop(slot);
                });
                (0..2).for_each(|_| asks.recv().expect("it waits"));
                // Later questions are not looked at.
                scope.spawn(move || asks.into_iter().count());
            }
            // Gives its worker back and asks for it again at once, which is sooner than anybody can wake up.
            drop(only);
            let again = slots.begin(false, &mut || Ok(())).expect("a worker");
            assert_eq!(*served.lock().expect("nobody panics"), [0, 1, 2, 3], "all of them were there first");
            drop(again);
        });
    });
}

#[test]
fn turns_follow_one_another() {
    let (slots, inside) = (Slots::new(), Mutex::new(()));
    let (begun, came_us) = (Instant::now(), AtomicU64::new(0));
    let now_us = || begun.elapsed().as_micros() as u64;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let came = now_us();
                    let turn = slots.turns().take(&mut || Ok(())).expect("it comes");
                    if let Ok(alone) = inside.try_lock() {
                        came_us.store(came, Ordering::Release);
                        std::thread::yield_now();
                        drop(alone);
                    } else {
                        // Its turn has gone to another because the system did not run it for long enough.
                        let since = now_us() - came_us.load(Ordering::Acquire);
                        assert!(since >= 20_000, "two had a turn after {since} us");
                    }
                    drop(turn);
                }
            });
        }
    });
}
