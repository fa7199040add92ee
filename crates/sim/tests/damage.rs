//! A damaged shared index is reported as what it is, to whoever needs it; nothing is lost or stuck meanwhile.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::Loader;
use liger_engine::row::{RowHost, RowSession};
use liger_engine::{Catalog, Key, KeyRange, NewRow, Session, TableId, Transaction, TxnError};
use liger_fabric::sim::{Sim, SimConfig};
use liger_fabric::{Cx, HostId, SyncAddr, WorkerId};
use liger_pod::plan::{PartitionId, PodConfig, SUPERBLOCK_BYTES};
use liger_sim::pod::{PodSetup, SimPod};
use liger_sim::rows::items;

const ITEMS: TableId = TableId(0);
/// The partition of host 0.
const PART: i16 = 0;

fn key(id: i32) -> Key {
    Key::build().i16(PART).i32(id).finish()
}

fn row(id: i32) -> NewRow {
    let mut row = NewRow::new(items::ROW_LEN);
    row.set(items::PART, PART).set(items::ID, id).set(items::GROUP, 0).set(items::VALUE, 1);
    row
}

/// Two hosts; host 0 has the rows 10, 20, .. 50.
fn pod(seed: u64) -> SimPod {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a valid schema"));
    let config = PodConfig::small(2, 1);
    let setup = PodSetup { record: true, ..PodSetup::new(config, catalog) };
    let built = SimPod::new(&setup, |plan| SimConfig {
        sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
        max_verbs: 1_000_000,
        ..SimConfig::swarm(2, plan.len() as usize, seed)
    });
    let mut pod = built.expect("an empty pod has room");
    pod.on_every_host(|cx, host| {
        let mut loader = Loader::new(host);
        (1..=5).for_each(|i| loader.put(cx, ITEMS, &row(10 * i)).expect("an empty partition"));
        loader.finish(cx);
    });
    pod
}

/// How the directory word of the index is damaged, and what must be said about it.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// It is zero.
    Zero,
    /// It leads to a place where no record is.
    Elsewhere {
        /// That place.
        offset: u64,
    },
}

/// Lines that a mapping word can name.
const LINES: u64 = 1 << 34;

impl Damage {
    fn of(self, word: u64) -> u64 {
        match self {
            Damage::Zero => 0,
            Damage::Elsewhere { offset } => word / LINES * LINES + LINES + offset / 64,
        }
    }

    fn error(self, root: SyncAddr) -> TxnError {
        let (what, found) = match self {
            Damage::Zero => ("index directory", root.offset()),
            Damage::Elsewhere { offset } => ("shared index", offset),
        };
        TxnError::Damaged { table: ITEMS, what, found }
    }
}

/// What host 1 does with rows of host 0 that it has not met: a look-up, an update, a scan, an insert.
fn strange(session: &mut RowSession<'_, Sim>, what: usize) -> Result<(), TxnError> {
    session.transact(|txn| match what {
        0 => txn.get(ITEMS, &key(20), |_| ()).map(|found| assert!(found.is_some())),
        1 => txn.update(ITEMS, &key(40), |_| ()).map(|found| assert!(found.is_some())),
        2 => txn.scan(ITEMS, &KeyRange::between(key(15), key(45)), |_, _| ControlFlow::Continue(())),
        _ => txn.insert(ITEMS, &row(35)),
    })
}

fn is_there(session: &mut RowSession<'_, Sim>, id: i32) -> bool {
    session.transact(|txn| txn.get(ITEMS, &key(id), |_| ())).expect("no damage on the way").is_some()
}

#[derive(Default)]
struct Stage {
    damaged: Cell<bool>,
    owner_done: Cell<bool>,
    done: Cell<bool>,
}

/// Works on its own rows while the index is damaged, and serves.
fn owner(cx: &Cx<Sim>, host: &RowHost, stage: &Stage) {
    let mut session = RowSession::new(cx, host);
    while !stage.done.get() {
        if stage.damaged.get() && !stage.owner_done.get() {
            // Row 50 is shared: its entry cannot be taken out of the index now.
            session.transact(|txn| txn.delete(ITEMS, &key(50))).expect("its own row");
            session.transact(|txn| txn.insert(ITEMS, &row(25))).expect("its own partition");
            assert!(is_there(&mut session, 20) && !is_there(&mut session, 50));
            stage.owner_done.set(true);
        }
        session.serve();
        cx.pause();
    }
    session.serve();
}

fn requester(cx: &Cx<Sim>, host: &RowHost, stage: &Stage, root: SyncAddr, damage: Damage) {
    let mut session = RowSession::new(cx, host);
    assert!(is_there(&mut session, 10) && is_there(&mut session, 50));
    let word = cx.load(root);
    cx.compare_exchange(root, word, damage.of(word)).expect("nobody changes the index now");
    stage.damaged.set(true);
    for round in 0..2 {
        for what in 0..4 {
            let said = strange(&mut session, what);
            assert_eq!(said, Err(damage.error(root)), "{damage:?}, round {round}, operation {what}");
        }
        assert!(is_there(&mut session, 10), "what is shared and known stays usable");
        while !stage.owner_done.get() {
            session.serve();
            cx.pause();
        }
    }
    cx.compare_exchange(root, damage.of(word), word).expect("nobody can use the index");
    (0..4).for_each(|what| strange(&mut session, what).expect("all is well again"));
    assert!(is_there(&mut session, 25) && is_there(&mut session, 35) && !is_there(&mut session, 50));
    stage.done.set(true);
}

fn run(seed: u64, choose: impl Fn(u64) -> Damage) {
    let mut pod = pod(seed);
    let (root, damage) = (pod.plan.directory(ITEMS.0, PartitionId(PART as u16)), choose(pod.plan.len() - 64));
    let stage = Rc::new(Stage::default());
    let (host, its_stage) = (Rc::clone(&pod.hosts[0]), Rc::clone(&stage));
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| owner(cx, &host, &its_stage));
    let host = Rc::clone(&pod.hosts[1]);
    pod.sim.spawn(HostId(1), WorkerId(0), move |cx| requester(cx, &host, &stage, root, damage));
    pod.sim.run().expect_completed();
    assert_eq!(pod.check(), Vec::<String>::new(), "seed {seed}");
}

#[test]
fn a_directory_word_that_names_no_index() {
    (0..20).for_each(|seed| run(seed, |_| Damage::Zero));
}

#[test]
fn a_mapping_word_that_names_no_record() {
    (0..20).for_each(|seed| run(seed, |offset| Damage::Elsewhere { offset }));
}
