//! Talking to other hosts: serving their requests, and housekeeping between transactions.
//!
//! Invariants:
//! 1. A worker that waits keeps serving, so two hosts that wait for each other both get their answers.
//! 2. A handler never waits: what it sends goes through the outbox when the lane is full.
//! 3. Whoever waits holds no latch.

use liger_fabric::{Cx, Fabric, Work};
use liger_pod::owner::Owner;

use super::Host;
use crate::method::{AnswersMail, Method, Replies};

/// Replies that are held back for those behind them: a host that has asked for many things gets many at once.
const REPLIES_AT_ONCE: usize = 16;

impl<M: Method> Host<M> {
    /// Serves what other hosts have asked for. Workers call it between transactions and while they wait.
    /// Returns the number of messages handled; an idle call costs one sync load for each other host.
    pub fn serve<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let (mut to, mut replies) = (None, Vec::new());
        let post = |to: Option<Owner>, replies: &mut Replies| {
            if let Some(to) = to {
                self.instance.post(cx, to, std::mem::take(replies));
            }
        };
        let handled = self.lanes.poll(cx, |(host, incarnation), bytes| {
            cx.spend(Work::Message, 1);
            let from = Owner { host, incarnation };
            if to != Some(from) || replies.len() >= REPLIES_AT_ONCE {
                post(to, &mut replies);
                to = Some(from);
            }
            if self.owners.is_down(host) && !self.owners.is_fenced(host, incarnation) {
                // It has come back, before the failure detector saw it; it waits for an answer.
                self.owners.is_back(host);
            }
            if !self.method.handle(cx, from, bytes, &mut replies) {
                self.drop_message();
            }
        });
        post(to, &mut replies);
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
        self.rest_from_keeping(cx);
        self.collect(cx);
    }
}

impl<F: Fabric, M: Method> AnswersMail<F> for Host<M> {
    fn serve_waiting(&self, cx: &Cx<F>) -> usize {
        self.serve(cx) + usize::from(self.responder.poll(cx))
    }
}
