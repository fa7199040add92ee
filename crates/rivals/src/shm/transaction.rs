//! A transaction on rows in shared memory, whichever host's workers run it and wherever it was loaded.
//!
//! Invariants:
//! 1. Changes are private until the commit; only the entry and the locked word of a new row exist before.
//! 2. What it was shown of a row, it was shown of one version; the whole transaction is pinned, so that no
//!    row's word or block that it has found is another's before its end.
//! 3. After a conflict the transaction is over: whatever it calls next fails.

use std::ops::ControlFlow;

use liger_fabric::{Cx, Fabric, SyncAddr, Work};
use liger_pod::heap::{BlockClass, WordClass};
use liger_pod::plan::PartitionId;
use liger_store::bwtree::{Entries, Trace};

use super::held::{Held, Want};
use super::host::{ShmHost, full};
use super::rows::{RowAt, block_len};
use super::word::{RowWord, State};
use crate::copies::CopiesRead;
use crate::sundial::Who;
use liger_engine::history::{RangeRecord, ReadRecord, TxnRecord};
use liger_engine::protocol::Places;
use liger_engine::protocol::tree_error;
use liger_engine::protocol::{InDram, Relational};
use liger_engine::protocol::{Visitor, Workspace};
use liger_engine::{Access, Announced, Conflict, TableId, TxnError};
use liger_engine::{Catalog, Relation};
use liger_engine::{Key, KeyRange};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] =
    &["shm.hold-beyond-range", "shm.recheck-range", "shm.hold-behind-insert", "shm.hold-behind-removal"];

/// How often a transaction looks again when rows come and go under its eyes, before it counts as a conflict.
pub(super) const ROUNDS: u32 = 16;
/// Entries of an index that are read at once, at first and at most.
const FIRST_BATCH: usize = 4;
const LARGEST_BATCH: usize = 64;

/// A running transaction.
pub struct ShmTxn<'h, F: Fabric> {
    pub(super) cx: &'h Cx<F>,
    pub(super) host: &'h ShmHost,
    pub(super) who: Who,
    pub(super) held: Vec<Held>,
    /// Where rows are in `held`, by their words.
    pub(super) places: Places<SyncAddr>,
    /// Bytes of the rows, as they were copied.
    pub(super) bytes: Vec<u8>,
    pub(super) work: Workspace<u32>,
    /// The earliest time at which it may commit.
    pub(super) floor: u64,
    /// It is over.
    refused: Option<TxnError>,
    pub(super) record: Option<TxnRecord>,
    copies: CopiesRead,
    entries: Entries,
    pub(super) trace: Trace,
}

/// How far a visit of a range has come.
enum Visited {
    /// To its end.
    All,
    /// Where the visitor wanted, behind this key.
    UpTo(Key),
    /// It goes on from this key, which was reached in good order (or not: the index has changed).
    Before(Key, bool),
}

fn access_of(visitor: &Visitor<'_>) -> Access {
    match visitor {
        Visitor::Read(_) => Access::Read,
        Visitor::Write(_) => Access::Update,
    }
}

impl<'h, F: Fabric> ShmTxn<'h, F> {
    pub(super) fn new(cx: &'h Cx<F>, host: &'h ShmHost) -> Self {
        let record = host.history.is_some().then(|| TxnRecord::new(cx.host(), cx.worker()));
        Self {
            cx,
            host,
            who: host.who(cx),
            held: Vec::new(),
            places: Places::default(),
            bytes: Vec::new(),
            work: Workspace::default(),
            floor: 0,
            refused: None,
            record,
            copies: CopiesRead::default(),
            entries: Entries::default(),
            trace: Trace::new(),
        }
    }

    /// Forgets the last transaction and begins another.
    pub(super) fn begin(&mut self) {
        debug_assert!(self.held.is_empty());
        self.bytes.clear();
        self.work.clear();
        self.floor = 0;
        self.refused = None;
        self.copies.clear();
        if let Some(record) = &mut self.record {
            record.clear();
        }
    }

    pub(super) fn go_on(&self) -> Result<(), TxnError> {
        self.refused.map_or(Ok(()), Err)
    }

    /// Remembers a conflict.
    fn note<R>(&mut self, result: Result<R, TxnError>) -> Result<R, TxnError> {
        if let Err(error @ TxnError::Conflict(_)) = &result {
            self.refused = Some(*error);
        }
        result
    }

    fn note_read(&mut self, table: TableId, key: &Key, version: Option<u64>) {
        if let Some(record) = &mut self.record {
            record.reads.push(ReadRecord { table, key: *key, version });
        }
    }

    /// Shows a row that is held, with its bytes.
    fn show(
        &mut self,
        relation: &Relation,
        i: usize,
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        self.cx.spend(Work::DramLine, 2);
        let Held { key, version, image, .. } = self.held[i];
        let (start, end) = image.unwrap_or_default();
        self.work.show(relation, i as u32, &key, &self.bytes[start..end], version, visitor)
    }

    fn point(
        &mut self,
        place: (&Relation, PartitionId),
        key: &Key,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        let (cx, host, (relation, partition)) = (self.cx, self.host, place);
        for _ in 0..ROUNDS {
            let found = host.index(relation, partition).get(cx, &host.tree_env(), key.words());
            let Some(entry) = found.map_err(|error| tree_error(relation.id, error))? else {
                if !self.hold_absent(place, key)? {
                    continue;
                }
                self.note_read(relation.id, key, None);
                return Ok(false);
            };
            let want = Want::row(access_of(visitor), false);
            if let Some(i) = self.hold(place, (key, RowAt::of_entry(entry)), want)? {
                if !self.held[i].is_new {
                    self.note_read(relation.id, key, Some(self.held[i].version));
                }
                return Ok(self.show(relation, i, visitor)?.is_some());
            }
            cx.pause();
        }
        Err(Conflict::Moved.into())
    }

    fn range(
        &mut self,
        place: (&Relation, PartitionId),
        range: &KeyRange,
        visitor: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, TxnError> {
        let mut found = Vec::new();
        let (mut low, mut batch, mut rounds) = (range.low, FIRST_BATCH, 0);
        let (mut entries, mut trace) = (std::mem::take(&mut self.entries), std::mem::take(&mut self.trace));
        let visited = loop {
            let rest = KeyRange { low, ..*range };
            let read = self.visit(place, &rest, batch, (&mut entries, &mut trace), &mut found, visitor);
            match read {
                Ok(Visited::Before(_, false)) if rounds == ROUNDS => break Err(Conflict::Gap.into()),
                Ok(Visited::Before(key, orderly)) => {
                    low = key;
                    rounds += u32::from(!orderly);
                    batch = (2 * batch).min(LARGEST_BATCH);
                }
                ended => break ended,
            }
        };
        (self.entries, self.trace) = (entries, trace);
        let (seen, flow) = match visited? {
            Visited::UpTo(key) => (KeyRange { high: key.next(), ..*range }, ControlFlow::Break(())),
            _ => (*range, ControlFlow::Continue(())),
        };
        if let Some(record) = &mut self.record {
            record.ranges.push(RangeRecord { table: place.0.id, range: seen, found });
        }
        Ok(flow)
    }

    /// Visits the first rows of a range, as many as `batch` entries of the index lead to. Each is taken
    /// before it is shown, and then the index is looked at again: nobody has come before it.
    fn visit(
        &mut self,
        place: (&Relation, PartitionId),
        range: &KeyRange,
        batch: usize,
        (entries, trace): (&mut Entries, &mut Trace),
        found: &mut Vec<(Key, u64)>,
        visitor: &mut Visitor<'_>,
    ) -> Result<Visited, TxnError> {
        let (cx, host, (relation, partition)) = (self.cx, self.host, place);
        let (index, end) = (host.index(relation, partition), Key::greatest(relation.key_words));
        entries.clear();
        trace.clear();
        let read = index.scan(cx, &host.tree_env(), range.low.words(), None, batch, entries, trace);
        read.map_err(|error| tree_error(relation.id, error))?;
        let mut next = range.low;
        for (words, entry) in entries.iter() {
            let key = Key::from_words(words);
            let is_beyond = key == end || range.ends_before(&key);
            let want = match is_beyond {
                false => Want::row(access_of(visitor), host.gaps),
                true if !host.gaps || cx.sabotaged("shm.hold-beyond-range") => return Ok(Visited::All),
                true => Want::gap(Access::Read),
            };
            let blind = host.gaps && cx.sabotaged("shm.recheck-range");
            let Some(i) = self.hold(place, (&key, RowAt::of_entry(entry)), want)? else {
                cx.pause();
                return Ok(Visited::Before(next, false));
            };
            if host.gaps && !blind && !self.is_index_as_read(place, trace) {
                return Ok(Visited::Before(next, false));
            }
            if is_beyond {
                return Ok(Visited::All);
            }
            if self.record.is_some() && !self.held[i].is_new {
                found.push((key, self.held[i].version));
            }
            if self.show(relation, i, visitor)?.is_some_and(|flow| flow.is_break()) {
                return Ok(Visited::UpTo(key));
            }
            next = key.next().expect("no row has the greatest key");
        }
        Ok(Visited::Before(next, true))
    }

    fn insert(&mut self, place: (&Relation, PartitionId), key: &Key, bytes: &[u8]) -> Result<bool, TxnError> {
        let (cx, host, (relation, partition)) = (self.cx, self.host, place);
        let index = host.index(relation, partition);
        for _ in 0..ROUNDS {
            let locks_gap = host.gaps && !cx.sabotaged("shm.hold-behind-insert");
            let mut taken = if locks_gap { self.open_gap(place, key, Some(key))? } else { None };
            if taken.is_none() {
                if let Some(i) = self.make_place(place, key)? {
                    self.work.begin_insert(i as u32, relation.id, key, Some(bytes));
                    return Ok(true);
                }
                let found = index.get(cx, &host.tree_env(), key.words());
                taken = found.map_err(|error| tree_error(relation.id, error))?.map(RowAt::of_entry);
            }
            if let Some(at) = taken {
                // What it is must not change until the commit.
                if let Some(i) = self.hold(place, (key, at), Want::row(Access::Read, false))? {
                    if !self.held[i].is_new {
                        self.note_read(relation.id, key, Some(self.held[i].version));
                    }
                    return Ok(self.work.revive(i as u32, bytes));
                }
            }
            cx.pause();
        }
        Err(Conflict::Moved.into())
    }

    /// Makes the place of a new row, locked: its number; none if the key is taken.
    fn make_place(
        &mut self,
        (relation, partition): (&Relation, PartitionId),
        key: &Key,
    ) -> Result<Option<usize>, TxnError> {
        let (cx, host, len) = (self.cx, self.host, block_len(relation.row_len));
        let word = host.heap.alloc_word(cx, WordClass::Tuple).map_err(full)?;
        let block = host.heap.alloc(cx, BlockClass::Loose, len).map_err(|error| {
            host.heap.free_word(cx, WordClass::Tuple, word);
            full(error)
        })?;
        let at = RowAt { word, block };
        let lease = RowWord::next_life(cx, cx.load(word), self.who.0);
        cx.store(word, RowWord::new(State::Unborn, lease).0);
        let made = host.index(relation, partition).insert(cx, &host.tree_env(), key.words(), at.entry());
        if !matches!(made, Ok(true)) {
            host.heap.free(cx, BlockClass::Loose, block, len);
            host.heap.free_word(cx, WordClass::Tuple, word);
            return made.map(|_| None).map_err(|error| tree_error(relation.id, error));
        }
        self.add(Held {
            table: relation.id,
            partition,
            key: *key,
            at,
            lease,
            locked: true,
            version: 0,
            image: None,
            opens_gap: false,
            is_new: true,
            doomed: false,
        });
        self.floor = self.floor.max(lease.floor());
        if !host.gaps {
            // Only now: a row with this key that was removed before is seen to be.
            self.floor = self.floor.max(host.last_removal(cx, relation, partition)? + 1);
        }
        Ok(Some(self.held.len() - 1))
    }
}

impl<F: Fabric> Relational for ShmTxn<'_, F> {
    fn catalog<'a>(&self) -> &'a Catalog
    where
        Self: 'a,
    {
        &self.host.catalog
    }

    fn partitions(&self) -> u16 {
        self.host.partition_count()
    }

    /// There is nobody to ask for them.
    fn announce_rows(&mut self, _rows: &[Announced]) {}

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
        self.go_on()?;
        let found = self.point((relation, partition), key, visitor);
        self.note(found)
    }

    fn range_in(
        &mut self,
        relation: &Relation,
        partition: PartitionId,
        range: &KeyRange,
        visitor: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, TxnError> {
        self.go_on()?;
        let visited = self.range((relation, partition), range, visitor);
        self.note(visited)
    }

    fn insert_in(
        &mut self,
        relation: &Relation,
        partition: PartitionId,
        key: &Key,
        bytes: &[u8],
    ) -> Result<bool, TxnError> {
        self.go_on()?;
        let inserted = self.insert((relation, partition), key, bytes);
        self.note(inserted)
    }

    fn doom_visited(
        &mut self,
        relation: &Relation,
        partition: PartitionId,
        key: &Key,
    ) -> Result<(), TxnError> {
        let change = self.work.changes.visited;
        debug_assert!(self.work.changes[change].key == *key && !self.work.changes[change].doomed);
        if self.host.gaps && !self.cx.sabotaged("shm.hold-behind-removal") {
            let behind = key.next().expect("no row has the greatest key");
            let opened = self.open_gap((relation, partition), &behind, None);
            self.note(opened)?;
        }
        self.work.changes[change].doomed = true;
        Ok(())
    }
}
