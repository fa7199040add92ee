//! Savepoints: a transaction that remembers how to undo what it did.
//!
//! The engine undoes whole transactions only. A part of one is undone by doing the opposite of each step
//! backwards, inside the same transaction: rows that were put are removed, rows that were removed are put
//! again, bytes that were changed get what they were. Locks stay, as PostgreSQL may keep them too.
//!
//! Invariant: undoing meets no conflict: all rows that it touches are locked by this transaction for writing.
//!
//! Nothing is remembered before the first savepoint: a transaction without any pays a branch.

use std::ops::ControlFlow;

use liger_engine::row::Census;
use liger_engine::{Announced, Key, KeyRange, NewRow, RowMut, TableId};

use super::access::{Access, passes_on};
use super::row::differences;
use crate::error::Result;

/// The opposite of a step.
enum Step {
    Remove(TableId, Key),
    Put(TableId, NewRow),
    Restore(TableId, Key, Vec<(usize, Vec<u8>)>),
}

/// How far a transaction had come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark(usize);

/// What a transaction would have to do to undo what it did. Kept by whoever keeps the transaction, and lent
/// to one [`Undoing`] after the other.
#[derive(Default)]
pub struct UndoLog {
    steps: Vec<Step>,
    marks: u32,
}

impl UndoLog {
    /// Begins to remember; what is done from here on can be undone. Balanced by [`UndoLog::forget`].
    pub fn mark(&mut self) -> Mark {
        self.marks += 1;
        Mark(self.steps.len())
    }

    /// A mark is not needed any more; after the last one nothing is remembered.
    pub fn forget(&mut self, _mark: Mark) {
        self.marks -= 1;
        if self.marks == 0 {
            self.steps.clear();
        }
    }

    /// Forgets everything: the transaction has ended.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.marks = 0;
    }
}

/// A transaction whose steps are remembered.
pub struct Undoing<'a> {
    below: &'a mut dyn Access,
    log: &'a mut UndoLog,
}

impl<'a> Undoing<'a> {
    /// The transaction `below`, remembered in `log`.
    pub fn new(below: &'a mut dyn Access, log: &'a mut UndoLog) -> Self {
        Self { below, log }
    }

    /// See [`UndoLog::mark`].
    pub fn mark(&mut self) -> Mark {
        self.log.mark()
    }

    /// See [`UndoLog::forget`].
    pub fn forget(&mut self, mark: Mark) {
        self.log.forget(mark);
    }

    /// Undoes what was done since the mark, which stays.
    ///
    /// # Errors
    /// Of the engine; the whole transaction has to be given up then.
    pub fn undo_to(&mut self, mark: Mark) -> Result<()> {
        self.below.undoes(true);
        let undone = self.undo_steps(mark);
        self.below.undoes(false);
        undone
    }

    fn undo_steps(&mut self, mark: Mark) -> Result<()> {
        while self.log.steps.len() > mark.0 {
            match self.log.steps.pop().expect("there are more than at the mark") {
                Step::Remove(table, key) => {
                    let there = self.below.delete(table, &key)?;
                    assert!(there, "a row that this transaction has put is gone");
                }
                Step::Put(table, row) => {
                    let free = self.below.insert(table, &row)?;
                    assert!(free, "the place of a row that this transaction has removed is taken");
                }
                Step::Restore(table, key, spans) => {
                    let there = self.below.update(table, &key, &mut |row| {
                        spans.iter().for_each(|(at, bytes)| row.put_bytes(*at, bytes));
                    })?;
                    assert!(there, "a row that this transaction has changed is gone");
                }
            }
        }
        Ok(())
    }
}

/// A new row of these bytes.
pub(super) fn row_of(bytes: &[u8]) -> NewRow {
    let mut row = NewRow::new(bytes.len());
    row.put_bytes(0, bytes);
    row
}

impl Access for Undoing<'_> {
    passes_on!(below);

    fn census(&self, table: TableId, place: u16, range: &KeyRange) -> Census {
        self.below.census(table, place, range)
    }

    fn announce(&mut self, rows: &[Announced]) {
        self.below.announce(rows);
    }

    fn get(&mut self, table: TableId, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.below.get(table, key, see)
    }

    fn update(&mut self, table: TableId, key: &Key, change: &mut dyn FnMut(&mut RowMut<'_>)) -> Result<bool> {
        if self.log.marks == 0 {
            return self.below.update(table, key, change);
        }
        let mut spans = Vec::new();
        let there = self.below.update(table, key, &mut |row| {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            row.copy_to(&mut before);
            change(row);
            row.copy_to(&mut after);
            let changed = differences(&before, &after);
            spans = changed.iter().map(|(at, b)| (*at, before[*at..at + b.len()].to_vec())).collect();
        })?;
        if !spans.is_empty() {
            self.log.steps.push(Step::Restore(table, *key, spans));
        }
        Ok(there)
    }

    fn take_if_free(
        &mut self,
        table: TableId,
        key: &Key,
        see: &mut dyn FnMut(&mut RowMut<'_>),
    ) -> Result<bool> {
        self.below.take_if_free(table, key, see)
    }

    fn get_if_free(&mut self, table: TableId, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<Option<bool>> {
        self.below.get_if_free(table, key, see)
    }

    fn peek(
        &mut self,
        table: TableId,
        range: &KeyRange,
        see: &mut dyn FnMut(&Key, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.below.peek(table, range, see)
    }

    fn insert(&mut self, table: TableId, row: &NewRow) -> Result<bool> {
        let put = self.below.insert(table, row)?;
        if put && self.log.marks > 0 {
            let key = self.below.key_of(table, row.bytes());
            self.log.steps.push(Step::Remove(table, key));
        }
        Ok(put)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool> {
        if self.log.marks == 0 {
            return self.below.delete(table, key);
        }
        let mut bytes = Vec::new();
        self.below.get(table, key, &mut |row| bytes.extend_from_slice(row))?;
        let there = self.below.delete(table, key)?;
        if there {
            self.log.steps.push(Step::Put(table, row_of(&bytes)));
        }
        Ok(there)
    }

    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        see: &mut dyn FnMut(&Key, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.below.scan(table, range, see)
    }
}
