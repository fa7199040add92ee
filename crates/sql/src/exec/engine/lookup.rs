//! Ranges as the storage has them, and looking a row up by its key, where a range names one.
use super::EngineStore;
use crate::error::Result;
use crate::exec::store::{Edge, Found, Purpose, Range};
use crate::storage::access::Access;
use crate::storage::scan::{self, Hold};
use crate::storage::table::TableRows;
use crate::types::value::Value;

/// The range as the storage has it: the primary key's index is the table's own key.
pub(super) fn scan_range(range: &Range, purpose: Purpose, wanted: usize) -> scan::Range {
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
            Purpose::Read => Hold::Read,
            Purpose::Change => Hold::Change,
            Purpose::Free => Hold::Free,
        },
        own: range.own,
    }
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
            let row = match purpose {
                Purpose::Read | Purpose::Free => {
                    rows.get_some(tx, &key, range.columns.as_deref(), &mut Vec::new())
                }
                Purpose::Change => rows.lock(tx, &key),
            }?;
            self.host.slots.observed().count_rows(tx.worker(), u64::from(row.is_some()));
            Ok(row)
        })?;
        Ok(row.into_iter().collect())
    }
}
