//! One host of a pod whose rows are all in shared memory: what its workers have in common.
//!
//! Invariants:
//! 1. No row belongs to a host. A partition's host makes its indexes, loads it and shows it, no more.
//! 2. Every partition of every relation has an index in shared memory, which ends in an entry with the
//!    greatest key: the word of the gap behind the last row. It has no block and is never removed.
//! 3. Everything here is shared by the host's workers, behind latches or atomics.
//!
//! A host that dies leaves its locks, and nobody gives them back: there is no log and no recovery.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use liger_fabric::{Cx, DataAddr, Fabric, HostId, Latch};
use liger_pod::epochs::Epochs;
use liger_pod::heap::{BlockClass, Heap, OutOfMemory, Usage, WordClass};
use liger_pod::membership::{self, Member};
use liger_pod::plan::{MAX_WORKERS, PartitionId, Plan};
use liger_pod::selftest::Responder;
use liger_store::bwtree::{BwTree, NodeCache, TreeError, TreeHost, Unfinished};

use super::fresh::Fresh;
use super::rows::{RowAt, block_len};
use super::word::{RowWord, State};
use crate::sundial::{Lease, Who};
use liger_engine::history::HistorySink;
use liger_engine::protocol::{HostEngine, Replicas, Rival, tree_error};
use liger_engine::{At, Catalog, Key, TableId, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["shm.above-removals", "shm.wait-for-readers"];

/// What may differ between pods, or runs over the same memory.
pub struct Options {
    /// Whether ranges and absent keys are protected (leases of gaps). Without that, transactions that use
    /// them are not serializable; so Sundial is published.
    pub gaps: bool,
    /// Most index nodes kept in DRAM.
    pub node_entries: usize,
    /// Where committed transactions are recorded, for checkers.
    pub history: Option<Arc<dyn HistorySink>>,
}

impl Options {
    /// Sundial as it is published.
    pub fn new() -> Self {
        Self { gaps: false, node_entries: 1 << 20, history: None }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// Counts of what a host's workers did together.
#[derive(Default, Debug)]
pub struct Traffic {
    /// Rows read.
    pub rows_read: AtomicU64,
    /// Lines of them that were invalidated before, because another host had changed the row.
    pub lines_read_anew: AtomicU64,
    /// Lines written back.
    pub lines_written: AtomicU64,
}

/// Adds to a counter that only informs.
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// A row whose entry is to be taken out.
#[derive(Clone, Copy)]
pub(super) struct Leftover {
    pub(super) table: TableId,
    pub(super) partition: PartitionId,
    pub(super) key: Key,
    pub(super) at: RowAt,
}

/// One host.
pub struct ShmHost {
    pub(super) me: HostId,
    pub(super) plan: Plan,
    pub(super) catalog: Arc<Catalog>,
    pub(super) gaps: bool,
    pub(super) heap: Heap,
    pub(super) epochs: Epochs,
    nodes: NodeCache,
    unfinished: Unfinished,
    pub(super) fresh: Fresh,
    pub(super) replicas: Replicas,
    /// By relation and partition: where it ends, once that was looked up.
    ends: Vec<OnceLock<RowAt>>,
    /// Entries of dead rows that could not be taken out for want of memory.
    pub(super) leftovers: Latch<Vec<Leftover>>,
    pub(super) history: Option<Arc<dyn HistorySink>>,
    pub(super) traffic: Traffic,
    pub(super) member: Member,
    responder: Responder,
    pub(super) fenced: AtomicBool,
}

impl ShmHost {
    /// The caller's host, which has just become a member. Its partitions are empty.
    ///
    /// # Errors
    /// [`TxnError::Unsuited`] if the memory is too large; if there is no room for the indexes.
    pub fn new<F: Fabric>(
        cx: &Cx<F>,
        plan: &Plan,
        catalog: Arc<Catalog>,
        member: Member,
        options: Options,
    ) -> Result<Self, TxnError> {
        if plan.len() > RowAt::MOST_BYTES {
            let why = "an index entry has room for places in 256 GiB of memory";
            return Err(TxnError::Unsuited { what: "keeping rows in so much shared memory", why });
        }
        let me = cx.host();
        let ends = catalog.relations().len() * usize::from(plan.config().partitions);
        let host = Self {
            me,
            plan: plan.clone(),
            gaps: options.gaps,
            heap: Heap::new(plan, me, member.incarnation()),
            epochs: Epochs::new(cx, plan),
            nodes: NodeCache::new(options.node_entries),
            unfinished: Unfinished::default(),
            fresh: Fresh::new(plan),
            replicas: Replicas::new(&catalog),
            ends: (0..ends).map(|_| OnceLock::new()).collect(),
            leftovers: Latch::default(),
            history: options.history,
            traffic: Traffic::default(),
            responder: Responder::new(plan),
            fenced: AtomicBool::new(false),
            catalog,
            member,
        };
        host.create_indexes(cx)?;
        Ok(host)
    }

    fn create_indexes<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), TxnError> {
        for relation in self.catalog.relations().iter().filter(|relation| !relation.replicated) {
            for partition in self.own_partitions() {
                let tree = self.index(At::new(relation, partition));
                tree.create(cx, &self.tree_env()).map_err(|error| tree_error(relation.id, error))?;
                let word = self.heap.alloc_word(cx, WordClass::Tuple).map_err(full)?;
                let end = RowAt { word, block: DataAddr::new(0) };
                let lease = RowWord::next_row(cx, cx.load(word), 0);
                cx.store(word, RowWord::new(State::Live, lease).0);
                let key = Key::greatest(relation.key_words);
                let made = tree.insert(cx, &self.tree_env(), key.words(), end.entry());
                made.map_err(|error| tree_error(relation.id, error))?;
            }
        }
        Ok(())
    }

    /// Who keeps the history of this host's transactions.
    pub(super) fn history(&self) -> Option<&dyn HistorySink> {
        self.history.as_deref().map(|history| history as &dyn HistorySink)
    }

    /// The partitions that this host loads and shows.
    pub fn own_partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.plan.partitions().filter(|partition| self.fills(*partition))
    }

    /// What this host's workers did together.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Shared memory in use in the whole pod.
    pub fn usage<F: Fabric>(&self, cx: &Cx<F>) -> Usage {
        self.heap.usage(cx)
    }

    pub(super) fn who<F: Fabric>(&self, cx: &Cx<F>) -> Who {
        Who(u32::from(self.me.0) * MAX_WORKERS as u32 + u32::from(cx.worker().0) + 1)
    }

    /// The index of a relation's rows in a partition.
    pub(super) fn index(&self, at: At<'_>) -> BwTree {
        BwTree::new(self.plan.directory(at.table().0, at.partition), at.relation.key_words)
    }

    /// What the indexes need.
    pub(super) fn tree_env(&self) -> TreeHost<'_> {
        TreeHost { heap: &self.heap, epochs: &self.epochs, cache: &self.nodes, unfinished: &self.unfinished }
    }

    /// Where a partition of a relation ends.
    fn end<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>) -> Result<RowAt, TxnError> {
        let place = at.table().index() * usize::from(self.plan.config().partitions) + at.partition.index();
        if let Some(end) = self.ends[place].get() {
            return Ok(*end);
        }
        let key = Key::greatest(at.relation.key_words);
        let found = self.index(at).get(cx, &self.tree_env(), key.words());
        let found = found.map_err(|error| tree_error(at.table(), error))?;
        let Some(entry) = found else {
            let (table, what) = (at.table(), "index without its end");
            return Err(TxnError::Damaged { table, what, found: at.partition.0.into() });
        };
        Ok(*self.ends[place].get_or_init(|| RowAt::of_entry(entry)))
    }

    /// Without protection of gaps: a time at or above that of every removal of a row of this partition whose
    /// entry is gone. A later row with the same key gets a greater one.
    pub(super) fn last_removal<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>) -> Result<u64, TxnError> {
        let end = self.end(cx, at)?;
        Ok(if cx.sabotaged("shm.above-removals") { 0 } else { self.look(cx, end).lease().rts })
    }

    /// Says that a row of this partition is removed at `time`, before its entry goes.
    pub(super) fn note_removal<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>, time: u64) -> Result<(), TxnError> {
        let end = self.end(cx, at)?;
        let mut word = self.look(cx, end);
        while word.lease().rts < time {
            let later = RowWord::new(word.state(), Lease { rts: time, ..word.lease() });
            match cx.compare_exchange(end.word, word.0, later.0) {
                Ok(_) => break,
                Err(now) => word = RowWord(now),
            }
        }
        Ok(())
    }

    /// Takes the entry of a row out whose word is dead, and gives word and block to the epochs; without
    /// memory for that, later.
    pub(super) fn take_out<F: Fabric>(&self, cx: &Cx<F>, row: Leftover) -> Result<(), TxnError> {
        let relation = self.catalog.relation(row.table)?;
        let removed =
            self.index(At::new(relation, row.partition)).remove(cx, &self.tree_env(), row.key.words());
        match removed {
            Ok(found) => debug_assert_eq!(found, Some(row.at.entry()), "an entry is taken out once"),
            Err(TreeError::OutOfMemory(_)) => {
                self.leftovers.lock(cx).push(row);
                return Ok(());
            }
            Err(broken) => return Err(tree_error(row.table, broken)),
        }
        let len = block_len(relation.row_len);
        if cx.sabotaged("shm.wait-for-readers") {
            self.heap.free(cx, BlockClass::Loose, row.at.block, len);
            self.heap.free_word(cx, WordClass::Tuple, row.at.word);
            return Ok(());
        }
        self.epochs.retire(cx, BlockClass::Loose, row.at.block, len);
        self.epochs.retire_word(cx, WordClass::Tuple, row.at.word);
        Ok(())
    }

    /// This host's share of what keeps the pod going: its heartbeat, self-tests of hosts that join,
    /// reclamation.
    pub(crate) fn housekeep<F: Fabric>(&self, cx: &Cx<F>) {
        self.responder.poll(cx);
        if !self.is_fenced() && self.member.keep_alive(cx).is_err() {
            self.mark_fenced();
        }
        let leftovers = std::mem::take(&mut *self.leftovers.lock(cx));
        for row in leftovers {
            // What is broken shows to whoever uses it next.
            let _ = self.take_out(cx, row);
        }
        self.epochs.collect(cx, &self.heap, |cx| membership::readers(cx, &self.plan));
    }

    /// A turn of a worker that waits for its next try: hosts that join may need this one.
    pub(super) fn pause<F: Fabric>(&self, cx: &Cx<F>) {
        self.responder.poll(cx);
        cx.pause();
    }
}

/// What a lack of shared memory means to a transaction.
pub(super) fn full(error: OutOfMemory) -> TxnError {
    TxnError::OutOfMemory { what: "shared memory", needed_bytes: error.bytes }
}
