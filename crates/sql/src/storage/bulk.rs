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
//! 3. No step takes long ([`STEP`] rows), however many rows there are: others may want the worker.

use std::cell::RefCell;

use liger_engine::{Announced, Key};

use super::access::Access;
use super::ahead::ROWS_AHEAD;
use super::classes::Home;
use super::index::{Computed, IndexRows};
use super::numbers::Numbers;
use super::scan::Range;
use super::table::{Row, TableRows};
use crate::error::{Result, SqlError, SqlState};
use crate::progress::{Count, Phase, StatementProgress};
use crate::types::Oid;
use crate::types::value::Value;

/// Entries that are sorted together.
const RUN: usize = 1 << 20;

/// Rows, or entries, of a step: some 0.1 ms.
const STEP: usize = ROWS_AHEAD;

/// Rows that are read in a step.
const READ: usize = 1 << 10;

/// Entries that are to be put: their keys, and those of their rows.
type Entries = Vec<(Key, Key)>;

/// A transaction that is used step by step: between two of them others may have its worker, and the statement
/// may be told to stop.
pub trait Steps {
    /// Runs a step.
    ///
    /// # Errors
    /// Those of the step; if the statement is to stop.
    fn step<R>(&self, step: impl FnOnce(&mut dyn Access) -> Result<R>) -> Result<R>;

    /// Where is told how far it is.
    fn progress(&self) -> &StatementProgress;
}

/// Steps of whom nobody waits for: one after another.
pub fn at_once(tx: &mut dyn Access) -> impl Steps {
    AtOnce(RefCell::new(tx), StatementProgress::default())
}

struct AtOnce<'a>(RefCell<&'a mut dyn Access>, StatementProgress);

impl Steps for AtOnce<'_> {
    fn step<R>(&self, step: impl FnOnce(&mut dyn Access) -> Result<R>) -> Result<R> {
        step(&mut **self.0.borrow_mut())
    }

    fn progress(&self) -> &StatementProgress {
        &self.1
    }
}

impl TableRows {
    /// Fills a new index with the entries of all rows; how many rows there are.
    ///
    /// # Errors
    /// If there is a duplicate (23505); conflicts.
    pub fn fill_index(&self, steps: &impl Steps, index: Oid, computed: &dyn Computed) -> Result<u64> {
        let index = self.index(index)?;
        let is_read =
            |plain: &Vec<usize>, n: usize| plain.contains(&n) || self.key.iter().any(|key| key.0 == n);
        let of = |plain| (0..self.columns()).map(|n| is_read(plain, n)).collect();
        let columns = index.plain.as_ref().map(of);
        let mut scan = steps.step(|tx| self.scan(tx, &Range { columns, ..Range::default() }))?;
        let (mut entries, mut rows, mut is_done) = (Entries::new(), 0, false);
        let (progress, mut put) = (steps.progress(), 0);
        while !is_done {
            progress.enter(Phase::Reading);
            is_done = steps.step(|tx| {
                for _ in 0..READ {
                    let Some(row) = scan.next(tx, self)? else { return Ok(true) };
                    rows += 1;
                    if let Some(entry) = index.entry(tx, self, &row.key, &row.values, computed)? {
                        entries.push((entry.key, row.key));
                    }
                    scan.reuse(row.values);
                }
                Ok(false)
            })?;
            progress.set(Count::Read, rows);
            if is_done || entries.len() + READ > RUN {
                put += entries.len() as u64;
                let known = if is_done { put } else { put.max(progress.count(Count::Total)) };
                progress.set(Count::Total, known);
                let tell = |more| progress.add(Count::Done, more);
                self.put_entries(steps, index, (&mut entries, &tell), computed)
                    .map_err(|e| not_unique(e, &index.name))?;
            }
        }
        progress.set(Count::Expected, rows);
        Ok(rows)
    }

    /// Puts new rows and their entries.
    ///
    /// # Errors
    /// As [`TableRows::insert`]; of several duplicates one is told.
    pub fn insert_all(
        &self,
        steps: &impl Steps,
        numbers: &Numbers,
        rows: impl Iterator<Item = Vec<Value>>,
        computed: &dyn Computed,
    ) -> Result<()> {
        let mut entries: Vec<Entries> = self.indexes.iter().map(|_| Entries::new()).collect();
        let mut kept = 0;
        let mut rows = rows.fuse();
        let progress = steps.progress();
        loop {
            progress.enter(Phase::Changing);
            let batch: Vec<Vec<Value>> = rows.by_ref().take(STEP).collect();
            if batch.is_empty() {
                break;
            }
            kept += batch.len() * entries.len();
            steps.step(|tx| {
                let keys = batch.iter().map(|values| self.new_key(tx, numbers, values));
                let keys = keys.collect::<Result<Vec<Key>>>()?;
                announce(tx, keys.iter().map(|key| Announced::insert(self.home.table, *key)));
                for (key, values) in keys.into_iter().zip(&batch) {
                    self.put_row(tx, numbers, &key, values, computed)?;
                    for (index, entries) in self.indexes.iter().zip(&mut entries) {
                        if let Some(entry) = index.entry(tx, self, &key, values, computed)? {
                            entries.push((entry.key, key));
                        }
                    }
                }
                Ok(())
            })?;
            progress.add(Count::Done, batch.len() as u64);
            if kept >= RUN {
                self.put_all_entries(steps, &mut entries, computed)?;
                kept = 0;
            }
        }
        self.put_all_entries(steps, &mut entries, computed)
    }

    fn put_all_entries(
        &self,
        steps: &impl Steps,
        entries: &mut [Entries],
        computed: &dyn Computed,
    ) -> Result<()> {
        let mut of_each = self.indexes.iter().zip(entries);
        of_each.try_for_each(|(index, entries)| self.put_entries(steps, index, (entries, &drop), computed))
    }

    /// Puts entries of rows that are there; `tell` is told how many more.
    fn put_entries(
        &self,
        steps: &impl Steps,
        index: &IndexRows,
        (entries, tell): (&mut Entries, &dyn Fn(u64)),
        computed: &dyn Computed,
    ) -> Result<()> {
        steps.progress().enter(Phase::Sorting);
        entries.sort_unstable();
        steps.progress().enter(Phase::Indexing);
        let put = |tx: &mut dyn Access, batch: &[(Key, Key)]| {
            announce(tx, batch.iter().map(|(entry, _)| Announced::insert(index.home.table, *entry)));
            for (entry, key) in batch {
                if !self.put_entry(tx, index, entry, key)? {
                    let row = self.get(tx, key)?.ok_or_else(|| gone(index))?;
                    return Err(self.duplicate(index.oid, &row.values, computed));
                }
            }
            Ok(())
        };
        for batch in entries.chunks(STEP) {
            steps.step(|tx| put(tx, batch))?;
            tell(batch.len() as u64);
        }
        entries.clear();
        Ok(())
    }

    /// Removes rows as they were read, and their entries; for each whether it was there.
    ///
    /// # Errors
    /// If an entry is not there; conflicts.
    pub fn delete(&self, steps: &impl Steps, rows: &[Row], computed: &dyn Computed) -> Result<Vec<bool>> {
        let (mut were, mut outside) = (Vec::with_capacity(rows.len()), Vec::new());
        let mut entries = vec![Vec::new(); self.indexes.len()];
        for batch in rows.chunks(STEP) {
            steps.step(|tx| {
                for row in batch {
                    let mut left = Vec::new();
                    let was = self.remove_row(tx, &row.key, &mut left)?;
                    were.push(was);
                    outside.extend(left.into_iter().map(|whole| (row.key, whole)));
                    for (index, entries) in self.indexes.iter().zip(&mut entries).filter(|_| was) {
                        let entry = index.entry(tx, self, &row.key, &row.values, computed)?;
                        entries.extend(entry.map(|entry| entry.key));
                    }
                }
                Ok(())
            })?;
            // Single rows that go with others are no statement's own.
            if steps.progress().is_in(Phase::Removing) {
                steps.progress().add(Count::Done, batch.len() as u64);
            }
        }
        for (index, entries) in self.indexes.iter().zip(&mut entries) {
            entries.sort_unstable();
            let remove = |tx: &mut dyn Access, batch: &[Key]| {
                announce(tx, batch.iter().map(|entry| Announced::update(index.home.table, *entry)));
                batch.iter().try_for_each(|entry| self.remove_entry(tx, index, entry))
            };
            entries.chunks(STEP).try_for_each(|batch| steps.step(|tx| remove(tx, batch)))?;
        }
        let remove = |tx: &mut dyn Access, key: &Key, whole| self.remove_outside(tx, key, whole);
        outside.into_iter().try_for_each(|(key, whole)| steps.step(|tx| remove(tx, &key, whole)))?;
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
