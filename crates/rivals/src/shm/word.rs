//! A row's sync word: its lease and its lock, changed by one store or one compare-and-swap.
//!
//! ```text
//! 63 .. 22 | 21 .. 12    | 11 .. 10 | 9 .. 0
//! wts      | rts - wts   | state    | who has locked it: host and worker, plus one; 0: nobody
//! ```
//!
//! Invariants:
//! 1. A word's `wts` only grows, also from one row to the next that is given the word: so a word with
//!    a `wts` that was seen before has the row, and the bytes, that were seen.
//! 2. Where `rts` is further from `wts` than there is room for, `wts` is moved up: whoever compares it takes
//!    the row for changed, and is wrong on the safe side.
//! 3. A locked word is changed by its holder alone.

use liger_fabric::{Cx, Fabric};

use crate::sundial::Lease;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["shm.above-last-row"];

const WRITER_BITS: u32 = 10;
const STATE_BITS: u32 = 2;
const SPAN_BITS: u32 = 10;
const WTS_SHIFT: u32 = WRITER_BITS + STATE_BITS + SPAN_BITS;
const MAX_SPAN: u64 = (1 << SPAN_BITS) - 1;

/// No time reaches this.
pub(super) const END_OF_TIME: u64 = 1 << (64 - WTS_SHIFT);

/// What there is at a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The place of a row whose insert has not committed.
    Uncommitted,
    /// A row.
    Live,
    /// A row whose bytes its writer is replacing.
    Changing,
    /// Nothing any more.
    Dead,
}

/// A value of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RowWord(pub(super) u64);

impl RowWord {
    /// The word of a row in this state with this lease.
    pub(super) fn new(state: State, lease: Lease) -> Self {
        debug_assert!(lease.wts <= lease.rts && lease.rts < END_OF_TIME && lease.writer < 1 << WRITER_BITS);
        let wts = lease.wts.max(lease.rts.saturating_sub(MAX_SPAN));
        let span = lease.rts.saturating_sub(wts);
        let fields = (span << STATE_BITS | state as u64) << WRITER_BITS | u64::from(lease.writer);
        Self(wts << WTS_SHIFT | fields)
    }

    /// The lease of a row that gets a word with these contents: above whatever the word's last row had. (The
    /// heap leaves the upper half of a free word alone.)
    pub(super) fn next_row<F: Fabric>(cx: &Cx<F>, left: u64, writer: u32) -> Lease {
        let above = if cx.sabotaged("shm.above-last-row") { 0 } else { (left >> 32) + 1 };
        let first = above << (32 - WTS_SHIFT);
        Lease { writer, born: false, wts: first, rts: first }
    }

    pub(super) fn state(self) -> State {
        match self.0 >> WRITER_BITS & ((1 << STATE_BITS) - 1) {
            0 => State::Uncommitted,
            1 => State::Live,
            2 => State::Changing,
            _ => State::Dead,
        }
    }

    pub(super) fn wts(self) -> u64 {
        self.0 >> WTS_SHIFT
    }

    pub(super) fn lease(self) -> Lease {
        let wts = self.wts();
        let span = self.0 >> (WRITER_BITS + STATE_BITS) & MAX_SPAN;
        let writer = (self.0 & ((1 << WRITER_BITS) - 1)) as u32;
        Lease { writer, born: self.state() != State::Uncommitted, wts, rts: wts + span }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out() {
        let lease = Lease { writer: 512, born: true, wts: END_OF_TIME - 1024, rts: END_OF_TIME - 1 };
        for state in [State::Live, State::Changing, State::Dead] {
            let word = RowWord::new(state, lease);
            assert_eq!((word.state(), word.lease(), word.wts()), (state, lease, lease.wts));
        }
        let uncommitted = RowWord::new(State::Uncommitted, Lease { born: false, ..lease });
        assert_eq!((uncommitted.state(), uncommitted.lease().born), (State::Uncommitted, false));
    }

    #[test]
    fn a_long_lease_begins_later() {
        let lease = Lease { writer: 0, born: true, wts: 5, rts: 5 + MAX_SPAN };
        assert_eq!(RowWord::new(State::Live, lease).lease(), lease);
        let longer = Lease { rts: 9_000_000, ..lease };
        let kept = RowWord::new(State::Live, longer).lease();
        assert_eq!((kept.wts, kept.rts), (9_000_000 - MAX_SPAN, 9_000_000));
    }
}
