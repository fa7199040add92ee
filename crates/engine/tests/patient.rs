//! Transactions that wait for rows that others hold.

#![expect(clippy::disallowed_methods, reason = "hosts are threads")]

use std::thread;

use liger_engine::db::{JoinOptions, Pod, PodConfig};
use liger_engine::row::policy::Patient;
use liger_engine::{Conflict, Key, NewRow, Session, TableId, Transaction, TxnError, table};
use liger_fabric::HostId;
use liger_fabric::native::MemorySpec;

table! {
    /// Counters by number.
    pub mod counters: "counters" {
        ID: Int,
        VALUE: BigInt,
    }
    primary key (ID);
}

const HOSTS: u8 = 2;
const WORKERS: u8 = 2;
const TIMES: i64 = 200;

fn add<T: Transaction>(tx: &mut T, table: TableId, id: i32) -> Result<(), TxnError> {
    let there = tx.update(table, &Key::build().i32(id).finish(), |row| {
        let value = row.get(counters::VALUE);
        row.set(counters::VALUE, value + 1);
    })?;
    assert!(there.is_some());
    Ok(())
}

/// Runs transactions on all workers of two hosts, which wait so long; counters 1 and 2 in the end, and how
/// often a transaction was given up for another one.
fn run(wait: &'static Patient, backwards: bool) -> (Vec<i64>, usize) {
    let config = PodConfig::new(HOSTS, WORKERS, 4 << 20, 64 << 20);
    let pod = Pod::create(&MemorySpec::Memfd, &config, &[counters::schema()]).expect("memory");
    let table = pod.catalog().table_named("counters").expect("declared above");
    let mut hosts: Vec<_> = (0..HOSTS)
        .map(|host| {
            let mut options = JoinOptions::new(pod.plan());
            options.engine.wait = wait;
            pod.join_with(HostId(host), options).expect("a sound memory")
        })
        .collect();
    for host in &mut hosts {
        let filled = host.load(|rows| {
            (1..=2).try_for_each(|id| {
                let mut row = NewRow::new(counters::ROW_LEN);
                row.set(counters::ID, id).set(counters::VALUE, 0);
                rows.put(table, &row)
            })
        });
        filled.expect("there is room");
    }
    let given_up = thread::scope(|scope| {
        let running: Vec<_> = hosts
            .iter_mut()
            .map(|host| {
                scope.spawn(move || {
                    let number = host.id().0;
                    host.run(WORKERS, |session| {
                        let (mut done, mut given_up) = (0, 0);
                        let order = if backwards && number == 1 { [2, 1] } else { [1, 2] };
                        while done < TIMES {
                            match session.transact(|tx| order.iter().try_for_each(|id| add(tx, table, *id))) {
                                Ok(()) => done += 1,
                                Err(TxnError::Conflict(conflict)) => {
                                    // What moves is looked for again, and not waited for.
                                    given_up += usize::from(conflict != Conflict::Moved);
                                    session.back_off(4);
                                }
                                Err(other) => panic!("{other}"),
                            }
                        }
                        given_up
                    })
                })
            })
            .collect();
        let ended = running.into_iter().flat_map(|host| host.join().expect("no host panicked"));
        ended.map(|worker| worker.expect("no worker panicked")).sum()
    });
    let values = hosts[0].alone(|session| {
        session.transact(|tx| {
            [1, 2].into_iter().try_fold(Vec::new(), |mut values, id| {
                let key = Key::build().i32(id).finish();
                values.extend(tx.get(table, &key, |row| row.get(counters::VALUE))?);
                Ok(values)
            })
        })
    });
    (values.expect("nobody is in the way"), given_up)
}

#[test]
fn who_waits_long_enough_is_never_given_up() {
    static LONG: Patient =
        Patient { writers_ns: 60_000_000_000, readers_ns: 60_000_000_000, colleagues_ns: 60_000_000_000 };
    let all = i64::from(HOSTS) * i64::from(WORKERS) * TIMES;
    assert_eq!(run(&LONG, false), (vec![all, all], 0));
}

#[test]
fn who_waits_in_a_cycle_gets_out_of_it() {
    static SHORT: Patient = Patient { writers_ns: 200_000, readers_ns: 100_000, colleagues_ns: 200_000 };
    let all = i64::from(HOSTS) * i64::from(WORKERS) * TIMES;
    assert_eq!(run(&SHORT, true).0, vec![all, all]);
}
