//! The snapshots that are open on this host (docs/protocols/snapshots.md): as of which moments, and what
//! other hosts are told of that.
//!
//! Invariants:
//! 1. What is told is no newer than any moment that a snapshot of this host reads as of, and is told before
//!    such a moment is taken.
//!
//! Not here: the clock (log/moments.rs), and how rows are read (row/as_of.rs).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use liger_fabric::{Cx, Fabric, HostId, Latch};
use liger_pod::membership::{HostState, Slot};
use liger_pod::watch;

use super::Instance;
use crate::log::HostLog;
use crate::log::moments::NONE;
use crate::txn::{Conflict, TxnError};

/// Protocol steps that a mutation test can leave out.
pub(crate) const SABOTAGE_STEPS: &[&str] = &["snapshots.pin-what-is-read"];

/// How many snapshots read as of each moment, those that are being opened included.
pub(crate) struct Snapshots {
    open: Latch<Open>,
    /// This host has opened some, or kept what it has overwritten: it sees to it that this ends.
    is_kept: AtomicBool,
    idle: Latch<Idle>,
    /// A host that keeps old versions looks so seldom whether anybody reads them, in nanoseconds, and keeps
    /// them so long without readers.
    idle_ns: u64,
}

#[derive(Default)]
struct Open {
    at: BTreeMap<u64, u32>,
    told: Option<u64>,
}

/// When the pod was seen to open its last snapshot.
#[derive(Default)]
struct Idle {
    opened: u64,
    since_ns: u64,
}

impl Snapshots {
    /// None yet; so long old versions are kept without readers, in nanoseconds.
    pub(crate) fn new(idle_ns: u64) -> Self {
        let is_kept = AtomicBool::new(false);
        Self { open: Latch::default(), is_kept, idle: Latch::default(), idle_ns }
    }

    /// This host keeps old versions, or has others keep them.
    #[inline]
    pub(crate) fn note_kept(&self) {
        if !self.is_kept.load(Ordering::Relaxed) {
            self.is_kept.store(true, Ordering::Relaxed);
        }
    }
}

impl Open {
    fn add(&mut self, moment: u64) {
        *self.at.entry(moment).or_default() += 1;
    }

    fn remove(&mut self, moment: u64) {
        let count = self.at.get_mut(&moment).expect("it is open");
        debug_assert!(*count > 0, "a snapshot is closed once");
        *count -= 1;
        if *count == 0 {
            self.at.remove(&moment);
        }
    }
}

impl Instance {
    /// Whether snapshots can be opened: the pod keeps logs, and all of them go on. From a host whose log does
    /// not, nobody learns that it keeps old versions.
    pub fn has_snapshots<F: Fabric>(&self, cx: &Cx<F>) -> bool {
        self.log.as_ref().is_some_and(|log| log.check(cx, self.members(cx)).is_ok())
    }

    /// Opens a snapshot of what has committed by now: the moment that it reads as of. `turn` is called while
    /// others end their commits, or learn that they have to keep old versions; false: it waits no longer.
    ///
    /// # Errors
    /// If the pod keeps no log, or a host's log does not go on; if this host has been ruled out, or another
    /// one has died while it committed, and its locks are not resolved yet; [`TxnError::Rollback`] if it
    /// waits no longer.
    pub(crate) fn open_snapshot<F: Fabric>(
        &self,
        cx: &Cx<F>,
        mut turn: impl FnMut() -> bool,
    ) -> Result<u64, TxnError> {
        let Some(log) = &self.log else {
            let why = "the pod keeps no log, whose epochs say what is committed when";
            return Err(TxnError::Unsuited { what: "snapshots", why });
        };
        let (clock, moments) = (log.clock(), log.clock().moments());
        let mut open = self.snapshots.open.lock(cx);
        let first = moments.now(cx);
        open.add(first);
        if !cx.sabotaged("moments.tell-before-taking") {
            self.tell_oldest(cx, &mut open);
        }
        drop(open);
        moments.note_opened(cx);
        self.snapshots.note_kept();
        let mut may_change = |host| match turn() {
            true => self.may_commit(cx, host),
            false => Err(TxnError::Rollback),
        };
        let closed = loop {
            if !clock.keep(cx, self.members(cx)) {
                if let Err(error) = may_change(self.me) {
                    break Err(error);
                }
                match log.check(cx, self.members(cx)) {
                    Ok(()) => continue,
                    Err(failure) => break Err(self.refusal(&failure)),
                }
            }
            let epoch = clock.now(cx);
            match moments.close(cx, epoch, &mut may_change) {
                Ok(Some(moment)) => break Ok(moment),
                Ok(None) => _ = clock.tick(cx, epoch),
                Err(error) => break Err(error),
            }
        };
        let moment = closed.inspect_err(|_| self.close_snapshot(cx, first))?;
        debug_assert!(first <= moment, "what was told is no newer than what is read as of");
        let mut open = self.snapshots.open.lock(cx);
        open.add(moment);
        open.remove(first);
        self.tell_oldest(cx, &mut open);
        Ok(moment)
    }

    /// True if a commit of a host may still change something.
    ///
    /// # Errors
    /// If this host has been ruled out; and if that one has died, and others have not resolved its locks:
    /// what its last commits have changed may be changed in part.
    fn may_commit<F: Fabric>(&self, cx: &Cx<F>, host: HostId) -> Result<bool, TxnError> {
        if self.is_fenced() {
            return Err(TxnError::Fenced);
        }
        // A word that makes no sense tells nothing.
        let Ok(slot) = Slot::load(cx, &self.plan, host) else { return Ok(true) };
        match slot.state {
            HostState::Fenced if watch::is_resolved(cx, &self.plan, slot) == Ok(true) => Ok(false),
            HostState::Fenced => Err(Conflict::Partition.into()),
            state => Ok(state.is_member()),
        }
    }

    /// Pins what any snapshot may want, for somebody who is to look at blocks of old versions: they are not
    /// freed until [`Instance::close_snapshot`] is called for the first moment, but for those that were
    /// overwritten up to the second one, which no snapshot wants.
    pub(crate) fn pin_old_versions<F: Fabric>(&self, cx: &Cx<F>, log: &HostLog) -> (u64, u64) {
        let (moments, members) = (log.clock().moments(), self.members(cx));
        let mut open = self.snapshots.open.lock(cx);
        let mine = open.at.first_key_value().map_or(NONE, |(moment, _)| *moment);
        let pinned = moments.oldest_wanted(cx, members).min(mine);
        open.add(pinned);
        self.tell_oldest(cx, &mut open);
        (pinned, moments.freed(cx).max(pinned))
    }

    /// Pins what a snapshot of another host wants, if that still reads as of this moment; false if it may
    /// not. Ends with [`Instance::close_snapshot`].
    pub(crate) fn pin_for<F: Fabric>(
        &self,
        cx: &Cx<F>,
        log: &HostLog,
        (host, moment): (HostId, u64),
    ) -> bool {
        let mut open = self.snapshots.open.lock(cx);
        open.add(moment);
        self.tell_oldest(cx, &mut open);
        let reads = log.clock().moments().told(cx, host) <= moment && self.members(cx) >> host.0 & 1 != 0
            || cx.sabotaged("snapshots.pin-what-is-read");
        if !reads {
            open.remove(moment);
            self.tell_oldest(cx, &mut open);
        }
        reads
    }

    /// Opens a snapshot of a moment that `host` reads as of still; false if it may not. It was closed there.
    pub(crate) fn share_snapshot<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (host, moment): (HostId, u64),
    ) -> Result<bool, TxnError> {
        let Some(log) = &self.log else { return Ok(false) };
        if self.is_fenced() {
            return Err(TxnError::Fenced);
        }
        if moment >= log.clock().moments().now(cx) || self.plan.hosts().all(|known| known != host) {
            return Ok(false);
        }
        log.clock().moments().note_opened(cx);
        if host != self.me {
            return Ok(self.pin_for(cx, log, (host, moment)));
        }
        let mut open = self.snapshots.open.lock(cx);
        let reads = open.at.first_key_value().is_some_and(|(oldest, _)| *oldest <= moment);
        if reads {
            open.add(moment);
            debug_assert!(open.told.is_some_and(|told| told <= moment), "somebody here reads as of before");
        }
        Ok(reads)
    }

    /// A snapshot is read no more.
    pub(crate) fn close_snapshot<F: Fabric>(&self, cx: &Cx<F>, moment: u64) {
        let mut open = self.snapshots.open.lock(cx);
        open.remove(moment);
        self.tell_oldest(cx, &mut open);
    }

    fn tell_oldest<F: Fabric>(&self, cx: &Cx<F>, open: &mut Open) {
        let oldest = open.at.first_key_value().map(|(moment, _)| *moment);
        if let Some(log) = self.log.as_ref().filter(|_| open.told != oldest) {
            log.clock().moments().tell(cx, oldest.unwrap_or(NONE));
            open.told = oldest;
        }
    }

    /// How many snapshots this host has opened, refused ones included.
    pub fn opened_snapshots<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        self.log.as_ref().map_or(0, |log| log.clock().moments().opened_by(cx, self.me))
    }

    /// How many snapshots are open here, and as of which moment the oldest of them reads.
    pub fn open_snapshots<F: Fabric>(&self, cx: &Cx<F>) -> (u64, Option<u64>) {
        let open = self.snapshots.open.lock(cx);
        (open.at.values().map(|count| u64::from(*count)).sum(), open.at.first_key_value().map(|it| *it.0))
    }

    /// If nobody has read a snapshot for long, old versions are not kept any more. Called now and then.
    pub(crate) fn rest_from_keeping<F: Fabric>(&self, cx: &Cx<F>) {
        let snapshots = &self.snapshots;
        if !snapshots.is_kept.load(Ordering::Relaxed) {
            return;
        }
        let Some(log) = &self.log else { return };
        let Some(mut idle) = snapshots.idle.try_lock() else { return };
        let now_ns = cx.now_ns();
        if now_ns.saturating_sub(idle.since_ns) < snapshots.idle_ns {
            return;
        }
        let (clock, opened) = (log.clock(), log.clock().moments().opened(cx));
        let nobody_reads = clock.moments().oldest_wanted(cx, self.members(cx)) == clock.moments().now(cx);
        if idle.opened == opened && nobody_reads {
            clock.keep_no_more(cx);
            // Whoever keeps something later says so again.
            snapshots.is_kept.store(clock.keeps(cx), Ordering::Relaxed);
        }
        *idle = Idle { opened, since_ns: now_ns };
    }
}
