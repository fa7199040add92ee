//! An owner that shared memory has no room for: how it makes some, and when it gives up.
//!
//! What a row's block and word took is free as soon as the row has left. Records of its index are free later:
//! when no reader can reach them, so not while a host is dead and not cut off yet. So a request that finds no
//! room is tried again at once after some rows have left; if that is not enough, whoever made it is asked to
//! come back (a conflict), until everything retired by then is free; then four times as many rows leave.
//!
//! Invariants:
//! 1. Memory is called exhausted only when no row could leave, twice, and all that had been retired before
//!    the first time was free by the second.
//! 2. Rows of a table begin from the start once one of them found room.
//!
//! It bounds rounds, not time: a host that stays a member and never collects keeps everybody asking.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::txn::TableId;

/// Rows that leave at first.
const ROWS_AT_FIRST: usize = 64;

/// What to do for a request that finds no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Eviction {
    /// Let so many rows leave, and say what came of it ([`OutOfMemory::rows_have_left`]).
    Evict(usize),
    /// What was retired is not free yet.
    Wait,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// Rows have left: there may be room now.
    TryNow,
    /// No row could leave, but memory waits to be free.
    TryLater,
    /// There is nothing to wait for.
    Exhausted,
}

/// A table whose rows found no room since the last one did.
#[derive(Clone, Copy)]
struct OutOfMemoryTable {
    /// Rows that leave next.
    rows: usize,
    /// Newest epoch in which something was retired by the last time that rows were to leave.
    until: u64,
    /// None could.
    in_vain: bool,
}

/// One host's tables that are short of shared memory.
#[derive(Default)]
pub(super) struct OutOfMemory {
    tables: BTreeMap<TableId, OutOfMemoryTable>,
}

impl OutOfMemory {
    /// A request has found no room; `waiting` are the epochs of what this host has retired and not freed.
    pub fn eviction(&self, table: TableId, waiting: Option<RangeInclusive<u64>>) -> Eviction {
        match (self.tables.get(&table), waiting) {
            (None, _) => Eviction::Evict(ROWS_AT_FIRST),
            (Some(state), Some(waiting)) if *waiting.start() <= state.until => Eviction::Wait,
            (Some(state), _) => Eviction::Evict(state.rows),
        }
    }

    /// `left` rows have left since [`Eviction::Evict`] was said; `waiting` as there, from after they left.
    pub fn rows_have_left(
        &mut self,
        table: TableId,
        left: usize,
        waiting: Option<RangeInclusive<u64>>,
    ) -> Outcome {
        let before = self.tables.get(&table);
        let in_vain = left == 0;
        if in_vain && (waiting.is_none() || before.is_some_and(|table| table.in_vain)) {
            self.tables.remove(&table);
            return Outcome::Exhausted;
        }
        let rows = before.map_or(ROWS_AT_FIRST, |table| table.rows);
        let until = waiting.map_or(0, |epochs| *epochs.end());
        self.tables.insert(table, OutOfMemoryTable { rows: rows.saturating_mul(4), until, in_vain });
        if in_vain { Outcome::TryLater } else { Outcome::TryNow }
    }

    /// A row of the table has found room.
    pub fn is_over(&mut self, table: TableId) {
        self.tables.remove(&table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: TableId = TableId(3);

    #[test]
    fn rows_leave_again_when_what_they_left_is_free() {
        let mut out_of_memory = OutOfMemory::default();
        assert_eq!(out_of_memory.eviction(TABLE, None), Eviction::Evict(64));
        assert_eq!(out_of_memory.rows_have_left(TABLE, 64, Some(7..=9)), Outcome::TryNow);
        assert_eq!(out_of_memory.eviction(TABLE, Some(7..=9)), Eviction::Wait);
        // Others go on retiring: what is younger is not waited for.
        assert_eq!(out_of_memory.eviction(TABLE, Some(9..=12)), Eviction::Wait);
        assert_eq!(out_of_memory.eviction(TABLE, Some(10..=12)), Eviction::Evict(256));
        assert_eq!(out_of_memory.eviction(TableId(4), Some(7..=9)), Eviction::Evict(64));
        out_of_memory.is_over(TABLE);
        assert_eq!(out_of_memory.eviction(TABLE, Some(7..=9)), Eviction::Evict(64));
    }

    #[test]
    fn memory_is_exhausted_when_nothing_leaves_and_nothing_waits() {
        let mut out_of_memory = OutOfMemory::default();
        assert_eq!(out_of_memory.rows_have_left(TABLE, 0, None), Outcome::Exhausted);
        assert_eq!(out_of_memory.rows_have_left(TABLE, 0, Some(7..=9)), Outcome::TryLater);
        assert_eq!(out_of_memory.eviction(TABLE, Some(9..=20)), Eviction::Wait);
        assert_eq!(out_of_memory.eviction(TABLE, Some(10..=20)), Eviction::Evict(256));
        assert_eq!(out_of_memory.rows_have_left(TABLE, 0, Some(10..=20)), Outcome::Exhausted);
        // The next request begins from the start.
        assert_eq!(out_of_memory.eviction(TABLE, None), Eviction::Evict(64));
    }
}
