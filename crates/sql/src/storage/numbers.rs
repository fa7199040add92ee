//! Numbers that are never given twice in a pod.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a number that count within a life.
const COUNT_BITS: u32 = 40;

/// Numbers that no other host, and no other life of this one, ever gives: hidden row numbers and numbers of
/// values outside of rows. A life's number in the upper bits, then a count: rows of one life sort in the
/// order in which they were put.
#[derive(Debug, Default)]
pub struct Numbers {
    next: AtomicU64,
}

impl Numbers {
    /// The numbers of a life.
    pub fn from_life(life: u64) -> Numbers {
        Numbers { next: AtomicU64::new(life << COUNT_BITS) }
    }

    /// The life that the numbers are of.
    pub fn life(&self) -> u64 {
        self.next.load(Ordering::Relaxed) >> COUNT_BITS
    }

    /// From here on the numbers are of this life.
    pub(crate) fn begin(&self, life: u64) {
        self.next.store(life << COUNT_BITS, Ordering::Relaxed);
    }

    /// The next number.
    pub fn take(&self) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(number >> COUNT_BITS != 0, "a number was asked for before the catalog was opened");
        number
    }
}
