//! What hosts ask of each other about rows: requests to the owners of partitions, and answers that are waited
//! for.
//!
//! Invariants:
//! 1. A handler never waits: what it sends goes through the outbox when the lane is full.
//! 2. Whoever waits holds no latch, and keeps serving.
//! 3. A request is meant for the incarnation that owns the partition. Whoever waits looks every few spins
//!    whether that incarnation goes on, so no request waits for an answer that cannot come; and an
//!    incarnation that was seen to be over is asked no more.
//! 4. A worker has one [`Mailbox`], and asks again when nothing is open there. Answers are taken in the order
//!    in which they come: an owner's answer may name what an answer before it has given.

use liger_fabric::{Cx, Fabric};
use liger_pod::PodError;
use liger_pod::bells::{AWAKE_SPINS, Bell};
use liger_pod::owner::Owner;

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
/// Most requests that a worker waits for at once.
pub(super) const MOST_REQUESTS: usize = u64::BITS as usize;

/// A worker's place for the answers that it waits for.
#[derive(Default)]
pub(super) struct Mailbox {
    /// How many requests it has made: the running number of the last one.
    requests: u32,
    /// How often it has waited for answers.
    waits: u64,
    /// The running number of the first request that it waits for.
    first: u32,
    /// Which requests have no answer yet, a bit each from the first on.
    open: u64,
    /// Answers that came and were not taken yet: how far behind the first request theirs is.
    answers: Vec<(u32, Answer)>,
}

impl Mailbox {
    /// So many requests more are made and waited for; the running number of the first.
    fn begin(&mut self, count: usize) -> u32 {
        assert!((1..=MOST_REQUESTS).contains(&count), "{count} requests at once");
        debug_assert!(self.open == 0 && self.answers.is_empty(), "a worker waits for one batch at a time");
        self.waits += 1;
        self.first = self.requests.wrapping_add(1);
        self.requests = self.requests.wrapping_add(count as u32);
        self.open = u64::MAX >> (MOST_REQUESTS - count);
        self.first
    }

    /// Nobody waits for the request at this distance from the first.
    fn close(&mut self, n: usize) {
        self.open &= !(1 << n);
    }

    /// Keeps an answer; false if nobody waits for it.
    fn put(&mut self, request: u32, answer: Answer, any: bool) -> bool {
        let n = match any && self.open != 0 {
            true => self.open.trailing_zeros(),
            false => request.wrapping_sub(self.first),
        };
        if n >= u64::BITS || self.open & 1 << n == 0 {
            return false;
        }
        self.close(n as usize);
        self.answers.push((n, answer));
        true
    }
}

/// Something that is asked of the owner of a partition.
pub(super) type Request<'r> = (At<'r>, Action);

/// What came of a request: its number among those that were made at once, and the answer, or why none comes.
pub(super) type Came = (usize, Result<Answer, TxnError>);

impl Rows {
    /// Puts an answer where its requester waits; false if nobody does.
    pub(super) fn deliver<F: Fabric>(&self, cx: &Cx<F>, to: Requester, answer: Answer) -> bool {
        let Some(mailbox) = self.mailboxes.get(usize::from(to.worker.0)) else { return false };
        let mut mailbox = mailbox.lock(cx);
        if !mailbox.put(to.request, answer, cx.sabotaged("service.match-request-number")) {
            return false;
        }
        drop(mailbox);
        if to.worker != cx.worker() {
            cx.fence();
            cx.ring(self.bell(Bell::Work));
        }
        true
    }

    /// Sends a message to a host in this incarnation as soon as there is room; never waits.
    pub(super) fn send<F: Fabric>(&self, cx: &Cx<F>, to: Owner, message: &Message) {
        self.post(cx, to, vec![message.bytes()]);
    }

    /// How many requests this worker has made of other hosts, since the host began, and how often it has
    /// waited for answers.
    pub fn requests_of<F: Fabric>(&self, cx: &Cx<F>) -> (u64, u64) {
        let mailbox = self.mailboxes[usize::from(cx.worker().0)].lock(cx);
        (mailbox.requests.into(), mailbox.waits)
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
    pub(super) fn ask(&mut self, at: At<'_>, action: Action) -> Result<Answer, TxnError> {
        let mut answer = Err(Conflict::Partition.into());
        self.ask_all(&[(at, action)], |_, (_, came)| answer = came);
        answer
    }

    /// Asks owners of partitions for at most [`MOST_REQUESTS`] things at once, and waits for all answers,
    /// serving meanwhile. `take` is given each as it comes, and why those do not come that do not
    /// ([`Work::ask`] says which errors there are). No latch is held.
    pub(super) fn ask_all(&mut self, asked: &[Request<'_>], mut take: impl FnMut(&mut Self, Came)) {
        let (cx, host) = (self.cx, self.host);
        let _waiting = host.waits.begin(self.state.me, Wait::Owner);
        let mailbox = &host.mailboxes[usize::from(cx.worker().0)];
        let first = mailbox.lock(cx).begin(asked.len());
        let mut owners = [None; MOST_REQUESTS];
        let mut mail: Vec<(Owner, Vec<Vec<u8>>)> = Vec::with_capacity(1);
        for (n, (at, action)) in asked.iter().enumerate() {
            let (partition, table) = at.ids();
            let owner = host.owners.now(cx, &host.plan, partition);
            let is_there = |owner: &Owner| owner.host != host.me && !host.is_known_over(*owner);
            let Some(owner) = owner.filter(is_there) else {
                mailbox.lock(cx).close(n);
                take(self, (n, Err(Conflict::Partition.into())));
                continue;
            };
            owners[n] = Some(owner);
            let from = Requester { worker: cx.worker(), request: first.wrapping_add(n as u32) };
            let action = action.clone();
            let message = Message::Request { from, table, partition, action }.bytes();
            match mail.iter_mut().find(|(to, _)| *to == owner) {
                Some((_, messages)) => messages.push(message),
                None => mail.push((owner, vec![message])),
            }
        }
        mail.into_iter().for_each(|(owner, messages)| host.post(cx, owner, messages));
        let mut spins = 0u32;
        loop {
            spins = spins.saturating_add(1);
            self.seat.serve();
            let mut place = mailbox.lock(cx);
            let (answers, open) = (std::mem::take(&mut place.answers), place.open);
            drop(place);
            for (n, answer) in answers {
                take(self, (n as usize, Ok(answer)));
            }
            if open == 0 {
                return;
            }
            if spins >= AWAKE_SPINS || spins.is_multiple_of(SPINS_PER_LOOK) {
                self.end_requests(asked, (&owners, open), &mut take);
            }
            let has_news = || mailbox.lock(cx).open != open;
            host.pass(cx, spins, || self.seat.serve() > 0 || has_news());
        }
    }

    /// Looks whether the incarnations that were asked go on, and waits no longer for answers of others.
    fn end_requests(
        &mut self,
        asked: &[Request<'_>],
        (owners, open): (&[Option<Owner>; MOST_REQUESTS], u64),
        take: &mut impl FnMut(&mut Self, Came),
    ) {
        let (cx, host) = (self.cx, self.host);
        let mut looked_at = None;
        for (n, (at, action)) in asked.iter().enumerate().filter(|(n, _)| open & 1 << n != 0) {
            let owner = owners[n].expect("a request that is open was sent to its owner");
            if looked_at != Some(owner) {
                host.look_at_owner(cx, owner);
                looked_at = Some(owner);
            }
            let damage = host.lanes.damage();
            let (partition, table) = at.ids();
            let error = match damage {
                Some(&PodError::Damaged { what, found, .. }) => TxnError::Damaged { table, what, found },
                _ if damage.is_some() || host.is_known_over(owner) => Conflict::Partition.into(),
                _ if host.is_fenced() => TxnError::Fenced,
                _ => continue,
            };
            let mailbox = &host.mailboxes[usize::from(cx.worker().0)];
            let mut place = mailbox.lock(cx);
            if place.open & 1 << n == 0 {
                // The answer has come meanwhile.
                continue;
            }
            place.close(n);
            drop(place);
            // Who had handed the partition over before it ended has made nothing that is still there.
            let is_its = host.owners.of(partition) == owner || host.owners.is_orphan(partition);
            if let (Action::Create(key), false, true) = (action, matches!(error, TxnError::Fenced), is_its) {
                // It may have made the row before it died.
                host.note_unanswered(cx, table, partition, *key);
            }
            take(self, (n, Err(error)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_find_their_requests_and_no_other_ones() {
        let mut mailbox = Mailbox { requests: u32::MAX - 2, ..Mailbox::default() };
        assert!(!mailbox.put(u32::MAX - 2, Answer::Absent, false), "nobody waits");
        let first = mailbox.begin(4);
        assert_eq!(first, u32::MAX - 1);
        assert!(!mailbox.put(first.wrapping_sub(1), Answer::Absent, false), "of a request before");
        assert!(!mailbox.put(first.wrapping_add(4), Answer::Absent, false), "of none");
        for n in [2, 0, 3] {
            assert!(mailbox.put(first.wrapping_add(n), Answer::Absent, false));
            assert!(!mailbox.put(first.wrapping_add(n), Answer::Duplicate, false), "answered already");
        }
        assert_eq!(mailbox.open, 0b10);
        mailbox.close(1);
        assert!(!mailbox.put(first.wrapping_add(1), Answer::Absent, false), "nobody waits any more");
        let order: Vec<u32> =
            std::mem::take(&mut mailbox.answers).into_iter().map(|answer| answer.0).collect();
        assert_eq!(order, [2, 0, 3], "in the order in which they came");
        assert_eq!(mailbox.begin(MOST_REQUESTS), first.wrapping_add(4));
        assert_eq!(mailbox.open, u64::MAX);
    }
}
