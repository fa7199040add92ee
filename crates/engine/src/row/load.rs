//! Filling a pod before it is used, and reading all of it afterwards. Nobody else works on this host
//! meanwhile.

use std::collections::BTreeMap;

use liger_fabric::{Cx, Fabric};
use liger_pod::plan::PartitionId;
use liger_store::bwtree::{Entries, Trace};
use liger_store::local::RowFlags;

use super::host::{RowHost, new_part};
use super::partition::{Mode, TablePart};
use super::policy::PreMigration;
use super::shared::Acquired;
use crate::catalog::Relation;
use crate::key::Key;
use crate::record::{NewRow, Row};
use crate::relational::{each_key, each_of};
use crate::txn::{TableId, TxnError};

/// Puts rows into the partitions of one host, without locks or transactions.
///
/// Rows of other hosts' partitions are passed over, so that every host can be given the same rows. Replicated
/// tables become visible with [`Loader::finish`].
pub struct Loader<'h> {
    host: &'h RowHost,
    replicas: BTreeMap<TableId, TablePart>,
}

impl<'h> Loader<'h> {
    /// A loader for this host.
    pub fn new(host: &'h RowHost) -> Self {
        Self { host, replicas: BTreeMap::new() }
    }

    /// Adds a row and its index entries where they belong to this host.
    pub fn put<F: Fabric>(&mut self, cx: &Cx<F>, table: TableId, row: &NewRow) -> Result<(), TxnError> {
        let host = self.host;
        each_of(&host.catalog, table, row, |relation, key, bytes| self.put_one(cx, relation, key, 0, bytes))
    }

    /// Adds a row of one relation.
    pub(crate) fn put_one<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        relation: &Relation,
        key: &Key,
        version: u64,
        bytes: &[u8],
    ) -> Result<(), TxnError> {
        if relation.replicated {
            let plan = &self.host.plan;
            let part = self
                .replicas
                .entry(relation.id)
                .or_insert_with(|| new_part(plan, relation, PartitionId::default()));
            return add(part, relation, key, version, bytes);
        }
        let partition = relation.partition_of(key, self.host.partition_count());
        if !self.host.owns(partition) {
            return Ok(());
        }
        add(self.host.partition(cx, partition).table(relation.id), relation, key, version, bytes)
    }

    /// Makes the replicated tables visible.
    pub fn finish<F: Fabric>(self, cx: &Cx<F>) {
        for (table, part) in self.replicas {
            self.host.set_replica(cx, table, part);
        }
    }
}

/// Adds a row that is not there.
pub(super) fn add(
    part: &mut TablePart,
    relation: &Relation,
    key: &Key,
    version: u64,
    bytes: &[u8],
) -> Result<(), TxnError> {
    let full = TxnError::OutOfMemory { what: "rows of a partition", needed_bytes: bytes.len() as u64 };
    let row = part.rows.alloc().ok_or(full)?;
    if part.tree.insert(key.words(), row).is_err() {
        part.rows.free(row);
        return Err(TxnError::DuplicateKey { index: relation.id });
    }
    part.rows.bytes_mut(row).copy_from_slice(bytes);
    part.rows.set_version(row, version);
    part.set_flag(row, RowFlags::LIVE, true);
    Ok(())
}

impl RowHost {
    /// Shares every row of the listed tables in this host's partitions, as if other hosts had asked for them:
    /// the state that published evaluations start from. Returns the number of rows moved in.
    pub fn share_all<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId]) -> Result<u64, TxnError> {
        self.share_first(cx, tables, 1.0)
    }

    /// The same with so much of each table's part of each partition, in the order of its keys: 1.0 is all
    /// of it.
    pub fn share_first<F: Fabric>(
        &self,
        cx: &Cx<F>,
        tables: &[TableId],
        share: f64,
    ) -> Result<u64, TxnError> {
        let mut moved = 0;
        tables.iter().try_for_each(|&table| self.restore_for(cx, table))?;
        for partition in self.own_partitions().collect::<Vec<_>>() {
            for &table in tables {
                let mut latched = self.partition(cx, partition);
                let part = latched.table(table);
                let mut left = (share * part.rows.len() as f64) as u64;
                let mut at = part.tree.first();
                while let Some(cursor) = at.filter(|_| left > 0) {
                    left -= 1;
                    let (words, row) = part.tree.entry(cursor);
                    let key = Key::from_words(words);
                    if part.address(row).is_none() {
                        self.move_in(cx, part, (partition, table), &key, row, None)
                            .map_err(|e| super::tree_error(table, e))?;
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
    pub fn warm_up<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId]) -> Result<(), TxnError> {
        let others = self.plan.partitions().filter(|partition| !self.owns(*partition));
        let others: Vec<PartitionId> = others.collect();
        for &table in tables {
            let relation = self.catalog.relation(table)?;
            for &partition in &others {
                let _pin = self.epochs.pin(cx);
                let (mut entries, mut trace) = (Entries::default(), Trace::new());
                let (first, all) = (vec![0; relation.key_words], usize::MAX);
                let tree = self.foreign_index(relation, partition);
                tree.scan(cx, &self.tree_env(), &first, None, all, &mut entries, &mut trace)
                    .map_err(|e| super::tree_error(table, e))?;
                for (words, raw) in entries.iter() {
                    let hash = self.remote.hash_of(table, partition, &Key::from_words(words));
                    let at = self.row_at(raw).map_err(|e| super::tree_error(table, e))?;
                    if let Acquired::Granted { fresh, .. } = self.shared.acquire_read(cx, at) {
                        if !fresh {
                            self.shared.freshen_unknown(cx, at.block());
                        }
                        self.shared.release_read(cx, at);
                        self.remote.learn(cx, hash, at);
                    }
                }
            }
        }
        Ok(())
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
                let relations = self.catalog.relations().iter();
                let all: Vec<TableId> = relations.filter(|r| !r.replicated).map(|r| r.id).collect();
                self.share_all(cx, &all)
            }
        }
    }

    /// Makes all rows that are not here yet, for somebody who wants those of a table.
    fn restore_for<F: Fabric>(&self, cx: &Cx<F>, table: TableId) -> Result<(), TxnError> {
        self.restore_all(cx, || _ = self.attend(cx)).map_err(|why| why.of_rows(table))
    }

    /// Shows all rows of a table that live on this host, partition by partition in key order (of a replicated
    /// table, this host's copy). A row that a transaction holds is a conflict: wait until the pod is at rest.
    pub fn for_each_row<F: Fabric>(
        &self,
        cx: &Cx<F>,
        table: TableId,
        mut show: impl FnMut(&Key, Row<'_>),
    ) -> Result<(), TxnError> {
        let relation = self.catalog.relation(table)?;
        if relation.replicated {
            let part = self.replica(cx, table);
            each_key(&part.tree, |key, row| show(&key, Row::new(part.rows.bytes(row))));
            return Ok(());
        }
        self.restore_for(cx, table)?;
        for partition in self.own_partitions() {
            let mut latched = self.partition(cx, partition);
            let part = latched.table(table);
            let mut at = part.tree.first();
            while let Some(cursor) = at {
                let (words, row) = part.tree.entry(cursor);
                let key = Key::from_words(words);
                part.lock(cx, self.shared, row, cx.worker(), Mode::Read, false)?;
                show(&key, Row::new(part.rows.bytes(row)));
                part.unlock(cx, self.shared, row, cx.worker());
                at = part.tree.next(cursor);
            }
        }
        Ok(())
    }
}
