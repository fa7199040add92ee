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
use liger_engine::protocol::{Flow, HostEngine, Relational, TxnCore, Visitor};
use liger_engine::{Access, Announced, At, Conflict, Key, KeyRange, Relation, TableId, TxnError};

/// A row, or the place where one might be, as the transaction has seen it.
pub(super) struct Held {
    pub(super) at: (PartitionId, TableId),
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
    pub(super) at: (PartitionId, TableId),
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
    pub(super) core: TxnCore<u32>,
    /// It is known to change something.
    pub(super) writes: bool,
    /// It has seen a version that is not the newest.
    pub(super) stale: bool,
    /// The last thing sent was an insert.
    pub(super) inserting: bool,
}

impl<'h, F: Fabric> MotorTxn<'h, F> {
    pub(super) fn new(cx: &'h Cx<F>, host: &'h MotorHost) -> Self {
        Self {
            cx,
            host,
            me: host.who(cx),
            thread: None,
            start: 0,
            held: Vec::new(),
            ranges: Vec::new(),
            bytes: Vec::new(),
            core: TxnCore::new(cx, host.history()),
            writes: false,
            stale: false,
            inserting: false,
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
        self.core.clear();
        (self.writes, self.stale, self.inserting) = (false, false, false);
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

    /// The transaction is over.
    pub(super) fn refuse<T>(&mut self, why: Conflict) -> Result<T, TxnError> {
        Err(self.core.refuse(why.into()))
    }

    fn note_range(&mut self, visited: Visited) {
        if self.core.is_recorded() {
            self.core.note_range(visited.at.1, visited.range, visited.found.clone());
        }
        self.ranges.push(visited);
    }

    pub(super) fn held(&self, at: (PartitionId, TableId), key: &Key) -> Option<usize> {
        self.held.iter().rposition(|held| held.at == at && held.key == *key)
    }

    fn show(
        &mut self,
        relation: &Relation,
        i: usize,
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        let held = &self.held[i];
        if held.version.is_none() && !self.core.is_own_insert(i as u32) {
            self.cx.spend(Work::DramLine, 2);
            return Ok(None);
        }
        let row = (&self.bytes[held.image.0..held.image.1], held.version.unwrap_or(0));
        self.core.show(self.cx, (relation, i as u32), &held.key, row, visitor)
    }

    /// The next keys of a range that may have rows for this transaction. The compute server knows the keys;
    /// what it knows of them may be too old, which shows when their tuples are read.
    fn keys_of(&self, at: (PartitionId, TableId), range: &KeyRange, most: usize) -> Vec<Key> {
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

impl<'h, F: Fabric> Relational for MotorTxn<'h, F> {
    type Fabric = F;
    type Host = MotorHost;
    type Location = u32;

    fn host<'a>(&self) -> &'a MotorHost
    where
        Self: 'a,
    {
        self.host
    }

    fn core(&mut self) -> (&Cx<F>, &mut TxnCore<u32>) {
        (self.cx, &mut self.core)
    }

    fn announce_rows(&mut self, rows: &[Announced]) {
        let host = self.host;
        let mut wanted = Vec::new();
        for Announced { table, key, access, .. } in rows {
            let Ok(relation) = host.catalog.relation(*table) else { continue };
            if relation.replicated || relation.check_key(key).is_err() {
                continue;
            }
            let at = relation.at(key, host.partition_count()).ids();
            wanted.push(Wanted { at, key: *key, access: *access });
        }
        if self.core.go_on().is_ok() {
            // A refusal is heard by the next call.
            let _ = self.fetch(&wanted);
        }
    }

    fn point_in(&mut self, at: At<'_>, key: &Key, visitor: &mut Visitor<'_>) -> Result<bool, TxnError> {
        self.fetch(&[Wanted { at: at.ids(), key: *key, access: visitor.access() }])?;
        let i = self.held(at.ids(), key).expect("fetched");
        Ok(self.show(at.relation, i, visitor)?.is_some())
    }

    fn range_in(&mut self, at: At<'_>, range: &KeyRange, visitor: &mut Visitor<'_>) -> Flow {
        self.core.go_on()?;
        let (relation, access, at) = (at.relation, visitor.access(), at.ids());
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

    fn insert_in(&mut self, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<bool, TxnError> {
        self.core.go_on()?;
        let at = at.ids();
        if let Some(i) = self.held(at, key)
            && (self.held[i].version.is_some() || self.core.is_own_insert(i as u32))
        {
            return Ok(self.core.work.revive(i as u32, bytes));
        }
        match self.take_place(at, key)? {
            Some(i) => {
                self.core.work.begin_insert(i as u32, at.1, key, Some(bytes));
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

    fn delete_visited(&mut self, _at: At<'_>, _key: &Key) -> Result<(), TxnError> {
        let change = self.core.work.visited;
        self.core.work.changes[change].deleted = true;
        Ok(())
    }
}
