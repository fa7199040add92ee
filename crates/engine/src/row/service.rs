//! Talking to other hosts: serving their requests, waiting for their answers, and housekeeping between
//! transactions.
//!
//! Invariants:
//! 1. A worker that waits keeps serving, so two hosts that wait for each other both get their answers.
//! 2. A handler never waits: what it sends goes through the outbox when the lane is full.
//! 3. Whoever waits holds no latch.
//! 4. A request is meant for the life that owns the partition. Whoever waits looks every few turns whether
//!    that life goes on, so no request waits for an answer that cannot come; and a life that was seen to be
//!    over is asked no more.

use std::sync::atomic::Ordering;

use liger_fabric::{Cx, Fabric, HostId, SyncAddr, UNTIL_RUNG, Work};
use liger_pod::bells::{self, ALONE_TURNS, Bell, REST_NS};
use liger_pod::lanes::Addressee;
use liger_pod::membership::{HostState, Slot};
use liger_pod::watch::Owner;

use super::host::{RowHost, count};
use super::message::{Answer, Message, Wish};
use crate::catalog::At;
use crate::protocol::mail::Asker;
use crate::txn::{Conflict, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["service.match-request-number", "service.look-at-life"];

/// Turns of a wait that is awake between two looks at whether the life that was asked goes on.
const TURNS_PER_LOOK: u32 = 16;
/// Things that wait for other hosts before they can be reused: with more of them, this host wakes the others,
/// but not more often than this.
const BACKLOG: usize = 256;
const URGE_NS: u64 = 2_000_000;

impl RowHost {
    /// Serves what other hosts have asked for. Workers call it between transactions and while they wait.
    /// Returns the number of messages handled; an idle call costs one sync load for each other host.
    pub fn serve<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let handled = self.lanes.poll(cx, |from, bytes| {
            cx.spend(Work::Message, 1);
            match Message::decode(bytes) {
                Some(message) => self.handle(cx, from, message),
                None => count(&self.moves.messages_dropped, 1),
            }
        });
        self.outbox.drain(cx, &self.lanes);
        handled
    }

    fn handle<F: Fabric>(&self, cx: &Cx<F>, from: (HostId, u16), message: Message) {
        if self.owners.is_down(from.0) && !self.owners.is_buried(from.0, from.1) {
            // It has come back, before the keeper saw it; it waits for an answer.
            self.owners.is_back(from.0);
        }
        match message {
            Message::Request { from: asker, table, partition, wish } => {
                if self.catalog.relation(table).map_or(true, |r| r.replicated) {
                    return count(&self.moves.messages_dropped, 1);
                }
                let answer = match self.holds(partition) {
                    true => self.grant(cx, from, table, partition, &wish),
                    // The sender will hear who owns it.
                    false => Answer::Conflict,
                };
                let (host, incarnation) = from;
                self.post(cx, Owner { host, incarnation }, &Message::Reply { to: asker, answer });
            }
            Message::Remove { table, partition, key, which } => {
                if self.catalog.relation(table).is_err() || !self.holds(partition) {
                    return count(&self.moves.messages_dropped, 1);
                }
                self.remove_for(cx, from.0, (partition, table), &key, which);
            }
            Message::Evict => _ = self.move_out_to_budget(cx),
            Message::Reply { to, answer } => self.deliver(cx, to, answer),
        }
    }

    fn deliver<F: Fabric>(&self, cx: &Cx<F>, to: Asker, answer: Answer) {
        let Some(mailbox) = self.mailboxes.get(usize::from(to.worker.0)) else {
            return count(&self.moves.messages_dropped, 1);
        };
        let mut mailbox = mailbox.lock(cx);
        let current = mailbox.request == to.request || cx.sabotaged("service.match-request-number");
        if current && mailbox.answer.is_none() {
            mailbox.answer = Some(answer);
        } else {
            return count(&self.moves.messages_dropped, 1);
        }
        drop(mailbox);
        if to.worker != cx.worker() {
            cx.fence();
            cx.ring(self.bell(Bell::Work));
        }
    }

    /// Sends a message to a host in this life as soon as there is room; never waits.
    pub(super) fn post<F: Fabric>(&self, cx: &Cx<F>, to: Owner, message: &Message) {
        let mut bytes = Vec::with_capacity(64);
        message.encode(&mut bytes);
        count(&self.moves.messages, 1);
        let addressee = Addressee::life(to.host, to.incarnation);
        let is_read = || !self.owners.is_buried(to.host, to.incarnation);
        self.outbox.post(cx, &self.lanes, addressee, bytes, is_read);
    }

    /// How many requests this worker has made of other hosts, since the host began.
    pub fn requests_of<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        self.mailboxes[usize::from(cx.worker().0)].lock(cx).request.into()
    }

    /// Asks the owner of a partition for something and waits for the answer, serving meanwhile. No latch is
    /// held.
    ///
    /// # Errors
    /// [`Conflict::Partition`] if the partition has no owner now: it has not come yet, died, or left, before
    /// it answered. [`TxnError::Fenced`] if this host is the one that the pod has ruled out.
    pub(super) fn ask<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>, wish: Wish) -> Result<Answer, TxnError> {
        let (partition, table) = at.ids();
        let owner = self.owners.now(cx, &self.plan, partition);
        let is_there = |owner: &Owner| owner.host != self.me && !self.is_known_over(*owner);
        let owner = owner.filter(is_there).ok_or(Conflict::Partition)?;
        let mailbox = &self.mailboxes[usize::from(cx.worker().0)];
        let request = {
            let mut mailbox = mailbox.lock(cx);
            mailbox.request = mailbox.request.wrapping_add(1);
            mailbox.answer = None;
            mailbox.request
        };
        let from = Asker { worker: cx.worker(), request };
        let created = if let Wish::Create(key) = &wish { Some(*key) } else { None };
        self.post(cx, owner, &Message::Request { from, table, partition, wish });
        let mut turn = 0u32;
        loop {
            turn = turn.saturating_add(1);
            self.serve_waiting(cx);
            if let Some(answer) = mailbox.lock(cx).answer.take() {
                return Ok(answer);
            }
            if turn >= ALONE_TURNS || turn.is_multiple_of(TURNS_PER_LOOK) {
                self.look_at_life(cx, owner);
            }
            if self.is_known_over(owner) {
                if let Some(key) = created {
                    // It may have made the row before it died.
                    self.note_unanswered(cx, table, partition, key);
                }
                return Err(Conflict::Partition.into());
            }
            if self.is_overruled() {
                return Err(TxnError::Fenced);
            }
            self.pass(cx, turn, || self.serve_waiting(cx) > 0 || mailbox.lock(cx).answer.is_some());
        }
    }

    /// Wakes who sleeps on any host until there is something to do: behind something that all can see.
    pub fn wake_hosts<F: Fabric>(&self, cx: &Cx<F>) {
        bells::ring_all(cx, &self.plan, Bell::Work);
    }

    /// Passes a turn of a wait that has had `turn` of them; mail, and more that is durable, end a sleep.
    pub(super) fn pass<F: Fabric>(&self, cx: &Cx<F>, turn: u32, is_over: impl Fn() -> bool) {
        bells::pass(cx, self.bell(Bell::Work), turn, is_over);
    }

    /// Where threads of this host sleep.
    pub(super) fn bell(&self, which: Bell) -> SyncAddr {
        bells::bell(&self.plan, self.me, which)
    }

    /// True if this host knows that a life serves no more.
    fn is_known_over(&self, life: Owner) -> bool {
        self.owners.is_over(life) || self.owners.is_buried(life.host, life.incarnation)
    }

    /// Looks whether a life still serves. One that is a suspect does not: nothing that it may yet do for this
    /// host is asked for again before the partition has another owner, which is told of it.
    fn look_at_life<F: Fabric>(&self, cx: &Cx<F>, life: Owner) {
        let Ok(now) = Slot::load(cx, &self.plan, life.host) else { return };
        let serves = now.state == HostState::Alive && now.incarnation == life.incarnation;
        if !serves && !cx.sabotaged("service.look-at-life") {
            self.owners.note_over(life);
        }
    }

    /// A turn of a worker that waits in a transaction, or for its next try: mail, and hosts that join.
    /// However long it waits, nobody may wait for it.
    pub(super) fn serve_waiting<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.serve(cx) + usize::from(self.responder.poll(cx))
    }

    /// One turn of a host that runs no transaction: mail, then housekeeping. Returns the number of messages
    /// handled.
    pub fn attend<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let handled = self.serve(cx);
        self.housekeep(cx);
        handled
    }

    /// Things this host has retired that wait for other hosts before they can be reused.
    pub fn backlog<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.epochs.backlog(cx)
    }

    /// Handles mail and reclamation until this host has nothing to do; for a pod at rest.
    pub fn settle<F: Fabric>(&self, cx: &Cx<F>) {
        while self.serve(cx) > 0 {}
        self.housekeep(cx);
    }

    /// This host's share of what keeps the pod going: its heartbeat, self-tests of hosts that join,
    /// reclamation.
    pub(super) fn housekeep<F: Fabric>(&self, cx: &Cx<F>) {
        self.responder.poll(cx);
        self.beat(cx);
        self.forget_removed(cx);
        self.move_out_ahead(cx);
        self.collect(cx);
    }

    /// This host's share of reclamation.
    pub(super) fn collect<F: Fabric>(&self, cx: &Cx<F>) {
        self.epochs.collect(cx, &self.heap, |cx| self.readers(cx));
        if self.backlog(cx) <= BACKLOG {
            return;
        }
        let (now_ns, urged_ns) = (cx.now_ns(), self.urged_ns.load(Ordering::Relaxed));
        if now_ns.saturating_sub(urged_ns) >= URGE_NS {
            self.urged_ns.store(now_ns, Ordering::Relaxed);
            // Hosts without work take part in reclamation when they wake.
            bells::ring_all(cx, &self.plan, Bell::Work);
        }
    }

    /// See [`crate::protocol::HostEngine::idle_ns`]. What this host has retired, and mail that found a lane
    /// full, wait for others, who do not ring when they are done.
    pub(crate) fn idle_ns<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        let waits = !self.outbox.is_empty(cx) || self.backlog(cx) > BACKLOG;
        if waits { REST_NS } else { UNTIL_RUNG }
    }
}
