//! Scans of another host's partition that must succeed: nobody is in their way, so a conflict would be one
//! for ever.

#![forbid(unsafe_code)]

use liger_engine::Loader;
use liger_engine::row::RowSession;
use liger_engine::{Catalog, Key, KeyRange, NewRow, Session, TableId, Transaction, TxnError};
use liger_fabric::sim::SimConfig;
use liger_fabric::{HostId, WorkerId};
use liger_pod::plan::{PodConfig, SUPERBLOCK_BYTES};
use liger_sim::pod::{PodSetup, SimPod};
use liger_sim::rows::items;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
const ITEMS: TableId = TableId(0);
fn key(part: i16, id: i32) -> Key {
    Key::build().i16(part).i32(id).finish()
}
fn row(part: i16, id: i32) -> NewRow {
    let mut row = NewRow::new(items::ROW_LEN);
    row.set(items::PART, part)
        .set(items::ID, id)
        .set(items::GROUP, 0)
        .set(items::VALUE, 1)
        .set(items::PAD, "p");
    row
}
fn pod() -> SimPod {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).unwrap());
    let mut config = PodConfig::small(2, 1);
    config.partitions = 2;
    config.max_tables = 4;
    let setup = PodSetup { record: true, ..PodSetup::new(config, catalog) };
    let mut pod = SimPod::new(&setup, |plan| SimConfig {
        sync: Some(SUPERBLOCK_BYTES..plan.sync_end()),
        max_verbs: 5_000_000,
        ..SimConfig::adversarial(2, plan.len() as usize, 1)
    })
    .unwrap();
    pod.on_every_host(|cx, host| {
        let mut loader = Loader::new(host);
        for id in [10, 20, 30] {
            loader.put(cx, ITEMS, &row(1, id)).unwrap();
        }
    });
    pod
}
fn scans(low: i32, contested: bool) -> (u32, u32, Option<String>) {
    let mut pod = pod();
    let (good, bad) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let stage = Rc::new(Cell::new(if contested { 0 } else { 2 }));
    let (h0, h1) = (Rc::clone(&pod.hosts[0]), Rc::clone(&pod.hosts[1]));
    let (g, b, s) = (good.clone(), bad.clone(), stage.clone());
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &h0);
        let range = KeyRange::between(key(1, low), key(1, 40));
        while s.get() < 2 {
            let _ = session.attempt(|txn| {
                txn.scan(ITEMS, &range, |_, _| ControlFlow::Continue(()))?;
                s.set(1);
                while s.get() < 2 {
                    cx.pause();
                }
                Ok(())
            });
        }
        for _ in 0..20 {
            match session.attempt(|txn| txn.scan(ITEMS, &range, |_, _| ControlFlow::Continue(()))) {
                Ok(()) => g.set(g.get() + 1),
                Err(TxnError::Conflict(_)) => b.set(b.get() + 1),
                Err(e) => panic!("{e}"),
            }
        }
        s.set(3);
    });
    let s = stage.clone();
    pod.sim.spawn(HostId(1), WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &h1);
        while s.get() < 1 {
            session.serve();
            cx.pause();
        }
        if s.get() == 1 {
            let refused = session.attempt(|txn| txn.insert(ITEMS, &row(1, 15)));
            assert!(matches!(refused, Err(TxnError::Conflict(_))), "the range is held: {refused:?}");
            s.set(2);
        }
        while s.get() < 3 {
            session.serve();
            cx.pause();
        }
    });
    let report = pod.sim.run();
    (good.get(), bad.get(), (!report.completed()).then(|| report.outcome.to_string()))
}
/// All scans after the contested part must succeed, but for a first one that may meet the refused insert's
/// traces.
fn expect_scans(low: i32, contested: bool) {
    let (good, bad, stopped) = scans(low, contested);
    assert_eq!(stopped, None);
    assert!(good >= 19, "{good} of {} scans succeeded", good + bad);
}

#[test]
fn from_the_first_key() {
    expect_scans(10, false);
}

#[test]
fn from_below_the_first_key() {
    expect_scans(5, false);
}

#[test]
fn after_an_insert_that_was_refused() {
    expect_scans(10, true);
}
