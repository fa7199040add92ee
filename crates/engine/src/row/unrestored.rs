//! Partitions whose rows are not all in DRAM yet: after a restart, a span of keys is made from its block of
//! the image and the log's changes when somebody wants a key of it, and all others one after the other
//! (docs/restart.md).
//!
//! A table's share of a partition is *unrestored* as long as a span of it is. Every step that decides by what
//! is in the tree is preceded, under the same hold of the latch, by the question whether what it looks at is
//! *restored*:
//!
//! ```text
//! latch; is every key between the neighbours of the key in a restored span?   yes: go on, still latched
//!    no: unlatch; read the block, make the rows; latch; put them if the span is still unrestored; ask again
//! ```
//!
//! Invariants:
//! 1. Of an unrestored span the tree has only rows that were in shared memory when the partition came here
//!    (takeover.rs). They are newer than what is made of their keys, and it is remembered which of them were
//!    removed: so a key that is found is what it is, and rows that were deleted do not come back. A restored
//!    span never becomes unrestored again.
//! 2. Neighbours are neighbours only if no unrestored span lies between them. Absent keys, gaps and ranges
//!    are locked, rows are created, and neighbour bits are set, only where that is so.
//! 3. No latch is held while files are read. Several workers may make the same span; the first one puts it.
//! 4. A span that cannot be made is an error for whoever wants it, each time, and is shown in
//!    [`Host::faults`](crate::host::Host::faults); nothing is left out, and the host takes no checkpoint.
//!
//! Not here: spans and what they are made from (recovery/stored.rs), and who makes those that nobody asks for
//! (recovery/checkpointer.rs).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use liger_fabric::{Cx, Fabric, Latch, LatchGuard};
use liger_pod::plan::PartitionId;
use liger_store::local::Neighbors;

use super::load::add;
use super::partition::TablePart;
use super::rows::Rows;
use crate::instance::PodEvent;
use crate::recovery::{RecoveryError, RestoreStep, Stored};
use crate::tables::key::Key;
use crate::txn::{TableId, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "restore.neighbours",
    "restore.ranges",
    "restore.put-only-if-missing",
    "restore.leave-what-is-shared",
    "restore.leave-what-was-removed",
];

/// What a table's share of a partition lacks.
pub struct Unrestored {
    stored: Arc<Stored>,
    table: TableId,
    /// By span.
    is_missing: Vec<bool>,
    left: usize,
    /// Keys whose rows were removed while their spans were unrestored.
    removed: BTreeSet<Key>,
}

/// A span that somebody wants.
struct Wanted {
    stored: Arc<Stored>,
    span: usize,
}

/// Where a span is: partition, table and number.
type SpanId = (PartitionId, TableId, usize);

/// What a host has still to make of its rows.
#[derive(Default)]
pub(super) struct Restoring {
    /// Tables' shares that are unrestored.
    shares: AtomicU64,
    total_bytes: AtomicU64,
    made_bytes: AtomicU64,
    /// Where whoever makes the spans that nobody wants goes on.
    next: Latch<SpanId>,
    /// Partitions that were taken over, until somebody has waited for rows of one of them; it is looked at
    /// if there are any.
    expected: Latch<BTreeSet<PartitionId>>,
    is_expecting: AtomicBool,
    /// Spans that could not be made, and why.
    failed: Latch<BTreeMap<SpanId, RecoveryError>>,
}

/// How far a restart has come in making rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// Bytes of images whose rows are in partitions.
    pub bytes: u64,
    /// Bytes of all of them.
    pub of_bytes: u64,
    /// Spans that could not be made.
    pub failed: u64,
}

impl Unrestored {
    fn new(stored: &Arc<Stored>, table: TableId) -> Self {
        let left = stored.spans(table);
        let removed = BTreeSet::new();
        Self { stored: Arc::clone(stored), table, is_missing: vec![true; left], left, removed }
    }

    /// The first unrestored span from one to another.
    fn between(&self, from: usize, to: usize) -> Option<usize> {
        debug_assert!(
            from <= to && to < self.is_missing.len(),
            "spans {from} to {to} of {}",
            self.is_missing.len()
        );
        self.is_missing[from..=to].iter().position(|unrestored| *unrestored).map(|at| from + at)
    }

    fn span_of(&self, key: &Key) -> usize {
        self.stored.span_of(self.table, key)
    }

    fn wanted(&self, span: usize) -> Wanted {
        Wanted { stored: Arc::clone(&self.stored), span }
    }
}

impl TablePart {
    /// True if all rows of it are here.
    #[inline]
    pub fn is_restored(&self) -> bool {
        self.unrestored.is_none()
    }

    /// The first unrestored span that a key between these two may be in; `None` stands for the ends.
    fn unrestored_between(&self, low: Option<&Key>, high: Option<&Key>) -> Option<usize> {
        let unrestored = self.unrestored.as_ref()?;
        let from = low.map_or(0, |key| unrestored.span_of(key));
        unrestored.between(from, high.map_or(unrestored.is_missing.len() - 1, |key| unrestored.span_of(key)))
    }

    /// The keys of the rows before and behind `key`, which need not be neighbours.
    fn keys_around(&self, key: &Key) -> (Option<Key>, Option<Key>) {
        let key_of = |cursor| Key::from_words(self.tree.entry(cursor).0);
        let behind = match key.next() {
            Some(next) => self.tree.lower_bound(next.words()),
            None => None,
        };
        (self.tree.last_below(key.words()).map(key_of), behind.map(key_of))
    }

    /// True if no row that is not here yet can come between `key` and the row before it.
    pub fn is_restored_below(&self, key: &Key) -> bool {
        self.is_restored() || self.unrestored_between(self.keys_around(key).0.as_ref(), Some(key)).is_none()
    }

    /// True if no row that is not here yet can come between `key` and the row behind it.
    pub fn is_restored_above(&self, key: &Key) -> bool {
        self.is_restored() || self.unrestored_between(Some(key), self.keys_around(key).1.as_ref()).is_none()
    }

    /// The span to make before anything is decided by `key` or its absence.
    fn wanted_for<F: Fabric>(&self, cx: &Cx<F>, key: &Key) -> Option<Wanted> {
        let unrestored = self.unrestored.as_ref()?;
        if self.tree.get(key.words()).is_some() {
            return None;
        }
        let own = unrestored.span_of(key);
        if unrestored.is_missing[own] {
            return Some(unrestored.wanted(own));
        }
        if cx.sabotaged("restore.neighbours") {
            return None;
        }
        let (low, high) = self.keys_around(key);
        self.unrestored_between(low.as_ref(), high.as_ref()).map(|span| unrestored.wanted(span))
    }

    /// The span of a key, if it is missing.
    fn missing_span_of(&self, key: &Key) -> Option<Wanted> {
        let unrestored = self.unrestored.as_ref()?;
        let own = unrestored.span_of(key);
        unrestored.is_missing[own].then(|| unrestored.wanted(own))
    }

    /// A row with this key has been removed: it is not to be made from what was there before.
    pub fn note_removed(&mut self, key: &Key) {
        debug_assert!(self.tree.get(key.words()).is_none(), "it is gone");
        let Some(unrestored) = &mut self.unrestored else { return };
        if unrestored.is_missing[unrestored.span_of(key)] {
            unrestored.removed.insert(*key);
        }
    }

    /// True if what is made of this key of an unrestored span, which is at this place, is older than what
    /// became of its row here.
    fn is_outdated<F: Fabric>(&self, cx: &Cx<F>, key: &Key, near: &Neighbors) -> bool {
        let was_removed = self.unrestored.as_ref().is_some_and(|it| it.removed.contains(key));
        let is_shared = near.found.is_some();
        is_shared && !cx.sabotaged("restore.leave-what-is-shared")
            || was_removed && !cx.sabotaged("restore.leave-what-was-removed")
    }

    /// The first key from `low` (`None`: the least one) to `high` (`None`: the end) whose row may be missing
    /// here.
    #[inline]
    pub fn first_unrestored_key(&self, low: Option<&Key>, high: Option<&Key>) -> Option<Key> {
        if self.is_restored() {
            return None;
        }
        let span = self.unrestored_between(low, high)?;
        let unrestored = self.unrestored.as_ref().expect("it has an unrestored span");
        let first = unrestored.stored.first_key(unrestored.table, span);
        let least = Key::zero(self.key_words);
        Some(*first.into_iter().chain(low).max().unwrap_or(&least))
    }
}

impl Rows {
    /// Marks a partition of this host as unrestored: it is empty, and nobody uses it.
    ///
    /// # Panics
    /// If it is not empty.
    pub(super) fn mark_partition_unrestored<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        stored: &Arc<Stored>,
    ) {
        for table in self.relations().map(|relation| relation.id) {
            let mut part = self.part(cx, (partition, table));
            assert!(part.tree.is_empty() && part.is_restored(), "rows go into an empty partition");
            let unrestored = Unrestored::new(stored, table);
            let bytes: u64 = (0..unrestored.left).map(|span| stored.span_bytes(table, span)).sum();
            self.restoring.total_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.restoring.shares.fetch_add(1, Ordering::Relaxed);
            part.unrestored = Some(Box::new(unrestored));
        }
    }

    /// True if every row of this host's partitions is in them.
    #[inline]
    pub(super) fn is_all_restored(&self) -> bool {
        self.restoring.shares.load(Ordering::Acquire) == 0
    }

    /// Makes something of what is left, in order; what could not be made is tried again after all else.
    pub(super) fn restore_next<F: Fabric>(&self, cx: &Cx<F>) -> Result<RestoreStep, RecoveryError> {
        if self.is_all_restored() {
            return Ok(RestoreStep::Whole);
        }
        let from = *self.restoring.next.lock(cx);
        let Some((place, wanted)) = self.next_unrestored(cx, from, |partition| self.holds(partition)) else {
            *self.restoring.next.lock(cx) = SpanId::default();
            // Partitions may have come meanwhile, before the place where it was.
            let is_stuck = !self.restoring.failed.lock(cx).is_empty();
            return Ok(if is_stuck { RestoreStep::Stuck } else { RestoreStep::Worked });
        };
        let (partition, table, span) = place;
        *self.restoring.next.lock(cx) = (partition, table, span + 1);
        self.make_span(cx, (partition, table), &wanted)?;
        Ok(RestoreStep::Worked)
    }
}

impl Rows {
    /// A partition of this host, latched, in which all that is decided by this key is restored: the key, and
    /// if it is absent, everything between the rows around it.
    ///
    /// # Errors
    /// If rows cannot be made.
    #[inline]
    pub(super) fn restore_around<F: Fabric>(
        &self,
        cx: &Cx<F>,
        place: (PartitionId, TableId),
        key: &Key,
    ) -> Result<LatchGuard<'_, TablePart>, TxnError> {
        let latched = self.part(cx, place);
        if latched.is_restored() { Ok(latched) } else { self.restore_wanted(cx, latched, place, key) }
    }

    #[cold]
    fn restore_wanted<'h, F: Fabric>(
        &'h self,
        cx: &Cx<F>,
        mut latched: LatchGuard<'h, TablePart>,
        place: (PartitionId, TableId),
        key: &Key,
    ) -> Result<LatchGuard<'h, TablePart>, TxnError> {
        loop {
            let Some(wanted) = latched.wanted_for(cx, key) else { return Ok(latched) };
            drop(latched);
            self.make_span(cx, place, &wanted).map_err(|why| why.of_rows(place.1))?;
            self.tell_of_first(cx, place.0);
            latched = self.part(cx, place);
        }
    }

    /// Makes the span that a key belongs to, also if the key itself is here: for who goes through a range,
    /// and looks then what else is missing.
    ///
    /// # Errors
    /// If rows cannot be made.
    pub(super) fn restore_key<F: Fabric>(
        &self,
        cx: &Cx<F>,
        place: (PartitionId, TableId),
        key: &Key,
    ) -> Result<(), TxnError> {
        loop {
            let Some(wanted) = self.part(cx, place).missing_span_of(key) else { return Ok(()) };
            self.make_span(cx, place, &wanted).map_err(|why| why.of_rows(place.1))?;
            self.tell_of_first(cx, place.0);
        }
    }

    /// A partition that was taken over is about to open: the first rows that somebody waits for are told of.
    pub(super) fn expect_first<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        debug_assert!(self.holds(partition), "it is this host's, or about to be");
        self.restoring.expected.lock(cx).insert(partition);
        self.restoring.is_expecting.store(true, Ordering::Release);
    }

    /// Nobody is to hear of rows of this partition: it is another host's.
    pub(super) fn expect_none<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        self.restoring.expected.lock(cx).remove(&partition);
    }

    /// Somebody waited for rows of this partition, and they are there.
    fn tell_of_first<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) {
        let Restoring { expected, is_expecting, .. } = &self.restoring;
        if !is_expecting.load(Ordering::Acquire) {
            return;
        }
        let mut expected = expected.lock(cx);
        debug_assert!(expected.iter().all(|it| self.holds(*it)), "they came to this host");
        if !expected.contains(&partition) {
            return;
        }
        expected.clear();
        is_expecting.store(false, Ordering::Release);
        drop(expected);
        self.announce(&PodEvent::FirstRow { partition });
    }

    /// Makes one span, and puts its rows if nobody else has.
    fn make_span<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (partition, table): (PartitionId, TableId),
        wanted: &Wanted,
    ) -> Result<(), RecoveryError> {
        let Wanted { stored, span } = wanted;
        let (mut rows, mut bytes) = (Vec::new(), Vec::new());
        let made = stored.make(cx, &self.catalog, (table, *span), |row| {
            rows.push((row.key, row.version));
            bytes.extend_from_slice(row.bytes);
            Ok(())
        });
        let place = (partition, table, *span);
        if let Err(why) = made {
            self.restoring.failed.lock(cx).insert(place, why.clone());
            return Err(why);
        }
        let mut part = self.part(cx, (partition, table));
        // Another worker may have been faster, and transactions may have changed its rows since.
        let is_missing =
            part.unrestored.as_ref().is_some_and(|c| Arc::ptr_eq(&c.stored, stored) && c.is_missing[*span]);
        if !is_missing && !cx.sabotaged("restore.put-only-if-missing") {
            return Ok(());
        }
        let relation = &self.catalog.relations()[table.index()];
        for ((key, version), row) in rows.iter().zip(bytes.chunks_exact(relation.row_len)) {
            let near = part.tree.neighbors(key.words());
            if !part.is_outdated(cx, key, &near) {
                add(&mut part, relation, (key, &near), *version, row)?;
            }
        }
        let Some(unrestored) = &mut part.unrestored else { return Ok(()) };
        debug_assert!(unrestored.left > 0, "a span that is unrestored counts");
        unrestored.is_missing[*span] = false;
        unrestored.left -= 1;
        self.restoring.made_bytes.fetch_add(stored.span_bytes(table, *span), Ordering::Relaxed);
        let share_is_whole = unrestored.left == 0;
        if share_is_whole {
            part.unrestored = None;
        }
        let is_whole = share_is_whole && self.restoring.shares.fetch_sub(1, Ordering::Release) == 1;
        drop(part);
        if is_whole {
            let bytes = self.restoring.made_bytes.load(Ordering::Relaxed);
            self.announce(&PodEvent::AllRows { bytes });
        }
        let mut failed = self.restoring.failed.lock(cx);
        failed.remove(&place);
        Ok(())
    }

    /// Takes a share that is made anew out of the account.
    pub(super) fn forget_unrestored<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (partition, table): (PartitionId, TableId),
        part: &TablePart,
    ) {
        self.restoring.failed.lock(cx).retain(|place, _| (place.0, place.1) != (partition, table));
        if let Some(unrestored) = &part.unrestored {
            let left = unrestored.is_missing.iter().enumerate().filter(|(_, is_missing)| **is_missing);
            let bytes: u64 = left.map(|(span, _)| unrestored.stored.span_bytes(unrestored.table, span)).sum();
            self.restoring.total_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.restoring.shares.fetch_sub(1, Ordering::Release);
        }
    }

    /// How far a restart has come in making rows; `None` if there is nothing to make.
    pub fn restored<F: Fabric>(&self, cx: &Cx<F>) -> Option<Restored> {
        if self.is_all_restored() {
            return None;
        }
        let Restoring { total_bytes, made_bytes, failed, .. } = &self.restoring;
        let bytes = made_bytes.load(Ordering::Relaxed);
        let failed = failed.lock(cx).len() as u64;
        Some(Restored { bytes, of_bytes: total_bytes.load(Ordering::Relaxed), failed })
    }

    /// What could not be made, in words.
    pub(super) fn restore_failures<F: Fabric>(&self, cx: &Cx<F>) -> Vec<String> {
        let failed = self.restoring.failed.lock(cx);
        let told = |((partition, table, _), why): (&SpanId, &RecoveryError)| {
            format!("cannot restore rows of table {table}, partition {partition}: {why}")
        };
        failed.iter().map(told).collect()
    }

    /// Makes everything that is left of this host's partitions; `poll` is called in between.
    ///
    /// # Errors
    /// What cannot be made, when everything else is.
    pub(super) fn restore_rest<F: Fabric>(
        &self,
        cx: &Cx<F>,
        poll: impl FnMut(),
    ) -> Result<(), RecoveryError> {
        if self.is_all_restored() {
            Ok(())
        } else {
            self.restore_those(cx, |partition| self.holds(partition), poll)
        }
    }

    /// As [`Rows::restore_rest`], some partitions.
    pub(crate) fn restore_those<F: Fabric>(
        &self,
        cx: &Cx<F>,
        those: impl Fn(PartitionId) -> bool,
        mut poll: impl FnMut(),
    ) -> Result<(), RecoveryError> {
        let (mut from, mut failed) = (SpanId::default(), None);
        while let Some((place, wanted)) = self.next_unrestored(cx, from, &those) {
            let (partition, table, span) = place;
            if let Err(why) = self.make_span(cx, (partition, table), &wanted) {
                failed.get_or_insert(why);
            }
            from = (partition, table, span + 1);
            poll();
        }
        failed.map_or(Ok(()), Err)
    }

    /// The first unrestored span from a place on, in some partitions.
    fn next_unrestored<F: Fabric>(
        &self,
        cx: &Cx<F>,
        from: SpanId,
        those: impl Fn(PartitionId) -> bool,
    ) -> Option<(SpanId, Wanted)> {
        for partition in self.plan.partitions().skip(from.0.index()).filter(|p| those(*p)) {
            for table in self.relations().map(|relation| relation.id) {
                let part = self.part(cx, (partition, table));
                let Some(unrestored) = &part.unrestored else { continue };
                let first = match (partition, table).cmp(&(from.0, from.1)) {
                    std::cmp::Ordering::Less => continue,
                    std::cmp::Ordering::Equal => from.2,
                    std::cmp::Ordering::Greater => 0,
                };
                let last = unrestored.is_missing.len() - 1;
                if let Some(span) = (first <= last).then(|| unrestored.between(first, last)).flatten() {
                    return Some(((partition, table, span), unrestored.wanted(span)));
                }
            }
        }
        None
    }
}
