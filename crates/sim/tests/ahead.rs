//! What a transaction announces of another host's rows: it comes with the announcement, and what was
//! announced and not done leaves nothing.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::row::RowSession;
use liger_engine::{
    Announced, Catalog, Key, KeyRange, Loader, NewRow, Session, TableId, Transaction, TxnError, table,
};
use liger_fabric::sim::SimConfig;
use liger_fabric::{HostId, WorkerId};
use liger_pod::plan::{PodConfig, SUPERBLOCK_BYTES};
use liger_sim::pod::{PodSetup, SimPod};

table! {
    /// Rows without an index.
    mod plain: "plain" {
        PART: SmallInt,
        ID: Int,
        VALUE: BigInt,
    }
    primary key (PART, ID);
    partition by (PART);
}

const PLAIN: TableId = TableId(0);
/// The partition of host 1.
const THEIRS: i16 = 1;
/// Rows that are there, and rows that are announced as new ones: more than are asked for at once.
const THERE: i32 = 5;
const NEW: i32 = 150;

fn key(id: i32) -> Key {
    Key::build().i16(THEIRS).i32(id).finish()
}

fn row(id: i32, value: i64) -> NewRow {
    let mut row = NewRow::new(plain::ROW_LEN);
    row.set(plain::PART, THEIRS).set(plain::ID, id).set(plain::VALUE, value);
    row
}

fn pod(seed: u64) -> SimPod {
    let catalog = Arc::new(Catalog::new(&[plain::schema()]).expect("a valid table"));
    let mut config = PodConfig::small(2, 1);
    (config.partitions, config.max_tables) = (2, 4);
    let setup = PodSetup { record: true, ..PodSetup::new(config, catalog) };
    let built = SimPod::new(&setup, |plan| SimConfig {
        sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
        max_verbs: 20_000_000,
        ..SimConfig::adversarial(2, plan.len() as usize, seed)
    });
    let mut pod = built.expect("an empty pod has room");
    pod.on_every_host(|cx, host| {
        let mut loader = Loader::new(host);
        (0..THERE).for_each(|id| loader.put(cx, PLAIN, &row(id, 1)).expect("room"));
    });
    pod
}

/// Announces rows that are there and new ones, uses some of them, and ends as `ending` says. What the
/// announcement asked for, and how often it waited; what was asked for behind it; the rows of the partition
/// in the end.
fn announced(seed: u64, ending: Result<(), TxnError>) -> ((u64, u64), u64, Vec<(i32, i64)>) {
    let mut pod = pod(seed);
    let (asked, later, done) = (Rc::new(Cell::new((0, 0))), Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let (mine, theirs) = (Rc::clone(&pod.hosts[0]), Rc::clone(&pod.hosts[1]));
    let (at_first, behind, over) = (asked.clone(), later.clone(), done.clone());
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &mine);
        let ended = session.attempt(|txn| {
            let old = (0..THERE).map(|id| Announced::update(PLAIN, key(id)));
            let new = (0..NEW).map(|id| Announced::insert(PLAIN, key(THERE + id)));
            txn.announce(&old.chain(new).collect::<Vec<_>>());
            at_first.set(mine.rows().requests_of(cx));
            for id in 0..THERE {
                let there = txn.update(PLAIN, &key(id), |row| row.set(plain::VALUE, 2))?;
                assert!(there.is_some(), "row {id} is there");
            }
            for id in (THERE..THERE + NEW).step_by(2) {
                assert_eq!(
                    txn.get(PLAIN, &key(id), |_| ())?,
                    None,
                    "row {id} is not there before its insert"
                );
                txn.insert(PLAIN, &row(id, 3))?;
            }
            behind.set(mine.rows().requests_of(cx).0 - at_first.get().0);
            ending
        });
        assert_eq!(ended, ending);
        over.set(true);
        // What goes is still on its way.
        while over.get() {
            session.serve();
            cx.pause();
        }
    });
    let (over, found) = (done.clone(), Rc::new(Cell::new(Vec::new())));
    let shown = found.clone();
    pod.sim.spawn(HostId(1), WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &theirs);
        let mut rows = Vec::new();
        let mut look = |session: &mut RowSession<'_, _>| {
            session.attempt(|txn| {
                rows.clear();
                txn.scan(PLAIN, &KeyRange::prefix(Key::build().i16(THEIRS), 1), |_, row| {
                    rows.push((row.get(plain::ID), row.get(plain::VALUE)));
                    ControlFlow::Continue(())
                })
            })
        };
        while !over.get() || look(&mut session).is_err() {
            session.serve();
            cx.pause();
        }
        over.set(false);
        shown.set(rows);
    });
    let report = pod.sim.run();
    assert!(report.completed(), "seed {seed}: {}", report.outcome);
    assert_eq!(pod.check(), Vec::<String>::new(), "seed {seed}");
    (asked.get(), later.get(), found.take())
}

#[test]
fn what_is_announced_is_not_asked_for_again() {
    for seed in 1..20 {
        let (asked, later, rows) = announced(seed, Ok(()));
        // 64 at a time.
        assert_eq!((asked, later), (((THERE + NEW) as u64, 3), 0), "seed {seed}");
        let old = (0..THERE).map(|id| (id, 2));
        let new = (THERE..THERE + NEW).step_by(2).map(|id| (id, 3));
        assert_eq!(
            rows,
            old.chain(new).collect::<Vec<_>>(),
            "seed {seed}: what was not inserted is not there"
        );
    }
}

#[test]
fn what_is_rolled_back_is_gone() {
    for seed in 1..20 {
        let (_, _, rows) = announced(seed, Err(TxnError::Rollback));
        assert_eq!(rows, (0..THERE).map(|id| (id, 1)).collect::<Vec<_>>(), "seed {seed}");
    }
}
