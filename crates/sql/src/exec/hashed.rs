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
use super::spill::{TupleStore, footprint};
use super::{Exec, Row};
use crate::error::Result;
use crate::tree::Head;
use crate::types::Oid;
use crate::types::value::Value;

const NONE: u32 = u32::MAX;

/// Numbers from 0 on, found by hashes.
#[derive(Clone, Debug, Default)]
pub(super) struct Buckets {
    /// First and last number of a bucket; as many as a power of two.
    ends: Vec<(u32, u32)>,
    /// A number's hash, and the next one of its bucket.
    entries: Vec<(u64, u32)>,
}

impl Buckets {
    /// Adds the next number.
    pub(super) fn add(&mut self, hash: u64) -> usize {
        let number = self.entries.len();
        self.entries.push((hash, NONE));
        if self.entries.len() > self.ends.len() {
            self.ends = vec![(NONE, NONE); (4 * self.ends.len()).max(16)];
            (0..=number).for_each(|number| self.link(number));
        } else {
            self.link(number);
        }
        number
    }

    fn bucket(&self, hash: u64) -> usize {
        (hash ^ (hash >> 32)) as usize & (self.ends.len() - 1)
    }

    fn link(&mut self, number: usize) {
        let own = self.bucket(self.entries[number].0);
        self.entries[number].1 = NONE;
        let (first, last) = &mut self.ends[own];
        match *last {
            NONE => *first = number as u32,
            before => self.entries[before as usize].1 = number as u32,
        }
        *last = number as u32;
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn hash(&self, number: usize) -> u64 {
        self.entries[number].0
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.ends.len() * size_of::<(u32, u32)>() + self.entries.len() * size_of::<(u64, u32)>()
    }

    /// How many lists of numbers there are.
    pub(super) fn lists(&self) -> usize {
        self.ends.len()
    }

    /// The numbers that were added with this hash.
    pub(super) fn of(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        let mut next = if self.ends.is_empty() { NONE } else { self.ends[self.bucket(hash)].0 };
        std::iter::from_fn(move || {
            while next != NONE {
                let number = next as usize;
                let (own, behind) = self.entries[number];
                next = behind;
                if own == hash {
                    return Some(number);
                }
            }
            None
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
        let differs = |row: &Row| Ok(self.equal(heads, left, &row[..heads.len()])?.is_some());
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
const ENTRY: usize = size_of::<(u64, u32)>() + 2 * size_of::<(u32, u32)>();

/// Rows of a part of a join in memory, found by the hashes of their keys.
pub(super) struct Stored {
    /// Which slots of the level a row is.
    slots: Vec<(usize, usize)>,
    width: usize,
    values: Vec<Value>,
    buckets: Buckets,
    bytes: usize,
}

impl Stored {
    pub(super) fn new(slots: &[(usize, usize)]) -> Stored {
        let width = slots.iter().map(|(_, width)| width).sum();
        Stored { slots: slots.to_vec(), width, values: Vec::new(), buckets: Buckets::default(), bytes: 0 }
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
        let before = self.values.len();
        self.values.extend(row.cloned());
        assert_eq!(self.values.len(), before + self.width, "a row is as wide as its slots");
        let bytes = ENTRY + footprint(&self.values[before..]);
        self.bytes += bytes;
        bytes
    }

    /// The rows with this hash.
    pub(super) fn of(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        self.buckets.of(hash)
    }

    /// A row's hash and values.
    pub(super) fn row(&self, number: usize) -> (u64, &[Value]) {
        (self.buckets.hash(number), &self.values[number * self.width..(number + 1) * self.width])
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
        for at in 0..1000 {
            assert_eq!(buckets.add(at % 7), at as usize);
        }
        for hash in 0..9 {
            let expected: Vec<usize> = (0..1000).filter(|at| *at as u64 % 7 == hash).collect();
            assert_eq!(buckets.of(hash).collect::<Vec<_>>(), expected);
        }
    }
}
