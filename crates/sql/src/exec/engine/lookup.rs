//! Ranges as the storage has them, and looking a row up by its key, where a range names one.
use super::EngineStore;
use crate::error::Result;
use crate::exec::store::{Cursor, Edge, Found, Purpose, Range, Suspended};
use crate::progress::Count;
use crate::storage::access::{Access, Reads, is_conflict};
use crate::storage::scan::{self, Hold};
use crate::storage::table::TableRows;
use crate::types::value::Value;

/// A longer batch of rows grows as it is read.
const BATCH_KEPT: usize = 512;

/// The range as the storage has it: the primary key's index is the table's own key.
fn scan_range(range: &Range, (purpose, reads): (Purpose, Reads), wanted: usize) -> scan::Range {
    let edge = |edge: &Edge| (edge.value.clone(), edge.inclusive);
    scan::Range {
        index: range.index.as_ref().filter(|index| index.rows.is_some()).map(|index| index.oid),
        equal: range.equal.clone(),
        low: range.low.as_ref().map(edge),
        high: range.high.as_ref().map(edge),
        backwards: range.reverse,
        wanted: Some(wanted),
        columns: range.columns.clone(),
        hold: match purpose {
            Purpose::Read | Purpose::Hold => Hold::Read,
            Purpose::Change => Hold::Change,
            Purpose::Free => Hold::Free,
        },
        own: range.own,
        of_moment: reads == Reads::Statement,
    }
}

impl EngineStore {
    /// The next rows of a range.
    pub(super) fn scan_on(
        &self,
        rows: &TableRows,
        (range, purpose, reads): (&Range, Purpose, Reads),
        cursor: &mut Cursor,
        limit: usize,
    ) -> Result<Vec<Found>> {
        let mut scan = match cursor.suspended.take() {
            Some(Suspended::Scan(scan)) => scan,
            _ => Box::new(self.step(|tx, _, _| rows.scan(tx, &scan_range(range, (purpose, reads), limit)))?),
        };
        let mut batch = Vec::with_capacity(limit.min(BATCH_KEPT));
        self.step(|tx, _, _| {
            tx.set_reads(reads);
            let before = scan.visited();
            while batch.len() < limit {
                let Some(row) = scan.next(tx, rows)? else { break };
                batch.push(row);
            }
            let visited = scan.visited() - before;
            self.host.slots.observed().count_rows(tx.worker(), visited);
            self.holding.interrupt.progress().add(Count::Read, visited);
            Ok(())
        })?;
        cursor.done = batch.len() < limit;
        cursor.suspended = (!cursor.done).then_some(Suspended::Scan(scan));
        Ok(batch)
    }

    /// The row that a range names by the whole key of the table, if it does.
    pub(super) fn point(&self, rows: &TableRows, range: &Range) -> bool {
        let is_key = range.index.as_ref().is_some_and(|index| index.rows.is_none());
        is_key && !rows.has_hidden_key() && range.equal.len() == rows.key_columns()
    }

    pub(super) fn get(
        &self,
        rows: &TableRows,
        range: &Range,
        purpose: Purpose,
        reads: Reads,
    ) -> Result<Vec<Found>> {
        let equal: Vec<&Value> = range.equal.iter().collect();
        let looked = self.step(|tx, _, _| {
            let key = rows.key_of(tx, &equal)?;
            tx.set_reads(reads);
            let row = match purpose {
                Purpose::Change => rows.lock(tx, &key),
                _ => rows.get_some(tx, &key, range.columns.as_deref(), &mut Vec::new()),
            };
            // Somebody is changing it, or has a part of it elsewhere.
            if reads == Reads::Glance && row.as_ref().is_err_and(is_conflict) {
                return Ok(None);
            }
            self.host.slots.observed().count_rows(tx.worker(), u64::from(matches!(row, Ok(Some(_)))));
            row.map(Some)
        })?;
        match looked {
            Some(row) => Ok(row.into_iter().collect()),
            None => {
                self.begin_reading()?;
                self.get(rows, range, purpose, Reads::Statement)
            }
        }
    }
}
