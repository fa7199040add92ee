//! A partition that leaves this host: its rows leave shared memory, and then its shared indexes do
//! (docs/protocols/handover.md).
//!
//! Invariants:
//! 1. When a partition is withdrawn, every row of it is in this host's DRAM alone, as its last writer wrote
//!    it, and nobody holds one.
//! 2. All of it may be done again. What was done of it is right whether the partition leaves or stays.

use liger_fabric::{Cx, Fabric};
use liger_pod::heap::TupleAddr;
use liger_pod::plan::PartitionId;
use liger_store::bwtree::TreeError;

use super::moves::sentinel_key;
use super::partition::{RowId, TablePart};
use super::rows::Rows;
use crate::catalog::{At, Relation};
use crate::method::Poll;
use crate::tables::key::Key;

impl Rows {
    /// Takes rows of a partition out of shared memory, and indexes without entries; true if nothing is left.
    pub(super) fn withdraw_shared<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        poll: Poll<'_>,
    ) -> Result<bool, TreeError> {
        debug_assert!(self.owners.is_given(partition), "nobody moves a row of it in");
        let mut is_gone = true;
        for relation in self.relations() {
            let part = self.part(cx, (partition, relation.id));
            if part.lacks_index {
                continue;
            }
            // One that should be there and is not is damage: nothing tells where the shared rows are.
            part.index.get(cx, &self.tree_env(), sentinel_key(part.key_words).words())?;
            drop(part);
            is_gone &= self.withdraw_rows(cx, (partition, relation), poll)?;
            let mut part = self.part(cx, (partition, relation.id));
            // Who was about to move a row in when the partition was closed has done so, or finds it closed.
            if self.has_shared(cx, &part)? {
                is_gone = false;
                continue;
            }
            // Entries that could not be taken out, for want of memory, go with it.
            part.index.destroy(cx, &self.tree_env())?;
            part.lacks_index = true;
            debug_assert!(part.rows.rows().all(|row| part.address(row).is_none()), "no row is shared");
            part.stale.drain(..).for_each(|(_, at)| self.shared.reserve(cx, at, false));
        }
        Ok(is_gone)
    }

    /// Takes rows of a table's share out that nobody holds; true if that are all.
    pub(super) fn withdraw_rows<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (partition, relation): (PartitionId, &Relation),
        poll: Poll<'_>,
    ) -> Result<bool, TreeError> {
        let index = self.foreign_index(At::new(relation, partition));
        let (mut from, mut all) = (Some(Key::zero(relation.key_words)), true);
        while let Some(key) = from {
            let (found, next) = self.batch(cx, &index, &key)?;
            let mut part = self.part(cx, (partition, relation.id));
            for (key, at) in found {
                if let Some(row) = row_at(&part, &key, at) {
                    all &= self.move_row_out(cx, &mut part, row);
                }
            }
            drop(part);
            poll();
            from = next;
        }
        Ok(all)
    }

    /// True if a row of a table's share is in shared memory.
    fn has_shared<F: Fabric>(&self, cx: &Cx<F>, part: &TablePart) -> Result<bool, TreeError> {
        let mut from = Some(Key::zero(part.key_words));
        while let Some(key) = from {
            let (found, next) = self.batch(cx, &part.index, &key)?;
            if found.iter().any(|(key, at)| row_at(part, key, *at).is_some()) {
                return Ok(true);
            }
            from = next;
        }
        Ok(false)
    }
}

/// The row that an entry of the index leads to; none if the entry could not be taken out with its row.
fn row_at(part: &TablePart, key: &Key, at: TupleAddr) -> Option<RowId> {
    let is_sentinel = *key == sentinel_key(part.key_words);
    let row = if is_sentinel { Some(part.sentinel) } else { part.tree.get(key.words()) };
    row.filter(|row| part.address(*row) == Some(at))
}
