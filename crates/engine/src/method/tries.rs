//! A step of a transaction that meets a lock is tried again for as long as the wait policy says.
//!
//! Who holds the lock is known where the holders are transactions of this host: whether one of them waits for
//! this transaction (`wait_graph`), and, if the policy asks for it, who is older. Of other hosts' locks only
//! the host is known.

use std::collections::BTreeSet;

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
/// The same of a transaction that may wait for seconds.
const LONGEST_REST_NS: u64 = 5_000_000;
/// Who has waited so long keeps nobody from beginning another transaction.
const LONG_NS: u64 = 2_000_000;

/// The tries of one step.
#[derive(Default)]
pub struct Tries<'h> {
    count: u32,
    since_ns: Option<u64>,
    waiting: Option<Waiting<'h>>,
    edge: Option<Edge<'h>>,
    has_looked: bool,
}

impl<'h> Tries<'h> {
    /// If it is time to look for who waits for whom elsewhere, does so: `holds` says which rows of these
    /// names the transaction holds.
    ///
    /// # Errors
    /// The conflict, if it is to wait no longer.
    pub fn look<F: Fabric>(
        &mut self,
        (state, seat): (&mut TxnState, &mut Seat<'_, F>),
        conflict: Conflict,
        holds: impl FnOnce(&TxnState, &BTreeSet<u64>) -> Vec<u64>,
    ) -> Result<(), TxnError> {
        let waited_ns = self.since_ns.map_or(0, |since_ns| seat.cx.now_ns() - since_ns);
        let Some(policy) = state.own_wait.clone() else { return Ok(()) };
        if policy.looks_at_ns().is_none_or(|at_ns| waited_ns < at_ns) {
            return Ok(());
        }
        debug_assert!(self.since_ns.is_some(), "who looks has waited");
        self.has_looked = true;
        let asked = policy.asked();
        let held = if asked.is_empty() { Vec::new() } else { holds(state, &asked) };
        let wanted = state.wanted;
        match seat.without_worker(state, true, |_| policy.look(wanted, &held)) {
            true => Ok(()),
            false => Err(conflict.into()),
        }
    }

    /// Whether it has waited so long, where numbers are so scarce, that it had better wait without one: from
    /// here on nobody of its host sees whom it waits for.
    pub fn parks<F: Fabric>(&mut self, host: &Instance, (state, seat): (&TxnState, &Seat<'_, F>)) -> bool {
        let waited_ns = self.since_ns.map_or(0, |since_ns| seat.cx.now_ns() - since_ns);
        let is_due = state.patience().parks_after_ns().is_some_and(|after_ns| waited_ns >= after_ns);
        let parks = is_due && seat.pool.is_some() && host.transactions.is_short();
        if parks {
            (self.edge, self.waiting) = (None, None);
        }
        parks
    }

    /// The step has been made, or is given up.
    pub fn end(&self, state: &TxnState) {
        if let Some(policy) = state.own_wait.as_ref().filter(|_| self.has_looked) {
            policy.has_waited();
        }
    }

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
            let graph = &host.transactions.wait_graph;
            let lasts = state.patience().lasts();
            self.edge =
                Some(if lasts { graph.lasting(state.me, others) } else { graph.wait(state.me, others) });
            if !state.patience().lasts() && self.edge.as_ref().is_some_and(Edge::is_in_cycle) {
                state.patience().is_in_cycle();
                state.was_refused = true;
                return Err(conflict.into());
            }
        }
        // Who waits as long as it takes is told for certain.
        if state.patience().lasts() && self.edge.as_mut().is_some_and(Edge::is_stuck) {
            state.patience().is_in_cycle();
            state.was_refused = true;
            return Err(conflict.into());
        }
        // Who may wait long is in nobody's way who has to take over what a dead host had.
        let is_held_up = state.patience().lasts() && waited_ns > LONG_NS && host.is_held_up();
        if is_held_up || !state.patience().wait(conflict, self.count, waited_ns, in_the_way(host, state)) {
            state.was_refused = true;
            return Err(conflict.into());
        }
        self.waiting.get_or_insert_with(|| host.waits.begin(state.me, Wait::Lock));
        seat.serve();
        if waited_ns < SPIN_NS {
            seat.cx.pause();
        } else {
            let rest_ns = seat.rest_ns(waited_ns, state.patience().lasts());
            seat.rest_without_worker(state, rest_ns, waited_ns > LONG_NS);
        }
        Ok(())
    }
}

fn in_the_way(host: &Instance, state: &TxnState) -> InTheWay {
    match state.in_the_way {
        0 => InTheWay::Unknown,
        others if state.patience().by_age() && host.transactions.ages.is_oldest(state.me, others) => {
            InTheWay::Younger
        }
        _ => InTheWay::Older,
    }
}

impl<F: Fabric> Seat<'_, F> {
    /// How long it rests. Where many transactions share workers, the longer it has waited the longer it will.
    fn rest_ns(&self, waited_ns: u64, lasts: bool) -> u64 {
        let most_ns = if lasts { LONGEST_REST_NS } else { LONG_REST_NS };
        if self.pool.is_some() { (waited_ns / 8).clamp(REST_NS, most_ns) } else { REST_NS }
    }
}
