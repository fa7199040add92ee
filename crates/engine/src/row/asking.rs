//! What hosts ask of each other about rows: requests to the owner of a partition, and answers that are waited
//! for.
//!
//! Invariants:
//! 1. A handler never waits: what it sends goes through the outbox when the lane is full.
//! 2. Whoever waits holds no latch, and keeps serving.
//! 3. A request is meant for the incarnation that owns the partition. Whoever waits looks every few spins
//!    whether that incarnation goes on, so no request waits for an answer that cannot come; and an
//!    incarnation that was seen to be over is asked no more.

use liger_fabric::{Cx, Fabric};
use liger_pod::PodError;
use liger_pod::bells::{ALONE_SPINS, Bell};
use liger_pod::watch::Owner;

use super::message::{Action, Answer, Message};
use super::rows::Rows;
use super::work::Work;
use crate::catalog::At;
use crate::instance::waits::Wait;
use crate::protocol::mail::Requester;
use crate::txn::{Conflict, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["service.match-request-number"];

/// Spins of a wait that is awake between two looks at whether the incarnation that was asked goes on.
const SPINS_PER_LOOK: u32 = 16;

impl Rows {
    /// Puts an answer where its requester waits; false if nobody does.
    pub(super) fn deliver<F: Fabric>(&self, cx: &Cx<F>, to: Requester, answer: Answer) -> bool {
        let Some(mailbox) = self.mailboxes.get(usize::from(to.worker.0)) else { return false };
        let mut mailbox = mailbox.lock(cx);
        let current = mailbox.request == to.request || cx.sabotaged("service.match-request-number");
        if !current || mailbox.answer.is_some() {
            return false;
        }
        mailbox.answer = Some(answer);
        drop(mailbox);
        if to.worker != cx.worker() {
            cx.fence();
            cx.ring(self.bell(Bell::Work));
        }
        true
    }

    /// Sends a message to a host in this incarnation as soon as there is room; never waits.
    pub(super) fn send<F: Fabric>(&self, cx: &Cx<F>, to: Owner, message: &Message) {
        let mut bytes = Vec::with_capacity(64);
        message.encode(&mut bytes);
        self.post(cx, to, bytes);
    }

    /// How many requests this worker has made of other hosts, since the host began.
    pub fn requests_of<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        self.mailboxes[usize::from(cx.worker().0)].lock(cx).request.into()
    }
}

impl<F: Fabric> Work<'_, '_, F> {
    /// Asks the owner of a partition for something and waits for the answer, serving meanwhile. No latch is
    /// held.
    ///
    /// # Errors
    /// [`Conflict::Partition`] if the partition has no owner now: it has not come yet, died, or left, before
    /// it answered. [`TxnError::Fenced`] if this host is the one that the pod has ruled out.
    /// [`TxnError::Damaged`] if mail to this host was lost to damage, which may have been the answer.
    pub(super) fn ask(&self, at: At<'_>, action: Action) -> Result<Answer, TxnError> {
        let (cx, host) = (self.cx, self.host);
        let _waiting = host.waits.begin(self.state.me, Wait::Owner);
        let (partition, table) = at.ids();
        let owner = host.owners.now(cx, &host.plan, partition);
        let is_there = |owner: &Owner| owner.host != host.me && !host.is_known_over(*owner);
        let owner = owner.filter(is_there).ok_or(Conflict::Partition)?;
        let mailbox = &host.mailboxes[usize::from(cx.worker().0)];
        let request = {
            let mut mailbox = mailbox.lock(cx);
            mailbox.request = mailbox.request.wrapping_add(1);
            mailbox.answer = None;
            mailbox.request
        };
        let from = Requester { worker: cx.worker(), request };
        let created = if let Action::Create(key) = &action { Some(*key) } else { None };
        host.send(cx, owner, &Message::Request { from, table, partition, action });
        let mut spins = 0u32;
        loop {
            spins = spins.saturating_add(1);
            self.seat.serve();
            let mut place = mailbox.lock(cx);
            debug_assert_eq!(place.request, request, "a worker has one request at a time");
            if let Some(answer) = place.answer.take() {
                return Ok(answer);
            }
            drop(place);
            if spins >= ALONE_SPINS || spins.is_multiple_of(SPINS_PER_LOOK) {
                host.look_at_owner(cx, owner);
            }
            let damage = host.lanes.damage();
            if host.is_known_over(owner) || damage.is_some() {
                if let Some(key) = created {
                    // It may have made the row before it died.
                    host.note_unanswered(cx, table, partition, key);
                }
                return Err(match damage {
                    Some(&PodError::Damaged { what, found, .. }) => TxnError::Damaged { table, what, found },
                    _ => Conflict::Partition.into(),
                });
            }
            if host.is_fenced() {
                return Err(TxnError::Fenced);
            }
            host.pass(cx, spins, || self.seat.serve() > 0 || mailbox.lock(cx).answer.is_some());
        }
    }
}
