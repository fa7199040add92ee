//! What becomes of a transaction's rows when it ends: changes are written to shared memory and to DRAM, rows
//! are given back, and those that go are removed.
//!
//! When each happens, and what a crash in between means: host/commit.rs.

use std::borrow::Cow;

use liger_fabric::zerocopy::IntoBytes;
use liger_fabric::{Cx, DataAddr, Fabric, Work as Cost};
use liger_store::local::RowFlags;

use super::block::{DELETED, RowHead, Shape, SumChange, row_start};
use super::latched::Latched;
use super::leaving::Name;
use super::shared::SharedRows;
use super::work::{Spot, Work};
use crate::catalog::At;
use crate::method::RowLocation;
use crate::protocol::workspace::{Change, Workspace};

/// So many rows ahead of the one that is given back the next ones are loaded: what a long transaction has is
/// in no cache any more.
const AHEAD: usize = 8;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "commit.write-own-dram-copy",
    "commit.sum-changes",
    "commit.sum-changes-of-others",
    "commit.sum-version",
    "commit.keep-own",
    "commit.keep-removed",
    "commit.keep-foreign",
];

impl<'t, F: Fabric> Work<'t, '_, F> {
    /// Writes changed rows of other hosts to their blocks; true if there were any.
    pub(super) fn write_foreign(&mut self) -> bool {
        let mut any = false;
        let keeps = self.state.keeps && self.keep_foreign();
        for change in self.state.core.work.changes.iter() {
            let Some(Spot::Foreign(i)) = Spot::of_row(change.place) else { continue };
            let row = &mut self.mine.foreign[i];
            if change.deleted {
                // This host keeps the write lock until the owner has removed the row. Should it die before,
                // with later records in its ring, the block tells what becomes of the row.
                if !change.is_new && !keeps {
                    let (shape, llsn) = (row.shape(), self.state.llsn | DELETED);
                    self.host.shared.write_version(self.cx, row.at.block(), shape, llsn);
                    any = true;
                }
                continue;
            }
            let block = (self.host.shared, row.at.block());
            let has_head = keeps && !change.is_new;
            let version = (row.shape(), self.state.llsn, has_head);
            write_through(self.cx, block, version, change, &self.state.core.work);
            row.wrote = true;
            any = true;
        }
        any
    }

    /// Keeps the versions of other hosts' rows that are overwritten now, and says in their blocks where they
    /// are and which version comes: all of that is in memory before any of these rows changes. False if there
    /// are none.
    fn keep_foreign(&mut self) -> bool {
        let (cx, host, llsn) = (self.cx, self.host, self.state.llsn);
        let work = &self.state.core.work;
        let mut kept = Vec::new();
        for change in work.changes.iter().filter(|change| !change.is_new) {
            let Some(Spot::Foreign(i)) = Spot::of_row(change.place) else { continue };
            let row = &self.mine.foreign[i];
            let (place, block) = ((row.partition, row.table), row.at.block());
            let link = host.write_old(cx, block, (place, &row.key), row.shape(), (row.llsn, llsn));
            kept.push((change, block, row.shape(), link));
        }
        if kept.is_empty() || cx.sabotaged("commit.keep-foreign") {
            return false;
        }
        // What a link leads to is there; if not, its checksum tells, and a reader is refused.
        cx.fence();
        for (_, block, shape, link) in &kept {
            host.write_link(cx, *block, *shape, *link);
        }
        // Before a head says which version comes.
        cx.fence();
        for (change, block, shape, _) in kept {
            if change.deleted {
                host.shared.write_version(cx, block, shape, llsn | DELETED);
            } else {
                let head = changed_head(cx, (host.shared, block), (shape, llsn), change, work);
                cx.write(block, head.as_bytes());
                host.shared.write_back(cx, block, size_of::<RowHead>());
            }
        }
        // Before a byte of the rows changes.
        cx.fence();
        true
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
                let version = (part.shape(), self.state.llsn, false);
                write_through(cx, block, version, change, &self.state.core.work);
                part.set_flag(row, RowFlags::WRITTEN, true);
                any_shared = true;
            }
            if change.is_new {
                part.set_flag(row, RowFlags::PLACEHOLDER, false);
            }
            if part.address(row).is_some() && cx.sabotaged("commit.write-own-dram-copy") {
                continue;
            }
            if self.state.keeps && !change.is_new && !cx.sabotaged("commit.keep-own") {
                let (from, old) = (part.rows.version(row), part.rows.bytes(row).to_vec());
                host.keep_own(part, &change.key, (from, self.state.llsn), &old);
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
                        if llsn > 0 && self.state.keeps && !cx.sabotaged("commit.keep-removed") {
                            let (from, old) = (part.rows.version(row), part.rows.bytes(row).to_vec());
                            host.keep_own(part, &key, (from, llsn), &old);
                        }
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

/// Writes a change to a row's block in shared memory and starts the write-back of the lines it touched; its
/// head as well, unless it has that.
fn write_through<F: Fabric>(
    cx: &Cx<F>,
    (shared, block): (SharedRows, DataAddr),
    (shape, llsn, has_head): (Shape, u64, bool),
    change: &Change<RowLocation>,
    work: &Workspace<RowLocation>,
) {
    let start = block.byte(row_start(shape.key_words));
    if let Some((from, to)) = change.image {
        let image = &work.images[from as usize..to as usize];
        cx.write(start, image);
        shared.write_back(cx, start, image.len());
    }
    let mut dirty = Dirty { shared, from: 0, to: size_of::<RowHead>() as u64 };
    if !has_head {
        let head = changed_head(cx, (shared, block), (shape, llsn), change, work);
        cx.write(block, head.as_bytes());
    }
    for (offset, bytes) in work.patches.iter(change.patches) {
        let at = start.byte(u64::from(offset));
        cx.write(at, bytes);
        let (from, to) = (at.offset() - block.offset(), at.offset() - block.offset() + bytes.len() as u64);
        dirty.add(cx, block, from, to);
    }
    dirty.write_back(cx, block);
}

/// The head of a block when a change has been made, whose patches are not written.
fn changed_head<F: Fabric>(
    cx: &Cx<F>,
    (shared, block): (SharedRows, DataAddr),
    (shape, llsn): (Shape, u64),
    change: &Change<RowLocation>,
    work: &Workspace<RowLocation>,
) -> RowHead {
    let mut head = RowHead::new((change.place.partition, change.table), llsn);
    if !shared.checksums {
        return head;
    }
    let is_ours = matches!(Spot::of(change.place), Spot::Own { .. });
    let left_out =
        cx.sabotaged("commit.sum-changes") || !is_ours && cx.sabotaged("commit.sum-changes-of-others");
    if let Some((from, to)) = change.image {
        let mut row = Cow::Borrowed(&work.images[from as usize..to as usize]);
        debug_assert_eq!(row.len(), shape.row_len, "an image is of a whole row");
        if !change.patches.is_empty() && !left_out {
            work.patches.apply(change.patches, row.to_mut());
        }
        head.checksum = head.checksum_with(change.key.words().as_bytes(), &row);
        shared.spend_on_sum(cx, row.len());
        return head;
    }
    let mut sum = SumChange::new(shape);
    let before: RowHead = cx.read_layout(block);
    head.checksum = before.checksum;
    if !cx.sabotaged("commit.sum-version") {
        sum.version(before.llsn, llsn);
    }
    let start = block.byte(row_start(shape.key_words));
    for (offset, bytes) in work.patches.iter(change.patches).filter(|_| !left_out) {
        sum.patch(cx, start, offset.into(), bytes);
    }
    let (sum, summed) = sum.finish();
    shared.spend_on_sum(cx, summed);
    head.checksum ^= sum;
    head
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
