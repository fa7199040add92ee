//! Shared memory that is full while a host holds reclamation up: rows that leave it make room, but not at
//! once. And a transaction that holds more of it than rows may use: none of them can leave.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::row::{Budget, RowSession};
use liger_engine::{Catalog, Conflict, NewRow, Session, TableId, Transaction, TxnError};
use liger_fabric::sim::SimConfig;
use liger_fabric::{HostId, WorkerId};
use liger_pod::plan::{PodConfig, SUPERBLOCK_BYTES};
use liger_sim::pod::{PodSetup, SimPod};
use liger_sim::rows::items;

const ITEMS: TableId = TableId(0);
/// Rows that another host makes; far more than there is room for.
const ROWS: i32 = 24_000;
/// How often it must hear that memory is full before the dawdler goes on.
const PATIENCE: u32 = 30;

fn row(id: i32) -> NewRow {
    let mut row = NewRow::new(items::ROW_LEN);
    row.set(items::PART, 0).set(items::ID, id).set(items::GROUP, 0).set(items::VALUE, 1).set(items::PAD, "p");
    row
}

/// A pod of one worker a host.
fn pod(config: PodConfig, budget: Option<Budget>) -> SimPod {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a valid schema"));
    let setup = PodSetup { budget, ..PodSetup::new(config, catalog) };
    let built = SimPod::new(&setup, |plan| SimConfig {
        sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
        max_verbs: 100_000_000,
        ..SimConfig::adversarial(plan.config().hosts.into(), plan.len() as usize, 7)
    });
    built.expect("an empty pod has room")
}

#[test]
fn who_finds_no_room_while_reclamation_waits_comes_back() {
    let mut pod = pod(PodConfig { cxl_bytes: 2 << 20, ..PodConfig::small(3, 1) }, None);
    let (full, done) = (Rc::new(Cell::new(0u32)), Rc::new(Cell::new(false)));
    let [owner, maker, dawdler] = [0, 1, 2].map(|host| Rc::clone(&pod.hosts[host]));
    let is_done = Rc::clone(&done);
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &owner);
        while !is_done.get() {
            session.serve();
            cx.pause();
        }
    });
    let (is_full, is_done) = (Rc::clone(&full), Rc::clone(&done));
    // A member that collects nothing, as one that has died and is not cut off yet.
    pod.sim.spawn(HostId(2), WorkerId(0), move |cx| {
        while is_full.get() < PATIENCE {
            cx.pause();
        }
        let mut session = RowSession::new(cx, &dawdler);
        while !is_done.get() {
            session.serve();
            cx.pause();
        }
    });
    let (seen_full, set_done) = (Rc::clone(&full), Rc::clone(&done));
    pod.sim.spawn(HostId(1), WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &maker);
        for id in 0..ROWS {
            let mut tries = 1;
            loop {
                match session.attempt(|txn| txn.insert(ITEMS, &row(id))) {
                    Ok(()) => break,
                    Err(TxnError::Conflict(conflict)) => {
                        full.set(full.get() + u32::from(conflict == Conflict::Memory));
                        session.back_off(tries);
                        tries += 1;
                    }
                    Err(other) => panic!("row {id}, after {} times without room: {other}", full.get()),
                }
            }
        }
        set_done.set(true);
    });
    let report = pod.sim.run();
    assert!(report.completed(), "{}", report.outcome);
    assert!(seen_full.get() >= PATIENCE, "memory was never full");
    assert_eq!(pod.check(), Vec::<String>::new());
}

/// Verbs of a pod in which one transaction of host 1 makes so many rows of host 0, of which a hundred are
/// within the budget.
fn verbs_of_one_transaction(rows: i32) -> u64 {
    let budget = Budget { hwcc_bytes: u64::MAX, cxl_bytes: 100 * 128 };
    let mut pod = pod(PodConfig::small(2, 1), Some(budget));
    let [owner, maker] = [0, 1].map(|host| Rc::clone(&pod.hosts[host]));
    let done = Rc::new(Cell::new(false));
    let is_done = Rc::clone(&done);
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &owner);
        while !is_done.get() {
            session.serve();
            cx.pause();
        }
    });
    pod.sim.spawn(HostId(1), WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &maker);
        let made = session.transact(|txn| (0..rows).try_for_each(|id| txn.insert(ITEMS, &row(id))));
        made.expect("there is room, and nobody else wants them");
        done.set(true);
    });
    let report = pod.sim.run();
    assert!(report.completed(), "{}", report.outcome);
    assert_eq!(pod.check(), Vec::<String>::new());
    report.verbs
}

#[test]
fn a_row_of_a_large_transaction_costs_as_much_as_one_of_a_small_one() {
    let [small, large] = [1000, 4000].map(verbs_of_one_transaction);
    assert!(large < 6 * small, "{small} verbs for 1000 rows, {large} for four times as many");
}
