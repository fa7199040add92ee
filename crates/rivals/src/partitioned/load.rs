//! Filling a partitioned pod before it is used, and reading and checking all of it afterwards. Nobody else
//! works on this host meanwhile.

use std::collections::BTreeMap;

use liger_fabric::{Cx, Fabric};
use liger_store::local::RowFlags;

use super::host::PartHost;
use super::part::PartTable;
use liger_engine::Key;
use liger_engine::Relation;
use liger_engine::protocol::{each_key, each_of};
use liger_engine::{NewRow, Row};
use liger_engine::{TableId, TxnError};

/// Puts rows into the partitions of one host, without locks or transactions.
///
/// Rows of other hosts' partitions are passed over, so that every host can be given the same rows. Replicated
/// tables become visible with [`PartLoader::finish`].
pub struct PartLoader<'h> {
    host: &'h PartHost,
    replicas: BTreeMap<TableId, PartTable>,
}

impl<'h> PartLoader<'h> {
    /// A loader for this host.
    pub fn new(host: &'h PartHost) -> Self {
        Self { host, replicas: BTreeMap::new() }
    }

    /// Adds a row and its index entries where they belong to this host.
    ///
    /// # Errors
    /// If the row is not the table's, or is there already.
    pub fn put<F: Fabric>(&mut self, cx: &Cx<F>, table: TableId, row: &NewRow) -> Result<(), TxnError> {
        let host = self.host;
        each_of(&host.catalog, table, row, |relation, key, bytes| {
            if relation.replicated {
                let part = self.replicas.entry(relation.id).or_insert_with(|| PartTable::new(relation));
                return add(part, relation, key, bytes);
            }
            let partition = relation.partition_of(key, host.partition_count());
            if host.owner(partition) != host.me {
                return Ok(());
            }
            add(host.partition(cx, partition).table(relation.id), relation, key, bytes)
        })
    }

    /// Makes the replicated tables visible.
    pub fn finish<F: Fabric>(self, cx: &Cx<F>) {
        for (table, part) in self.replicas {
            self.host.set_replica(cx, table, part);
        }
    }
}

fn add(part: &mut PartTable, relation: &Relation, key: &Key, bytes: &[u8]) -> Result<(), TxnError> {
    let full = TxnError::OutOfMemory { what: "rows of a partition", needed_bytes: bytes.len() as u64 };
    let row = part.rows.alloc().ok_or(full)?;
    if part.tree.insert(key.words(), row).is_err() {
        part.rows.free(row);
        return Err(TxnError::DuplicateKey { index: relation.id });
    }
    part.rows.bytes_mut(row).copy_from_slice(bytes);
    part.rows.set_flags(row, RowFlags::LIVE);
    Ok(())
}

impl PartHost {
    /// Shows all rows of a table that live on this host, partition by partition in key order (of a replicated
    /// table, this host's copy). The pod is at rest.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn for_each_row<F: Fabric>(
        &self,
        cx: &Cx<F>,
        table: TableId,
        mut show: impl FnMut(&Key, Row<'_>),
    ) -> Result<(), TxnError> {
        if self.catalog.relation(table)?.replicated {
            let part = self.replica(cx, table);
            each_key(&part.tree, |key, row| show(&key, Row::new(part.rows.bytes(row))));
            return Ok(());
        }
        for partition in self.own_partitions() {
            let mut latched = self.partition(cx, partition);
            let part = latched.table(table);
            each_key(&part.tree, |key, row| show(&key, Row::new(part.rows.bytes(row))));
        }
        Ok(())
    }

    /// What is wrong with this host, of a pod at rest: locks that nobody gave back, rows that no key leads
    /// to, leases that end before they begin.
    pub fn check<F: Fabric>(&self, cx: &Cx<F>) -> Vec<String> {
        let mut problems = Vec::new();
        for partition in self.own_partitions() {
            for part in self.partition(cx, partition).tables.iter().flatten() {
                let mut known = 1;
                let mut look = |key: Option<Key>, row: u32| {
                    let (writer, readers) = (part.rows.aux(row), part.rows.stamp(row));
                    let mut wrong = |what: String| problems.push(format!("{partition} {key:?}: {what}"));
                    if writer != 0 {
                        wrong(format!("locked by {writer}"));
                    }
                    match self.rules.protocol {
                        super::Protocol::Ds2pl if readers != 0 => wrong(format!("{readers} readers")),
                        super::Protocol::Sundial
                            if part.rows.version(row).max(readers) > part.rows.shared(row) =>
                        {
                            wrong("a lease that ends before it begins".to_owned());
                        }
                        _ => {}
                    }
                };
                look(None, part.sentinel);
                each_key(&part.tree, |key, row| {
                    known += 1;
                    look(Some(key), row);
                });
                if known != part.rows.len() {
                    problems.push(format!("{partition}: {known} rows by key, {} in all", part.rows.len()));
                }
            }
        }
        problems
    }
}
