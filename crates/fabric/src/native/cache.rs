//! The processor's cache instructions: which of them exist here, and the one function of the tree that walks
//! lines.
//!
//! Invariants:
//! 1. Instructions are chosen once, from CPUID: write back with clwb, else clflushopt, else clflush;
//!    invalidate with clflushopt, else clflush. Every one of them only *starts*; [`fence`] completes (clflush
//!    completes by itself).
//! 2. `fence` is mfence, never sfence: an sfence does not hold back later loads, so a load could still be
//!    served from the line that an earlier clflushopt is about to drop.
//! 3. Addresses are computed here from line numbers, so a walk never leaves the lines that a range touches.
//!
//! clwb and clflushopt have no stable intrinsic, hence the two lines of assembly.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_clflush, _mm_mfence};
use std::fmt;
use std::sync::OnceLock;

use crate::addr::{LINE, lines};

/// An instruction that moves one cache line out of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineInstruction {
    /// Writes the line back and may keep it.
    Clwb,
    /// Writes the line back and drops it; several overlap until a fence.
    Clflushopt,
    /// Writes the line back and drops it, one after the other.
    Clflush,
}

/// The instructions that this processor offers for the two jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheInstructions {
    /// Used by `write_back`.
    pub write_back: LineInstruction,
    /// Used by `invalidate`.
    pub invalidate: LineInstruction,
}

impl CacheInstructions {
    /// The best ones of this processor; asked once per process.
    ///
    /// # Panics
    /// If the processor's line is not [`LINE`] bytes: every layout of the pod would be wrong.
    pub fn detect() -> Self {
        static FOUND: OnceLock<CacheInstructions> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let line = ((__cpuid(1).ebx >> 8) & 0xff) as usize * 8;
            assert!(
                line == LINE,
                "this processor writes back {line}-byte lines; Liger's layouts need {LINE}"
            );
            let (clwb, clflushopt) = features();
            Self::from_features(clwb, clflushopt)
        })
    }

    fn from_features(clwb: bool, clflushopt: bool) -> Self {
        let invalidate = if clflushopt { LineInstruction::Clflushopt } else { LineInstruction::Clflush };
        assert_ne!(invalidate, LineInstruction::Clwb, "it may keep the line");
        Self { write_back: if clwb { LineInstruction::Clwb } else { invalidate }, invalidate }
    }
}

/// Are there clwb and clflushopt?
fn features() -> (bool, bool) {
    let features = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    (features & (1 << 24) != 0, features & (1 << 23) != 0)
}

impl LineInstruction {
    /// Does this processor have it?
    pub fn exists(self) -> bool {
        match self {
            Self::Clwb => features().0,
            Self::Clflushopt => features().1,
            Self::Clflush => true,
        }
    }
}

impl fmt::Display for CacheInstructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair =
            format!("write_back {:?}, invalidate {:?}, fence mfence", self.write_back, self.invalidate);
        f.write_str(&pair.to_lowercase())
    }
}

/// Runs `instruction` on every line that `len` bytes at `offset` from `base` touch.
///
/// # Safety
/// `base` is line-aligned and the range lies inside one mapping that starts there.
#[inline]
pub unsafe fn each_line(base: *mut u8, offset: u64, len: usize, instruction: LineInstruction) {
    debug_assert!(base.addr().is_multiple_of(LINE), "mappings start on a line");
    let touched = lines(offset, len);
    let line = |number: u64| base.wrapping_add(number as usize * LINE);
    match instruction {
        // SAFETY: (all three) the line is mapped: the caller vouches for the range, and mappings are whole
        // lines.
        LineInstruction::Clwb => touched.for_each(|number| unsafe { clwb(line(number)) }),
        // SAFETY: as above.
        LineInstruction::Clflushopt => touched.for_each(|number| unsafe { clflushopt(line(number)) }),
        // SAFETY: as above.
        LineInstruction::Clflush => touched.for_each(|number| unsafe { _mm_clflush(line(number)) }),
    }
}

/// Completes earlier stores, write-backs and invalidates before anything later starts.
#[inline]
pub fn fence() {
    // SAFETY: mfence is part of x86_64.
    unsafe { _mm_mfence() }
}

/// # Safety
/// The line at `p` is mapped and the processor has clwb.
#[inline]
unsafe fn clwb(p: *mut u8) {
    // SAFETY: touches no register but `p`; as memory is not declared unchanged, the compiler moves no access
    // across.
    unsafe { asm!("clwb [{}]", in(reg) p, options(nostack, preserves_flags)) }
}

/// # Safety
/// The line at `p` is mapped and the processor has clflushopt.
#[inline]
unsafe fn clflushopt(p: *mut u8) {
    // SAFETY: as for clwb.
    unsafe { asm!("clflushopt [{}]", in(reg) p, options(nostack, preserves_flags)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_available_instruction_is_taken() {
        use LineInstruction::*;
        let pair = |clwb, opt| {
            let found = CacheInstructions::from_features(clwb, opt);
            (found.write_back, found.invalidate)
        };
        assert_eq!(pair(true, true), (Clwb, Clflushopt));
        assert_eq!(pair(false, true), (Clflushopt, Clflushopt));
        assert_eq!(pair(false, false), (Clflush, Clflush));
        assert_eq!(CacheInstructions::detect(), CacheInstructions::detect());
    }

    #[test]
    fn every_instruction_keeps_the_bytes() {
        #[repr(align(64))]
        struct Lines([u8; 256]);
        let mut memory = Lines([7; 256]);
        let found = CacheInstructions::detect();
        for instruction in [found.write_back, found.invalidate, LineInstruction::Clflush] {
            memory.0[65] += 1;
            // SAFETY: 60..200 lies inside the array, which starts on a line.
            unsafe { each_line(memory.0.as_mut_ptr(), 60, 140, instruction) };
            fence();
        }
        assert_eq!(memory.0[65], 10);
    }
}
