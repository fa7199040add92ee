//! Meetings of the row engine's hosts that are arranged by hand, because random runs never have them.
//!
//! An owner is ruled dead while it only dawdles: whoever waits for its answer gives up, asks another host
//! something else, and the answer comes then. (That the ruling is taken back is for the check at the end.)

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

/// The part of the table that host 0 owns, and the one of host 2.
const PART: i16 = 0;
const OTHER_PART: i16 = 2;
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

/// How far they are.
#[derive(Default)]
struct Run {
    gave_up: Cell<bool>,
    answered: Cell<bool>,
    done: Cell<bool>,
}

fn late_answer(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let mut pod = pod(3, seed, left_out);
    let run = Rc::<Run>::default();
    let plan = pod.plan.clone();
    let of = |host: usize| (Rc::clone(&pod.hosts[host]), Rc::clone(&run));
    let ((dawdler, its), (requester, asks), (other, waits)) = (of(0), of(1), of(2));
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| dawdle(cx, &plan, &dawdler, &its));
    pod.sim.spawn(HostId(1), WorkerId(0), move |cx| ask_twice(cx, &requester, &asks));
    pod.sim.spawn(HostId(2), WorkerId(0), move |cx| {
        while !waits.answered.get() {
            cx.pause();
        }
        serve(cx, &other, &waits);
    });
    ran(pod)
}

/// Serves nobody until the other host has given up.
fn dawdle(cx: &Cx<Sim>, plan: &Plan, host: &RowHost, run: &Run) {
    let word = plan.membership(HostId(0));
    let alive = cx.load(word);
    let buried = alive - ALIVE + RECOVERED;
    cx.compare_exchange(word, alive, buried).expect("nobody else changes it");
    while !run.gave_up.get() {
        cx.pause();
    }
    cx.compare_exchange(word, buried, alive).expect("nobody else changes it");
    let mut session = RowSession::new(cx, host);
    while session.serve() == 0 {
        cx.pause();
    }
    cx.fence();
    run.answered.set(true);
    serve(cx, host, run);
}

fn serve(cx: &Cx<Sim>, host: &RowHost, run: &Run) {
    let mut session = RowSession::new(cx, host);
    while !run.done.get() {
        session.serve();
        cx.pause();
    }
    session.serve();
}

fn ask_twice(cx: &Cx<Sim>, host: &RowHost, run: &Run) {
    let mut session = RowSession::new(cx, host);
    let missing = session.attempt(|txn| txn.get(ITEMS, &item_key(PART, 1), |_| ()));
    assert!(matches!(missing, Err(TxnError::Conflict(Conflict::Partition))), "{missing:?}");
    run.gave_up.set(true);
    loop {
        match session.attempt(|txn| txn.insert(ITEMS, &new_row(OTHER_PART, 2, 7))) {
            Ok(()) => break,
            Err(TxnError::Conflict(_)) => session.back_off(1),
            Err(other) => panic!("{other}"),
        }
    }
    run.done.set(true);
}
