//! How often a transaction searches a tree for the rows that it changes: by what a timed run charges for.

#![forbid(unsafe_code)]

use std::sync::Arc;

use liger_engine::row::RowSession;
use liger_engine::{Catalog, Key, Loader, NewRow, Session, TableId, Transaction};
use liger_fabric::sim::{Profile, SimConfig};
use liger_fabric::{HostId, Work, WorkerId};
use liger_pod::plan::PodConfig;
use liger_sim::pod::{PodSetup, SimPod};
use liger_sim::rows::items;

const ITEMS: TableId = TableId(0);

fn key(id: i32) -> Key {
    Key::build().i16(0).i32(id).finish()
}

/// Levels of trees that were gone down while rows of these numbers were locked, and then changed.
fn levels(locked: &'static [i32], changed: &'static [i32]) -> u64 {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a table"));
    let config = PodConfig { partitions: 1, max_tables: 4, ..PodConfig::small(1, 1) };
    let profile = Arc::new(Profile::built_in("dram").expect("a profile"));
    let timed = |len| SimConfig::timed(1, len, 1, profile);
    let mut pod =
        SimPod::new(&PodSetup::new(config, catalog), |plan| timed(plan.len() as usize)).expect("a pod");
    pod.on_every_host(|cx, host| {
        let mut loader = Loader::new(host);
        for id in 0..9 {
            let mut row = NewRow::new(items::ROW_LEN);
            row.set(items::PART, 0).set(items::ID, id).set(items::GROUP, 0).set(items::VALUE, 1);
            loader.put(cx, ITEMS, &row).expect("there is room");
        }
    });
    let host = pod.hosts[0].clone();
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| {
        let done = RowSession::new(cx, &host).attempt(|txn| {
            for id in locked {
                assert!(txn.update(ITEMS, &key(*id), |_| ())?.is_some());
            }
            for id in changed {
                assert!(txn.update(ITEMS, &key(*id), |row| row.set(items::VALUE, 2))?.is_some());
            }
            Ok(())
        });
        done.expect("nobody is in the way");
    });
    let report = pod.sim.run().expect_completed();
    report.time_use.units[Work::IndexNode as usize].0
}

#[test]
fn a_row_that_was_locked_is_not_searched_for_when_it_is_changed() {
    let none = levels(&[], &[]);
    let one = levels(&[4], &[]) - none;
    assert!(one > 0, "a row is searched for");
    let searches = |locked, changed| (levels(locked, changed) - none) / one;
    assert_eq!(searches(&[4], &[4]), 1);
    assert_eq!(searches(&[1, 5, 3], &[1, 5, 3]), 3, "many, in the order in which they were locked");
    assert_eq!(searches(&[1, 5, 3], &[3]), 3);
    assert_eq!(searches(&[1, 5, 3], &[5]), 4, "not in that order");
}
