//! Joins by hash: two parts of one level, or a level and what rows around it say.
//!
//! 1. Hashes only narrow: whether keys are equal is said by the equality itself, which stays in the plan.
//! 2. Rows are given in the order in which the inner part gave them, whichever way they are found.
//! 3. What is kept for a statement is made of rows that are the same each time.

use std::rc::Rc;

use super::hashed::Stored;
use super::kept::Stages;
use super::rows::hash;
use super::table::{BATCH_FIRST, Next};
use super::{Env, Exec, Row};
use crate::error::{Result, SqlError};
use crate::plan::{HashJoin, HashKey, HashKind, Keyed, Node};
use crate::tree::Expr;
use crate::types::Oid;
use crate::types::value::Value;

/// The hash of these expressions' values; `None` where one is NULL, which equals nothing.
type Hashed = Result<Option<u64>>;

impl<'p> Exec<'p> {
    fn hash_of<'e>(
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

    /// All rows of a node by their keys. `all`: those are kept too that nothing equals.
    fn stored(
        &self,
        node: &'p Node,
        (keys, slots): (&'p [HashKey], &[(usize, usize)]),
        all: bool,
        row: &Row,
        outer: Option<&Env<'_>>,
    ) -> Result<Stored> {
        let mut stored = Stored::new(slots);
        let mut scratch = row.clone();
        let before = self.first_batch.replace(BATCH_FIRST);
        let ended = self.run_node(node, &mut scratch, outer, &mut |found| {
            let hash = self.hash_of(keys, |key| (&key.inner, key.inner_type), &Env { row: found, outer })?;
            if all || hash.is_some() {
                stored.add(found, hash);
            }
            Ok(true)
        });
        self.first_batch.set(before);
        ended.map(|_| stored)
    }

    fn inner_of(&self, join: &'p HashJoin, row: &Row, outer: Option<&Env<'_>>) -> Result<Rc<Stored>> {
        if let Some(cache) = join.cache
            && let Stages::Is(stored) = &self.caches.borrow()[cache].stored
        {
            return Ok(stored.clone());
        }
        let all = join.kind == HashKind::Full;
        let stored = Rc::new(self.stored(&join.inner, (&join.keys, &join.inner_slots), all, row, outer)?);
        if let Some(cache) = join.cache {
            self.caches.borrow_mut()[cache].stored = Stages::Is(stored.clone());
        }
        Ok(stored)
    }

    pub(super) fn hash_join(
        &self,
        join: &'p HashJoin,
        row: &mut Row,
        outer: Option<&Env<'_>>,
        next: Next<'_>,
    ) -> Result<bool> {
        let inner = self.inner_of(join, row, outer)?;
        let mut used = vec![false; if join.kind == HashKind::Full { inner.len() } else { 0 }];
        let more = self.run_node(&join.outer, row, outer, &mut |row| {
            self.yield_point()?;
            let hash = self.hash_of(&join.keys, |key| (&key.outer, key.outer_type), &Env { row, outer })?;
            let mut matched = false;
            for number in hash.into_iter().flat_map(|hash| inner.of(hash)) {
                inner.put(number, row);
                if !self.holds(join.residual.as_ref(), &Env { row, outer })? {
                    continue;
                }
                matched = true;
                if let Some(used) = used.get_mut(number) {
                    *used = true;
                }
                if !next(row)? {
                    return Ok(false);
                }
            }
            if !matched && join.kind != HashKind::Inner {
                clear(row, &join.inner_slots);
                return next(row);
            }
            Ok(true)
        })?;
        if join.kind != HashKind::Full || !more {
            return Ok(more);
        }
        clear(row, &join.outer_slots);
        for number in (0..inner.len()).filter(|number| !used[*number]) {
            inner.put(number, row);
            if !next(row)? {
                return Ok(false);
            }
        }
        Ok(true)
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
        'rows: for number in hash.into_iter().flat_map(|hash| stored.of(hash)) {
            stored.put(number, row);
            let env = Env { row, outer };
            for check in &keyed.checks {
                if !self.holds(Some(check), &env)? {
                    continue 'rows;
                }
            }
            if self.holds(keyed.filter.as_ref(), &env)? && !next(row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The kept rows, from the second time on. A key that cannot be computed of all rows (a row that no other
    /// condition would have let through) is no key: then they are gone through each time.
    fn kept_by_key(
        &self,
        keyed: &'p Keyed,
        row: &Row,
        outer: Option<&Env<'_>>,
    ) -> Result<Option<Rc<Stored>>> {
        let stage = self.caches.borrow()[keyed.cache].stored.clone();
        let next = match stage {
            Stages::Is(stored) => return Ok(Some(stored)),
            Stages::Unfit => return Ok(None),
            Stages::New => Stages::Asked,
            Stages::Asked => {
                match self.stored(&keyed.inner, (&keyed.keys, &keyed.slots), false, row, outer) {
                    Ok(stored) => Stages::Is(Rc::new(stored)),
                    Err(error) if is_of_data(&error) => Stages::Unfit,
                    Err(error) => return Err(error),
                }
            }
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
