//! A host's copies of replicated tables, of engines that fill them once and only read them.

use std::collections::BTreeMap;
use std::sync::Arc;

use liger_fabric::{Cx, Fabric, Latch};
use liger_store::local::{LocalTree, RowSlab};

use liger_engine::Key;
use liger_engine::Row;
use liger_engine::protocol::{InDram, each_key};
use liger_engine::{Catalog, Relation};
use liger_engine::{TableId, TxnError};

/// The copy of one table.
pub(crate) struct Copy {
    tree: LocalTree,
    rows: RowSlab,
}

impl Copy {
    fn new(relation: &Relation) -> Self {
        let rows = RowSlab::new(relation.row_len, u32::MAX - 1);
        Self { tree: LocalTree::new(relation.key_words), rows }
    }

    fn add(&mut self, relation: &Relation, key: &Key, bytes: &[u8]) -> Result<(), TxnError> {
        let full = TxnError::OutOfMemory { what: "copies", needed_bytes: bytes.len() as u64 };
        let row = self.rows.alloc().ok_or(full)?;
        self.rows.bytes_mut(row).copy_from_slice(bytes);
        let added = self.tree.insert(key.words(), row);
        added.map_err(|_| TxnError::DuplicateKey { index: relation.id })
    }
}

/// All copies of a host.
pub(crate) struct Copies {
    /// By table.
    tables: Vec<Latch<Arc<Copy>>>,
}

impl Copies {
    /// Empty ones.
    pub(crate) fn new(catalog: &Catalog) -> Self {
        Self { tables: catalog.relations().iter().map(|r| Latch::new(Arc::new(Copy::new(r)))).collect() }
    }

    /// Shows the rows of a copy in the order of their keys.
    pub(crate) fn each<F: Fabric>(&self, cx: &Cx<F>, table: TableId, mut show: impl FnMut(&Key, Row<'_>)) {
        let copy = self.tables[usize::from(table.0)].lock(cx).clone();
        each_key(&copy.tree, |key, row| show(&key, Row::new(copy.rows.bytes(row))));
    }
}

/// The copies that a transaction reads, each from its first look to the transaction's end.
#[derive(Default)]
pub(crate) struct CopiesRead(Vec<(TableId, Arc<Copy>)>);

impl CopiesRead {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The copy of this table.
    pub(crate) fn of<F: Fabric>(&mut self, cx: &Cx<F>, copies: &Copies, table: TableId) -> InDram<'_> {
        let at = self.0.iter().position(|copy| copy.0 == table).unwrap_or_else(|| {
            self.0.push((table, copies.tables[usize::from(table.0)].lock(cx).clone()));
            self.0.len() - 1
        });
        let copy = &self.0[at].1;
        InDram { tree: &copy.tree, rows: &copy.rows }
    }
}

/// Copies that are being filled.
#[derive(Default)]
pub(crate) struct CopiesToBe(BTreeMap<TableId, Copy>);

impl CopiesToBe {
    /// Adds a row of a replicated table.
    pub(crate) fn add(&mut self, relation: &Relation, key: &Key, bytes: &[u8]) -> Result<(), TxnError> {
        self.0.entry(relation.id).or_insert_with(|| Copy::new(relation)).add(relation, key, bytes)
    }

    /// Makes them visible.
    pub(crate) fn finish<F: Fabric>(self, cx: &Cx<F>, copies: &Copies) {
        for (table, copy) in self.0 {
            *copies.tables[usize::from(table.0)].lock(cx) = Arc::new(copy);
        }
    }
}
