//! A checkpoint of rows that another host has just changed and deleted: what had committed before it began is
//! in it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::Loader;
use liger_engine::recovery::RecoveryError;
use liger_engine::recovery::checkpoint::{EpochView, Pace, take};
use liger_engine::recovery::directory::read_whole;
use liger_engine::recovery::image_file::{Block, ImageFile};
use liger_engine::recovery::manifest::HostManifest;
use liger_engine::row::{RowHost, RowSession};
use liger_engine::{Catalog, Row, Session, Transaction};
use liger_fabric::sim::Sim;
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{PartitionId, PodConfig};

use super::{LeftOut, Ran, Scenario};
use crate::pod::{PodSetup, SimPod, directory};
use crate::rows::{ITEMS, item_key, items, new_row, set_value};

/// The checkpoint behind the other host's back.
pub const SCENARIOS: &[Scenario] =
    &[Scenario { name: "checkpoint-of-foreign-changes", run: foreign_changes }];

/// The part of the table that host 0 owns.
const PART: i16 = 0;
const ROWS: i32 = 4;
const DELETED: i32 = 3;

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

fn foreign_changes(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let catalog = Arc::new(Catalog::new(&[items::schema()]).expect("a valid schema"));
    let config = PodConfig::small(2, 2);
    let tables = Arc::clone(&catalog);
    let setup = PodSetup::new(config, catalog);
    let mut pod = SimPod::new(&setup, |plan| super::config(plan, seed, true, left_out)).expect("room");
    pod.on_every_host(|cx, host| {
        let mut loader = Loader::new(host);
        (0..ROWS).for_each(|id| loader.put(cx, ITEMS, &new_row(PART, id, 100)).expect("room"));
    });
    let (owner, other) = (Rc::clone(&pod.hosts[0]), Rc::clone(&pod.hosts[1]));
    let (committed, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let seen = Rc::new(RefCell::new(Err("no checkpoint was taken".to_owned())));
    let flags = (Rc::clone(&committed), Rc::clone(&done));
    let found = Rc::clone(&seen);
    pod.sim.spawn(HostId(0), WorkerId(0), move |cx| {
        let mut session = RowSession::new(cx, &owner);
        while !flags.0.get() {
            // It grants rows, and leaves the news of the deletion for the checkpoint to read.
            session.serve();
            cx.pause();
        }
        *found.borrow_mut() = copied(cx, &owner, &tables);
        flags.1.set(true);
    });
    pod.sim.spawn(HostId(1), WorkerId(0), move |cx| change(cx, &other, &committed, &done));
    let report = pod.sim.run();
    Ran::new(report, || {
        let expected: Vec<(i32, i64)> = (0..ROWS).filter(|id| *id != DELETED).map(|id| (id, 200)).collect();
        match &*seen.borrow() {
            Ok(rows) if *rows == expected => Ok(()),
            other => Err(format!("the checkpoint has {other:?}")),
        }
    })
}

/// Changes every row but one, which it deletes at the same time.
fn change(cx: &Cx<Sim>, host: &RowHost, committed: &Cell<bool>, done: &Cell<bool>) {
    let mut session = RowSession::new(cx, host);
    let changed = session.transact(|txn| {
        for id in 0..ROWS {
            if id == DELETED {
                txn.delete(ITEMS, &item_key(PART, id))?;
            } else {
                txn.update(ITEMS, &item_key(PART, id), |row| set_value(row, 200))?;
            }
        }
        Ok(())
    });
    changed.expect("nobody is in the way");
    committed.set(true);
    while !done.get() {
        session.serve();
        cx.pause();
    }
}

/// The rows of a checkpoint that is taken now.
fn copied(cx: &Cx<Sim>, host: &RowHost, tables: &Catalog) -> Result<Vec<(i32, i64)>, String> {
    let directory = directory(cx, HostId(0));
    let manifest = HostManifest::new(7, HostId(0), tables.hash());
    let taken = take(cx, host, &directory, &manifest, &AtOnce, Pace { rows_per_hold: 2, ..Pace::default() });
    let manifest = taken.map_err(|failed| failed.to_string())?;
    let checkpoint = manifest.checkpoint.as_ref().ok_or("no checkpoint")?;
    let entry = checkpoint.image_of(PartitionId(PART as u16)).ok_or("no image")?;
    let name = entry.file_name();
    let bytes = read_whole(cx, &directory, &name).map_err(|failed| failed.to_string())?;
    let mut read = |offset: u64, out: &mut [u8]| {
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let there = rest.len().min(out.len());
        out[..there].copy_from_slice(&rest[..there]);
        Ok(there)
    };
    let head = entry.head(&manifest);
    let image = ImageFile::open(tables, &name, &head, &entry.end, &mut read);
    let image = image.map_err(|failed| failed.to_string())?;
    let mut rows = Vec::new();
    for block in image.blocks_of(ITEMS) {
        let block: Block = image.block(tables, block, &mut read).map_err(|failed| failed.to_string())?;
        let values =
            block.rows().map(|row| Row::new(row.bytes)).map(|r| (r.get(items::ID), r.get(items::VALUE)));
        rows.extend(values);
    }
    Ok(rows)
}
