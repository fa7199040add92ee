//! Rows that are appended and read again: in order, or by their number.
//!
//! Invariants:
//! 1. All rows are in memory, or all are on the tape.
//! 2. Of every [`STEP`]th row on the tape the place is known: a row by number costs at most so many rows that
//!    are passed over.

use super::{FlatRows, Place, Space, Tape};
use crate::error::Result;
use crate::exec::Row;
use crate::types::value::Value;

/// Rows between two whose places are known.
const STEP: usize = 32;

/// Rows by number.
pub(crate) struct TupleStore {
    space: Space,
    rows: FlatRows,
    bytes: usize,
    len: usize,
    tape: Option<Tape>,
    fences: Vec<u64>,
}

impl TupleStore {
    pub(crate) fn new(space: Space) -> TupleStore {
        TupleStore { space, rows: FlatRows::default(), bytes: 0, len: 0, tape: None, fences: Vec::new() }
    }

    /// No rows, and none to come.
    pub(crate) fn none() -> TupleStore {
        TupleStore::new(Space { bytes: 0, files: None })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that it holds in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.fences.len() * size_of::<u64>()
    }

    /// Whether its rows are on a tape.
    pub(crate) fn is_in_file(&self) -> bool {
        self.tape.is_some()
    }

    pub(crate) fn push(&mut self, row: Row) -> Result<()> {
        self.len += 1;
        if self.tape.is_none() {
            self.bytes += self.rows.push(row);
            if self.space.is_full(self.bytes) {
                self.tape = Some(Tape::new(&self.space.file()?));
                let rows = std::mem::take(&mut self.rows);
                (0..rows.len()).try_for_each(|number| self.write(rows.row(number)))?;
                self.bytes = 0;
            }
            return Ok(());
        }
        self.write(&row)
    }

    fn write(&mut self, row: &[Value]) -> Result<()> {
        let tape = self.tape.as_mut().expect("rows are written behind the first that are");
        if (tape.rows() as usize).is_multiple_of(STEP) {
            self.fences.push(tape.end());
        }
        tape.push(0, row)
    }

    /// Reads from the first row on.
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading { of: self, next: 0, place: Place::default(), row: Row::new(), read: None }
    }

    /// All rows, one after the other.
    pub(crate) fn each(&self, mut take: impl FnMut(&[Value]) -> Result<bool>) -> Result<bool> {
        let mut reading = self.reading();
        while let Some(row) = reading.next()? {
            if !take(row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// All rows, which are no longer here afterwards.
    pub(crate) fn each_owned(mut self, mut take: impl FnMut(Row) -> Result<bool>) -> Result<bool> {
        if let Some(tape) = &self.tape {
            let (mut place, mut row) = (Place::default(), Row::new());
            while place.read(tape, &mut row)?.is_some() {
                if !take(std::mem::take(&mut row))? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        for number in 0..self.rows.len() {
            if !take(self.rows.take(number))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A reader of rows.
pub(crate) struct Reading<'s> {
    of: &'s TupleStore,
    next: usize,
    place: Place,
    row: Row,
    /// The number of the row that was read from the tape last.
    read: Option<usize>,
}

impl Reading<'_> {
    /// The next row.
    pub(crate) fn next(&mut self) -> Result<Option<&[Value]>> {
        if self.next >= self.of.len {
            return Ok(None);
        }
        self.row(self.next).map(Some)
    }

    /// The row with this number, of those that there are. The one behind it is the next.
    pub(crate) fn row(&mut self, number: usize) -> Result<&[Value]> {
        assert!(number < self.of.len, "row {number} of {}", self.of.len);
        let Some(tape) = &self.of.tape else {
            self.next = number + 1;
            return Ok(self.of.rows.row(number));
        };
        if self.read == Some(number) {
            self.next = number + 1;
            return Ok(&self.row);
        }
        let passed = match self.read.take() {
            // The tape is read behind the row that was read last.
            Some(last) if last < number && number - last <= STEP => number - last - 1,
            _ => {
                self.place.seek(self.of.fences[number / STEP]);
                number % STEP
            }
        };
        (0..passed).try_for_each(|_| self.place.skip(tape).map(drop))?;
        self.row.clear();
        let read = self.place.read(tape, &mut self.row)?;
        assert!(read.is_some(), "row {number} is on the tape");
        (self.read, self.next) = (Some(number), number + 1);
        Ok(&self.row)
    }
}
