//! What keeps a host in its pod, whatever its workers do: heartbeats, an eye on the other hosts, and what has
//! to be done when one of them dies. One worker of the host that runs no transactions calls [`Host::keep`].
//!
//! Not here: what is done about locks (deaths.rs) and partitions (ownership.rs, takeover.rs).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::membership::{HostState, Slot};
use liger_pod::plan::{PartitionId, Plan};
use liger_pod::watch::{self, Watch};

use super::Host;
use super::handover::HandOver;
use crate::instance::events::PodEvent;
use crate::log::ship::LogOptions;
use crate::method::{Logs, Method};
use crate::recovery::directory::PodFiles;
use crate::recovery::{Identity, RecoveryError};

/// Names of the steps that a mutation test can leave out of this file.
pub(super) const SABOTAGE_STEPS: &[&str] = &["detector.close-logs"];

/// Time between two looks at the others, if the lease is long.
const RESTS_NS: u64 = 100_000_000;
/// The same while a death is dealt with: others wait for each step.
const RESTLESS_NS: u64 = 1_000_000;

/// What a host needs to take over a dead host's partitions.
#[derive(Clone, Debug)]
pub struct Takeover {
    /// Where the files of all hosts are.
    pub files: PodFiles,
    /// What the pod is.
    pub identity: Identity,
    /// How logs are kept.
    pub log: LogOptions,
}

impl Takeover {
    /// Where the logs of all hosts are.
    pub(super) fn logs(&self) -> Logs<'_> {
        Logs { files: &self.files, pod: self.identity.pod }
    }
}

/// What the failure detector remembers.
pub(super) struct FailureDetector {
    me: Slot,
    watch: Watch,
    /// Somebody is dead whom the pod has not dealt with yet: the next turn is to come soon.
    pub restless: bool,
    /// It was announced that the pod counts this host as dead.
    fenced: bool,
    /// It was announced that the pod's memory is damaged.
    damaged: bool,
    pub takeover: Option<Takeover>,
    /// Partitions that this host is taking over, and whether they are joined with the shared rows already.
    pub taking: Vec<(PartitionId, bool)>,
    /// Dead hosts whose logs this host has closed.
    pub closed: Vec<Slot>,
    /// The round of transactions that ended when this host last fenced somebody.
    pub round: u64,
    /// Incarnations that this host has seen cut off, and those whose locks it has resolved.
    cut_off: BTreeSet<(u8, u16)>,
    resolved: BTreeSet<(u8, u16)>,
    /// Dead hosts whose partitions this one has taken over, and that may not come back yet.
    pub taken_over: Vec<Slot>,
    /// What has come to this host, and no checkpoint of its own has.
    pub unkept: Option<Unkept>,
    /// Others wait for a checkpoint of this host.
    pub urgent: bool,
    /// Partitions that change hands while their owners live.
    pub handover: HandOver,
    /// What has failed, and when it is tried again.
    failed: Vec<Failed>,
}

/// Partitions that have come to this host, until a checkpoint of its own has them: the newest images are
/// others', and the logs behind those are kept.
#[derive(Default)]
pub(super) struct Unkept {
    /// Whose they were.
    pub from: BTreeSet<HostId>,
    pub partitions: BTreeMap<PartitionId, Arrival>,
}

/// When a partition came to this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrival {
    /// An epoch read before it was this host's: checkpoints that began before that one lack it. 0: any that
    /// is under way may have it.
    pub since: u64,
    /// A checkpoint that begins in this epoch or later has it.
    pub kept_from: u64,
}

impl Unkept {
    /// The epoch in which a checkpoint has to begin that has all of them.
    pub fn epoch(&self) -> u64 {
        self.partitions.values().map(|arrival| arrival.kept_from).max().unwrap_or(0)
    }
}

/// What is to be done about a dead host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    /// Free this host's rows from its locks.
    Resolve,
    /// Take over its partitions.
    TakeOver,
}

/// What could not be done about a dead host.
struct Failed {
    task: Task,
    dead: Slot,
    why: String,
    again_at_ns: u64,
}

impl FailureDetector {
    pub fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan, me: Slot, takeover: Option<Takeover>) -> Self {
        let watch = Watch::new(cx, plan, me);
        let (taking, cut_off, resolved) = Default::default();
        let (closed, taken_over, failed) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            me,
            watch,
            restless: false,
            fenced: false,
            damaged: false,
            takeover,
            taking,
            closed,
            round: 0,
            cut_off,
            resolved,
            taken_over,
            unkept: None,
            urgent: false,
            handover: HandOver::default(),
            failed,
        }
    }

    /// This host's incarnation.
    pub fn me(&self) -> Slot {
        self.me
    }

    /// No checkpoint has these partitions yet, which came from these hosts.
    pub fn await_keeping(
        &mut self,
        from: impl Iterator<Item = HostId>,
        partitions: impl Iterator<Item = (PartitionId, Arrival)>,
    ) {
        let unkept = self.unkept.get_or_insert_default();
        unkept.from.extend(from);
        for (partition, arrival) in partitions {
            debug_assert!(
                arrival.since < arrival.kept_from,
                "{partition} came before it is kept: {arrival:?}"
            );
            unkept.partitions.insert(partition, arrival);
        }
    }

    /// If no checkpoint of this host has this partition, which came to it: checkpoints that began before this
    /// epoch lack it.
    pub fn unkept_since(&self, partition: PartitionId) -> Option<u64> {
        Some(self.unkept.as_ref()?.partitions.get(&partition)?.since)
    }

    /// How many deaths this host has resolved.
    pub fn resolved_deaths(&self) -> usize {
        self.resolved.len()
    }

    /// Whether something has failed, and is not to be tried again yet.
    fn rests(&self, task: Task, dead: &Slot, now_ns: u64) -> bool {
        let is_it = |failed: &Failed| (failed.task, failed.dead) == (task, *dead);
        self.failed.iter().any(|failed| is_it(failed) && now_ns < failed.again_at_ns)
    }
}

impl<M: Method> Host<M> {
    /// One turn of keeping this host in the pod. Returns how much it did. Long if a dead host's partitions
    /// are taken over, or a living one's handed over; other hosts are served meanwhile.
    pub fn keep<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let Some(mut detector) = self.detector.try_lock() else { return 0 };
        let (mut worked, successor_of) = self.look_around(cx, &mut detector);
        if self.is_fenced() {
            return worked;
        }
        worked += self.take_over_dead(cx, &mut detector, &successor_of);
        detector.urgent = false;
        worked += self.release_dead(cx, &mut detector);
        worked += self.hand_over(cx, &mut detector);
        self.waited_for.store(detector.urgent, Ordering::Relaxed);
        worked
    }

    /// After so long the failure detector's next turn is due, unless somebody gives notice of an end
    /// ([`Host::notice_end`]).
    pub fn detector_rest_ns<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        let restless = self.detector.lock(cx).restless;
        let most_ns = if restless { RESTLESS_NS } else { RESTS_NS };
        (self.plan.config().lease_ns / 32).min(most_ns)
    }

    /// Somebody was told that a process of this machine has ended: the failure detector's next turn asks
    /// which.
    pub fn notice_end(&self) {
        self.doubts.store(true, Ordering::Release);
    }

    /// What this host cannot do at present about dead ones and about rows of before a restart, and why. It
    /// tries again now and then: what is in the way may go, a folder that somebody else holds for example.
    pub fn faults<F: Fabric>(&self, cx: &Cx<F>) -> Vec<String> {
        let mut faults = self.faults.lock(cx).clone();
        faults.extend(self.method.faults(cx));
        faults.extend(self.log.as_ref().and_then(|log| log.fault(cx)));
        faults.extend(self.checkpoint_failure(cx).map(|why| format!("cannot take a checkpoint: {why}")));
        faults
    }

    /// Notes that something has failed. A takeover stays this one's: nobody else may take up what it left
    /// half done.
    pub(super) fn note_failed<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        (task, dead): (Task, &[Slot]),
        why: &RecoveryError,
    ) {
        let again_at_ns = cx.now_ns() + self.plan.config().lease_ns;
        detector.failed.retain(|failed| failed.task != task || !dead.contains(&failed.dead));
        let failed = |&dead: &Slot| Failed { task, dead, why: why.to_string(), again_at_ns };
        detector.failed.extend(dead.iter().map(failed));
        self.show_failed(cx, detector);
    }

    /// Forgets failures of what has succeeded since.
    pub(super) fn forget_failed<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
        (task, done): (Task, &[Slot]),
    ) {
        let before = detector.failed.len();
        detector.failed.retain(|failed| failed.task != task || !done.contains(&failed.dead));
        if detector.failed.len() != before {
            self.show_failed(cx, detector);
        }
    }

    fn show_failed<F: Fabric>(&self, cx: &Cx<F>, detector: &FailureDetector) {
        let told = |failed: &Failed| {
            let (dead, why) = (failed.dead.host.0, &failed.why);
            match failed.task {
                Task::Resolve => format!("cannot free rows from the locks of host {dead}: {why}"),
                Task::TakeOver => format!("cannot take over from host {dead}: {why}"),
            }
        };
        let unproven = detector.watch.unproven().map(|(host, why)| {
            format!("cannot find any host dead before there is proof that host {} is: {why}", host.0)
        });
        *self.faults.lock(cx) = detector.failed.iter().map(told).chain(unproven).collect();
    }

    /// The short part of a turn: shows that this host lives, looks at the others, resolves the locks of the
    /// dead, and follows partitions to their new owners. A takeover does this all the time. Returns how much
    /// it did, and whose successor this host is.
    pub(super) fn look_around<F: Fabric>(
        &self,
        cx: &Cx<F>,
        detector: &mut FailureDetector,
    ) -> (usize, Vec<Slot>) {
        let unproven = detector.watch.unproven();
        self.beat(cx);
        if self.doubts.swap(false, Ordering::Acquire) {
            detector.watch.doubt();
        }
        if self.is_fenced() || detector.watch.look(cx).is_err() {
            self.instance.mark_fenced();
            if !std::mem::replace(&mut detector.fenced, true) {
                self.announce(&PodEvent::Fenced(watch::cut_off(cx, &self.plan, detector.me)));
            }
            return (0, Vec::new());
        }
        if let Some(damage) = self.damage()
            && !std::mem::replace(&mut detector.damaged, true)
        {
            self.announce(&PodEvent::Damaged { why: damage.to_string() });
        }
        if let Some((accusation, at_ns)) = detector.watch.take_accused() {
            let ago_ns = cx.now_ns().saturating_sub(at_ns);
            self.announce(&PodEvent::Accused { accusation, ago_ns });
        }
        if detector.watch.unproven() != unproven {
            self.show_failed(cx, detector);
        }
        let Ok(fenced) = watch::fenced(cx, &self.plan) else { return (0, Vec::new()) };
        detector.restless = !fenced.is_empty() || detector.watch.is_cutting_off();
        for slot in &fenced {
            if detector.cut_off.insert((slot.host.0, slot.incarnation)) {
                self.announce(&PodEvent::CutOff { host: slot.host });
            }
        }
        let successor_of = if fenced.is_empty() { Vec::new() } else { self.successor_of(cx, detector) };
        let mut worked = 0;
        for slot in fenced {
            let incarnation = (slot.host.0, slot.incarnation);
            if slot.state == HostState::Recovered {
                // Whoever recovered it may have died before this last step.
                watch::release(cx, &self.plan, slot);
            }
            if detector.resolved.contains(&incarnation) || detector.rests(Task::Resolve, &slot, cx.now_ns()) {
                continue;
            }
            let logs = detector.takeover.as_ref().map(Takeover::logs);
            match self.resolve_death(cx, slot, &detector.taking, logs) {
                Ok(()) => {
                    detector.resolved.insert(incarnation);
                    self.announce(&PodEvent::LocksResolved { host: slot.host });
                    detector.round = self.transactions.close_round();
                    self.forget_failed(cx, detector, (Task::Resolve, &[slot]));
                }
                // A damaged index or record: rows stay locked, and the number unused.
                Err(failure) => self.note_failed(cx, detector, (Task::Resolve, &[slot]), &failure),
            }
            worked += 1;
        }
        worked += self.follow(cx, detector);
        (worked, successor_of)
    }

    /// The dead hosts whose successor this one is; their logs are closed at once, so that they hold nobody
    /// back.
    fn successor_of<F: Fabric>(&self, cx: &Cx<F>, detector: &mut FailureDetector) -> Vec<Slot> {
        let Some(takeover) = detector.takeover.clone() else { return Vec::new() };
        if watch::become_successor(cx, &self.plan, detector.me) != Ok(true) {
            return Vec::new();
        }
        // Only now: a successor that died is among them, with what it had taken over and not finished.
        let mut fenced = watch::fenced(cx, &self.plan).unwrap_or_default();
        let now_ns = cx.now_ns();
        fenced
            .retain(|slot| slot.state == HostState::Fenced && !detector.rests(Task::TakeOver, slot, now_ns));
        for slot in &fenced {
            if detector.closed.contains(slot) {
                continue;
            }
            match self.close_log(cx, &takeover, slot.host) {
                Ok(bytes) => {
                    detector.closed.push(*slot);
                    self.announce(&PodEvent::LogClosed { host: slot.host, bytes });
                }
                Err(failure) => self.note_failed(cx, detector, (Task::TakeOver, &[*slot]), &failure),
            }
        }
        fenced.retain(|slot| detector.closed.contains(slot));
        fenced
    }

    /// Returns the bytes that the log lacked.
    fn close_log<F: Fabric>(
        &self,
        cx: &Cx<F>,
        takeover: &Takeover,
        dead: HostId,
    ) -> Result<u64, RecoveryError> {
        if cx.sabotaged("detector.close-logs") {
            return Ok(0);
        }
        let log = self.log.as_ref().expect("who takes over keeps a log");
        let directory = takeover.files.hold(cx, dead)?;
        Ok(log.close_dead(cx, dead, directory.disk(), takeover.log, self.members(cx))?)
    }
}
