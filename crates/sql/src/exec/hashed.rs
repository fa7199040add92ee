//! Hash tables: rows found by their keys, and the members of a list or of a query's result.
//!
//! 1. Entries of one key are found in the order in which they were added: what is given does not depend on
//!    how a table grew.
//! 2. Values that an equality takes for equal hash alike, also those of two types (integers, floats, texts);
//!    whether two values are equal is always said by the equality itself.
//! 3. NULL is not among the keys: what a NULL makes of an answer is decided beside the table.

use super::kept::Rows;
use super::lookup::{Looking, Lookup};
use super::rows::hash;
use super::spill::{FlatRows, TupleStore};
use super::{Exec, Row};
use crate::error::Result;
use crate::tree::Head;
use crate::types::Oid;
use crate::types::value::Value;

const NONE: u32 = u32::MAX;
const EMPTY: u64 = u64::MAX;

/// Numbers from 0 on, found by hashes.
#[derive(Clone, Debug, Default)]
pub(super) struct Buckets {
    /// The upper half of a hash above the first number that has it, in the first free slot behind its own; as
    /// many as a power of two.
    slots: Vec<u64>,
    entries: Vec<Entry>,
    /// How many slots are not empty.
    used: usize,
}

/// A number's hash.
#[derive(Clone, Debug)]
struct Entry {
    hash: u64,
    /// The next number with this hash.
    next: u32,
    /// Of the first number with this hash: the last one.
    last: u32,
}

impl Buckets {
    /// Adds the next number.
    pub(super) fn add(&mut self, hash: u64) -> usize {
        let number = self.entries.len();
        assert!(number < NONE as usize, "a table has fewer than {NONE} rows");
        if 4 * (self.used + 1) > 3 * self.slots.len() {
            self.grow();
        }
        let at = self.slot(hash);
        let (slot, mut last) = (self.slots[at], NONE);
        if slot == EMPTY {
            self.slots[at] = (hash >> 32 << 32) | number as u64;
            self.used += 1;
            last = number as u32;
        } else {
            let first = slot as u32 as usize;
            let before = std::mem::replace(&mut self.entries[first].last, number as u32);
            self.entries[before as usize].next = number as u32;
        }
        self.entries.push(Entry { hash, next: NONE, last });
        number
    }

    fn grow(&mut self) {
        let slots = (2 * self.slots.len()).max(16);
        self.slots.clear();
        self.slots.resize(slots, EMPTY);
        for (number, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.last != NONE) {
            let mut at = Buckets::own_slot(entry.hash, slots);
            while self.slots[at] != EMPTY {
                at = (at + 1) & (slots - 1);
            }
            self.slots[at] = (entry.hash >> 32 << 32) | number as u64;
        }
    }

    fn own_slot(hash: u64, slots: usize) -> usize {
        (hash ^ (hash >> 32)) as usize & (slots - 1)
    }

    /// The slot of a hash, or the empty one where it would be.
    fn slot(&self, hash: u64) -> usize {
        let mut at = Buckets::own_slot(hash, self.slots.len());
        loop {
            let slot = self.slots[at];
            let is_here = || self.entries[slot as u32 as usize].hash == hash;
            if slot == EMPTY || (slot >> 32 == hash >> 32 && is_here()) {
                return at;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn hash(&self, number: usize) -> u64 {
        self.entries[number].hash
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.entries)
    }

    /// How many slots there are.
    pub(super) fn lists(&self) -> usize {
        self.slots.len()
    }

    /// The numbers that were added with this hash.
    pub(super) fn of(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        // The lower half of an empty slot is no number either.
        let mut next = if self.slots.is_empty() { NONE } else { self.slots[self.slot(hash)] as u32 };
        std::iter::from_fn(move || {
            let number = (next != NONE).then_some(next as usize)?;
            next = self.entries[number].next;
            Some(number)
        })
    }
}

/// Rows that values are looked up among: what IN asks.
pub(super) struct Members {
    heads: Vec<Head>,
    rows: Rows,
    /// Keys without a NULL.
    whole: Lookup,
    /// Keys with one.
    partly: TupleStore,
}

impl<'p> Exec<'p> {
    /// `None` where hashes do not decide.
    pub(super) fn members(&self, heads: &[Head], rows: Rows) -> Result<Option<Members>> {
        if !heads.iter().all(Head::is_hashed) {
            return Ok(None);
        }
        let types: Vec<Oid> = heads.iter().map(|head| head.types[1]).collect();
        let mut whole = Looking::new(&[(0, types.len())], self.hash_space(), self.interrupt);
        let mut partly = self.kept_rows();
        rows.each(|row| {
            self.yield_point()?;
            let key = &row[..types.len()];
            match key.iter().any(Value::is_null) {
                true => partly.push(key.to_vec())?,
                false => whole.add(key, hash(&types, key))?,
            }
            Ok(true)
        })?;
        Ok(Some(Members { heads: heads.to_vec(), rows, whole: whole.done()?, partly }))
    }

    /// Whether one of the rows is equal to `left`: unknown where a NULL leaves that open.
    pub(super) fn is_among(&self, members: &Members, left: &[Value]) -> Result<Option<bool>> {
        let Members { heads, rows, whole, partly } = members;
        if rows.is_empty() {
            return Ok(Some(false));
        }
        let open = left.iter().any(Value::is_null);
        if !open {
            let types: Vec<Oid> = heads.iter().map(|head| head.types[0]).collect();
            let mut key = vec![Value::Null; heads.len()];
            let among = whole.each(hash(&types, left), &mut key, &mut |key| {
                Ok(self.equal(heads, left, key)? != Some(true))
            })?;
            if !among {
                return Ok(Some(true));
            }
        }
        // A NULL on either side: a row whose other columns are equal may be the one that is asked for.
        if heads.len() == 1 {
            return Ok(if open || !partly.is_empty() { None } else { Some(false) });
        }
        let differs = |row: &[Value]| Ok(self.equal(heads, left, &row[..heads.len()])?.is_some());
        let all_differ = if open { rows.each(differs)? } else { partly.each(differs)? };
        Ok(if all_differ { Some(false) } else { None })
    }

    /// Whether rows are equal in all columns.
    pub(super) fn equal(&self, heads: &[Head], left: &[Value], right: &[Value]) -> Result<Option<bool>> {
        let mut equal = Some(true);
        for ((head, l), r) in heads.iter().zip(left).zip(right) {
            match self.test(head, l.clone(), r.clone())? {
                Some(false) => return Ok(Some(false)),
                None => equal = None,
                Some(true) => {}
            }
        }
        Ok(equal)
    }
}

/// About what an entry of a table takes besides its values.
const ENTRY: usize = size_of::<Entry>() + 2 * size_of::<u64>();

/// Rows of a part of a join in memory, found by the hashes of their keys.
pub(super) struct Stored {
    /// Which slots of the level a row is.
    slots: Vec<(usize, usize)>,
    rows: FlatRows,
    buckets: Buckets,
    bytes: usize,
}

impl Stored {
    pub(super) fn new(slots: &[(usize, usize)]) -> Stored {
        let (rows, buckets) = (FlatRows::default(), Buckets::default());
        Stored { slots: slots.to_vec(), rows, buckets, bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lists of its table.
    pub(super) fn lists(&self) -> usize {
        self.buckets.lists()
    }

    /// Adds a row of its slots; bytes that it takes.
    pub(super) fn add<'v>(&mut self, row: impl Iterator<Item = &'v Value>, hash: u64) -> usize {
        self.buckets.add(hash);
        let bytes = ENTRY + self.rows.push(row.cloned());
        self.bytes += bytes;
        bytes
    }

    /// The rows with this hash.
    pub(super) fn of(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        self.buckets.of(hash)
    }

    /// A row's hash and values.
    pub(super) fn row(&self, number: usize) -> (u64, &[Value]) {
        (self.buckets.hash(number), self.rows.row(number))
    }

    /// Puts a row at its slots.
    pub(super) fn put(&self, number: usize, row: &mut Row) {
        put(&self.slots, self.row(number).1, row);
    }
}

/// The values of slots of a level's row.
pub(super) fn in_slots<'v>(
    row: &'v [Value],
    slots: &'v [(usize, usize)],
) -> impl Iterator<Item = &'v Value> + 'v {
    slots.iter().flat_map(|(at, width)| &row[*at..at + width])
}

/// Puts values at slots of a level's row.
pub(super) fn put(slots: &[(usize, usize)], values: &[Value], row: &mut Row) {
    let mut from = 0;
    for (at, width) in slots {
        row[*at..at + width].clone_from_slice(&values[from..from + width]);
        from += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_hash_are_found_in_order() {
        let mut buckets = Buckets::default();
        assert_eq!(buckets.of(7).count(), 0);
        // Of one half and of two that meet in their slots.
        let hash = |number: u64| [number, number << 32, (number << 32) | number][number as usize % 3];
        for at in 0..1000 {
            assert_eq!(buckets.add(hash(at % 7)), at as usize);
        }
        for number in 0..9 {
            let expected: Vec<usize> = (0..1000).filter(|at| *at as u64 % 7 == number).collect();
            assert_eq!(buckets.of(hash(number)).collect::<Vec<_>>(), expected);
        }
    }
}
