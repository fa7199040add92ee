//! Message lanes: one ring for each ordered pair of hosts, one writer and one reader
//! (docs/protocols/lanes.md).
//!
//! Invariants:
//! 1. `head <= tail <= head + slots`; both count slots since the pod was formatted and never go back.
//! 2. Only the sending host writes slots and the tail; only the receiving host writes the head.
//! 3. The tail moves after the slots before it are published; the head moves after they were copied out.
//! 4. A message is a frame of 12 bytes and its bytes, in consecutive slots of the ring (it may wrap). So mail
//!    that a host was writing when it died lies behind the tail, where nobody looks.
//! 5. A message is handled by the incarnation that it was meant for, and by no other, whenever it was sent:
//!    an incarnation takes what came before its lanes were set up, and drops what was meant for the
//!    incarnations before it.
//! 6. Words and frames that no host writes are damage: it is noted ([`Lanes::damage`]), what a frame hides is
//!    dropped, and a lane whose words do not fit gives and takes nothing.
//!
//! ```text
//! words of a lane   line 0: tail     line 1: head         (sync, each on its own line)
//! frame             0 length u32     4 sender's incarnation u16     6 receiver's incarnation u16
//!                   8 lap of the ring u32     12 message
//! ```
//!
//! Inside a host the workers share each end through a latch. It does not queue for a full lane, does not
//! answer, and does not know which hosts live.

use std::sync::atomic::{AtomicU32, Ordering};

use liger_fabric::{Cx, DataAddr, Fabric, HostId, Latch, SyncAddr, Work, layout};
use zerocopy::{FromBytes, IntoBytes};

use crate::bells::{Bell, bell};
use crate::error::{Noted, PodError, damaged};
use crate::plan::{MAX_HOSTS, Part, Plan};

layout! {
    /// What precedes each message in a lane.
    struct Frame: 12 {
        /// Bytes of the message.
        0 => len: u32,
        /// Incarnation of the sending host in which it was sent.
        4 => incarnation: u16,
        /// Incarnation of the receiving host that is to read it; 0: any.
        6 => meant_for: u16,
        /// How often the ring had been filled when the frame's slot was written: a stale slot shows.
        8 => lap: u32,
    }
}

const FRAME_BYTES: usize = size_of::<Frame>();

/// Whom a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addressee {
    host: HostId,
    /// 0: any.
    incarnation: u16,
}

impl Addressee {
    /// A host in this incarnation: no other incarnation of it handles the message.
    pub fn of(host: HostId, incarnation: u16) -> Self {
        assert!(incarnation > 0, "incarnations are numbered from 1");
        Self { host, incarnation }
    }

    /// Whoever has the host's number when the message is read: for hosts that never come back.
    pub fn any(host: HostId) -> Self {
        Self { host, incarnation: 0 }
    }

    /// The host.
    pub fn host(self) -> HostId {
        self.host
    }

    /// Its incarnation, if it matters.
    pub fn incarnation(self) -> Option<u16> {
        Some(self.incarnation).filter(|number| *number > 0)
    }
}

/// Why a message was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No room now; the receiver makes room by polling.
    #[error("lane to host {to} is full: {needed} slots needed, {free} free", to = .to.0)]
    Full {
        /// The receiver.
        to: HostId,
        /// Slots that the message takes.
        needed: u64,
        /// Slots free now.
        free: u64,
    },
    /// Longer than any message can be.
    #[error("message of {len} bytes, at most {max} fit a lane")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The greatest length.
        max: usize,
    },
}

/// The sending end of a lane.
struct Sender {
    tail: u64,
    /// Head as last seen; the lane may be emptier.
    head: u64,
    frame: Vec<u8>,
}

/// The receiving end of a lane.
struct Receiver {
    head: u64,
}

/// One host's ends of all its lanes, shared by its workers.
pub struct Lanes {
    plan: Plan,
    host: HostId,
    incarnation: u16,
    slots: u64,
    slot_bytes: usize,
    senders: Vec<Latch<Sender>>,
    receivers: Vec<Latch<Receiver>>,
    /// For each host, 2^16 + the oldest incarnation whose messages count; 0: all count.
    oldest: [AtomicU32; MAX_HOSTS],
    damage: Noted,
}

impl Lanes {
    /// The ends of the lanes of the caller's host in its `incarnation`. Mail that waits is taken
    /// later, by [`Lanes::poll`]: some of it may be meant for this incarnation already.
    pub fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan, incarnation: u16) -> Lanes {
        let me = cx.host();
        let words = |from, to| (cx.load(tail_word(plan, from, to)), cx.load(head_word(plan, from, to)));
        let sender = |to| {
            let (tail, head) = words(me, to);
            Latch::new(Sender { tail, head, frame: Vec::new() })
        };
        let receiver = |from| {
            let (tail, head) = words(from, me);
            if cx.sabotaged("lanes.keep-early-mail") && tail != head {
                cx.store(head_word(plan, from, me), tail);
                return Latch::new(Receiver { head: tail });
            }
            Latch::new(Receiver { head })
        };
        let senders = plan.hosts().map(sender).collect();
        let receivers = plan.hosts().map(receiver).collect();
        Lanes {
            plan: plan.clone(),
            host: me,
            incarnation,
            slots: plan.config().lane_slots.into(),
            slot_bytes: plan.config().lane_slot_bytes as usize,
            senders,
            receivers,
            oldest: Default::default(),
            damage: Noted::default(),
        }
    }

    /// Greatest length of a message in bytes: what half a lane holds.
    pub fn max_message(&self) -> usize {
        self.slots as usize / 2 * self.slot_bytes - FRAME_BYTES
    }

    /// Sends `message` to another host, or says why not. Messages of one lane arrive in the order of these
    /// calls.
    pub fn try_send<F: Fabric>(
        &self,
        cx: &Cx<F>,
        addressee: Addressee,
        message: &[u8],
    ) -> Result<(), SendError> {
        match self.try_send_all(cx, addressee, [message]) {
            (_, Some(why)) => Err(why),
            (sent, None) => {
                debug_assert_eq!(sent, 1, "it was sent, or there is a reason");
                Ok(())
            }
        }
    }

    /// Sends messages to another host, as many as there is room for, at the price of one fence, one word and
    /// one ring of its bell; how many, and why not the next one.
    pub fn try_send_all<'m, F: Fabric>(
        &self,
        cx: &Cx<F>,
        addressee: Addressee,
        messages: impl IntoIterator<Item = &'m [u8]>,
    ) -> (usize, Option<SendError>) {
        let to = addressee.host;
        assert_ne!(to, self.host, "a host has no lane to itself");
        let mut sender = self.senders[usize::from(to.0)].lock(cx);
        let (mut sent, mut refused, first) = (0, None, sender.tail);
        for message in messages {
            match self.write_frame(cx, addressee, &mut sender, message) {
                Ok(()) => sent += 1,
                Err(why) => {
                    refused = Some(why);
                    break;
                }
            }
        }
        debug_assert_eq!(sent == 0, sender.tail == first, "what was sent is behind the tail");
        if sent > 0 {
            cx.fence();
            cx.store(tail_word(&self.plan, self.host, to), sender.tail);
            // Before another worker of this host moves the tail on: its store could become visible first; and
            // before the receiver is woken.
            cx.fence();
            if !cx.sabotaged("bells.ring-for-mail") {
                cx.ring(bell(&self.plan, to, Bell::Work));
            }
        }
        (sent, refused)
    }

    /// Writes a message behind those of the lane, and starts to write it back: the caller moves the tail.
    fn write_frame<F: Fabric>(
        &self,
        cx: &Cx<F>,
        addressee: Addressee,
        sender: &mut Sender,
        message: &[u8],
    ) -> Result<(), SendError> {
        let to = addressee.host;
        if message.len() > self.max_message() {
            return Err(SendError::TooLong { len: message.len(), max: self.max_message() });
        }
        let needed = (FRAME_BYTES + message.len()).div_ceil(self.slot_bytes) as u64;
        if self.free(sender) < needed {
            sender.head = cx.load(head_word(&self.plan, self.host, to));
        }
        let free = self.free(sender);
        if free < needed && !cx.sabotaged("lanes.spare-unread-slots") {
            return Err(SendError::Full { to, needed, free });
        }
        cx.spend(Work::Message, 1);
        let frame = Frame {
            len: message.len() as u32,
            incarnation: self.incarnation,
            meant_for: addressee.incarnation,
            lap: (sender.tail / self.slots) as u32,
        };
        sender.frame.clear();
        sender.frame.extend_from_slice(frame.as_bytes());
        sender.frame.extend_from_slice(message);
        let mut written = 0;
        for (at, len) in self.pieces(self.host, to, sender.tail, sender.frame.len()) {
            cx.write(at, &sender.frame[written..written + len]);
            cx.write_back(at, len);
            written += len;
        }
        debug_assert_eq!(written, sender.frame.len(), "a message is published whole before the tail moves");
        sender.tail = sender.tail.wrapping_add(needed);
        Ok(())
    }

    /// Takes all mail that has arrived, shows each message that is meant for this incarnation with its sender
    /// and the sender's incarnation, and returns how many were handled. The messages of one call come in
    /// order for each sender; two workers that poll at once may handle messages of one sender side by side,
    /// but a lane that another worker is emptying right now is skipped. `handle` runs outside all latches: it
    /// may send and poll. It knows of no message that is lost to damage ([`Lanes::damage`]).
    pub fn poll<F: Fabric>(&self, cx: &Cx<F>, mut handle: impl FnMut((HostId, u16), &[u8])) -> usize {
        let mut handled = 0;
        for from in self.others() {
            let Some((mail, mut at)) = self.take(cx, from) else { continue };
            let mut rest = &mail[..];
            while !rest.is_empty() {
                let (frame, _) = Frame::read_from_prefix(rest).expect("a slot holds a frame");
                let len = frame.len as usize;
                let slots = (FRAME_BYTES + len).div_ceil(self.slot_bytes);
                let lap = (at / self.slots) as u32;
                if frame.lap != lap {
                    self.damage.note(damaged("the lap of a slot in a lane", frame.lap.into(), lap.into()));
                    break;
                }
                if slots * self.slot_bytes > rest.len() {
                    self.damage.note(damaged("the length of a message", len as u64, rest.len() as u64));
                    break;
                }
                debug_assert!(slots > 0, "a frame takes a slot, so mail has an end");
                let is_mine = frame.meant_for == 0 || frame.meant_for == self.incarnation;
                let counts = is_mine || cx.sabotaged("lanes.own-incarnation-only");
                if counts && self.counts(from, frame.incarnation) {
                    cx.spend(Work::Message, 1);
                    handle((from, frame.incarnation), &rest[FRAME_BYTES..FRAME_BYTES + len]);
                    handled += 1;
                }
                rest = &rest[slots * self.slot_bytes..];
                at = at.wrapping_add(slots as u64);
            }
        }
        handled
    }

    /// The first damage of words or frames that this host has met. Messages may be lost since.
    pub fn damage(&self) -> Option<&PodError> {
        self.damage.first()
    }

    /// True when some lane has mail that no worker is taking: one sync load per other host.
    pub fn has_mail<F: Fabric>(&self, cx: &Cx<F>) -> bool {
        self.others().any(|from| {
            let receiver = self.receivers[usize::from(from.0)].try_lock();
            receiver.is_some_and(|r| cx.load(tail_word(&self.plan, from, self.host)) != r.head)
        })
    }

    /// From now on drops messages that `from` sent in an incarnation before `incarnation` (incarnations are
    /// compared as numbers that wrap). To be called before recovery hands the dead host's work to others.
    pub fn drop_before(&self, from: HostId, incarnation: u16) {
        self.oldest[usize::from(from.0)].store(1 << 16 | u32::from(incarnation), Ordering::Release);
    }

    fn counts(&self, from: HostId, incarnation: u16) -> bool {
        let oldest = self.oldest[usize::from(from.0)].load(Ordering::Acquire);
        oldest == 0 || (incarnation.wrapping_sub(oldest as u16) as i16) >= 0
    }

    fn others(&self) -> impl Iterator<Item = HostId> + use<> {
        let me = self.host;
        self.plan.hosts().filter(move |&h| h != me)
    }

    fn free(&self, sender: &Sender) -> u64 {
        // A head that is ahead of the tail is damaged: the lane is full for good.
        self.slots.saturating_sub(sender.tail.wrapping_sub(sender.head))
    }

    /// Copies out what has arrived in one lane: the bytes of whole slots, and the number of the first.
    fn take<F: Fabric>(&self, cx: &Cx<F>, from: HostId) -> Option<(Vec<u8>, u64)> {
        let mut receiver = self.receivers[usize::from(from.0)].try_lock()?;
        let tail = cx.load(tail_word(&self.plan, from, self.host));
        let head = receiver.head;
        if tail == head {
            return None;
        }
        let arrived = tail.wrapping_sub(head);
        if arrived > self.slots {
            self.damage.note(damaged("the tail of a lane", tail, head));
            return None;
        }
        let mut mail = vec![0; arrived as usize * self.slot_bytes];
        for (at, len) in self.pieces(from, self.host, head, mail.len()) {
            cx.invalidate(at, len);
        }
        cx.fence();
        let mut copied = 0;
        for (at, len) in self.pieces(from, self.host, head, mail.len()) {
            cx.read(at, &mut mail[copied..copied + len]);
            copied += len;
        }
        debug_assert_eq!(copied, mail.len(), "what the head moves over was copied out");
        receiver.head = tail;
        cx.store(head_word(&self.plan, from, self.host), tail);
        // As for the tail.
        cx.fence();
        Some((mail, head))
    }

    /// Where `len` bytes from slot number `slot` on lie: one piece, or two if they wrap (the second may be
    /// empty).
    fn pieces(&self, from: HostId, to: HostId, slot: u64, len: usize) -> [(DataAddr, usize); 2] {
        let ring = self.slots as usize * self.slot_bytes;
        debug_assert!(len <= ring && from != to, "{len} bytes in a ring of {ring}");
        let base = self.plan.data(Part::LaneSlots).byte(self.plan.pair(from, to) * ring as u64);
        let start = (slot % self.slots) as usize * self.slot_bytes;
        let first = len.min(ring - start);
        [(base.byte(start as u64), first), (base, len - first)]
    }
}

fn tail_word(plan: &Plan, from: HostId, to: HostId) -> SyncAddr {
    plan.sync(Part::LaneWords).line(plan.pair(from, to) * 2)
}

fn head_word(plan: &Plan, from: HostId, to: HostId) -> SyncAddr {
    plan.sync(Part::LaneWords).line(plan.pair(from, to) * 2 + 1)
}

#[cfg(test)]
mod tests;
