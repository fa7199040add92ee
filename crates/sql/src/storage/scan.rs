//! Scans: rows of a table in the order of its key or of an index, a few at a time.
//!
//! A range lies in one place if the columns that decide it are given; otherwise every place has a part of it,
//! and the parts are merged by their keys. Rows are fetched in batches that grow, and only what is fetched is
//! locked: who stops early locks little.
//!
//! Invariants:
//! 1. Rows come in key order if the keys are exact ([`Scan::is_ordered`]). Where keys may be cut, the scan
//!    gives a superset of the range, roughly in order: the caller filters and sorts.
//! 2. A row that the transaction itself puts or removes behind the batch that was fetched is seen or not seen
//!    accordingly; within the batch the rows are as they were fetched. A statement that changes what it scans
//!    reads first and changes then.
//! 3. What is visited, under a latch, is copied and nothing else; a row is decoded when it is given.
//! 4. The engine scans forwards only. Backwards, the beginning of the last few rows is searched for by
//!    halving the keys in question; after a few batches the rest is read at once and turned round. A scan of
//!    what is free reads all of it at once.

use std::ops::{self, ControlFlow};
use std::sync::Arc;

use liger_engine::{Announced, Key, KeyRange};

use super::access::Access;
use super::classes::{Bound, Home};
use super::key::{KeyColumn, searchable};
use super::table::{Row, TableRows};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Oid;
use crate::types::value::Value;

/// How rows that a scan gives are held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hold {
    /// For reading.
    #[default]
    Read,
    /// For changes: each when it is given.
    Change,
    /// Not at all, and only what nobody else is changing is given: see [`Access::peek`].
    Free,
}

/// What to scan.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// The index; `None`: the table's key.
    pub index: Option<Oid>,
    /// Values that the first columns have.
    pub equal: Vec<Value>,
    /// The least value of the column after these, and whether it is one itself. With an end on either side,
    /// NULLs are not in the range.
    pub low: Option<(Value, bool)>,
    /// The greatest value of the column after these, and whether it is one itself.
    pub high: Option<(Value, bool)>,
    /// From the end to the beginning.
    pub backwards: bool,
    /// How many rows will be wanted, if that is known.
    pub wanted: Option<usize>,
    /// Which columns will be; the others are NULL in the rows that are found. `None`: all.
    pub columns: Option<Arc<[bool]>>,
    /// How rows are read.
    pub hold: Hold,
    /// Only this host's places, if it has some.
    pub own: bool,
    /// It reads as of a moment: an entry of then may lead to a row that the transaction itself has removed.
    pub of_moment: bool,
}

const FIRST_BATCH: usize = 8;
const BATCH_MAX: usize = 256;
/// Backwards: how much longer a batch is than the one before, and from where on all the rest is one.
const BACK_GROWTH: usize = 8;
const BACK_BATCH_MAX: usize = 512;

/// A part of a scan, in one place.
#[derive(Default)]
struct Part {
    /// What is still to be read.
    rest: Option<KeyRange>,
    /// Keys of the rows, or entries, that have been read.
    keys: Vec<Key>,
    /// Their bytes, all of one length.
    bytes: Vec<u8>,
    row_bytes: usize,
    /// Which of them have not been given.
    left: ops::Range<usize>,
    /// How many to read next.
    batch: usize,
}

/// What a scan reads: a table, by an index or not, and whether only what is free.
struct What<'a> {
    table: &'a TableRows,
    index: Option<Oid>,
    free: bool,
}

/// A running scan. It borrows nothing, so that other steps may come between its rows.
pub struct Scan {
    index: Option<Oid>,
    parts: Vec<Part>,
    backwards: bool,
    hold: Hold,
    of_moment: bool,
    is_ordered: bool,
    columns: Option<Arc<[bool]>>,
    /// How many rows and entries it was shown.
    visited: u64,
    /// For the bytes of a row that an index leads to.
    row: Vec<u8>,
    /// For the values of rows to come.
    spare: Vec<Vec<Value>>,
}

impl TableRows {
    /// Begins a scan.
    ///
    /// # Errors
    /// If there is no such index, or a value has no order.
    pub fn scan(&self, tx: &dyn Access, range: &Range) -> Result<Scan> {
        let (home, columns, is_exact, place) = match range.index {
            None => {
                let columns: Vec<KeyColumn> = self.key.iter().map(|part| part.1).collect();
                (self.home, columns, self.is_exact, self.place_of_prefix(&range.equal, tx.places())?)
            }
            Some(oid) => {
                let index = self.index(oid)?;
                let place = index.place_of_prefix(self, &range.equal, tx.places())?;
                (index.home, index.columns.clone(), index.is_exact, place)
            }
        };
        if range.equal.len() + usize::from(range.low.is_some() || range.high.is_some()) > columns.len() {
            let message = "a scan was given more columns than its key has";
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
        }
        let ends = Ends::new(&columns, range)?;
        let all = place.map_or(0..tx.places(), |place| place..place + 1);
        let own: Vec<u16> = all.clone().filter(|place| range.own && tx.is_own(*place)).collect();
        let places = if own.is_empty() { all.collect() } else { own };
        let batch = range.wanted.unwrap_or(FIRST_BATCH).clamp(1, BATCH_MAX);
        let part = |place| {
            let rest = Some(ends.range(&home, place, is_exact));
            Part { rest, batch, ..Part::default() }
        };
        Ok(Scan {
            index: range.index,
            parts: places.into_iter().map(part).collect(),
            backwards: range.backwards,
            hold: range.hold,
            of_moment: range.of_moment,
            is_ordered: is_exact,
            columns: range.columns.clone(),
            visited: 0,
            row: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// Whether all rows of a scan of this index, or of the key, come in order, and none besides.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn is_exact(&self, index: Option<Oid>) -> Result<bool> {
        index.map_or(Ok(self.is_exact), |index| Ok(self.index(index)?.is_exact))
    }

    /// The place of rows whose key begins with these values, if they decide it.
    fn place_of_prefix(&self, prefix: &[Value], places: u16) -> Result<Option<u16>> {
        match self.placing_column() {
            Some((_, at)) if at < prefix.len() => self.place_of(&prefix[at], places).map(Some),
            _ => Ok(None),
        }
    }

    /// Visits all rows, in any order, until `see` breaks.
    ///
    /// # Errors
    /// Conflicts, damage, and those of `see`.
    pub fn each(
        &self,
        tx: &mut dyn Access,
        mut see: impl FnMut(&mut dyn Access, Row) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut scan = self.scan(tx, &Range::default())?;
        while let Some(row) = scan.next(tx, self)? {
            if see(tx, row)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The ends of a range, as beginnings of keys.
struct Ends {
    low: End,
    high: End,
}

enum End {
    Open,
    Before(Vec<u8>),
    Behind(Vec<u8>),
}

impl Ends {
    fn new(columns: &[KeyColumn], range: &Range) -> Result<Ends> {
        let mut prefix = Vec::new();
        for (how, value) in columns.iter().zip(&range.equal) {
            how.encode(value, &mut prefix)?;
        }
        if range.low.is_none() && range.high.is_none() {
            return Ok(match prefix.is_empty() {
                true => Ends { low: End::Open, high: End::Open },
                false => Ends { low: End::Before(prefix.clone()), high: End::Behind(prefix) },
            });
        }
        let how = columns[range.equal.len()];
        // All values of the column, without NULLs: they share the byte that says that they are values.
        let mut values = prefix.clone();
        if !how.not_null {
            values.push(u8::from(how.nulls_first));
        }
        let key = |value: &Value| {
            let mut key = prefix.clone();
            how.encode(value, &mut key).map(|()| key)
        };
        // Descending, the greatest value comes first.
        let (first, last) =
            if how.descending { (&range.high, &range.low) } else { (&range.low, &range.high) };
        let low = match first {
            None => End::Before(values.clone()),
            Some((value, true)) => End::Before(key(value)?),
            Some((value, false)) => End::Behind(key(value)?),
        };
        let high = match last {
            None => End::Behind(values),
            Some((value, true)) => End::Behind(key(value)?),
            Some((value, false)) => End::Before(key(value)?),
        };
        Ok(Ends { low, high })
    }

    fn range(&self, home: &Home, place: u16, is_exact: bool) -> KeyRange {
        let room = home.size.key_bytes();
        let bound = |end: &'_ End, is_low: bool| -> KeyEnd {
            match end {
                End::Open => KeyEnd(None, false),
                End::Before(bytes) | End::Behind(bytes) if !is_exact && bytes.len() > room - 8 => {
                    // Where keys may be cut, ends that reach the cut take in all that begin alike.
                    KeyEnd(Some(searchable(bytes, room).to_vec()), !is_low)
                }
                End::Before(bytes) => KeyEnd(Some(bytes.clone()), false),
                End::Behind(bytes) => KeyEnd(Some(bytes.clone()), true),
            }
        };
        let (low, high) = (bound(&self.low, true), bound(&self.high, false));
        home.range(place, low.bound(), high.bound())
    }
}

/// Bytes of an end, and whether it is behind all that begin with them.
struct KeyEnd(Option<Vec<u8>>, bool);

impl KeyEnd {
    fn bound(&self) -> Bound<'_> {
        match (&self.0, self.1) {
            (None, _) => Bound::Open,
            (Some(bytes), false) => Bound::Before(bytes),
            (Some(bytes), true) => Bound::Behind(bytes),
        }
    }
}

impl Scan {
    /// Whether rows come in key order and are all in the range.
    pub fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// How many rows and index entries it has visited.
    pub fn visited(&self) -> u64 {
        self.visited
    }

    /// Takes back the values of a row: another one gets their place.
    pub fn reuse(&mut self, values: Vec<Value>) {
        self.spare.push(values);
    }

    /// The next row.
    ///
    /// # Errors
    /// Conflicts; damage.
    pub fn next(&mut self, tx: &mut dyn Access, table: &TableRows) -> Result<Option<Row>> {
        while let Some((part, at)) = self.next_read(tx, table)? {
            let (columns, part) = (self.columns.as_deref(), &self.parts[part]);
            let key = match self.index {
                Some(index) => table.key_in(table.index(index)?, part.row(at)),
                None if self.hold != Hold::Change => {
                    let values = self.spare.pop().unwrap_or_default();
                    return table.row_in(tx, part.keys[at], part.row(at), columns, values).map(Some);
                }
                None => part.keys[at],
            };
            let row = match self.hold {
                Hold::Read => table.get_some(tx, &key, columns, &mut self.row)?,
                Hold::Change => table.lock(tx, &key)?,
                Hold::Free => table.peek(tx, &key, columns, &mut self.row)?,
            };
            match row {
                Some(row) => return Ok(Some(row)),
                // Somebody may be changing it, or have removed it since.
                None if self.hold == Hold::Free => {}
                None if self.of_moment && tx.changes_row(table.home.table, &key) => {}
                None => {
                    let message = format!("an index of \"{}\" leads to a row that is not there", table.name);
                    return Err(SqlError::new(SqlState::INDEX_CORRUPTED, message));
                }
            }
        }
        Ok(None)
    }

    /// Which row or entry is the next: the part, and where it is in that.
    fn next_read(&mut self, tx: &mut dyn Access, table: &TableRows) -> Result<Option<(usize, usize)>> {
        let (backwards, free) = (self.backwards, self.hold == Hold::Free);
        let what = What { table, index: self.index, free };
        for part in &mut self.parts {
            if !part.left.is_empty() || part.rest.is_none() {
                continue;
            }
            if backwards && free {
                self.visited += part.fetch(tx, &what, usize::MAX)?;
            } else if backwards {
                self.visited += part.fetch_back(tx, &what)?;
            } else {
                self.visited += part.fetch(tx, &what, part.batch)?;
                part.batch = (2 * part.batch).min(BATCH_MAX);
            }
        }
        // Places are no part of the order: keys are compared from their second word on.
        let mut best: Option<(usize, &Key)> = None;
        for (n, part) in self.parts.iter().enumerate() {
            let next = if backwards { part.left.clone().next_back() } else { part.left.clone().next() };
            let Some(key) = next.map(|at| &part.keys[at]) else { continue };
            let wins = best.is_none_or(|(_, other)| {
                let order = key.words()[1..].cmp(&other.words()[1..]);
                if backwards { order.is_gt() } else { order.is_lt() }
            });
            if wins {
                best = Some((n, key));
            }
        }
        let Some((n, _)) = best else { return Ok(None) };
        let left = &mut self.parts[n].left;
        let at = if backwards { left.next_back() } else { left.next() };
        Ok(at.map(|at| (n, at)))
    }
}

impl Part {
    /// The bytes of a row or entry that has been read.
    fn row(&self, at: usize) -> &[u8] {
        &self.bytes[at * self.row_bytes..][..self.row_bytes]
    }

    /// Reads the last rows or entries of what is left; how many it has visited.
    fn fetch_back(&mut self, tx: &mut dyn Access, what: &What<'_>) -> Result<u64> {
        let Some(all) = self.rest.take() else { return Ok(0) };
        let most = if self.batch > BACK_BATCH_MAX { usize::MAX - 1 } else { self.batch };
        self.batch = self.batch.saturating_mul(BACK_GROWTH);
        let home = what
            .index
            .map_or(Ok(what.table.home), |index| what.table.index(index).map(|index| index.home))?;
        let end = all.high.expect("a scan's range ends at the object's edge at last");
        // There are more than `most` rows from `low` on, and none from `high` on.
        let (mut low, mut high, mut start) = (all.low, end, all.low);
        let mut visited = 0;
        loop {
            let (mut seen, mut last) = (0, None);
            tx.scan(home.table, &KeyRange { low: start, high: all.high }, &mut |key, _| {
                (seen, last) = (seen + 1, Some(*key));
                if seen <= most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            visited += seen as u64;
            match last {
                Some(last) if seen > most => low = last,
                None if start > all.low => high = start,
                _ => break,
            }
            start = middle(&low, &high);
        }
        self.rest = Some(KeyRange { low: start, high: all.high });
        visited += self.fetch(tx, what, usize::MAX)?;
        self.rest = (start > all.low).then_some(KeyRange { low: all.low, high: Some(start) });
        Ok(visited)
    }

    /// Reads up to `most` rows or entries; how many.
    fn fetch(&mut self, tx: &mut dyn Access, what: &What<'_>, most: usize) -> Result<u64> {
        let Some(range) = self.rest.take() else { return Ok(0) };
        let What { table, index, free } = *what;
        let index = index.map(|index| table.index(index)).transpose()?;
        let home = index.map_or(table.home, |index| index.home);
        self.keys.clear();
        self.bytes.clear();
        let (keys, bytes) = (&mut self.keys, &mut self.bytes);
        let mut see = |key: &Key, row: &[u8]| {
            bytes.extend_from_slice(row);
            keys.push(*key);
            if keys.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        match free {
            true => tx.peek(home.table, &range, &mut see)?,
            false => tx.scan(home.table, &range, &mut see)?,
        }
        self.left = 0..self.keys.len();
        self.row_bytes = self.bytes.len() / self.keys.len().max(1);
        if self.keys.len() >= most {
            let low = self.keys.last().and_then(|last| last.next());
            self.rest = low.map(|low| KeyRange { low, high: range.high }).filter(|rest| !rest.is_empty());
        }
        if let Some(index) = index {
            let row = |at| Announced::read(table.home.table, table.key_in(index, self.row(at)));
            let rows: Vec<_> = self.left.clone().map(row).collect();
            tx.announce(&rows);
        }
        Ok(self.keys.len() as u64)
    }
}

/// The key halfway from one to a greater one.
fn middle(low: &Key, high: &Key) -> Key {
    let (mut words, mut carry) = (vec![0u64; low.width()], 0u128);
    for n in (0..words.len()).rev() {
        let sum = u128::from(low.words()[n]) + u128::from(high.words()[n]) + carry;
        (words[n], carry) = (sum as u64, sum >> 64);
    }
    let mut above = carry as u64;
    for word in &mut words {
        let lowest = *word & 1;
        *word = (*word >> 1) | (above << 63);
        above = lowest;
    }
    Key::from_words(&words)
}
