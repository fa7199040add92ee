//! The rows of one host: its partitions, its share of the pod's memory, and what its workers have in common
//! there.
//!
//! Invariants:
//! 1. A partition lives in the DRAM of its owner.
//! 2. Everything here is shared by the host's workers, behind latches or atomics; everything that belongs to
//!    one transaction is in its [`RowsHeld`](super::work::RowsHeld).
//! 3. Latches are taken in this order, and released before a worker waits for another host: share of a
//!    partition, then remote shard, then leaving, policy, scrub, damaged rows, old versions, copies, open
//!    snapshots, heap, epochs, lanes, outbox, mailbox.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use liger_fabric::{Cx, DataAddr, Fabric, LINE, Latch, LatchGuard};
use liger_pod::heap::TupleAddr;
use liger_pod::heap::room::Room;
use liger_pod::membership::Member;
use liger_pod::plan::{PartitionId, Plan};
use liger_store::bwtree::{BwTree, NodeCache, TreeError, TreeHost, Unfinished};

use super::RowHost;
use super::asking::Mailbox;
use super::block::{RowHead, Shape};
use super::cell::CellFormat;
use super::copies::CopyBlocks;
use super::keeping::{KeepLimits, OldVersions};
use super::leaving::Leaving;
use super::out_of_memory::OutOfMemory;
use super::partition::{Partition, TablePart};
use super::policy::{Coherence, Leavers, NoWait, Policies, WaitPolicy};
use super::remote::RemoteRows;
use super::scrub::{DamagedRows, Scrub};
use super::shared::SharedRows;
use super::unrestored::Restoring;
use crate::catalog::{At, Catalog, Relation};
use crate::history::HistorySink;
use crate::host::{Host, Takeover};
use crate::instance::events::Hearer;
use crate::instance::{Equipment, Instance};
use crate::log::HostLog;
use crate::method::Method;
use crate::protocol::failure::tree_error;
use crate::protocol::workspace::USUAL_TRANSACTION_BYTES;
use crate::txn::{MethodId, TableId, TxnError};

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
    /// Bytes of host memory that the changes of one transaction may take.
    pub transaction_bytes: u64,
    /// How much is kept for readers of snapshots, and how long.
    pub keep: KeepLimits,
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
            transaction_bytes: USUAL_TRANSACTION_BYTES,
            keep: KeepLimits::new(plan),
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
    /// Rows of this host that are shared now.
    pub shared_rows: AtomicU64,
    /// Locks of dead hosts that were given back or resolved from their logs.
    pub locks_resolved: AtomicU64,
    /// Rows of dead hosts' transactions that were finished from their logs.
    pub rows_redone: AtomicU64,
    /// Partitions of other hosts that came to this one.
    pub taken_over: AtomicU64,
    /// Looks at blocks of shared rows, whether they are as they were written.
    pub rows_scrubbed: AtomicU64,
    /// Blocks of shared rows that were found damaged.
    pub rows_damaged: AtomicU64,
    /// Those of them that were written anew from the owner's copy.
    pub rows_healed: AtomicU64,
    /// Partitions of this host that went to others.
    pub handed_over: AtomicU64,
}

/// The rows of one host.
pub struct Rows {
    /// The host, whatever its tables are kept in.
    instance: Arc<Instance>,
    /// By partition; empty where another host owns it.
    partitions: Vec<OnceLock<Partition>>,
    pub(super) restoring: Restoring,
    pub(super) shared: SharedRows,
    pub(super) remote: RemoteRows,
    pub(super) nodes: NodeCache,
    unfinished: Unfinished,
    pub(super) mailboxes: Vec<Latch<Mailbox>>,
    /// Rows that this host has given to their owners to remove.
    pub(super) leaving: Latch<Leaving>,
    pub(super) out_of_memory: Latch<OutOfMemory>,
    pub(super) move_out: Latch<Leavers>,
    /// Rows leave ahead, from the high mark until the low one.
    pub(super) makes_room: AtomicBool,
    pub(super) scrub: Latch<Scrub>,
    /// Rows whose blocks were found damaged.
    pub(super) damaged: DamagedRows,
    pub(super) policies: Policies,
    pub(super) budget: Budget,
    pub(super) moves: Moves,
    /// Versions that were overwritten.
    pub(super) old: OldVersions,
    pub(super) copies: Latch<CopyBlocks>,
}

/// What is said of a host is said of its rows.
impl Deref for Rows {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}

impl RowHost {
    /// What its tables are kept in.
    pub fn rows(&self) -> &Rows {
        self.method()
    }

    /// The engine of the caller's host, which has just become a member. Its partitions are empty; their
    /// shared indexes are created (other hosts may already ask for them: an index that is not there yet reads
    /// as empty).
    ///
    /// # Errors
    /// If a policy does not suit this memory, or there is no room for the indexes.
    pub fn new<F: Fabric>(
        cx: &Cx<F>,
        plan: &Plan,
        catalog: Arc<Catalog>,
        member: Member,
        options: Options,
    ) -> Result<Self, TxnError> {
        Self::with(cx, plan, catalog, member, options, |rows| rows)
    }
}

impl<M: Method> Host<M> {
    /// As [`RowHost::new`], with rows among what its tables are kept in.
    ///
    /// # Errors
    /// As there; and if the method does not keep all of the pod's tables.
    pub fn with<F: Fabric>(
        cx: &Cx<F>,
        plan: &Plan,
        catalog: Arc<Catalog>,
        member: Member,
        mut options: Options,
        method: impl FnOnce(Rows) -> M,
    ) -> Result<Self, TxnError> {
        check_policies(cx, &options)?;
        let (log, history, hearer) = (options.log.take(), options.history.take(), options.hearer.take());
        let transaction_bytes = options.transaction_bytes;
        let (wait, keep_idle_ns) = (options.wait, options.keep.idle_ns);
        let equipment = Equipment { log, history, hearer, wait, transaction_bytes, keep_idle_ns };
        let instance = Arc::new(Instance::new(cx, plan, catalog, member, equipment));
        let rows = Rows::new(cx, instance.clone(), &options)?;
        Host::start(cx, instance, method(rows), options.takeover)
    }
}

impl Rows {
    /// The host that they are on.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// The rows of a host, none yet.
    ///
    /// # Errors
    /// If there is no room for the shared indexes of its partitions.
    pub fn new<F: Fabric>(cx: &Cx<F>, instance: Arc<Instance>, options: &Options) -> Result<Self, TxnError> {
        let config = instance.plan.config();
        let Policies { coherence, dirty_tracking, steps, row_checksums: checksums, .. } = options.policies;
        let format = CellFormat::for_hosts(config.hosts);
        let partitions: Vec<OnceLock<Partition>> = (0..config.partitions).map(|_| OnceLock::new()).collect();
        for (partition, place) in instance.plan.partitions().zip(&partitions) {
            if instance.owner(partition) == instance.me {
                place.get_or_init(|| new_partition(&instance.plan, &instance.catalog, partition));
            }
        }
        let rows = Self {
            partitions,
            restoring: Restoring::default(),
            shared: SharedRows { format, host: instance.me, coherence, dirty_tracking, steps, checksums },
            remote: RemoteRows::new(options.remote_entries, options.remote_hash_bits),
            nodes: NodeCache::new(options.node_entries),
            unfinished: Unfinished::default(),
            mailboxes: (0..config.workers).map(|_| Latch::default()).collect(),
            leaving: Latch::default(),
            out_of_memory: Latch::default(),
            move_out: Latch::new(Leavers::new(options.policies.move_out)),
            scrub: Latch::default(),
            damaged: DamagedRows::default(),
            makes_room: AtomicBool::new(false),
            policies: options.policies,
            budget: options.budget,
            moves: Moves::default(),
            old: OldVersions::new(options.keep),
            copies: Latch::default(),
            instance,
        };
        rows.create_indexes(cx)?;
        Ok(rows)
    }

    /// The relations that are kept in rows.
    pub(super) fn relations(&self) -> impl Iterator<Item = &Relation> {
        self.catalog.relations().iter().filter(|relation| is_rows(relation))
    }

    fn create_indexes<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), TxnError> {
        for partition in self.partitions.iter().filter_map(OnceLock::get) {
            for (table, part) in (0..).zip(partition) {
                let Some(part) = part else { continue };
                let part = part.lock(cx);
                part.index.create(cx, &self.tree_env()).map_err(|e| tree_error(TableId(table), e))?;
            }
        }
        Ok(())
    }

    /// A table's share of a partition of this host, latched.
    #[inline]
    pub(super) fn part<F: Fabric>(
        &self,
        cx: &Cx<F>,
        place: (PartitionId, TableId),
    ) -> LatchGuard<'_, TablePart> {
        self.latch(place).lock(cx)
    }

    /// A table's share of a partition of this host.
    #[inline]
    pub(super) fn latch(&self, (partition, table): (PartitionId, TableId)) -> &Latch<TablePart> {
        let partition = self.partitions[partition.index()].get().expect("a partition of this host");
        partition[table.index()].as_ref().expect("a table that is kept in rows")
    }

    /// Makes an empty partition that nobody uses yet, in place of one that an earlier try may have left.
    pub(super) fn make_partition<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        debug_assert!(!self.owns(partition), "nobody uses it yet");
        let made = || new_partition(&self.plan, &self.catalog, partition);
        self.partitions[partition.index()].get_or_init(made);
        for relation in self.relations() {
            let place = (partition, relation.id);
            let mut part = self.part(cx, place);
            self.forget_unrestored(cx, place, &part);
            self.old.forget(&part);
            *part = new_part(&self.plan, relation, partition);
        }
    }

    /// The shared index of another host's partition.
    pub(super) fn foreign_index(&self, at: At<'_>) -> BwTree {
        debug_assert!(is_rows(at.relation), "what another method keeps is no index of rows");
        BwTree::new(self.plan.directory(at.table().0, at.partition), at.relation.key_words)
    }

    /// The row that an entry of a shared index leads to.
    pub(super) fn row_at(&self, raw: u64) -> Result<TupleAddr, TreeError> {
        self.heap.row_at(raw).ok_or(TreeError::Damaged { offset: raw, what: "address of a row" })
    }

    /// Drops this host's cached copy of a block, whichever row's it is: its cell may be another row's.
    pub(super) fn freshen_unknown<F: Fabric>(&self, cx: &Cx<F>, block: DataAddr) {
        self.shared.freshen(cx, block, LINE);
        let head: RowHead = cx.read_layout(block);
        let relation = self.catalog.relation(TableId(head.table)).ok();
        let len = relation.map_or(LINE, |relation| Shape::of(relation).block_len());
        if len > LINE {
            self.shared.freshen(cx, block.byte(LINE as u64), len - LINE);
        }
    }

    /// What the shared indexes need.
    pub(super) fn tree_env(&self) -> TreeHost<'_> {
        TreeHost { heap: &self.heap, epochs: &self.epochs, cache: &self.nodes, unfinished: &self.unfinished }
    }

    /// What this host's workers did together.
    pub fn moves(&self) -> &Moves {
        &self.moves
    }

    /// What this host decides by.
    pub fn policies(&self) -> Policies {
        self.policies
    }

    /// How much of its data memory the pod may use.
    pub fn room<F: Fabric>(&self, cx: &Cx<F>) -> Room {
        self.heap.room(cx)
    }

    /// What shared rows may use: of their budget as much as the pod may use of its heap.
    pub fn budget<F: Fabric>(&self, cx: &Cx<F>) -> Budget {
        let (room, Budget { hwcc_bytes, cxl_bytes }) = (self.room(cx), self.budget);
        Budget { hwcc_bytes: room.share(hwcc_bytes), cxl_bytes: room.share(cxl_bytes) }
    }
}

/// True if a relation has partitions that are kept in rows.
#[inline]
pub(super) fn is_rows(relation: &Relation) -> bool {
    relation.is_kept_by(MethodId::ROWS)
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

fn new_partition(plan: &Plan, catalog: &Catalog, id: PartitionId) -> Partition {
    let part = |r: &Relation| is_rows(r).then(|| Latch::new(new_part(plan, r, id)));
    catalog.relations().iter().map(part).collect()
}

/// An empty share of a relation.
pub(super) fn new_part(plan: &Plan, relation: &Relation, partition: PartitionId) -> TablePart {
    let (place, directory) = ((partition, relation.id), plan.directory(relation.id.0, partition));
    TablePart::new(place, (relation.key_words, relation.row_len), directory)
}
