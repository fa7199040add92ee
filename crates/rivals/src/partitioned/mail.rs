//! How messages travel: by the workers themselves, or with the help of a thread of each host that does
//! nothing else.
//!
//! Tigon's evaluation (OSDI'25, 6.1, and its artifact) has the latter two: with message queues in CXL memory,
//! threads of each host moved messages between queues and workers (`-CXL`); then workers sent for themselves,
//! and the sending thread became a third worker (`+`). In both a request is done by the worker that has the
//! asking worker's number.
//!
//! Invariants:
//! 1. A worker waits for one answer of each host that it has asked, and makes no other request before.
//! 2. With a thread, a worker's requests go to the worker of the same number, in their order.

use std::collections::VecDeque;

use liger_fabric::{Cx, Fabric, HostId, Latch, SyncAddr, Work};
use liger_pod::bells::{self, Bell};
use liger_pod::lanes::Addressee;

use super::host::{PartHost, count};
use super::message::{Answer, Message};
use liger_engine::protocol::{Outbox, Requester};

/// Who sends and receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// Every worker, between and during its transactions; whoever is free does what is asked.
    Workers,
    /// Workers send; a thread of each host receives: somebody calls [`PartHost::carry`] all the time.
    Receiver,
    /// A thread of each host does both.
    Thread,
    /// As `Thread`, and what it carries goes over the network and not through the lanes, which stay empty.
    Network,
}

impl Route {
    /// Whether a thread of each host calls [`PartHost::carry`] all the time.
    pub fn has_thread(self) -> bool {
        self != Route::Workers
    }
}

/// Messages that the thread takes from the network before it looks at what is to leave.
const RECEIVED_A_TURN: usize = 16;

/// Mail between a worker and the thread that carries it.
type Tray = Latch<VecDeque<(HostId, Vec<u8>)>>;

/// A worker's place for the answers it waits for.
#[derive(Default)]
struct Mailbox {
    /// Running number of the request.
    request: u32,
    answers: Vec<(HostId, Answer)>,
}

/// The mail of one host.
pub(super) struct Mail {
    route: Route,
    outbox: Outbox,
    mailboxes: Vec<Latch<Mailbox>>,
    /// By worker: what the thread has brought.
    trays: Vec<Tray>,
    /// What the thread is to take away.
    leaving: Tray,
}

impl Mail {
    pub(super) fn new(route: Route, workers: u8) -> Self {
        let (outbox, leaving) = (Outbox::default(), Tray::default());
        let mailboxes = (0..workers).map(|_| Latch::default()).collect();
        Self { route, outbox, mailboxes, trays: (0..workers).map(|_| Latch::default()).collect(), leaving }
    }
}

impl PartHost {
    /// Sends a message as soon as there is room; never waits.
    pub(super) fn send<F: Fabric>(&self, cx: &Cx<F>, to: HostId, message: &Message) {
        count(&self.traffic.messages, 1);
        let bytes = message.encode();
        match self.mail.route {
            Route::Workers | Route::Receiver => self.post_now(cx, to, bytes),
            Route::Thread | Route::Network => {
                // The worker makes the message, the thread takes it on its way.
                cx.spend(Work::Message, 1);
                self.mail.leaving.lock(cx).push_back((to, bytes));
            }
        }
    }

    /// Through the lanes. Hosts of such a pod do not come back: a number has one incarnation.
    fn post_now<F: Fabric>(&self, cx: &Cx<F>, to: HostId, bytes: Vec<u8>) {
        self.mail.outbox.post(cx, &self.lanes, Addressee::any(to), vec![bytes], || true);
    }

    /// Does what other hosts have asked for, and takes their answers. Returns the number of messages handled.
    pub fn serve<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        match self.mail.route {
            Route::Workers => {
                let handled = self.lanes.poll(cx, |from, bytes| self.open(cx, from.0, bytes));
                self.mail.outbox.drain(cx, &self.lanes);
                handled
            }
            Route::Receiver | Route::Thread | Route::Network => {
                self.mail.trays.get(usize::from(cx.worker().0)).map_or(0, |tray| self.empty(cx, tray))
            }
        }
    }

    fn empty<F: Fabric>(&self, cx: &Cx<F>, tray: &Tray) -> usize {
        let mut handled = 0;
        loop {
            let Some((from, bytes)) = tray.lock(cx).pop_front() else { return handled };
            self.open(cx, from, &bytes);
            handled += 1;
        }
    }

    /// Handles all mail that has come to this host; for a pod whose workers have ended. Returns the number of
    /// messages handled or moved.
    pub fn drain_mail<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let moved = if self.mail.route.has_thread() { self.carry(cx) } else { self.serve(cx) };
        moved + self.mail.trays.iter().map(|tray| self.empty(cx, tray)).sum::<usize>()
    }

    /// Mail of this host that waits for room, or for whoever carries or opens it.
    pub(crate) fn unsent<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let in_trays: usize = self.mail.trays.iter().map(|tray| tray.lock(cx).len()).sum();
        in_trays + self.mail.leaving.lock(cx).len() + usize::from(!self.mail.outbox.is_empty(cx))
    }

    /// Whether a thread beside the workers has to carry their mail.
    pub fn is_carried(&self) -> bool {
        self.mail.route.has_thread()
    }

    fn open<F: Fabric>(&self, cx: &Cx<F>, from: HostId, bytes: &[u8]) {
        cx.spend(Work::Message, 1);
        match Message::decode(bytes) {
            Some(Message::Request { from: requester, transaction, action }) => {
                self.take_request(cx, from, requester, transaction, action);
            }
            Some(Message::Reply { to, answer }) => self.deliver(cx, from, to, answer),
            None => count(&self.traffic.messages_dropped, 1),
        }
    }

    fn deliver<F: Fabric>(&self, cx: &Cx<F>, from: HostId, to: Requester, answer: Answer) {
        let Some(mailbox) = self.mail.mailboxes.get(usize::from(to.worker.0)) else {
            return count(&self.traffic.messages_dropped, 1);
        };
        let mut mailbox = mailbox.lock(cx);
        if mailbox.request != to.request {
            return count(&self.traffic.messages_dropped, 1);
        }
        mailbox.answers.push((from, answer));
        drop(mailbox);
        if to.worker != cx.worker() {
            cx.fence();
            cx.ring(self.mail_bell(cx));
        }
    }

    /// Where workers of this host sleep that wait for mail.
    fn mail_bell<F: Fabric>(&self, cx: &Cx<F>) -> SyncAddr {
        bells::bell(&self.plan, cx.host(), Bell::Work)
    }

    /// One turn of the thread that carries mail between workers and lanes or network
    /// ([`Route::has_thread`]). Returns the number of messages moved.
    pub fn carry<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let over_network = self.mail.route == Route::Network;
        let mut moved = if over_network {
            let received = (0..RECEIVED_A_TURN).map_while(|_| cx.receive_message());
            received.map(|(from, bytes)| self.hand_over(cx, from, bytes)).count()
        } else {
            self.lanes.poll(cx, |(from, _), bytes| self.hand_over(cx, from, bytes.to_vec()))
        };
        loop {
            let Some((to, bytes)) = self.mail.leaving.lock(cx).pop_front() else { break };
            if over_network {
                cx.send_message(to, bytes);
            } else {
                self.post_now(cx, to, bytes);
            }
            moved += 1;
        }
        self.mail.outbox.drain(cx, &self.lanes);
        moved
    }

    /// Only the workers open it; the thread looks at who it is for.
    fn hand_over<F: Fabric>(&self, cx: &Cx<F>, from: HostId, bytes: Vec<u8>) {
        let Some(message) = Message::decode(&bytes) else {
            return count(&self.traffic.messages_dropped, 1);
        };
        if let Some(tray) = self.mail.trays.get(usize::from(message.requester().worker.0)) {
            tray.lock(cx).push_back((from, bytes));
        }
    }

    /// Begins a request: its number, to be named in every message of it.
    pub(super) fn begin_request<F: Fabric>(&self, cx: &Cx<F>) -> Requester {
        let mut mailbox = self.mail.mailboxes[usize::from(cx.worker().0)].lock(cx);
        mailbox.request = mailbox.request.wrapping_add(1);
        mailbox.answers.clear();
        Requester { worker: cx.worker(), request: mailbox.request }
    }

    /// Waits for `answers` answers to the request, serving meanwhile. No latch is held.
    pub(super) fn await_answers<F: Fabric>(&self, cx: &Cx<F>, answers: usize) -> Vec<(HostId, Answer)> {
        let mailbox = &self.mail.mailboxes[usize::from(cx.worker().0)];
        let mut spins = 0u32;
        loop {
            {
                let mut mailbox = mailbox.lock(cx);
                if mailbox.answers.len() >= answers {
                    return std::mem::take(&mut mailbox.answers);
                }
            }
            spins = if self.serve(cx) == 0 { spins + 1 } else { 0 };
            let is_over = || self.serve(cx) > 0 || mailbox.lock(cx).answers.len() >= answers;
            if spins > 0 {
                bells::pass(cx, self.mail_bell(cx), spins, is_over);
            }
        }
    }
}
