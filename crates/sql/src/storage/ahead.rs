//! Rows and index entries that a statement comes to next, told to the transaction in batches: what is with
//! other hosts comes together then, instead of a message and an answer for each.
//!
//! A hint: what cannot be said (a key that does not exist yet, an expression that fails) is left out, and
//! whoever needs the row gets it by itself.

use liger_engine::{Announced, Key};

use super::access::Access;
use super::classes::Home;
use super::index::{Computed, IndexRows};
use super::table::{RowChange, TableRows};
use crate::error::Result;
use crate::types::Oid;
use crate::types::value::Value;

/// Rows that are told of at once.
pub const ROWS_AHEAD: usize = 64;

/// What a statement does next to rows of a table.
pub enum Coming<'a> {
    /// New rows have these values.
    New(&'a [&'a [Value]]),
    /// Rows change.
    Changed(&'a [RowChange<'a>]),
    /// Rows are looked for by all columns of a unique index.
    Looked(Oid, &'a [Vec<Value>]),
}

/// Whether some places are other hosts'.
pub fn is_spread(tx: &dyn Access) -> bool {
    (0..tx.places()).any(|place| !tx.is_own(place))
}

/// Rows and entries that are found out so far.
struct Found<'a> {
    table: &'a TableRows,
    tx: &'a dyn Access,
    computed: &'a dyn Computed,
    rows: Vec<Announced>,
}

impl Found<'_> {
    fn add(&mut self, row: Announced) {
        if !self.tx.is_own(Home::place_of(&row.key)) {
            self.rows.push(row);
        }
    }

    /// The entry of a row; none while it has no key of its own that the entry needs.
    fn entry(&self, index: &IndexRows, row: Option<&Key>, values: &[Value]) -> Option<Key> {
        let nobody = self.table.home.edge(0);
        let key = row.unwrap_or(&nobody);
        let entry = index.entry(self.tx, self.table, key, values, self.computed).ok()??;
        (entry.unique || row.is_some()).then_some(entry.key)
    }

    fn new_entry(&mut self, index: &IndexRows, row: Option<&Key>, values: &[Value]) {
        if let Some(key) = self.entry(index, row, values) {
            self.add(Announced::insert(index.home.table, key));
        }
    }

    fn old_entry(&mut self, index: &IndexRows, row: &Key, values: &[Value]) {
        if let Some(key) = self.entry(index, Some(row), values) {
            self.add(Announced::update(index.home.table, key));
        }
    }

    fn looked(&mut self, index: Oid, values: &[Value]) -> Result<()> {
        let of: Vec<&Value> = values.iter().collect();
        if index == self.table.key_index {
            let key = self.table.key_of(self.tx, &of)?;
            self.add(Announced::read(self.table.home.table, key));
            return Ok(());
        }
        let index = self.table.index(index)?;
        if let Some(key) = index.point(self.tx, self.table, &of)? {
            self.add(Announced::read(index.home.table, key));
        }
        Ok(())
    }

    fn new_row(&mut self, values: &[Value]) {
        let key = match self.table.has_hidden_key() {
            true => None,
            false => self.table.key_of_row(self.tx, values).ok(),
        };
        if let Some(key) = key {
            self.add(Announced::insert(self.table.home.table, key));
        }
        self.table.indexes.iter().for_each(|index| self.new_entry(index, key.as_ref(), values));
    }

    fn gone(&mut self, row: &Key, values: &[Value]) {
        self.add(Announced::update(self.table.home.table, *row));
        self.table.indexes.iter().for_each(|index| self.old_entry(index, row, values));
    }

    fn changed(&mut self, change: &RowChange<'_>) {
        let RowChange { key, old, new, set } = *change;
        if self.table.key_changes(self.tx, change).unwrap_or(false) {
            self.gone(key, old);
            return self.new_row(new);
        }
        for index in self.table.indexes.iter().filter(|index| index.depends_on(set)) {
            self.old_entry(index, key, old);
            self.new_entry(index, Some(key), new);
        }
    }
}

impl TableRows {
    /// Tells the transaction what comes.
    pub fn announce(&self, tx: &mut dyn Access, coming: &Coming<'_>, computed: &dyn Computed) {
        let mut found = Found { table: self, tx: &*tx, computed, rows: Vec::new() };
        match coming {
            Coming::New(rows) => rows.iter().for_each(|values| found.new_row(values)),
            Coming::Changed(changes) => changes.iter().for_each(|change| found.changed(change)),
            Coming::Looked(index, rows) => {
                rows.iter().for_each(|values| _ = found.looked(*index, values));
            }
        }
        let rows = found.rows;
        if !rows.is_empty() {
            tx.announce(&rows);
        }
    }
}
