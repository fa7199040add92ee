//! One host of a pod, whatever its tables are kept in: who it is, who owns which partition, its share of the
//! pod's memory, its log, and what its workers are at.
//!
//! Invariants:
//! 1. Partition p is used by its owner: its home, or whoever took it over (owners.rs).
//! 2. A host that the pod has ruled out stays ruled out: nothing is committed, and it sends no heartbeat.
//!
//! Rooms: `owners`, who owns what; `transactions`, `wait_graph`, which are open; `waits`, what workers wait
//! for, and `wait_policy`, for how long; `pool`, workers that are lent; `service`, what passes between this
//! host and the others; `events`, what is told of it. Not here: what its tables are kept in (method/), and
//! how a host stays in its pod and ends (host/).

pub(crate) mod events;
pub(crate) mod owners;
pub(crate) mod pool;
pub(crate) mod service;
pub(crate) mod snapshots;
pub(crate) mod transactions;
pub(crate) mod wait_graph;
pub(crate) mod wait_policy;
pub(crate) mod waits;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use liger_fabric::{Cx, Fabric, HostId, Latch};
use liger_pod::PodError;
use liger_pod::epochs::Epochs;
use liger_pod::heap::{Heap, Usage};
use liger_pod::lanes::Lanes;
use liger_pod::membership::{self, Member};
use liger_pod::plan::{PartitionId, Plan};
use liger_pod::selftest::Responder;

use crate::catalog::Catalog;
use crate::history::HistorySink;
use crate::log::HostLog;
use crate::log::ship::LogFailure;
use crate::protocol::mail::Outbox;
use crate::txn::{Conflict, Ticket, TxnError};
pub use events::{HandOverStep, Hearer, Hosts, PodEvent, TakeoverStep};
use owners::Owners;
pub use pool::{Step, WorkerPool, WorkerToken};
use snapshots::Snapshots;
pub use transactions::Holder;
use transactions::Transactions;
use wait_policy::WaitPolicy;
pub use waits::{Wait, Waits};

/// What an instance is given.
pub(crate) struct Equipment {
    /// Its log; without one, nothing survives the hosts.
    pub(crate) log: Option<HostLog>,
    /// Who keeps the history of its transactions.
    pub(crate) history: Option<Arc<dyn HistorySink>>,
    /// Who hears of what happens to it.
    pub(crate) hearer: Option<Hearer>,
    /// What its transactions do when they meet a lock, unless they say otherwise.
    pub(crate) wait: &'static (dyn WaitPolicy + Sync),
    /// Bytes that the changes of a transaction may take.
    pub(crate) transaction_bytes: u64,
    /// How long old versions are kept without readers, in nanoseconds.
    pub(crate) keep_idle_ns: u64,
}

/// Open transactions hold this host up in taking over partitions, or in following them.
#[derive(Default)]
pub(crate) struct HeldUp {
    pub(crate) taking: AtomicBool,
    pub(crate) following: AtomicBool,
}

/// Counts of the mail of a host.
#[derive(Default, Debug)]
pub struct MailCounts {
    /// Messages sent.
    pub sent: AtomicU64,
    /// Messages that could not be understood.
    pub dropped: AtomicU64,
}

/// Adds to a counter that only informs.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// One host of a pod. Its workers share it.
pub struct Instance {
    pub(crate) me: HostId,
    pub(crate) plan: Plan,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) owners: Owners,
    pub(crate) transactions: Transactions,
    pub(crate) snapshots: Snapshots,
    /// What each transaction waits for.
    pub(crate) waits: Waits,
    /// What its transactions do when they meet a lock, unless they say otherwise.
    pub(crate) wait: &'static (dyn WaitPolicy + Sync),
    /// Bytes that the changes of a transaction may take.
    pub(crate) transaction_bytes: u64,
    pub(crate) held_up: HeldUp,
    pub(crate) heap: Heap,
    pub(crate) epochs: Epochs,
    pub(crate) lanes: Lanes,
    pub(crate) outbox: Outbox,
    mail: MailCounts,
    /// When this host last woke the others for reclamation.
    urged_ns: AtomicU64,
    pub(crate) log: Option<HostLog>,
    history: Option<Arc<dyn HistorySink>>,
    pub(crate) member: Member,
    pub(crate) responder: Responder,
    /// Set when the pod has ruled that this host is not a member any more.
    fenced: AtomicBool,
    /// Set while another host waits for a checkpoint of this one.
    pub(crate) waited_for: AtomicBool,
    /// Where the checkpoint begins that is under way; 0: none is, `u64::MAX`: it is about to begin.
    pub(crate) checkpointing: AtomicU64,
    /// Where the last checkpoint begins that counts; 0: none since the host began.
    pub(crate) checkpointed: AtomicU64,
    pub(crate) hearer: Option<Hearer>,
    /// Why the last checkpoint has failed, if it has.
    checkpoint_failure: Latch<Option<String>>,
    /// The log had a fault when the hearer was told last.
    log_has_fault: AtomicBool,
}

impl Instance {
    /// The caller's host, which has just become a member.
    pub(crate) fn new<F: Fabric>(
        cx: &Cx<F>,
        plan: &Plan,
        catalog: Arc<Catalog>,
        member: Member,
        equipment: Equipment,
    ) -> Self {
        let (me, incarnation) = (cx.host(), member.incarnation());
        let Equipment { log, history, hearer, wait, transaction_bytes, keep_idle_ns } = equipment;
        Self {
            me,
            plan: plan.clone(),
            catalog,
            owners: Owners::new(cx, plan, member.slot()),
            transactions: Transactions::new(),
            snapshots: Snapshots::new(keep_idle_ns),
            waits: Waits::new(),
            wait,
            transaction_bytes,
            held_up: HeldUp::default(),
            heap: Heap::new(plan, me, incarnation),
            epochs: Epochs::new(cx, plan),
            lanes: Lanes::new(cx, plan, incarnation),
            outbox: Outbox::default(),
            mail: MailCounts::default(),
            urged_ns: AtomicU64::new(0),
            log,
            history,
            member,
            responder: Responder::new(plan),
            fenced: AtomicBool::new(false),
            waited_for: AtomicBool::new(false),
            checkpointing: AtomicU64::new(0),
            checkpointed: AtomicU64::new(0),
            hearer,
            checkpoint_failure: Latch::default(),
            log_has_fault: AtomicBool::new(false),
        }
    }

    /// This host's number.
    pub fn id(&self) -> HostId {
        self.me
    }

    /// Where everything in the pod lies.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The pod's tables.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The host that owns a partition.
    #[inline]
    pub fn owner(&self, partition: PartitionId) -> HostId {
        self.owners.of(partition).host
    }

    /// The host that a partition was made for.
    pub fn home(&self, partition: PartitionId) -> HostId {
        self.owners.home(partition)
    }

    /// Number of partitions in the pod.
    #[inline]
    pub fn partition_count(&self) -> u16 {
        self.plan.config().partitions
    }

    /// All hosts that the pod may have.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.plan.config().hosts).map(HostId)
    }

    /// The partitions that this host owns.
    pub fn own_partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.plan.partitions().filter(|p| self.owns(*p))
    }

    /// True if this host owns the partition, and its workers may use it.
    #[inline]
    pub fn owns(&self, partition: PartitionId) -> bool {
        partition.0 < self.partition_count()
            && self.owner(partition) == self.me
            && !self.owners.is_closed(partition)
    }

    /// True if this host owns the partition, though its own workers may not use it yet.
    pub fn holds(&self, partition: PartitionId) -> bool {
        partition.0 < self.partition_count() && self.owner(partition) == self.me
    }

    /// Nobody begins to use a partition while it changes hands here.
    ///
    /// # Errors
    /// If this one does.
    #[inline]
    pub fn check_open(&self, partition: PartitionId) -> Result<(), Conflict> {
        if self.owners.is_closed(partition) { Err(Conflict::Partition) } else { Ok(()) }
    }

    /// Who keeps the history of this host's transactions.
    pub(crate) fn history(&self) -> Option<&dyn HistorySink> {
        self.history.as_deref().map(|history| history as &dyn HistorySink)
    }

    /// Leaves the pod.
    ///
    /// # Errors
    /// If the others take this host for dead.
    pub(crate) fn leave<F: Fabric>(self, cx: &Cx<F>) -> Result<(), PodError> {
        self.member.leave(cx)?.finish(cx)
    }

    /// The hosts that reclamation waits for, bit h for host h.
    pub(crate) fn readers<F: Fabric>(&self, cx: &Cx<F>) -> u16 {
        membership::readers(cx, &self.plan)
    }

    /// The members of the pod, bit h for host h.
    pub(crate) fn members<F: Fabric>(&self, cx: &Cx<F>) -> u16 {
        membership::members(cx, &self.plan)
    }

    /// True once the pod has ruled that this host is not a member any more, or this host that it cannot be
    /// one: nothing may be committed, and it sends no heartbeat.
    #[inline]
    pub fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Relaxed)
    }

    /// True while open transactions keep this host from taking over partitions of dead hosts, or from
    /// following them to their successors: those that wait for others had better end.
    pub fn is_held_up(&self) -> bool {
        self.held_up.taking.load(Ordering::Relaxed) || self.held_up.following.load(Ordering::Relaxed)
    }

    /// True while another host waits for a checkpoint of this one.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waited_for.load(Ordering::Relaxed)
    }

    /// Remembers that the pod has ruled against this host, or will: from now on it is silent.
    pub(crate) fn mark_fenced(&self) {
        self.fenced.store(true, Ordering::Relaxed);
    }

    /// Shows that this host lives, if it is time to and it still does.
    pub fn beat<F: Fabric>(&self, cx: &Cx<F>) {
        if !self.is_fenced() && self.member.keep_alive(cx).is_err() {
            self.mark_fenced();
        }
    }

    /// Shared memory in use in the whole pod.
    pub fn usage<F: Fabric>(&self, cx: &Cx<F>) -> Usage {
        self.heap.usage(cx)
    }

    /// One turn of writing this host's log to storage. Says when to come again, see [`HostLog::step`]; a
    /// failure shows in [`HostLog::failure`].
    pub fn ship<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        let after_failure_ns = 1_000_000;
        let Some(log) = &self.log else { return after_failure_ns };
        let rest_ns = log.step(cx, self.members(cx)).unwrap_or(after_failure_ns);
        self.tell_of_log(cx, log);
        rest_ns
    }

    /// Notes that a checkpoint has failed, or that one counts.
    pub(crate) fn note_checkpoint<F: Fabric>(&self, cx: &Cx<F>, failure: Option<String>) {
        if let Some(why) = &failure {
            self.announce(&PodEvent::CheckpointFails { why: why.clone() });
        }
        *self.checkpoint_failure.lock(cx) = failure;
    }

    /// The epoch in which this host's last checkpoint begins that counts; 0: none is known yet.
    pub fn checkpointed(&self) -> u64 {
        self.checkpointed.load(Ordering::SeqCst)
    }

    /// Why the last checkpoint has failed, if it has.
    pub(crate) fn checkpoint_failure<F: Fabric>(&self, cx: &Cx<F>) -> Option<String> {
        self.checkpoint_failure.lock(cx).clone()
    }

    /// Tells whoever keeps a diary when the log is full, has room again, or has ended.
    fn tell_of_log<F: Fabric>(&self, cx: &Cx<F>, log: &HostLog) {
        let fault = log.has_fault();
        if self.log_has_fault.load(Ordering::Relaxed) != fault {
            self.log_has_fault.store(fault, Ordering::Relaxed);
            self.announce(&PodEvent::Log { fault: log.fault(cx) });
        }
    }

    /// See [`crate::Session::is_durable`].
    pub(crate) fn is_durable<F: Fabric>(&self, cx: &Cx<F>, ticket: Ticket) -> Result<bool, TxnError> {
        let Some(log) = &self.log else { return Ok(true) };
        log.is_durable(cx, ticket.0, || self.members(cx)).map_err(|failure| self.refusal(&failure))
    }

    /// What a transaction is told of a log that does not go on.
    fn refusal(&self, failure: &LogFailure) -> TxnError {
        match failure {
            LogFailure::Full(_) => TxnError::LogFull { host: self.me.0 },
            _ => TxnError::LogFailed,
        }
    }

    /// This host's log, if the pod keeps one.
    pub fn log(&self) -> Option<&HostLog> {
        self.log.as_ref()
    }

    /// These workers are lent to transactions that have none of their own (`row::DetachedTxn`), a step at a
    /// time. Of those that rest in between, at most `resting` keep a number for their locks, and at most so
    /// many that every lent worker finds one for the transaction that it runs; the others are parked.
    ///
    /// # Panics
    /// If worker 0 is among them: somebody has to answer other hosts meanwhile.
    pub fn lend(&self, workers: &Range<u8>, resting: u8) {
        self.transactions.lend(workers, resting);
    }

    /// Transactions that rest and whose locks name no number of their own: see `transactions`.
    pub fn parked_transactions(&self) -> usize {
        self.transactions.count_parked()
    }

    /// What this host's transactions wait for, by their numbers.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// The heap, for audits.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }
}
