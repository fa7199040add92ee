//! Rows and ranges as execution names them, and as the storage does.
use liger_engine::{Key, MAX_KEY_WORDS};

use crate::exec::store::{Edge, Found, Purpose, Range, RowKey};
use crate::storage::scan;
use crate::storage::table::Row;

pub(super) fn row_key(key: &Key) -> RowKey {
    let mut bytes = [0; 8 * MAX_KEY_WORDS];
    bytes.chunks_exact_mut(8).zip(key.words()).for_each(|(to, word)| to.copy_from_slice(&word.to_be_bytes()));
    bytes[..8 * key.width()].into()
}

pub(super) fn engine_key(key: &RowKey) -> Key {
    let mut words = [0; MAX_KEY_WORDS];
    let chunks = key.chunks_exact(8);
    let width = chunks.len();
    chunks.zip(&mut words).for_each(|(bytes, word)| {
        *word = u64::from_be_bytes(bytes.try_into().expect("chunks of 8"));
    });
    Key::from_words(&words[..width])
}

pub(super) fn found(row: Row) -> Found {
    Found { key: row_key(&row.key), values: row.values }
}

pub(super) fn plain_row(found: &Found) -> Row {
    Row { key: engine_key(&found.key), values: found.values.clone() }
}

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
        free: purpose == Purpose::Free,
    }
}
