//! Filling a pod before it is used, and reading all of it afterwards. Nobody else works on this host
//! meanwhile.

use liger_fabric::{Cx, Fabric};
use liger_pod::plan::PartitionId;
use liger_store::bwtree::{Entries, Trace};
use liger_store::local::{Neighbors, RowFlags};

use super::RowHost;
use super::partition::TablePart;
use super::policy::PreMigration;
use super::rows::Rows;
use super::shared::Acquired;
use crate::catalog::{At, Relation};
use crate::protocol::engine::HostEngine;
use crate::protocol::failure::tree_error;
use crate::tables::key::Key;
use crate::txn::{TableId, TxnError};

/// Adds a row that is not there; `near` is where its key belongs.
pub(super) fn add(
    part: &mut TablePart,
    relation: &Relation,
    (key, near): (&Key, &Neighbors),
    version: u64,
    bytes: &[u8],
) -> Result<(), TxnError> {
    let full = TxnError::OutOfMemory { what: "rows of a partition", needed_bytes: bytes.len() as u64 };
    if near.found.is_some() {
        return Err(TxnError::DuplicateKey { index: relation.id });
    }
    let row = part.rows.alloc().ok_or(full)?;
    part.tree.insert_near(near, key.words(), row);
    part.rows.bytes_mut(row).copy_from_slice(bytes);
    part.rows.set_version(row, version);
    part.set_flag(row, RowFlags::LIVE, true);
    Ok(())
}

impl Rows {
    /// Shares so much of each table's part of each partition, in the order of its keys: 1.0 is all of it, as
    /// if other hosts had asked for it. Returns the number of rows moved in.
    pub(super) fn share_first<F: Fabric>(
        &self,
        cx: &Cx<F>,
        tables: &[TableId],
        share: f64,
    ) -> Result<u64, TxnError> {
        let mut moved = 0;
        for partition in self.own_partitions().collect::<Vec<_>>() {
            for &table in tables {
                let mut latched = self.part(cx, (partition, table));
                let part = &mut *latched;
                let mut left = (share * part.rows.len() as f64) as u64;
                let mut at = part.tree.first();
                while let Some(cursor) = at.filter(|_| left > 0) {
                    left -= 1;
                    let (words, row) = part.tree.entry(cursor);
                    let key = Key::from_words(words);
                    if part.address(row).is_none() {
                        self.move_in(cx, part, (partition, table), &key, row, None)
                            .map_err(|e| tree_error(table, e))?;
                        moved += 1;
                    }
                    at = part.tree.next(cursor);
                }
            }
            self.collect(cx);
        }
        Ok(moved)
    }

    /// Uses every shared row of the listed tables in other hosts' partitions once, as if this host had run
    /// for long: it knows where they are, and that its cache holds no old copies of them.
    ///
    /// # Errors
    /// If a shared index is damaged.
    pub(super) fn learn_shared<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId]) -> Result<(), TxnError> {
        let others = self.plan.partitions().filter(|partition| !self.owns(*partition));
        let others: Vec<PartitionId> = others.collect();
        for &table in tables {
            let relation = self.catalog.relation(table)?;
            for &partition in &others {
                let _pin = self.epochs.pin(cx);
                let (mut entries, mut trace) = (Entries::default(), Trace::new());
                let (first, all) = (vec![0; relation.key_words], usize::MAX);
                let tree = self.foreign_index(At::new(relation, partition));
                tree.scan(cx, &self.tree_env(), &first, None, all, &mut entries, &mut trace)
                    .map_err(|e| tree_error(table, e))?;
                for (words, raw) in entries.iter() {
                    let hash = self.remote.hash_of(table, partition, &Key::from_words(words));
                    let at = self.row_at(raw).map_err(|e| tree_error(table, e))?;
                    if let Acquired::Granted { fresh, .. } = self.shared.acquire_read(cx, at) {
                        if !fresh {
                            self.freshen_unknown(cx, at.block());
                        }
                        self.shared.release_read(cx, at);
                        self.remote.learn(cx, hash, at);
                    }
                }
            }
        }
        Ok(())
    }
}

impl RowHost {
    /// Shares every row of the listed tables in this host's partitions, as if other hosts had asked for them:
    /// the state that published evaluations start from. Returns the number of rows moved in.
    pub fn share_all<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId]) -> Result<u64, TxnError> {
        self.share(cx, tables, 1.0)
    }

    /// Shares the rows of this host's partitions with which a run is to begin. The workload says which tables
    /// its transactions use from several hosts. Returns the number of rows moved in.
    pub fn share_before<F: Fabric>(
        &self,
        cx: &Cx<F>,
        which: PreMigration,
        non_partitionable: &[TableId],
    ) -> Result<u64, TxnError> {
        match which {
            PreMigration::None => Ok(0),
            PreMigration::NonPartitionable => self.share_all(cx, non_partitionable),
            PreMigration::All => {
                let all: Vec<TableId> = self.rows().relations().map(|relation| relation.id).collect();
                self.share_all(cx, &all)
            }
        }
    }
}
