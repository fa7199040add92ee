//! Addresses inside a pod: offsets from the start of the shared memory, never pointers.
//!
//! Invariants:
//! 1. An address is a byte offset, so it means the same on every host wherever the memory is mapped.
//! 2. Sync words and data are told apart by type; a 64-byte line holds one kind only (docs/memory-model.md,
//!    rule 1).
//! 3. Offset 0 is the superblock, so 0 stands for "none" everywhere else.
//!
//! There is no `+` on addresses: callers say which kind of step they take (`word`, `byte`).

use std::fmt;

/// Bytes in a cache line, the unit of coherence, write-back and invalidation.
pub const LINE: usize = 64;

// Lines are found by division, and hold whole sync words.
const _: () = assert!(LINE.is_power_of_two() && LINE.is_multiple_of(8));

/// Address of an 8-byte sync word (8-byte aligned offset).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SyncAddr(u64);

/// Address of data bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataAddr(u64);

impl SyncAddr {
    /// The sync word at `offset` bytes from the start of the pod's memory.
    ///
    /// # Panics
    /// If the offset is not a multiple of 8.
    pub const fn new(offset: u64) -> Self {
        assert!(offset.is_multiple_of(8), "sync words are 8-byte aligned");
        Self(offset)
    }

    /// Offset in bytes from the start of the pod's memory.
    pub const fn offset(self) -> u64 {
        self.0
    }

    /// The `index`-th word of an array of words that starts here.
    pub const fn word(self, index: u64) -> Self {
        Self(self.0 + index * 8)
    }

    /// The first word of the `index`-th line of an array of lines that starts here.
    pub const fn line(self, index: u64) -> Self {
        Self(self.0 + index * LINE as u64)
    }
}

impl DataAddr {
    /// The byte at `offset` from the start of the pod's memory.
    pub const fn new(offset: u64) -> Self {
        Self(offset)
    }

    /// Offset in bytes from the start of the pod's memory.
    pub const fn offset(self) -> u64 {
        self.0
    }

    /// The byte `distance` bytes further.
    pub const fn byte(self, distance: u64) -> Self {
        Self(self.0 + distance)
    }

    /// True when the address is the first byte of a line.
    pub const fn is_line_aligned(self) -> bool {
        self.0.is_multiple_of(LINE as u64)
    }
}

impl fmt::Debug for SyncAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sync:{:#x}", self.0)
    }
}

impl fmt::Debug for DataAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data:{:#x}", self.0)
    }
}

/// Numbers (offset / 64) of the first and one past the last line that `len` bytes at `offset` touch. The only
/// place in the tree that turns bytes into lines; an empty range touches no line.
pub const fn lines(offset: u64, len: usize) -> std::ops::Range<u64> {
    if len == 0 {
        return 0..0;
    }
    let touched = offset / LINE as u64..(offset + len as u64).div_ceil(LINE as u64);
    debug_assert!(touched.start < touched.end, "bytes lie in lines");
    touched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_straddles_a_line_touches_both() {
        assert_eq!(lines(60, 8), 0..2);
        assert_eq!(lines(64, 64), 1..2);
        assert_eq!(lines(127, 2), 1..3);
        assert!(lines(64, 0).is_empty());
    }
}
