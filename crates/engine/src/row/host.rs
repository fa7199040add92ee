//! The row engine of one host: its partitions, its share of the pod's memory, and what its workers have in
//! common.
//!
//! Invariants:
//! 1. Partition p lives in the DRAM of its owner: host p modulo the number of hosts, or whoever took it over
//!    (owners.rs).
//! 2. Everything here is shared by the host's workers, behind latches or atomics; everything that belongs to
//!    one worker is in its session (session.rs).
//! 3. Latches are taken in this order, and released before a worker waits for another host: partition, then
//!    remote shard, then leaving, policy, heap, epochs, lanes, outbox, mailbox. The keeper's comes before
//!    all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use liger_fabric::{Cx, Fabric, HostId, Latch, LatchGuard};
use liger_pod::PodError;
use liger_pod::epochs::Epochs;
use liger_pod::heap::{Heap, TupleAddr, Usage};
use liger_pod::lanes::Lanes;
use liger_pod::membership::{self, Member};
use liger_pod::plan::{PartitionId, Plan};
use liger_pod::selftest::Responder;
use liger_store::bwtree::{BwTree, NodeCache, TreeError, TreeHost, Unfinished};

use super::cell::CellFormat;
use super::circles::Circles;
use super::cold::Restoring;
use super::events::{Hearer, PodEvent};
use super::keeper::{Keeper, Takeover};
use super::leaving::Leaving;
use super::message::Answer;
use super::owners::Owners;
use super::partition::{Partition, TablePart};
use super::policy::{Coherence, Leavers, NoWait, Policies, WaitPolicy};
use super::remote::RemoteRows;
use super::retry::Ages;
use super::shared::SharedRows;
use super::shortage::Shortages;
use super::waits::Waits;
use crate::catalog::{At, Catalog, Relation};
use crate::history::HistorySink;
use crate::log::HostLog;
use crate::log::ship::LogFailure;
use crate::mail::Outbox;
use crate::recovery::RecoveryError;
use crate::recovery::checkpoint::EpochView;
use crate::recovery::directory::PodFiles;
use crate::replicas::Replicas;
use crate::txn::{Conflict, TableId, Ticket, TxnError};

/// How much shared memory rows and their index may use, in the whole pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Bytes of hardware-coherent memory: tuple cells and mapping words.
    pub hwcc_bytes: u64,
    /// Bytes of data memory: rows and index nodes.
    pub cxl_bytes: u64,
}

/// What may differ between hosts, or between runs over the same memory.
pub struct Options {
    /// Memory that shared rows may use; move-out starts beyond it.
    pub budget: Budget,
    /// The decisions that have names.
    pub policies: Policies,
    /// What a worker does when it meets a lock.
    pub wait: &'static (dyn WaitPolicy + Sync),
    /// Most entries of the cache of other hosts' rows.
    pub remote_entries: usize,
    /// Bits of the hashes by which that cache tells rows apart, 1 to 64; few make rows meet in one entry.
    pub remote_hash_bits: u32,
    /// Most index nodes of other hosts kept in DRAM.
    pub node_entries: usize,
    /// Where committed transactions are recorded, for checkers.
    pub history: Option<Arc<dyn HistorySink>>,
    /// This host's log; without one, nothing survives the hosts.
    pub log: Option<HostLog>,
    /// What this host needs to take over a dead host's partitions; without it, it leaves that to others.
    pub takeover: Option<Takeover>,
    /// Who hears of deaths and takeovers.
    pub hearer: Option<Hearer>,
}

impl Options {
    /// The defaults: no waiting, and a budget of everything that the pod has; for the rest see
    /// [`Policies`].
    pub fn new(plan: &Plan) -> Self {
        let config = plan.config();
        Self {
            budget: Budget { hwcc_bytes: config.hwcc_bytes, cxl_bytes: config.cxl_bytes },
            policies: Policies::default(),
            wait: &NoWait,
            remote_entries: 4 << 20,
            remote_hash_bits: 64,
            node_entries: 1 << 20,
            history: None,
            log: None,
            takeover: None,
            hearer: None,
        }
    }
}

/// Counts of what a host's workers did together.
#[derive(Default, Debug)]
pub struct Moves {
    /// Rows moved into shared memory.
    pub moved_in: AtomicU64,
    /// Rows moved out of it.
    pub moved_out: AtomicU64,
    /// Messages sent.
    pub messages: AtomicU64,
    /// Messages that could not be understood.
    pub messages_dropped: AtomicU64,
    /// Rows of this host that are shared now.
    pub shared_rows: AtomicU64,
    /// Locks of dead hosts that were given back or resolved from their logs.
    pub locks_resolved: AtomicU64,
    /// Rows of dead hosts' transactions that were finished from their logs.
    pub rows_redone: AtomicU64,
    /// Partitions of dead hosts that were taken over.
    pub taken_over: AtomicU64,
}

/// Adds to a counter that only informs.
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// A worker's place for the answer it waits for.
#[derive(Default)]
pub(super) struct Mailbox {
    /// Running number of the request it waits for.
    pub(super) request: u32,
    /// The answer, once it came.
    pub(super) answer: Option<Answer>,
}

/// How often a worker has begun or ended a transaction: odd, it runs one. A line of its own.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Turns(pub(super) AtomicU64);

/// Open transactions hold this host up in taking over partitions, or in following them.
#[derive(Default)]
pub(super) struct HeldUp {
    pub(super) taking: AtomicBool,
    pub(super) following: AtomicBool,
}

/// The row engine of one host.
pub struct RowHost {
    pub(super) me: HostId,
    pub(super) plan: Plan,
    pub(super) catalog: Arc<Catalog>,
    /// By partition; empty where another host owns it.
    partitions: Vec<OnceLock<Latch<Partition>>>,
    pub(super) owners: Owners,
    pub(super) restoring: Restoring,
    /// By worker.
    pub(super) turns: Vec<Turns>,
    pub(super) held_up: HeldUp,
    /// By table; the current copy of a replicated table.
    pub(super) replicas: Replicas,
    pub(super) shared: SharedRows,
    pub(super) remote: RemoteRows,
    pub(super) heap: Heap,
    pub(super) epochs: Epochs,
    pub(super) lanes: Lanes,
    pub(super) nodes: NodeCache,
    unfinished: Unfinished,
    pub(super) mailboxes: Vec<Latch<Mailbox>>,
    pub(super) outbox: Outbox,
    /// Rows that this host has given to their owners to remove.
    pub(super) leaving: Latch<Leaving>,
    pub(super) keeper: Latch<Keeper>,
    /// Set when the system says that a process has ended, for the keeper's next turn.
    pub(super) doubts: AtomicBool,
    pub(super) hearer: Option<Hearer>,
    /// Why the last checkpoint has failed, if it has.
    checkpoint_failure: Latch<Option<String>>,
    /// The log was in trouble when the hearer was told last.
    log_in_trouble: AtomicBool,
    /// Where the files of all hosts are, if this one may take over.
    files: Option<PodFiles>,
    /// What the keeper cannot do at present, and why.
    pub(super) troubles: Latch<Vec<String>>,
    pub(super) shortages: Latch<Shortages>,
    pub(super) move_out: Latch<Leavers>,
    /// Rows leave ahead, from the high mark until the low one.
    pub(super) makes_room: AtomicBool,
    pub(super) policies: Policies,
    pub(super) wait: &'static (dyn WaitPolicy + Sync),
    pub(super) budget: Budget,
    pub(super) history: Option<Arc<dyn HistorySink>>,
    pub(super) log: Option<HostLog>,
    pub(super) moves: Moves,
    pub(super) waits: Waits,
    pub(super) circles: Circles,
    pub(super) ages: Ages,
    pub(super) member: Member,
    pub(super) responder: Responder,
    /// Set when the pod has ruled that this host is not a member any more.
    pub(super) overruled: AtomicBool,
    /// When this host last woke the others for reclamation.
    pub(super) urged_ns: AtomicU64,
    /// Set while a dead host can come back only when this one has a checkpoint of what it took over.
    pub(super) waited_for: AtomicBool,
}

impl RowHost {
    /// The engine of the caller's host, which has just become a member. Its partitions are empty; their
    /// shared indexes are created (other hosts may already ask for them: an index that is not there yet reads
    /// as empty).
    pub fn new<F: Fabric>(
        cx: &Cx<F>,
        plan: &Plan,
        catalog: Arc<Catalog>,
        member: Member,
        options: Options,
    ) -> Result<Self, TxnError> {
        check_policies(cx, &options)?;
        let config = plan.config();
        let me = cx.host();
        let Policies { coherence, dirty_tracking, steps, .. } = options.policies;
        let format = CellFormat::for_hosts(config.hosts);
        let owners = Owners::new(cx, plan, member.slot());
        let partitions: Vec<OnceLock<Latch<Partition>>> =
            (0..config.partitions).map(|_| OnceLock::new()).collect();
        for (partition, place) in plan.partitions().zip(&partitions) {
            if owners.of(partition).host == me {
                place.get_or_init(|| new_partition(plan, &catalog, partition));
            }
        }
        let host = Self {
            me,
            plan: plan.clone(),
            replicas: Replicas::new(&catalog),
            catalog,
            partitions,
            owners,
            restoring: Restoring::default(),
            turns: (0..config.workers).map(|_| Turns::default()).collect(),
            held_up: HeldUp::default(),
            shared: SharedRows { format, host: me, coherence, dirty_tracking, steps },
            remote: RemoteRows::new(options.remote_entries, options.remote_hash_bits),
            heap: Heap::new(plan, me, member.incarnation()),
            epochs: Epochs::new(cx, plan),
            lanes: Lanes::new(cx, plan, member.incarnation()),
            nodes: NodeCache::new(options.node_entries),
            unfinished: Unfinished::default(),
            mailboxes: (0..config.workers).map(|_| Latch::default()).collect(),
            outbox: Outbox::default(),
            leaving: Latch::default(),
            files: options.takeover.as_ref().map(|takeover| takeover.files.clone()),
            keeper: Latch::new(Keeper::new(cx, plan, member.slot(), options.takeover)),
            doubts: AtomicBool::new(false),
            hearer: options.hearer,
            log_in_trouble: AtomicBool::new(false),
            checkpoint_failure: Latch::default(),
            troubles: Latch::default(),
            shortages: Latch::default(),
            move_out: Latch::new(Leavers::new(options.policies.move_out)),
            makes_room: AtomicBool::new(false),
            policies: options.policies,
            wait: options.wait,
            budget: options.budget,
            history: options.history,
            log: options.log,
            moves: Moves::default(),
            waits: Waits::new(config.workers),
            circles: Circles::new(config.workers),
            ages: Ages::new(config.workers),
            responder: Responder::new(plan),
            overruled: AtomicBool::new(false),
            urged_ns: AtomicU64::new(0),
            waited_for: AtomicBool::new(false),
            member,
        };
        host.create_indexes(cx)?;
        Ok(host)
    }

    fn create_indexes<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), TxnError> {
        for partition in self.partitions.iter().filter_map(OnceLock::get) {
            for (table, part) in (0..).zip(&partition.lock(cx).tables) {
                let Some(part) = part else { continue };
                part.index.create(cx, &self.tree_env()).map_err(|e| super::tree_error(TableId(table), e))?;
            }
        }
        Ok(())
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

    /// Where the files of all hosts are; `None`: partitions of this pod stay with the hosts that they were
    /// made for.
    pub(crate) fn files(&self) -> Option<&PodFiles> {
        self.files.as_ref()
    }

    /// A partition of this host, latched.
    #[inline]
    pub(super) fn partition<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
    ) -> LatchGuard<'_, Partition> {
        self.partitions[partition.index()].get().expect("a partition of this host").lock(cx)
    }

    /// True if this host owns the partition, and its workers may use it.
    #[inline]
    pub(super) fn owns(&self, partition: PartitionId) -> bool {
        partition.0 < self.partition_count()
            && self.owner(partition) == self.me
            && !self.owners.is_closed(partition)
    }

    /// True if this host owns the partition, though its own workers may not use it yet.
    pub(super) fn holds(&self, partition: PartitionId) -> bool {
        partition.0 < self.partition_count() && self.owner(partition) == self.me
    }

    /// Makes an empty partition that nobody uses yet, in place of one that an earlier try may have left.
    pub(super) fn make_partition<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        let made = || new_partition(&self.plan, &self.catalog, partition);
        let place = self.partitions[partition.index()].get_or_init(made);
        let mut latched = place.lock(cx);
        self.forget_cold(cx, &latched);
        *latched = new_tables(&self.plan, &self.catalog, partition);
    }

    /// Nobody begins to use a partition while it changes hands here.
    #[inline]
    pub(super) fn check_open(&self, partition: PartitionId) -> Result<(), Conflict> {
        if self.owners.is_closed(partition) { Err(Conflict::Partition) } else { Ok(()) }
    }

    /// This host's copies of replicated tables.
    pub(crate) fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    /// Who keeps the history of this host's transactions.
    pub(super) fn history(&self) -> Option<&dyn HistorySink> {
        self.history.as_deref().map(|history| history as &dyn HistorySink)
    }

    /// The shared index of another host's partition.
    pub(super) fn foreign_index(&self, at: At<'_>) -> BwTree {
        BwTree::new(self.plan.directory(at.table().0, at.partition), at.relation.key_words)
    }

    /// The row that an entry of a shared index leads to.
    pub(super) fn row_at(&self, raw: u64) -> Result<TupleAddr, TreeError> {
        self.heap.row_at(raw).ok_or(TreeError::Damaged { offset: raw, what: "address of a row" })
    }

    /// What the shared indexes need.
    pub(super) fn tree_env(&self) -> TreeHost<'_> {
        TreeHost { heap: &self.heap, epochs: &self.epochs, cache: &self.nodes, unfinished: &self.unfinished }
    }

    /// The hosts that reclamation waits for, bit h for host h.
    pub(super) fn readers<F: Fabric>(&self, cx: &Cx<F>) -> u16 {
        membership::readers(cx, &self.plan)
    }

    /// The members of the pod, bit h for host h.
    pub(crate) fn members<F: Fabric>(&self, cx: &Cx<F>) -> u16 {
        membership::members(cx, &self.plan)
    }

    /// True once the pod has ruled that this host is not a member any more, or this host that it cannot be
    /// one: nothing may be committed, and it shows no sign of life.
    #[inline]
    pub fn is_overruled(&self) -> bool {
        self.overruled.load(Ordering::Relaxed)
    }

    /// True while open transactions keep this host from taking over partitions of dead hosts, or from
    /// following them to their heirs: those that wait for others had better end.
    pub fn is_held_up(&self) -> bool {
        self.held_up.taking.load(Ordering::Relaxed) || self.held_up.following.load(Ordering::Relaxed)
    }

    /// True while a dead host can come back only when this one has a checkpoint of what it took over.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waited_for.load(Ordering::Relaxed)
    }

    /// Remembers that the pod has ruled against this host, or will: from now on it is silent.
    pub(crate) fn overrule(&self) {
        self.overruled.store(true, Ordering::Relaxed);
    }

    /// Leaves the pod. Its rows go with it: call it when the pod comes to rest.
    pub fn leave<F: Fabric>(self, cx: &Cx<F>) -> Result<(), PodError> {
        self.member.leave(cx)?.finish(cx)
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

    /// Why the last checkpoint has failed, if it has.
    pub(super) fn checkpoint_failure<F: Fabric>(&self, cx: &Cx<F>) -> Option<String> {
        self.checkpoint_failure.lock(cx).clone()
    }

    /// Tells whoever keeps a diary when the log is full, has room again, or has ended.
    fn tell_of_log<F: Fabric>(&self, cx: &Cx<F>, log: &HostLog) {
        let trouble = log.is_in_trouble();
        if self.log_in_trouble.load(Ordering::Relaxed) != trouble {
            self.log_in_trouble.store(trouble, Ordering::Relaxed);
            self.announce(&PodEvent::Log { trouble: log.trouble(cx) });
        }
    }

    /// See [`crate::Session::is_durable`].
    pub(super) fn is_durable<F: Fabric>(&self, cx: &Cx<F>, ticket: Ticket) -> Result<bool, TxnError> {
        let Some(log) = &self.log else { return Ok(true) };
        log.is_durable(cx, ticket.0, || self.members(cx)).map_err(|failure| match failure {
            LogFailure::Full(_) => TxnError::LogFull { host: self.me.0 },
            _ => TxnError::LogFailed,
        })
    }

    /// What a checkpoint is told of the log's epochs; none without a log.
    pub fn log_epochs(&self) -> Option<LogEpochs<'_>> {
        self.log.as_ref().map(|log| LogEpochs { host: self, log })
    }

    /// This host's log, if the pod keeps one.
    pub fn log(&self) -> Option<&HostLog> {
        self.log.as_ref()
    }

    /// What this host's workers did together.
    pub fn moves(&self) -> &Moves {
        &self.moves
    }

    /// What this host's workers wait for.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// What this host decides by.
    pub fn policies(&self) -> Policies {
        self.policies
    }

    /// What shared rows may use.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The heap, for audits.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }
}

/// The log's epochs, as a host sees them.
pub struct LogEpochs<'h> {
    host: &'h RowHost,
    log: &'h HostLog,
}

impl<F: Fabric> EpochView<F> for LogEpochs<'_> {
    fn now(&self, cx: &Cx<F>) -> u64 {
        self.log.clock().now(cx)
    }

    fn durable(&self, cx: &Cx<F>) -> Result<u64, RecoveryError> {
        let (epoch, members) = (self.log.clock().now(cx), self.host.members(cx));
        // Whoever asks waits: the epoch is to move on.
        self.log.is_durable(cx, epoch, || members)?;
        Ok(self.log.pod_durable(cx, members))
    }
}

/// Refuses what cannot be right on this memory.
fn check_policies<F: Fabric>(cx: &Cx<F>, options: &Options) -> Result<(), TxnError> {
    let refused = |why| Err(TxnError::Unsuited { what: "coherence policy all-hwcc", why });
    if options.policies.coherence != Coherence::AllHwcc {
        return Ok(());
    }
    if !cx.coherent_data() {
        return refused("data lines of this memory are not kept coherent by hardware");
    }
    if options.takeover.is_some() {
        return refused("rows that a host has not written back cannot be taken over from it");
    }
    Ok(())
}

fn new_partition(plan: &Plan, catalog: &Catalog, id: PartitionId) -> Latch<Partition> {
    Latch::new(new_tables(plan, catalog, id))
}

fn new_tables(plan: &Plan, catalog: &Catalog, id: PartitionId) -> Partition {
    let part = |r: &Relation| (!r.replicated).then(|| new_part(plan, r, id));
    Partition { id, tables: catalog.relations().iter().map(part).collect() }
}

/// An empty share of a relation.
pub(super) fn new_part(plan: &Plan, relation: &Relation, partition: PartitionId) -> TablePart {
    TablePart::new(relation.key_words, relation.row_len, plan.directory(relation.id.0, partition))
}
