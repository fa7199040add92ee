//! Joins by hash of a level and what rows around it say. Those of two parts of one level: `hash_join`.
//!
//! 1. Hashes only narrow: whether keys are equal is said by the equality itself, which stays in the plan.
//! 2. Rows are given in the order in which the inner part gave them, whichever way they are found.
//! 3. What is kept for a statement is made of rows that are the same each time.

use std::rc::Rc;

use super::kept::Stages;
use super::lookup::{Looking, Lookup};
use super::rows::hash;
use super::table::{BATCH_FIRST, Next};
use super::{Env, Exec, Row};
use crate::error::{Result, SqlError};
use crate::plan::{HashKey, Keyed, Node};
use crate::tree::Expr;
use crate::types::Oid;
use crate::types::value::Value;

/// The hash of these expressions' values; `None` where one is NULL, which equals nothing.
type Hashed = Result<Option<u64>>;

impl<'p> Exec<'p> {
    pub(super) fn hash_of<'e>(
        &self,
        keys: &'p [HashKey],
        side: impl Fn(&'p HashKey) -> (&'p Expr, Oid),
        env: &Env<'e>,
    ) -> Hashed {
        let mut hashed = 0;
        for key in keys {
            let (expr, ty) = side(key);
            let value = self.eval(expr, env)?;
            if value.is_null() {
                return Ok(None);
            }
            hashed = hash(&[ty], &[value]) ^ u64::rotate_left(hashed, 17);
        }
        Ok(Some(hashed))
    }

    /// All rows of a node by their keys, but for those that nothing equals.
    fn lookup(
        &self,
        node: &'p Node,
        (keys, slots): (&'p [HashKey], &[(usize, usize)]),
        row: &Row,
        outer: Option<&Env<'_>>,
    ) -> Result<Lookup> {
        let mut looking = Looking::new(slots, self.hash_space(), self.interrupt);
        let mut scratch = row.clone();
        let before = self.first_batch.replace(BATCH_FIRST);
        let ended = self.run_node(node, &mut scratch, outer, &mut |found| {
            let hash = self.hash_of(keys, |key| (&key.inner, key.inner_type), &Env { row: found, outer })?;
            hash.map_or(Ok(()), |hash| looking.add(found, hash)).map(|()| true)
        });
        self.first_batch.set(before);
        ended?;
        looking.done()
    }

    /// The rows of a level that are found by what rows around it say.
    pub(super) fn keyed(
        &self,
        keyed: &'p Keyed,
        row: &mut Row,
        outer: Option<&Env<'_>>,
        next: Next<'_>,
    ) -> Result<bool> {
        let asked = || self.hash_of(&keyed.keys, |key| (&key.outer, key.outer_type), &Env { row, outer });
        let kept = match self.kept_by_key(keyed, row, outer)? {
            None => None,
            // What cannot be computed is not asked for where there are no rows.
            Some(stored) => match asked() {
                Err(error) if is_of_data(&error) => None,
                hash => Some((stored, hash?)),
            },
        };
        let Some((stored, hash)) = kept else {
            return self.run_node(&keyed.inner, row, outer, &mut |row| {
                let env = Env { row, outer };
                for check in &keyed.checks {
                    if !self.holds(Some(check), &env)? {
                        return Ok(true);
                    }
                }
                if self.holds(keyed.filter.as_ref(), &env)? { next(row) } else { Ok(true) }
            });
        };
        let Some(hash) = hash else { return Ok(true) };
        stored.each(hash, row, &mut |row| {
            let env = Env { row, outer };
            for check in &keyed.checks {
                if !self.holds(Some(check), &env)? {
                    return Ok(true);
                }
            }
            if self.holds(keyed.filter.as_ref(), &env)? { next(row) } else { Ok(true) }
        })
    }

    /// The kept rows, from the second time on. A key that cannot be computed of all rows (a row that no other
    /// condition would have let through) is no key: then they are gone through each time.
    fn kept_by_key(
        &self,
        keyed: &'p Keyed,
        row: &Row,
        outer: Option<&Env<'_>>,
    ) -> Result<Option<Rc<Lookup>>> {
        let stage = self.caches.borrow()[keyed.cache].stored.clone();
        let next = match stage {
            Stages::Is(stored) => return Ok(Some(stored)),
            Stages::Unfit => return Ok(None),
            Stages::New => Stages::Asked,
            Stages::Asked => match self.lookup(&keyed.inner, (&keyed.keys, &keyed.slots), row, outer) {
                Ok(stored) => Stages::Is(Rc::new(stored)),
                Err(error) if is_of_data(&error) => Stages::Unfit,
                Err(error) => return Err(error),
            },
        };
        self.caches.borrow_mut()[keyed.cache].stored = next.clone();
        Ok(if let Stages::Is(stored) = next { Some(stored) } else { None })
    }
}

/// Whether an error is about values, and not about the statement or its transaction.
fn is_of_data(error: &SqlError) -> bool {
    error.state.class() == *b"22"
}

pub(super) fn clear(row: &mut Row, slots: &[(usize, usize)]) {
    for (at, width) in slots {
        row[*at..at + width].fill(Value::Null);
    }
}
