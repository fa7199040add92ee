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

use super::borrowed::Borrowed;
use super::changes::Changes;
use super::circles::Link;
use super::host::RowHost;
use super::partition::{Mode, Partition, RowId, TablePart, reach};
use super::policy::WaitPolicy;
use super::waits::Wait;
use crate::catalog::{Kind, Relation};
use crate::history::{RangeRecord, ReadRecord, TxnRecord};
use crate::key::{Key, KeyRange};
use crate::log::WorkerLog;
use crate::log::record::RecordWriter;
use crate::record::{NewRow, PatchRange, Patches, Row, RowMut};
use crate::txn::{Announced, Conflict, IndexId, TableId, Transaction, TxnError};

/// Cache lines of a row that a prefetch loads at most: its holders and its first columns.
const PREFETCHED_LINES: usize = 6;

/// How long a transaction looks for a lock without rest, and how long it rests then between two looks.
const SPIN_NS: u64 = 20_000;
const REST_NS: u64 = 50_000;

/// Where a row is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    /// In a partition of this host.
    Own { partition: u16, table: u16, row: RowId },
    /// In a partition of another host; an index into the transaction's foreign rows.
    Foreign(u32),
}

/// Who looks at rows, and how.
pub(super) enum Visitor<'v> {
    Read(&'v mut dyn FnMut(&Key, Row<'_>) -> ControlFlow<()>),
    Write(&'v mut dyn FnMut(&Key, &mut RowMut<'_>) -> ControlFlow<()>),
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
    pub(super) changes: Changes,
    pub(super) patches: Patches,
    pub(super) images: Vec<u8>,
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
            changes: Changes::default(),
            patches: Patches::new(),
            images: Vec::new(),
            scratch: Vec::new(),
            llsn: 0,
            saw_absence: false,
            log: host.log.as_ref().map(|log| log.worker(cx, cx.worker())),
            writer: RecordWriter::default(),
            record,
            replicas: Vec::new(),
            in_the_way: 0,
            wait: host.wait,
        }
    }

    /// Runs one step again as long as the wait policy says so.
    pub(super) fn retry<T>(
        &mut self,
        mut step: impl FnMut(&mut Self) -> Result<T, TxnError>,
    ) -> Result<T, TxnError> {
        let (host, cx) = (self.host, self.cx);
        let (mut tries, mut since_ns, mut waiting) = (0, None, None);
        let mut link: Option<Link<'_>> = None;
        loop {
            self.in_the_way = 0;
            match step(self) {
                Err(TxnError::Conflict(conflict)) => {
                    tries += 1;
                    let now_ns = cx.now_ns();
                    let waited_ns = now_ns - *since_ns.get_or_insert(now_ns);
                    let others = self.in_the_way;
                    if !link.as_ref().is_some_and(|link| link.is_for(others)) {
                        drop(link.take());
                        link = Some(host.circles.wait(self.me, others));
                        if link.as_ref().is_some_and(Link::is_in_circle) {
                            return Err(conflict.into());
                        }
                    }
                    if !self.wait.wait(conflict, tries, waited_ns, others != 0) {
                        return Err(conflict.into());
                    }
                    waiting.get_or_insert_with(|| host.waits.begin(self.me, Wait::Lock));
                    host.serve_waiting(cx);
                    if waited_ns < SPIN_NS { cx.pause() } else { cx.rest(REST_NS) }
                }
                ended => return ended,
            }
        }
    }

    fn relation(&self, table: TableId) -> Result<&'h Relation, TxnError> {
        self.host.catalog.relation(table)
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
    fn for_each_part(&mut self, rows: &[Announced], mut visit: impl FnMut(&TablePart, &Key)) {
        let (cx, host) = (self.cx, self.host);
        let mut latched: Option<LatchGuard<'_, Partition>> = None;
        for Announced { table, key, .. } in rows {
            let Ok(relation) = host.catalog.relation(*table) else { continue };
            if relation.check_key(key).is_err() {
                continue;
            }
            if relation.replicated {
                visit(self.replica(relation.id), key);
                continue;
            }
            let partition = relation.partition_of(key, host.partition_count());
            if host.owns(partition) {
                visit(reach(&mut latched, partition, |p| host.partition(cx, p)).table(table.0), key);
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
        let known = if self.changes.is_empty() { None } else { self.change_of(place) };
        if known.is_some_and(|i| self.changes[i].doomed) {
            return Ok(None);
        }
        match visitor {
            Visitor::Read(visit) => {
                let Some(i) = known else { return Ok(Some(visit(key, Row::new(base)))) };
                let mut merged = self.base_of(i, base).to_vec();
                self.patches.apply(self.changes[i].patches, &mut merged);
                let flow = visit(key, Row::new(&merged));
                Ok(Some(flow))
            }
            Visitor::Write(visit) => {
                let i = known.unwrap_or_else(|| self.begin_change(place, relation.id, key, previous));
                self.changes.visited = i;
                let change = &mut self.changes[i];
                let base = match change.image {
                    Some((start, end)) => &self.images[start as usize..end as usize],
                    None => base,
                };
                let flow = visit(key, &mut self.patches.row(base, &mut change.patches));
                if changes_a_key(relation, base, &self.patches, change.patches) {
                    return Err(TxnError::KeyChanged { table: relation.id });
                }
                Ok(Some(flow))
            }
        }
    }

    /// The bytes below a change's patches.
    fn base_of<'a>(&'a self, change: usize, base: &'a [u8]) -> &'a [u8] {
        match self.changes[change].image {
            Some((start, end)) => &self.images[start as usize..end as usize],
            None => base,
        }
    }

    pub(super) fn store_image(&mut self, bytes: &[u8]) -> (u32, u32) {
        let start = self.images.len() as u32;
        self.images.extend_from_slice(bytes);
        (start, self.images.len() as u32)
    }

    /// Shows the row with this key to the visitor; false if there is none.
    fn point(&mut self, relation: &Relation, key: &Key, visitor: &mut Visitor<'_>) -> Result<bool, TxnError> {
        relation.check_key(key)?;
        if relation.replicated {
            return self.point_replicated(relation, key, visitor);
        }
        let partition = relation.partition_of(key, self.host.partition_count());
        self.retry(|txn| {
            if txn.host.owns(partition) {
                txn.point_own(relation, partition, key, visitor)
            } else {
                txn.point_foreign(relation, partition, key, visitor)
            }
        })
    }

    fn point_replicated(
        &mut self,
        relation: &Relation,
        key: &Key,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        let Visitor::Read(visit) = visitor else { return Err(TxnError::ReadOnly { table: relation.id }) };
        let cx = self.cx;
        let part = self.replica(relation.id);
        let Some(row) = part.find(cx, key) else { return Ok(false) };
        cx.spend(Work::DramLine, 2);
        let _ = visit(key, Row::new(part.rows.bytes(row)));
        Ok(true)
    }

    /// Visits the rows of a range, wherever they are.
    fn range(
        &mut self,
        relation: &Relation,
        range: &KeyRange,
        visitor: &mut Visitor<'_>,
    ) -> Result<(), TxnError> {
        relation.check_key(&range.low)?;
        if let Some(high) = &range.high {
            relation.check_key(high)?;
        }
        if range.is_empty() {
            return Ok(());
        }
        if relation.replicated {
            return self.range_replicated(relation, range, visitor);
        }
        match relation.partition_of_range(range, self.host.partition_count()) {
            Some(partition) => self.range_of_partition(relation, partition, range, visitor).map(|_| ()),
            None => self.range_of_all(relation, range, visitor),
        }
    }

    fn range_of_partition(
        &mut self,
        relation: &Relation,
        partition: u16,
        range: &KeyRange,
        visitor: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, TxnError> {
        if self.host.owns(partition) {
            self.range_own(relation, partition, range, visitor)
        } else {
            self.range_foreign(relation, partition, range, visitor)
        }
    }

    /// A range over all partitions: locked partition by partition, then visited in key order.
    fn range_of_all(
        &mut self,
        relation: &Relation,
        range: &KeyRange,
        visitor: &mut Visitor<'_>,
    ) -> Result<(), TxnError> {
        let mut rows: Vec<(Key, Vec<u8>)> = Vec::new();
        for partition in 0..self.host.partition_count() {
            let mut gather = |key: &Key, row: Row<'_>| {
                rows.push((*key, row.bytes().to_vec()));
                ControlFlow::Continue(())
            };
            let _ = self.range_of_partition(relation, partition, range, &mut Visitor::Read(&mut gather))?;
        }
        rows.sort_unstable_by_key(|row| row.0);
        for (key, bytes) in rows {
            let flow = match visitor {
                Visitor::Read(visit) => visit(&key, Row::new(&bytes)),
                Visitor::Write(visit) => {
                    let mut flow = ControlFlow::Continue(());
                    let mut once = |key: &Key, row: &mut RowMut<'_>| {
                        flow = visit(key, row);
                        ControlFlow::Break(())
                    };
                    self.point(relation, &key, &mut Visitor::Write(&mut once))?;
                    flow
                }
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn range_replicated(
        &mut self,
        relation: &Relation,
        range: &KeyRange,
        visitor: &mut Visitor<'_>,
    ) -> Result<(), TxnError> {
        let Visitor::Read(visit) = visitor else { return Err(TxnError::ReadOnly { table: relation.id }) };
        let part = self.replica(relation.id);
        let mut at = part.tree.lower_bound(range.low.words());
        while let Some(cursor) = at {
            let (words, row) = part.tree.entry(cursor);
            let key = Key::from_words(words);
            if range.ends_before(&key) || visit(&key, Row::new(part.rows.bytes(row))).is_break() {
                break;
            }
            at = part.tree.next(cursor);
        }
        Ok(())
    }

    /// Puts a row into one relation.
    fn put(
        &mut self,
        relation: &Relation,
        key: &Key,
        bytes: &[u8],
        duplicate: TableId,
    ) -> Result<(), TxnError> {
        if key.words().iter().all(|word| *word == u64::MAX) {
            return Err(TxnError::KeyReserved { table: relation.id });
        }
        let partition = relation.partition_of(key, self.host.partition_count());
        let inserted = self.retry(|txn| {
            if txn.host.owns(partition) {
                txn.insert_own(relation, partition, key, bytes)
            } else {
                txn.insert_foreign(relation, partition, key, bytes)
            }
        })?;
        if inserted { Ok(()) } else { Err(TxnError::DuplicateKey { index: duplicate }) }
    }

    /// Marks a row of one relation for removal; false if there is none.
    fn doom(&mut self, relation: &Relation, key: &Key, image: &mut Vec<u8>) -> Result<bool, TxnError> {
        let partition = relation.partition_of(key, self.host.partition_count());
        let first = self.changes.len();
        let mut keep = |_: &Key, row: &mut RowMut<'_>| {
            image.clear();
            row.copy_to(image);
            ControlFlow::Break(())
        };
        let visitor = &mut Visitor::Write(&mut keep);
        if !self.point(relation, key, visitor)? {
            return Ok(false);
        }
        let i = self.changes.visited;
        debug_assert!(self.changes[i].table == relation.id && self.changes[i].key == *key);
        debug_assert!(i >= first || !self.changes[i].doomed);
        self.changes[i].doomed = true;
        if self.host.owns(partition) {
            self.flag_own(self.changes[i].place, true);
        }
        Ok(true)
    }
}

/// True if the changes touch a column of the primary key or of an index.
fn changes_a_key(relation: &Relation, base: &[u8], patches: &Patches, range: PatchRange) -> bool {
    let Kind::Table { layout, .. } = &relation.kind else { return !range.is_empty() };
    layout.primary.is_changed(base, patches, range)
        || layout.indexes.iter().any(|index| index.key.is_changed(base, patches, range))
}

impl<F: Fabric> Transaction for RowTxn<'_, F> {
    fn announce(&mut self, rows: &[Announced]) {
        // First all leaves, then all rows: the second round finds the leaves arrived.
        self.for_each_part(rows, |part, key| part.tree.prefetch(key.words()));
        self.for_each_part(rows, |part, key| {
            if let Some(row) = part.tree.get(key.words()) {
                part.rows.prefetch(row, PREFETCHED_LINES);
            }
        });
    }

    fn get<R>(
        &mut self,
        table: TableId,
        key: &Key,
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, TxnError> {
        let (mut f, mut out) = (Some(f), None);
        let mut visit = |_: &Key, row: Row<'_>| {
            out = f.take().map(|f| f(row));
            ControlFlow::Break(())
        };
        let relation = self.relation(table)?;
        self.point(relation, key, &mut Visitor::Read(&mut visit))?;
        Ok(out)
    }

    fn update<R>(
        &mut self,
        table: TableId,
        key: &Key,
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, TxnError> {
        let (mut f, mut out) = (Some(f), None);
        let mut visit = |_: &Key, row: &mut RowMut<'_>| {
            out = f.take().map(|f| f(row));
            ControlFlow::Break(())
        };
        let relation = self.relation(table)?;
        relation.table()?;
        self.point(relation, key, &mut Visitor::Write(&mut visit))?;
        Ok(out)
    }

    fn insert(&mut self, table: TableId, row: &NewRow) -> Result<(), TxnError> {
        let relation = self.relation(table)?;
        let (layout, indexes) = relation.table()?;
        let bytes = row.bytes();
        if bytes.len() != relation.row_len {
            let (expected_bytes, found_bytes) = (relation.row_len as u32, bytes.len() as u32);
            return Err(TxnError::WrongSize { table, expected_bytes, found_bytes });
        }
        if relation.replicated {
            return Err(TxnError::ReadOnly { table });
        }
        let primary = layout.primary.key_of(bytes);
        self.put(relation, &primary, bytes, table)?;
        let mut entry = [0u8; 8 * crate::key::MAX_KEY_WORDS];
        for (index, IndexId(id)) in layout.indexes.iter().zip(indexes) {
            let entry = &mut entry[..index.row_len];
            index.write_primary(&primary, entry);
            self.put(self.relation(*id)?, &index.key.key_of(bytes), entry, *id)?;
        }
        Ok(())
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, TxnError> {
        let relation = self.relation(table)?;
        let (layout, indexes) = relation.table()?;
        let mut image = Vec::new();
        if !self.doom(relation, key, &mut image)? {
            return Ok(false);
        }
        let mut unused = Vec::new();
        for (index, IndexId(id)) in layout.indexes.iter().zip(indexes) {
            if !self.doom(self.relation(*id)?, &index.key.key_of(&image), &mut unused)? {
                return Err(TxnError::Damaged {
                    table: *id,
                    what: "index without its row's entry",
                    found: 0,
                });
            }
        }
        Ok(true)
    }

    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        mut visit: impl FnMut(&Key, Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        let relation = self.relation(table)?;
        self.range(relation, range, &mut Visitor::Read(&mut visit))
    }

    fn update_range(
        &mut self,
        table: TableId,
        range: &KeyRange,
        mut visit: impl FnMut(&Key, &mut RowMut<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        let relation = self.relation(table)?;
        relation.table()?;
        self.range(relation, range, &mut Visitor::Write(&mut visit))
    }

    fn scan_index(
        &mut self,
        index: IndexId,
        range: &KeyRange,
        mut visit: impl FnMut(Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        let relation = self.relation(index.0)?;
        let Kind::Index { of, layout } = &relation.kind else {
            return Err(TxnError::NoSuchTable { table: index.0 });
        };
        let table = self.relation(*of)?;
        let mut rest = *range;
        let mut batch = 4;
        let mut found: Vec<Announced> = Vec::with_capacity(batch);
        loop {
            found.clear();
            let mut last = None;
            let mut gather = |key: &Key, row: Row<'_>| {
                last = Some(*key);
                found.push(Announced::read(table.id, layout.read_primary(row.bytes())));
                if found.len() < batch { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            self.range(relation, &rest, &mut Visitor::Read(&mut gather))?;
            self.announce(&found);
            for Announced { key: primary, .. } in &found {
                let mut flow = ControlFlow::Continue(());
                let mut once = |_: &Key, row: Row<'_>| {
                    flow = visit(row);
                    ControlFlow::Break(())
                };
                if !self.point(table, primary, &mut Visitor::Read(&mut once))? {
                    return Err(Conflict::Moved.into());
                }
                if flow.is_break() {
                    return Ok(());
                }
            }
            match last.and_then(|last| last.next()) {
                Some(low) if found.len() == batch => rest.low = low,
                _ => return Ok(()),
            }
            batch = (2 * batch).min(64);
        }
    }
}
