//! What one worker did, in a form that adds up over workers and hosts and travels as JSON.
//!
//! 1. Everything but [`WorkerStats::acknowledged`] covers the measured time only; `acknowledged` also counts
//!    warm-up, since the database holds the effects of both.
//! 2. Merging is exact and does not depend on the order.

use std::collections::BTreeMap;

use liger_fabric::Counts;
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

/// One transaction type in the measured time.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindStats {
    /// Committed.
    pub committed: u64,
    /// Rolled back because the workload wanted so (TPC-C: an unused item number); not retried.
    pub rolled_back: u64,
    /// Attempts that aborted on a conflict and were tried again.
    pub retries: u64,
    /// Given up on: out of attempts, or out of time.
    pub given_up: u64,
    /// Nanoseconds from the first attempt to the acknowledged commit, retries included.
    pub latency_ns: Histogram,
    /// The same to the commit itself, which may be acknowledged later.
    pub commit_ns: Histogram,
    /// Shared-memory verbs by name, of all attempts (see `liger_fabric::Counts`).
    pub verbs: BTreeMap<String, u64>,
}

impl KindStats {
    /// Adds verb counts by name.
    pub fn add_verbs(&mut self, counts: &Counts) {
        for (name, n) in counts.entries() {
            *self.verbs.entry(name.to_owned()).or_default() += n;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.retries += other.retries;
        self.given_up += other.given_up;
        self.latency_ns.merge(&other.latency_ns);
        self.commit_ns.merge(&other.commit_ns);
        add_all(&mut self.verbs, &other.verbs);
    }
}

/// Everything one worker measured, or the sum over several.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStats {
    /// How many workers this is the sum of.
    pub workers: u32,
    /// The longest measured time of any of them, nanoseconds.
    pub measured_ns: u64,
    /// By transaction type.
    pub kinds: BTreeMap<String, KindStats>,
    /// Aborted attempts by reason.
    pub aborts: BTreeMap<String, u64>,
    /// Effects acknowledged since the worker started, warm-up included, by the workload's own names (TPC-C:
    /// `new_orders`, `payments`, `deliveries`); the consistency check compares them with the database.
    pub acknowledged: BTreeMap<String, u64>,
    /// The errors that ended workers before their time, one for each such worker.
    pub stopped: Vec<String>,
}

fn add_all(into: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (name, n) in from {
        *into.entry(name.clone()).or_default() += n;
    }
}

impl WorkerStats {
    /// Adds another worker's (or host's) figures.
    pub fn merge(&mut self, other: &Self) {
        self.workers += other.workers;
        self.measured_ns = self.measured_ns.max(other.measured_ns);
        for (name, kind) in &other.kinds {
            self.kinds.entry(name.clone()).or_default().merge(kind);
        }
        add_all(&mut self.aborts, &other.aborts);
        add_all(&mut self.acknowledged, &other.acknowledged);
        self.stopped.extend_from_slice(&other.stopped);
        self.stopped.sort();
    }

    /// The sum over all workers given.
    pub fn merged<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        all.into_iter().for_each(|one| sum.merge(one));
        sum
    }

    /// All types together.
    pub fn total(&self) -> KindStats {
        let mut sum = KindStats::default();
        self.kinds.values().for_each(|kind| sum.merge(kind));
        sum
    }

    /// Events per second of the measured time (0 when nothing was measured).
    pub fn per_second(&self, events: u64) -> f64 {
        if self.measured_ns == 0 { 0.0 } else { events as f64 * 1e9 / self.measured_ns as f64 }
    }

    /// Aborted attempts, all reasons together.
    pub fn aborted(&self) -> u64 {
        self.aborts.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(committed: u64, measured_ns: u64, reason: &str) -> WorkerStats {
        let mut kind = KindStats { committed, retries: 1, ..KindStats::default() };
        kind.latency_ns.record(committed);
        kind.add_verbs(&Counts { sync_swaps: 3, ..Counts::default() });
        WorkerStats {
            workers: 1,
            measured_ns,
            kinds: [("payment".to_owned(), kind)].into(),
            aborts: [(reason.to_owned(), 1)].into(),
            acknowledged: [("payments".to_owned(), committed + 1)].into(),
            stopped: vec![reason.to_owned()],
        }
    }

    #[test]
    fn merging_adds_and_does_not_mind_the_order() {
        let (a, b) = (worker(10, 500, "lock"), worker(32, 700, "fenced"));
        let sum = WorkerStats::merged([&a, &b]);
        assert_eq!(sum, WorkerStats::merged([&b, &a]));
        assert_eq!((sum.workers, sum.measured_ns, sum.aborted()), (2, 700, 2));
        let total = sum.total();
        assert_eq!((total.committed, total.retries, total.latency_ns.len()), (42, 2, 2));
        assert_eq!((total.verbs["sync_swaps"], sum.acknowledged["payments"]), (6, 44));
        assert_eq!(sum.per_second(42), 42e9 / 700.0);
        let text = serde_json::to_string(&sum).unwrap();
        assert_eq!(serde_json::from_str::<WorkerStats>(&text).unwrap(), sum);
    }
}
