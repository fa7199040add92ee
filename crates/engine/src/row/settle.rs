//! After a host's death: what the living ones do about its locks (docs/protocols/takeover.md).
//!
//! Invariants:
//! 1. The host is cut off, and nobody here listens to it any more, before the first of its locks is touched.
//! 2. A row that it had write-locked becomes what its last record says, or stays what it is: the last record
//!    of each of its rings is the only one whose rows may not all be changed.
//! 3. Of a partition with a living owner, the owner resolves; of the dead host's own, its heir.

use std::collections::BTreeMap;

use liger_fabric::{Cx, Fabric};
use liger_pod::heap::TupleAddr;
use liger_pod::membership::Slot;
use liger_pod::plan::PartitionId;
use liger_pod::watch;
use liger_store::bwtree::{BwTree, Entries, Trace, TreeError};

use super::host::{RowHost, count};
use super::moves::sentinel_key;
use super::shared::{DELETED, RowHead, UNBORN, VERSION, block_is, block_len, row_start};
use crate::catalog::{At, Relation};
use crate::log::record::{Op, Record};
use crate::recovery::RecoveryError;
use crate::tables::key::Key;
use crate::txn::TableId;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "settle.listen-no-more",
    "settle.redo-committed",
    "settle.only-newer-records",
    "settle.undo-inserts",
    "settle.forget-readers",
];

/// Entries of a shared index: keys, and the words of their rows.
pub(super) type Found = Vec<(Key, TupleAddr)>;

/// Index entries looked at in one hold of a partition's latch.
const BATCH: usize = 64;

/// What the last record of a ring does to a row.
struct LastChange {
    op: Op,
    llsn: u64,
    pieces: Vec<(u16, Vec<u8>)>,
}

/// By table and key.
type LastChanges = BTreeMap<(TableId, Key), LastChange>;

/// Adds the last record of one more ring: of two that change the same row, the newer one says what it is.
fn note(changes: &mut LastChanges, record: &Record<'_>) {
    for change in record.changes() {
        let pieces = change.pieces().map(|(offset, bytes)| (offset, bytes.to_vec())).collect();
        let last = LastChange { op: change.op, llsn: record.llsn(), pieces };
        let known = changes.get(&(change.table, change.key));
        if known.is_none_or(|known| last.llsn >= known.llsn) {
            changes.insert((change.table, change.key), last);
        }
    }
}

/// A life that is over, and what it may have left half done.
pub(super) struct Dead {
    pub slot: Slot,
    changes: LastChanges,
}

/// What becomes of a row that a dead host may have held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Resolved {
    /// It stays.
    Stays,
    /// It goes: its delete has committed (in this version), or its insert has not (0). The dead host's write
    /// lock is still on it.
    Goes(u64),
}

impl RowHost {
    /// Reads what a dead host may have left half done.
    ///
    /// # Errors
    /// If a record is damaged: then nobody knows what is to become of the rows that it changes.
    pub(super) fn dead<F: Fabric>(&self, cx: &Cx<F>, slot: Slot) -> Result<Dead, RecoveryError> {
        let mut changes = LastChanges::new();
        let records = self.log.as_ref().map_or_else(Vec::new, |log| log.last_records(cx, slot.host));
        for (worker, bytes) in records {
            // Its tail says that it is whole.
            let damaged = |why| RecoveryError::Ring { host: slot.host, worker: worker.0, why };
            let record = Record::parse(&bytes).map_err(damaged)?;
            note(&mut changes, &record);
        }
        Ok(Dead { slot, changes })
    }

    /// This host's part after a death: it listens to the dead host no more, frees its own rows of it, also of
    /// partitions that it is taking over, and says so.
    pub(super) fn settle_death<F: Fabric>(
        &self,
        cx: &Cx<F>,
        slot: Slot,
        taking: &[(PartitionId, bool)],
    ) -> Result<(), RecoveryError> {
        if !cx.sabotaged("settle.listen-no-more") {
            self.owners.bury(cx, &self.plan, slot);
            self.lanes.drop_before(slot.host, slot.incarnation + 1);
        }
        self.outbox.forget(cx, slot.host);
        let dead = self.dead(cx, slot)?;
        let own: Vec<PartitionId> = self.own_partitions().collect();
        for partition in own {
            self.sweep_own(cx, partition, &dead)?;
        }
        for &(partition, attached) in taking {
            match attached {
                true => self.sweep_own(cx, partition, &dead)?,
                false => self.sweep_orphan(cx, partition, &dead)?,
            }
        }
        watch::settle(cx, &self.plan, slot, self.me);
        Ok(())
    }

    /// Frees the shared rows of a partition of this host from a dead host's locks.
    pub(super) fn sweep_own<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        dead: &Dead,
    ) -> Result<(), TreeError> {
        for relation in self.catalog.relations().iter().filter(|relation| !relation.replicated) {
            let mut from = Some(Key::zero(relation.key_words));
            while let Some(key) = from {
                // One step for the workers of this host.
                let mut latched = self.partition(cx, partition);
                let part = latched.table(relation.id);
                let (found, next) = self.batch(cx, &part.index, &key)?;
                for (key, at) in found {
                    let row = match key == sentinel_key(relation.key_words) {
                        true => Some(part.sentinel),
                        false => part.tree.get(key.words()),
                    };
                    let Some(row) = row.filter(|row| part.address(*row) == Some(at)) else { continue };
                    if let Resolved::Goes(llsn) = self.resolve(cx, dead, (partition, relation.id), &key, at) {
                        self.remove_row(cx, part, &key, row, dead.slot.host, llsn);
                    }
                }
                drop(latched);
                self.serve(cx);
                from = next;
            }
        }
        Ok(())
    }

    /// Frees the shared rows of a dead host's partition from its locks. The caller is its heir.
    pub(super) fn sweep_orphan<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        dead: &Dead,
    ) -> Result<(), TreeError> {
        for relation in self.catalog.relations().iter().filter(|relation| !relation.replicated) {
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
                self.attend(cx);
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
    /// partition's latch, or the heir of a dead owner.
    pub(super) fn resolve<F: Fabric>(
        &self,
        cx: &Cx<F>,
        dead: &Dead,
        place: (PartitionId, TableId),
        key: &Key,
        at: TupleAddr,
    ) -> Resolved {
        let host = dead.slot.host;
        let word = self.shared.peek(cx, at);
        if word.is_live() && word.writer() == Some(host) {
            count(&self.moves.locks_resolved, 1);
            if let resolved @ Resolved::Goes(_) = self.resolve_writer(cx, dead, place, key, at) {
                return resolved;
            }
        }
        if !cx.sabotaged("settle.forget-readers") {
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
        let block = at.block();
        self.shared.freshen(cx, block, block_len(relation.key_words, relation.row_len));
        let Some(head) = block_is(cx, block, (partition, table), key) else {
            // Damage. The row stays locked, and whoever wants it is told of a conflict.
            return Resolved::Stays;
        };
        if head.llsn & DELETED != 0 {
            return Resolved::Goes(head.llsn & VERSION);
        }
        let any = cx.sabotaged("settle.only-newer-records");
        let last = dead.changes.get(&(table, *key)).filter(|last| {
            let newer = match head.llsn & UNBORN != 0 {
                true => last.llsn > head.llsn & VERSION,
                // The same version may have come here in part.
                false => last.llsn >= head.llsn,
            };
            newer || any
        });
        let last = if cx.sabotaged("settle.redo-committed") { None } else { last };
        match last {
            Some(last) if last.op == Op::Delete => return Resolved::Goes(last.llsn),
            Some(last) => self.redo(cx, relation, block, last),
            None if head.llsn & UNBORN != 0 && !cx.sabotaged("settle.undo-inserts") => {
                return Resolved::Goes(0);
            }
            None => {}
        }
        self.shared.release_for(cx, at, dead.slot.host, last.is_some());
        Resolved::Stays
    }

    /// Brings a row to where a committed transaction was about to bring it.
    fn redo<F: Fabric>(
        &self,
        cx: &Cx<F>,
        relation: &Relation,
        block: liger_fabric::DataAddr,
        last: &LastChange,
    ) {
        count(&self.moves.rows_redone, 1);
        let start = row_start(relation.key_words);
        for (offset, bytes) in &last.pieces {
            if usize::from(*offset) + bytes.len() <= relation.row_len {
                cx.write(block.byte(start + u64::from(*offset)), bytes);
            }
        }
        cx.write(block, &last.llsn.to_ne_bytes());
        self.shared.write_back(cx, block, block_len(relation.key_words, relation.row_len));
        cx.fence();
        debug_assert_eq!(cx.read_layout::<RowHead>(block).llsn, last.llsn);
    }
}

#[cfg(test)]
mod tests {
    use liger_fabric::HostId;

    use super::*;
    use crate::log::record::{Origin, RecordWriter};

    /// Two workers of the dead host changed one row after each other, and neither has changed another since.
    #[test]
    fn of_two_last_records_that_change_a_row_the_newer_one_counts() {
        let key = Key::build().i32(1).finish();
        let record = |worker: u8, llsn: u64| {
            let mut writer = RecordWriter::default();
            writer.begin();
            writer.change((TableId(3), PartitionId(0)), Op::Update, &key, llsn - 1);
            writer.piece(8, &[worker]);
            writer.finish(llsn, 0, Origin { host: HostId(0), incarnation: 1, worker }).to_vec()
        };
        let (older, newer) = (record(0, 10), record(1, 11));
        for order in [[&older, &newer], [&newer, &older]] {
            let mut changes = LastChanges::new();
            order.iter().for_each(|bytes| note(&mut changes, &Record::parse(bytes).expect("whole")));
            let last = &changes[&(TableId(3), key)];
            assert_eq!((last.llsn, &last.pieces), (11, &vec![(8, vec![1])]));
        }
    }
}
