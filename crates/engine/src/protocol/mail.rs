//! What engines need to send each other messages: fields of messages, who waits for an answer, and mail that
//! finds its lane full.
//!
//! Invariants:
//! 1. Decoding checks every length and kind; what does not decode is `None`, never trusted.
//! 2. Mail to one host is sent in the order in which it was given; a host whose lane is full holds up nobody
//!    else's.
//!
//! Not here: what messages mean (row/message.rs, partitioned/message.rs), and how they travel (the pod's
//! lanes).

use std::collections::VecDeque;

use liger_fabric::{Cx, Fabric, HostId, Latch, WorkerId};
use liger_pod::lanes::{Addressee, Lanes};
use liger_pod::plan::{MAX_HOSTS, PartitionId};

use crate::tables::key::{Key, MAX_KEY_WORDS};
use crate::txn::TableId;

/// Which worker waits for an answer, and to which of its requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requester {
    /// The waiting worker.
    pub worker: WorkerId,
    /// Its running number; answers to older requests are stale.
    pub request: u32,
}

// A message says the words of a key in one byte; a set of hosts has a bit for each.
const _: () = assert!(MAX_KEY_WORDS <= u8::MAX as usize && MAX_HOSTS <= u16::BITS as usize);

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["mail.keep-unsent"];

/// Mail that waits for room in its lane.
#[derive(Default)]
pub struct Outbox {
    waiting: Latch<VecDeque<(Addressee, Vec<u8>)>>,
}

impl Outbox {
    /// Sends messages to a host now, or as soon as there is room; never waits. Mail that nobody will read
    /// goes nowhere: `is_read` is asked so that it is known before [`Outbox::forget`], or after.
    pub fn post<F: Fabric>(
        &self,
        cx: &Cx<F>,
        lanes: &Lanes,
        to: Addressee,
        messages: Vec<Vec<u8>>,
        is_read: impl FnOnce() -> bool,
    ) {
        debug_assert!(messages.iter().all(|message| !message.is_empty()), "a message says something");
        let mut waiting = self.waiting.lock(cx);
        if !is_read() {
            return;
        }
        let behind = waiting.iter().any(|(before, _)| before.host() == to.host());
        let sent = match behind {
            true => 0,
            false => lanes.try_send_all(cx, to, messages.iter().map(Vec::as_slice)).0,
        };
        if !cx.sabotaged("mail.keep-unsent") {
            waiting.extend(messages.into_iter().skip(sent).map(|message| (to, message)));
        }
    }

    /// Sends what there is room for by now.
    pub fn drain<F: Fabric>(&self, cx: &Cx<F>, lanes: &Lanes) {
        let mut full = 0u16;
        self.waiting.lock(cx).retain(|(to, bytes)| {
            let bit = 1u16 << to.host().0;
            debug_assert_ne!(to.host(), cx.host(), "a host sends itself no mail");
            if full & bit == 0 && lanes.try_send(cx, *to, bytes).is_err() {
                full |= bit;
            }
            full & bit != 0
        });
    }

    /// True if no mail waits.
    pub fn is_empty<F: Fabric>(&self, cx: &Cx<F>) -> bool {
        self.waiting.lock(cx).is_empty()
    }

    /// Forgets mail to a host that nobody will read.
    pub fn forget<F: Fabric>(&self, cx: &Cx<F>, to: HostId) {
        self.waiting.lock(cx).retain(|(addressee, _)| addressee.host() != to);
    }
}

/// Appends fields to a message: little-endian, in order.
pub struct Out<'a>(&'a mut Vec<u8>);

impl<'a> Out<'a> {
    /// Appends to `bytes`.
    pub fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Bytes, behind their number.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64, 4);
        self.0.extend_from_slice(bytes);
        self
    }

    /// A number in so many bytes, 1 to 8.
    pub fn number(&mut self, value: u64, bytes: usize) -> &mut Self {
        debug_assert!((1..=8).contains(&bytes), "a number of {bytes} bytes");
        debug_assert!(bytes == 8 || value >> (8 * bytes) == 0, "{value} in {bytes} bytes");
        self.0.extend_from_slice(&value.to_le_bytes()[..bytes]);
        self
    }

    /// A key, behind the number of its words.
    pub fn key(&mut self, key: &Key) -> &mut Self {
        self.number(key.words().len() as u64, 1);
        for word in key.words() {
            self.number(*word, 8);
        }
        self
    }

    /// Who waits for the answer.
    pub fn requester(&mut self, requester: &Requester) -> &mut Self {
        self.number(u64::from(requester.worker.0), 1).number(u64::from(requester.request), 4)
    }

    /// A table and a partition.
    pub fn place(&mut self, table: TableId, partition: PartitionId) -> &mut Self {
        self.number(u64::from(table.0), 2).number(u64::from(partition.0), 2)
    }
}

/// Reads the fields of a message; `None` as soon as something is not what it should be.
pub struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// True if everything has been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes, as [`Out::bytes`] wrote them.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.number(4)? as usize;
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    /// A number of so many bytes, 1 to 8.
    pub fn number(&mut self, bytes: usize) -> Option<u64> {
        debug_assert!((1..=8).contains(&bytes), "a number of {bytes} bytes");
        let (head, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(head);
        Some(u64::from_le_bytes(value))
    }

    /// A table and a partition, as [`Out::place`] wrote them.
    pub fn place(&mut self) -> Option<(TableId, PartitionId)> {
        Some((TableId(self.number(2)? as u16), PartitionId(self.number(2)? as u16)))
    }

    /// A key, as [`Out::key`] wrote it.
    pub fn key(&mut self) -> Option<Key> {
        let words = self.number(1)? as usize;
        if words > MAX_KEY_WORDS {
            return None;
        }
        let mut key = [0; MAX_KEY_WORDS];
        for word in &mut key[..words] {
            *word = self.number(8)?;
        }
        Some(Key::from_words(&key[..words]))
    }

    /// Who waits for the answer.
    pub fn requester(&mut self) -> Option<Requester> {
        Some(Requester { worker: WorkerId(self.number(1)? as u8), request: self.number(4)? as u32 })
    }
}
