//! The log's epochs: in which one a transaction commits, and from when on one is durable.
//!
//! Invariants (models/epochs_commit.py):
//! 1. A worker shows its epoch before it takes it from the pod's word: who then finds that nobody shows an
//!    epoch, or an older one, knows that no record of it will still be appended.
//! 2. The pod's epoch and a host's durable epoch never go back; the durable one is older than the epoch.
//! 3. The pod is durable up to the least durable epoch of its members.
//!
//! Not here: what makes an epoch durable (ship.rs).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use liger_fabric::{Cx, Fabric, HostId, LINE, SyncAddr, WorkerId};
use liger_pod::bells::{Bell, bell};
use liger_pod::plan::Plan;

use super::moments::{Keeping, Moments};
use super::record::{epoch_of, epoch_of_moment, first_moment_of, first_of, first_of_moment, moment_of};

/// Protocol steps that a test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &[
    "log.read-epoch-after-showing",
    "log.show-active",
    "log.wake-shipper",
    "log.wake-shippers",
    "log.wake-waiting",
];

/// What a worker without a running commit shows.
const NONE: u64 = u64::MAX;
/// The durable epoch of a closed log.
const CLOSED: u64 = u64::MAX;
/// Set in the pod's word while who commits keeps the versions that it overwrites.
const KEEPS: u64 = 1 << 63;

/// A worker's word, in a line of its own.
#[repr(align(64))]
struct Active {
    shown: AtomicU64,
    /// The epoch of this worker's last commit: probably that of its next one, too.
    last: AtomicU64,
    /// Fragments before this position of its ring's stream belong to no transaction that will still end.
    given_up: AtomicU64,
}

/// The pod's epoch, and what a host's workers show of it.
pub struct LogClock {
    word: SyncAddr,
    /// The newest epoch in which rows were removed, in the epoch's line.
    removal: SyncAddr,
    durable: Vec<SyncAddr>,
    /// Where the shippers of all hosts sleep.
    bells: Vec<SyncAddr>,
    /// Where those sleep who wait for more to be durable.
    waiting: Vec<SyncAddr>,
    moments: Moments,
    active: Vec<Active>,
    wanted: AtomicU64,
    room_wanted: AtomicBool,
    /// This host's shipper sleeps, and nobody waits for it.
    is_idle: AtomicBool,
}

// Workers do not take each other's lines away.
const _: () = assert!(size_of::<Active>().is_multiple_of(LINE) && align_of::<Active>() == LINE);
// Neither of these is an epoch that a version can have.
const _: () = assert!(epoch_of(u64::MAX) < NONE && epoch_of(u64::MAX) < CLOSED);

/// In which version a transaction commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commit {
    /// The version.
    pub llsn: u64,
    /// It keeps the versions that it overwrites.
    pub keeps: bool,
}

/// The epoch that the pod's word says.
pub const fn epoch_in(word: u64) -> u64 {
    word & !KEEPS
}

fn of_all(plan: &Plan, which: Bell) -> impl Iterator<Item = SyncAddr> {
    plan.hosts().map(move |host| bell(plan, host, which))
}

impl Active {
    fn new(first_epoch: u64) -> Self {
        Self { shown: AtomicU64::new(NONE), last: AtomicU64::new(first_epoch), given_up: AtomicU64::new(0) }
    }
}

/// The durable epoch of each host, for whoever only looks; none if its log is closed, because it is dead.
pub fn durable_epochs<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> Vec<Option<u64>> {
    let of = |host| Some(cx.load(plan.log_line(host))).filter(|epoch| *epoch != CLOSED);
    plan.hosts().map(of).collect()
}

impl LogClock {
    /// The clock of one host; a new pod starts at `first_epoch`.
    pub fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan, first_epoch: u64) -> Self {
        assert!(first_epoch > 0, "epochs start at 1");
        let word = plan.epoch_word();
        if cx.load(word) == 0 {
            // Whoever is first; all say the same.
            let _ = cx.compare_exchange(word, 0, first_epoch);
        }
        Self {
            word,
            removal: word.word(1),
            durable: plan.hosts().map(|host| plan.log_line(host)).collect(),
            bells: of_all(plan, Bell::Log).collect(),
            waiting: [Bell::Durable, Bell::Work].into_iter().flat_map(|it| of_all(plan, it)).collect(),
            moments: Moments::new(cx, plan),
            active: (0..plan.config().workers).map(|_| Active::new(first_epoch)).collect(),
            wanted: AtomicU64::new(0),
            room_wanted: AtomicBool::new(false),
            is_idle: AtomicBool::new(false),
        }
    }

    /// The pod's epoch.
    pub fn now<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        epoch_in(cx.load(self.word))
    }

    /// Shows that this worker commits, and says in which version, which is `least` or greater. After its last
    /// lock, before its record.
    pub fn begin_commit<F: Fabric>(&self, cx: &Cx<F>, worker: WorkerId, least: u64) -> Commit {
        let Active { shown, last, .. } = &self.active[usize::from(worker.0)];
        debug_assert_eq!(shown.load(Ordering::Relaxed), NONE, "one commit at a time");
        let (mut epoch, mut least_epoch) = (last.load(Ordering::Relaxed), epoch_of(least));
        loop {
            if !cx.sabotaged("log.show-active") {
                shown.store(epoch, Ordering::SeqCst);
            }
            // Shown before the word is read.
            cx.fence();
            let is_late = cx.sabotaged("log.read-epoch-after-showing");
            let mut word = if is_late { epoch } else { cx.load(self.word) };
            if epoch_in(word) < least_epoch {
                // All versions of this epoch are taken.
                self.tick(cx, epoch_in(word));
                word = cx.load(self.word);
            }
            let again = epoch_in(word);
            if again == epoch {
                debug_assert!(epoch >= least_epoch, "epoch {epoch} is too old for version {least:#x}");
                if word & KEEPS == 0 {
                    return Commit { llsn: least.max(first_of(epoch)), keeps: false };
                }
                let moment = self.take_moment(cx, worker, moment_of(least).max(first_moment_of(epoch)));
                if epoch_of_moment(moment) == epoch {
                    let llsn = least.max(first_of_moment(moment));
                    debug_assert_eq!((moment_of(llsn), epoch_of(llsn)), (moment, epoch), "version {llsn:#x}");
                    return Commit { llsn, keeps: true };
                }
                // Others are in the next epoch by now.
                least_epoch = epoch_of_moment(moment);
                continue;
            }
            last.store(again, Ordering::Relaxed);
            epoch = again;
        }
    }

    /// Says that this worker commits, and takes its moment.
    fn take_moment<F: Fabric>(&self, cx: &Cx<F>, worker: WorkerId, least: u64) -> u64 {
        if !self.moments.is_said(worker) && !cx.sabotaged("moments.say-that-it-commits") {
            self.moments.say(cx, true);
            // Said before the moment is read.
            cx.fence();
        }
        self.moments.take(cx, least)
    }

    /// The record is in the ring, and its tail in shared memory, and what it changes is changed; or there is
    /// none.
    pub fn end_commit<F: Fabric>(&self, cx: &Cx<F>, worker: WorkerId) {
        self.active[usize::from(worker.0)].shown.store(NONE, Ordering::Release);
        if self.moments.is_said(worker) {
            self.moments.say(cx, false);
        }
    }

    /// The moments, for readers of snapshots.
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// Has old versions kept, unless they are. True if everybody keeps them, of `members` (bit h: host h);
    /// false if some may still commit without, or others are about to end it.
    pub(crate) fn keep<F: Fabric>(&self, cx: &Cx<F>, members: u16) -> bool {
        let word = cx.load(self.word);
        match (word & KEEPS != 0, self.moments.keeping(cx)) {
            (true, Keeping::Since(_)) => return true,
            (_, Keeping::Ends(_)) => self.end_keeping(cx),
            (false, _) => {
                // From the next epoch on all who commit know it.
                if cx.compare_exchange(self.word, word, (word + 1) | KEEPS).is_ok() {
                    self.wake_shippers(cx);
                }
            }
            (true, no @ Keeping::No(_)) => self.begin_keeping(cx, no),
            (true, begins @ Keeping::From(first)) => {
                // Who commits without does so in an earlier epoch: when those are over on all hosts, nobody
                // does.
                let epoch = epoch_of_moment(first);
                if self.pod_durable(cx, members) + 1 >= epoch {
                    self.moments.set_keeping(cx, begins, Keeping::Since(self.moments.take(cx, first)));
                } else {
                    self.want(cx, epoch - 1);
                }
            }
        }
        false
    }

    /// Says from when on they are kept, if they are: `from` was loaded before.
    fn begin_keeping<F: Fabric>(&self, cx: &Cx<F>, from: Keeping) {
        debug_assert!(matches!(from, Keeping::No(_)), "they are not kept yet");
        // A word from before that may be of a time when they were kept before: some have committed without
        // since.
        let word = cx.load(self.word);
        if word & KEEPS == 0 {
            return;
        }
        self.moments.set_keeping(cx, from, Keeping::From(first_moment_of(epoch_in(word))));
    }

    /// Old versions are not kept any more: nobody has read a snapshot for long. Who has opened one meanwhile
    /// finds that it is good for nothing.
    pub(crate) fn keep_no_more<F: Fabric>(&self, cx: &Cx<F>) {
        let word = cx.load(self.word);
        match self.moments.keeping(cx) {
            // Who was about to begin has died.
            no @ Keeping::No(_) if word & KEEPS != 0 => self.begin_keeping(cx, no),
            is @ (Keeping::From(moment) | Keeping::Since(moment)) => {
                self.moments.set_keeping(cx, is, Keeping::Ends(moment));
            }
            Keeping::No(_) | Keeping::Ends(_) => {}
        }
        self.end_keeping(cx);
    }

    /// If it is to end, it does.
    fn end_keeping<F: Fabric>(&self, cx: &Cx<F>) {
        // In this order: if it has ended meanwhile, this word is another by now.
        let word = cx.load(self.word);
        let ends @ Keeping::Ends(moment) = self.moments.keeping(cx) else { return };
        if word & KEEPS != 0 && cx.compare_exchange(self.word, word, (word & !KEEPS) + 1).is_ok() {
            self.wake_shippers(cx);
        }
        if cx.load(self.word) & KEEPS == 0 {
            self.moments.set_keeping(cx, ends, Keeping::No(moment));
        }
    }

    /// True while old versions are kept.
    pub(crate) fn keeps<F: Fabric>(&self, cx: &Cx<F>) -> bool {
        cx.load(self.word) & KEEPS != 0
    }

    /// This worker's transaction does not commit: the last record for the fragments before `position` of its
    /// ring's stream will not come.
    pub(super) fn give_up(&self, worker: WorkerId, position: u64) {
        self.active[usize::from(worker.0)].given_up.store(position, Ordering::Release);
    }

    /// Up to where a worker has given up what it has appended.
    pub(super) fn given_up(&self, worker: WorkerId) -> u64 {
        self.active[usize::from(worker.0)].given_up.load(Ordering::Acquire)
    }

    /// The oldest epoch in which a worker of this host may still append; `u64::MAX`: nobody runs.
    pub fn oldest_active(&self) -> u64 {
        self.active.iter().map(|active| active.shown.load(Ordering::SeqCst)).min().unwrap_or(NONE)
    }

    /// Says that a transaction of `epoch` removes rows. Before its record is appended.
    pub fn note_removal<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) {
        debug_assert!(epoch > 0 && epoch < CLOSED, "rows are removed in an epoch, not {epoch:#x}");
        let mut seen = cx.load(self.removal);
        while seen < epoch {
            match cx.compare_exchange(self.removal, seen, epoch) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
    }

    /// The newest epoch in which rows were removed: who has found that a row is missing depends on nothing
    /// newer.
    pub fn newest_removal<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        cx.load(self.removal)
    }

    /// Asks for `epoch` to become durable, and wakes the shipper if nobody here has asked for it before.
    pub fn want<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) {
        debug_assert_ne!(epoch, CLOSED, "nobody waits for a log to be closed");
        // (Asked for all the time by those who wait: no need to write the line each time.)
        if self.wanted() < epoch && self.wanted.fetch_max(epoch, Ordering::SeqCst) < epoch {
            self.wake_shipper(cx);
        }
    }

    fn wake_shipper<F: Fabric>(&self, cx: &Cx<F>) {
        if !cx.sabotaged("log.wake-shipper") {
            cx.ring(self.bells[usize::from(cx.host().0)]);
        }
    }

    /// The shipper is about to sleep until somebody wakes it, or does so no more: then the next record wakes
    /// it.
    pub(super) fn set_idle(&self, idle: bool) {
        if self.is_idle.load(Ordering::Relaxed) != idle {
            self.is_idle.store(idle, Ordering::SeqCst);
        }
    }

    /// A record has been appended, and all see it.
    pub(super) fn note_record<F: Fabric>(&self, cx: &Cx<F>) {
        if self.is_idle.load(Ordering::SeqCst) {
            self.wake_shipper(cx);
        }
    }

    /// The newest epoch that somebody here asked for.
    pub fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Asks for room in a ring: to be shipped although no epoch has ended.
    pub fn want_room<F: Fabric>(&self, cx: &Cx<F>) {
        if !self.room_wanted.swap(true, Ordering::SeqCst) {
            self.wake_shipper(cx);
        }
    }

    /// True if somebody has asked for room since the last time.
    pub(super) fn take_room_wanted(&self) -> bool {
        self.room_wanted.load(Ordering::Relaxed) && self.room_wanted.swap(false, Ordering::Relaxed)
    }

    /// Ends epoch `epoch`, unless somebody did, and wakes the shippers of all hosts: each owes a mark of it.
    pub fn tick<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) -> bool {
        let word = cx.load(self.word);
        let ended = epoch_in(word) == epoch && cx.compare_exchange(self.word, word, word + 1).is_ok();
        if ended && !cx.sabotaged("log.wake-shippers") {
            self.wake_shippers(cx);
        }
        ended
    }

    /// Wakes the shippers of all hosts, behind a change that all see.
    pub(super) fn wake_shippers<F: Fabric>(&self, cx: &Cx<F>) {
        self.bells.iter().for_each(|bell| cx.ring(*bell));
    }

    /// Wakes all who wait for more to be durable, on all hosts.
    pub(super) fn wake_waiting<F: Fabric>(&self, cx: &Cx<F>) {
        if !cx.sabotaged("log.wake-waiting") {
            self.waiting.iter().for_each(|bell| cx.ring(*bell));
        }
    }

    /// The durable epoch of `host`.
    pub fn durable<F: Fabric>(&self, cx: &Cx<F>, host: HostId) -> u64 {
        cx.load(self.durable[usize::from(host.0)])
    }

    /// Up to which epoch the logs of all `members` (bit n: host n) hold everything.
    pub fn pod_durable<F: Fabric>(&self, cx: &Cx<F>, members: u16) -> u64 {
        let member = |host: &usize| members >> host & 1 != 0;
        let all = (0..self.durable.len()).filter(member);
        all.map(|host| cx.load(self.durable[host])).min().unwrap_or(0)
    }

    /// The log of `host` holds everything up to `epoch`. Only its shipper; says nothing new if the pod was
    /// told more.
    pub(super) fn publish<F: Fabric>(&self, cx: &Cx<F>, host: HostId, epoch: u64) {
        assert_ne!(epoch, CLOSED, "a mark closes no log");
        let word = self.durable[usize::from(host.0)];
        let before = cx.load(word);
        if before < epoch {
            // Others wait for it, and a compare-and-swap is seen at once.
            cx.compare_exchange(word, before, epoch).expect("only the shipper changes it");
        }
    }

    /// The log of `host`, which is dead, is closed: it holds nobody back.
    pub(super) fn close<F: Fabric>(&self, cx: &Cx<F>, host: HostId) {
        let word = self.durable[usize::from(host.0)];
        let before = cx.load(word);
        cx.compare_exchange(word, before, CLOSED).expect("only its successor changes it");
        // It may have been the last that the others waited for.
        self.wake_waiting(cx);
    }

    /// A new incarnation of this host reopens its closed log: from now on the pod waits for its marks, of
    /// which none says less than what the pod was told before.
    pub(super) fn reopen<F: Fabric>(&self, cx: &Cx<F>) {
        let word = self.durable[usize::from(cx.host().0)];
        if cx.load(word) == CLOSED {
            let told = self.now(cx) - 1;
            cx.compare_exchange(word, CLOSED, told).expect("only this host changes it");
        }
    }
}
