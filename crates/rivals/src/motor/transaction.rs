//! A transaction: what it has read and locked, and the calls on it.
//!
//! Invariants:
//! 1. It reads as of its start. Who changes something must have read the newest versions: it aborts as soon
//!    as it sees a newer one than its start.
//! 2. Changes are private until the commit; rows that it changes are locked from its first look on.
//! 3. A row that is held is held once, and shows one version.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use liger_fabric::{Cx, Fabric, LatchGuard, Remote, Work};
use liger_pod::plan::PartitionId;

use super::host::MotorHost;
use super::reads::Wanted;
use super::servers::Who;
use crate::copies::CopiesRead;
use liger_engine::history::{RangeRecord, ReadRecord, TxnRecord};
use liger_engine::protocol::{InDram, Relational};
use liger_engine::protocol::{Visitor, Workspace};
use liger_engine::{Access, Announced, Conflict, TableId, TxnError};
use liger_engine::{Catalog, Relation};
use liger_engine::{Key, KeyRange};

/// A row, or the place where one might be, as the transaction has seen it.
pub(super) struct Held {
    pub(super) at: (TableId, PartitionId),
    pub(super) key: Key,
    /// The newest version then, whether or not the transaction sees it.
    pub(super) newest: Option<u64>,
    /// The version that it sees; none if it sees no row.
    pub(super) version: Option<u64>,
    pub(super) locked: bool,
    /// Bytes of changes between the version and the newest one.
    pub(super) deltas: u64,
    pub(super) image: (usize, usize),
}

/// A range that was visited.
pub(super) struct Visited {
    pub(super) at: (TableId, PartitionId),
    pub(super) range: KeyRange,
    pub(super) found: Vec<(Key, u64)>,
}

/// A running transaction.
pub struct MotorTxn<'h, F: Fabric> {
    pub(super) cx: &'h Cx<F>,
    pub(super) host: &'h MotorHost,
    pub(super) me: Who,
    thread: Option<LatchGuard<'h, ()>>,
    pub(super) start: u64,
    pub(super) held: Vec<Held>,
    pub(super) ranges: Vec<Visited>,
    pub(super) bytes: Vec<u8>,
    pub(super) work: Workspace<u32>,
    /// It is known to change something.
    pub(super) writes: bool,
    /// It has seen a version that is not the newest.
    pub(super) stale: bool,
    /// It is over.
    pub(super) refused: Option<TxnError>,
    /// The last thing sent was an insert.
    pub(super) inserting: bool,
    pub(super) record: Option<TxnRecord>,
    copies: CopiesRead,
}

fn access_of(visitor: &Visitor<'_>) -> Access {
    match visitor {
        Visitor::Read(_) => Access::Read,
        Visitor::Write(_) => Access::Update,
    }
}

impl<'h, F: Fabric> MotorTxn<'h, F> {
    pub(super) fn new(cx: &'h Cx<F>, host: &'h MotorHost) -> Self {
        let record = host.history.is_some().then(|| TxnRecord::new(cx.host(), cx.worker()));
        Self {
            cx,
            host,
            me: host.who(cx),
            thread: None,
            start: 0,
            held: Vec::new(),
            ranges: Vec::new(),
            bytes: Vec::new(),
            work: Workspace::default(),
            writes: false,
            stale: false,
            refused: None,
            inserting: false,
            record,
            copies: CopiesRead::default(),
        }
    }

    /// Forgets the last transaction and begins another, as soon as the thread is free.
    pub(super) fn begin(&mut self) {
        debug_assert!(self.held.iter().all(|held| !held.locked));
        self.thread = Some(self.host.thread(self.cx).lock(self.cx));
        self.start = self.host.servers.start(self.cx);
        self.held.clear();
        self.ranges.clear();
        self.bytes.clear();
        self.work.clear();
        (self.writes, self.stale, self.inserting) = (false, false, false);
        self.refused = None;
        self.copies.clear();
        if let Some(record) = &mut self.record {
            record.clear();
        }
    }

    /// Gives the thread to the next.
    pub(super) fn end(&mut self) {
        self.thread = None;
    }

    /// Sends requests; the thread is another's until they are answered. What follows happens at the servers.
    pub(super) fn send(&mut self, requests: usize, swaps: usize, bytes: u64) {
        self.inserting = false;
        self.thread = None;
        self.host.round_trips.fetch_add(1, Ordering::Relaxed);
        let (requests, swaps) = (requests as u32, swaps as u32);
        self.cx.remote(Remote::Sent { requests, operations: requests + swaps, swaps, bytes });
    }

    /// The answers come.
    pub(super) fn receive(&mut self, bytes: u64) {
        self.cx.remote(Remote::Answered { bytes });
        self.thread = Some(self.host.thread(self.cx).lock(self.cx));
    }

    pub(super) fn go_on(&self) -> Result<(), TxnError> {
        self.refused.map_or(Ok(()), Err)
    }

    /// The transaction is over.
    pub(super) fn refuse<T>(&mut self, why: Conflict) -> Result<T, TxnError> {
        let error = TxnError::Conflict(why);
        self.refused = Some(error);
        Err(error)
    }

    pub(super) fn note_read(&mut self, table: TableId, key: &Key, version: Option<u64>) {
        if let Some(record) = &mut self.record {
            record.reads.push(ReadRecord { table, key: *key, version });
        }
    }

    fn note_range(&mut self, visited: Visited) {
        if let Some(record) = &mut self.record {
            let (table, range, found) = (visited.at.0, visited.range, visited.found.clone());
            record.ranges.push(RangeRecord { table, range, found });
        }
        self.ranges.push(visited);
    }

    pub(super) fn held(&self, at: (TableId, PartitionId), key: &Key) -> Option<usize> {
        self.held.iter().rposition(|held| held.at == at && held.key == *key)
    }

    /// True if the transaction has made this row.
    fn is_own(&self, held: usize) -> bool {
        self.work.changes.of(held as u32).is_some_and(|i| self.work.changes[i].is_new)
    }

    fn show(
        &mut self,
        relation: &Relation,
        i: usize,
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        self.cx.spend(Work::DramLine, 2);
        let held = &self.held[i];
        if held.version.is_none() && !self.is_own(i) {
            return Ok(None);
        }
        let base = &self.bytes[held.image.0..held.image.1];
        self.work.show(relation, i as u32, &held.key, base, held.version.unwrap_or(0), visitor)
    }

    /// The next keys of a range that may have rows for this transaction. The compute server knows the keys;
    /// what it knows of them may be too old, which shows when their tuples are read.
    fn keys_of(&self, at: (TableId, PartitionId), range: &KeyRange, most: usize) -> Vec<Key> {
        let mut keys = Vec::new();
        self.host.servers.share(self.cx, at).each(range, |key, tuple| {
            let is_new = tuple.newest().is_some_and(|newest| newest > self.start);
            if tuple.is_live() || is_new || (tuple.lock == self.me && self.held(at, &key).is_some()) {
                keys.push(key);
            }
            keys.len() < most
        });
        keys
    }
}

impl<F: Fabric> Relational for MotorTxn<'_, F> {
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
        let host = self.host;
        let mut wanted = Vec::new();
        for Announced { table, key, access } in rows {
            let Ok(relation) = host.catalog.relation(*table) else { continue };
            if relation.replicated || relation.check_key(key).is_err() {
                continue;
            }
            let at = (*table, relation.partition_of(key, host.partition_count()));
            wanted.push(Wanted { at, key: *key, access: *access });
        }
        if self.refused.is_none() {
            // A refusal is heard by the next call.
            let _ = self.fetch(&wanted);
        }
    }

    fn copied(&mut self, table: TableId) -> InDram<'_> {
        self.copies.of(self.cx, &self.host.copies, table)
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
        let at = (relation.id, partition);
        self.fetch(&[Wanted { at, key: *key, access: access_of(visitor) }])?;
        let i = self.held(at, key).expect("fetched");
        Ok(self.show(relation, i, visitor)?.is_some())
    }

    fn range_in(
        &mut self,
        relation: &Relation,
        partition: PartitionId,
        range: &KeyRange,
        visitor: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, TxnError> {
        self.go_on()?;
        let (at, access) = ((relation.id, partition), access_of(visitor));
        let (mut rest, mut batch, mut found) = (*range, 4, Vec::new());
        loop {
            self.cx.spend(Work::IndexNode, 3);
            let keys = self.keys_of(at, &rest, batch);
            let wanted: Vec<Wanted> = keys.iter().map(|key| Wanted { at, key: *key, access }).collect();
            self.fetch(&wanted)?;
            for key in &keys {
                let i = self.held(at, key).expect("fetched");
                if let Some(version) = self.held[i].version {
                    found.push((*key, version));
                }
                if self.show(relation, i, visitor)?.is_some_and(|flow| flow.is_break()) {
                    let seen = KeyRange { low: range.low, high: key.next() };
                    self.note_range(Visited { at, range: seen, found });
                    return Ok(ControlFlow::Break(()));
                }
            }
            match keys.last().and_then(|last| last.next()) {
                Some(low) if keys.len() == batch => rest.low = low,
                _ => break,
            }
            batch = (2 * batch).min(64);
        }
        self.note_range(Visited { at, range: *range, found });
        Ok(ControlFlow::Continue(()))
    }

    fn insert_in(
        &mut self,
        relation: &Relation,
        partition: PartitionId,
        key: &Key,
        bytes: &[u8],
    ) -> Result<bool, TxnError> {
        self.go_on()?;
        let at = (relation.id, partition);
        if let Some(i) = self.held(at, key)
            && (self.held[i].version.is_some() || self.is_own(i))
        {
            return Ok(self.work.revive(i as u32, bytes));
        }
        match self.take_place(at, key)? {
            Some(i) => {
                self.work.begin_insert(i as u32, relation.id, key, Some(bytes));
            }
            // There is a row: what it is must not change until the commit.
            None => {
                self.fetch(&[Wanted { at, key: *key, access: Access::Read }])?;
                let seen = self.held(at, key).is_some_and(|i| self.held[i].version.is_some());
                return if seen { Ok(false) } else { self.refuse(Conflict::Validation) };
            }
        }
        Ok(true)
    }

    fn doom_visited(
        &mut self,
        _relation: &Relation,
        _partition: PartitionId,
        _key: &Key,
    ) -> Result<(), TxnError> {
        let change = self.work.changes.visited;
        self.work.changes[change].doomed = true;
        Ok(())
    }
}
