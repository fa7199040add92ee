//! A step of a transaction that meets a lock is tried again for as long as the wait policy says.
//!
//! Who holds the lock is known where the holders are workers of this host: whether one of them waits for this
//! transaction (`circles`), and, if the policy asks for it, who is older. Of other hosts' locks only the host
//! is known.

use liger_fabric::Fabric;

use super::policy::InTheWay;
use super::transaction::RowTxn;
use crate::instance::circles::Link;
use crate::instance::waits::Wait;
use crate::txn::TxnError;

/// How long a transaction looks for a lock without rest, and how long it rests then between two looks.
const SPIN_NS: u64 = 20_000;
const REST_NS: u64 = 50_000;

impl<F: Fabric> RowTxn<'_, F> {
    /// A transaction begins. One that is tried again is as old as it was.
    pub(super) fn note_age(&mut self) {
        if self.state.wait.by_age() && !self.state.was_refused {
            self.host.workers.ages.begin(self.state.me, self.cx.now_ns());
        }
        self.state.was_refused = false;
    }

    fn in_the_way(&self) -> InTheWay {
        match self.state.in_the_way {
            0 => InTheWay::Unknown,
            others if self.state.wait.by_age() && self.host.workers.ages.is_oldest(self.state.me, others) => {
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
                        link = Some(host.workers.circles.wait(self.state.me, others));
                        if link.as_ref().is_some_and(Link::is_in_circle) {
                            self.state.was_refused = true;
                            return Err(conflict.into());
                        }
                    }
                    if !self.state.wait.wait(conflict, tries, waited_ns, self.in_the_way()) {
                        self.state.was_refused = true;
                        return Err(conflict.into());
                    }
                    waiting.get_or_insert_with(|| host.workers.waits.begin(self.state.me, Wait::Lock));
                    host.serve_waiting(cx);
                    if waited_ns < SPIN_NS { cx.pause() } else { cx.rest(REST_NS) }
                }
                ended => return ended,
            }
        }
    }
}
