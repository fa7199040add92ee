//! One partition of all tables in the DRAM of its host, and what the header of a row means here.
//!
//! ```text
//! header of a row | stamp: DS2PL: readers; Sundial: when the gap below changed last                 |
//!                 | flags, aux: who holds the write lock (host and worker, plus one), 0 = nobody    |
//!                 | version: when the row changed last (Sundial: wts)                               |
//!                 | shared: Sundial: until when the row and its gap are leased (rts)                |
//! ```
//!
//! Invariants:
//! 1. A partition is reached through its latch only: what happens under one hold is one step.
//! 2. A row stands for itself and for the gap between the row before it and itself; every table ends in a
//!    sentinel row. Whoever looks at a gap, or changes what is in it, holds the row above it.
//! 3. Sundial: `version <= shared` and `stamp <= shared`; while a row is locked, only its holder changes
//!    them.
//! 4. DS2PL: a row that is locked for writing has no readers.

use liger_fabric::{Cx, Fabric, Work};
use liger_pod::plan::PartitionId;
use liger_store::local::{LocalTree, RowSlab};

use liger_engine::{Key, Relation, TableId};

/// Number of a row in its table's share of a partition.
pub(super) type RowId = u32;

/// Most rows of one table in one partition.
const MAX_ROWS: u32 = u32::MAX - 1;

/// One table's (or index's) share of a partition.
pub(super) struct PartTable {
    pub(super) tree: LocalTree,
    pub(super) rows: RowSlab,
    /// The row behind the last key.
    pub(super) sentinel: RowId,
    /// Greatest version of a removal: a later row with the same key gets a greater one.
    pub(super) removed: u64,
    /// Rows removed so far: while it stands still, numbers of rows mean what they meant.
    pub(super) removals: u64,
}

/// One partition of all tables.
pub(super) struct Partition {
    pub(super) id: PartitionId,
    /// By table id; `None` for replicated tables.
    pub(super) tables: Vec<Option<PartTable>>,
}

impl Partition {
    /// The share of table `table`, which is partitioned.
    pub(super) fn table(&mut self, table: TableId) -> &mut PartTable {
        self.tables[table.index()].as_mut().expect("a partitioned table")
    }
}

impl PartTable {
    /// An empty share of a relation.
    pub(super) fn new(relation: &Relation) -> Self {
        let mut rows = RowSlab::new(relation.row_len, MAX_ROWS);
        let sentinel = rows.alloc().expect("an empty slab has room");
        Self { tree: LocalTree::new(relation.key_words), rows, sentinel, removed: 0, removals: 0 }
    }

    /// The row with this key.
    pub(super) fn find<F: Fabric>(&self, cx: &Cx<F>, key: &Key) -> Option<RowId> {
        cx.spend(Work::IndexNode, self.tree.height() as u32 + 1);
        self.tree.get(key.words())
    }

    /// The row with the first key from `key` on, and that key: the sentinel at the end.
    pub(super) fn from<F: Fabric>(&self, cx: &Cx<F>, key: &Key) -> (Key, RowId) {
        cx.spend(Work::IndexNode, self.tree.height() as u32 + 1);
        match self.tree.lower_bound(key.words()) {
            Some(cursor) => {
                let (words, row) = self.tree.entry(cursor);
                (Key::from_words(words), row)
            }
            None => (end_of(key.width()), self.sentinel),
        }
    }

    /// The row behind the one with this key, and its key: the sentinel at the end.
    pub(super) fn behind<F: Fabric>(&self, cx: &Cx<F>, key: &Key) -> (Key, RowId) {
        self.from(cx, &key.next().expect("no row has the greatest key"))
    }

    /// The row that has this key now; the sentinel's is the greatest.
    pub(super) fn now_at(&self, key: &Key) -> Option<RowId> {
        if *key == end_of(key.width()) { Some(self.sentinel) } else { self.tree.get(key.words()) }
    }

    /// Takes a row out.
    pub(super) fn remove(&mut self, key: &Key, row: RowId) {
        let removed = self.tree.remove(key.words());
        debug_assert_eq!(removed, Some(row));
        self.rows.free(row);
        self.removals += 1;
    }
}

/// The key of a sentinel.
pub(super) fn end_of(words: usize) -> Key {
    Key::greatest(words)
}
