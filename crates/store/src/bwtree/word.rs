//! The mapping word: all that is mutable about a node.
//!
//! ```text
//! 63     62        61 .. 34   33 .. 0
//! live | removed | version  | line number of the newest record of the node (offset / 64)
//! ```
//!
//! Invariants:
//! 1. Every change of a word raises its version, also across free and reuse (a dead word keeps its version in
//!    the upper half, which the heap preserves). So a word has the same value again only after 2^28 changes:
//!    a compare-and-swap has no ABA, and a copy made under a word value is valid exactly while the word has
//!    that value.
//! 2. A dead word (live = 0) names no node, whatever its lower bits are.
//! 3. A removed word never changes again except to dead.

use liger_fabric::{DataAddr, LINE};

const LINE_BITS: u32 = 34;
const VERSION_BITS: u32 = 28;
const REMOVED: u64 = 1 << 62;
const LIVE: u64 = 1 << 63;

const _: () = assert!(REMOVED == 1 << (LINE_BITS + VERSION_BITS) && LIVE == REMOVED << 1);

/// A value of a mapping word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word(pub u64);

impl Word {
    fn version(self) -> u64 {
        (self.0 >> LINE_BITS) & ((1 << VERSION_BITS) - 1)
    }

    fn next_version(self) -> u64 {
        (self.version().wrapping_add(1) & ((1 << VERSION_BITS) - 1)) << LINE_BITS
    }

    /// True when this may be the value that comes right after `before` (invariants 1 and 3).
    pub fn follows(self, before: Word) -> bool {
        let version = self.version() << LINE_BITS == before.next_version();
        version && (!before.is_removed() || !self.is_live())
    }

    /// True when the word names a node.
    pub fn is_live(self) -> bool {
        self.0 & LIVE != 0
    }

    /// True when the node is removed: empty for ever, its range belongs to the next node.
    pub fn is_removed(self) -> bool {
        self.0 & REMOVED != 0
    }

    /// The word without the bits that only the word of a node has: a dead one has none of them, unless it is
    /// damaged.
    pub fn unnamed(self) -> Word {
        Word(self.0 & !(LIVE | REMOVED))
    }

    /// The newest record of the node.
    pub fn record(self) -> DataAddr {
        debug_assert!(self.is_live());
        DataAddr::new((self.0 & ((1 << LINE_BITS) - 1)) * LINE as u64)
    }

    /// The word after installing a record.
    pub fn installed(self, record: DataAddr) -> Word {
        debug_assert!(!self.is_removed() && record.is_line_aligned());
        let line = record.offset() / LINE as u64;
        assert!(line < 1 << LINE_BITS, "record {record:?} beyond the reach of a mapping word");
        Word(LIVE | self.next_version() | line)
    }

    /// The word with the same record and another version.
    pub fn bumped(self) -> Word {
        self.installed(self.record())
    }

    /// The word after removal of the node.
    pub fn removed(self) -> Word {
        let removed = Word(self.bumped().0 | REMOVED);
        debug_assert!(removed.is_live() && removed.record() == self.record(), "it is still linked");
        removed
    }

    /// The word of no node.
    pub fn dead(self) -> Word {
        let dead = Word(self.next_version());
        debug_assert!(!dead.is_live() && !dead.is_removed(), "the version is in bits of its own");
        dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_a_life_has_another_value() {
        let far = DataAddr::new(((1 << LINE_BITS) - 1) * 64);
        let born = Word(0x1234).installed(far);
        assert!(born.is_live() && !born.is_removed() && born.record() == far);
        let removed = born.bumped().removed();
        assert!(removed.is_removed() && removed.record() == far && removed.version() == 3);
        let dead = removed.dead();
        assert!(!dead.is_live() && dead.version() == 4);
        // What the heap does to a free word's lower half does not matter.
        assert_eq!(Word(dead.0 | 0xffff_ffff).installed(far).version(), 5);
        assert_eq!(Word(((1 << VERSION_BITS) - 1) << LINE_BITS).dead().version(), 0);
        let damaged = Word(dead.0 | LIVE | REMOVED).unnamed();
        assert!(damaged == dead && !damaged.installed(far).is_removed());
    }
}
