//! What this host's workers are at: how often they have begun or ended a transaction, how old that is, and
//! what and whom they wait for.
//!
//! Invariants:
//! 1. A worker's number of turns is odd while it runs a transaction, and only grows.
//! 2. Only the worker itself writes what is said of it.

use std::sync::atomic::{AtomicU64, Ordering};

use liger_fabric::WorkerId;

use super::circles::Circles;
use super::waits::Waits;

/// How often a worker has begun or ended a transaction: odd, it runs one. A line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Turns(AtomicU64);

/// What a host's workers are at.
pub(crate) struct Workers {
    turns: Vec<Turns>,
    /// What each waits for.
    pub(crate) waits: Waits,
    /// For whom each waits.
    pub(crate) circles: Circles,
    /// Since when each tries its transaction.
    pub(crate) ages: Ages,
}

impl Workers {
    /// So many, none of which has begun.
    pub(crate) fn new(workers: u8) -> Self {
        Self {
            turns: (0..workers).map(|_| Turns::default()).collect(),
            waits: Waits::new(workers),
            circles: Circles::new(workers),
            ages: Ages::new(workers),
        }
    }

    /// A worker begins a transaction, or ends it.
    pub(crate) fn turn(&self, worker: WorkerId) {
        self.turns[usize::from(worker.0)].0.fetch_add(1, Ordering::SeqCst);
    }

    /// How often each has begun or ended a transaction.
    pub(crate) fn turns(&self) -> Vec<u64> {
        self.turns.iter().map(|turns| turns.0.load(Ordering::SeqCst)).collect()
    }

    /// True if none is in the transaction that it was in then.
    pub(crate) fn have_all_turned(&self, seen: &[u64]) -> bool {
        let now = self.turns.iter().map(|turns| turns.0.load(Ordering::SeqCst));
        now.zip(seen).all(|(now, seen)| {
            debug_assert!(now >= *seen, "turns only grow");
            seen.is_multiple_of(2) || now != *seen
        })
    }
}

/// Since when each worker of a host tries the transaction that it runs, by this host's clock.
#[derive(Debug)]
pub(crate) struct Ages(Vec<AtomicU64>);

impl Ages {
    /// Of so many workers, none of which has begun.
    pub fn new(workers: u8) -> Self {
        Self((0..workers).map(|_| AtomicU64::new(u64::MAX)).collect())
    }

    /// A worker begins a transaction.
    pub fn begin(&self, worker: WorkerId, now_ns: u64) {
        self.0[usize::from(worker.0)].store(now_ns, Ordering::Relaxed);
    }

    /// True if the worker's transaction is older than those of all these workers, bit w for worker w. Of two
    /// that began together that of the lower number is the older one.
    pub fn is_oldest(&self, worker: WorkerId, among: u32) -> bool {
        let age = |worker: u8| (self.0[usize::from(worker)].load(Ordering::Relaxed), worker);
        let mine = age(worker.0);
        (0..self.0.len() as u8).filter(|other| among & 1 << other != 0).all(|other| mine < age(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_one_began_first() {
        let ages = Ages::new(3);
        ages.begin(WorkerId(1), 20);
        ages.begin(WorkerId(0), 10);
        assert!(ages.is_oldest(WorkerId(0), 0b110) && ages.is_oldest(WorkerId(1), 0b100));
        assert!(!ages.is_oldest(WorkerId(1), 0b101) && !ages.is_oldest(WorkerId(2), 0b010));
        ages.begin(WorkerId(1), 10);
        assert!(ages.is_oldest(WorkerId(0), 0b010) && !ages.is_oldest(WorkerId(1), 0b001));
    }
}
