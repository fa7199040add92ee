//! What is done to many rows of a table at once: their entries in an index are put, or removed, in the order
//! of its keys.
//!
//! Entries of rows that are neighbours lie anywhere in an index, and where an index does not fit the caches
//! each search there is a walk through memory. In the order of their keys each lies where the one before was,
//! in what is known of them elsewhere too.
//!
//! Invariants:
//! 1. As everywhere (table.rs), rows are changed before entries, and the indexes in the order in which they
//!    are known.
//! 2. What is kept of entries that are to be put is bounded ([`RUN`]).

use liger_engine::{Announced, Key};

use super::access::Access;
use super::ahead::ROWS_AHEAD;
use super::classes::Home;
use super::index::{Computed, IndexRows};
use super::numbers::Numbers;
use super::overflow;
use super::row::wholes;
use super::scan::Range;
use super::table::{Row, TableRows};
use crate::error::{Result, SqlError, SqlState};
use crate::stop;
use crate::types::Oid;
use crate::types::value::Value;

/// Entries that are sorted together.
const RUN: usize = 1 << 20;

/// Entries that are to be put: their keys, and those of their rows.
type Entries = Vec<(Key, Key)>;

impl TableRows {
    /// Fills a new index with the entries of all rows; how many rows there are.
    ///
    /// # Errors
    /// If there is a duplicate (23505); conflicts.
    pub fn fill_index(&self, tx: &mut dyn Access, index: Oid, computed: &dyn Computed) -> Result<u64> {
        let index = self.index(index)?;
        let is_read =
            |plain: &Vec<usize>, n: usize| plain.contains(&n) || self.key.iter().any(|key| key.0 == n);
        let of = |plain| (0..self.columns()).map(|n| is_read(plain, n)).collect();
        let columns = index.plain.as_ref().map(of);
        let mut scan = self.scan(tx, &Range { columns, ..Range::default() })?;
        let (mut entries, mut rows) = (Entries::new(), 0);
        while let Some(row) = scan.next(tx, self)? {
            stop::check_at(rows as usize)?;
            rows += 1;
            if let Some(entry) = index.entry(tx, self, &row.key, &row.values, computed)? {
                entries.push((entry.key, row.key));
            }
            if entries.len() == RUN {
                self.put_entries(tx, index, &mut entries, computed)
                    .map_err(|e| not_unique(e, &index.name))?;
            }
        }
        self.put_entries(tx, index, &mut entries, computed).map_err(|e| not_unique(e, &index.name))?;
        Ok(rows)
    }

    /// Puts new rows and their entries.
    ///
    /// # Errors
    /// As [`TableRows::insert`]; of several duplicates one is told.
    pub fn insert_all(
        &self,
        tx: &mut dyn Access,
        numbers: &Numbers,
        rows: impl Iterator<Item = Vec<Value>>,
        computed: &dyn Computed,
    ) -> Result<()> {
        let mut entries: Vec<Entries> = self.indexes.iter().map(|_| Entries::new()).collect();
        let mut kept = 0;
        let mut rows = rows.fuse();
        loop {
            stop::check()?;
            let keyed = |values: Vec<Value>| Ok((self.new_key(tx, numbers, &values)?, values));
            let batch = rows.by_ref().take(ROWS_AHEAD).map(keyed).collect::<Result<Vec<_>>>()?;
            if batch.is_empty() {
                break;
            }
            announce(tx, batch.iter().map(|(key, _)| Announced::insert(self.home.table, *key)));
            for (key, values) in &batch {
                self.put_row(tx, numbers, key, values, computed)?;
                for (index, entries) in self.indexes.iter().zip(&mut entries) {
                    if let Some(entry) = index.entry(tx, self, key, values, computed)? {
                        entries.push((entry.key, *key));
                        kept += 1;
                    }
                }
            }
            if kept >= RUN {
                self.put_all_entries(tx, &mut entries, computed)?;
                kept = 0;
            }
        }
        self.put_all_entries(tx, &mut entries, computed)
    }

    fn put_all_entries(
        &self,
        tx: &mut dyn Access,
        entries: &mut [Entries],
        computed: &dyn Computed,
    ) -> Result<()> {
        let mut of_each = self.indexes.iter().zip(entries);
        of_each.try_for_each(|(index, entries)| self.put_entries(tx, index, entries, computed))
    }

    /// Puts entries of rows that are there.
    fn put_entries(
        &self,
        tx: &mut dyn Access,
        index: &IndexRows,
        entries: &mut Entries,
        computed: &dyn Computed,
    ) -> Result<()> {
        entries.sort_unstable();
        for batch in entries.chunks(ROWS_AHEAD) {
            stop::check()?;
            announce(tx, batch.iter().map(|(entry, _)| Announced::insert(index.home.table, *entry)));
            for (entry, key) in batch {
                if !self.put_entry(tx, index, entry, key)? {
                    let row = self.get(tx, key)?.ok_or_else(|| gone(index))?;
                    return Err(self.duplicate(index.oid, &row.values, computed));
                }
            }
        }
        entries.clear();
        Ok(())
    }

    /// Removes rows as they were read, and their entries; for each whether it was there.
    ///
    /// # Errors
    /// If an entry is not there; conflicts.
    pub fn delete(&self, tx: &mut dyn Access, rows: &[Row], computed: &dyn Computed) -> Result<Vec<bool>> {
        let rows: Vec<(&Key, &[Value])> = rows.iter().map(|row| (&row.key, &*row.values)).collect();
        self.remove(tx, &rows, computed)
    }

    pub(super) fn remove(
        &self,
        tx: &mut dyn Access,
        rows: &[(&Key, &[Value])],
        computed: &dyn Computed,
    ) -> Result<Vec<bool>> {
        let (at, mut outside) = (self.home.size.body_at(), Vec::new());
        let mut were = Vec::with_capacity(rows.len());
        for (number, (key, _)) in rows.iter().enumerate() {
            stop::check_at(number)?;
            if let Some(home) = self.overflow {
                let mut bytes = Vec::new();
                if tx.update(self.home.table, key, &mut |row| row.copy_to(&mut bytes))? {
                    let place = Home::place_of(key);
                    let lie = self.layout.outside(&bytes[at..])?;
                    outside.extend(wholes(&lie).into_iter().map(|reference| (home, place, reference)));
                }
            }
            were.push(tx.delete(self.home.table, key)?);
        }
        for index in &self.indexes {
            let mut entries = Vec::with_capacity(rows.len());
            for (key, values) in rows.iter().zip(&were).filter(|(_, was)| **was).map(|(row, _)| row) {
                entries.extend(index.entry(tx, self, key, values, computed)?.map(|entry| entry.key));
            }
            entries.sort_unstable();
            for batch in entries.chunks(ROWS_AHEAD) {
                stop::check()?;
                announce(tx, batch.iter().map(|entry| Announced::update(index.home.table, *entry)));
                batch.iter().try_for_each(|entry| self.remove_entry(tx, index, entry))?;
            }
        }
        for (home, place, reference) in outside {
            overflow::remove(tx, &home, place, reference)?;
        }
        Ok(were)
    }
}

/// Tells the transaction which rows come next, of other hosts: there is nothing to fetch of this one's.
fn announce(tx: &mut dyn Access, rows: impl Iterator<Item = Announced>) {
    let foreign: Vec<Announced> = rows.filter(|row| !tx.is_own(Home::place_of(&row.key))).collect();
    if foreign.len() > 1 {
        tx.announce(&foreign);
    }
}

/// 23505 while an index is made over rows that are there.
pub(crate) fn not_unique(mut error: SqlError, index: &str) -> SqlError {
    if error.state == SqlState::UNIQUE_VIOLATION {
        error.message = format!("could not create unique index \"{index}\"");
        error.detail = error.detail.take().map(|detail| detail.replace("already exists", "is duplicated"));
    }
    error
}

#[cold]
fn gone(index: &IndexRows) -> SqlError {
    let message = format!("a row is gone whose entry was to be put into index \"{}\"", index.name);
    SqlError::new(SqlState::INDEX_CORRUPTED, message)
}
