//! Rows that differ: DISTINCT, UNION, and what EXCEPT leaves.
//!
//! Invariants:
//! 1. A row is told of once, where it is seen for the first time, or, if there was no room for it then, when
//!    its part is gone through.
//! 2. Once there is no room, no row is added any more: every row is among those in memory, or in a part, and
//!    never in both.

use super::measure::HashUse;
use super::rows::RowMap;
use super::spill::{Parts, Space, kilobytes};
use super::{Emit, Exec};
use crate::error::Result;
use crate::types::Oid;
use crate::types::value::Value;

/// The rows that were seen.
pub(super) struct Distinct {
    types: Vec<Oid>,
    space: Space,
    level: u32,
    map: RowMap,
    later: Option<Parts>,
}

impl Distinct {
    pub(super) fn new(types: &[Oid], space: Space) -> Distinct {
        Distinct::at(types, space, 0)
    }

    fn at(types: &[Oid], space: Space, level: u32) -> Distinct {
        Distinct { types: types.to_vec(), space, level, map: RowMap::new(types.to_vec()), later: None }
    }

    /// Whether a row is new. One for which there is no room is not yet.
    pub(super) fn is_new(&mut self, row: &[Value]) -> Result<bool> {
        let hash = self.map.hash(row);
        if self.map.find(hash, row).is_some() {
            return Ok(false);
        }
        if let Some(later) = &mut self.later {
            later.push(hash, row)?;
            return Ok(false);
        }
        self.map.add(hash, row);
        if self.space.is_full(self.map.bytes()) {
            self.later = Some(Parts::new(&self.space, self.level)?);
        }
        Ok(true)
    }
}

impl Exec<'_> {
    /// The rows for which there was no room; false if no more are wanted.
    pub(super) fn rest(&self, distinct: Distinct, used: &mut HashUse, emit: Emit<'_>) -> Result<bool> {
        used.holds(kilobytes(distinct.map.bytes() as u64));
        let Distinct { types, space, later, .. } = distinct;
        let Some(parts) = later else { return Ok(true) };
        used.writes(kilobytes(parts.size()));
        for tape in parts.tapes().iter().filter(|tape| tape.rows() > 0) {
            let mut inner = Distinct::at(&types, space.clone(), parts.level() + 1);
            let more = self.each_of(tape, &mut |row| {
                if inner.is_new(&row)? { emit(row) } else { Ok(true) }
            })?;
            if !more || !self.rest(inner, used, emit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
