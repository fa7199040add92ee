//! What every protocol of transactions does alike: tables with secondary indexes, above relations that have
//! rows by key.
//!
//! A protocol says how one row, or the rows of one partition in key order, are reached, held, added and
//! marked for removal ([`Relational`]); with that it is a [`Transaction`]. An index is a relation of its own,
//! kept with the table's rows.
//!
//! Not here: who may see what when (the protocols).

use std::hash::Hash;
use std::ops::ControlFlow;

use liger_fabric::{Cx, Fabric, Work};
use liger_pod::plan::PartitionId;
use liger_store::local::{LocalTree, RowSlab};

use crate::catalog::{At, Catalog, Kind, Relation};
use crate::protocol::core::TxnCore;
use crate::protocol::engine::HostEngine;
use crate::protocol::workspace::Visitor;
use crate::tables::key::{Key, KeyRange};
use crate::tables::record::{NewRow, Row, RowMut};
use crate::txn::{Announced, Conflict, IndexId, TableId, Transaction, TxnError};

/// Cache lines of a row that a prefetch loads at most: its holders and its first columns.
const PREFETCHED_LINES: usize = 6;

/// Rows in a host's DRAM: its copy of a replicated table, or of a partition of its own.
pub struct InDram<'t> {
    /// Its rows' numbers, by key.
    pub tree: &'t LocalTree,
    /// Its rows' bytes, by number.
    pub rows: &'t RowSlab,
}

impl InDram<'_> {
    /// Starts loading a row, whose leaf should have arrived.
    pub fn prefetch_row(&self, key: &Key) {
        if let Some(row) = self.tree.get(key.words()) {
            self.rows.prefetch(row, PREFETCHED_LINES);
        }
    }
}

/// How far a visit came: whether the visitor wants more.
pub type Flow = Result<ControlFlow<()>, TxnError>;

/// A transaction of some protocol, by its relations. All methods fail with [`TxnError::Conflict`] when they
/// meet another transaction.
pub trait Relational {
    /// What its worker works through.
    type Fabric: Fabric;
    /// The engine of its host.
    type Host: HostEngine;
    /// How its protocol names where a row is.
    type Location: Copy + Eq + Hash;

    /// Its host, which outlives its calls.
    fn host<'a>(&self) -> &'a Self::Host
    where
        Self: 'a;

    /// Its worker, and what it holds.
    fn core(&mut self) -> (&Cx<Self::Fabric>, &mut TxnCore<Self::Location>);

    /// The pod's relations.
    fn catalog<'a>(&self) -> &'a Catalog
    where
        Self: 'a,
    {
        self.host().catalog()
    }

    /// Partitions of the pod.
    fn partitions(&self) -> u16 {
        self.host().partition_count()
    }

    /// The copy of a replicated table that this transaction reads, from its first look to its end.
    fn copied(&mut self, table: TableId) -> InDram<'_> {
        let replicas = self.host().replicas();
        let (cx, core) = self.core();
        core.copied(cx, replicas, table)
    }

    /// Charges computation to the worker.
    fn charge(&mut self, work: Work, times: u32) {
        self.core().0.spend(work, times);
    }

    /// See [`Transaction::announce`].
    fn announce_rows(&mut self, rows: &[Announced]) {
        let _ = rows;
    }

    /// Shows the row of a partitioned relation with this key to the visitor; false if there is none.
    fn point_in(&mut self, at: At<'_>, key: &Key, visitor: &mut Visitor<'_>) -> Result<bool, TxnError>;

    /// Shows the rows of a range of one partition in key order.
    fn range_in(&mut self, at: At<'_>, range: &KeyRange, visitor: &mut Visitor<'_>) -> Flow;

    /// Adds a row; false if the key is taken (which is then protected).
    fn insert_in(&mut self, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<bool, TxnError>;

    /// Marks the row for removal that was shown to a writing visitor last.
    fn delete_visited(&mut self, at: At<'_>, key: &Key) -> Result<(), TxnError>;
}

/// Shows the row with this key to the visitor; false if there is none.
pub fn point<T: Relational>(
    txn: &mut T,
    relation: &Relation,
    key: &Key,
    visitor: &mut Visitor<'_>,
) -> Result<bool, TxnError> {
    relation.check_key(key)?;
    if relation.replicated {
        return point_copied(txn, relation, key, visitor);
    }
    txn.point_in(relation.at(key, txn.partitions()), key, visitor)
}

fn point_copied<T: Relational>(
    txn: &mut T,
    relation: &Relation,
    key: &Key,
    visitor: &mut Visitor<'_>,
) -> Result<bool, TxnError> {
    let Visitor::Read(visit) = visitor else { return Err(TxnError::ReadOnly { table: relation.id }) };
    debug_assert!(relation.replicated, "{} has no copies", relation.name);
    let InDram { tree, rows } = txn.copied(relation.id);
    let (levels, found) = (tree.height() as u32 + 1, tree.get(key.words()));
    let _ = found.map(|row| visit(key, Row::new(rows.bytes(row))));
    txn.charge(Work::IndexNode, levels);
    txn.charge(Work::DramLine, if found.is_some() { 2 } else { 0 });
    Ok(found.is_some())
}

/// Visits the rows of a range, wherever they are.
pub fn range<T: Relational>(
    txn: &mut T,
    relation: &Relation,
    range: &KeyRange,
    visitor: &mut Visitor<'_>,
) -> Result<(), TxnError> {
    relation.check_key(&range.low)?;
    if let Some(high) = &range.high {
        relation.check_key(high)?;
    }
    if range.is_empty() {
        return Ok(());
    }
    if relation.replicated {
        return range_copied(txn, relation, range, visitor);
    }
    match relation.at_range(range, txn.partitions()) {
        Some(at) => txn.range_in(at, range, visitor).map(|_| ()),
        None => range_of_all(txn, relation, range, visitor),
    }
}

/// A range over all partitions: held partition by partition, then visited in key order.
fn range_of_all<T: Relational>(
    txn: &mut T,
    relation: &Relation,
    range: &KeyRange,
    visitor: &mut Visitor<'_>,
) -> Result<(), TxnError> {
    let mut rows: Vec<(Key, Vec<u8>)> = Vec::new();
    for partition in (0..txn.partitions()).map(PartitionId) {
        let mut gather = |key: &Key, row: Row<'_>| {
            rows.push((*key, row.bytes().to_vec()));
            ControlFlow::Continue(())
        };
        let at = At::new(relation, partition);
        let _ = txn.range_in(at, range, &mut Visitor::Read(&mut gather))?;
    }
    rows.sort_unstable_by_key(|row| row.0);
    debug_assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "a key is in one partition");
    for (key, bytes) in rows {
        let flow = match visitor {
            Visitor::Read(visit) => visit(&key, Row::new(&bytes)),
            Visitor::Write(visit) => {
                let mut flow = ControlFlow::Continue(());
                let mut once = |key: &Key, row: &mut RowMut<'_>| {
                    flow = visit(key, row);
                    ControlFlow::Break(())
                };
                point(txn, relation, &key, &mut Visitor::Write(&mut once))?;
                flow
            }
        };
        if flow.is_break() {
            break;
        }
    }
    Ok(())
}

fn range_copied<T: Relational>(
    txn: &mut T,
    relation: &Relation,
    range: &KeyRange,
    visitor: &mut Visitor<'_>,
) -> Result<(), TxnError> {
    let Visitor::Read(visit) = visitor else { return Err(TxnError::ReadOnly { table: relation.id }) };
    debug_assert!(relation.replicated && !range.is_empty(), "a copy of {}", relation.name);
    let InDram { tree, rows } = txn.copied(relation.id);
    let mut at = tree.lower_bound(range.low.words());
    while let Some(cursor) = at {
        let (words, row) = tree.entry(cursor);
        let key = Key::from_words(words);
        debug_assert!(key >= range.low, "{key:?} lies before {range:?}");
        if range.ends_before(&key) || visit(&key, Row::new(rows.bytes(row))).is_break() {
            break;
        }
        at = tree.next(cursor);
    }
    Ok(())
}

/// Puts a row into one relation.
fn put<T: Relational>(txn: &mut T, relation: &Relation, key: &Key, bytes: &[u8]) -> Result<(), TxnError> {
    debug_assert_eq!(bytes.len(), relation.row_len, "a row of {}", relation.name);
    if key.words().iter().all(|word| *word == u64::MAX) {
        return Err(TxnError::KeyReserved { table: relation.id });
    }
    let inserted = txn.insert_in(relation.at(key, txn.partitions()), key, bytes)?;
    if inserted { Ok(()) } else { Err(TxnError::DuplicateKey { index: relation.id }) }
}

/// Marks a row of one relation for removal; false if there is none. What it is goes to `image`, if that is
/// wanted.
fn mark_deleted<T: Relational>(
    txn: &mut T,
    relation: &Relation,
    key: &Key,
    mut image: Option<&mut Vec<u8>>,
) -> Result<bool, TxnError> {
    let mut keep = |_: &Key, row: &mut RowMut<'_>| {
        if let Some(image) = image.as_mut() {
            image.clear();
            row.copy_to(image);
        }
        ControlFlow::Break(())
    };
    let found = point(txn, relation, key, &mut Visitor::Write(&mut keep))?;
    if found {
        txn.delete_visited(relation.at(key, txn.partitions()), key)?;
    }
    Ok(found)
}

/// Visits the rows of a table's share of a partition, or of a copy, in the order of their keys.
pub fn each_key(tree: &LocalTree, mut visit: impl FnMut(Key, u32)) {
    let mut at = tree.first();
    while let Some(cursor) = at {
        let (words, row) = tree.entry(cursor);
        visit(Key::from_words(words), row);
        at = tree.next(cursor);
    }
}

/// Calls `put` for a row of a table and for each of its index entries: relation, key and bytes.
///
/// # Errors
/// If the row is not the table's; those of `put`.
pub fn each_of(
    catalog: &Catalog,
    table: TableId,
    row: &NewRow,
    mut put: impl FnMut(&Relation, &Key, &[u8]) -> Result<(), TxnError>,
) -> Result<(), TxnError> {
    let relation = catalog.relation(table)?;
    let (layout, indexes) = relation.table()?;
    let bytes = row.bytes();
    if bytes.len() != relation.row_len {
        let (expected_bytes, found_bytes) = (relation.row_len as u32, bytes.len() as u32);
        return Err(TxnError::WrongSize { table, expected_bytes, found_bytes });
    }
    let primary = layout.primary.key_of(bytes);
    debug_assert_eq!(primary.width(), relation.key_words, "a key of {}", relation.name);
    debug_assert_eq!(layout.indexes.len(), indexes.len(), "{} has all its indexes", relation.name);
    put(relation, &primary, bytes)?;
    let mut entry = [0u8; 8 * crate::tables::key::MAX_KEY_WORDS];
    for (index, IndexId(id)) in layout.indexes.iter().zip(indexes) {
        let entry = &mut entry[..index.row_len];
        index.write_primary(&primary, entry);
        put(catalog.relation(*id)?, &index.key.key_of(bytes), entry)?;
    }
    Ok(())
}

impl<T: Relational> Transaction for T {
    fn announce(&mut self, rows: &[Announced]) {
        self.announce_rows(rows);
    }

    fn get<R>(
        &mut self,
        table: TableId,
        key: &Key,
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, TxnError> {
        let (mut f, mut out) = (Some(f), None);
        let mut visit = |_: &Key, row: Row<'_>| {
            out = f.take().map(|f| f(row));
            ControlFlow::Break(())
        };
        let relation = self.catalog().relation(table)?;
        let found = point(self, relation, key, &mut Visitor::Read(&mut visit))?;
        debug_assert_eq!(found, out.is_some(), "what is there is shown");
        Ok(out)
    }

    fn update<R>(
        &mut self,
        table: TableId,
        key: &Key,
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, TxnError> {
        let (mut f, mut out) = (Some(f), None);
        let mut visit = |_: &Key, row: &mut RowMut<'_>| {
            out = f.take().map(|f| f(row));
            ControlFlow::Break(())
        };
        let relation = self.catalog().relation(table)?;
        relation.table()?;
        let found = point(self, relation, key, &mut Visitor::Write(&mut visit))?;
        debug_assert_eq!(found, out.is_some(), "what is there is shown");
        Ok(out)
    }

    fn insert(&mut self, table: TableId, row: &NewRow) -> Result<(), TxnError> {
        let catalog = self.catalog();
        if catalog.relation(table)?.replicated {
            return Err(TxnError::ReadOnly { table });
        }
        each_of(catalog, table, row, |relation, key, bytes| put(self, relation, key, bytes))
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, TxnError> {
        let catalog = self.catalog();
        let relation = catalog.relation(table)?;
        let (layout, indexes) = relation.table()?;
        let mut image = Vec::new();
        if !mark_deleted(self, relation, key, (!indexes.is_empty()).then_some(&mut image))? {
            return Ok(false);
        }
        for (index, IndexId(id)) in layout.indexes.iter().zip(indexes) {
            if !mark_deleted(self, catalog.relation(*id)?, &index.key.key_of(&image), None)? {
                return Err(TxnError::Damaged {
                    table: *id,
                    what: "index without its row's entry",
                    found: 0,
                });
            }
        }
        Ok(true)
    }

    fn scan(
        &mut self,
        table: TableId,
        keys: &KeyRange,
        mut visit: impl FnMut(&Key, Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        let relation = self.catalog().relation(table)?;
        range(self, relation, keys, &mut Visitor::Read(&mut visit))
    }

    fn update_range(
        &mut self,
        table: TableId,
        keys: &KeyRange,
        mut visit: impl FnMut(&Key, &mut RowMut<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        let relation = self.catalog().relation(table)?;
        relation.table()?;
        range(self, relation, keys, &mut Visitor::Write(&mut visit))
    }

    fn scan_index(
        &mut self,
        index: IndexId,
        keys: &KeyRange,
        mut visit: impl FnMut(Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        let catalog = self.catalog();
        let relation = catalog.relation(index.0)?;
        let Kind::Index { of, layout } = &relation.kind else {
            return Err(TxnError::NoSuchTable { table: index.0 });
        };
        let table = catalog.relation(*of)?;
        let mut rest = *keys;
        let mut batch = 4;
        let mut found: Vec<Announced> = Vec::with_capacity(batch);
        loop {
            found.clear();
            let mut last = None;
            let mut gather = |key: &Key, row: Row<'_>| {
                last = Some(*key);
                debug_assert!(rest.contains(key), "{key:?} is not in {rest:?}");
                found.push(Announced::read(table.id, layout.read_primary(row.bytes())));
                if found.len() < batch { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            range(self, relation, &rest, &mut Visitor::Read(&mut gather))?;
            debug_assert!(found.len() <= batch, "{} rows, and {batch} were wanted", found.len());
            self.announce_rows(&found);
            for row in &found {
                let mut flow = ControlFlow::Continue(());
                let mut once = |_: &Key, row: Row<'_>| {
                    flow = visit(row);
                    ControlFlow::Break(())
                };
                if !point(self, table, &row.key, &mut Visitor::Read(&mut once))? {
                    return Err(Conflict::Moved.into());
                }
                if flow.is_break() {
                    return Ok(());
                }
            }
            match last.and_then(|last| last.next()) {
                Some(low) if found.len() == batch => {
                    debug_assert!(low > rest.low, "a scan goes on from {:?} to {low:?}", rest.low);
                    rest.low = low;
                }
                _ => return Ok(()),
            }
            batch = (2 * batch).min(64);
        }
    }
}
