//! A partition that comes to this host: its rows in shared memory are joined with what the others will be
//! made from, and its shared index is finished (docs/protocols/takeover.md).
//!
//! Invariants:
//! 1. A row that is in the shared index with a live word is what its block says; every other row is what the
//!    logs say. So joining makes no row from images and logs, and who makes them later leaves out those that
//!    are joined, or were (unrestored.rs).
//! 2. All of it may be done again, by this host or by its successor.

use std::collections::BTreeSet;

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::heap::TupleAddr;
use liger_pod::plan::PartitionId;
use liger_store::bwtree::TreeError;

use super::moves::sentinel_key;
use super::partition::{RowId, TablePart};
use super::policy::SharedRow;
use super::rows::Rows;
use crate::catalog::At;
use crate::instance::count;
use crate::method::Poll;
use crate::recovery::RecoveryError;
use crate::tables::key::Key;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["takeover.versions-above-removed"];

impl Rows {
    /// Joins the rows in shared memory with a partition of which nothing is made yet. Whatever was removed
    /// from it has a version below `first`; `poll` is called between some rows and the next ones.
    pub(super) fn attach_shared<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        first: u64,
        poll: Poll<'_>,
    ) -> Result<(), RecoveryError> {
        debug_assert!(self.owners.is_closed(partition), "nobody uses it before all of it is here");
        let removed = first - 1;
        for relation in self.relations() {
            let index = self.foreign_index(At::new(relation, partition));
            if !cx.sabotaged("takeover.versions-above-removed") {
                let mut part = self.part(cx, (partition, relation.id));
                (part.max_removed_llsn, part.adopted_llsn) = (removed, removed);
            }
            let mut from = Some(Key::zero(relation.key_words));
            while let Some(key) = from {
                let (found, next) = self.batch(cx, &index, &key)?;
                let mut latched = self.part(cx, (partition, relation.id));
                let part = &mut *latched;
                for (key, at) in found {
                    // Nothing else begins at a dead cell before its entry is taken out.
                    if !self.shared.adopt(cx, at) {
                        self.shared.reserve(cx, at, true);
                        part.stale.push((key, at));
                        continue;
                    }
                    let row = row_of(part, &key, at)?;
                    debug_assert_eq!(part.address(row), None, "a row is in one place");
                    part.rows.set_shared(row, at.raw());
                    let shared = SharedRow { partition, table: relation.id, row, at };
                    self.move_out.lock(cx).moved_in(shared);
                    count(&self.moves.shared_rows, 1);
                }
                drop(latched);
                poll();
                from = next;
            }
        }
        Ok(())
    }

    /// Takes entries of dead words out of a partition's shared indexes, and makes those that their owner did
    /// not come to make, or took away. One that there is no room for is made when a row moves in.
    pub(super) fn finish_indexes<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
    ) -> Result<(), TreeError> {
        for relation in self.relations() {
            let mut part = self.part(cx, (partition, relation.id));
            // What cannot go now goes before the next row moves.
            let _ = self.retract_stale(cx, &mut part);
            match part.index.create(cx, &self.tree_env()) {
                Err(TreeError::Exists { .. } | TreeError::OutOfMemory(_)) | Ok(()) => {}
                Err(failed) => return Err(failed),
            }
        }
        Ok(())
    }

    /// Adds the shared memory that a table's share uses.
    pub(super) fn reach_part<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &TablePart,
        in_use: &mut BTreeSet<u64>,
    ) -> Result<(), TreeError> {
        match part.index.check(cx, &self.tree_env()) {
            Err(TreeError::NotFormatted { .. }) => {}
            Err(broken) => return Err(broken),
            Ok(census) => {
                in_use.extend(census.words.iter().map(|word| word.offset()));
                in_use.extend(census.records.iter().map(|(at, _)| at.offset()));
            }
        }
        for row in part.rows.rows() {
            if let Some(at) = part.address(row) {
                in_use.insert(at.block().offset());
            }
        }
        Ok(())
    }

    /// True if some shared memory of a partition has an owner like this.
    pub(super) fn has_memory_of<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        is_theirs: &dyn Fn(Option<(HostId, u16)>) -> bool,
    ) -> Result<bool, TreeError> {
        for relation in self.relations() {
            let index = self.foreign_index(At::new(relation, partition));
            let census = match index.check(cx, &self.tree_env()) {
                Err(TreeError::NotFormatted { .. }) => continue,
                census => census?,
            };
            let mut words = census.words.iter();
            let mut records = census.records.iter().map(|(at, _)| *at);
            if words.any(|at| is_theirs(self.heap.owner_of_word(cx, *at)))
                || records.any(|at| is_theirs(self.heap.owner_of_block(cx, at)))
            {
                return Ok(true);
            }
            let mut from = Some(Key::zero(relation.key_words));
            while let Some(key) = from {
                let (found, next) = self.batch(cx, &index, &key)?;
                if found.iter().any(|(_, at)| is_theirs(self.heap.owner_of_block(cx, at.block()))) {
                    return Ok(true);
                }
                from = next;
            }
        }
        Ok(false)
    }
}

/// A row for a shared key, whose block has the bytes.
fn row_of(part: &mut TablePart, key: &Key, at: TupleAddr) -> Result<RowId, TreeError> {
    if *key == sentinel_key(part.key_words) {
        return Ok(part.sentinel);
    }
    let full = TreeError::Damaged { offset: at.block().offset(), what: "more rows than a partition has" };
    let row = part.rows.alloc().ok_or(full)?;
    part.tree.insert(key.words(), row).expect("an index has a key once, and no row is made yet");
    // Its block says which, to whoever holds the row; another host may hold it now.
    part.rows.set_version(row, 0);
    Ok(row)
}
