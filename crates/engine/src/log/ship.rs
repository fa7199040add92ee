//! Shipping: what the rings of a host hold goes to its disk, and then an epoch is durable there.
//!
//! One turn, in this order: space is taken if some is wanted (space.rs); the epoch moves on if somebody waits
//! for it; the epoch is read, then what the workers show, then the tails; bytes and mark are written and
//! synced; the heads move; the durable epoch is told.
//!
//! Invariants:
//! 1. A mark of epoch e is behind every record of e or before: nobody shows such an epoch any more, the tails
//!    were read after that, and all before them is in front of the mark.
//! 2. Heads and the durable epoch never say more than what a successful sync covered.
//! 3. After a failed call nothing is written, released or told any more, unless there was no room: then
//!    nothing was written, and the same bytes are written at the same place when there is.
//! 4. A new segment begins only when the one before is synced to its end.
//! 5. Segments with fragments of a transaction are needed as long as the one with its last record; while that
//!    has not come, nobody says that they are not.
//!
//! Not here: who calls it (one worker of the host at a time), and which hosts are members.

mod pace;

use std::sync::Arc;

use liger_fabric::disk::{Disk, DiskError};
use liger_fabric::{Cx, Fabric, HostId, WorkerId};
use liger_pod::plan::Plan;

use super::closed::ClosedSegments;
use super::epoch::LogClock;
use super::fragments::OpenFragments;
pub use super::options::LogOptions;
use super::record::{EXTENT_BYTES, epoch_of, extent_of, llsn_of, step_over, u32_at};
use super::ring::{RingReader, all_rings};
use super::room::LogRoom;
use super::segment::{FRAME_HEAD_BYTES, FrameKind, LogPosition, SEGMENT_HEAD_BYTES, SegmentHead};
use super::space::Space;
pub use super::state::{LogFailure, LogState, ShipCounts};
pub(super) use super::writers::Writer;
use super::writers::{SUCCESSORS, secure_end};
use crate::files::{segment_name, segment_number};

/// Protocol steps that a test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &[
    "log.heed-active",
    "log.tails-after-active",
    "log.head-after-sync",
    "log.durable-after-sync",
    "log.sync-last-incarnation",
    "log.first-record",
    "log.write-again",
    "log.keep-fragments",
];

/// Time between two looks of a shipper that anybody may ask for something at any time.
pub const WATCH_NS: u64 = 50_000;

/// Ships one host's rings.
pub struct Shipper {
    /// Whose log it is: the caller's, or a dead host's.
    host: HostId,
    options: LogOptions,
    disk: Disk,
    head: SegmentHead,
    space: Space,
    room: Arc<LogRoom>,
    synced: LogPosition,
    /// No record so far is of a later epoch.
    newest: u64,
    closed: ClosedSegments,
    rings: Vec<RingReader>,
    /// Those of all hosts, for how much the pod has logged.
    pod_rings: Vec<RingReader>,
    heads: Vec<u64>,
    /// Up to where each ring is in frames: further than its head between a turn that found no room and the
    /// next.
    framed: Vec<u64>,
    /// Where the first record behind that begins.
    next_records: Vec<u64>,
    /// What each ring has in the log of a transaction that has not ended yet.
    open: Vec<OpenFragments>,
    /// What the records in these frames were charged, less what the frames take.
    overcharged: i64,
    durable: u64,
    /// The last bytes are not yet known to be synced by anything behind them.
    open_end: bool,
    /// The epoch when we last looked, and since when it is that.
    epoch: u64,
    epoch_since_ns: u64,
    synced_at_ns: u64,
    failure: Option<LogFailure>,
    /// There was no room where none had been promised: the frames wait.
    stuck: Option<DiskError>,
    counts: ShipCounts,
    /// Bytes that the last epoch brought.
    epoch_bytes: u64,
    /// The tails at the last look, and when they were seen to have moved.
    seen: Vec<u64>,
    seen_ns: u64,
    /// Frames that are not written yet.
    frames: Vec<u8>,
}

/// What one look at the workers found.
struct Look {
    /// Nothing of this epoch or before will still be appended beyond `tails`.
    target: u64,
    tails: Vec<u64>,
}

impl Shipper {
    /// Starts a new segment behind those on the disk.
    ///
    /// # Errors
    /// If the disk fails.
    pub(super) fn new<F: Fabric>(
        cx: &Cx<F>,
        plan: &Plan,
        host: HostId,
        clock: &LogClock,
        writer: Writer,
        disk: &Disk,
        options: LogOptions,
    ) -> Result<Self, LogFailure> {
        let mut numbers: Vec<u32> = disk.list(cx)?.iter().filter_map(|name| segment_number(name)).collect();
        numbers.sort_unstable();
        debug_assert!(numbers.is_sorted_by(|a, b| a < b), "one file a segment: {numbers:?}");
        let newest = numbers.last().copied().unwrap_or(0);
        let LogOptions { pod, generation, .. } = options;
        let (previous_end, mark) = secure_end(cx, disk, (pod, host), &numbers)?;
        // Not more than the pod was told: what had been shipped when the host died, and the rings were not
        // told of, is shipped again, behind this.
        let mark = mark.min(clock.durable(cx, host));
        let number = newest + 1;
        let incarnation = writer.name(number);
        let head = SegmentHead { pod, host, incarnation, number, generation, previous_end, mark };
        let room = Arc::new(LogRoom::new(options.room, options.frame_bytes));
        let goes_on = matches!(writer, Writer::Own(_));
        let space = Space::start(cx, disk, &head, options.room, room.clone(), goes_on)?;
        assert_eq!(space.end(), SEGMENT_HEAD_BYTES as u64, "a segment begins with its head");
        let rings: Vec<_> =
            (0..plan.config().workers).map(|w| RingReader::new(plan, host, WorkerId(w))).collect();
        let rings_at: Vec<u64> = rings.iter().map(|ring| ring.head(cx)).collect();
        let epoch = clock.now(cx);
        let mut closed = ClosedSegments::default();
        for number in numbers {
            closed.push(number, epoch, disk.open(cx, &segment_name(number))?.len(cx)?);
        }
        Ok(Self {
            host,
            options,
            disk: disk.clone(),
            head,
            synced: LogPosition { segment: number, byte: space.end() },
            space,
            room,
            newest: epoch,
            closed,
            heads: rings_at.clone(),
            framed: rings_at.clone(),
            next_records: rings_at.clone(),
            open: vec![OpenFragments::default(); rings.len()],
            overcharged: 0,
            rings,
            pod_rings: all_rings(plan),
            durable: mark,
            open_end: false,
            epoch,
            epoch_since_ns: cx.now_ns(),
            synced_at_ns: cx.now_ns(),
            failure: None,
            stuck: None,
            counts: ShipCounts::default(),
            epoch_bytes: 0,
            seen: rings_at,
            seen_ns: 0,
            frames: Vec::new(),
        })
    }

    /// One turn; returns for how long the next one will find nothing to do, as far as can be known now; 0 if
    /// this one wrote something. `members`: bit n, host n.
    ///
    /// # Errors
    /// From the first failure of the disk on, always that.
    pub(super) fn step<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        clock: &LogClock,
        members: u16,
        may_take: bool,
    ) -> Result<u64, LogFailure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        match self.turn(cx, clock, members, may_take) {
            Ok(rest_ns) => {
                self.stuck = None;
                Ok(if self.space.full().is_some() {
                    rest_ns.min(self.options.room.retry_ns)
                } else {
                    rest_ns
                })
            }
            Err(LogFailure::Full(error)) => {
                self.stuck = Some(error);
                Ok(self.options.room.retry_ns)
            }
            Err(failure) => {
                self.failure = Some(failure.clone());
                Err(failure)
            }
        }
    }

    fn turn<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        clock: &LogClock,
        members: u16,
        may_take: bool,
    ) -> Result<u64, LogFailure> {
        let logged = || self.pod_rings.iter().map(|ring| ring.tail(cx)).sum();
        self.space.make(cx, logged, may_take)?;
        if !self.frames.is_empty() {
            self.write(cx)?;
        }
        self.tick(cx, clock);
        let look = self.look(cx, clock);
        let pressing = clock.take_room_wanted() || self.pressing(&look.tails);
        self.counts.room_turns += u64::from(pressing);
        let mark = if look.target > self.durable {
            Some(look.target)
        } else if pressing && self.heads != look.tails {
            None
        } else if self.open_end && self.is_mark_due(cx, &look.tails) {
            Some(self.durable)
        } else {
            return Ok(self.rest_ns(cx, clock, look.tails));
        };
        // The next one may have less room: on storage that is full, what this one had left was given back.
        if self.is_synced() && self.space.end() + self.bytes_of(&look.tails) > self.options.segment_bytes {
            self.rotate(cx)?;
        }
        if self.framed == look.tails && !self.has_room_for_mark() {
            return Ok(self.options.room.retry_ns);
        }
        clock.set_idle(false);
        let pod_durable = clock.pod_durable(cx, members);
        // The others may have gone on without this host, if they have ruled it out: it is no member then.
        let mark = mark.map(|epoch| FrameKind::Mark { epoch, pod_durable: pod_durable.min(epoch) });
        let before = self.durable;
        let shipped = self.ship(cx, clock, &look.tails, mark);
        // Whoever is last of all members wakes those who wait; of two at once, the later one sees the other.
        if self.durable > before && clock.pod_durable(cx, members) >= self.durable {
            clock.wake_waiting(cx);
        }
        shipped.map(|()| 0)
    }

    /// True if the segment is synced to its end: another one may begin.
    fn is_synced(&self) -> bool {
        self.synced == LogPosition { segment: self.head.number, byte: self.space.end() }
    }

    /// A mark alone is charged to nobody: it takes of what is kept for it.
    fn has_room_for_mark(&self) -> bool {
        let left = self.room.free() + self.options.room.kept_bytes() as i64;
        left >= FRAME_HEAD_BYTES as i64
    }

    /// Ends the epoch if somebody here waits for that and it has lasted long enough.
    fn tick<F: Fabric>(&mut self, cx: &Cx<F>, clock: &LogClock) {
        let (epoch, now_ns) = (clock.now(cx), cx.now_ns());
        if epoch != self.epoch {
            (self.epoch, self.epoch_since_ns) = (epoch, now_ns);
        }
        let lasted_ns = now_ns.saturating_sub(self.epoch_since_ns);
        if clock.wanted() >= epoch && lasted_ns >= self.epoch_ns() && clock.tick(cx, epoch) {
            self.counts.ticks += 1;
            // It begins now, not when what the last one has left is on storage.
            (self.epoch, self.epoch_since_ns) = (epoch + 1, now_ns);
        }
    }

    fn look<F: Fabric>(&self, cx: &Cx<F>, clock: &LogClock) -> Look {
        let tails = || self.rings.iter().map(|ring| ring.tail(cx)).collect();
        let early = cx.sabotaged("log.tails-after-active").then(tails);
        let epoch = clock.now(cx);
        let oldest = if cx.sabotaged("log.heed-active") { u64::MAX } else { clock.oldest_active() };
        Look { target: epoch.min(oldest) - 1, tails: early.unwrap_or_else(tails) }
    }

    fn ship<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        clock: &LogClock,
        tails: &[u64],
        mark: Option<FrameKind>,
    ) -> Result<(), LogFailure> {
        let epoch = match mark {
            Some(FrameKind::Mark { epoch, .. }) => Some(epoch),
            _ => None,
        };
        let fresh = self.heads != tails || epoch != Some(self.durable);
        // Whatever is before the tails was appended by now.
        let newest = clock.now(cx);
        debug_assert!(epoch.is_none_or(|epoch| epoch < newest), "a mark of {epoch:?} in {newest}");
        self.frame_rings(cx, tails, newest)?;
        debug_assert_eq!(self.framed, tails, "all records before the tails are in front of the mark");
        if let Some(kind) = mark {
            self.put(kind, |_| ());
        }
        if cx.sabotaged("log.head-after-sync") {
            self.release(cx, tails);
        }
        self.write_and_sync(cx)?;
        let bytes = self.heads.iter().zip(tails).map(|(head, tail)| tail - head).sum();
        self.room.add(std::mem::take(&mut self.overcharged));
        self.release(cx, tails);
        if let Some(epoch) = epoch.filter(|&epoch| epoch > self.durable) {
            self.durable = epoch;
            self.epoch_bytes = bytes;
            clock.publish(cx, self.host, epoch);
        } else {
            // Whoever waits for room in a ring sees it now, and not when something else is told.
            cx.fence();
        }
        self.open_end = fresh;
        debug_assert!(self.frames.is_empty() && self.is_synced(), "all that was told is on storage");
        Ok(())
    }

    /// Bytes that one turn appends for everything up to these tails, and a mark.
    fn bytes_of(&self, tails: &[u64]) -> u64 {
        let (head, most) = (FRAME_HEAD_BYTES as u64, self.options.frame_bytes as u64);
        let of_ring = |(tail, from): (&u64, &u64)| tail - from + head * (tail - from).div_ceil(most);
        tails.iter().zip(&self.framed).map(of_ring).sum::<u64>() + head
    }

    /// Writes the bytes of all rings up to these tails, a few frames at a time. No record there is of an
    /// epoch later than `newest`.
    fn frame_rings<F: Fabric>(&mut self, cx: &Cx<F>, tails: &[u64], newest: u64) -> Result<(), LogFailure> {
        let (most, incarnation, room) = (self.options.frame_bytes, self.head.incarnation, self.room.clone());
        for (worker, &tail) in tails.iter().enumerate() {
            let ring = self.rings[worker];
            let mut next_record = self.next_records[worker];
            debug_assert!(next_record >= self.framed[worker], "a record begins before it is framed");
            for position in (self.framed[worker]..tail).step_by(most) {
                let to = tail.min(position + most as u64);
                let told = if cx.sabotaged("log.first-record") { position } else { next_record };
                let first = told.min(to) - position;
                let kind =
                    FrameKind::Records { worker: worker as u8, incarnation, position, first: first as u32 };
                let (own, mut charged, mut epoch) = (incarnation < SUCCESSORS, 0, self.newest);
                let (mut open, segment, mut ended) = (self.open[worker], self.head.number, Vec::new());
                self.put(kind, |frame| {
                    let start = frame.len();
                    let read = |from, to, out: &mut Vec<u8>| match own {
                        true => ring.read_own(cx, from, to, out),
                        false => ring.read(cx, from, to, out),
                    };
                    read(position, to, frame);
                    let each = |at, record: &[u8]| {
                        charged += room.charge(u32_at(record, 0).into());
                        epoch = epoch.max(llsn_of(record).map_or(newest, epoch_of));
                        let mut head = Vec::new();
                        let extent = extent_of(record).or_else(|| {
                            // The frame ends within its head.
                            let from = position + at;
                            read(from, tail.min(from + EXTENT_BYTES as u64), &mut head);
                            extent_of(&head)
                        });
                        let extent = extent.expect("records before the tail are whole");
                        if let Some(first) = open.note(extent, position + at, segment) {
                            // All that are before the tail were appended by now.
                            ended.push((first, llsn_of(record).map_or(newest, epoch_of)));
                        }
                    };
                    let behind = step_over(&frame[start..], next_record - position, each);
                    next_record = position.saturating_add(behind);
                });
                self.overcharged += charged as i64;
                self.newest = epoch;
                (self.framed[worker], self.next_records[worker]) = (to, next_record);
                self.open[worker] = open;
                if !ended.is_empty() && !cx.sabotaged("log.keep-fragments") {
                    ended.into_iter().for_each(|(first, epoch)| self.closed.raise(first, epoch));
                }
                if self.frames.len() >= most {
                    self.write(cx)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a frame to those that wait to be written; `fill` adds its payload.
    fn put(&mut self, kind: FrameKind, fill: impl FnOnce(&mut Vec<u8>)) {
        if let FrameKind::Mark { epoch, pod_durable } = kind {
            assert!(pod_durable <= epoch, "the pod has {pod_durable}, and this host only {epoch}");
        }
        let before = self.frames.len();
        let at = self.space.end() + before as u64;
        self.head.frames().encode(at, kind, self.synced, &mut self.frames, fill);
        self.overcharged -= (self.frames.len() - before) as i64;
        self.counts.frames += 1;
    }

    fn write<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), LogFailure> {
        let written = self.space.write(cx, &self.frames);
        if written.is_ok() || cx.sabotaged("log.write-again") {
            self.counts.bytes += self.frames.len() as u64;
            self.frames.clear();
        }
        Ok(written?)
    }

    fn write_and_sync<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), LogFailure> {
        self.write(cx)?;
        let start_ns = cx.now_ns();
        if !cx.sabotaged("log.durable-after-sync") {
            self.space.sync(cx)?;
        }
        self.synced_at_ns = cx.now_ns();
        self.counts.syncs += 1;
        self.counts.sync_ns += self.synced_at_ns.saturating_sub(start_ns);
        self.synced = LogPosition { segment: self.head.number, byte: self.space.end() };
        Ok(())
    }

    fn release<F: Fabric>(&mut self, cx: &Cx<F>, tails: &[u64]) {
        for ((ring, head), &tail) in self.rings.iter().zip(&mut self.heads).zip(tails) {
            if *head != tail {
                debug_assert!(*head < tail, "the head of a ring goes back from {head} to {tail}");
                ring.release(cx, tail);
                *head = tail;
            }
        }
    }

    /// Begins a new segment, if there is room for one.
    fn rotate<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), LogFailure> {
        assert!(self.is_synced(), "{:?} is synced, the end is {}", self.synced, self.space.end());
        assert!(self.frames.is_empty(), "frames that wait belong into the segment before");
        let end = self.space.end();
        let (number, previous_end, mark) = (self.head.number + 1, end, self.durable);
        let head = SegmentHead { number, previous_end, mark, ..self.head };
        if self.space.next(cx, &head)? {
            self.closed.push(self.head.number, self.newest, end);
            self.head = head;
            assert_eq!(self.space.end(), SEGMENT_HEAD_BYTES as u64, "a segment begins with its head");
        }
        Ok(())
    }

    /// Begins a new segment, if there is room: the present one can go as soon as nobody needs its records.
    ///
    /// # Errors
    /// If the disk fails.
    pub(super) fn end_segment<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), LogFailure> {
        let is_between = self.failure.is_none() && self.frames.is_empty() && self.is_synced();
        if is_between && self.space.end() > self.options.room.kept_bytes() / 8 {
            self.rotate(cx)?;
        }
        Ok(())
    }

    /// True if no record of the present segment is of `epoch` or later.
    pub(super) fn ends_before(&self, clock: &LogClock, epoch: u64) -> bool {
        self.newest < epoch && self.first_open(clock).is_none()
    }

    /// The first segment with a fragment of a transaction that may still end.
    fn first_open(&self, clock: &LogClock) -> Option<u32> {
        let open = self.open.iter().zip(0..);
        open.filter_map(|(open, worker)| open.first_needed(clock.given_up(WorkerId(worker)))).min()
    }

    /// What other hosts are to know.
    pub(super) fn state(&self) -> LogState {
        match (&self.failure, &self.stuck, self.space.full()) {
            (Some(_), ..) => LogState::Ended,
            _ if self.space.is_cleaning() => LogState::Cleaning,
            (None, None, None) => LogState::Good,
            _ => LogState::Full,
        }
    }

    /// Why there is no room, if there is none: what the system said, and true if committed records wait for
    /// it.
    pub(super) fn full(&self) -> Option<(DiskError, bool)> {
        let stuck = self.stuck.clone().map(|error| (error, true));
        stuck.or_else(|| self.space.full().map(|error| (error.clone(), false)))
    }

    /// The room of this host's log.
    pub(super) fn room(&self) -> &Arc<LogRoom> {
        &self.room
    }

    /// The space that the log is in.
    pub(super) fn space(&mut self) -> &mut Space {
        &mut self.space
    }

    /// Writes a mark of the newest epoch there can be one of, if it says more than the last one or not;
    /// before this host becomes a member.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn mark<F: Fabric>(&mut self, cx: &Cx<F>, clock: &LogClock) -> Result<(), LogFailure> {
        let look = self.look(cx, clock);
        self.ship(cx, clock, &look.tails, Some(FrameKind::Mark { epoch: look.target, pod_durable: 0 }))?;
        assert!(self.durable >= look.target, "epoch {} is on storage, and not durable", look.target);
        Ok(())
    }

    /// Ships all that a dead host has left in its rings, and closes its log.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn close<F: Fabric>(&mut self, cx: &Cx<F>, clock: &LogClock, members: u16) -> Result<(), LogFailure> {
        let tails: Vec<u64> = self.rings.iter().map(|ring| ring.tail(cx)).collect();
        let pod_durable = clock.pod_durable(cx, members);
        self.ship(cx, clock, &tails, Some(FrameKind::Closed { pod_durable }))?;
        Ok(self.space.give_back(cx)?)
    }

    /// The first segment that may hold a record of `epoch` or later, or that is being written.
    pub(super) fn first_needed(&self, clock: &LogClock, epoch: u64) -> u32 {
        let closed = self.closed.first_needed(epoch).unwrap_or(self.head.number);
        let first = self.first_open(clock).map_or(closed, |open| open.min(closed));
        assert!(first <= self.head.number, "the present segment is needed, and {first} is behind it");
        first
    }

    /// Forgets the segments before `first`: numbers and lengths of what the caller is to remove.
    pub fn forget_below(&mut self, first: u32) -> Vec<(u32, u64)> {
        assert!(first <= self.head.number, "segment {} is written, {first} is to be first", self.head.number);
        self.closed.take_below(first)
    }

    /// Bytes of all segments.
    pub fn held_bytes(&self) -> u64 {
        self.closed.bytes() + self.space.end()
    }

    /// The disk that it writes to.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// What it has done.
    pub fn counts(&self) -> ShipCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests;
