//! A restart whose rows are made one by one: between two rows that are there may be one that is not.
//!
//! A worker looks for a row that does not exist, twice in one transaction. Behind it is a row that nobody has
//! made yet, and behind that one that is there. In between another worker makes the one in the middle, by
//! reading it, and inserts the row that the first one has missed. It must be refused: what the first one has
//! locked is the gap up to its true neighbour.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::Loader;
use liger_engine::recovery::checkpoint::{EpochView, Pace, take};
use liger_engine::recovery::manifest::HostManifest;
use liger_engine::recovery::{Identity, Loading, Plan, RecoveryError, create};
use liger_engine::row::{RowHost, RowSession};
use liger_engine::{Catalog, Session, Transaction, TxnError};
use liger_fabric::disk::SimDisks;
use liger_fabric::sim::Sim;
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::PodConfig;

use super::{LeftOut, Ran, Scenario};
use crate::pod::{PodSetup, SimPod, directories, directory};
use crate::rows::{ITEMS, item_key, items, new_row};

/// The row in the middle.
pub const SCENARIOS: &[Scenario] = &[Scenario { name: "unrestored-neighbour", run: neighbour }];

const PART: i16 = 0;
/// Rows that exist, each in a block of its own; the one in the middle is made last.
const ROWS: [i32; 3] = [10, 20, 30];
/// Belongs to the first one's span.
const MISSING: i32 = 15;

/// A pod in which every epoch is durable at once.
struct AtOnce;

impl EpochView<Sim> for AtOnce {
    fn now(&self, _cx: &Cx<Sim>) -> u64 {
        1
    }

    fn durable(&self, _cx: &Cx<Sim>) -> Result<u64, RecoveryError> {
        Ok(1)
    }
}

fn neighbour(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a valid schema"));
    let identity = Identity::new(7, 8, &catalog, 1);
    let (setup, disks) = (PodSetup::new(PodConfig::small(1, 2), catalog), SimDisks::new(seed));
    let build = || {
        let no_log = |_: &Cx<Sim>, _: &_, _| None;
        SimPod::with_disks(&setup, disks.clone(), no_log, |plan| super::config(plan, seed, true, left_out))
    };
    let stored = build().expect("room").on_every_host(move |cx, host| store(cx, host, &identity));
    stored.into_iter().for_each(|stored| stored.expect("good disks"));

    let mut pod = build().expect("room");
    let host = Rc::clone(&pod.hosts[0]);
    let opened = pod.sim.alone(HostId(0), WorkerId(0), move |cx| open(cx, &host, &identity));
    opened.expect("good disks");
    let (looked, tried) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let seen = Rc::new(RefCell::new(None));
    let (host, flags, found) =
        (Rc::clone(&pod.hosts[0]), (Rc::clone(&looked), Rc::clone(&tried)), Rc::clone(&seen));
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| {
        *found.borrow_mut() = Some(look_twice(cx, &host, &flags.0, &flags.1));
    });
    let host = Rc::clone(&pod.hosts[0]);
    pod.sim.spawn(HostId(0), WorkerId(1), move |cx| insert(cx, &host, &looked, &tried));
    let report = pod.sim.run();
    Ran::new(report, || match &*seen.borrow() {
        Some(Ok([false, false])) => Ok(()),
        other => Err(format!("a row that did not exist at first was there, or not: {other:?}")),
    })
}

/// Rows on storage, each in a block of its own.
fn store(cx: &Cx<Sim>, host: &RowHost, identity: &Identity) -> Result<(), RecoveryError> {
    let mut loader = Loader::new(host);
    ROWS.iter().try_for_each(|&id| loader.put(cx, ITEMS, &new_row(PART, id, 100)))?;
    create(cx, &directories(cx, 1), identity)?;
    let manifest = HostManifest::new(identity.pod, host.id(), identity.layouts);
    let pace = Pace { block_bytes: 1, ..Pace::default() };
    take(cx, host, &directory(cx, host.id()), &manifest, &AtOnce, pace).map(drop)
}

/// Opens them, and makes the first and the last.
fn open(cx: &Cx<Sim>, host: &RowHost, identity: &Identity) -> Result<(), RecoveryError> {
    let directories = directories(cx, 1);
    let plan = Plan::of_begun(cx, &directories, identity)?;
    Loading::new(&plan, host).work(cx, &directories)?;
    let mut session = RowSession::new(cx, host);
    let made = session.transact(|txn| {
        txn.get(ITEMS, &item_key(PART, ROWS[0]), |_| ())?;
        txn.get(ITEMS, &item_key(PART, ROWS[2]), |_| ())
    });
    made.map(drop).map_err(RecoveryError::from)
}

/// Whether the missing row was there, at first and later.
fn look_twice(
    cx: &Cx<Sim>,
    host: &RowHost,
    looked: &Cell<bool>,
    tried: &Cell<bool>,
) -> Result<[bool; 2], TxnError> {
    let mut session = RowSession::new(cx, host);
    session.attempt(|txn| {
        let first = txn.get(ITEMS, &item_key(PART, MISSING), |_| ())?.is_some();
        looked.set(true);
        while !tried.get() {
            cx.pause();
        }
        let later = txn.get(ITEMS, &item_key(PART, MISSING), |_| ())?.is_some();
        Ok([first, later])
    })
}

/// Makes the row in the middle, and tries to insert the one that was missed.
fn insert(cx: &Cx<Sim>, host: &RowHost, looked: &Cell<bool>, tried: &Cell<bool>) {
    while !looked.get() {
        cx.pause();
    }
    let mut session = RowSession::new(cx, host);
    let ended = session.attempt(|txn| {
        txn.get(ITEMS, &item_key(PART, ROWS[1]), |_| ())?;
        txn.insert(ITEMS, &new_row(PART, MISSING, 7))
    });
    assert!(matches!(ended, Ok(()) | Err(TxnError::Conflict(_))), "{ended:?}");
    tried.set(true);
}
