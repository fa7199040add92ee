//! Shipping: what the rings of a host hold goes to its disk, and then an epoch is durable there.
//!
//! One turn, in this order: the epoch moves on if somebody waits for it; the epoch is read, then what the
//! workers show, then the tails; bytes and mark are appended and synced; the heads move; the durable epoch is
//! told.
//!
//! Invariants:
//! 1. A mark of epoch e is behind every record of e or before: nobody shows such an epoch any more, the tails
//!    were read after that, and all before them is in front of the mark.
//! 2. Heads and the durable epoch never say more than what a successful sync covered.
//! 3. After a failed call nothing is written, released or told any more.
//! 4. A new segment begins only when the one before is synced to its end.
//!
//! Not here: who calls it (one worker of the host at a time), and which hosts are members.

use liger_fabric::disk::{Disk, DiskError, DiskErrorKind, DiskFile};
use liger_fabric::{Cx, Fabric, HostId, WorkerId};
use liger_pod::plan::Plan;

use super::binding::BadBinding;
use super::closed::ClosedSegments;
use super::epoch::LogClock;
use super::ring::RingReader;
use super::scan::{End, Scan, Scanner};
use super::segment::{
    FRAME_HEAD_BYTES, FrameKind, Place, SegmentHead, encode_frame, segment_name, segment_number,
};

/// Protocol steps that a test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &[
    "log.heed-active",
    "log.tails-after-active",
    "log.head-after-sync",
    "log.durable-after-sync",
    "log.stop-after-failure",
    "log.sync-last-life",
];

/// How a host keeps its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// The pod, as its segments name it.
    pub pod: u64,
    /// The epoch that a new pod starts with.
    pub first_epoch: u64,
    /// The pod's generation: how often its memory was made anew.
    pub generation: u64,
    /// Least time between two epochs.
    pub epoch_ns: u64,
    /// How many times as long the epoch behind a busy one lasts, which brought 16 KiB of records or more:
    /// each epoch costs a host a sync, and under load more transactions share it.
    pub busy_factor: u64,
    /// Length at which a segment ends (a longer one holds a single turn).
    pub segment_bytes: u64,
    /// Most bytes of a ring in one frame, a multiple of 8. A frame passes through the processor's cache
    /// twice, to the buffer and to the file: a small one stays in it, and pushes less of the workers' out.
    pub frame_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        let (epoch_ns, busy_factor, segment_bytes, frame_bytes) = (1_000_000, 4, 64 << 20, 64 << 10);
        Self { pod: 0, first_epoch: 1, generation: 1, epoch_ns, busy_factor, segment_bytes, frame_bytes }
    }
}

/// An epoch that brought so many bytes of records was a busy one.
const BUSY_BYTES: u64 = 16 << 10;

/// The longest time between two looks while records come: a ring may fill sooner than a long epoch ends.
const MOST_REST_NS: u64 = 4_000_000;

/// Time between two looks of a shipper that anybody may ask for something at any time.
pub const WATCH_NS: u64 = 50_000;

/// Why a host's log has ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogFailure {
    /// Its device has failed.
    #[error("the log's device has failed; nothing is shipped any more")]
    Device(#[source] DiskError),
    /// Its device is full.
    #[error("the log's device is full; nothing is shipped any more")]
    Full(#[source] DiskError),
    /// What the host's last life had made sure of is not what it was.
    #[error("{file} is damaged at byte {byte}: {why}")]
    Damaged {
        /// Name of the segment.
        file: String,
        /// Where.
        byte: u64,
        /// What is wrong.
        why: String,
    },
    /// The memory holds rings of another pod, or of another generation of this one.
    #[error(transparent)]
    OtherMemory(#[from] BadBinding),
    /// Another member's log has ended, so the pod's durable epoch stands still.
    #[error("the log of host {host} has ended")]
    OtherHost {
        /// Which.
        host: u8,
    },
}

impl From<DiskError> for LogFailure {
    fn from(error: DiskError) -> Self {
        if error.kind == DiskErrorKind::Full { Self::Full(error) } else { Self::Device(error) }
    }
}

/// What a shipper has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShipCounts {
    /// Bytes appended to segments.
    pub bytes: u64,
    /// Frames, marks included.
    pub frames: u64,
    /// Syncs.
    pub syncs: u64,
    /// Time in syncs, in nanoseconds.
    pub sync_ns: u64,
    /// Epochs that this host has ended.
    pub ticks: u64,
    /// Turns that workers without room have asked for.
    pub room_turns: u64,
}

/// Who ships a host's rings: names of lives differ, so that bytes that are shipped again are known by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Life {
    /// The host itself, in its life of this number.
    Own(u16),
    /// Another host, in its life of this number.
    Heir(HostId, u16),
    /// Whoever starts a pod again whose hosts are all dead.
    Salvager,
}

/// Names of lives from here on are those of heirs who close a dead host's log.
const HEIRS: u16 = liger_pod::membership::MAX_INCARNATION + 1;
/// And from here on those of salvagers.
const SALVAGERS: u16 = HEIRS | HEIRS >> 1;
const _: () = assert!(liger_pod::plan::MAX_HOSTS << 10 <= (SALVAGERS - HEIRS) as usize);

impl Life {
    /// Its name in the frames that it writes, from segment `first` on.
    fn name(self, first: u32) -> u16 {
        match self {
            Self::Own(incarnation) => incarnation,
            Self::Heir(host, incarnation) => HEIRS | u16::from(host.0) << 10 | incarnation & 0x3ff,
            // Nothing counts salvagers; each starts a segment, and they are in order.
            Self::Salvager => SALVAGERS | first as u16 & !SALVAGERS,
        }
    }
}

/// Ships one host's rings.
pub struct Shipper {
    /// Whose log it is: the caller's, or a dead host's.
    host: HostId,
    options: LogOptions,
    disk: Disk,
    head: SegmentHead,
    file: DiskFile,
    /// End of the current segment.
    end: u64,
    synced: Place,
    /// No record so far is of a later epoch.
    newest: u64,
    closed: ClosedSegments,
    rings: Vec<RingReader>,
    heads: Vec<u64>,
    durable: u64,
    /// The last bytes are not yet known to be synced by anything behind them.
    open_end: bool,
    /// The epoch when we last looked, and since when it is that.
    epoch: u64,
    epoch_since_ns: u64,
    synced_at_ns: u64,
    failure: Option<LogFailure>,
    counts: ShipCounts,
    /// Bytes that the last epoch brought.
    epoch_bytes: u64,
    /// The tails at the last look.
    seen: Vec<u64>,
    /// Frames that are not appended yet.
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
        life: Life,
        disk: &Disk,
        options: LogOptions,
    ) -> Result<Self, LogFailure> {
        let mut numbers: Vec<u32> = disk.list(cx)?.iter().filter_map(|name| segment_number(name)).collect();
        numbers.sort_unstable();
        let newest = numbers.last().copied().unwrap_or(0);
        let LogOptions { pod, generation, .. } = options;
        let (previous_end, mark) = secure_end(cx, disk, (pod, host), &numbers)?;
        // Not more than the pod was told: what had been shipped when the host died, and the rings were not
        // told of, is shipped again, behind this.
        let mark = mark.min(clock.durable(cx, host));
        let number = newest + 1;
        let incarnation = life.name(number);
        let head = SegmentHead { pod, host, incarnation, number, generation, previous_end, mark };
        let (file, end) = start_segment(cx, disk, &head)?;
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
            file,
            end,
            synced: Place { segment: number, byte: end },
            newest: epoch,
            closed,
            heads: rings_at.clone(),
            rings,
            durable: mark,
            open_end: false,
            epoch,
            epoch_since_ns: cx.now_ns(),
            synced_at_ns: cx.now_ns(),
            failure: None,
            counts: ShipCounts::default(),
            epoch_bytes: 0,
            seen: rings_at,
            frames: Vec::new(),
        })
    }

    /// One turn; returns for how long the next one will find nothing to do, as far as can be known now; 0 if
    /// this one wrote something. `members`: bit n, host n.
    ///
    /// # Errors
    /// From the first failure of the disk on, always that.
    pub fn step<F: Fabric>(&mut self, cx: &Cx<F>, clock: &LogClock, members: u16) -> Result<u64, LogFailure> {
        if let Some(failure) = &self.failure
            && !cx.sabotaged("log.stop-after-failure")
        {
            return Err(failure.clone());
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
        let pod_durable = clock.pod_durable(cx, members);
        let mark = mark.map(|epoch| FrameKind::Mark { epoch, pod_durable });
        let shipped = self.ship(cx, clock, &look.tails, mark);
        shipped.map(|()| 0).inspect_err(|failure| self.failure = Some(failure.clone()))
    }

    /// True if the last sync is so long ago that a mark should say that it took place. While nobody asks for
    /// what has come since, it can wait for more: a sync costs as much for a few bytes as for many.
    fn is_mark_due<F: Fabric>(&self, cx: &Cx<F>, tails: &[u64]) -> bool {
        let epochs = if self.heads == tails { 1 } else { 16 };
        cx.now_ns().saturating_sub(self.synced_at_ns) >= epochs * self.options.epoch_ns
    }

    /// How long nobody will miss the next turn. Who waits for the epoch to end must wait until it has lasted
    /// long enough; the others end it as well, and whoever notices late holds all of them back, so this host
    /// watches from an eighth of an epoch earlier on: hosts whose epochs began at different times fall into
    /// step. An epoch that has ended and has no mark here is waited for now. If nobody waits but
    /// records come, their writers are content with `pod`, and who asks for more waits for half an epoch
    /// more. On an idle host nobody waits for more than a quarter, and the less the sooner after another: a
    /// look costs some microseconds of processor time.
    fn rest_ns<F: Fabric>(&mut self, cx: &Cx<F>, clock: &LogClock, tails: Vec<u64>) -> u64 {
        let (comes, has_time) = (self.seen != tails, self.have_time(&tails));
        self.seen = tails;
        let lasted_ns = cx.now_ns().saturating_sub(self.epoch_since_ns);
        let rest_ns = if self.durable + 1 < self.epoch {
            0
        } else if clock.wanted() >= self.epoch {
            let early_ns = (self.epoch_ns() / 8).max(2 * WATCH_NS);
            self.epoch_ns().saturating_sub(lasted_ns + early_ns).min(MOST_REST_NS)
        } else if comes {
            (self.options.epoch_ns / 2).min(MOST_REST_NS)
        } else {
            (lasted_ns / 8).min(self.options.epoch_ns / 4)
        };
        if has_time { rest_ns.max(WATCH_NS) } else { WATCH_NS }
    }

    /// How long this epoch lasts at least.
    fn epoch_ns(&self) -> u64 {
        self.options.epoch_ns * if self.epoch_bytes >= BUSY_BYTES { self.options.busy_factor } else { 1 }
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

    /// True if a ring is so full that its worker may soon wait.
    fn pressing(&self, tails: &[u64]) -> bool {
        let mut rings = self.rings.iter().zip(tails).zip(&self.heads);
        rings.any(|((ring, tail), head)| tail - head > ring.ring_bytes() / 4)
    }

    /// True if no ring will be full soon: not when what has come since the last look comes many times more.
    fn have_time(&self, tails: &[u64]) -> bool {
        let mut rings = self.rings.iter().zip(tails).zip(self.heads.iter().zip(&self.seen));
        rings.all(|((ring, tail), (head, seen))| tail - head + 16 * (tail - seen) < ring.ring_bytes())
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
        if self.end + self.bytes_of(tails) > self.options.segment_bytes {
            self.rotate(cx)?;
        }
        self.newest = newest;
        self.append_rings(cx, tails)?;
        if let Some(kind) = mark {
            self.put(kind, |_| ());
        }
        if cx.sabotaged("log.head-after-sync") {
            self.release(cx, tails);
        }
        self.append_and_sync(cx)?;
        let bytes = self.heads.iter().zip(tails).map(|(head, tail)| tail - head).sum();
        self.release(cx, tails);
        if let Some(epoch) = epoch.filter(|&epoch| epoch > self.durable) {
            self.durable = epoch;
            self.epoch_bytes = bytes;
            clock.publish(cx, self.host, epoch);
        }
        self.open_end = fresh;
        Ok(())
    }

    /// Bytes that one turn appends for everything up to these tails, and a mark.
    fn bytes_of(&self, tails: &[u64]) -> u64 {
        let (head, most) = (FRAME_HEAD_BYTES as u64, self.options.frame_bytes as u64);
        let of_ring = |(tail, from): (&u64, &u64)| tail - from + head * (tail - from).div_ceil(most);
        tails.iter().zip(&self.heads).map(of_ring).sum::<u64>() + head
    }

    /// Appends the bytes of all rings up to these tails, a few frames at a time.
    fn append_rings<F: Fabric>(&mut self, cx: &Cx<F>, tails: &[u64]) -> Result<(), LogFailure> {
        let (most, incarnation) = (self.options.frame_bytes, self.head.incarnation);
        for (worker, &tail) in tails.iter().enumerate() {
            let ring = self.rings[worker];
            for position in (self.heads[worker]..tail).step_by(most) {
                let to = tail.min(position + most as u64);
                let kind = FrameKind::Records { worker: worker as u8, incarnation, position };
                let own = incarnation < HEIRS;
                self.put(kind, |frame| match own {
                    true => ring.read_own(cx, position, to, frame),
                    false => ring.read(cx, position, to, frame),
                });
                if self.frames.len() >= most {
                    self.append(cx)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a frame to those that wait to be appended; `fill` adds its payload.
    fn put(&mut self, kind: FrameKind, fill: impl FnOnce(&mut Vec<u8>)) {
        encode_frame(kind, self.synced, &mut self.frames, fill);
        self.counts.frames += 1;
    }

    fn append<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), LogFailure> {
        let at = self.file.append(cx, &self.frames)?;
        assert_eq!(at, self.end, "somebody else writes segment {}", self.head.number);
        self.end += self.frames.len() as u64;
        self.counts.bytes += self.frames.len() as u64;
        self.frames.clear();
        Ok(())
    }

    fn append_and_sync<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), LogFailure> {
        self.append(cx)?;
        let start_ns = cx.now_ns();
        if !cx.sabotaged("log.durable-after-sync") {
            self.file.sync(cx)?;
        }
        self.synced_at_ns = cx.now_ns();
        self.counts.syncs += 1;
        self.counts.sync_ns += self.synced_at_ns.saturating_sub(start_ns);
        self.synced = Place { segment: self.head.number, byte: self.end };
        Ok(())
    }

    fn release<F: Fabric>(&mut self, cx: &Cx<F>, tails: &[u64]) {
        for ((ring, head), &tail) in self.rings.iter().zip(&mut self.heads).zip(tails) {
            if *head != tail {
                ring.release(cx, tail);
                *head = tail;
            }
        }
    }

    fn rotate<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), LogFailure> {
        assert_eq!(self.synced, Place { segment: self.head.number, byte: self.end }, "synced to its end");
        let (number, previous_end, mark) = (self.head.number + 1, self.end, self.durable);
        let head = SegmentHead { number, previous_end, mark, ..self.head };
        let (file, end) = start_segment(cx, &self.disk, &head)?;
        self.closed.push(self.head.number, self.newest, self.end);
        (self.head, self.file, self.end) = (head, file, end);
        Ok(())
    }

    /// Writes a mark of the newest epoch there can be one of, if it says more than the last one or not;
    /// before this host becomes a member.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn mark<F: Fabric>(&mut self, cx: &Cx<F>, clock: &LogClock) -> Result<(), LogFailure> {
        let look = self.look(cx, clock);
        self.ship(cx, clock, &look.tails, Some(FrameKind::Mark { epoch: look.target, pod_durable: 0 }))
    }

    /// Ships all that a dead host has left in its rings, and closes its log.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn close<F: Fabric>(&mut self, cx: &Cx<F>, clock: &LogClock, members: u16) -> Result<(), LogFailure> {
        let tails: Vec<u64> = self.rings.iter().map(|ring| ring.tail(cx)).collect();
        let pod_durable = clock.pod_durable(cx, members);
        self.ship(cx, clock, &tails, Some(FrameKind::Closed { pod_durable }))
    }

    /// The first segment that may hold a record of `epoch` or later, or that is being written.
    pub fn first_needed(&self, epoch: u64) -> u32 {
        self.closed.first_needed(epoch).unwrap_or(self.head.number)
    }

    /// Forgets the segments before `first`: numbers and lengths of what the caller is to remove.
    pub fn forget_below(&mut self, first: u32) -> Vec<(u32, u64)> {
        assert!(first <= self.head.number, "segment {} is written, {first} is to be first", self.head.number);
        self.closed.take_below(first)
    }

    /// Bytes of all segments.
    pub fn held_bytes(&self) -> u64 {
        self.closed.bytes() + self.end
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

/// How many bytes count of the newest segment that has a head, and the last mark in it or before it. The life
/// that wrote it may have died before it could sync them, so that is done now: the next segment will say that
/// they are on storage. (Later lives may have died before their segments had heads.)
fn secure_end<F: Fabric>(
    cx: &Cx<F>,
    disk: &Disk,
    (pod, host): (u64, HostId),
    numbers: &[u32],
) -> Result<(u64, u64), LogFailure> {
    let mut newest = Vec::new();
    for &number in numbers.iter().rev() {
        let file = disk.open(cx, &segment_name(number))?;
        let mut bytes = vec![0; file.len(cx)? as usize];
        file.read_exact_at(cx, 0, &mut bytes)?;
        let has_head = SegmentHead::decode(&bytes).is_ok();
        newest.push((number, file, bytes));
        if has_head {
            break;
        }
    }
    let mut scanner = Scanner::new(pod, host);
    newest.iter().rev().for_each(|(number, _, bytes)| scanner.segment(*number, bytes, |_, _| ()));
    let Scan { end, counted, marks, .. } = scanner.finish();
    if let End::Damaged { at, why } = end {
        return Err(LogFailure::Damaged { file: segment_name(at.segment), byte: at.byte, why });
    }
    if let Some((_, file, _)) = newest.last().filter(|_| !cx.sabotaged("log.sync-last-life")) {
        file.sync(cx)?;
    }
    Ok((counted, marks.last))
}

/// Makes a segment that has its head and a durable name.
fn start_segment<F: Fabric>(
    cx: &Cx<F>,
    disk: &Disk,
    head: &SegmentHead,
) -> Result<(DiskFile, u64), LogFailure> {
    let file = disk.create(cx, &segment_name(head.number))?;
    let bytes = head.encode();
    file.append(cx, &bytes)?;
    file.sync(cx)?;
    disk.sync_names(cx)?;
    Ok((file, bytes.len() as u64))
}
