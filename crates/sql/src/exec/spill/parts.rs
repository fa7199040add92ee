//! Rows told apart by the hashes of their keys: each part is worked on by itself afterwards.
//!
//! Invariants:
//! 1. Rows of one hash are in one part. A part that is divided again is divided by other bits of the hash,
//!    those of its level.
//! 2. A part has a block in memory while it is written.

use std::sync::Arc;

use super::{Space, Tape, TapeFile};
use crate::error::Result;
use crate::types::value::Value;

/// Fewest and most parts.
const PARTS: (usize, usize) = (4, 64);
/// How often parts are divided at most. What is still too large then is all but one key.
pub(in crate::exec) const LEVELS_MOST: u32 = 12;

/// Rows in parts.
pub(in crate::exec) struct Parts {
    level: u32,
    file: Arc<TapeFile>,
    tapes: Vec<Tape>,
}

impl Parts {
    pub(in crate::exec) fn new(space: &Space, level: u32) -> Result<Parts> {
        let file = space.file()?;
        let tapes = (0..Parts::number_in(space)).map(|_| Tape::new(&file)).collect();
        Ok(Parts { level, file, tapes })
    }

    /// As many parts as another has, for what is looked up in them.
    pub(in crate::exec) fn beside(space: &Space, other: usize, level: u32) -> Result<Parts> {
        let file = space.file()?;
        let tapes = (0..other).map(|_| Tape::new(&file)).collect();
        Ok(Parts { level, file, tapes })
    }

    /// How many parts there are in such a space: a power of two.
    pub(in crate::exec) fn number_in(space: &Space) -> usize {
        let most = space.tapes(PARTS.0, PARTS.1);
        if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 }
    }

    /// The part of a hash.
    pub(in crate::exec) fn of(hash: u64, level: u32, parts: usize) -> usize {
        assert!(parts.is_power_of_two() && parts <= PARTS.1, "{parts} parts");
        let seeded = hash ^ u64::from(level + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (seeded ^ (seeded >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed >> 40) as usize & (parts - 1)
    }

    /// Writes a row to its part.
    pub(in crate::exec) fn push<'v>(
        &mut self,
        hash: u64,
        values: impl IntoIterator<Item = &'v Value>,
    ) -> Result<()> {
        let part = Parts::of(hash, self.level, self.tapes.len());
        self.tapes[part].push(hash, values)
    }

    /// The rows of the part of a hash.
    pub(in crate::exec) fn tape_of(&self, hash: u64) -> &Tape {
        &self.tapes[Parts::of(hash, self.level, self.tapes.len())]
    }

    pub(in crate::exec) fn level(&self) -> u32 {
        self.level
    }

    /// Bytes of the file.
    pub(in crate::exec) fn size(&self) -> u64 {
        self.file.size()
    }

    pub(in crate::exec) fn tapes(&self) -> &[Tape] {
        &self.tapes
    }
}
