//! Looking for rows: one by its key, and scans that stop at their limit and go on later.
use super::EngineStore;
use super::names::{found, row_key, scan_range};
use crate::error::Result;
use crate::exec::store::{Cursor, Found, Purpose, Range};
use crate::storage::scan::Scan;
use crate::storage::table::TableRows;
use crate::types::value::Value;

/// Scans that may be gone on with, at most.
pub(super) const SCANS_MAX: usize = 16;

/// A scan that stopped at its limit, and the number that its cursor has.
pub(super) struct Stopped {
    pub(super) number: u64,
    pub(super) scan: Scan,
}

impl EngineStore {
    /// The row that a range names by the whole key of the table, if it does.
    pub(super) fn point(&self, rows: &TableRows, range: &Range) -> bool {
        let is_key = range.index.as_ref().is_some_and(|index| index.rows.is_none());
        is_key && !rows.has_hidden_key() && range.equal.len() == rows.key_columns()
    }

    pub(super) fn get(&self, rows: &TableRows, range: &Range, purpose: Purpose) -> Result<Vec<Found>> {
        let equal: Vec<&Value> = range.equal.iter().collect();
        let row = self.step(|tx, _, _| {
            let key = rows.key_of(tx, &equal)?;
            match purpose {
                Purpose::Read | Purpose::Free => rows.get_some(tx, &key, range.columns.as_deref()),
                Purpose::Change => rows.lock(tx, &key),
            }
        })?;
        Ok(row.map(found).into_iter().collect())
    }

    /// The scan that a cursor belongs to, or one that has been brought there.
    pub(super) fn resume(
        &self,
        rows: &TableRows,
        (range, purpose): (&Range, Purpose),
        cursor: &Cursor,
        limit: usize,
    ) -> Result<Scan> {
        let mut stopped = self.stopped.borrow_mut();
        if let Some(at) = stopped.iter().position(|one| one.number == cursor.kept) {
            return Ok(stopped.swap_remove(at).scan);
        }
        drop(stopped);
        let mut scan = self.step(|tx, _, _| rows.scan(tx, &scan_range(range, purpose, limit)))?;
        let Some(after) = &cursor.after else { return Ok(scan) };
        self.step(|tx, _, _| {
            while let Some(row) = scan.next(tx, rows)? {
                if row_key(&row.key) == *after {
                    break;
                }
            }
            Ok(())
        })?;
        Ok(scan)
    }
}
