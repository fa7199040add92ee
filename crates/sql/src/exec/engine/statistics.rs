//! Statistics of tables as a session over the engine has them: its host's, those that its transaction has
//! written, and those of its own tables, which nobody else needs. Counts of changed rows on their way to the
//! host.
//!
//! Invariant: what a transaction has written or counted is told to the host when it has committed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::EngineStore;
use crate::catalog::statistics::{TableStatistics, saved};
use crate::catalog::view::Present;
use crate::error::Result;
use crate::slots::Slot;
use crate::storage::private::is_private;
use crate::types::Oid;

/// What a session has of statistics besides its host.
#[derive(Default)]
pub(super) struct Known {
    /// Of its own tables.
    own: RefCell<BTreeMap<Oid, Arc<TableStatistics>>>,
    /// Written by its transaction.
    written: RefCell<BTreeMap<Oid, Arc<TableStatistics>>>,
    /// How often it has got other ones than the host has.
    changes: Cell<u64>,
    /// Rows put in, changed and removed by its transaction.
    changed: RefCell<BTreeMap<Oid, [u64; 3]>>,
}

/// A change of a row, by its place among the counts.
#[derive(Clone, Copy)]
pub(super) enum Counted {
    Insert = 0,
    Update = 1,
    Delete = 2,
}

impl EngineStore {
    pub(super) fn statistics_of(&self, table: Oid) -> Option<Arc<TableStatistics>> {
        if is_private(table) {
            return self.statistics.own.borrow().get(&table).cloned();
        }
        let written = self.statistics.written.borrow().get(&table).cloned();
        written.or_else(|| self.host.catalog.statistics().of(table))
    }

    /// Grows when others have to be looked at.
    pub(super) fn statistics_count(&self) -> u64 {
        (self.host.catalog.statistics().version() << 16) + (self.statistics.changes.get() & 0xffff)
    }

    pub(super) fn present_of(&self, table: Oid, counts: bool) -> Option<Present> {
        let host = self.host.catalog.statistics();
        let (own, all) = host.places();
        let foreign = match is_private(table) {
            true => 0.0,
            false => 1.0 - own as f64 / all.max(1) as f64,
        };
        if !counts {
            let rows = host.rows_of(table, self.statistics_of(table).as_deref())?;
            return Some(Present { rows, bytes: None, foreign });
        }
        let rows = self.catalog().rows(table).ok()?;
        let census = self.step(|tx, _, _| Ok(rows.census(tx))).ok().filter(|it| it.own_places > 0)?;
        let bytes = Some(census.of_pod(census.table_bytes) as f64);
        Some(Present { rows: census.of_pod(census.rows) as f64, bytes, foreign })
    }

    /// Keeps what has been found out of a table's rows.
    pub(super) fn keep_statistics(&self, table: Oid, found: TableStatistics) -> Result<()> {
        self.statistics.changes.set(self.statistics.changes.get() + 1);
        if is_private(table) {
            self.statistics.own.borrow_mut().insert(table, Arc::new(found));
            return Ok(());
        }
        // Other hosts are told when this transaction ends.
        self.slot.borrow().as_ref().map_or(Ok(()), Slot::announce)?;
        self.step(|tx, _, host| saved::save(tx, host.classes(), table, &found))?;
        self.statistics.written.borrow_mut().insert(table, Arc::new(found));
        Ok(())
    }

    /// Counts a row that was changed.
    pub(super) fn count_change(&self, table: Oid, what: Counted) {
        if !is_private(table) {
            self.statistics.changed.borrow_mut().entry(table).or_default()[what as usize] += 1;
        }
    }

    /// The transaction has ended.
    pub(super) fn end_statistics(&self, committed: bool) {
        let changed = std::mem::take(&mut *self.statistics.changed.borrow_mut());
        if committed && !changed.is_empty() {
            self.host.catalog.statistics().count(&changed);
        }
        if !self.statistics.written.borrow().is_empty() {
            self.statistics.written.borrow_mut().clear();
            self.statistics.changes.set(self.statistics.changes.get() + 1);
        }
    }
}
