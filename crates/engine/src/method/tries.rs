//! A step of a transaction that meets a lock is tried again for as long as the wait policy says.
//!
//! Who holds the lock is known where the holders are transactions of this host: whether one of them waits for
//! this transaction (`wait_graph`), and, if the policy asks for it, who is older. Of other hosts' locks only
//! the host is known.

use liger_fabric::Fabric;

use super::running::{Seat, TxnState};
use crate::instance::Instance;
use crate::instance::wait_graph::Edge;
use crate::instance::wait_policy::InTheWay;
use crate::instance::waits::{Wait, Waiting};
use crate::txn::{Conflict, TxnError};

/// How long a transaction looks for a lock without rest, and how long it rests then between two looks, at
/// least and at most.
const SPIN_NS: u64 = 20_000;
const REST_NS: u64 = 50_000;
const LONG_REST_NS: u64 = 400_000;
/// Who has waited so long keeps nobody from beginning another transaction.
const LONG_NS: u64 = 2_000_000;

/// The tries of one step.
#[derive(Default)]
pub struct Tries<'h> {
    count: u32,
    since_ns: Option<u64>,
    waiting: Option<Waiting<'h>>,
    edge: Option<Edge<'h>>,
}

impl<'h> Tries<'h> {
    /// The step is not to be made before this: a lock was not free.
    ///
    /// # Errors
    /// The conflict, where waiting has no sense or has lasted too long.
    pub fn wait<F: Fabric>(
        &mut self,
        host: &'h Instance,
        (state, seat): (&mut TxnState, &mut Seat<'_, F>),
        conflict: Conflict,
    ) -> Result<(), TxnError> {
        self.count += 1;
        let now_ns = seat.cx.now_ns();
        let waited_ns = now_ns - *self.since_ns.get_or_insert(now_ns);
        let others = state.in_the_way;
        if !self.edge.as_ref().is_some_and(|edge| edge.is_for(others)) {
            drop(self.edge.take());
            self.edge = Some(host.transactions.wait_graph.wait(state.me, others));
            if self.edge.as_ref().is_some_and(Edge::is_in_cycle) {
                state.was_refused = true;
                return Err(conflict.into());
            }
        }
        if !state.wait.wait(conflict, self.count, waited_ns, in_the_way(host, state)) {
            state.was_refused = true;
            return Err(conflict.into());
        }
        self.waiting.get_or_insert_with(|| host.waits.begin(state.me, Wait::Lock));
        seat.serve();
        if waited_ns < SPIN_NS {
            seat.cx.pause();
        } else {
            let rest_ns = seat.rest_ns(waited_ns);
            seat.rest_without_worker(state, rest_ns, waited_ns > LONG_NS);
        }
        Ok(())
    }
}

fn in_the_way(host: &Instance, state: &TxnState) -> InTheWay {
    match state.in_the_way {
        0 => InTheWay::Unknown,
        others if state.wait.by_age() && host.transactions.ages.is_oldest(state.me, others) => {
            InTheWay::Younger
        }
        _ => InTheWay::Older,
    }
}

impl<F: Fabric> Seat<'_, F> {
    /// How long it rests. Where many transactions share workers, the longer it has waited the longer it will.
    fn rest_ns(&self, waited_ns: u64) -> u64 {
        if self.pool.is_some() { (waited_ns / 8).clamp(REST_NS, LONG_REST_NS) } else { REST_NS }
    }
}
