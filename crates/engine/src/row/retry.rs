//! A step of a transaction that meets a lock is tried again for as long as the wait policy says.
//!
//! Who holds the lock is known where the holders are transactions of this host: whether one of them waits for
//! this transaction (`circles`), and, if the policy asks for it, who is older. Of other hosts' locks only the
//! host is known.

use liger_fabric::Fabric;

use super::policy::InTheWay;
use super::transaction::RowTxn;
use crate::instance::circles::Link;
use crate::instance::waits::Wait;
use crate::txn::TxnError;

/// How long a transaction looks for a lock without rest, and how long it rests then between two looks, at
/// least and at most.
const SPIN_NS: u64 = 20_000;
const REST_NS: u64 = 50_000;
const LONG_REST_NS: u64 = 400_000;
/// Who has waited so long keeps nobody from beginning another transaction.
const LONG_NS: u64 = 2_000_000;

impl<F: Fabric> RowTxn<'_, F> {
    /// A transaction begins. One that is tried again is as old as it was.
    pub(super) fn note_age(&mut self) {
        if self.state.wait.by_age() && !self.state.was_refused {
            self.host.transactions.ages.begin(self.state.me, self.cx.now_ns());
        }
        self.state.was_refused = false;
    }

    fn in_the_way(&self) -> InTheWay {
        match self.state.in_the_way {
            0 => InTheWay::Unknown,
            others
                if self.state.wait.by_age()
                    && self.host.transactions.ages.is_oldest(self.state.me, others) =>
            {
                InTheWay::Younger
            }
            _ => InTheWay::Older,
        }
    }

    /// How long it rests. Where many transactions share workers, the longer it has waited the longer it will.
    fn rest_ns(&self, waited_ns: u64) -> u64 {
        if self.pool.is_some() { (waited_ns / 8).clamp(REST_NS, LONG_REST_NS) } else { REST_NS }
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
                        link = Some(host.transactions.circles.wait(self.state.me, others));
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
                    if waited_ns < SPIN_NS {
                        cx.pause();
                    } else {
                        self.rest_without_worker(self.rest_ns(waited_ns), waited_ns > LONG_NS);
                    }
                }
                ended => return ended,
            }
        }
    }
}
