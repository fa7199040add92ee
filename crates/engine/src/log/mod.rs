//! The log: what a transaction changed, kept so that it outlives hosts and the pod's memory.
//! docs/protocols/log.md is the design, with what a crash at each step leaves.
//!
//! * [`record`], [`branch`], [`segment`]: the bytes; [`ring`]: records in shared memory; [`epoch`]: when they
//!   count;
//! * [`rest`]: what dead hosts have left in their rings; [`Binding`]: whose memory it is;
//! * [`room`]: who may commit, while there is room on the disk; `space.rs`: how that is taken;
//! * [`ship`]: from the rings to the disk; [`scan`]: from the disk to records; [`HostLog`]: all of that for
//!   one host; what is not needed any more goes by the checkpoints' begins.
//!
//! Invariants:
//! 1. A host has told the pod a durable epoch of this incarnation before [`HostLog::new`] returns: as a
//!    member it holds nobody back, and its last mark says no less than what the pod was told.

mod begins;
mod binding;
pub mod branch;
mod closed;
pub mod epoch;
pub mod fragments;
pub mod moments;
mod options;
pub mod record;
pub mod rest;
pub mod ring;
pub mod room;
pub mod scan;
pub mod segment;
pub mod ship;
pub mod space;
mod state;
mod worker;
mod writers;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use liger_fabric::disk::{Disk, DiskError};
use liger_fabric::{Cx, Fabric, HostId, Latch, SyncAddr, WorkerId};
use liger_pod::plan::Plan;

use begins::Begins;
pub use binding::{BadBinding, Binding};
use epoch::LogClock;
use record::Origin;
use ring::{Ring, RingReader};
use room::{LogRoom, Promise, Refusal};
pub use ship::LogState;
use ship::{LogFailure, LogOptions, ShipCounts, Shipper, Writer};
pub use worker::WorkerLog;

/// Protocol steps of the log that a mutation test can leave out.
pub fn sabotage_steps() -> impl Iterator<Item = &'static str> {
    let writing = [ring::SABOTAGE_STEPS, room::SABOTAGE_STEPS, ship::SABOTAGE_STEPS];
    let clocks = [epoch::SABOTAGE_STEPS, moments::SABOTAGE_STEPS];
    writing.into_iter().chain(clocks).flatten().copied()
}

/// One host's log.
pub struct HostLog {
    plan: Plan,
    incarnation: u16,
    clock: LogClock,
    shipper: Latch<Shipper>,
    room: Arc<LogRoom>,
    failure: OnceLock<LogFailure>,
    /// Committed records wait for room that had not been promised.
    is_stuck: AtomicBool,
    has_fault: AtomicBool,
    /// Why there is no room, as of the last turn.
    full: Latch<Option<DiskError>>,
    /// The pod was durable up to here when somebody last looked.
    known_durable: AtomicU64,
    begins: Begins,
    /// Bytes appended in this incarnation, and bytes of all segments.
    appended: AtomicU64,
    held: AtomicU64,
}

impl HostLog {
    /// The log of this context's host, in its `incarnation`. Ships what an earlier incarnation left in the
    /// rings. Before the host becomes a member.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn new<F: Fabric>(
        cx: &Cx<F>,
        plan: &Plan,
        incarnation: u16,
        disk: &Disk,
        options: LogOptions,
    ) -> Result<Self, LogFailure> {
        options.check();
        Binding { pod: options.pod, generation: options.generation }.publish(cx, plan)?;
        let clock = LogClock::new(cx, plan, options.first_epoch);
        cx.store(state_word(plan, cx.host()), LogState::Good as u64);
        let mut shipper = Shipper::new(cx, plan, cx.host(), &clock, Writer::Own(incarnation), disk, options)?;
        clock.reopen(cx);
        // Behind all that the pod was told while this log was closed.
        shipper.mark(cx, &clock)?;
        let (appended, held) = (shipper.counts().bytes, shipper.held_bytes());
        let begins = Begins::new(plan);
        begins.begin_incarnation(cx, clock.now(cx));
        Ok(Self {
            plan: plan.clone(),
            incarnation,
            clock,
            room: shipper.room().clone(),
            shipper: Latch::new(shipper),
            failure: OnceLock::new(),
            is_stuck: AtomicBool::new(false),
            has_fault: AtomicBool::new(false),
            full: Latch::default(),
            known_durable: AtomicU64::new(0),
            begins,
            appended: AtomicU64::new(appended),
            held: AtomicU64::new(held),
        })
    }

    /// Closes the log of this host, which leaves and commits nothing any more: it holds nobody back.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn close<F: Fabric>(&self, cx: &Cx<F>, members: u16) -> Result<(), LogFailure> {
        self.shipper.lock(cx).close(cx, &self.clock, members)?;
        self.clock.close(cx, cx.host());
        Ok(())
    }

    /// Ships what the dead host of `disk` has left in its rings, and closes its log: from then on it holds
    /// nobody back. May be repeated, by another successor too. `successor` is the caller. Returns the bytes
    /// that were shipped.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn close_dead<F: Fabric>(
        &self,
        cx: &Cx<F>,
        dead: HostId,
        disk: &Disk,
        options: LogOptions,
        members: u16,
    ) -> Result<u64, LogFailure> {
        assert_ne!(dead, cx.host(), "nobody is its own successor");
        let successor = Writer::Successor(cx.host());
        close_dead(cx, (&self.plan, &self.clock), (dead, disk), successor, options, members)
    }

    /// The last record of each ring of a dead host, as bytes: all whose rows may not be changed yet.
    pub fn last_records<F: Fabric>(&self, cx: &Cx<F>, dead: HostId) -> Vec<(WorkerId, Vec<u8>)> {
        let workers = (0..self.plan.config().workers).map(WorkerId);
        let last = |worker| Some((worker, RingReader::new(&self.plan, dead, worker).last_record(cx)?));
        workers.filter_map(last).collect()
    }

    /// What a ring of a dead host has from `position` of its stream on: see [`RingReader::bytes_from`].
    pub fn ring_from<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (dead, worker): (HostId, WorkerId),
        position: u64,
    ) -> (u64, Vec<u8>) {
        RingReader::new(&self.plan, dead, worker).bytes_from(cx, position)
    }

    /// The part of one of this host's workers; each worker asks once.
    pub fn worker<F: Fabric>(&self, cx: &Cx<F>, worker: WorkerId) -> WorkerLog {
        assert!(worker.0 < self.plan.config().workers, "worker {} has no ring", worker.0);
        let origin = Origin { host: cx.host(), incarnation: self.incarnation, worker: worker.0 };
        WorkerLog { ring: Ring::new(cx, &self.plan, worker), origin }
    }

    /// The epochs.
    pub fn clock(&self) -> &LogClock {
        &self.clock
    }

    /// Up to which epoch the logs of all `members` (bit n: host n) hold everything.
    pub fn pod_durable<F: Fabric>(&self, cx: &Cx<F>, members: u16) -> u64 {
        self.clock.pod_durable(cx, members)
    }

    /// Asks for `epoch` to become durable, without waiting.
    pub fn want<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) {
        self.clock.want(cx, epoch);
    }

    /// Whether `epoch` is durable in the whole pod; asks for it to become so. `members` is called when what
    /// was known before does not suffice.
    ///
    /// # Errors
    /// If the log of a member has ended before.
    pub fn is_durable<F: Fabric>(
        &self,
        cx: &Cx<F>,
        epoch: u64,
        members: impl FnOnce() -> u16,
    ) -> Result<bool, LogFailure> {
        if self.known_durable.load(Ordering::Relaxed) >= epoch {
            return Ok(true);
        }
        let members = members();
        let durable = self.pod_durable(cx, members);
        self.known_durable.fetch_max(durable, Ordering::Relaxed);
        if durable >= epoch {
            return Ok(true);
        }
        self.check(cx, members)?;
        self.want(cx, epoch);
        Ok(false)
    }

    /// Waits until `epoch` is durable in the whole pod; `serve` is called meanwhile and says who the members
    /// are.
    ///
    /// # Errors
    /// If the log of a member has ended before.
    pub fn wait_durable<F: Fabric>(
        &self,
        cx: &Cx<F>,
        epoch: u64,
        mut serve: impl FnMut(&Cx<F>) -> u16,
    ) -> Result<(), LogFailure> {
        loop {
            let members = serve(cx);
            if self.is_durable(cx, epoch, || members)? {
                return Ok(());
            }
            cx.pause();
        }
    }

    /// One turn of shipping, by whichever worker has time. Returns for how long the next one will find
    /// nothing to do, as far as can be known now, in nanoseconds; 0: this one wrote something.
    ///
    /// # Errors
    /// From the first failure of the disk on, always that.
    pub fn step<F: Fabric>(&self, cx: &Cx<F>, members: u16) -> Result<u64, LogFailure> {
        let Some(mut shipper) = self.shipper.try_lock() else { return Ok(ship::WATCH_NS) };
        let (others, may_take) = self.heed(cx, members);
        let stepped = shipper.step(cx, &self.clock, members, may_take);
        if let Ok(0) = stepped {
            self.appended.store(shipper.counts().bytes, Ordering::Relaxed);
            self.held.store(shipper.held_bytes(), Ordering::Relaxed);
        }
        if let Err(failure) = &stepped {
            // The first one counts.
            let _ = self.failure.set(failure.clone());
            assert_eq!(self.failure.get(), Some(failure), "from the first failure on, always that");
        }
        self.tell(cx, &shipper, others);
        stepped
    }

    /// Why others hold this host's commits up, if they do; and whether this host may take space: not while a
    /// checkpoint of another one needs it.
    fn heed<F: Fabric>(&self, cx: &Cx<F>, members: u16) -> (Option<Refusal>, bool) {
        let (mut refusal, mut may_take) = (None, true);
        let is_other = |host: &HostId| *host != cx.host() && members >> host.0 & 1 != 0;
        for host in self.plan.hosts().filter(is_other) {
            match LogState::of(cx.load(state_word(&self.plan, host))) {
                LogState::Good => {}
                LogState::Ended => refusal = Some(Refusal::Ended(host)),
                LogState::Full => refusal = refusal.or(Some(Refusal::Full(host))),
                LogState::Cleaning => {
                    refusal = refusal.or(Some(Refusal::Full(host)));
                    may_take = false;
                }
            }
        }
        (refusal, may_take)
    }

    /// Tells this host's workers and the other hosts whether anything may be committed.
    fn tell<F: Fabric>(&self, cx: &Cx<F>, shipper: &Shipper, others: Option<Refusal>) {
        let (state, full) = (shipper.state(), shipper.full());
        debug_assert!(state != LogState::Good || full.is_none(), "{full:?}, and the log is good");
        let refusal = match state {
            LogState::Good => others,
            LogState::Ended => Some(Refusal::Ended(cx.host())),
            LogState::Full | LogState::Cleaning => Some(Refusal::Full(cx.host())),
        };
        self.room.refuse(refusal.filter(|_| !cx.sabotaged("log.refuse")));
        self.is_stuck.store(full.as_ref().is_some_and(|(_, is_stuck)| *is_stuck), Ordering::Relaxed);
        let word = state_word(&self.plan, cx.host());
        let told = cx.load(word);
        if told != state as u64 {
            let has_fault = full.is_some() || state == LogState::Ended;
            *self.full.lock(cx) = full.map(|(error, _)| error);
            self.has_fault.store(has_fault, Ordering::Relaxed);
            // A compare-and-swap is seen at once.
            let _ = cx.compare_exchange(word, told, state as u64);
            self.clock.wake_shippers(cx);
        }
    }

    /// Ships until everything that was committed before is on storage; this host commits nothing any more.
    ///
    /// # Errors
    /// If the log ends before.
    pub fn drain<F: Fabric>(&self, cx: &Cx<F>, mut members: impl FnMut() -> u16) -> Result<(), LogFailure> {
        let last = self.clock.now(cx);
        while self.clock.durable(cx, cx.host()) < last {
            self.want(cx, last);
            if self.step(cx, members())? > 0 {
                cx.pause();
            }
        }
        Ok(())
    }

    /// Bytes appended to segments in this incarnation.
    pub fn appended_bytes(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    /// Bytes of all segments that are not removed yet: what a recovery would read.
    pub fn held_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// `host` is dead, and its partitions are taken over: what its files hold of them is needed until newer
    /// checkpoints have it.
    pub(crate) fn note_dead<F: Fabric>(&self, cx: &Cx<F>, host: HostId) {
        self.begins.note_dead(cx, host);
    }

    /// Where the checkpoint of a dead host begins, if something may still be loaded from its files.
    pub(crate) fn begin_of_dead<F: Fabric>(&self, cx: &Cx<F>, host: HostId) -> Option<u64> {
        self.begins.of_dead(cx, host)
    }

    /// Says that nothing is loaded from the files of a dead host any more, whose checkpoint begins there;
    /// without effect if it has come back.
    pub(crate) fn end_begin_of_dead<F: Fabric>(&self, cx: &Cx<F>, host: HostId, begin: u64) {
        self.begins.end_dead(cx, host, begin);
    }

    /// Says that a checkpoint of this host counts that begins at `epoch`.
    pub fn publish_begin<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) {
        self.begins.publish(cx, cx.host(), epoch);
    }

    /// The earliest begin of all hosts' checkpoints, also of those that left or died: nobody needs records of
    /// an earlier epoch.
    pub fn least_begin<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        self.begins.least(cx)
    }

    /// Asks every host for a checkpoint that begins at `epoch` or later.
    pub fn want_checkpoint<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) {
        self.begins.want(cx, epoch);
    }

    /// The latest epoch at which somebody wants checkpoints to begin.
    pub fn checkpoint_wanted<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        self.begins.wanted(cx)
    }

    /// Takes back what was promised to a record that does not come.
    pub fn take_back(&self, promise: Promise) {
        self.room.take_back(promise);
    }

    /// The first segment that may hold a record of `epoch` or later, or that is being written; none while the
    /// shipper is at work, which may be waiting for the storage.
    pub fn first_needed(&self, epoch: u64) -> Option<u32> {
        self.shipper.try_lock().map(|shipper| shipper.first_needed(&self.clock, epoch))
    }

    /// Forgets the segments before `first`: numbers and lengths of what the caller is to remove.
    pub fn forget_below<F: Fabric>(&self, cx: &Cx<F>, first: u32) -> Vec<(u32, u64)> {
        let mut shipper = self.shipper.lock(cx);
        let forgotten = shipper.forget_below(first);
        self.held.store(shipper.held_bytes(), Ordering::Relaxed);
        forgotten
    }

    /// What the system said when there was no room for the log, while that is so: nothing may be committed.
    pub fn full<F: Fabric>(&self, cx: &Cx<F>) -> Option<DiskError> {
        self.full.lock(cx).clone()
    }

    /// True while nothing may be committed because of this host's log.
    pub fn has_fault(&self) -> bool {
        self.has_fault.load(Ordering::Relaxed)
    }

    /// Why nothing may be committed, in words, if it is because of this host's log.
    pub fn fault<F: Fabric>(&self, cx: &Cx<F>) -> Option<String> {
        let ended = self.failure().map(|failure| format!("refuses changes for good: {failure}"));
        let full = || self.full(cx).map(|error| format!("refuses changes until there is room: {error}"));
        ended.or_else(full)
    }

    /// True while nothing may be committed, here or on another host, because there is no room for it.
    pub fn is_full(&self) -> bool {
        matches!(self.room.refusal(false), Some(Refusal::Full(_)))
    }

    /// Gives the space that is kept for checkpoints to one that found no room; false if there is none. Nobody
    /// commits until [`HostLog::end_cleaning`].
    ///
    /// # Errors
    /// If the disk fails.
    pub fn begin_cleaning<F: Fabric>(&self, cx: &Cx<F>) -> Result<bool, LogFailure> {
        let mut shipper = self.shipper.lock(cx);
        let has_begun = shipper.space().begin_cleaning(cx)?;
        assert!(!has_begun || shipper.space().is_cleaning(), "nobody else takes space from now on");
        self.tell(cx, &shipper, None);
        Ok(has_begun)
    }

    /// The checkpoint counts, or was given up; what the log needs is taken again.
    pub fn end_cleaning<F: Fabric>(&self, cx: &Cx<F>) {
        let mut shipper = self.shipper.lock(cx);
        if shipper.space().is_cleaning() {
            shipper.space().end_cleaning();
            self.tell(cx, &shipper, None);
        }
    }

    /// Bytes of records that all hosts have ever logged in this memory.
    pub fn logged_in_pod<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        ring::all_rings(&self.plan).iter().map(|ring| ring.tail(cx)).sum()
    }

    /// A checkpoint counts whose images have so many bytes; it has all that the pod had logged when that was
    /// `covered` ([`HostLog::logged_in_pod`]).
    pub fn note_checkpoint<F: Fabric>(&self, cx: &Cx<F>, images: u64, covered: u64) {
        self.room.note_checkpoint(images, covered);
        self.look_for_room(cx);
    }

    /// The next checkpoint will have images of so many bytes more: this host has taken partitions over.
    pub fn expect_images<F: Fabric>(&self, cx: &Cx<F>, bytes: u64) {
        self.room.expect_images(bytes);
        self.look_for_room(cx);
    }

    /// Space may have come back: a full disk is asked for it at once.
    pub fn look_for_room<F: Fabric>(&self, cx: &Cx<F>) {
        self.shipper.lock(cx).space().look_again();
        self.clock.want_room(cx);
    }

    /// Begins a new segment, if there is room: the present one can go as soon as nobody needs its records.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn end_segment<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), LogFailure> {
        self.shipper.lock(cx).end_segment(cx)
    }

    /// On a full disk, begins a new segment if nobody needs what the present one holds: only records of
    /// `epoch` or later are needed. Not while the shipper is at work.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn end_segment_before<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) -> Result<(), LogFailure> {
        match self.shipper.try_lock() {
            Some(mut shipper) if shipper.ends_before(&self.clock, epoch) => shipper.end_segment(cx),
            _ => Ok(()),
        }
    }

    /// How much space is taken at a time, in bytes.
    pub fn chunk_bytes(&self) -> u64 {
        self.room.chunk_bytes()
    }

    /// Why this host's log has ended, if it has.
    pub fn failure(&self) -> Option<&LogFailure> {
        self.failure.get()
    }

    /// The disk that it is kept on.
    pub fn disk<F: Fabric>(&self, cx: &Cx<F>) -> Disk {
        self.shipper.lock(cx).disk().clone()
    }

    /// What the shipper has done.
    pub fn counts<F: Fabric>(&self, cx: &Cx<F>) -> ShipCounts {
        self.shipper.lock(cx).counts()
    }

    /// Whether epochs still end on all of these hosts (bit h: host h), as far as this one knows.
    pub(crate) fn check<F: Fabric>(&self, cx: &Cx<F>, members: u16) -> Result<(), LogFailure> {
        if let Some(failure) = self.failure() {
            return Err(failure.clone());
        }
        if self.is_stuck.load(Ordering::Relaxed)
            && let Some(error) = self.full(cx)
        {
            return Err(LogFailure::Full(error));
        }
        let state = |host: HostId| LogState::of(cx.load(state_word(&self.plan, host)));
        let ended = |host: &HostId| members >> host.0 & 1 != 0 && state(*host) == LogState::Ended;
        match self.plan.hosts().find(ended) {
            Some(host) => Err(LogFailure::OtherHost { host: host.0 }),
            None => Ok(()),
        }
    }
}

/// Ships what a host of a pod has left that has no living host any more, and closes its log.
///
/// # Errors
/// If the disk fails.
pub(crate) fn close_without_successor<F: Fabric>(
    cx: &Cx<F>,
    plan: &Plan,
    (dead, disk): (HostId, &Disk),
    options: LogOptions,
) -> Result<(), LogFailure> {
    let clock = LogClock::new(cx, plan, options.first_epoch);
    // Nobody is a member; and what was durable in the whole pod is of no use when all logs are closed.
    close_dead(cx, (plan, &clock), (dead, disk), Writer::Salvager, options, 0).map(drop)
}

/// Ships what a dead host has left in its rings to its disk, and closes its log. What is shipped may have
/// been shipped before: by the dead host, or by somebody else who died over it. Returns its bytes.
fn close_dead<F: Fabric>(
    cx: &Cx<F>,
    (plan, clock): (&Plan, &LogClock),
    (dead, disk): (HostId, &Disk),
    by: Writer,
    options: LogOptions,
    members: u16,
) -> Result<u64, LogFailure> {
    // Whoever takes over needs room for what it takes over.
    space::give_up_reserve(cx, disk)?;
    options.check();
    let mut shipper = Shipper::new(cx, plan, dead, clock, by, disk, options)?;
    shipper.close(cx, clock, members)?;
    clock.close(cx, dead);
    // Whatever its device had, it was good for this.
    cx.store(state_word(plan, dead), LogState::Good as u64);
    Ok(shipper.counts().bytes)
}

/// The state of each host's log, for whoever only looks.
pub fn states<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> Vec<LogState> {
    plan.hosts().map(|host| LogState::of(cx.load(state_word(plan, host)))).collect()
}

/// The state of a host's log ([`LogState`]).
fn state_word(plan: &Plan, host: HostId) -> SyncAddr {
    plan.log_line(host).word(1)
}
