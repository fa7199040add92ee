//! A transaction on rows in shared memory, whichever host's workers run it and wherever it was loaded.
//!
//! Invariants:
//! 1. Changes are private until the commit; only the entry and the locked word of a new row exist before.
//! 2. What it was shown of a row, it was shown of one version; the whole transaction is pinned, so that no
//!    row's word or block that it has found is another's before its end.
//! 3. After a conflict the transaction is over: whatever it calls next fails.

use std::ops::ControlFlow;

use liger_fabric::{Cx, Fabric};
use liger_pod::heap::{BlockClass, WordClass};
use liger_store::bwtree::{Entries, Trace};

use super::held::{Held, Want};
use super::host::{ShmHost, full};
use super::rows::{RowAt, block_len};
use super::word::{RowWord, State};
use crate::sundial::Who;
use liger_engine::protocol::{Flow, Listed, Relational, TxnCore, Visitor, tree_error};
use liger_engine::{Access, At, Conflict, Key, KeyRange, Relation, TxnError};

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
    /// By their words.
    pub(super) held: Listed<Held>,
    /// Bytes of the rows, as they were copied.
    pub(super) bytes: Vec<u8>,
    pub(super) core: TxnCore<u32>,
    /// The earliest time at which it may commit.
    pub(super) floor: u64,
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

impl<'h, F: Fabric> ShmTxn<'h, F> {
    pub(super) fn new(cx: &'h Cx<F>, host: &'h ShmHost) -> Self {
        Self {
            cx,
            host,
            who: host.who(cx),
            held: Listed::default(),
            bytes: Vec::new(),
            core: TxnCore::new(cx, host.history()),
            floor: 0,
            entries: Entries::default(),
            trace: Trace::new(),
        }
    }

    /// Forgets the last transaction and begins another.
    pub(super) fn begin(&mut self) {
        debug_assert!(self.held.is_empty());
        self.bytes.clear();
        self.core.clear();
        self.floor = 0;
    }

    /// Shows a row that is held, with its bytes.
    fn show(
        &mut self,
        relation: &Relation,
        i: usize,
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        let Held { key, version, image, .. } = self.held[i];
        let (start, end) = image.unwrap_or_default();
        self.core.show(self.cx, (relation, i as u32), &key, (&self.bytes[start..end], version), visitor)
    }

    fn point(&mut self, at: At<'_>, key: &Key, visitor: &mut Visitor<'_>) -> Result<bool, TxnError> {
        let (cx, host) = (self.cx, self.host);
        for _ in 0..ROUNDS {
            let found = host.index(at).get(cx, &host.tree_env(), key.words());
            let Some(entry) = found.map_err(|error| tree_error(at.table(), error))? else {
                if !self.hold_absent(at, key)? {
                    continue;
                }
                self.core.note_read(at.table(), key, None);
                return Ok(false);
            };
            let want = Want::row(visitor.access(), false);
            if let Some(i) = self.hold(at, (key, RowAt::of_entry(entry)), want)? {
                if !self.held[i].is_new {
                    self.core.note_read(at.table(), key, Some(self.held[i].version));
                }
                return Ok(self.show(at.relation, i, visitor)?.is_some());
            }
            cx.pause();
        }
        Err(Conflict::Moved.into())
    }

    fn range(&mut self, at: At<'_>, range: &KeyRange, visitor: &mut Visitor<'_>) -> Flow {
        let mut found = Vec::new();
        let (mut low, mut batch, mut rounds) = (range.low, FIRST_BATCH, 0);
        let (mut entries, mut trace) = (std::mem::take(&mut self.entries), std::mem::take(&mut self.trace));
        let visited = loop {
            let rest = KeyRange { low, ..*range };
            let read = self.visit(at, &rest, batch, (&mut entries, &mut trace), &mut found, visitor);
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
        self.core.note_range(at.table(), seen, found);
        Ok(flow)
    }

    /// Visits the first rows of a range, as many as `batch` entries of the index lead to. Each is taken
    /// before it is shown, and then the index is looked at again: nobody has come before it.
    fn visit(
        &mut self,
        at: At<'_>,
        range: &KeyRange,
        batch: usize,
        (entries, trace): (&mut Entries, &mut Trace),
        found: &mut Vec<(Key, u64)>,
        visitor: &mut Visitor<'_>,
    ) -> Result<Visited, TxnError> {
        let (cx, host) = (self.cx, self.host);
        let (index, end) = (host.index(at), Key::greatest(at.relation.key_words));
        entries.clear();
        trace.clear();
        let read = index.scan(cx, &host.tree_env(), range.low.words(), None, batch, entries, trace);
        read.map_err(|error| tree_error(at.table(), error))?;
        let mut next = range.low;
        for (words, entry) in entries.iter() {
            let key = Key::from_words(words);
            let is_beyond = key == end || range.ends_before(&key);
            let want = match is_beyond {
                false => Want::row(visitor.access(), host.gaps),
                true if !host.gaps || cx.sabotaged("shm.hold-beyond-range") => return Ok(Visited::All),
                true => Want::gap(Access::Read),
            };
            let blind = host.gaps && cx.sabotaged("shm.recheck-range");
            let Some(i) = self.hold(at, (&key, RowAt::of_entry(entry)), want)? else {
                cx.pause();
                return Ok(Visited::Before(next, false));
            };
            if host.gaps && !blind && !self.is_index_as_read(at, trace) {
                return Ok(Visited::Before(next, false));
            }
            if is_beyond {
                return Ok(Visited::All);
            }
            if self.core.is_recorded() && !self.held[i].is_new {
                found.push((key, self.held[i].version));
            }
            if self.show(at.relation, i, visitor)?.is_some_and(|flow| flow.is_break()) {
                return Ok(Visited::UpTo(key));
            }
            next = key.next().expect("no row has the greatest key");
        }
        Ok(Visited::Before(next, true))
    }

    fn insert(&mut self, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<bool, TxnError> {
        let (cx, host) = (self.cx, self.host);
        let index = host.index(at);
        for _ in 0..ROUNDS {
            let locks_gap = host.gaps && !cx.sabotaged("shm.hold-behind-insert");
            let mut taken = if locks_gap { self.open_gap(at, key, Some(key))? } else { None };
            if taken.is_none() {
                if let Some(i) = self.make_place(at, key)? {
                    self.core.work.begin_insert(i as u32, at.table(), key, Some(bytes));
                    return Ok(true);
                }
                let found = index.get(cx, &host.tree_env(), key.words());
                taken = found.map_err(|error| tree_error(at.table(), error))?.map(RowAt::of_entry);
            }
            if let Some(row) = taken {
                // What it is must not change until the commit.
                if let Some(i) = self.hold(at, (key, row), Want::row(Access::Read, false))? {
                    if !self.held[i].is_new {
                        self.core.note_read(at.table(), key, Some(self.held[i].version));
                    }
                    return Ok(self.core.work.revive(i as u32, bytes));
                }
            }
            cx.pause();
        }
        Err(Conflict::Moved.into())
    }

    /// Makes the place of a new row, locked: its number; none if the key is taken.
    fn make_place(&mut self, at: At<'_>, key: &Key) -> Result<Option<usize>, TxnError> {
        let (cx, host, len) = (self.cx, self.host, block_len(at.relation.row_len));
        let word = host.heap.alloc_word(cx, WordClass::Tuple).map_err(full)?;
        let block = host.heap.alloc(cx, BlockClass::Loose, len).map_err(|error| {
            host.heap.free_word(cx, WordClass::Tuple, word);
            full(error)
        })?;
        let row = RowAt { word, block };
        let lease = RowWord::next_row(cx, cx.load(word), self.who.0);
        cx.store(word, RowWord::new(State::Uncommitted, lease).0);
        let made = host.index(at).insert(cx, &host.tree_env(), key.words(), row.entry());
        if !matches!(made, Ok(true)) {
            host.heap.free(cx, BlockClass::Loose, block, len);
            host.heap.free_word(cx, WordClass::Tuple, word);
            return made.map(|_| None).map_err(|error| tree_error(at.table(), error));
        }
        self.held.add(Held { is_new: true, ..Held::new(at, *key, row, lease, true) });
        self.floor = self.floor.max(lease.floor());
        if !host.gaps {
            // Only now: a row with this key that was removed before is seen to be.
            self.floor = self.floor.max(host.last_removal(cx, at)? + 1);
        }
        Ok(Some(self.held.len() - 1))
    }
}

impl<'h, F: Fabric> Relational for ShmTxn<'h, F> {
    type Fabric = F;
    type Host = ShmHost;
    type Location = u32;

    fn host<'a>(&self) -> &'a ShmHost
    where
        Self: 'a,
    {
        self.host
    }

    fn core(&mut self) -> (&Cx<F>, &mut TxnCore<u32>) {
        (self.cx, &mut self.core)
    }

    fn point_in(&mut self, at: At<'_>, key: &Key, visitor: &mut Visitor<'_>) -> Result<bool, TxnError> {
        self.core.go_on()?;
        let found = self.point(at, key, visitor);
        self.core.outcome(found)
    }

    fn range_in(&mut self, at: At<'_>, range: &KeyRange, visitor: &mut Visitor<'_>) -> Flow {
        self.core.go_on()?;
        let visited = self.range(at, range, visitor);
        self.core.outcome(visited)
    }

    fn insert_in(&mut self, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<bool, TxnError> {
        self.core.go_on()?;
        let inserted = self.insert(at, key, bytes);
        self.core.outcome(inserted)
    }

    fn delete_visited(&mut self, at: At<'_>, key: &Key) -> Result<(), TxnError> {
        let change = self.core.work.visited;
        debug_assert!(self.core.work.changes[change].key == *key && !self.core.work.changes[change].deleted);
        if self.host.gaps && !self.cx.sabotaged("shm.hold-behind-removal") {
            let behind = key.next().expect("no row has the greatest key");
            let opened = self.open_gap(at, &behind, None);
            self.core.outcome(opened)?;
        }
        self.core.work.changes[change].deleted = true;
        Ok(())
    }
}
