//! A host is suspected while it only dawdles: whoever waits for its answer gives up, and the answer comes later.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::row::{RowHost, RowSession};
use liger_engine::{Catalog, Conflict, Session, Transaction, TxnError};
use liger_fabric::sim::{Adversary, Mode, Sim, SimConfig};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{Plan, PodConfig, SUPERBLOCK_BYTES};

use super::{LeftOut, Ran, Scenario};
use crate::pod::{PodSetup, SimPod};
use crate::rows::{ITEMS, item_key, items, new_row};

/// The one run.
pub const SCENARIOS: &[Scenario] = &[Scenario { name: "suspicion", run: late_answer }];

/// The part of the table that host 0 owns.
const PART: i16 = 0;
/// What a membership word says: a live host, and a suspected one.
const ALIVE: u64 = 2;
const SUSPECT: u64 = 4;

fn late_answer(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a valid schema"));
    let mut config = PodConfig::small(2, 1);
    config.partitions = 2;
    let setup =
        PodSetup { config, catalog, budget: None, record: false, remote_entries: 64, node_entries: 64 };
    let built = SimPod::new(&setup, |plan| {
        let own = SimConfig {
            sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
            mode: Mode::Adversarial(Adversary::swarm(seed)),
            // Host 1 asks in vain for as long as a host may take before anybody looks whether it lives.
            max_idle_pauses: 50_000,
            ..SimConfig::swarm(2, plan.len() as usize, seed)
        };
        let mut config = own;
        LeftOut::apply(left_out, &mut config);
        config
    });
    let mut pod = built.expect("an empty pod has room");
    let (gave_up, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (plan, hosts) = (pod.plan.clone(), pod.hosts.clone());
    let flags = (Rc::clone(&gave_up), Rc::clone(&done));
    let dawdler = Rc::clone(&hosts[0]);
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| dawdle(cx, &plan, &dawdler, &flags.0, &flags.1));
    let asker = Rc::clone(&hosts[1]);
    pod.sim.spawn(HostId(1), WorkerId(0), move |cx| {
        ask_twice(cx, &asker, &gave_up);
        done.set(true);
    });
    let report = pod.sim.run();
    Ran::new(report, || match pod.check().first() {
        None => Ok(()),
        Some(problem) => Err(problem.clone()),
    })
}

/// Serves nobody until the other host has given up.
fn dawdle(cx: &Cx<Sim>, plan: &Plan, host: &RowHost, gave_up: &Cell<bool>, done: &Cell<bool>) {
    let word = plan.membership(HostId(0));
    let alive = cx.load(word);
    let suspected = alive - ALIVE + SUSPECT;
    cx.compare_exchange(word, alive, suspected).expect("nobody else changes it");
    while !gave_up.get() {
        cx.pause();
    }
    cx.compare_exchange(word, suspected, alive).expect("nobody else changes it");
    let mut session = RowSession::new(cx, host);
    while !done.get() {
        session.serve();
        cx.pause();
    }
    session.serve();
}

fn ask_twice(cx: &Cx<Sim>, host: &RowHost, gave_up: &Cell<bool>) {
    let mut session = RowSession::new(cx, host);
    let missing = session.attempt(|txn| txn.get(ITEMS, &item_key(PART, 1), |_| ()));
    assert!(matches!(missing, Err(TxnError::Conflict(Conflict::Partition))), "{missing:?}");
    gave_up.set(true);
    loop {
        match session.attempt(|txn| txn.insert(ITEMS, &new_row(PART, 2, 7))) {
            Ok(()) => return,
            Err(TxnError::Conflict(_)) => session.back_off(1),
            Err(other) => panic!("{other}"),
        }
    }
}
