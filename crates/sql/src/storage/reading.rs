//! Reading rows: by key, whole or some of their columns, and what lies outside of them.

use liger_engine::Key;

use super::access::Access;
use super::classes::Home;
use super::overflow;
use super::row::{Found, Outside, Reference, damaged, wholes};
use super::table::{Row, TableRows};
use crate::error::Result;
use crate::types::value::Value;

impl TableRows {
    /// Reads the row with this key.
    ///
    /// # Errors
    /// Conflicts; damage. So do all that follow.
    pub fn get(&self, tx: &mut dyn Access, key: &Key) -> Result<Option<Row>> {
        self.get_some(tx, key, None, &mut Vec::new())
    }

    /// As [`TableRows::get`], with NULL in the columns that are not wanted; `row` is for its bytes.
    ///
    /// # Errors
    /// Conflicts; damage.
    pub fn get_some(
        &self,
        tx: &mut dyn Access,
        key: &Key,
        columns: Option<&[bool]>,
        row: &mut Vec<u8>,
    ) -> Result<Option<Row>> {
        row.clear();
        if !tx.get(self.home.table, key, &mut |bytes| row.extend_from_slice(bytes))? {
            return Ok(None);
        }
        self.row(tx, *key, row, columns).map(Some)
    }

    /// Locks the row with this key for changes, and reads it.
    pub fn lock(&self, tx: &mut dyn Access, key: &Key) -> Result<Option<Row>> {
        let mut bytes = Vec::new();
        if !tx.update(self.home.table, key, &mut |row| row.copy_to(&mut bytes))? {
            return Ok(None);
        }
        self.row(tx, *key, &bytes, None).map(Some)
    }

    /// The row of these bytes, with NULL in the columns that are not wanted. What lies outside is fetched.
    pub(super) fn row(
        &self,
        tx: &mut dyn Access,
        key: Key,
        bytes: &[u8],
        wanted: Option<&[bool]>,
    ) -> Result<Row> {
        self.row_in(tx, key, bytes, wanted, Vec::new())
    }

    /// The same in a place that there is already; what it holds is of no interest.
    pub(super) fn row_in(
        &self,
        tx: &mut dyn Access,
        key: Key,
        bytes: &[u8],
        wanted: Option<&[bool]>,
        mut values: Vec<Value>,
    ) -> Result<Row> {
        let body = &bytes[self.home.size.body_at()..];
        let is_wanted = |column: usize| wanted.is_none_or(|wanted| wanted.get(column) != Some(&false));
        values.clear();
        values.resize(self.columns(), Value::Null);
        let mut outside = Outside::new();
        self.layout.decode_each(body, is_wanted, |column, found| match found {
            Found::Value(value) => values[column] = value,
            Found::Outside(reference) => outside.push((column, reference)),
        })?;
        self.read_outside(tx, Home::place_of(&key), &outside, &mut values)?;
        Ok(Row { key, values })
    }

    /// Reads what lies outside of a row.
    fn read_outside(
        &self,
        tx: &mut dyn Access,
        place: u16,
        outside: &Outside,
        values: &mut [Value],
    ) -> Result<()> {
        if outside.is_empty() {
            return Ok(());
        }
        let home = self.overflow.as_ref().ok_or_else(|| damaged("a value that lies outside"))?;
        for (column, reference) in outside.iter().filter(|(_, reference)| reference.tail.is_none()) {
            let bytes = overflow::get(tx, home, place, *reference)?;
            values[*column] = self.layout.value_of(*column, bytes)?;
        }
        let tail: Outside = outside.iter().copied().filter(|(_, at)| at.tail.is_some()).collect();
        let Some(whole) = wholes(&tail).pop() else { return Ok(()) };
        let bytes = overflow::get(tx, home, place, whole)?;
        for (column, Reference { number, len, tail }) in tail {
            let at = tail.unwrap_or_default() as usize;
            let found = bytes.get(at..at + len as usize).filter(|_| number == whole.number);
            let found = found.ok_or_else(|| damaged("the place of a value"))?;
            values[column] = self.layout.value_of(column, found.into())?;
        }
        Ok(())
    }
}
