//! What passes between a host and the others, whatever it is about: mail that goes out, incarnations that are
//! looked at, bells at which threads sleep, memory that waits for all hosts before it can be used again.

use std::sync::atomic::Ordering;

use liger_fabric::{Cx, Fabric, SyncAddr, UNTIL_RUNG};
use liger_pod::PodError;
use liger_pod::bells::{self, Bell, REST_NS};
use liger_pod::lanes::Addressee;
use liger_pod::membership::{HostState, Slot};
use liger_pod::owner::Owner;

use super::{Instance, MailCounts, count};

/// Names of the steps that a mutation test can leave out of this file.
pub(crate) const SABOTAGE_STEPS: &[&str] = &["service.look-at-incarnation"];

/// Things that wait for other hosts before they can be reused: with more of them, this host wakes the others,
/// but not more often than this.
const BACKLOG: usize = 256;
const URGE_NS: u64 = 2_000_000;

impl Instance {
    /// Its mail.
    pub fn mail(&self) -> &MailCounts {
        &self.mail
    }

    /// Sends messages to a host in this incarnation as soon as there is room; never waits.
    pub(crate) fn post<F: Fabric>(&self, cx: &Cx<F>, to: Owner, messages: Vec<Vec<u8>>) {
        debug_assert!(to.host != self.me, "messages to another host");
        if messages.is_empty() {
            return;
        }
        count(&self.mail.sent, messages.len() as u64);
        let addressee = Addressee::of(to.host, to.incarnation);
        let is_read = || !self.owners.is_fenced(to.host, to.incarnation);
        self.outbox.post(cx, &self.lanes, addressee, messages, is_read);
    }

    /// A message that has come means nothing here.
    pub(crate) fn drop_message(&self) {
        count(&self.mail.dropped, 1);
    }

    /// The first damage of the pod's memory that this host has met and gone past: messages, or room, are lost
    /// since.
    pub fn damage(&self) -> Option<&PodError> {
        self.lanes.damage().or_else(|| self.heap.damage()).or_else(|| self.epochs.damage())
    }

    /// Wakes who sleeps on any host until there is something to do: behind something that all can see.
    pub fn wake_hosts<F: Fabric>(&self, cx: &Cx<F>) {
        bells::ring_all(cx, &self.plan, Bell::Work);
    }

    /// Goes once more round a wait that has had `spins` rounds; mail, and more that is durable, end a sleep.
    pub(crate) fn pass<F: Fabric>(&self, cx: &Cx<F>, spins: u32, is_over: impl Fn() -> bool) {
        bells::pass(cx, self.bell(Bell::Work), spins, is_over);
    }

    /// Where threads of this host sleep.
    pub(crate) fn bell(&self, which: Bell) -> SyncAddr {
        bells::bell(&self.plan, self.me, which)
    }

    /// True if this host knows that an incarnation serves no more.
    pub(crate) fn is_known_over(&self, owner: Owner) -> bool {
        self.owners.is_over(owner) || self.owners.is_fenced(owner.host, owner.incarnation)
    }

    /// Looks whether an incarnation still serves. One that is a suspect does not: nothing that it may yet do
    /// for this host is asked for again before the partition has another owner, which is told of it.
    pub(crate) fn look_at_owner<F: Fabric>(&self, cx: &Cx<F>, owner: Owner) {
        let Ok(now) = Slot::load(cx, &self.plan, owner.host) else { return };
        let serves = now.state == HostState::Alive && now.incarnation == owner.incarnation;
        if !serves && !cx.sabotaged("service.look-at-incarnation") {
            self.owners.note_over(owner);
        }
    }

    /// Things this host has retired that wait for other hosts before they can be reused.
    pub fn backlog<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.epochs.backlog(cx)
    }

    /// This host's share of reclamation.
    pub(crate) fn collect<F: Fabric>(&self, cx: &Cx<F>) {
        self.epochs.collect(cx, &self.heap, |cx| self.readers(cx));
        if self.backlog(cx) <= BACKLOG {
            return;
        }
        let (now_ns, urged_ns) = (cx.now_ns(), self.urged_ns.load(Ordering::Relaxed));
        if now_ns.saturating_sub(urged_ns) >= URGE_NS {
            self.urged_ns.store(now_ns, Ordering::Relaxed);
            // Hosts without work take part in reclamation when they wake.
            self.wake_hosts(cx);
        }
    }

    /// See [`crate::protocol::HostEngine::idle_ns`]. What this host has retired, and mail that found a lane
    /// full, wait for others, who do not ring when they are done.
    pub(crate) fn idle_ns<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        let waits = !self.outbox.is_empty(cx) || self.backlog(cx) > BACKLOG;
        if waits { REST_NS } else { UNTIL_RUNG }
    }
}
