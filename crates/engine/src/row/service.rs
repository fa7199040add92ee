//! Talking to other hosts: serving their requests, waiting for their answers, and housekeeping between
//! transactions.
//!
//! Invariants:
//! 1. A worker that waits keeps serving, so two hosts that wait for each other both get their answers.
//! 2. A handler never waits: what it sends goes through the outbox when the lane is full.
//! 3. Whoever waits holds no latch.

use liger_fabric::{Cx, Fabric, HostId, Work};

use super::host::{RowHost, count};
use super::message::{Answer, Message, Wish};
use super::waits::Wait;
use crate::mail::Asker;
use crate::txn::{Conflict, TableId, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["service.match-request-number"];

/// Turns of a wait loop between two looks at the membership.
const TURNS_PER_LOOK: u32 = 1 << 12;

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
                self.post(cx, from.0, &Message::Reply { to: asker, answer });
            }
            Message::Remove { table, partition, key, at, unborn, llsn } => {
                if self.catalog.relation(table).is_err() || !self.holds(partition) {
                    return count(&self.moves.messages_dropped, 1);
                }
                self.remove_for(cx, from.0, (partition, table), &key, (at, unborn), llsn);
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
            count(&self.moves.messages_dropped, 1);
        }
    }

    /// Sends a message as soon as there is room; never waits.
    pub(super) fn post<F: Fabric>(&self, cx: &Cx<F>, to: HostId, message: &Message) {
        let mut bytes = Vec::with_capacity(64);
        message.encode(&mut bytes);
        count(&self.moves.messages, 1);
        self.outbox.post(cx, &self.lanes, to, bytes, || !self.owners.is_down(to));
    }

    /// How many requests this worker has made of other hosts, since the host began.
    pub fn requests_of<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        self.mailboxes[usize::from(cx.worker().0)].lock(cx).request.into()
    }

    /// Asks the owner of a partition for something and waits for the answer, serving meanwhile. No latch is
    /// held.
    pub(super) fn ask<F: Fabric>(
        &self,
        cx: &Cx<F>,
        table: TableId,
        partition: u16,
        wish: Wish,
    ) -> Result<Answer, TxnError> {
        let owner = self.owner(partition);
        if owner == self.me || self.owners.is_orphan(partition) {
            return Err(Conflict::Partition.into());
        }
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
        let _waiting = self.waits.begin(cx.worker(), Wait::Owner);
        let mut turn = 0u32;
        loop {
            turn = turn.wrapping_add(1);
            self.serve_waiting(cx);
            if let Some(answer) = mailbox.lock(cx).answer.take() {
                return Ok(answer);
            }
            let gone = turn.is_multiple_of(TURNS_PER_LOOK) && self.members(cx) & (1 << owner.0) == 0;
            // (It may be back already, in another life; of the partition it is not the owner any more.)
            if gone || self.owners.is_down(owner) || self.owners.is_orphan(partition) {
                if let Some(key) = created {
                    // It may have made the row before it died.
                    self.note_unanswered(cx, table, partition, key);
                }
                return Err(Conflict::Partition.into());
            }
            if self.is_overruled() {
                return Err(TxnError::Fenced);
            }
            cx.pause();
        }
    }

    /// A turn of a worker that waits in a transaction, or for its next try: mail, and hosts that join.
    /// However long it waits, nobody may wait for it.
    pub(super) fn serve_waiting<F: Fabric>(&self, cx: &Cx<F>) {
        self.serve(cx);
        self.responder.poll(cx);
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
    }
}
