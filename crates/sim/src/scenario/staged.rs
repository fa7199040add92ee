//! Meetings of the row engine's hosts that are arranged by hand, because random runs never have them.
//!
//! An owner is ruled dead while it only dawdles: whoever waits for its answer gives up, and the answer comes
//! later. (That the ruling is taken back stands for a pod where the owner's next life would answer.)

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::row::{RowHost, RowSession};
use liger_engine::{Catalog, Conflict, Session, Transaction, TxnError};
use liger_fabric::sim::Sim;
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{Plan, PodConfig};

use super::{LeftOut, Ran, Scenario};
use crate::pod::{PodSetup, SimPod};
use crate::rows::{ITEMS, item_key, items, new_row};

/// The late answer.
pub const SCENARIOS: &[Scenario] = &[Scenario { name: "staged-late-answer", run: late_answer }];

/// The part of the table that host 0 owns.
const PART: i16 = 0;
/// What a membership word says: a live host, and one whose death was dealt with.
const ALIVE: u64 = 2;
const RECOVERED: u64 = 6;

/// A pod of `hosts` row engines with one worker each.
fn pod(hosts: u8, seed: u64, left_out: Option<&LeftOut>) -> SimPod {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a valid schema"));
    let setup = PodSetup::new(PodConfig::small(hosts, 1), catalog);
    let built = SimPod::new(&setup, |plan| {
        let mut config = super::config(plan, seed, true, left_out);
        // Somebody asks in vain for as long as a host may take before anybody looks whether it lives.
        config.max_idle_pauses = 50_000;
        config
    });
    built.expect("an empty pod has room")
}

fn ran(mut pod: SimPod) -> Ran {
    let report = pod.sim.run();
    Ran::new(report, || match pod.check().first() {
        None => Ok(()),
        Some(problem) => Err(problem.clone()),
    })
}

fn late_answer(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let mut pod = pod(2, seed, left_out);
    let (gave_up, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (plan, dawdler, asker) = (pod.plan.clone(), Rc::clone(&pod.hosts[0]), Rc::clone(&pod.hosts[1]));
    let flags = (Rc::clone(&gave_up), Rc::clone(&done));
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| dawdle(cx, &plan, &dawdler, &flags.0, &flags.1));
    pod.sim.spawn(HostId(1), WorkerId(0), move |cx| {
        ask_twice(cx, &asker, &gave_up);
        done.set(true);
    });
    ran(pod)
}

/// Serves nobody until the other host has given up.
fn dawdle(cx: &Cx<Sim>, plan: &Plan, host: &RowHost, gave_up: &Cell<bool>, done: &Cell<bool>) {
    let word = plan.membership(HostId(0));
    let alive = cx.load(word);
    let buried = alive - ALIVE + RECOVERED;
    cx.compare_exchange(word, alive, buried).expect("nobody else changes it");
    while !gave_up.get() {
        cx.pause();
    }
    cx.compare_exchange(word, buried, alive).expect("nobody else changes it");
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
