//! Rings of the log in shared memory: one worker appends, the host's shipper reads and gives room back.
//!
//! ```text
//! sync line   0 tail   20..64 bytes ever appended / 8   0..20 bytes of the last record / 8
//!             8 head   bytes ever shipped and synced
//! data        a power of two of bytes; byte p of the stream is at p % len
//! ```
//!
//! Invariants:
//! 1. `head <= tail <= head + len`; neither ever goes back, not even when a host joins again.
//! 2. Every byte before the tail was written back before the tail said so.
//! 3. The tail is in shared memory before `append` returns: before the transaction changes a shared row, and
//!    before its worker shows that it no longer runs (host memory, whose stores no fence of the pod orders).
//! 4. The last record stays in the ring until the next one is whole: a record is at most half as long as the
//!    ring. Its transaction may not have changed all its rows yet; all earlier ones have, for a worker runs
//!    one at a time. So whoever resolves a dead host's locks needs the last record of each ring and no other.
//! 5. One worker writes tail and bytes, one worker of the same host (the shipper) writes the head.
//!
//! Not here: what the bytes mean (record.rs) and when they are shipped (ship.rs).

use liger_fabric::{Cx, DataAddr, Fabric, HostId, SyncAddr, WorkerId};
use liger_pod::plan::Plan;

use super::record::{LONG_UNIT, Origin, RecordWriter, SHORT_MAX};
use super::room::Refusal;
use crate::txn::TxnError;

/// Protocol steps that a test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &["log.wait-for-room"];

/// Why a record was not appended. Nothing happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// It is longer than half the ring.
    #[error("the record has {len} bytes, at most {most} fit: make log_ring_bytes larger")]
    TooLong {
        /// Bytes of the record.
        len: u64,
        /// Bytes of the longest record: half of the ring, and 256 MiB.
        most: u64,
    },
    /// Nothing may be committed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There was no room, and the caller did not want to wait any longer.
    #[error("no room for {len} bytes in the log's ring")]
    NoRoom {
        /// Bytes of the record.
        len: u64,
    },
}

impl From<AppendError> for TxnError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::TooLong { len, most } => Self::TooLarge { bytes: len, limit_bytes: most },
            AppendError::Refused(Refusal::Full(host)) => Self::LogFull { host: host.0 },
            AppendError::Refused(Refusal::Ended(_)) | AppendError::NoRoom { .. } => Self::LogFailed,
        }
    }
}

/// Bits of the tail word that hold the length of the last record: in words, or, if the highest of them is
/// set, in units of a long record.
const LAST_BITS: u32 = 20;
const LONG: u64 = 1 << (LAST_BITS - 1);

// Every length that is no multiple of the unit of long records is told in words.
const _: () = assert!(SHORT_MAX as u64 <= 8 * LONG && SHORT_MAX.is_multiple_of(LONG_UNIT));

/// A value of the tail word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Tail {
    /// Bytes ever appended.
    end: u64,
    /// Bytes of the last record.
    last: u64,
}

impl Tail {
    fn encode(self) -> u64 {
        debug_assert!(self.end.is_multiple_of(8) && self.last.is_multiple_of(8));
        debug_assert!(self.last <= self.end, "the last record was appended: {self:?}");
        let last = match self.last / 8 {
            short if short < LONG => short,
            _ => {
                debug_assert!(self.last.is_multiple_of(LONG_UNIT as u64), "a long record of {self:?}");
                LONG | (self.last / LONG_UNIT as u64)
            }
        };
        let word = ((self.end / 8) << LAST_BITS) | last;
        debug_assert_eq!(Self::decode(word), self, "what is written is read");
        word
    }

    fn decode(word: u64) -> Self {
        let last = word & (LONG - 1);
        let unit = if word & LONG != 0 { LONG_UNIT as u64 } else { 8 };
        Self { end: (word >> LAST_BITS) * 8, last: last * unit }
    }
}

/// Where a ring lies.
#[derive(Clone, Copy, Debug)]
struct RingExtent {
    line: SyncAddr,
    bytes: DataAddr,
    len: u64,
}

impl RingExtent {
    fn of(plan: &Plan, host: HostId, worker: WorkerId) -> Self {
        let (bytes, len) = plan.ring_bytes(host, worker);
        assert!(len.is_power_of_two() && len.is_multiple_of(8), "a ring of {len} bytes");
        Self { line: plan.ring_line(host, worker), bytes, len }
    }

    fn tail(&self) -> SyncAddr {
        self.line
    }

    /// Bytes of the longest record.
    fn longest(&self) -> u64 {
        (self.len / 2).min((LONG - 1) * LONG_UNIT as u64)
    }

    fn head(&self) -> SyncAddr {
        self.line.word(1)
    }

    /// The one or two pieces of the ring that hold `len` bytes of the stream from `position`: where each
    /// lies, and which of the `len` bytes it holds.
    fn pieces(&self, position: u64, len: u64) -> impl Iterator<Item = (DataAddr, std::ops::Range<usize>)> {
        assert!(len <= self.len, "{len} bytes of a ring of {}", self.len);
        let at = position & (self.len - 1);
        let first = len.min(self.len - at);
        let pieces = [(self.bytes.byte(at), 0..first as usize), (self.bytes, first as usize..len as usize)];
        pieces.into_iter().filter(|(_, range)| !range.is_empty())
    }
}

/// A worker's end of its ring.
#[derive(Debug)]
pub struct Ring {
    extent: RingExtent,
    /// What the words were when we last looked; the tail is ours.
    tail: u64,
    head: u64,
}

impl Ring {
    /// The ring of this context's worker, as its last incarnation left it.
    pub fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan, worker: WorkerId) -> Self {
        let extent = RingExtent::of(plan, cx.host(), worker);
        let (tail, head) = (Tail::decode(cx.load(extent.tail())).end, cx.load(extent.head()));
        assert!(head <= tail && tail <= head + extent.len, "ring of {worker:?}: head {head}, tail {tail}");
        Self { extent, tail, head }
    }

    /// Where the next record begins in the ring's stream.
    pub(super) fn position(&self) -> u64 {
        self.tail
    }

    /// Bytes of the longest record.
    pub(super) fn longest(&self) -> u64 {
        self.extent.longest()
    }

    /// The bytes of a record.
    ///
    /// # Errors
    /// If it can never fit.
    pub(super) fn check_length(&self, record: &RecordWriter) -> Result<u64, AppendError> {
        let (len, most) = (record.len() as u64, self.extent.longest());
        if len > most { Err(AppendError::TooLong { len, most }) } else { Ok(len) }
    }

    /// Appends the record in `record`, whose changes make version `llsn` (0: it is a fragment, whose changes
    /// do not count yet), and returns its position. While
    /// there is no room, `wait` is called; it says whether to wait on.
    ///
    /// # Errors
    /// If the record can never fit, or `wait` gives up.
    pub fn append<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        record: &mut RecordWriter,
        llsn: u64,
        origin: Origin,
        mut wait: impl FnMut(&Cx<F>) -> bool,
    ) -> Result<u64, AppendError> {
        let len = self.check_length(record)?;
        debug_assert!(origin.host == cx.host(), "{origin:?} appends on host {}", cx.host().0);
        while self.tail + len - self.head > self.extent.len && !cx.sabotaged("log.wait-for-room") {
            let head = cx.load(self.extent.head());
            assert!(self.head <= head && head <= self.tail, "head {head} of {self:?}");
            if head == self.head && !wait(cx) {
                return Err(AppendError::NoRoom { len });
            }
            self.head = head;
        }
        let position = self.tail;
        let bytes = record.finish(llsn, position, origin);
        debug_assert_eq!(bytes.len() as u64, len, "room was found for so many bytes");
        for (at, range) in self.extent.pieces(position, len) {
            cx.write(at, &bytes[range.clone()]);
            cx.write_back(at, range.len());
        }
        cx.fence();
        self.tail += len;
        cx.store(self.extent.tail(), Tail { end: self.tail, last: len }.encode());
        // Committed (unless it is a fragment), and everybody must see it before anything else that the
        // transaction does.
        cx.fence();
        Ok(position)
    }
}

/// Reads a ring: the shipper of its host, or whoever recovers the host.
#[derive(Clone, Copy, Debug)]
pub struct RingReader {
    extent: RingExtent,
}

impl RingReader {
    /// A reader of the ring of `worker` of `host`.
    pub fn new(plan: &Plan, host: HostId, worker: WorkerId) -> Self {
        Self { extent: RingExtent::of(plan, host, worker) }
    }

    /// Bytes ever appended.
    pub fn tail<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        Tail::decode(cx.load(self.extent.tail())).end
    }

    /// Head, tail, and bytes of the last record, whatever they are.
    pub(super) fn words<F: Fabric>(&self, cx: &Cx<F>) -> (u64, u64, u64) {
        let Tail { end, last } = Tail::decode(cx.load(self.extent.tail()));
        (self.head(cx), end, last)
    }

    /// Bytes of the longest record.
    pub(super) fn longest(&self) -> u64 {
        self.extent.longest()
    }

    /// The bytes of the last record, if there is one; the ring's host is dead.
    pub fn last_record<F: Fabric>(&self, cx: &Cx<F>) -> Option<Vec<u8>> {
        let Tail { end, last } = Tail::decode(cx.load(self.extent.tail()));
        let mut bytes = Vec::new();
        self.read(cx, end - last, end, &mut bytes);
        (last > 0).then_some(bytes)
    }

    /// The records from `position` of the stream on, without those that are on storage (but for the last
    /// one): where they begin, and their bytes. The ring's host is dead.
    pub fn bytes_from<F: Fabric>(&self, cx: &Cx<F>, position: u64) -> (u64, Vec<u8>) {
        let ((head, tail, last), mut bytes) = (self.words(cx), Vec::new());
        // What is before the head may be overwritten in part, by a record that did not get its tail; but not
        // the last one, whoever has shipped it meanwhile.
        let from = head.min(tail - last).max(position);
        self.read(cx, from, tail, &mut bytes);
        (from, bytes)
    }

    /// Bytes ever shipped and synced.
    pub fn head<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        cx.load(self.extent.head())
    }

    /// Bytes that the ring has room for.
    pub fn ring_bytes(&self) -> u64 {
        self.extent.len
    }

    /// Adds the stream's bytes `[from, to)` to `out`, on the host whose ring it is.
    pub fn read_own<F: Fabric>(&self, cx: &Cx<F>, from: u64, to: u64, out: &mut Vec<u8>) {
        debug_assert!(from <= to, "bytes {from} to {to} of a stream");
        let start = out.len();
        out.resize(start + (to - from) as usize, 0);
        for (at, range) in self.extent.pieces(from, to - from) {
            cx.read(at, &mut out[start..][range]);
        }
    }

    /// Adds the stream's bytes `[from, to)` to `out`, on any host. The ring's own host appends no more.
    pub fn read<F: Fabric>(&self, cx: &Cx<F>, from: u64, to: u64, out: &mut Vec<u8>) {
        for (at, range) in self.extent.pieces(from, to - from) {
            cx.invalidate(at, range.len());
        }
        cx.fence();
        self.read_own(cx, from, to, out);
    }

    /// Gives the room of everything before `position` back; it is on storage. Only the shipper.
    pub(super) fn release<F: Fabric>(&self, cx: &Cx<F>, position: u64) {
        debug_assert!(position.is_multiple_of(8), "the head moves to the end of a record, not {position}");
        cx.store(self.extent.head(), position);
    }
}

/// The rings of all hosts.
pub(super) fn all_rings(plan: &Plan) -> Vec<RingReader> {
    let workers = || (0..plan.config().workers).map(WorkerId);
    plan.hosts().flat_map(|host| workers().map(move |worker| RingReader::new(plan, host, worker))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::record::SHORT_MAX;
    use super::*;

    #[test]
    fn a_tail_holds_short_and_long_lengths() {
        let (short, unit) = (SHORT_MAX as u64, LONG_UNIT as u64);
        for last in [0, 8, short - 8, short, short + unit, (LONG - 1) * unit] {
            let tail = Tail { end: (1 << 46) + last, last };
            assert_eq!(Tail::decode(tail.encode()), tail);
        }
    }
}
