//! UNION, INTERSECT, EXCEPT.
//!
//! Invariants:
//! 1. The rows that are given are those of the left side, in its order, as far as both sides are in memory.
//! 2. A row of the right side for which there is no room goes to its part, and then so does every row of the
//!    left side that may be equal to one of these.

use super::distinct::Distinct;
use super::measure::{COMBINED, HashUse, Note, address};
use super::rows::RowMap;
use super::spill::{Parts, Place, Tape, kilobytes};
use super::{Emit, Env, Exec, Row};
use crate::error::Result;
use crate::parse::ast::SetKind;
use crate::tree::Query;
use crate::types::Oid;

/// Gives all rows of a side.
type Side<'s> = &'s mut dyn FnMut(Emit<'_>) -> Result<bool>;

/// What is given: rows of the left side that the right has too, or those that it has not.
#[derive(Clone, Copy)]
struct Wanted {
    common: bool,
    all: bool,
}

/// A set operation.
pub(super) struct Operation<'p> {
    pub(super) kind: SetKind,
    pub(super) all: bool,
    pub(super) left: &'p Query,
    pub(super) right: &'p Query,
    pub(super) types: &'p [Oid],
}

impl<'p> Exec<'p> {
    pub(super) fn set_operation(
        &self,
        query: &Query,
        of: &Operation<'p>,
        outer: Option<&Env<'_>>,
        emit: Emit<'_>,
    ) -> Result<bool> {
        let (left, right) = (of.left, of.right);
        if of.kind == SetKind::Union && of.all {
            return Ok(self.run_query(left, outer, emit)? && self.run_query(right, outer, emit)?);
        }
        let (mut used, types) = (HashUse::default(), of.types);
        let more = match of.kind {
            SetKind::Union => {
                let mut seen = Distinct::new(types, self.hash_space());
                let mut more = true;
                for side in [left, right] {
                    more = more
                        && self.run_query(side, outer, &mut |row| {
                            if seen.is_new(&row)? { emit(row) } else { Ok(true) }
                        })?;
                }
                more && self.rest(seen, &mut used, emit)?
            }
            kind => {
                let wanted = Wanted { common: kind == SetKind::Intersect, all: of.all };
                let mut left = |take: Emit<'_>| self.run_query(left, outer, take);
                let mut right = |take: Emit<'_>| self.run_query(right, outer, take);
                if wanted.common || wanted.all {
                    self.compare(wanted, types, 0, (&mut left, &mut right), &mut used, emit)?
                } else {
                    let mut seen = Distinct::new(types, self.hash_space());
                    let sides: (Side<'_>, Side<'_>) = (&mut left, &mut right);
                    let more = self.compare(wanted, types, 0, sides, &mut used, &mut |row| {
                        if seen.is_new(&row)? { emit(row) } else { Ok(true) }
                    })?;
                    more && self.rest(seen, &mut used, emit)?
                }
            }
        };
        self.note_use(address(query) + COMBINED, || Note::Hash(used));
        Ok(more)
    }

    /// The rows of the left side of which there are any, or none, on the right.
    fn compare(
        &self,
        wanted: Wanted,
        types: &[Oid],
        level: u32,
        (left, right): (Side<'_>, Side<'_>),
        used: &mut HashUse,
        emit: Emit<'_>,
    ) -> Result<bool> {
        let space = self.hash_space();
        let (mut map, mut counts, mut later) = (RowMap::new(types.to_vec()), Vec::<u64>::new(), None);
        right(&mut |row| {
            self.yield_point()?;
            let hash = map.hash(&row);
            match (map.find(hash, &row), &mut later) {
                (Some(number), _) => counts[number] += 1,
                (None, Some(later)) => Parts::push(later, hash, &row)?,
                (None, None) => {
                    map.add(hash, &row);
                    counts.push(1);
                    if space.is_full(map.bytes() + size_of_val(&*counts)) {
                        later = Some(Parts::new(&space, level)?);
                    }
                }
            }
            Ok(true)
        })?;
        used.holds(kilobytes(map.bytes() as u64));
        let beside = |parts: &Parts| Parts::beside(&space, parts.tapes().len(), level);
        let mut asked = later.as_ref().map(beside).transpose()?;
        let more = left(&mut |row| {
            let hash = map.hash(&row);
            let number = map.find(hash, &row);
            if let (None, Some(parts), Some(asked)) = (number, &later, &mut asked)
                && parts.tape_of(hash).rows() > 0
            {
                asked.push(hash, &row)?;
                return Ok(true);
            }
            let found = number.is_some_and(|number| counts[number] > 0 || !(wanted.common || wanted.all));
            if let Some(number) = number {
                // Of rows that both have, each is given once, or as often as both have it.
                counts[number] = if wanted.all { counts[number].saturating_sub(1) } else { 0 };
            }
            if found == wanted.common { emit(row) } else { Ok(true) }
        })?;
        let (Some(parts), Some(asked), true) = (later, asked, more) else { return Ok(more) };
        used.writes(kilobytes(parts.size() + asked.size()));
        drop((map, counts));
        for (right, left) in parts.tapes().iter().zip(asked.tapes()).filter(|(_, left)| left.rows() > 0) {
            let mut left = |take: Emit<'_>| self.each_of(left, take);
            let mut right = |take: Emit<'_>| self.each_of(right, take);
            if !self.compare(wanted, types, level + 1, (&mut left, &mut right), used, emit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// All rows of a tape.
    pub(super) fn each_of(&self, tape: &Tape, take: Emit<'_>) -> Result<bool> {
        let (mut place, mut row) = (Place::default(), Row::new());
        while place.read(tape, &mut row)?.is_some() {
            self.yield_point()?;
            if !take(std::mem::take(&mut row))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
