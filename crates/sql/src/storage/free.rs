//! Rows of a table that nobody else holds: for `SKIP LOCKED`, which looks at them without holding them and
//! takes those that it wants. Values outside of a row are read as by anybody.

use std::ops::ControlFlow;

use liger_engine::{Key, KeyRange};

use super::access::Access;
use super::table::{Row, TableRows};
use crate::error::Result;

impl TableRows {
    /// As [`TableRows::lock`]; `None` also if somebody else holds it.
    pub fn lock_if_free(&self, tx: &mut dyn Access, key: &Key) -> Result<Option<Row>> {
        let mut bytes = Vec::new();
        if !tx.take_if_free(self.home.table, key, &mut |row| row.copy_to(&mut bytes))? {
            return Ok(None);
        }
        self.row(tx, *key, &bytes, None).map(Some)
    }

    /// As [`TableRows::get_some`], and does not hold it; `None` also if somebody else is changing it.
    pub fn peek(
        &self,
        tx: &mut dyn Access,
        key: &Key,
        columns: Option<&[bool]>,
        row: &mut Vec<u8>,
    ) -> Result<Option<Row>> {
        row.clear();
        tx.peek(self.home.table, &KeyRange::point(*key), &mut |_, bytes| {
            row.extend_from_slice(bytes);
            ControlFlow::Break(())
        })?;
        if row.is_empty() { Ok(None) } else { self.row(tx, *key, row, columns).map(Some) }
    }
}
