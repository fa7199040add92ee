//! What the nodes of a plan do, for `EXPLAIN ANALYZE`: rows, times, and what they do to shared memory.
//!
//! A worker's context counts what it does to shared memory. Whenever control passes from one node to another,
//! what has been counted since the last time is charged to the node that had it.
//!
//! Invariants:
//! 1. All that the statement's worker does between the begin and the end is charged to exactly one node or
//!    query, or to what is above all of them: changes of rows.
//! 2. A node and a query are known by their addresses, which are good for as long as their plan is borrowed.
//!    Behind the address of a query are further counts of it (`BODY`, `DISTINCT`, `GROUPED`).
//! 3. The time of a node is that of all below it too, and not that of those who take its rows.
//!
//! What other workers do for it (an owner that moves a row) is not counted here.
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::spill::SortMethod;
use super::store::Store;
use crate::storage::access::Traffic;

/// Rows of a query before DISTINCT, sorting and LIMIT.
pub(crate) const BODY: usize = 1;
/// Those that DISTINCT left.
pub(crate) const DISTINCT: usize = 2;
/// Groups that HAVING left.
pub(crate) const GROUPED: usize = 3;

/// Behind the address of a query, of a join or of a function over windows: how it was sorted, or hashed.
pub(crate) const SORTED: usize = 4;
/// Rows of a set operation.
pub(crate) const COMBINED: usize = 5;
/// The table of a join.
pub(crate) const TABLE: usize = 6;

/// What hash tables took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HashUse {
    /// Lists of the table that had most.
    pub(crate) buckets: u64,
    /// Tables that were filled, one after the other.
    pub(crate) batches: u64,
    /// The largest of them.
    pub(crate) memory_kb: u64,
    /// What went to files, of all of them.
    pub(crate) disk_kb: u64,
}

impl HashUse {
    /// A table was filled.
    pub(super) fn holds(&mut self, kb: u64) {
        self.batches += 1;
        self.memory_kb = self.memory_kb.max(kb);
    }

    /// Rows were left for later.
    pub(super) fn writes(&mut self, kb: u64) {
        self.disk_kb += kb;
    }
}

/// How rows were sorted or hashed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note {
    Sort(SortMethod),
    Hash(HashUse),
}

/// What a node has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// Rows that it gave.
    pub(crate) rows: u64,
    /// How often it began.
    pub(crate) loops: u64,
    /// Rows that a condition of it dropped.
    pub(crate) removed: u64,
    /// Microseconds until its first row, of all loops.
    pub(crate) first_us: i64,
    /// Microseconds in all.
    pub(crate) total_us: i64,
    /// What it did to shared memory.
    pub(crate) traffic: Traffic,
}

/// A run of a node or a query.
pub(crate) struct Run {
    own: usize,
    above: usize,
    began: i64,
    /// How long others had control in between.
    away: i64,
    gave: Option<i64>,
}

/// The address of what is above all nodes.
const TOP: usize = 0;

/// Charges what is done to nodes.
pub(crate) struct Meter {
    /// It looks at a clock.
    pub(crate) timed: bool,
    last: Cell<Traffic>,
    at: Cell<usize>,
    spent: RefCell<BTreeMap<usize, Spent>>,
    notes: RefCell<BTreeMap<usize, Note>>,
}

/// The address of a node or a query.
pub(crate) fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}

impl Meter {
    /// From now on.
    pub(crate) fn new(store: &dyn Store, timed: bool) -> Meter {
        let (last, at) = (Cell::new(store.traffic()), Cell::new(TOP));
        Meter { timed, last, at, spent: RefCell::default(), notes: RefCell::default() }
    }

    /// Charges whoever had control, and gives it to `next`; who had it.
    fn pass(&self, store: &dyn Store, next: usize) -> usize {
        let (now, before) = (store.traffic(), self.at.replace(next));
        let since = now.since(&self.last.replace(now));
        let mut spent = self.spent.borrow_mut();
        let spent = spent.entry(before).or_default();
        spent.traffic = spent.traffic.plus(&since);
        before
    }

    fn with(&self, own: usize, change: impl FnOnce(&mut Spent)) {
        change(self.spent.borrow_mut().entry(own).or_default());
    }

    /// A node or query begins.
    pub(crate) fn enter(&self, store: &dyn Store, own: usize, now: i64) -> Run {
        let above = self.pass(store, own);
        self.with(own, |spent| spent.loops += 1);
        Run { own, above, began: now, away: 0, gave: None }
    }

    /// It gives a row to who is above it.
    pub(crate) fn give(&self, store: &dyn Store, run: &mut Run, now: i64) {
        self.pass(store, run.above);
        let first = run.gave.is_none();
        self.with(run.own, |spent| {
            spent.rows += 1;
            spent.first_us += if first { now - run.began } else { 0 };
        });
        run.gave = Some(now);
    }

    /// It goes on.
    pub(crate) fn resume(&self, store: &dyn Store, run: &mut Run, now: i64) {
        self.pass(store, run.own);
        run.away += now - run.gave.unwrap_or(now);
    }

    /// It ends.
    pub(crate) fn leave(&self, store: &dyn Store, run: &Run, now: i64) {
        self.pass(store, run.above);
        self.with(run.own, |spent| spent.total_us += now - run.began - run.away);
    }

    /// A condition has dropped a row of whoever has control.
    pub(crate) fn removed(&self) {
        self.with(self.at.get(), |spent| spent.removed += 1);
    }

    /// A row has come through a part of a query.
    pub(crate) fn count(&self, part: usize) {
        self.with(part, |spent| spent.rows += 1);
    }

    /// How a part has sorted or hashed its rows, the last time.
    pub(crate) fn note(&self, part: usize, note: Note) {
        self.notes.borrow_mut().insert(part, note);
    }

    /// What was noted of a part.
    pub(crate) fn noted(&self, part: usize) -> Option<Note> {
        self.notes.borrow().get(&part).copied()
    }

    /// The statement has ended: what is above all nodes is charged with what came after the last of them.
    pub(crate) fn end(&self, store: &dyn Store) {
        self.pass(store, TOP);
    }

    /// What a node, a query or a part (`count`) of one has done.
    pub(crate) fn of(&self, (address, count): (usize, usize)) -> Spent {
        let spent = self.spent.borrow();
        let of = |at: usize| spent.get(&at).copied().unwrap_or_default();
        match count {
            0 => of(address),
            count => Spent { rows: of(address + count).rows, traffic: Traffic::default(), ..of(address) },
        }
    }

    /// What all of them, and what is above them, have done.
    pub(crate) fn total(&self) -> Traffic {
        self.spent.borrow().values().fold(Traffic::default(), |sum, spent| sum.plus(&spent.traffic))
    }
}
