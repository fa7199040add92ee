//! A transaction's work on rows of this host.
//!
//! Invariants:
//! 1. Each step runs under one hold of the share's latch, so for the workers of this host it is atomic.
//! 2. A row that is not shared costs no access to shared memory.
//! 3. An absent key and the end of a range are protected by the gap of the next row (the sentinel at the
//!    end), unless gaps are not locked (`Policies::next_key_locking`).

use std::ops::ControlFlow;

use liger_fabric::Fabric;
use liger_pod::plan::PartitionId;
use liger_store::local::RowFlags;

use super::moves::sentinel_key;
use super::partition::{Mode, RowId, TablePart};
use super::work::{Spot, Work, own_place};
use crate::catalog::{At, Relation};
use crate::method::RowLocation;
use crate::protocol::failure::tree_error;
use crate::protocol::relational::Flow;
use crate::protocol::workspace::Visitor;
use crate::tables::key::{Key, KeyRange};
use crate::txn::{TableId, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] =
    &["own.lock-gap-of-absent-key", "own.lock-beyond-range", "own.check-gap-on-insert", "own.inherit-gap"];

/// How far a visit of a range has come.
struct Walk {
    /// It goes on with this key.
    from: Key,
    /// Keys and versions of the rows it saw.
    found: Vec<(Key, u64)>,
    /// What it has seen when it ends.
    seen: KeyRange,
}

/// Where a part of a visit ended.
enum Walked {
    /// The visit has ended.
    To(ControlFlow<()>),
    /// The row with this key may not be here yet.
    Unrestored(Key),
}

impl<F: Fabric> Work<'_, '_, F> {
    /// Locks a row for this transaction and remembers it; how it had the row before. Of its key it is said
    /// that no other row has one between that and `near`.
    fn hold(
        &mut self,
        part: &mut TablePart,
        place: (PartitionId, TableId),
        (near, row): (&Key, RowId),
        mode: Mode,
        gap: bool,
    ) -> Result<Option<Mode>, TxnError> {
        if !self.host.policies.shortcuts {
            self.search_word(part, place.1, (near, row))?;
        }
        let locked = part.lock(self.cx, self.host.shared, row, self.state.me, mode, gap);
        if let Err(why) = &locked {
            self.state.in_the_way = part.others_at(row, self.state.me);
            self.host.heed(self.cx, part, row, why);
            self.wants(place, &part.key_at_or_behind(near));
        }
        let before = locked?;
        debug_assert!(!part.is_unheld(row), "it is held now");
        if before.is_none() {
            self.mine.held.push(own_place(place, row));
        }
        Ok(before)
    }

    /// Finds a shared row in the shared index: what is kept with the row says only that it
    /// is shared.
    fn search_word(
        &self,
        part: &mut TablePart,
        table: TableId,
        (near, row): (&Key, RowId),
    ) -> Result<(), TxnError> {
        if part.address(row).is_none() || !part.is_unheld(row) {
            return Ok(());
        }
        let at_row = part.tree.lower_bound(near.words()).filter(|_| row != part.sentinel);
        let key = at_row.map(|cursor| Key::from_words(part.tree.entry(cursor).0));
        let key = key.unwrap_or_else(|| sentinel_key(part.key_words));
        let found = part.index.get(self.cx, &self.host.tree_env(), key.words());
        let word = found.map_err(|broken| tree_error(table, broken))?;
        let what = "shared index without a shared row";
        part.rows.set_shared(row, word.ok_or(TxnError::Damaged { table, what, found: 0 })?);
        Ok(())
    }

    /// See `Transacts::point`.
    pub(super) fn point_own(
        &mut self,
        at: At<'_>,
        key: &Key,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        let host = self.host;
        let mut latched = host.restore_around(self.cx, at.ids(), key)?;
        let part = &mut *latched;
        let found = match self.state.core.work.at_hand(at.table(), key).map(Spot::of) {
            Some(Spot::Own { row, .. }) => Some(row),
            _ => part.find(self.cx, key),
        };
        let Some(row) = found else {
            if host.policies.next_key_locking && !self.cx.sabotaged("own.lock-gap-of-absent-key") {
                let (_, next) = part.neighbours(self.cx, key);
                self.hold(part, at.ids(), (key, next), Mode::Read, true)?;
            }
            self.state.note_read(at.table(), key, None);
            return Ok(false);
        };
        self.hold_and_show(at, part, (key, row), visitor)
    }

    /// Locks a row that is there, without its gap, and shows it; false if this transaction has deleted it.
    pub(super) fn hold_and_show(
        &mut self,
        at: At<'_>,
        part: &mut TablePart,
        (key, row): (&Key, RowId),
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        let before = self.hold(part, at.ids(), (key, row), visitor.mode(), false)?;
        let version = part.rows.version(row);
        if before.is_none() {
            self.state.note_read(at.table(), key, Some(version));
        }
        let place = (at.relation, own_place(at.ids(), row));
        Ok(self.show_own(before, place, key, (part.rows.bytes(row), version), visitor)?.is_some())
    }

    /// Shows a row of this host that is locked, and how it was held before: what is changed is held for that.
    fn show_own(
        &mut self,
        before: Option<Mode>,
        row: (&Relation, RowLocation),
        key: &Key,
        base: (&[u8], u64),
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        match before {
            Some(Mode::Write) => self.state.show(self.cx, row, key, base, visitor),
            None | Some(Mode::Read) => self.state.show_first(self.cx, row, key, base, visitor),
        }
    }

    /// Visits a range of one partition of this host.
    pub(super) fn range_own(&mut self, at: At<'_>, range: &KeyRange, visitor: &mut Visitor<'_>) -> Flow {
        let mut walk = Walk { from: range.low, found: Vec::new(), seen: *range };
        let flow = loop {
            match self.retry(|txn| txn.walk_own(at, &mut walk, visitor))? {
                Walked::To(flow) => break flow,
                // Up to there all that it saw is locked, as if it went on.
                Walked::Unrestored(key) => self.host.restore_key(self.cx, at.ids(), &key)?,
            }
        };
        self.state.note_range(at.table(), walk.seen, walk.found);
        Ok(flow)
    }

    /// Visits what is left of a range, until a row may be missing.
    fn walk_own(
        &mut self,
        at: At<'_>,
        walk: &mut Walk,
        visitor: &mut Visitor<'_>,
    ) -> Result<Walked, TxnError> {
        let host = self.host;
        let mut latched = host.part(self.cx, at.ids());
        let part = &mut *latched;
        let gaps = host.policies.next_key_locking;
        self.cx.spend(liger_fabric::Work::IndexNode, part.height());
        let mut next_at = part.tree.lower_bound(walk.from.words());
        loop {
            let entry = next_at.map(|cursor| part.tree.entry(cursor));
            let next = entry.map(|(words, row)| (Key::from_words(words), row));
            let unrestored = part.first_unrestored_key(Some(&walk.from), next.as_ref().map(|(key, _)| key));
            if let Some(unrestored) = unrestored.filter(|_| !self.cx.sabotaged("restore.ranges")) {
                return Ok(Walked::Unrestored(unrestored));
            }
            let Some((key, row)) = next.filter(|(key, _)| !walk.seen.ends_before(key)) else {
                if gaps && !self.cx.sabotaged("own.lock-beyond-range") {
                    let (near, beyond) = next.unwrap_or((walk.from, part.sentinel));
                    self.hold(part, at.ids(), (&near, beyond), Mode::Read, true)?;
                }
                return Ok(Walked::To(ControlFlow::Continue(())));
            };
            debug_assert!(key >= walk.from, "it goes on behind what it has seen");
            let before = self.hold(part, at.ids(), (&key, row), visitor.mode(), gaps)?;
            let version = part.rows.version(row);
            if self.state.core.is_recorded() && !part.is_uncommitted_insert(row) {
                walk.found.push((key, version));
            }
            let place = (at.relation, own_place(at.ids(), row));
            let base = (part.rows.bytes(row), version);
            let flow = self.show_own(before, place, &key, base, visitor)?;
            if flow.is_some_and(|flow| flow.is_break()) {
                walk.seen.high = key.next();
                return Ok(Walked::To(ControlFlow::Break(())));
            }
            walk.from = key.next().expect("no row has the greatest key");
            next_at = next_at.and_then(|cursor| part.tree.next(cursor));
        }
    }

    /// Inserts into a partition of this host; false if the key exists (which is then protected).
    pub(super) fn insert_own(&mut self, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<bool, TxnError> {
        let host = self.host;
        let mut latched = host.restore_around(self.cx, at.ids(), key)?;
        let part = &mut *latched;
        let around = part.around(self.cx, key);
        let (before, next) = (around.prev, part.behind(&around));
        if let Some(row) = around.found {
            let before = self.hold(part, at.ids(), (key, row), Mode::Read, false)?;
            if self.state.core.work.revive(own_place(at.ids(), row), bytes) {
                part.set_flag(row, RowFlags::DELETED, false);
                return Ok(true);
            }
            if before.is_none() {
                self.state.note_read(at.table(), key, Some(part.rows.version(row)));
            }
            return Ok(false);
        }
        if !self.cx.sabotaged("own.check-gap-on-insert") {
            let tolerated = if host.policies.next_key_locking { 1 << host.me.0 } else { u16::MAX };
            let opened = part.open_gap(self.cx, host.shared, before, next, Some(self.state.me), tolerated);
            if opened.is_err() {
                self.state.in_the_way = part.others_above(next, self.state.me);
                self.wants(at.ids(), &part.key_at_or_behind(key));
            }
            opened?;
        }
        let Some(row) = part.rows.alloc() else {
            part.link(self.cx, host.shared, before, next);
            return Err(TxnError::OutOfMemory {
                what: "rows of a partition",
                needed_bytes: bytes.len() as u64,
            });
        };
        part.rows.bytes_mut(row).copy_from_slice(bytes);
        part.rows.set_version(row, part.max_removed_llsn);
        part.hold_new(row, next, self.state.me, !self.cx.sabotaged("own.inherit-gap"));
        part.tree.insert_near(&around, key.words(), row);
        debug_assert!(part.is_uncommitted_insert(row), "nobody sees it before the commit");
        debug_assert!(part.address(row).is_none(), "a new row is in DRAM alone");
        self.state.llsn = self.state.llsn.max(part.max_removed_llsn);
        let place = own_place(at.ids(), row);
        self.mine.held.push(place);
        // A log's record has no other place to take the row from.
        self.state.core.work.begin_insert(place, at.table(), key, host.log.is_some().then_some(bytes));
        Ok(true)
    }

    /// Marks a row of this host as deleted by its writer, or takes the mark away.
    pub(super) fn flag_own(&mut self, place: RowLocation, deleted: bool) {
        let Spot::Own { partition, table, row } = Spot::of(place) else { unreachable!("a row of this host") };
        let mut part = self.host.part(self.cx, (partition, table));
        debug_assert!(!part.is_unheld(row), "whoever marks a row writes it");
        part.set_flag(row, RowFlags::DELETED, deleted);
    }
}
