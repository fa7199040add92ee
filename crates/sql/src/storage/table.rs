//! Rows of a table, with their index entries.
//!
//! ```text
//! row           key: the key columns (key.rs), or a number if there are none     body: all values (row.rs)
//! index entry   key: its columns, then the row's key columns unless the entry is unique and has no NULL
//!               body: the row's engine key, its words little-endian
//! ```
//!
//! Invariants:
//! 1. Every row has exactly one entry in every index whose predicate holds for it, and every entry leads to
//!    its row. Rows are changed before entries, tables before their indexes, so that all transactions take
//!    their locks in one order.
//! 2. A row's place follows from its key columns. An entry's place is its row's if the index holds the column
//!    that decides that; else it follows from the index's first column.
//!
//! It does NOT compute expressions: indexes over expressions, and those with a predicate, ask [`Computed`].
//! What else a constraint demands (CHECK, FOREIGN KEY, NOT NULL) is checked above.

use std::sync::Arc;

use liger_engine::{Key, MAX_KEY_WORDS, NewRow};
use serde::{Deserialize, Serialize};

use super::access::Access;
use super::classes::Home;
pub use super::index::{Computed, PlainColumns};
use super::index::{IndexRows, hashed_place};
use super::key::{KeyColumn, fit};
use super::numbers::Numbers;
use super::overflow;
use super::row::{Encoded, MovedOut, Reference, RowLayout, damaged, differences, wholes};
use crate::error::{Result, SqlError, SqlState};
use crate::func::quote_ident;
use crate::types::Oid;
use crate::types::value::Value;

/// A row as it was read.
#[derive(Clone, Debug)]
pub struct Row {
    /// Where it is.
    pub key: Key,
    /// The values of all columns, dropped ones included.
    pub values: Vec<Value>,
}

/// A row that is to have other values.
#[derive(Clone, Copy)]
pub struct RowChange<'a> {
    /// Where it is.
    pub key: &'a Key,
    /// The values of all columns.
    pub old: &'a [Value],
    /// Those that it gets.
    pub new: &'a [Value],
    /// The columns that are set; the others have the same values in both.
    pub set: &'a [usize],
}

impl<'a> RowChange<'a> {
    /// A row that was read gets these values, of which others are in the columns that are `set`.
    pub fn of(row: &'a Row, new: &'a [Value], set: &'a [usize]) -> Self {
        RowChange { key: &row.key, old: &row.values, new, set }
    }
}

/// Which row is in the way of a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duplicate {
    /// The unique index: the primary key's, or another one.
    pub index: Oid,
    /// The row that is there.
    pub key: Key,
}

/// How rows are placed in the pod's partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Placing {
    /// By a hash of the first column of the key.
    #[default]
    Hash,
    /// By the value of this integer column of the key, modulo the number of partitions:
    /// `WITH (partition_by = 'w_id')`.
    Value(u16),
}

/// The way to a table's rows, made of its description (catalog/layout.rs).
pub struct TableRows {
    /// The table.
    pub oid: Oid,
    /// Its name.
    pub name: Arc<str>,
    pub(crate) schema: Arc<str>,
    pub(crate) home: Home,
    pub(crate) overflow: Option<Home>,
    pub(crate) layout: RowLayout,
    pub(crate) columns: Vec<(Arc<str>, Oid)>,
    /// Columns of the key; none: a number.
    pub(crate) key: Vec<(usize, KeyColumn)>,
    pub(crate) key_index: Oid,
    pub(crate) key_name: Arc<str>,
    pub(crate) placing: Placing,
    pub(crate) is_exact: bool,
    pub(crate) indexes: Vec<IndexRows>,
}

/// A new row of this key and body.
pub(crate) fn new_row(home: &Home, key: &Key, body: &[u8]) -> NewRow {
    let mut head = [0; 8 * MAX_KEY_WORDS];
    let at = home.size.body_at();
    Home::write_key(key, &mut head[..at]);
    let mut row = NewRow::new(at + usize::from(home.size.body));
    row.put_bytes(0, &head[..at]).put_bytes(at, body);
    row
}

/// Puts the edges of a new object in all places.
pub(crate) fn put_edges(tx: &mut dyn Access, home: &Home) -> Result<()> {
    if tx.is_left_out("catalog.put-edges") {
        return Ok(());
    }
    (0..tx.places()).try_for_each(|place| {
        let edge = new_row(home, &home.edge(place), &[]);
        match tx.insert(home.table, &edge)? {
            true => Ok(()),
            false => Err(SqlError::new(SqlState::DATA_CORRUPTED, "a new object has rows already")),
        }
    })
}

impl TableRows {
    /// The number of columns, dropped ones included.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The number of columns that rows are keyed by; 0: a hidden number.
    pub fn key_columns(&self) -> usize {
        self.key.len()
    }

    /// Whether rows are keyed by a hidden number.
    pub fn has_hidden_key(&self) -> bool {
        self.key.is_empty()
    }

    /// The place of a row, by the column of its key that decides it.
    pub(super) fn place_of(&self, value: &Value, places: u16) -> Result<u16> {
        match self.placing {
            Placing::Value(_) => {
                let number = value.as_i64().ok_or_else(|| damaged("the column that places a row"))?;
                Ok(number.rem_euclid(i64::from(places)) as u16)
            }
            Placing::Hash => hashed_place(value, &self.key[0].1, places),
        }
    }

    /// The column that decides a row's place, and which of the key's it is.
    pub(crate) fn placing_column(&self) -> Option<(usize, usize)> {
        let at = match self.placing {
            Placing::Value(column) => self.key.iter().position(|part| part.0 == usize::from(column))?,
            Placing::Hash => 0,
        };
        Some((self.key.get(at)?.0, at))
    }

    /// The key of the row whose key columns have these values, in key order.
    ///
    /// # Errors
    /// If a value has no order.
    pub fn key_of(&self, tx: &dyn Access, values: &[&Value]) -> Result<Key> {
        assert!(
            !self.key.is_empty() && values.len() == self.key.len(),
            "a value for every column of the key"
        );
        let mut bytes = Vec::with_capacity(self.home.size.key_bytes());
        self.key.iter().zip(values).try_for_each(|((_, how), value)| how.encode(value, &mut bytes))?;
        fit(&mut bytes, self.home.size.key_bytes());
        let (_, at) = self.placing_column().expect("the table has a key");
        let place = self.place_of(values[at], tx.places())?;
        Ok(self.home.key(place, &bytes))
    }

    /// The key of a row's entry in an index, if it has one.
    pub(super) fn entry_of(
        &self,
        tx: &dyn Access,
        index: &IndexRows,
        row: &Row,
        computed: &dyn Computed,
    ) -> Result<Option<Key>> {
        Ok(index.entry(tx, self, &row.key, &row.values, computed)?.map(|entry| entry.key))
    }

    /// The key that a row of these values has.
    pub(super) fn key_of_row(&self, tx: &dyn Access, values: &[Value]) -> Result<Key> {
        let key: Vec<&Value> = self.key.iter().map(|(column, _)| &values[*column]).collect();
        self.key_of(tx, &key)
    }

    /// Whether a change gives a row another key.
    pub(super) fn key_changes(&self, tx: &dyn Access, change: &RowChange<'_>) -> Result<bool> {
        let sets_key = self.key.iter().any(|(column, _)| change.set.contains(column));
        Ok(sets_key && self.key_of_row(tx, change.new)? != *change.key)
    }

    /// The key of a new row without key columns: of this host's own places, one after the other.
    fn numbered_key(&self, tx: &dyn Access, numbers: &Numbers) -> Key {
        let number = numbers.take();
        let own: Vec<u16> = (0..tx.places()).filter(|place| tx.is_own(*place)).collect();
        let place = match own.len() {
            0 => (number % u64::from(tx.places())) as u16,
            n => own[(number % n as u64) as usize],
        };
        self.home.key(place, &number.to_be_bytes())
    }

    /// The row that a new one of these values would be a duplicate of, by the given unique indexes or all;
    /// none is also protected.
    pub fn find_duplicate(
        &self,
        tx: &mut dyn Access,
        values: &[Value],
        only: Option<&[Oid]>,
        computed: &dyn Computed,
    ) -> Result<Option<Duplicate>> {
        let asked = |oid: Oid| only.is_none_or(|only| only.contains(&oid));
        if !self.key.is_empty() && asked(self.key_index) {
            let key = self.key_of_row(tx, values)?;
            if tx.get(self.home.table, &key, &mut |_| {})? {
                return Ok(Some(Duplicate { index: self.key_index, key }));
            }
        }
        for index in self.indexes.iter().filter(|index| index.unique && asked(index.oid)) {
            // The row has no key of its own yet: entries that need it are nobody's duplicate.
            let nobody = self.home.edge(0);
            let Some(entry) = index.entry(tx, self, &nobody, values, computed)? else { continue };
            if !entry.unique {
                continue;
            }
            if let Some(key) = self.row_of_entry(tx, index, &entry.key)? {
                return Ok(Some(Duplicate { index: index.oid, key }));
            }
        }
        Ok(None)
    }

    pub(super) fn row_of_entry(
        &self,
        tx: &mut dyn Access,
        index: &IndexRows,
        entry: &Key,
    ) -> Result<Option<Key>> {
        let mut key = None;
        tx.get(index.home.table, entry, &mut |row| key = Some(self.key_in(index, row)))?;
        Ok(key)
    }

    /// The row's key in an entry's body.
    pub(super) fn key_in(&self, index: &IndexRows, entry: &[u8]) -> Key {
        let mut words = [0; MAX_KEY_WORDS];
        let width = usize::from(self.home.size.words);
        for (word, bytes) in
            words.iter_mut().zip(entry[index.home.size.body_at()..].chunks_exact(8)).take(width)
        {
            *word = u64::from_le_bytes(bytes.try_into().expect("chunks of 8"));
        }
        Key::from_words(&words[..width])
    }

    /// Puts a new row and its entries.
    ///
    /// # Errors
    /// Also if a row with its key, or with an entry's, is there (23505); the transaction has to be undone to
    /// before it then. Whoever wants to go on asks [`TableRows::find_duplicate`] first.
    pub fn insert(
        &self,
        tx: &mut dyn Access,
        numbers: &Numbers,
        values: &[Value],
        computed: &dyn Computed,
    ) -> Result<Key> {
        let key = self.new_key(tx, numbers, values)?;
        self.put_row(tx, numbers, &key, values, computed)?;
        for index in &self.indexes {
            if let Some(entry) = index.entry(tx, self, &key, values, computed)?
                && !self.put_entry(tx, index, &entry.key, &key)?
            {
                return Err(self.duplicate(index.oid, values, computed));
            }
        }
        Ok(key)
    }

    /// The key of a new row.
    pub(super) fn new_key(&self, tx: &dyn Access, numbers: &Numbers, values: &[Value]) -> Result<Key> {
        match self.key.is_empty() {
            true => Ok(self.numbered_key(tx, numbers)),
            false => self.key_of_row(tx, values),
        }
    }

    /// Puts a row, and none of its entries.
    pub(super) fn put_row(
        &self,
        tx: &mut dyn Access,
        numbers: &Numbers,
        key: &Key,
        values: &[Value],
        computed: &dyn Computed,
    ) -> Result<()> {
        let encoded = self.layout.encode(values, self.home.size.body.into(), |_| None)?;
        let body = self.put_outside(tx, numbers, Home::place_of(key), encoded)?;
        match tx.insert(self.home.table, &new_row(&self.home, key, &body))? {
            true => Ok(()),
            false => Err(self.duplicate(self.key_index, values, computed)),
        }
    }

    /// Puts an entry that leads to a row; false if there is one with its key.
    pub(super) fn put_entry(
        &self,
        tx: &mut dyn Access,
        index: &IndexRows,
        entry: &Key,
        row: &Key,
    ) -> Result<bool> {
        if tx.is_left_out("table.put-index-entry") {
            return Ok(true);
        }
        let mut body = [0; 8 * MAX_KEY_WORDS];
        for (to, word) in body.chunks_exact_mut(8).zip(row.words()) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        tx.insert(index.home.table, &new_row(&index.home, entry, &body[..8 * row.width()]))
    }

    /// Puts what lies outside, and says in the body where.
    fn put_outside(
        &self,
        tx: &mut dyn Access,
        numbers: &Numbers,
        place: u16,
        mut encoded: Encoded<'_>,
    ) -> Result<Vec<u8>> {
        let MovedOut { alone, tail } = std::mem::take(&mut encoded.outside);
        if alone.is_empty() && tail.is_empty() {
            return Ok(encoded.body);
        }
        let home = self.overflow.as_ref().ok_or_else(|| {
            let message = format!("row is too big: maximum size {}", self.home.size.body);
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        })?;
        for (column, bytes) in alone {
            let reference = overflow::put(tx, home, place, numbers.take(), &bytes)?;
            self.layout.refer(&mut encoded.body, column, reference);
        }
        if !tail.is_empty() {
            let together: Vec<u8> = tail.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
            let whole = overflow::put(tx, home, place, numbers.take(), &together)?;
            let mut at = 0;
            for (column, bytes) in tail {
                let reference = Reference { len: bytes.len() as u32, tail: Some(at), ..whole };
                self.layout.refer(&mut encoded.body, column, reference);
                at += reference.len;
            }
        }
        Ok(encoded.body)
    }

    /// Changes a row. Returns where it is now.
    ///
    /// # Errors
    /// As [`TableRows::insert`]; also if the row is not there any more.
    pub fn update(
        &self,
        tx: &mut dyn Access,
        numbers: &Numbers,
        change: &RowChange<'_>,
        computed: &dyn Computed,
    ) -> Result<Key> {
        let RowChange { key, old, new, set } = *change;
        if self.key_changes(tx, change)? {
            self.remove(tx, key, old, computed)?;
            return self.insert(tx, numbers, new, computed);
        }
        if !self.set_in_place(tx, change)? {
            match self.overflow {
                None => {
                    let body = self.layout.encode(new, self.home.size.body.into(), |_| None)?.body;
                    self.patch(tx, key, &body)?;
                }
                Some(home) => self.update_outside(tx, numbers, &home, change)?,
            }
        }
        for index in self.indexes.iter().filter(|index| index.depends_on(set)) {
            let before = index.entry(tx, self, key, old, computed)?;
            let after = index.entry(tx, self, key, new, computed)?;
            if before.as_ref().map(|entry| entry.key) == after.as_ref().map(|entry| entry.key) {
                continue;
            }
            before.map_or(Ok(()), |entry| self.remove_entry(tx, index, &entry.key))?;
            if let Some(entry) = after
                && !self.put_entry(tx, index, &entry.key, key)?
            {
                return Err(self.duplicate(index.oid, new, computed));
            }
        }
        Ok(*key)
    }

    /// Whether a body has these values, as far as they are in it.
    fn says(&self, body: &[u8], values: &[Value]) -> bool {
        let whole = self.layout.encode(values, self.home.size.body.into(), |_| None);
        RowLayout::has_outside(body) || whole.is_ok_and(|whole| body.starts_with(&whole.body))
    }

    /// Sets columns that have places of their own; false if one of them has none in this row.
    fn set_in_place(&self, tx: &mut dyn Access, change: &RowChange<'_>) -> Result<bool> {
        let Some(patch) = self.layout.patch(change.new, change.set)? else { return Ok(false) };
        let at = self.home.size.body_at();
        let (mut row_bytes, mut done) = (Vec::new(), Ok(false));
        let there = tx.update(self.home.table, change.key, &mut |row| {
            row_bytes.clear();
            row.copy_to(&mut row_bytes);
            let body = &row_bytes[at..];
            done = self.layout.has_all(body);
            if matches!(done, Ok(true)) {
                debug_assert!(self.says(&patch.applied_to(body), change.new), "what is set is said");
                patch.missing_in(body).for_each(|(offset, bytes)| row.put_bytes(at + offset, bytes));
            }
        })?;
        if there { done } else { Err(damaged("its key: a row that was read is gone")) }
    }

    fn patch(&self, tx: &mut dyn Access, key: &Key, body: &[u8]) -> Result<()> {
        let at = self.home.size.body_at();
        let mut before = Vec::new();
        let there = tx.update(self.home.table, key, &mut |row| {
            before.clear();
            row.copy_to(&mut before);
            for (offset, bytes) in differences(&before[at..], body) {
                row.put_bytes(at + offset, bytes);
            }
        })?;
        if there { Ok(()) } else { Err(damaged("its key: a row that was read is gone")) }
    }

    /// Changes a row that may have values outside: those that stay the same stay where they are.
    fn update_outside(
        &self,
        tx: &mut dyn Access,
        numbers: &Numbers,
        home: &Home,
        change: &RowChange<'_>,
    ) -> Result<()> {
        let RowChange { key, old, new: values, .. } = *change;
        let mut before = Vec::new();
        let at = self.home.size.body_at();
        if !tx.update(self.home.table, key, &mut |row| row.copy_to(&mut before))? {
            return Err(damaged("its key: a row that was read is gone"));
        }
        let outside = self.layout.outside(&before[at..])?;
        let same = |column: usize| {
            let bytes = |of| self.layout.value_bytes(column, of);
            matches!((bytes(&old[column]), bytes(&values[column])), (Ok(was), Ok(is)) if was == is)
        };
        let keep = |column: usize| {
            let found = outside.iter().find(|(there, _)| *there == column);
            found.filter(|_| !values[column].is_null() && same(column)).map(|(_, reference)| *reference)
        };
        let encoded = self.layout.encode(values, self.home.size.body.into(), keep)?;
        let place = Home::place_of(key);
        let body = self.put_outside(tx, numbers, place, encoded)?;
        self.patch(tx, key, &body)?;
        let kept = wholes(&self.layout.outside(&body)?);
        let gone = wholes(&outside).into_iter().filter(|whole| !kept.contains(whole));
        gone.into_iter().try_for_each(|whole| overflow::remove(tx, home, place, whole))
    }

    /// Removes a row that was read, whose values are `old`, and its entries.
    fn remove(&self, tx: &mut dyn Access, key: &Key, old: &[Value], computed: &dyn Computed) -> Result<()> {
        let mut outside = Vec::new();
        if !self.remove_row(tx, key, &mut outside)? {
            return Err(damaged("its key: a row that was read is gone"));
        }
        for index in &self.indexes {
            if let Some(entry) = index.entry(tx, self, key, old, computed)? {
                self.remove_entry(tx, index, &entry.key)?;
            }
        }
        outside.into_iter().try_for_each(|whole| self.remove_outside(tx, key, whole))
    }

    /// Removes a row, and none of its entries; adds what it leaves outside. False if it is not there.
    pub(super) fn remove_row(
        &self,
        tx: &mut dyn Access,
        key: &Key,
        outside: &mut Vec<Reference>,
    ) -> Result<bool> {
        if self.overflow.is_some() {
            let mut bytes = Vec::new();
            if !tx.update(self.home.table, key, &mut |row| row.copy_to(&mut bytes))? {
                return Ok(false);
            }
            let lie = self.layout.outside(&bytes[self.home.size.body_at()..])?;
            outside.extend(wholes(&lie));
        }
        tx.delete(self.home.table, key)
    }

    /// Removes what a row has left outside.
    pub(super) fn remove_outside(&self, tx: &mut dyn Access, key: &Key, whole: Reference) -> Result<()> {
        let home = self.overflow.as_ref().expect("something lies outside");
        overflow::remove(tx, home, Home::place_of(key), whole)
    }

    pub(super) fn remove_entry(&self, tx: &mut dyn Access, index: &IndexRows, entry: &Key) -> Result<()> {
        if tx.is_left_out("table.remove-index-entry") || tx.delete(index.home.table, entry)? {
            return Ok(());
        }
        let message = format!("index \"{}\" has no entry for a row of \"{}\"", index.name, self.name);
        Err(SqlError::new(SqlState::INDEX_CORRUPTED, message))
    }

    pub(super) fn index(&self, oid: Oid) -> Result<&IndexRows> {
        self.indexes.iter().find(|index| index.oid == oid).ok_or_else(|| {
            SqlError::new(SqlState::INTERNAL_ERROR, format!("table \"{}\" has no index {oid}", self.name))
        })
    }

    /// The error of a row that is there twice.
    #[cold]
    pub(super) fn duplicate(&self, index: Oid, values: &[Value], computed: &dyn Computed) -> SqlError {
        let found = self.indexes.iter().find(|there| there.oid == index);
        let columns = match found {
            Some(index) => index.plain.clone(),
            None => Some(self.key.iter().map(|part| part.0).collect()),
        };
        let name = found.map_or(&self.key_name, |index| &index.name);
        let shown = |n: &usize| computed.show(self.columns[*n].1, &values[*n]);
        let (names, shown): (Vec<String>, Vec<String>) = match columns {
            Some(columns) => columns.iter().map(|n| (quote_ident(&self.columns[*n].0), shown(n))).unzip(),
            None => computed.key(index, values).unwrap_or_default().into_iter().unzip(),
        };
        let message = format!("duplicate key value violates unique constraint \"{name}\"");
        let detail = format!("Key ({})=({}) already exists.", names.join(", "), shown.join(", "));
        let mut error = SqlError::new(SqlState::UNIQUE_VIOLATION, message).detail(detail);
        error.constraint = Some(name.to_string());
        (error.schema, error.table) = (Some(self.schema.to_string()), Some(self.name.to_string()));
        error
    }
}
