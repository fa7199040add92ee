//! Moments: a finer clock than the log's epochs, for readers of snapshots (docs/protocols/snapshots.md).
//!
//! ```text
//! version   26..64 epoch   14..26 moment within the epoch   0..14 count within the moment
//! pod's     line of the epoch: word 5, the moment; word 6, whether old versions are kept ([`Keeping`])
//! host's    line of the log: word 3, the oldest moment that it reads as of; word 4, how many it has opened;
//!           word 5, up to which moment it may have freed what it had overwritten in other hosts' rows
//! worker's  line of its ring: word 2, odd while it commits
//! ```
//!
//! All that commits in moments up to S is a prefix of the order in which transactions held their locks, once
//! nobody commits that has begun before somebody ended S.
//!
//! Invariants:
//! 1. A commit says that it is under way before it takes its moment, and until its changes are made and its
//!    locks given back: who then ends a moment, and finds that nobody commits who did before, knows that no
//!    version of that moment, or an older one, will still be made.
//! 2. The pod's moment never goes back. Its epoch is never newer than the pod's epoch.
//! 3. Who opens a snapshot tells a moment that is no newer than the one it reads as of before it takes that:
//!    who asks which old versions are wanted reads the pod's moment first, and then what hosts tell.
//! 4. A host frees blocks of old versions up to the least of what is wanted before and after it has told that
//!    it does: who tells what it pins, and then reads what all have told, finds the others where they were.
//!    No snapshot wants what anybody has told.
//! 5. Old versions are kept by who commits in an epoch whose word says so, and all that was overwritten since
//!    a moment is kept while word 6 says so: who has read as of a moment looks at that afterwards. The bit in
//!    the epoch's word is cleared only while word 6 says that keeping ends, by who has loaded the epoch's
//!    word before that; it is set only while word 6 does not; and neither word ever comes twice.
//!
//! Not here: old versions (row/kept.rs).

use std::sync::atomic::{AtomicU64, Ordering};

use liger_fabric::{Cx, Fabric, HostId, SyncAddr, WorkerId};
use liger_pod::plan::Plan;

use super::record::{COUNT_BITS, EPOCH_MOMENTS, epoch_of, epoch_of_moment};
use crate::txn::TxnError;

/// Protocol steps that a test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &[
    "moments.say-that-it-commits",
    "moments.await-commits",
    "moments.end-the-moment",
    "moments.tell-before-taking",
    "moments.tell-what-goes",
];

/// What a host tells that reads no snapshot; and since when old versions are kept if they are not.
pub const NONE: u64 = u64::MAX;

// A version has room for a moment of its epoch, and for counts within it.
const _: () = assert!(EPOCH_MOMENTS.is_power_of_two() && EPOCH_MOMENTS.ilog2() < COUNT_BITS);

/// Whether old versions are kept, beside what the epoch's word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keeping {
    /// They are not. (They were, as of this moment; 0: never.)
    No(u64),
    /// They were, as of this moment, and are not to be any more.
    Ends(u64),
    /// By all who commit in the epoch of this moment, its first, or later.
    From(u64),
    /// By everybody, and so all that was overwritten since this moment.
    Since(u64),
}

/// Two bits above a moment say which it is.
const KIND: u64 = 62;

// A moment has room below them.
const _: () = assert!(epoch_of_moment(1 << KIND) > epoch_of(u64::MAX));

impl Keeping {
    fn encode(self) -> u64 {
        let (kind, moment) = match self {
            Self::No(moment) => (0, moment),
            Self::Ends(moment) => (1, moment),
            Self::From(moment) => (2, moment),
            Self::Since(moment) => (3, moment),
        };
        debug_assert!(moment >> KIND == 0, "{moment:#x} is no moment");
        kind << KIND | moment
    }

    fn decode(word: u64) -> Self {
        let moment = word & ((1 << KIND) - 1);
        match word >> KIND {
            0 => Self::No(moment),
            1 => Self::Ends(moment),
            2 => Self::From(moment),
            _ => Self::Since(moment),
        }
    }
}

/// The words of moments, as one host uses them.
pub struct Moments {
    now: SyncAddr,
    since: SyncAddr,
    /// By host.
    reads: Vec<SyncAddr>,
    freed: Vec<SyncAddr>,
    opened: Vec<SyncAddr>,
    /// By host and worker.
    commits: Vec<Vec<SyncAddr>>,
    /// By this host's workers: what their words say.
    mine: Vec<AtomicU64>,
}

impl Moments {
    /// Those of the caller's host, which is no member yet: none of its workers commits.
    pub fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> Self {
        let epoch = plan.epoch_word();
        let workers = || (0..plan.config().workers).map(WorkerId);
        let word = |host| move |worker| plan.ring_line(host, worker).word(2);
        let commits: Vec<Vec<SyncAddr>> =
            plan.hosts().map(|host| workers().map(word(host)).collect()).collect();
        let of_host = |host: HostId, word: u64| plan.log_line(host).word(word);
        let mine = commits[usize::from(cx.host().0)].iter().map(|&word| {
            let said = cx.load(word).next_multiple_of(2);
            cx.store(word, said);
            AtomicU64::new(said)
        });
        let mine = mine.collect();
        cx.store(of_host(cx.host(), 3), NONE);
        Self {
            now: epoch.word(5),
            since: epoch.word(6),
            reads: plan.hosts().map(|host| of_host(host, 3)).collect(),
            freed: plan.hosts().map(|host| of_host(host, 5)).collect(),
            opened: plan.hosts().map(|host| of_host(host, 4)).collect(),
            commits,
            mine,
        }
    }

    /// The pod's moment.
    pub fn now<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        cx.load(self.now)
    }

    /// This worker commits, or does so no more.
    pub(super) fn say<F: Fabric>(&self, cx: &Cx<F>, commits: bool) {
        let mine = &self.mine[usize::from(cx.worker().0)];
        let said = mine.load(Ordering::Relaxed) + 1;
        debug_assert_eq!(said % 2 == 1, commits, "a worker begins a commit, and ends it");
        mine.store(said, Ordering::Relaxed);
        cx.store(self.commits[usize::from(cx.host().0)][usize::from(cx.worker().0)], said);
    }

    /// True if this worker has said that it commits.
    pub(super) fn is_said(&self, worker: WorkerId) -> bool {
        !self.mine[usize::from(worker.0)].load(Ordering::Relaxed).is_multiple_of(2)
    }

    /// The moment of a commit that has said that it is under way: `least` or later.
    pub(super) fn take<F: Fabric>(&self, cx: &Cx<F>, least: u64) -> u64 {
        let mut now = self.now(cx);
        while now < least {
            match cx.compare_exchange(self.now, now, least) {
                Ok(_) => return least,
                Err(other) => now = other,
            }
        }
        debug_assert!(now >= least, "moment {now} of a commit that needs {least}");
        now
    }

    /// Ends the pod's moment, unless somebody does: the one that has ended; `None` if its epoch has no more
    /// of them, and is the pod's `epoch` or a later one.
    fn end<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) -> Option<u64> {
        let now = self.now(cx);
        if cx.sabotaged("moments.end-the-moment") {
            return Some(now);
        }
        let next = epoch_of_moment(now + 1);
        if next > epoch_of_moment(now) && next > epoch {
            return None;
        }
        let _ = cx.compare_exchange(self.now, now, now + 1);
        Some(now)
    }

    /// Since which moment old versions are kept; [`NONE`]: they are not.
    pub fn since<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        match self.keeping(cx) {
            Keeping::Since(moment) => moment,
            _ => NONE,
        }
    }

    pub(super) fn keeping<F: Fabric>(&self, cx: &Cx<F>) -> Keeping {
        Keeping::decode(cx.load(self.since))
    }

    /// Says that it is so, if it was as it is said to have been.
    pub(super) fn set_keeping<F: Fabric>(&self, cx: &Cx<F>, from: Keeping, to: Keeping) {
        let _ = cx.compare_exchange(self.since, from.encode(), to.encode());
    }

    /// This host reads as of moments from this one on.
    pub(crate) fn tell<F: Fabric>(&self, cx: &Cx<F>, oldest: u64) {
        // Only this host writes it; a compare-and-swap is seen at once.
        let word = self.reads[usize::from(cx.host().0)];
        let seen = cx.load(word);
        let _ = cx.compare_exchange(word, seen, oldest);
    }

    /// The oldest moment that a host reads as of, as it has told.
    pub(crate) fn told<F: Fabric>(&self, cx: &Cx<F>, host: HostId) -> u64 {
        cx.load(self.reads[usize::from(host.0)])
    }

    /// Ends the moment, and waits until nobody commits who did before; `None` if the pod is to go to another
    /// epoch than `epoch`, which it has come to. Meanwhile it asks whether a host may still change anything.
    /// Behind [`Moments::tell`].
    ///
    /// # Errors
    /// What it is answered.
    pub(crate) fn close<F: Fabric>(
        &self,
        cx: &Cx<F>,
        epoch: u64,
        mut may_change: impl FnMut(HostId) -> Result<bool, TxnError>,
    ) -> Result<Option<u64>, TxnError> {
        let Some(ended) = self.end(cx, epoch) else { return Ok(None) };
        if cx.sabotaged("moments.await-commits") {
            return Ok(Some(ended));
        }
        for (host, words) in self.commits.iter().enumerate() {
            for &word in words {
                let first = cx.load(word);
                if first.is_multiple_of(2) {
                    continue;
                }
                while cx.load(word) == first && may_change(HostId(host as u8))? {}
            }
        }
        Ok(Some(ended))
    }

    /// The least moment that a snapshot reads as of which is open on a host of `hosts` (bit h: host h), or
    /// will be opened.
    pub fn oldest_wanted<F: Fabric>(&self, cx: &Cx<F>, hosts: u16) -> u64 {
        let before = self.now(cx);
        let of = |host: &usize| hosts >> host & 1 != 0;
        let told = (0..self.reads.len()).filter(of).map(|host| cx.load(self.reads[host])).min();
        told.unwrap_or(NONE).min(before)
    }

    /// This host is to free what was overwritten up to a moment that nobody wanted: up to which one it may.
    pub(crate) fn free_up_to<F: Fabric>(&self, cx: &Cx<F>, unwanted: u64, hosts: u16) -> u64 {
        debug_assert!(unwanted != NONE, "the pod's moment is wanted");
        let word = self.freed[usize::from(cx.host().0)];
        let mut told = cx.load(word);
        while told < unwanted && !cx.sabotaged("moments.tell-what-goes") {
            // Other workers of this host do so, too.
            told = cx.compare_exchange(word, told, unwanted).map_or_else(|other| other, |_| unwanted);
        }
        self.oldest_wanted(cx, hosts).min(unwanted)
    }

    /// What was overwritten up to this moment may have been freed, and no snapshot wants it. Behind
    /// [`Moments::tell`] of what is not to go.
    pub(crate) fn freed<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        self.freed.iter().map(|&word| cx.load(word)).max().unwrap_or(0)
    }

    /// This host has opened another snapshot.
    pub(crate) fn note_opened<F: Fabric>(&self, cx: &Cx<F>) {
        let word = self.opened[usize::from(cx.host().0)];
        cx.store(word, cx.load(word).wrapping_add(1));
    }

    /// How many all hosts have opened.
    pub(crate) fn opened<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        self.opened.iter().fold(0, |all, &word| all.wrapping_add(cx.load(word)))
    }

    /// How many a host has opened.
    pub(crate) fn opened_by<F: Fabric>(&self, cx: &Cx<F>, host: HostId) -> u64 {
        cx.load(self.opened[usize::from(host.0)])
    }
}
