//! Hash tables: rows found by their keys, and the members of a list or of a query's result.
//!
//! 1. Entries of one key are found in the order in which they were added: what is given does not depend on
//!    how a table grew.
//! 2. Values that an equality takes for equal hash alike, also those of two types (integers, floats, texts);
//!    whether two values are equal is always said by the equality itself.
//! 3. NULL is not among the keys: what a NULL makes of an answer is decided beside the table.

use std::rc::Rc;

use super::rows::hash;
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
    rows: Rc<Vec<Row>>,
    buckets: Buckets,
    /// The rows of the table by their numbers there.
    whole: Vec<usize>,
    /// Rows with a NULL.
    partly: Vec<usize>,
}

impl Members {
    /// `None` where hashes do not decide.
    pub(super) fn new(heads: &[Head], rows: Rc<Vec<Row>>) -> Option<Members> {
        if !heads.iter().all(Head::is_hashed) {
            return None;
        }
        let types: Vec<Oid> = heads.iter().map(|head| head.types[1]).collect();
        let (mut buckets, mut whole, mut partly) = (Buckets::default(), Vec::new(), Vec::new());
        for (at, row) in rows.iter().enumerate() {
            let key = &row[..types.len()];
            if key.iter().any(Value::is_null) {
                partly.push(at);
            } else {
                buckets.add(hash(&types, key));
                whole.push(at);
            }
        }
        Some(Members { heads: heads.to_vec(), rows, buckets, whole, partly })
    }
}

impl<'p> Exec<'p> {
    /// Whether one of the rows is equal to `left`: unknown where a NULL leaves that open.
    pub(super) fn is_among(&self, members: &Members, left: &[Value]) -> Result<Option<bool>> {
        let Members { heads, rows, buckets, whole, partly } = members;
        if rows.is_empty() {
            return Ok(Some(false));
        }
        let open = left.iter().any(Value::is_null);
        if !open {
            let types: Vec<Oid> = heads.iter().map(|head| head.types[0]).collect();
            for number in buckets.of(hash(&types, left)) {
                if self.equal(heads, left, &rows[whole[number]])? == Some(true) {
                    return Ok(Some(true));
                }
            }
        }
        // A NULL on either side: a row whose other columns are equal may be the one that is asked for.
        let whole = if open { whole.as_slice() } else { &[] };
        if heads.len() == 1 {
            return Ok(if open || !partly.is_empty() { None } else { Some(false) });
        }
        for at in partly.iter().chain(whole) {
            if self.equal(heads, left, &rows[*at])?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(false))
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

/// Rows of a part of a join, found by the hashes of their keys.
pub(super) struct Stored {
    /// Which slots of the level a row is.
    slots: Vec<(usize, usize)>,
    width: usize,
    values: Vec<Value>,
    rows: usize,
    buckets: Buckets,
    /// The rows of the table by their numbers there.
    found: Vec<u32>,
}

impl Stored {
    pub(super) fn new(slots: &[(usize, usize)]) -> Stored {
        let width = slots.iter().map(|(_, width)| width).sum();
        let (values, buckets, found) = (Vec::new(), Buckets::default(), Vec::new());
        Stored { slots: slots.to_vec(), width, values, rows: 0, buckets, found }
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// Adds the row that is at its slots of the level's; one without a hash is not found.
    pub(super) fn add(&mut self, row: &[Value], hash: Option<u64>) {
        if let Some(hash) = hash {
            self.buckets.add(hash);
            self.found.push(self.rows as u32);
        }
        for (at, width) in &self.slots {
            self.values.extend_from_slice(&row[*at..at + width]);
        }
        self.rows += 1;
    }

    /// The rows with this hash.
    pub(super) fn of(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        self.buckets.of(hash).map(|number| self.found[number] as usize)
    }

    /// Puts a row at its slots.
    pub(super) fn put(&self, number: usize, row: &mut Row) {
        let mut from = number * self.width;
        for (at, width) in &self.slots {
            row[*at..at + width].clone_from_slice(&self.values[from..from + width]);
            from += width;
        }
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
