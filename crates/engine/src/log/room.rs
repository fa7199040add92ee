//! Room for a host's log on its storage: who may commit something, and who is refused because there is none.
//!
//! A record that is in a ring is committed, and has to reach the storage; so it is let into the ring only
//! when the file system has promised the space for it (a segment's space is taken in advance, ship.rs). A
//! full file system is met there, by somebody who has changed nothing yet, and never by a record on its way.
//!
//! ```text
//! space taken of the segment - its end = promised to records on their way + free + kept
//! kept = for transactions that leave less than they found + for marks
//! ```
//!
//! Invariants:
//! 1. `free` plus `kept` is never less than zero: what is in the rings, and a mark behind it, fits.
//! 2. A record is charged what it takes at most (a frame of its own, and a mark); what it took less is given
//!    back when it is shipped.
//! 3. Whoever is refused has changed nothing, and was promised nothing.
//!
//! Not here: files (ship.rs), and what is refused for want of memory (ring.rs).

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use liger_fabric::HostId;
use liger_pod::plan::MAX_HOSTS;

use super::segment::FRAME_HEAD_BYTES;

/// Protocol steps that a test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &[
    "log.promise",
    "log.refuse",
    "space.leave-segments",
    "space.marks-beside-checkpoints",
    "space.use-reserve",
];

/// How a host takes space for its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoomOptions {
    /// Space is taken so many bytes at a time.
    pub chunk_bytes: u64,
    /// Kept for marks: what other hosts have committed becomes durable although this one is full.
    pub marks_bytes: u64,
    /// Kept for transactions that leave less than they found.
    pub cleaning_bytes: u64,
    /// Most bytes that are kept beside the log for the next checkpoint, without which no segment goes.
    pub reserve_most_bytes: u64,
    /// What a reserve has at least.
    pub reserve_least_bytes: u64,
    /// Time between two looks at whether a full file system has room again.
    pub retry_ns: u64,
}

impl Default for RoomOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: 1 << 20,
            marks_bytes: 64 << 10,
            cleaning_bytes: 1 << 20,
            reserve_most_bytes: 256 << 20,
            reserve_least_bytes: 1 << 20,
            retry_ns: 100_000_000,
        }
    }
}

impl RoomOptions {
    /// For simulated pods.
    pub const SMALL: RoomOptions = RoomOptions {
        chunk_bytes: 4096,
        marks_bytes: 2048,
        cleaning_bytes: 1024,
        reserve_most_bytes: 0,
        reserve_least_bytes: 0,
        retry_ns: 2000,
    };

    /// Bytes that are never promised to a transaction like any other.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.marks_bytes + self.cleaning_bytes
    }
}

/// Why a transaction may not commit what it has changed: nothing has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// A host's storage is full.
    #[error("the storage of host {}'s log is full", .0.0)]
    Full(HostId),
    /// A host's log has ended.
    #[error("the log of host {} has ended", .0.0)]
    Ended(HostId),
}

/// Space that a record may take.
#[derive(Debug)]
#[must_use = "it is used by the record, or given back"]
pub struct Promise(u64);

impl Promise {
    /// True if a record of so many bytes may take it.
    pub(super) fn covers(&self, record_bytes: u64) -> bool {
        self.0 > record_bytes
    }
}

/// The room of one host, as its workers and its shipper share it.
#[derive(Debug)]
pub(super) struct LogRoom {
    /// Bytes that may still be promised; less than zero when some of what is kept is in use.
    free: AtomicI64,
    /// Most bytes that a worker waits for.
    lack: AtomicU64,
    /// 0: nobody is refused; else 1 + host, and [`ENDED`] if its log has ended.
    refusal: AtomicU8,
    options: RoomOptions,
    frame_bytes: u64,
    /// Bytes of the images of the last checkpoint, and what all hosts had logged when it began.
    images: AtomicU64,
    covered: AtomicU64,
}

const ENDED: u8 = 0x80;
// A host's number and one leaves that bit free.
const _: () = assert!(MAX_HOSTS < ENDED as usize);
/// More than any file system has.
const ENDLESS: i64 = i64::MAX / 4;

impl LogRoom {
    /// No room yet.
    pub(super) fn new(options: RoomOptions, frame_bytes: usize) -> Self {
        assert!(frame_bytes > 0, "a record is charged for its frames");
        assert!(i64::try_from(options.kept_bytes()).is_ok(), "{} bytes are kept", options.kept_bytes());
        Self {
            free: AtomicI64::new(-(options.kept_bytes() as i64)),
            lack: AtomicU64::new(0),
            refusal: AtomicU8::new(0),
            options,
            frame_bytes: frame_bytes as u64,
            images: AtomicU64::new(0),
            covered: AtomicU64::new(0),
        }
    }

    /// What a record of so many bytes takes at most: frames, padding, and the mark behind it.
    pub(super) fn charge(&self, record_bytes: u64) -> u64 {
        record_bytes + FRAME_HEAD_BYTES as u64 * (2 + record_bytes / self.frame_bytes)
    }

    /// Promises room for a record; `None` if there is none now. `shrinks`: it leaves less than it found.
    pub(super) fn promise(&self, record_bytes: u64, shrinks: bool) -> Option<Promise> {
        self.promise_down_to(if shrinks { -(self.options.cleaning_bytes as i64) } else { 0 }, record_bytes)
    }

    /// Promises room for a record as long as so much is left (for a test: whatever is left).
    pub(super) fn promise_down_to(&self, least: i64, record_bytes: u64) -> Option<Promise> {
        debug_assert!(least <= 0, "of what is free nothing is kept, and not {least}");
        let charge = self.charge(record_bytes);
        debug_assert!(charge > record_bytes && charge < ENDLESS as u64, "{charge} for {record_bytes} bytes");
        let taken = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
            Some(free - charge as i64).filter(|left| *left >= least)
        });
        taken.is_ok().then_some(Promise(charge))
    }

    /// Takes back what was promised to a record that does not come.
    pub(super) fn take_back(&self, promise: Promise) {
        self.add(promise.0 as i64);
    }

    /// Says that a record needs room.
    pub(super) fn want(&self, record_bytes: u64) {
        self.lack.fetch_max(self.charge(record_bytes), Ordering::Relaxed);
    }

    /// The most that somebody waits for; nobody does behind this.
    pub(super) fn take_lack(&self) -> u64 {
        if self.lack.load(Ordering::Relaxed) == 0 { 0 } else { self.lack.swap(0, Ordering::Relaxed) }
    }

    /// How much space is taken at a time.
    pub(super) fn chunk_bytes(&self) -> u64 {
        self.options.chunk_bytes
    }

    /// Bytes that may still be promised.
    pub(super) fn free(&self) -> i64 {
        self.free.load(Ordering::Relaxed)
    }

    /// There are so many bytes more (or less).
    pub(super) fn add(&self, bytes: i64) {
        self.free.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes all space ahead back, of which there are `ahead` bytes, if nothing of it is promised: nobody is
    /// promised any until there is some again.
    pub(super) fn withdraw(&self, ahead: u64) -> bool {
        let kept = self.options.kept_bytes() as i64;
        let (unused, none) = (ahead as i64 - kept, -kept);
        self.free.compare_exchange(unused, none, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The file system promises nothing: who writes finds out.
    pub(super) fn set_endless(&self) {
        self.free.store(ENDLESS, Ordering::Relaxed);
    }

    /// Who is refused from now on, and why.
    pub(super) fn refuse(&self, refusal: Option<Refusal>) {
        let code = match refusal {
            None => 0,
            Some(Refusal::Full(host)) => 1 + host.0,
            Some(Refusal::Ended(host)) => ENDED | (1 + host.0),
        };
        if self.refusal.load(Ordering::Relaxed) != code {
            self.refusal.store(code, Ordering::SeqCst);
        }
    }

    /// Why nothing may be committed; `shrinks`: what leaves less than it found may be, on storage that is
    /// full.
    pub(super) fn refusal(&self, shrinks: bool) -> Option<Refusal> {
        match self.refusal.load(Ordering::Relaxed) {
            0 => None,
            code if code & ENDED != 0 => Some(Refusal::Ended(HostId((code & !ENDED) - 1))),
            _ if shrinks => None,
            code => Some(Refusal::Full(HostId(code - 1))),
        }
    }

    /// A checkpoint counts: its images have so many bytes, and it has all that the log had seen up to
    /// `covered`.
    pub(super) fn note_checkpoint(&self, images: u64, covered: u64) {
        self.images.store(images, Ordering::Relaxed);
        let before = self.covered.swap(covered, Ordering::Relaxed);
        assert!(before <= covered, "a checkpoint of what was logged up to {covered}, behind one of {before}");
    }

    /// The images of the next checkpoint will have so many bytes more.
    pub(super) fn expect_images(&self, bytes: u64) {
        self.images.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What the reserve for the next checkpoint should have, now that the pod has logged so many bytes: that
    /// one's images will have what the last ones had, and what has come since, from whichever host, which
    /// takes less than twice as much in an image as in the log.
    pub(super) fn reserve_bytes(&self, logged: u64) -> u64 {
        let RoomOptions { reserve_most_bytes, reserve_least_bytes, chunk_bytes, .. } = self.options;
        let since = logged.saturating_sub(self.covered.load(Ordering::Relaxed));
        let next = self.images.load(Ordering::Relaxed) + 2 * since + reserve_least_bytes;
        let bytes = next.next_multiple_of(chunk_bytes).min(reserve_most_bytes);
        debug_assert!(bytes >= reserve_least_bytes.min(reserve_most_bytes), "a reserve of {bytes}");
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: RoomOptions = RoomOptions {
        chunk_bytes: 1000,
        marks_bytes: 100,
        cleaning_bytes: 300,
        reserve_most_bytes: 5000,
        reserve_least_bytes: 10,
        retry_ns: 1,
    };

    #[test]
    fn what_is_kept_is_for_those_that_leave_less() {
        let room = LogRoom::new(OPTIONS, 200);
        assert!(room.promise(8, true).is_none(), "nothing was taken yet");
        room.add(400 + 208);
        let promise = room.promise(104, false).expect("room");
        assert_eq!((room.free(), room.promise(16, false).is_none()), (8, true));
        room.take_back(promise);
        let _used = room.promise(104, false).expect("the same room");
        let _kept = room.promise(104, true).expect("some of what is kept");
        assert_eq!(room.free(), 8 - 200);
        assert!(room.promise(104, true).is_none(), "the rest is for marks");
        assert_eq!(room.take_lack(), 0);
        room.want(104);
        room.want(8);
        assert_eq!((room.take_lack(), room.take_lack()), (200, 0));
    }

    #[test]
    fn who_is_refused_is_told_why() {
        let room = LogRoom::new(OPTIONS, 200);
        room.add(900);
        let promise = room.promise(104, false).expect("room");
        assert!(!room.withdraw(900), "a record is on its way");
        room.take_back(promise);
        assert!(room.withdraw(900) && room.promise(8, true).is_none());
        assert_eq!(room.refusal(false), None);
        room.refuse(Some(Refusal::Full(HostId(15))));
        assert_eq!((room.refusal(false), room.refusal(true)), (Some(Refusal::Full(HostId(15))), None));
        room.refuse(Some(Refusal::Ended(HostId(0))));
        assert_eq!(room.refusal(true), Some(Refusal::Ended(HostId(0))));
        room.refuse(None);
        assert_eq!(room.refusal(false), None);
    }

    #[test]
    fn the_reserve_grows_with_the_log() {
        let room = LogRoom::new(OPTIONS, 200);
        assert_eq!(room.reserve_bytes(0), 1000);
        assert_eq!(room.reserve_bytes(700), 2000);
        room.note_checkpoint(1500, 700);
        assert_eq!((room.reserve_bytes(700), room.reserve_bytes(9000)), (2000, 5000));
    }
}
