//! Reading rows: by key, whole or some of their columns, and what lies outside of them.

use liger_engine::Key;

use super::access::Access;
use super::classes::Home;
use super::overflow;
use super::row::{Found, Outside, damaged};
use super::table::{Row, TableRows};
use crate::error::Result;
use crate::types::value::Value;

impl TableRows {
    /// Reads the row with this key.
    ///
    /// # Errors
    /// Conflicts; damage. So do all that follow.
    pub fn get(&self, tx: &mut dyn Access, key: &Key) -> Result<Option<Row>> {
        self.get_some(tx, key, None)
    }

    /// As [`TableRows::get`], with NULL in the columns that are not wanted.
    ///
    /// # Errors
    /// Conflicts; damage.
    pub fn get_some(&self, tx: &mut dyn Access, key: &Key, columns: Option<&[bool]>) -> Result<Option<Row>> {
        let mut decoded = None;
        let at = self.home.size.body_at();
        if !tx.get(self.home.table, key, &mut |row| decoded = Some(self.decode(&row[at..], columns)))? {
            return Ok(None);
        }
        let (values, outside) = decoded.expect("shown above")?;
        Ok(Some(self.complete(tx, *key, values, outside)?))
    }

    /// Locks the row with this key for changes, and reads it.
    pub fn lock(&self, tx: &mut dyn Access, key: &Key) -> Result<Option<Row>> {
        let mut body = Vec::new();
        if !tx.update(self.home.table, key, &mut |row| row.copy_to(&mut body))? {
            return Ok(None);
        }
        let (values, outside) = self.decode(&body[self.home.size.body_at()..], None)?;
        Ok(Some(self.complete(tx, *key, values, outside)?))
    }

    /// The values of a body in the columns that are wanted, and where those are that lie outside.
    pub(super) fn decode(&self, body: &[u8], wanted: Option<&[bool]>) -> Result<(Vec<Value>, Outside)> {
        let mut outside = Vec::new();
        let values = (0..self.columns()).map(|column| {
            if wanted.is_some_and(|wanted| wanted.get(column) == Some(&false)) {
                return Ok(Value::Null);
            }
            match self.layout.decode(body, column)? {
                Found::Value(value) => Ok(value),
                Found::Outside(reference) => {
                    outside.push((column, reference));
                    Ok(Value::Null)
                }
            }
        });
        Ok((values.collect::<Result<_>>()?, outside))
    }

    /// Fetches what lies outside.
    pub(super) fn complete(
        &self,
        tx: &mut dyn Access,
        key: Key,
        mut values: Vec<Value>,
        outside: Outside,
    ) -> Result<Row> {
        for (column, reference) in outside {
            let home = self.overflow.as_ref().ok_or_else(|| damaged("a value that lies outside"))?;
            let bytes = overflow::get(tx, home, Home::place_of(&key), reference)?;
            values[column] = self.layout.value_of(column, &bytes)?;
        }
        Ok(Row { key, values })
    }
}
