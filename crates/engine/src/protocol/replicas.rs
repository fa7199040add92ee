//! A host's copies of replicated tables: filled when the pod is loaded, then only read, without a lock.
//!
//! Invariants:
//! 1. A copy is replaced as a whole. A transaction reads one copy of a table, from its first look to its end.
//! 2. A key has one row.
//!
//! Not here: who fills them (load.rs, recovery/loading.rs).

use std::collections::BTreeMap;
use std::sync::Arc;

use liger_fabric::{Cx, Fabric, Latch};
use liger_store::local::{LocalTree, RowSlab};

use crate::catalog::{Catalog, Relation};
use crate::protocol::relational::{InDram, each_key};
use crate::tables::key::Key;
use crate::tables::record::Row;
use crate::txn::{TableId, TxnError};

/// Most rows of a table.
const MAX_ROWS: u32 = u32::MAX - 1;

/// The copy of one table.
struct Replica {
    tree: LocalTree,
    rows: RowSlab,
}

impl Replica {
    fn new(relation: &Relation) -> Self {
        assert!(relation.replicated, "{} has partitions", relation.name);
        let rows = RowSlab::new(relation.row_len, MAX_ROWS);
        Self { tree: LocalTree::new(relation.key_words), rows }
    }

    fn add(&mut self, relation: &Relation, key: &Key, version: u64, bytes: &[u8]) -> Result<(), TxnError> {
        debug_assert_eq!((key.width(), bytes.len()), (relation.key_words, relation.row_len), "a row of it");
        let full = TxnError::OutOfMemory { what: "copies", needed_bytes: bytes.len() as u64 };
        let row = self.rows.alloc().ok_or(full)?;
        if self.tree.insert(key.words(), row).is_err() {
            self.rows.free(row);
            return Err(TxnError::DuplicateKey { index: relation.id });
        }
        self.rows.bytes_mut(row).copy_from_slice(bytes);
        self.rows.set_version(row, version);
        Ok(())
    }
}

/// All copies of a host.
pub struct Replicas {
    /// By table; those of partitioned ones stay empty.
    tables: Vec<Latch<Option<Arc<Replica>>>>,
}

impl Replicas {
    /// Empty ones.
    pub fn new(catalog: &Catalog) -> Self {
        let empty = |relation: &Relation| relation.replicated.then(|| Arc::new(Replica::new(relation)));
        Self { tables: catalog.relations().iter().map(|relation| Latch::new(empty(relation))).collect() }
    }

    fn now<F: Fabric>(&self, cx: &Cx<F>, table: TableId) -> Arc<Replica> {
        self.tables[table.index()].lock(cx).clone().expect("a replicated table")
    }

    /// Shows the rows of a copy in the order of their keys, with their versions.
    ///
    /// # Panics
    /// If the table is not replicated.
    pub fn each<F: Fabric>(&self, cx: &Cx<F>, table: TableId, mut show: impl FnMut(&Key, u64, Row<'_>)) {
        let copy = self.now(cx, table);
        each_key(&copy.tree, |key, row| show(&key, copy.rows.version(row), Row::new(copy.rows.bytes(row))));
    }
}

/// The copies that a transaction reads, each from its first look to the transaction's end.
#[derive(Default)]
pub struct ReplicasRead(Vec<(TableId, Arc<Replica>)>);

impl ReplicasRead {
    /// The transaction has ended.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The copy of this table.
    pub fn of<F: Fabric>(&mut self, cx: &Cx<F>, replicas: &Replicas, table: TableId) -> InDram<'_> {
        let at = self.0.iter().position(|copy| copy.0 == table).unwrap_or_else(|| {
            self.0.push((table, replicas.now(cx, table)));
            self.0.len() - 1
        });
        debug_assert!(self.0[at].0 == table && self.0.len() <= replicas.tables.len(), "one copy a table");
        let copy = &self.0[at].1;
        InDram { tree: &copy.tree, rows: &copy.rows }
    }
}

/// Copies that are being filled.
#[derive(Default)]
pub struct ReplicasToBe(BTreeMap<TableId, Replica>);

impl ReplicasToBe {
    /// Adds a row of a replicated table.
    ///
    /// # Errors
    /// If its key is there already, or the copy is full.
    pub fn add(
        &mut self,
        relation: &Relation,
        key: &Key,
        version: u64,
        bytes: &[u8],
    ) -> Result<(), TxnError> {
        let copy = self.0.entry(relation.id).or_insert_with(|| Replica::new(relation));
        copy.add(relation, key, version, bytes)
    }

    /// Makes them visible, in place of what was there.
    pub fn finish<F: Fabric>(self, cx: &Cx<F>, replicas: &Replicas) {
        for (table, copy) in self.0 {
            let before = replicas.tables[table.index()].lock(cx).replace(Arc::new(copy));
            assert!(before.is_some(), "a copy of table {table}, which has partitions");
        }
    }
}
