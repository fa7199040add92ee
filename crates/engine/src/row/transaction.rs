//! A transaction: strict two-phase locking over rows of any host, executed and committed by one worker.
//!
//! Invariants:
//! 1. Every row that was read or written, and every gap that was read (next-key locking), is held to the end.
//! 2. Changes are private until the commit: patches and images in this transaction's buffers. Only an
//!    inserted row's place exists before, write-locked.
//! 3. A worker runs one transaction at a time, so a lock that names the worker names the transaction:
//!    touching a row again finds it held by the caller.
//! 4. Versions (log sequence numbers) are a Lamport clock: a commit takes one above everything it touched.
//!
//! Rows of this host are worked on in own.rs, rows of other hosts in foreign.rs; commit.rs ends the
//! transaction.

use std::ops::ControlFlow;
use std::sync::Arc;

use liger_fabric::{Cx, Fabric, LatchGuard, Work, WorkerId};
use liger_pod::plan::PartitionId;

use super::borrowed::Borrowed;
use super::host::RowHost;
use super::partition::{Mode, Partition, RowId, TablePart, reach};
use super::policy::WaitPolicy;
use crate::catalog::{Catalog, Relation};
use crate::history::{RangeRecord, ReadRecord, TxnRecord};
use crate::key::{Key, KeyRange};
use crate::log::WorkerLog;
use crate::log::record::RecordWriter;
use crate::relational::{InDram, Relational};
use crate::txn::{Announced, TableId, TxnError};
use crate::workspace::{Visitor, Workspace};

/// Where a row is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Place {
    /// In a partition of this host.
    Own { partition: PartitionId, table: TableId, row: RowId },
    /// In a partition of another host; an index into the transaction's foreign rows.
    Foreign(u32),
}

impl Visitor<'_> {
    pub(super) fn mode(&self) -> Mode {
        match self {
            Self::Read(_) => Mode::Read,
            Self::Write(_) => Mode::Write,
        }
    }
}

/// A running transaction of the row engine.
pub struct RowTxn<'h, F: Fabric> {
    pub(super) cx: &'h Cx<F>,
    pub(super) host: &'h RowHost,
    pub(super) me: WorkerId,
    /// Every row held, once.
    pub(super) held: Vec<Place>,
    pub(super) foreign: Borrowed,
    pub(super) work: Workspace<Place>,
    pub(super) scratch: Vec<u8>,
    /// Greatest version seen or made.
    pub(super) llsn: u64,
    /// It has learnt that some row does not exist.
    pub(super) saw_absence: bool,
    /// This worker's ring, if the pod keeps a log.
    pub(super) log: Option<WorkerLog>,
    /// The record for the log, under construction.
    pub(super) writer: RecordWriter,
    pub(super) record: Option<TxnRecord>,
    /// The copies of replicated tables that this transaction reads.
    pub(super) replicas: Vec<(TableId, Arc<TablePart>)>,
    /// Bit w for worker w of this host that was in the way of the last step; 0: nobody, or not known.
    pub(super) in_the_way: u32,
    /// How long it waits for locks.
    pub(super) wait: &'static (dyn WaitPolicy + Sync),
    /// A lock that was not free ended this worker's last transaction: the next one is as old as that.
    pub(super) was_refused: bool,
    /// The host needs what this worker's transactions do, also on storage that is full.
    pub(super) is_needed: bool,
}

impl<'h, F: Fabric> RowTxn<'h, F> {
    pub(super) fn new(cx: &'h Cx<F>, host: &'h RowHost) -> Self {
        let record = host.history.is_some().then(|| TxnRecord::new(cx.host(), cx.worker()));
        Self {
            cx,
            host,
            me: cx.worker(),
            held: Vec::with_capacity(64),
            foreign: Borrowed::default(),
            work: Workspace::default(),
            scratch: Vec::new(),
            llsn: 0,
            saw_absence: false,
            log: host.log.as_ref().map(|log| log.worker(cx, cx.worker())),
            writer: RecordWriter::default(),
            record,
            replicas: Vec::new(),
            in_the_way: 0,
            wait: host.wait,
            was_refused: false,
            is_needed: false,
        }
    }

    /// The copy of a replicated table that this transaction reads, from its first look to its end.
    fn replica(&mut self, table: TableId) -> &TablePart {
        let at = self.replicas.iter().position(|replica| replica.0 == table).unwrap_or_else(|| {
            self.replicas.push((table, self.host.replica(self.cx, table)));
            self.replicas.len() - 1
        });
        &self.replicas[at].1
    }

    /// Calls `visit` for the rows that are in this host's DRAM.
    fn for_each_here(&mut self, rows: &[Announced], visit: impl Fn(InDram<'_>, &Key)) {
        let (cx, host) = (self.cx, self.host);
        let mut latched: Option<LatchGuard<'_, Partition>> = None;
        for Announced { table, key, .. } in rows {
            let Ok(relation) = host.catalog.relation(*table) else { continue };
            if relation.check_key(key).is_err() {
                continue;
            }
            if relation.replicated {
                visit(self.copied(relation.id), key);
                continue;
            }
            let partition = relation.partition_of(key, host.partition_count());
            if host.owns(partition) {
                let part = reach(&mut latched, partition, |p| host.partition(cx, p)).table(*table);
                visit(InDram { tree: &part.tree, rows: &part.rows }, key);
            }
        }
    }

    pub(super) fn note_read(&mut self, table: TableId, key: &Key, version: Option<u64>) {
        // An insert that finds its key taken has read the row, too.
        self.llsn = self.llsn.max(version.unwrap_or(0));
        self.saw_absence |= version.is_none();
        if let Some(record) = &mut self.record {
            record.reads.push(ReadRecord { table, key: *key, version });
        }
    }

    pub(super) fn note_range(&mut self, table: TableId, range: KeyRange, found: Vec<(Key, u64)>) {
        self.saw_absence = true;
        if let Some(record) = &mut self.record {
            record.ranges.push(RangeRecord { table, range, found });
        }
    }

    /// Shows a held row to the visitor, own changes included. `None`: the transaction has deleted it.
    pub(super) fn show(
        &mut self,
        relation: &Relation,
        place: Place,
        key: &Key,
        base: &[u8],
        previous: u64,
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        self.llsn = self.llsn.max(previous);
        self.cx.spend(Work::DramLine, 2);
        self.work.show(relation, place, key, base, previous, visitor)
    }
}

impl<F: Fabric> Relational for RowTxn<'_, F> {
    fn catalog<'a>(&self) -> &'a Catalog
    where
        Self: 'a,
    {
        &self.host.catalog
    }

    fn partitions(&self) -> u16 {
        self.host.partition_count()
    }

    fn announce_rows(&mut self, rows: &[Announced]) {
        // First all leaves, then all rows: the second round finds the leaves arrived.
        self.for_each_here(rows, |here, key| here.tree.prefetch(key.words()));
        self.for_each_here(rows, |here, key| here.prefetch_row(key));
    }

    fn copied(&mut self, table: TableId) -> InDram<'_> {
        let part = self.replica(table);
        InDram { tree: &part.tree, rows: &part.rows }
    }

    fn charge(&self, work: Work, times: u32) {
        self.cx.spend(work, times);
    }

    fn point_in(
        &mut self,
        relation: &Relation,
        partition: PartitionId,
        key: &Key,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        self.retry(|txn| {
            if txn.host.owns(partition) {
                txn.point_own(relation, partition, key, visitor)
            } else {
                txn.point_foreign(relation, partition, key, visitor)
            }
        })
    }

    fn range_in(
        &mut self,
        relation: &Relation,
        partition: PartitionId,
        range: &KeyRange,
        visitor: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, TxnError> {
        if self.host.owns(partition) {
            self.range_own(relation, partition, range, visitor)
        } else {
            self.range_foreign(relation, partition, range, visitor)
        }
    }

    fn insert_in(
        &mut self,
        relation: &Relation,
        partition: PartitionId,
        key: &Key,
        bytes: &[u8],
    ) -> Result<bool, TxnError> {
        self.retry(|txn| {
            if txn.host.owns(partition) {
                txn.insert_own(relation, partition, key, bytes)
            } else {
                txn.insert_foreign(relation, partition, key, bytes)
            }
        })
    }

    fn doom_visited(
        &mut self,
        relation: &Relation,
        partition: PartitionId,
        key: &Key,
    ) -> Result<(), TxnError> {
        let i = self.work.changes.visited;
        let change = &mut self.work.changes[i];
        debug_assert!(change.table == relation.id && change.key == *key && !change.doomed);
        change.doomed = true;
        if self.host.owns(partition) {
            self.flag_own(self.work.changes[i].place, true);
        }
        Ok(())
    }
}
