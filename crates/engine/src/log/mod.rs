//! The log: what a transaction changed, kept so that it outlives hosts and the pod's memory.
//! docs/protocols/log.md is the design, with what a crash at each step leaves.
//!
//! * [`record`], [`segment`]: the bytes; [`ring`]: records in shared memory; [`epoch`]: when they count;
//! * [`ship`]: from the rings to the disk; [`scan`]: from the disk to records; [`HostLog`]: all of that for
//!   one host.
//!
//! Invariants:
//! 1. A host has told the pod a durable epoch of this life before [`HostLog::new`] returns: as a member it
//!    holds nobody back, and its last mark says no less than what the pod was told.

pub mod epoch;
pub mod record;
pub mod ring;
pub mod scan;
pub mod segment;
pub mod ship;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use liger_fabric::disk::Disk;
use liger_fabric::{Cx, Fabric, HostId, Latch, SyncAddr, WorkerId};
use liger_pod::plan::Plan;

use epoch::LogClock;
use record::{Origin, RecordWriter};
use ring::{AppendError, Ring};
use ship::{LogFailure, LogOptions, ShipCounts, Shipper};

/// When a transaction's caller is told that it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// When the logs of all hosts hold its epoch on storage: it survives the loss of the shared memory.
    #[default]
    Storage,
    /// When its record lies in shared memory: it survives any host.
    Pod,
    /// At once (benchmarks).
    None,
}

impl Durability {
    /// Its name in reports and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Pod => "pod",
            Self::None => "none",
        }
    }
}

/// Protocol steps of the log that a mutation test can leave out.
pub fn sabotage_steps() -> impl Iterator<Item = &'static str> {
    [ring::SABOTAGE_STEPS, epoch::SABOTAGE_STEPS, ship::SABOTAGE_STEPS].into_iter().flatten().copied()
}

/// One host's log.
pub struct HostLog {
    plan: Plan,
    incarnation: u16,
    clock: LogClock,
    shipper: Latch<Shipper>,
    failure: OnceLock<LogFailure>,
    /// The pod was durable up to here when somebody last looked.
    known_durable: AtomicU64,
}

/// One worker's part of it.
#[derive(Debug)]
pub struct WorkerLog {
    ring: Ring,
    origin: Origin,
}

impl HostLog {
    /// The log of this context's host, in its life `incarnation`. Ships what an earlier life left in the
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
        let clock = LogClock::new(cx, plan, options.first_epoch);
        cx.store(failure_word(plan, cx.host()), 0);
        let mut shipper = Shipper::new(cx, plan, &clock, incarnation, disk, options)?;
        shipper.step(cx, &clock, 0)?;
        let (shipper, failure) = (Latch::new(shipper), OnceLock::new());
        let known_durable = AtomicU64::new(0);
        Ok(Self { plan: plan.clone(), incarnation, clock, shipper, failure, known_durable })
    }

    /// The part of one of this host's workers; each worker asks once.
    pub fn worker<F: Fabric>(&self, cx: &Cx<F>, worker: WorkerId) -> WorkerLog {
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
    pub fn want(&self, epoch: u64) {
        self.clock.want(epoch);
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
        self.want(epoch);
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
        shipper.step(cx, &self.clock, members).inspect_err(|failure| {
            if self.failure.set(failure.clone()).is_ok() {
                // A compare-and-swap is seen at once.
                let _ = cx.compare_exchange(failure_word(&self.plan, cx.host()), 0, 1);
            }
        })
    }

    /// Ships until everything that was committed before is on storage; this host commits nothing any more.
    ///
    /// # Errors
    /// If the log ends before.
    pub fn drain<F: Fabric>(&self, cx: &Cx<F>, mut members: impl FnMut() -> u16) -> Result<(), LogFailure> {
        let last = self.clock.now(cx);
        while self.clock.durable(cx, cx.host()) < last {
            self.want(last);
            if self.step(cx, members())? > 0 {
                cx.pause();
            }
        }
        Ok(())
    }

    /// Removes the segments that hold only records before `epoch`, and says how many.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn truncate_below<F: Fabric>(&self, cx: &Cx<F>, epoch: u64) -> Result<usize, LogFailure> {
        self.shipper.lock(cx).truncate_below(cx, epoch)
    }

    /// Why this host's log has ended, if it has.
    pub fn failure(&self) -> Option<&LogFailure> {
        self.failure.get()
    }

    /// What the shipper has done.
    pub fn counts<F: Fabric>(&self, cx: &Cx<F>) -> ShipCounts {
        self.shipper.lock(cx).counts()
    }

    fn check<F: Fabric>(&self, cx: &Cx<F>, members: u16) -> Result<(), LogFailure> {
        if let Some(failure) = self.failure() {
            return Err(failure.clone());
        }
        let ended =
            |host: &HostId| members >> host.0 & 1 != 0 && cx.load(failure_word(&self.plan, *host)) != 0;
        match self.plan.hosts().find(ended) {
            Some(host) => Err(LogFailure::OtherHost { host: host.0 }),
            None => Ok(()),
        }
    }
}

/// Not zero when the host's log has ended.
fn failure_word(plan: &Plan, host: HostId) -> SyncAddr {
    plan.log_line(host).word(1)
}

impl WorkerLog {
    /// Appends the record in `record`, whose changes make version `llsn`, between
    /// [`LogClock::begin_commit`] and [`LogClock::end_commit`]; returns its position in the ring's stream.
    /// `serve` is called while there is no room.
    ///
    /// # Errors
    /// If it can never fit, or there is no room and the log has ended. Nothing was appended then.
    pub fn append<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        log: &HostLog,
        record: &mut RecordWriter,
        llsn: u64,
        mut serve: impl FnMut(&Cx<F>),
    ) -> Result<u64, AppendError> {
        self.ring.append(cx, record, llsn, self.origin, |cx| {
            log.clock.want_room();
            serve(cx);
            cx.pause();
            log.failure().is_none()
        })
    }
}
