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
        let mut body = Vec::new();
        if !tx.take_if_free(self.home.table, key, &mut |row| row.copy_to(&mut body))? {
            return Ok(None);
        }
        let (values, outside) = self.decode(&body[self.home.size.body_at()..], None)?;
        Ok(Some(self.complete(tx, *key, values, outside)?))
    }

    /// As [`TableRows::get_some`], and does not hold it; `None` also if somebody else is changing it.
    pub fn peek(&self, tx: &mut dyn Access, key: &Key, columns: Option<&[bool]>) -> Result<Option<Row>> {
        let (mut decoded, at) = (None, self.home.size.body_at());
        tx.peek(self.home.table, &KeyRange::point(*key), &mut |_, row| {
            decoded = Some(self.decode(&row[at..], columns));
            ControlFlow::Break(())
        })?;
        let Some(decoded) = decoded else { return Ok(None) };
        let (values, outside) = decoded?;
        Ok(Some(self.complete(tx, *key, values, outside)?))
    }
}
