//! A step of a transaction that meets a lock is tried again for as long as the wait policy says.
//!
//! Who holds the lock is known where the holders are workers of this host: whether one of them waits for this
//! transaction (`circles`), and, if the policy asks for it, who is older. Of other hosts' locks only the host
//! is known.

use std::sync::atomic::{AtomicU64, Ordering};

use liger_fabric::{Fabric, WorkerId};

use super::circles::Link;
use super::policy::InTheWay;
use super::transaction::RowTxn;
use super::waits::Wait;
use crate::txn::TxnError;

/// How long a transaction looks for a lock without rest, and how long it rests then between two looks.
const SPIN_NS: u64 = 20_000;
const REST_NS: u64 = 50_000;

/// Since when each worker of a host tries the transaction that it runs, by this host's clock.
#[derive(Debug)]
pub(super) struct Ages(Vec<AtomicU64>);

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

impl<F: Fabric> RowTxn<'_, F> {
    /// A transaction begins. One that is tried again is as old as it was.
    pub(super) fn note_age(&mut self) {
        if self.state.wait.by_age() && !self.state.was_refused {
            self.host.ages.begin(self.state.me, self.cx.now_ns());
        }
        self.state.was_refused = false;
    }

    fn in_the_way(&self) -> InTheWay {
        match self.state.in_the_way {
            0 => InTheWay::Unknown,
            others if self.state.wait.by_age() && self.host.ages.is_oldest(self.state.me, others) => {
                InTheWay::Younger
            }
            _ => InTheWay::Older,
        }
    }

    /// Runs one step again as long as the wait policy says so.
    pub(super) fn retry<T>(
        &mut self,
        mut step: impl FnMut(&mut Self) -> Result<T, TxnError>,
    ) -> Result<T, TxnError> {
        let (host, cx) = (self.host, self.cx);
        let (mut tries, mut since_ns, mut waiting) = (0, None, None);
        let mut link: Option<Link<'_>> = None;
        loop {
            self.state.in_the_way = 0;
            match step(self) {
                Err(TxnError::Conflict(conflict)) => {
                    tries += 1;
                    let now_ns = cx.now_ns();
                    let waited_ns = now_ns - *since_ns.get_or_insert(now_ns);
                    let others = self.state.in_the_way;
                    if !link.as_ref().is_some_and(|link| link.is_for(others)) {
                        drop(link.take());
                        link = Some(host.circles.wait(self.state.me, others));
                        if link.as_ref().is_some_and(Link::is_in_circle) {
                            self.state.was_refused = true;
                            return Err(conflict.into());
                        }
                    }
                    if !self.state.wait.wait(conflict, tries, waited_ns, self.in_the_way()) {
                        self.state.was_refused = true;
                        return Err(conflict.into());
                    }
                    waiting.get_or_insert_with(|| host.waits.begin(self.state.me, Wait::Lock));
                    host.serve_waiting(cx);
                    if waited_ns < SPIN_NS { cx.pause() } else { cx.rest(REST_NS) }
                }
                ended => return ended,
            }
        }
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
