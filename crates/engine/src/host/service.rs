//! Talking to other hosts: serving their requests, and housekeeping between transactions.
//!
//! Invariants:
//! 1. A worker that waits keeps serving, so two hosts that wait for each other both get their answers.
//! 2. A handler never waits: what it sends goes through the outbox when the lane is full.
//! 3. Whoever waits holds no latch.

use liger_fabric::{Cx, Fabric, Work};

use super::Host;
use crate::method::{AnswersMail, Method};

impl<M: Method> Host<M> {
    /// Serves what other hosts have asked for. Workers call it between transactions and while they wait.
    /// Returns the number of messages handled; an idle call costs one sync load for each other host.
    pub fn serve<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let handled = self.lanes.poll(cx, |from, bytes| {
            cx.spend(Work::Message, 1);
            if self.owners.is_down(from.0) && !self.owners.is_fenced(from.0, from.1) {
                // It has come back, before the failure detector saw it; it waits for an answer.
                self.owners.is_back(from.0);
            }
            if !self.method.handle(cx, from, bytes) {
                self.drop_message();
            }
        });
        self.outbox.drain(cx, &self.lanes);
        handled
    }

    /// One turn of a host that runs no transaction: mail, then housekeeping. Returns the number of messages
    /// handled.
    pub fn attend<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let handled = self.serve(cx);
        self.housekeep(cx);
        handled
    }

    /// Handles mail and reclamation until this host has nothing to do; for a pod at rest.
    pub fn quiesce<F: Fabric>(&self, cx: &Cx<F>) {
        while self.serve(cx) > 0 {}
        self.housekeep(cx);
    }

    /// This host's share of what keeps the pod going: its heartbeat, self-tests of hosts that join,
    /// reclamation.
    pub(super) fn housekeep<F: Fabric>(&self, cx: &Cx<F>) {
        self.responder.poll(cx);
        self.beat(cx);
        self.method.housekeep(cx);
        self.collect(cx);
    }
}

impl<F: Fabric, M: Method> AnswersMail<F> for Host<M> {
    fn serve_waiting(&self, cx: &Cx<F>) -> usize {
        self.serve(cx) + usize::from(self.responder.poll(cx))
    }
}
