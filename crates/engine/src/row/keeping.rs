//! Old versions of rows, as a host keeps them for readers of snapshots: when one is kept, what becomes of it,
//! and since when everything is there (docs/protocols/snapshots.md).
//!
//! Invariants:
//! 1. What is kept takes no more than a bound, in host memory and in shared memory: beyond it the oldest
//!    goes, or what comes, and who wants that is told. Writers never wait for it, nor for want of room.
//! 2. A host that has kept nothing since it was last tidy does nothing.
//!
//! Not here: the lists (kept.rs) and the blocks (chain.rs) themselves, and who reads (as_of.rs).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use liger_fabric::{Cx, Fabric, Latch};
use liger_pod::heap::TupleAddr;
use liger_pod::plan::{PartitionId, Plan};

use super::chain::OldBlocks;
use super::kept::Old;
use super::partition::TablePart;
use super::rows::{Rows, is_rows};
use crate::tables::key::Key;
use crate::txn::TxnError;

/// Versions that are dropped on the way when one is kept, at most.
const DROPPED_AT_ONCE: usize = 4;

/// How much a host keeps of old versions for readers of snapshots, and how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepLimits {
    /// Bytes of host memory that they take, about; beyond that the oldest go.
    pub dram_bytes: u64,
    /// Bytes of shared memory that those take which this host has overwritten in other hosts' partitions;
    /// beyond that the next ones are not kept.
    pub cxl_bytes: u64,
    /// How long they are kept when no host of the pod has opened a snapshot, in nanoseconds.
    pub idle_ns: u64,
}

impl KeepLimits {
    /// 256 MiB, the hosts' shares of a sixteenth of the pod's data memory, and a minute.
    pub fn new(plan: &Plan) -> Self {
        let config = plan.config();
        let cxl_bytes = config.cxl_bytes / 16 / u64::from(config.hosts);
        Self { dram_bytes: 256 << 20, cxl_bytes, idle_ns: 60_000_000_000 }
    }
}

/// What a host keeps of old versions beside the lists of its shares.
pub struct OldVersions {
    /// Blocks of versions that this host has overwritten in other hosts' partitions.
    pub blocks: Latch<OldBlocks>,
    /// Since this moment all that is overwritten is kept.
    since: AtomicU64,
    /// No snapshot wants what was overwritten up to this moment.
    unwanted: AtomicU64,
    /// Bytes of host memory that kept versions take, and most of them.
    bytes: AtomicU64,
    most_bytes: u64,
    /// There may be something to drop, or to give back.
    is_untidy: AtomicBool,
    /// The share that is looked at next.
    turn: AtomicU64,
}

impl OldVersions {
    /// None yet.
    pub fn new(limits: KeepLimits) -> Self {
        let zero = || AtomicU64::new(0);
        let (most_bytes, blocks) = (limits.dram_bytes, Latch::new(OldBlocks::new(limits.cxl_bytes)));
        let is_untidy = AtomicBool::new(false);
        Self { blocks, since: zero(), unwanted: zero(), bytes: zero(), most_bytes, is_untidy, turn: zero() }
    }

    /// There is something to tidy up.
    #[inline]
    pub fn note_untidy(&self) {
        if !self.is_untidy.load(Ordering::Relaxed) {
            self.is_untidy.store(true, Ordering::Relaxed);
        }
    }

    /// A share is made anew, without what it had kept.
    pub fn forget(&self, part: &TablePart) {
        self.bytes.fetch_sub(part.kept.bytes() as u64, Ordering::Relaxed);
    }

    /// Bytes of host memory that kept versions take, about.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Rows {
    /// Bytes of old versions that this host keeps for readers of snapshots: in its own memory, about, and in
    /// shared memory.
    pub fn old_bytes<F: Fabric>(&self, cx: &Cx<F>) -> [u64; 2] {
        [self.old.bytes(), self.old.blocks.lock(cx).bytes()]
    }
}

impl Rows {
    /// Keeps a version of a row of this host, which is overwritten or removed now.
    pub(super) fn keep_own(&self, part: &mut TablePart, key: &Key, (from, until): (u64, u64), bytes: &[u8]) {
        debug_assert!(from < until, "version {from:#x} is replaced by {until:#x}");
        self.keep(part, key, Old { from, until, bytes: bytes.into() });
    }

    /// Puts a version into the list of its share. What nobody wants goes on the way, and the oldest if it is
    /// too much.
    fn keep(&self, part: &mut TablePart, key: &Key, old: Old) {
        let took = part.kept.keep(key, old);
        if took == 0 {
            return;
        }
        self.old.note_untidy();
        let mut gone = part.kept.forget_up_to(self.old.unwanted.load(Ordering::Relaxed), DROPPED_AT_ONCE);
        let all = self.old.bytes.fetch_add(took as u64, Ordering::Relaxed) + took as u64;
        if all.saturating_sub(gone as u64) > self.old.most_bytes {
            let (forgotten, since) = part.kept.forget_bytes(took);
            debug_assert!(forgotten >= took, "a share has what was just kept there");
            part.kept_since = part.kept_since.max(since);
            gone += forgotten;
        }
        self.old.bytes.fetch_sub(gone as u64, Ordering::Relaxed);
    }

    /// A row leaves shared memory, or goes: what other hosts have kept of it comes here.
    pub(super) fn keep_chain<F: Fabric>(&self, cx: &Cx<F>, part: &mut TablePart, key: &Key, at: TupleAddr) {
        let Some(log) = self.log.as_ref().filter(|log| log.clock().keeps(cx)) else { return };
        // Nobody changes it any more: its cell is dead.
        let link = self.fresh_link(cx, part, at);
        if link.leads_nowhere() {
            return;
        }
        let (pinned, wanted) = self.pin_old_versions(cx, log);
        let mut found = Vec::new();
        let whole = self.gather(cx, link, (part.place, key), part.shape(), wanted, |old| found.push(old));
        self.close_snapshot(cx, pinned);
        found.into_iter().for_each(|old| self.keep(part, key, old));
        if !whole {
            part.kept_since = part.kept_since.max(log.clock().moments().now(cx));
        }
    }

    /// Everything that is overwritten from now on is kept; of what was before nothing is known: a host has
    /// died, which may have kept something.
    pub(super) fn keep_from_now<F: Fabric>(&self, cx: &Cx<F>) {
        if let Some(log) = &self.log {
            self.old.since.fetch_max(log.clock().moments().now(cx), Ordering::SeqCst);
        }
    }

    /// A partition has come here: what was overwritten before is not here.
    pub(super) fn keep_what_comes<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        let Some(log) = &self.log else { return };
        for relation in self.relations() {
            let mut part = self.part(cx, (partition, relation.id));
            part.kept_since = part.kept_since.max(log.clock().moments().now(cx));
        }
    }

    /// Drops and frees what no snapshot wants; called now and then.
    pub(super) fn tidy_old_versions<F: Fabric>(&self, cx: &Cx<F>) {
        if !self.old.is_untidy.swap(false, Ordering::Relaxed) {
            return;
        }
        let Some(log) = &self.log else { return };
        let is_writing = self.free_copies(cx);
        let moments = log.clock().moments();
        let wanted = moments.oldest_wanted(cx, self.members(cx));
        self.old.unwanted.fetch_max(wanted, Ordering::Relaxed);
        let has_blocks = self.free_old_blocks(cx, moments.free_up_to(cx, wanted, self.members(cx)));
        // A share at a time.
        let shares = u64::from(self.partition_count()) * self.catalog.relations().len() as u64;
        let turn = self.old.turn.fetch_add(1, Ordering::Relaxed) % shares;
        let (nth, partition) =
            (turn / u64::from(self.partition_count()), turn % u64::from(self.partition_count()));
        let (partition, relation) = (PartitionId(partition as u16), &self.catalog.relations()[nth as usize]);
        if self.holds(partition) && is_rows(relation) {
            let mut part = self.part(cx, (partition, relation.id));
            let gone = part.kept.forget_up_to(wanted, usize::MAX);
            self.old.bytes.fetch_sub(gone as u64, Ordering::Relaxed);
        }
        if is_writing || has_blocks || self.old.bytes() > 0 {
            self.old.note_untidy();
        }
    }

    /// Checks that everything is kept that was overwritten since a moment, behind what was read of then.
    pub(super) fn check_since<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &TablePart,
        moment: u64,
    ) -> Result<(), TxnError> {
        let Some(log) = &self.log else { return Err(TxnError::SnapshotTooOld) };
        let since = part.kept_since.max(self.old.since.load(Ordering::SeqCst));
        let is_kept = since.max(log.clock().moments().since(cx)) <= moment;
        if is_kept || cx.sabotaged("as_of.check-since") { Ok(()) } else { Err(TxnError::SnapshotTooOld) }
    }
}
