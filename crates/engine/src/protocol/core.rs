//! What a transaction of any protocol holds beside its locks: its changes, what is recorded of it, the copies
//! of replicated tables that it reads, and whether it is over.
//!
//! Invariants:
//! 1. A transaction that was refused stays refused until the next one begins: whatever it calls fails.
//! 2. What it has read and written is recorded if somebody keeps a history, and then completely.
//!
//! Not here: where its rows are and how they are held (each protocol), and its commit.

use std::hash::Hash;
use std::ops::ControlFlow;

use liger_fabric::{Cx, Fabric, HostId, Work, WorkerId};

use crate::catalog::Relation;
use crate::history::{HistorySink, RangeRecord, ReadRecord, TxnRecord};
use crate::protocol::relational::InDram;
use crate::protocol::replicas::{Replicas, ReplicasRead};
use crate::protocol::workspace::{Visitor, Workspace};
use crate::tables::key::{Key, KeyRange};
use crate::txn::{TableId, TxnError};

/// What a transaction holds beside its locks; `P` is how its protocol names where a row is.
pub struct TxnCore<P: Copy + Eq + Hash> {
    /// Its changes, which nobody else sees.
    pub work: Workspace<P>,
    record: Option<TxnRecord>,
    /// What the statement that runs reads by itself, and whether it does now.
    apart: Option<TxnRecord>,
    is_apart: bool,
    replicas: ReplicasRead,
    refused: Option<TxnError>,
}

impl<P: Copy + Eq + Hash> TxnCore<P> {
    /// Of the caller's worker, whose transactions are recorded if there is a `history`.
    pub fn new<F: Fabric>(cx: &Cx<F>, history: Option<&dyn HistorySink>) -> Self {
        Self {
            work: Workspace::default(),
            record: history.map(|_| TxnRecord::new(cx.host(), cx.worker())),
            apart: None,
            is_apart: false,
            replicas: ReplicasRead::default(),
            refused: None,
        }
    }

    /// Goes on as this worker's.
    pub fn run_by(&mut self, host: HostId, worker: WorkerId) {
        for record in [&mut self.record, &mut self.apart].into_iter().flatten() {
            debug_assert_eq!(record.host, host, "a transaction stays on its host");
            (record.host, record.worker) = (host, worker);
        }
    }

    /// Forgets the last transaction and keeps the memory.
    pub fn clear(&mut self) {
        self.work.clear();
        self.replicas.clear();
        self.refused = None;
        if let Some(record) = &mut self.record {
            record.clear();
        }
    }

    /// Whether it may go on.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub fn go_on(&self) -> Result<(), TxnError> {
        self.refused.map_or(Ok(()), Err)
    }

    /// It goes on after all: what it met has changed nothing.
    pub fn forgive(&mut self) {
        self.refused = None;
    }

    /// The transaction is over.
    pub fn refuse(&mut self, why: TxnError) -> TxnError {
        self.refused = Some(why);
        why
    }

    /// What a step came to: a conflict ends the transaction.
    ///
    /// # Errors
    /// The step's.
    pub fn outcome<R>(&mut self, step: Result<R, TxnError>) -> Result<R, TxnError> {
        if let Err(TxnError::Conflict(why)) = step {
            self.refuse(why.into());
        }
        step
    }

    /// True if its history is kept.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.record.is_some()
    }

    fn recording(&mut self) -> Option<&mut TxnRecord> {
        if self.is_apart { self.apart.as_mut() } else { self.record.as_mut() }
    }

    /// A statement begins, whose reads are recorded by themselves: as of this moment, or of when it ends.
    pub fn begin_apart(&mut self, moment: Option<u64>) {
        debug_assert!(self.apart.is_none(), "one statement at a time");
        self.apart = self.record.as_ref().map(|record| {
            let mut apart = TxnRecord::new(record.host, record.worker);
            apart.as_of = moment;
            apart
        });
    }

    /// What is read from now on is the statement's, or the transaction's again.
    pub fn set_apart(&mut self, is_apart: bool) {
        debug_assert!(!is_apart || self.apart.is_some() == self.record.is_some(), "a statement has begun");
        self.is_apart = is_apart;
    }

    /// Whether what is read now is a statement's.
    pub fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// The statement is over: what it has read by itself.
    pub fn end_apart(&mut self) -> Option<TxnRecord> {
        self.is_apart = false;
        self.apart.take()
    }

    /// It has read a key; `None`: there is no such row.
    #[inline]
    pub fn note_read(&mut self, table: TableId, key: &Key, version: Option<u64>) {
        if let Some(record) = self.recording() {
            record.reads.push(ReadRecord { table, key: *key, version });
        }
    }

    /// How many reads are recorded, for [`TxnCore::forget_reads`].
    pub fn reads(&self) -> usize {
        self.record.as_ref().map_or(0, |record| record.reads.len())
    }

    /// Forgets reads behind the first so many: it keeps nothing of what they have shown.
    pub fn forget_reads(&mut self, kept: usize) {
        if let Some(record) = &mut self.record {
            debug_assert!(kept <= record.reads.len(), "{kept} reads were recorded");
            record.reads.truncate(kept);
        }
    }

    /// It has visited a range, and found these rows of others in it.
    #[inline]
    pub fn note_range(&mut self, table: TableId, range: KeyRange, found: Vec<(Key, u64)>) {
        if let Some(record) = self.recording() {
            debug_assert!(found.iter().all(|(key, _)| range.contains(key)), "{found:?} in {range:?}");
            debug_assert!(found.is_sorted_by(|a, b| a.0 < b.0), "each row once, by key: {found:?}");
            record.ranges.push(RangeRecord { table, range, found });
        }
    }

    /// Its changes have a version now.
    pub fn note_writes(&mut self, version: u64) {
        if let Some(record) = &mut self.record {
            debug_assert!(record.writes.is_empty(), "changes are recorded once");
            debug_assert!(version > 0 || self.work.changes.is_empty(), "version 0 is that of no write");
            record.writes.extend(self.work.writes(version));
        }
    }

    /// When it takes effect, by a protocol that orders transactions by a clock of its own.
    pub fn note_time(&mut self, time: u64) {
        if let Some(record) = &mut self.record {
            record.time = time;
        }
    }

    /// It reads as of this moment.
    pub fn note_as_of(&mut self, moment: u64) {
        if let Some(record) = &mut self.record {
            record.as_of = Some(moment);
        }
    }

    /// Shows what is recorded of it to who keeps the history.
    pub fn show_history(
        &self,
        history: Option<&dyn HistorySink>,
        show: impl FnOnce(&dyn HistorySink, &TxnRecord),
    ) {
        debug_assert!(self.record.is_none() || history.is_some(), "what is recorded is for somebody");
        if let (Some(record), Some(history)) = (&self.record, history) {
            show(history, record);
        }
    }

    /// The copy of a replicated table that this transaction reads, from its first look to its end.
    pub fn copied<F: Fabric>(&mut self, cx: &Cx<F>, replicas: &Replicas, table: TableId) -> InDram<'_> {
        self.replicas.of(cx, replicas, table)
    }

    /// True if it has made the row at this place.
    pub fn is_own_insert(&mut self, place: P) -> bool {
        self.work.changes.number(&place).is_some_and(|i| self.work.changes[i].is_new)
    }

    /// Shows a row that it holds to the visitor, own changes included. `None`: it has deleted the row.
    ///
    /// # Errors
    /// If the visitor changes a key.
    pub fn show<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        (relation, place): (&Relation, P),
        key: &Key,
        (base, version): (&[u8], u64),
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        debug_assert!(self.refused.is_none(), "a transaction that was refused sees nothing");
        cx.spend(Work::DramLine, 2);
        self.work.show(relation, place, key, base, version, visitor)
    }

    /// As [`TxnCore::show`], a row that it has not held for changes before.
    ///
    /// # Errors
    /// If the visitor changes a key.
    pub fn show_first<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        row: (&Relation, P),
        key: &Key,
        base: (&[u8], u64),
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        debug_assert!(self.refused.is_none(), "a transaction that was refused sees nothing");
        debug_assert!(self.work.changes.number(&row.1).is_none(), "what is changed is held for that");
        cx.spend(Work::DramLine, 2);
        self.work.show_known(None, row, key, base, visitor)
    }
}
