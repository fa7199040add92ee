//! After a host's death: shared rows are freed from its locks (docs/protocols/takeover.md).
//!
//! Invariants:
//! 1. A row that it had write-locked becomes what its last record says, or stays what it is: the last record
//!    of each of its rings is the only one whose rows may not all be changed.
//! 2. Whoever may take a row away resolves it: the owner of its partition under the latch, or the successor
//!    of a dead owner.

use liger_fabric::zerocopy::IntoBytes;
use liger_fabric::{Cx, DataAddr, Fabric};
use liger_pod::heap::TupleAddr;
use liger_pod::plan::PartitionId;
use liger_store::bwtree::{BwTree, Entries, Trace, TreeError};

use super::block::{DELETED, RowHead, Shape, UNCOMMITTED, VERSION, block_is, row_start};
use super::moves::sentinel_key;
use super::policy::SharedRow;
use super::rows::Rows;
use crate::catalog::At;
use crate::instance::count;
use crate::log::record::Op;
use crate::method::{Dead, LastChange, Poll};
use crate::tables::key::Key;
use crate::txn::TableId;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "resolve.redo-committed",
    "resolve.only-newer-records",
    "resolve.undo-inserts",
    "resolve.forget-readers",
    "resolve.sum-redone",
    "resolve.check-before-use",
];

/// Entries of a shared index: keys, and the words of their rows.
pub(super) type Found = Vec<(Key, TupleAddr)>;

/// Index entries looked at in one hold of a share's latch.
const BATCH: usize = 64;

/// What becomes of a row that a dead host may have held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Resolved {
    /// It stays.
    Stays,
    /// It goes: its delete has committed (in this version), or its insert has not (0). The dead host's write
    /// lock is still on it.
    Goes(u64),
    /// It stays and is refused: its block is damaged.
    Damaged,
}

impl Rows {
    /// Frees the shared rows of a partition of this host from a dead host's locks.
    pub(super) fn sweep_own<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        dead: &Dead,
        poll: Poll<'_>,
    ) -> Result<(), TreeError> {
        for relation in self.relations() {
            let mut from = Some(Key::zero(relation.key_words));
            while let Some(key) = from {
                // One step for the workers of this host.
                let mut latched = self.part(cx, (partition, relation.id));
                let part = &mut *latched;
                let (found, next) = self.batch(cx, &part.index, &key)?;
                for (key, at) in found {
                    let row = match key == sentinel_key(relation.key_words) {
                        true => Some(part.sentinel),
                        false => part.tree.get(key.words()),
                    };
                    let Some(row) = row.filter(|row| part.address(*row) == Some(at)) else { continue };
                    match self.resolve(cx, dead, (partition, relation.id), &key, at) {
                        Resolved::Stays => {}
                        Resolved::Goes(llsn) => {
                            self.remove_row(cx, part, &key, row, dead.slot.host, llsn);
                        }
                        Resolved::Damaged => {
                            self.note_damaged(cx, SharedRow { partition, table: relation.id, row, at });
                        }
                    }
                }
                drop(latched);
                poll();
                from = next;
            }
        }
        Ok(())
    }

    /// Frees the shared rows of a dead host's partition from its locks. The caller is its successor.
    pub(super) fn sweep_orphan<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        dead: &Dead,
        poll: Poll<'_>,
    ) -> Result<(), TreeError> {
        debug_assert!(!self.owns(partition), "the owner sweeps under its latch");
        for relation in self.relations() {
            let mut from = Some(Key::zero(relation.key_words));
            while let Some(key) = from {
                let (found, next) =
                    self.batch(cx, &self.foreign_index(At::new(relation, partition)), &key)?;
                for (key, at) in found {
                    if let Resolved::Goes(_) = self.resolve(cx, dead, (partition, relation.id), &key, at) {
                        // Nobody can lock it any more; its entry goes when the partition has an owner.
                        self.shared.retire_held(cx, at, dead.slot.host);
                    }
                }
                poll();
                from = next;
            }
        }
        Ok(())
    }

    /// Some entries of an index, and the key to go on with.
    pub(super) fn batch<F: Fabric>(
        &self,
        cx: &Cx<F>,
        index: &BwTree,
        from: &Key,
    ) -> Result<(Found, Option<Key>), TreeError> {
        let (mut entries, mut trace) = (Entries::default(), Trace::new());
        match index.scan(cx, &self.tree_env(), from.words(), None, BATCH, &mut entries, &mut trace) {
            // Its owner died before it had made it.
            Err(TreeError::NotFormatted { .. }) => return Ok((Vec::new(), None)),
            scanned => scanned?,
        }
        let row = |(words, raw): (&[u64], u64)| Ok((Key::from_words(words), self.row_at(raw)?));
        let found = entries.iter().map(row).collect::<Result<Found, TreeError>>()?;
        let next = found.last().filter(|_| found.len() >= BATCH).and_then(|(key, _)| key.next());
        Ok((found, next))
    }

    /// Takes a dead host's locks off one row. Whoever may take the row away calls this: its owner under the
    /// share's latch, or the successor of a dead owner.
    pub(super) fn resolve<F: Fabric>(
        &self,
        cx: &Cx<F>,
        dead: &Dead,
        place: (PartitionId, TableId),
        key: &Key,
        at: TupleAddr,
    ) -> Resolved {
        let host = dead.slot.host;
        debug_assert_ne!(host, self.me, "the locks of another host");
        let word = self.shared.peek(cx, at);
        if word.is_live() && word.writer() == Some(host) {
            count(&self.moves.locks_resolved, 1);
            match self.resolve_writer(cx, dead, place, key, at) {
                Resolved::Stays => {}
                resolved => return resolved,
            }
        }
        if !cx.sabotaged("resolve.forget-readers") {
            self.shared.forget_host(cx, at, host);
        }
        Resolved::Stays
    }

    fn resolve_writer<F: Fabric>(
        &self,
        cx: &Cx<F>,
        dead: &Dead,
        (partition, table): (PartitionId, TableId),
        key: &Key,
        at: TupleAddr,
    ) -> Resolved {
        let relation = self.catalog.relation(table).expect("an index of a table that exists");
        let (block, shape) = (at.block(), Shape::of(relation));
        self.shared.freshen(cx, block, shape.block_len());
        let head: RowHead = cx.read_layout(block);
        if head.is_refused() {
            self.shared.release_for(cx, at, dead.slot.host, false);
            return Resolved::Stays;
        }
        let is_its = block_is(cx, block, (partition, table), key).is_some();
        let is_sound = self.shared.is_sound(cx, block, shape) || cx.sabotaged("resolve.check-before-use");
        if is_its && is_sound && head.llsn & DELETED != 0 {
            return Resolved::Goes(head.llsn & VERSION);
        }
        let any = cx.sabotaged("resolve.only-newer-records");
        let last = dead.last_change(table, key).filter(|last| {
            let newer = match head.llsn & UNCOMMITTED != 0 {
                true => last.llsn > head.llsn & VERSION,
                // The same version may have come here in part.
                false => last.llsn >= head.llsn & VERSION,
            };
            newer || any
        });
        let last = if cx.sabotaged("resolve.redo-committed") { None } else { last };
        // What does not fit may be half written, where something was to be written: all of that is written
        // again.
        let is_half = |last: &LastChange| last.op != Op::Delete || head.llsn == last.llsn | DELETED;
        let is_usable = is_its && (is_sound || last.is_some_and(is_half));
        match last {
            Some(last) if is_usable && last.op == Op::Delete => return Resolved::Goes(last.llsn),
            Some(last) if is_usable && self.redo(cx, (block, shape), (head, is_sound), last) => {}
            None if is_usable && head.llsn & UNCOMMITTED == 0 => {}
            None if is_usable && cx.sabotaged("resolve.undo-inserts") => {}
            None if is_usable => return Resolved::Goes(0),
            _ => {
                self.shared.refuse(cx, block, (partition, table), key);
                cx.fence();
                self.shared.release_for(cx, at, dead.slot.host, true);
                return Resolved::Damaged;
            }
        }
        self.shared.release_for(cx, at, dead.slot.host, last.is_some());
        Resolved::Stays
    }

    /// Brings a row to where a committed transaction was about to bring it. False if that is not what its
    /// checksum says, where that is of the same version.
    fn redo<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (block, shape): (DataAddr, Shape),
        (before, is_sound): (RowHead, bool),
        last: &LastChange,
    ) -> bool {
        let start = row_start(shape.key_words);
        if last.op == Op::Insert {
            // What is zero at its end is not in the log.
            cx.write(block.byte(start), &vec![0; shape.row_len]);
        }
        for (offset, bytes) in &last.pieces {
            if usize::from(*offset) + bytes.len() <= shape.row_len {
                cx.write(block.byte(start + u64::from(*offset)), bytes);
            }
        }
        // Its head had been written: the rest is what the checksum says, or damaged.
        let is_complete = before.llsn == last.llsn && !is_sound;
        if is_complete && !self.shared.is_sound(cx, block, shape) {
            return false;
        }
        let head = RowHead { llsn: last.llsn, ..before };
        match cx.sabotaged("resolve.sum-redone") {
            true => cx.write(block, head.as_bytes()),
            false => self.shared.write_head_anew(cx, block, head, shape),
        }
        self.shared.write_back(cx, block, shape.block_len());
        cx.fence();
        count(&self.moves.rows_redone, 1);
        true
    }
}
