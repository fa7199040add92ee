//! What becomes of a transaction's rows when it ends: changes are written to shared memory and to DRAM, rows
//! are given back, and those that go are removed.
//!
//! When each happens, and what a crash in between means: host/commit.rs.

use liger_fabric::{Cx, DataAddr, Fabric, Work as Cost};
use liger_store::local::RowFlags;

use super::latched::Latched;
use super::leaving::Name;
use super::shared::{DELETED, SharedRows, row_start};
use super::work::{Spot, Work};
use crate::catalog::At;
use crate::method::RowLocation;
use crate::protocol::workspace::Change;
use crate::tables::record::Patches;

/// So many rows ahead of the one that is given back the next ones are loaded: what a long transaction has is
/// in no cache any more.
const AHEAD: usize = 8;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["commit.write-own-dram-copy"];

impl<'t, F: Fabric> Work<'t, '_, F> {
    /// Writes changed rows of other hosts to their blocks; true if there were any.
    pub(super) fn write_foreign(&mut self) -> bool {
        let mut any = false;
        for change in self.state.core.work.changes.iter() {
            let Some(Spot::Foreign(i)) = Spot::of_row(change.place) else { continue };
            let row = &mut self.mine.foreign[i];
            if change.deleted {
                // This host keeps the write lock until the owner has removed the row. Should it die before,
                // with later records in its ring, the block tells what becomes of the row.
                if !change.is_new {
                    self.cx.write(row.at.block(), &(self.state.llsn | DELETED).to_ne_bytes());
                    self.host.shared.write_back(self.cx, row.at.block(), 8);
                    any = true;
                }
                continue;
            }
            let key_words = row.key.width();
            write_through(
                self.cx,
                (self.host.shared, row.at.block()),
                key_words,
                self.state.llsn,
                change,
                &self.state.core.work.patches,
                &self.state.core.work.images,
            );
            row.wrote = true;
            any = true;
        }
        any
    }

    /// Writes changed rows of this host to DRAM, and to their blocks if they are shared; true if any was.
    pub(super) fn write_own(&mut self) -> bool {
        let (cx, host) = (self.cx, self.host);
        let mut any_shared = false;
        let mut latched = Latched::default();
        for change in self.state.core.work.changes.iter() {
            let Some(Spot::Own { partition, table, row }) = Spot::of_row(change.place) else { continue };
            if change.deleted {
                continue;
            }
            let part = latched.reach(cx, (partition, table), |place| host.latch(place));
            if let Some(at) = part.address(row) {
                let block = (host.shared, at.block());
                write_through(
                    cx,
                    block,
                    part.key_words,
                    self.state.llsn,
                    change,
                    &self.state.core.work.patches,
                    &self.state.core.work.images,
                );
                part.set_flag(row, RowFlags::WRITTEN, true);
                any_shared = true;
            }
            if change.is_new {
                part.set_flag(row, RowFlags::PLACEHOLDER, false);
            }
            if part.address(row).is_some() && cx.sabotaged("commit.write-own-dram-copy") {
                continue;
            }
            let bytes = part.rows.bytes_mut(row);
            if let Some((start, end)) = change.image {
                bytes.copy_from_slice(&self.state.core.work.images[start as usize..end as usize]);
            }
            self.state.core.work.patches.apply(change.patches, bytes);
            part.rows.set_version(row, self.state.llsn);
            cx.spend(Cost::DramLine, 2);
        }
        any_shared
    }

    pub(super) fn release_all(&mut self, committed: bool) {
        debug_assert!(self.mine.parked.is_empty(), "a transaction that ends runs");
        let (cx, host) = (self.cx, self.host);
        let mut latched = Latched::default();
        let held = std::mem::take(&mut self.mine.held);
        for (i, &place) in held.iter().enumerate() {
            match Spot::of(place) {
                Spot::Foreign(i) => {
                    latched.give_back();
                    self.release_foreign(i, committed);
                }
                Spot::Own { partition, table, row } => {
                    let part = latched.reach(cx, (partition, table), |place| host.latch(place));
                    match held.get(i + AHEAD).map(|ahead| Spot::of(*ahead)) {
                        Some(Spot::Own { partition: p, table: t, row }) if (p, t) == (partition, table) => {
                            part.rows.prefetch(row, 1);
                        }
                        _ => {}
                    }
                    let flags = part.rows.holders(row).flags;
                    let fresh = flags.has(RowFlags::PLACEHOLDER);
                    let deleted = flags.has(RowFlags::DELETED);
                    if fresh || committed && deleted {
                        let change = self
                            .state
                            .core
                            .work
                            .changes
                            .number(&place)
                            .expect("a row that goes has a change");
                        let key = self.state.core.work.changes[change].key;
                        let llsn = if committed && !fresh { self.state.llsn } else { 0 };
                        host.remove_row(cx, part, &key, row, host.me, llsn);
                    } else {
                        part.unlock(cx, host.shared, row, self.state.me);
                    }
                }
            }
        }
        drop(latched);
        self.mine.held = held;
        self.mine.held.clear();
        self.mine.foreign.clear();
    }

    pub(super) fn release_foreign(&mut self, i: usize, committed: bool) {
        let (cx, host) = (self.cx, self.host);
        let row = self.mine.foreign[i];
        let change = self
            .state
            .core
            .work
            .changes
            .number(&row.place(i))
            .map(|change| &self.state.core.work.changes[change]);
        let goes = change.is_some_and(|c| if committed { c.deleted } else { c.is_new });
        let mut shard = host.remote.shard(cx, row.hash);
        let entry = shard.get_mut(&row.hash).expect("a held row has its entry");
        if goes {
            debug_assert_eq!(entry.writer, self.state.me.writer());
            let name = Name { hash: row.hash, table: row.table, partition: row.partition, key: row.key };
            let llsn = if committed && change.is_some_and(|c| !c.is_new) { self.state.llsn } else { 0 };
            host.give_away(cx, shard, &name, row.at, llsn);
            return;
        }
        entry.readers &= !self.state.me.bit();
        if entry.writer == self.state.me.writer() {
            entry.writer = 0;
            host.shared.release_write(cx, row.at, row.wrote, row.wrote);
        } else if entry.readers == 0 {
            host.shared.release_read(cx, row.at);
        }
        drop(shard);
        // A broken index is for those to tell who need it.
        let relation = host.catalog.relation(row.table).expect("a row's table exists");
        let _ = self.refer(At::new(relation, row.partition), &row.key);
    }
}

/// Writes a change to a row's block in shared memory and starts the write-back of the lines it touched.
fn write_through<F: Fabric>(
    cx: &Cx<F>,
    (shared, block): (SharedRows, DataAddr),
    key_words: usize,
    llsn: u64,
    change: &Change<RowLocation>,
    patches: &Patches,
    images: &[u8],
) {
    let start = block.byte(row_start(key_words));
    if let Some((from, to)) = change.image {
        let image = &images[from as usize..to as usize];
        cx.write(start, image);
        shared.write_back(cx, start, image.len());
    }
    let mut dirty = Dirty { shared, from: 0, to: 8 };
    cx.write(block, &llsn.to_ne_bytes());
    for (offset, bytes) in patches.iter(change.patches) {
        let at = start.byte(u64::from(offset));
        cx.write(at, bytes);
        let (from, to) = (at.offset() - block.offset(), at.offset() - block.offset() + bytes.len() as u64);
        dirty.add(cx, block, from, to);
    }
    dirty.write_back(cx, block);
}

/// A run of changed bytes of a block whose lines are written back together.
struct Dirty {
    shared: SharedRows,
    from: u64,
    to: u64,
}

impl Dirty {
    /// Adds bytes; a run that does not touch or neighbour the lines so far starts anew.
    fn add<F: Fabric>(&mut self, cx: &Cx<F>, block: DataAddr, from: u64, to: u64) {
        let line = liger_fabric::LINE as u64;
        if from / line <= self.to.div_ceil(line) && to.div_ceil(line) >= self.from / line {
            self.from = self.from.min(from);
            self.to = self.to.max(to);
        } else {
            self.write_back(cx, block);
            (self.from, self.to) = (from, to);
        }
    }

    fn write_back<F: Fabric>(&self, cx: &Cx<F>, block: DataAddr) {
        self.shared.write_back(cx, block.byte(self.from), (self.to - self.from) as usize);
    }
}
