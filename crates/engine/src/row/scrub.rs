//! Whether the blocks of this host's shared rows are as they were written, and what becomes of those that are
//! not.
//!
//! Housekeeping looks at one row after the other, or for rows at one table after the other, at most one in
//! [`REST_NS`] in the long run. It does so without a lock: a
//! block that fits is good, and one that does not is looked at again under the row's write lock, when nobody
//! can be writing it. Damage is also found by whoever copies a block to DRAM (partition.rs, moves.rs) or
//! resolves a dead host's lock on it (resolve.rs).
//!
//! What is damaged, while the owner's DRAM copy is current, is written anew from that. Else the row is
//! *refused* (block.rs): its newest version is in the log alone, from which the pod makes it when it starts
//! again. Until then this host takes no checkpoint, which would lack it.
//!
//! Invariants:
//! 1. A block is written anew, or refused, under the row's write lock, found damaged under that lock.
//! 2. A row that is not current in DRAM is noted as long as its block is damaged.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use liger_fabric::{Cx, Fabric, Latch};
use liger_pod::heap::TupleAddr;
use liger_pod::plan::PartitionId;

use super::block::{RowHead, read_key};
use super::moves::sentinel_key;
use super::partition::{RowId, TablePart};
use super::policy::SharedRow;
use super::rows::Rows;
use super::shared::Acquired;
use crate::catalog::Relation;
use crate::instance::{PodEvent, count};
use crate::protocol::relational::each_key;
use crate::recovery::{RecoveryError, RestoreStep};
use crate::tables::key::Key;
use crate::txn::{TableId, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["scrub.compare", "scrub.refuse", "scrub.heal-only-current"];

/// Least time between two rows that are looked at.
const REST_NS: u64 = 100_000;

/// So many tables' shares of a partition are looked through at once for rows.
const PLACES: u64 = 64;

/// A row to look at.
type Candidate = (PartitionId, TableId, Key, TupleAddr);

/// How far the looks at shared rows have come.
#[derive(Default)]
pub(super) struct Scrub {
    /// The next rows.
    rows: Vec<Candidate>,
    /// From where more are to be found.
    from: Option<(PartitionId, TableId, Key)>,
    next_ns: u64,
}

/// Rows whose blocks were found damaged, and whose DRAM copies are behind, as far as is known.
#[derive(Default)]
pub(super) struct DamagedRows {
    is_any: AtomicBool,
    known: Latch<Known>,
}

#[derive(Default)]
struct Known {
    rows: BTreeMap<(PartitionId, TableId, RowId), Found>,
    /// Whoever waits for all rows was told of one, and not yet that nothing changes.
    was_told: bool,
}

/// What is known of one.
#[derive(Clone, Copy, Debug)]
struct Found {
    at: TupleAddr,
    /// It was announced.
    is_told: bool,
    /// Its block says that it is refused.
    is_refused: bool,
}

impl Rows {
    /// A little of the look at this host's shared rows.
    pub(super) fn scrub<F: Fabric>(&self, cx: &Cx<F>) {
        if !self.shared.checksums && !self.has_damaged() {
            return;
        }
        let Some(mut scrub) = self.scrub.try_lock() else { return };
        // Before the rest: others may use what is known to be damaged until it is refused.
        if self.has_damaged() {
            self.deal_with_known(cx);
        }
        let now_ns = cx.now_ns();
        if now_ns < scrub.next_ns {
            return;
        }
        scrub.next_ns = now_ns + REST_NS;
        let next = scrub.rows.pop();
        let from = if next.is_none() { scrub.from } else { None };
        drop(scrub);
        match next {
            Some(place) => self.look_at_row(cx, place),
            None => self.find_rows(cx, from),
        }
    }

    /// Finds the next shared rows to look at: from a key on, or from the beginning. Most tables have none, so
    /// several are looked through, and it rests for as much longer.
    fn find_rows<F: Fabric>(&self, cx: &Cx<F>, from: Option<(PartitionId, TableId, Key)>) {
        let places = self.own_partitions().flat_map(|p| self.relations().map(move |r| (p, r)));
        let is_before = |(p, r): &(PartitionId, &Relation)| {
            from.is_some_and(|(partition, table, _)| (*p, r.id) < (partition, table))
        };
        let mut places = places.skip_while(is_before).peekable();
        let (mut looked, mut next) = (0, None);
        while let Some((partition, relation)) = places.next() {
            let begin = from.filter(|(p, table, _)| (*p, *table) == (partition, relation.id));
            let key = begin.map_or(Key::zero(relation.key_words), |(_, _, key)| key);
            let part = self.part(cx, (partition, relation.id));
            // Who needs a damaged index is told of it.
            let (found, more) = self.batch(cx, &part.index, &key).unwrap_or_default();
            drop(part);
            looked += 1;
            let behind = || places.peek().map(|(p, r)| (*p, r.id, Key::zero(r.key_words)));
            next = more.map(|key| (partition, relation.id, key)).or_else(behind);
            if !found.is_empty() {
                let rows =
                    found.into_iter().rev().map(|(key, at)| (partition, relation.id, key, at)).collect();
                return self.go_on(cx, rows, (looked, next));
            }
            if looked == PLACES {
                break;
            }
        }
        self.go_on(cx, Vec::new(), (looked, next));
    }

    fn go_on<F: Fabric>(
        &self,
        cx: &Cx<F>,
        rows: Vec<Candidate>,
        (looked, from): (u64, Option<(PartitionId, TableId, Key)>),
    ) {
        debug_assert!(looked <= PLACES, "{looked} places were looked through at once");
        let mut scrub = self.scrub.lock(cx);
        (scrub.rows, scrub.from) = (rows, from);
        scrub.next_ns = cx.now_ns() + REST_NS * looked.max(1);
    }

    /// Looks at one row without a lock, and with it if its block does not fit.
    fn look_at_row<F: Fabric>(&self, cx: &Cx<F>, (partition, table, key, at): Candidate) {
        if !self.holds(partition) {
            return;
        }
        let mut latched = self.part(cx, (partition, table));
        let part = &mut *latched;
        let row = match key == sentinel_key(part.key_words) {
            true => Some(part.sentinel),
            false => part.tree.get(key.words()),
        };
        let Some(row) = row.filter(|row| part.address(*row) == Some(at)) else { return };
        if !self.shared.peek(cx, at).is_free() {
            return;
        }
        count(&self.moves.rows_scrubbed, 1);
        // Somebody may begin to write it now.
        cx.begin_unsure();
        self.shared.freshen(cx, at.block(), part.block_len());
        let fits = self.shared.is_sound(cx, at.block(), part.shape());
        cx.end_unsure(false);
        if fits || cx.sabotaged("scrub.compare") {
            return;
        }
        let healed = self.repair_or_refuse(cx, part, &key, SharedRow { partition, table, row, at });
        drop(latched);
        healed.into_iter().for_each(|why| self.announce(&PodEvent::Damaged { why }));
    }

    /// Makes a row good whose block seems damaged, which is to be told then, or refuses it. Nothing happens
    /// while somebody holds it: it is met again.
    fn repair_or_refuse<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &mut TablePart,
        key: &Key,
        shared: SharedRow,
    ) -> Option<String> {
        let SharedRow { row, at, .. } = shared;
        debug_assert_eq!(part.address(row), Some(at), "the row's block, whose share is latched");
        if !part.is_unheld(row) {
            return None;
        }
        let Acquired::Granted { cell, .. } = self.shared.acquire_write(cx, at, false) else { return None };
        self.shared.freshen(cx, at.block(), part.block_len());
        if self.shared.is_sound(cx, at.block(), part.shape()) {
            self.shared.release_write(cx, at, false, false);
            self.damaged.forget(cx, shared);
            return None;
        }
        let is_behind = self.shared.is_behind(cell) && !cx.sabotaged("scrub.heal-only-current");
        if is_behind {
            self.note_damaged(cx, shared);
            if !cx.sabotaged("scrub.refuse") {
                self.shared.refuse(cx, at.block(), part.place, key);
            }
        } else {
            let head = RowHead::new(part.place, part.rows.version(row));
            self.shared.write_block(cx, at.block(), head, key.words(), part.rows.bytes(row));
            count(&self.moves.rows_damaged, 1);
            count(&self.moves.rows_healed, 1);
        }
        cx.fence();
        self.shared.release_write(cx, at, true, is_behind);
        if is_behind {
            self.damaged.change(cx, shared, |found| found.is_refused = true);
            return None;
        }
        Some(format!("{}; it was written anew from its owner's copy", self.told(shared)))
    }

    /// Notes a row that was found damaged while its DRAM copy is behind; its share is latched.
    pub(super) fn note_damaged<F: Fabric>(&self, cx: &Cx<F>, shared: SharedRow) {
        if self.damaged.add(cx, shared) {
            count(&self.moves.rows_damaged, 1);
        }
    }

    /// Why a row of this host could not be locked: if it is damaged, that is noted. Its share is latched.
    pub(super) fn heed<F: Fabric>(&self, cx: &Cx<F>, part: &TablePart, row: RowId, why: &TxnError) {
        if let (TxnError::Damaged { .. }, Some(at)) = (why, part.address(row)) {
            let (partition, table) = part.place;
            self.note_damaged(cx, SharedRow { partition, table, row, at });
        }
    }

    /// Tells of one row that is known to be damaged, and sees that it is refused.
    fn deal_with_known<F: Fabric>(&self, cx: &Cx<F>) {
        let Some((shared, found)) = self.damaged.next(cx) else { return };
        if !found.is_told {
            self.announce(&PodEvent::Damaged { why: self.told(shared) });
            self.damaged.change(cx, shared, |found| found.is_told = true);
        }
        let mut latched = self.part(cx, (shared.partition, shared.table));
        let part = &mut *latched;
        if part.rows.is_free(shared.row) || part.address(shared.row) != Some(shared.at) {
            return self.damaged.forget(cx, shared);
        }
        if found.is_refused {
            return;
        }
        let Some(key) = self.key_of(cx, part, shared) else { return };
        let healed = self.repair_or_refuse(cx, part, &key, shared);
        debug_assert!(healed.is_none() || self.shared.dirty_tracking, "what is noted is behind");
    }

    /// The key of a shared row: what its block says, if that can be, or what the tree says.
    pub(super) fn key_of<F: Fabric>(&self, cx: &Cx<F>, part: &TablePart, shared: SharedRow) -> Option<Key> {
        debug_assert_eq!(part.place, (shared.partition, shared.table), "the row's own share");
        if shared.row == part.sentinel {
            return Some(sentinel_key(part.key_words));
        }
        cx.begin_unsure();
        let said = read_key(cx, shared.at.block(), part.key_words);
        cx.end_unsure(false);
        if part.tree.get(said.words()) == Some(shared.row) {
            return Some(said);
        }
        let mut found = None;
        each_key(&part.tree, |key, row| found = found.or((row == shared.row).then_some(key)));
        found
    }

    /// What is told of a damaged row.
    fn told(&self, shared: SharedRow) -> String {
        let SharedRow { partition, table, at, .. } = shared;
        let name = self.catalog.relation(table).map_or("", |relation| &relation.name);
        let offset = at.block().offset();
        format!("a row of {name}, partition {partition}, is damaged at byte {offset:#x} of shared memory")
    }

    /// Rows that are refused, in words.
    pub(super) fn damaged_rows<F: Fabric>(&self, cx: &Cx<F>) -> Vec<String> {
        let told = |shared| {
            format!(
                "cannot use all rows: {}, and is refused until the pod starts again, which makes it from the \
                 log",
                self.told(shared)
            )
        };
        self.damaged.rows(cx).into_iter().map(told).collect()
    }

    /// True if there are rows of which no image can be made.
    pub(super) fn has_damaged(&self) -> bool {
        self.damaged.is_any.load(Ordering::Acquire)
    }

    /// What whoever waits for all rows is told of those that are damaged: of one, and then, until it asks
    /// again, that nothing changes.
    pub(super) fn await_damaged<F: Fabric>(&self, cx: &Cx<F>) -> Result<RestoreStep, RecoveryError> {
        let Some(&SharedRow { partition, table, at, .. }) = self.damaged.rows(cx).first() else {
            return Ok(RestoreStep::Whole);
        };
        let mut known = self.damaged.known.lock(cx);
        known.was_told = !known.was_told;
        match known.was_told {
            true => Err(RecoveryError::DamagedRow { table, partition, offset: at.block().offset() }),
            false => Ok(RestoreStep::Stuck),
        }
    }
}

impl DamagedRows {
    /// Adds a row; true if it was not known.
    fn add<F: Fabric>(&self, cx: &Cx<F>, shared: SharedRow) -> bool {
        let SharedRow { partition, table, row, at } = shared;
        debug_assert_ne!(at.raw(), 0, "row {row} of table {table} is shared");
        let mut known = self.known.lock(cx);
        let found = Found { at, is_told: false, is_refused: false };
        let before = known.rows.insert((partition, table, row), found);
        if let Some(before) = before.filter(|before| before.at == at) {
            known.rows.insert((partition, table, row), before);
            return false;
        }
        self.is_any.store(true, Ordering::Release);
        true
    }

    /// Changes what is known of a row, if anything is.
    fn change<F: Fabric>(&self, cx: &Cx<F>, shared: SharedRow, change: impl FnMut(&mut Found)) {
        let mut known = self.known.lock(cx);
        let found = known.rows.get_mut(&(shared.partition, shared.table, shared.row));
        found.filter(|found| found.at == shared.at).into_iter().for_each(change);
    }

    /// The row is whole, or gone.
    fn forget<F: Fabric>(&self, cx: &Cx<F>, shared: SharedRow) {
        let mut known = self.known.lock(cx);
        known.rows.remove(&(shared.partition, shared.table, shared.row));
        self.is_any.store(!known.rows.is_empty(), Ordering::Release);
    }

    /// A row about which something is left to do.
    fn next<F: Fabric>(&self, cx: &Cx<F>) -> Option<(SharedRow, Found)> {
        let known = self.known.lock(cx);
        let is_due = |found: &Found| !found.is_told || !found.is_refused;
        let next = known.rows.iter().find(|(_, found)| is_due(found));
        next.map(|(place, found)| (of_place(place, found), *found))
    }

    fn rows<F: Fabric>(&self, cx: &Cx<F>) -> Vec<SharedRow> {
        let known = self.known.lock(cx);
        known.rows.iter().map(|(place, found)| of_place(place, found)).collect()
    }
}

fn of_place(&(partition, table, row): &(PartitionId, TableId, RowId), found: &Found) -> SharedRow {
    SharedRow { partition, table, row, at: found.at }
}
