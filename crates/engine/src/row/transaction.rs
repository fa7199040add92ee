//! A transaction: strict two-phase locking over rows of any host, executed and committed by one worker.
//!
//! Invariants:
//! 1. Every row that was read or written, and every gap that was read (next-key locking), is held to the end.
//! 2. Changes are private until the commit: patches and images in this transaction's buffers. Only an
//!    inserted row's place exists before, write-locked.
//! 3. A running transaction has a number that no other one of its host has ([`Holder`]), and its locks name
//!    that: touching a row again finds it held by the caller. Its worker may be another one at each step.
//! 4. Versions (log sequence numbers) are a Lamport clock: a commit takes one above everything it touched.
//!
//! Rows of this host are worked on in own.rs, rows of other hosts in foreign.rs; commit.rs ends the
//! transaction.

use std::ops::ControlFlow;

use liger_fabric::{Cx, Fabric, LatchGuard};
use liger_pod::plan::PartitionId;

use super::borrowed::Borrowed;
use super::host::RowHost;
use super::partition::{Mode, Partition, RowId, reach};
use super::policy::WaitPolicy;
use super::pool::{WorkerPool, WorkerToken};
use crate::catalog::{At, Relation};
use crate::instance::Holder;
use crate::log::record::RecordWriter;
use crate::protocol::core::TxnCore;
use crate::protocol::relational::{Flow, InDram, Relational};
use crate::protocol::workspace::{Visitor, Workspace};
use crate::tables::key::{Key, KeyRange};
use crate::txn::{Announced, TableId, TxnError};

/// Where a row is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// In a partition of this host.
    Own { partition: PartitionId, table: TableId, row: RowId },
    /// In a partition of another host; an index into the transaction's foreign rows.
    Foreign(u32),
}

impl Place {
    /// The place of a row in a partition of this host.
    #[inline]
    pub(super) fn own(at: At<'_>, row: RowId) -> Self {
        Self::Own { partition: at.partition, table: at.table(), row }
    }
}

impl Visitor<'_> {
    pub(super) fn mode(&self) -> Mode {
        match self {
            Self::Read(_) => Mode::Read,
            Self::Write(_) => Mode::Write,
        }
    }
}

/// A running transaction of the row engine: what it holds, and the worker that runs it now.
pub struct RowTxn<'h, F: Fabric> {
    pub(super) cx: &'h Cx<F>,
    pub(super) host: &'h RowHost,
    pub(super) state: Box<TxnState>,
    /// The worker that it runs as, with its ring; none while it waits, if that is from a pool.
    pub(super) token: Option<WorkerToken>,
    pub(super) pool: Option<&'h WorkerPool>,
}

/// What a transaction holds, also while no thread runs it.
pub(super) struct TxnState {
    /// The number that its locks name.
    pub(super) me: Holder,
    /// The round in which it began.
    pub(super) round: u64,
    pub(super) core: TxnCore<Place>,
    /// Every row held, once.
    pub(super) held: Vec<Place>,
    pub(super) foreign: Borrowed,
    pub(super) scratch: Vec<u8>,
    /// Greatest version seen or made.
    pub(super) llsn: u64,
    /// It has learnt that some row does not exist.
    pub(super) saw_absence: bool,
    /// The record for the log, under construction.
    pub(super) writer: RecordWriter,
    /// The transactions of this host that were in the way of the last step, a bit each; 0: nobody, or not
    /// known.
    pub(super) in_the_way: u32,
    /// How long it waits for locks.
    pub(super) wait: &'static (dyn WaitPolicy + Sync),
    /// A lock that was not free ended this session's last transaction: the next one is as old as that.
    pub(super) was_refused: bool,
    /// The host needs what this session's transactions do, also on storage that is full.
    pub(super) is_needed: bool,
}

impl TxnState {
    pub(super) fn new<F: Fabric>(cx: &Cx<F>, host: &RowHost) -> Self {
        Self {
            me: Holder::of(cx.worker()),
            round: 0,
            core: TxnCore::new(cx, host.history()),
            held: Vec::with_capacity(64),
            foreign: Borrowed::default(),
            scratch: Vec::new(),
            llsn: 0,
            saw_absence: false,
            writer: RecordWriter::default(),
            in_the_way: 0,
            wait: host.wait,
            was_refused: false,
            is_needed: false,
        }
    }

    /// Bytes that are kept for the next transaction, about.
    pub(super) fn memory(&self) -> usize {
        let held = self.held.capacity() * size_of::<Place>();
        held + self.scratch.capacity() + self.writer.memory() + self.core.work.memory()
    }

    /// Keeps nothing for the next one.
    pub(super) fn forget_memory(&mut self) {
        debug_assert!(self.held.is_empty() && self.core.work.changes.is_empty(), "a transaction is open");
        (self.held, self.scratch, self.foreign) = (Vec::new(), Vec::new(), Borrowed::default());
        (self.writer, self.core.work) = (RecordWriter::default(), Workspace::default());
    }

    pub(super) fn note_read(&mut self, table: TableId, key: &Key, version: Option<u64>) {
        // An insert that finds its key taken has read the row, too.
        self.llsn = self.llsn.max(version.unwrap_or(0));
        self.saw_absence |= version.is_none();
        self.core.note_read(table, key, version);
    }

    pub(super) fn note_range(&mut self, table: TableId, range: KeyRange, found: Vec<(Key, u64)>) {
        self.saw_absence = true;
        self.core.note_range(table, range, found);
    }

    /// Shows a held row to the visitor, own changes included. `None`: the transaction has deleted it.
    pub(super) fn show<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        (relation, place): (&Relation, Place),
        key: &Key,
        (base, version): (&[u8], u64),
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        self.llsn = self.llsn.max(version);
        self.core.show(cx, (relation, place), key, (base, version), visitor)
    }
}

impl<'h, F: Fabric> RowTxn<'h, F> {
    pub(super) fn new(cx: &'h Cx<F>, host: &'h RowHost) -> Self {
        let token = Some(WorkerToken::new(cx, host, cx.worker()));
        Self { cx, host, state: Box::new(TxnState::new(cx, host)), token, pool: None }
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
}

impl<'h, F: Fabric> Relational for RowTxn<'h, F> {
    type Fabric = F;
    type Host = RowHost;
    type Place = Place;

    fn host<'a>(&self) -> &'a RowHost
    where
        Self: 'a,
    {
        self.host
    }

    fn core(&mut self) -> (&Cx<F>, &mut TxnCore<Place>) {
        (self.cx, &mut self.state.core)
    }

    fn announce_rows(&mut self, rows: &[Announced]) {
        // First all leaves, then all rows: the second round finds the leaves arrived.
        self.for_each_here(rows, |here, key| here.tree.prefetch(key.words()));
        self.for_each_here(rows, |here, key| here.prefetch_row(key));
    }

    fn point_in(&mut self, at: At<'_>, key: &Key, visitor: &mut Visitor<'_>) -> Result<bool, TxnError> {
        self.retry(|txn| {
            if txn.host.owns(at.partition) {
                txn.point_own(at, key, visitor)
            } else {
                txn.point_foreign(at, key, visitor)
            }
        })
    }

    fn range_in(&mut self, at: At<'_>, range: &KeyRange, visitor: &mut Visitor<'_>) -> Flow {
        if self.host.owns(at.partition) {
            self.range_own(at, range, visitor)
        } else {
            self.range_foreign(at, range, visitor, &mut false)
        }
    }

    fn insert_in(&mut self, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<bool, TxnError> {
        self.retry(|txn| {
            if txn.host.owns(at.partition) {
                txn.insert_own(at, key, bytes)
            } else {
                txn.insert_foreign(at, key, bytes)
            }
        })
    }

    fn doom_visited(&mut self, at: At<'_>, key: &Key) -> Result<(), TxnError> {
        let work = &mut self.state.core.work;
        let change = &mut work.changes[work.visited];
        assert!(change.table == at.table() && change.key == *key && !change.doomed, "visited last");
        change.doomed = true;
        let place = change.place;
        if self.host.owns(at.partition) {
            self.flag_own(place, true);
        }
        Ok(())
    }
}
