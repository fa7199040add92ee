//! What a partitioned pod keeps in its hosts' logs: what a participant has prepared, and what the coordinator
//! has committed (docs/protocols/partitioned.md says what that is worth).
//!
//! Invariants:
//! 1. A participant's record is in its host's ring before it votes, the coordinator's before anybody is told
//!    that the transaction has committed, and before a lock is given back.
//! 2. The coordinator reads the epoch after all votes: no record of the transaction is of a later one. So it
//!    is durable when the pod is up to that epoch; and whoever sees what it did commits in no earlier one.
//! 3. Nobody is served while a record waits for room: the worker holds a participant's latch.

use std::collections::BTreeMap;

use liger_fabric::{Cx, Fabric, HostId, Latch, WorkerId};
use liger_pod::membership;
use liger_pod::plan::Plan;

use super::branch::Branch;
use super::message::Effect;
use super::transaction::{PartTxn, RowLocation};
use liger_engine::TxnError;
use liger_engine::log::branch::BranchHead;
use liger_engine::log::record::{Op, RecordWriter, epoch_of, first_of};
use liger_engine::log::{HostLog, WorkerLog};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] =
    &["partitioned.log-what-is-prepared", "partitioned.log-the-commit", "partitioned.epoch-after-votes"];

/// A host's log, with each worker's end of it.
pub(super) struct PartLog {
    plan: Plan,
    pub(super) log: HostLog,
    writers: Vec<Latch<Writer>>,
}

struct Writer {
    ring: WorkerLog,
    record: RecordWriter,
}

impl PartLog {
    pub(super) fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan, log: HostLog) -> Self {
        let writer =
            |worker| Writer { ring: log.worker(cx, WorkerId(worker)), record: RecordWriter::default() };
        let writers = (0..plan.config().workers).map(|worker| Latch::new(writer(worker))).collect();
        Self { plan: plan.clone(), log, writers }
    }

    pub(super) fn members<F: Fabric>(&self, cx: &Cx<F>) -> u16 {
        membership::members(cx, &self.plan)
    }

    /// Appends a record with what `fill` puts into it, unless it has no changes and says nothing of a commit;
    /// the epoch that it has, or would have. `epoch`: the one to use.
    fn append<F: Fabric>(
        &self,
        cx: &Cx<F>,
        head: &BranchHead,
        epoch: Option<u64>,
        fill: impl FnOnce(&mut RecordWriter),
    ) -> Result<u64, TxnError> {
        let mut writer = self.writers[usize::from(cx.worker().0)].lock(cx);
        let Writer { ring, record } = &mut *writer;
        record.begin_branch(head);
        fill(record);
        if record.is_empty() && head.committed.unwrap_or(0) == 0 {
            return Ok(self.log.clock().now(cx));
        }
        let promise = ring.promise(cx, &self.log, record, false, |_| ())?;
        let now = self.log.clock().begin_commit(cx, cx.worker(), 0).llsn;
        let now = epoch_of(now);
        let epoch = epoch.unwrap_or(now);
        let appended = ring.append(cx, &self.log, record, promise, first_of(epoch), |_| ());
        self.log.clock().end_commit(cx, cx.worker());
        Ok(appended.map(|_| epoch)?)
    }

    /// Keeps what a transaction of another host's worker will have changed here at `time`.
    pub(super) fn prepared<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (host, worker, transaction): (HostId, WorkerId, u64),
        time: u64,
        branch: &Branch,
        effects: &[Effect],
    ) -> Result<(), TxnError> {
        if cx.sabotaged("partitioned.log-what-is-prepared") {
            return Ok(());
        }
        let head = BranchHead { time, transaction, host, worker, committed: None };
        let mut pieces: BTreeMap<u32, Vec<&(u16, Vec<u8>)>> = BTreeMap::new();
        for effect in effects {
            pieces.entry(effect.held).or_default().extend(&effect.pieces);
        }
        let appended = self.append(cx, &head, None, |record| {
            for (held, i) in branch.held.iter().zip(0..) {
                let changed = pieces.get(&i);
                let op = match (changed, held.is_new, held.deleted) {
                    (Some(_), true, _) => Op::Insert,
                    (Some(_), false, _) => Op::Update,
                    (None, false, true) => Op::Delete,
                    (None, ..) => continue,
                };
                let previous = if held.is_new { 0 } else { held.version };
                record.change((held.table, held.partition), op, &held.key, previous);
                changed.into_iter().flatten().for_each(|(offset, bytes)| record.piece(*offset, bytes));
            }
        });
        appended.map(drop)
    }
}

impl<F: Fabric> PartTxn<'_, F> {
    /// The pod's epoch now, for a mutant that takes it too early.
    pub(super) fn early_epoch(&self) -> Option<u64> {
        let early = self.cx.sabotaged("partitioned.epoch-after-votes");
        self.host.log.as_ref().filter(|_| early).map(|log| log.log.clock().now(self.cx))
    }

    /// Keeps what the transaction changes at this host, and that it has committed; then it has. `early`: the
    /// epoch that it takes instead of the present one.
    pub(super) fn log_commit(&mut self, time: u64, early: Option<u64>) -> Result<(), TxnError> {
        let (cx, host) = (self.cx, self.host);
        let Some(log) = &host.log else { return Ok(()) };
        let lasting = || self.core.work.changes.iter().filter(|change| !(change.is_new && change.deleted));
        let prepared = lasting().fold(0, |hosts, change| match change.place {
            RowLocation::Far(i) => hosts | 1 << self.fetched[i as usize].host.0,
            RowLocation::Own(_) => hosts,
        });
        if cx.sabotaged("partitioned.log-the-commit") {
            return Ok(());
        }
        let committed = Some(prepared);
        let (transaction, worker) = (self.number, self.me);
        let head = BranchHead { time, transaction, host: host.me, worker, committed };
        let (work, own) = (&mut self.core.work, &self.own);
        self.epoch = log.append(cx, &head, early, |record| {
            for change in work.changes.iter() {
                let RowLocation::Own(i) = change.place else { continue };
                let op = match (change.is_new, change.deleted) {
                    (true, true) => continue,
                    (true, false) => Op::Insert,
                    (false, true) => Op::Delete,
                    (false, false) => Op::Update,
                };
                let previous = if change.is_new { 0 } else { change.previous };
                let partition = own.held[i as usize].partition;
                record.change((change.table, partition), op, &change.key, previous);
                match change.image {
                    _ if change.deleted => {}
                    Some((start, end)) => {
                        let image = &mut work.images[start as usize..end as usize];
                        work.patches.apply(change.patches, image);
                        record.piece(0, image);
                    }
                    None => {
                        work.patches.iter(change.patches).for_each(|(at, bytes)| record.piece(at, bytes));
                    }
                }
            }
        })?;
        Ok(())
    }
}
