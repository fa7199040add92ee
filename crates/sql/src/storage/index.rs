//! Entries of indexes: their keys and their places.
//!
//! What an entry is, and where it lives, is said in table.rs, which also changes entries with their rows.

use std::sync::Arc;

use liger_engine::Key;

use super::access::Access;
use super::classes::Home;
use super::key::{KeyColumn, KeyWidth, fit, hash64};
use super::table::TableRows;
use crate::error::{Result, SqlError, SqlState};
use crate::types::value::Value;
use crate::types::{Oid, Type, oid};

/// Computes what an index holds of a row besides its columns.
pub trait Computed {
    /// The values of all columns of the index for a row of these values; `None`: its predicate does not hold.
    ///
    /// # Errors
    /// Those of the expressions.
    fn entry(&self, index: Oid, values: &[Value]) -> Result<Option<Vec<Value>>>;

    /// Names and values of the columns of the index for a row of these values, as error messages show them.
    ///
    /// # Errors
    /// Those of the expressions.
    fn key(&self, index: Oid, values: &[Value]) -> Result<Vec<(String, String)>>;

    /// A value of a key as error messages show it.
    fn show(&self, ty: Oid, value: &Value) -> String {
        let _ = ty;
        match value {
            Value::Null => "null".to_owned(),
            Value::Bool(b) => if *b { "t" } else { "f" }.to_owned(),
            value => match (value.as_i64(), value.as_str()) {
                (Some(number), _) => number.to_string(),
                (None, Some(text)) => text.to_owned(),
                (None, None) => format!("{value:?}"),
            },
        }
    }
}

/// For tables whose indexes are over plain columns only.
pub struct PlainColumns;

impl Computed for PlainColumns {
    fn entry(&self, index: Oid, _values: &[Value]) -> Result<Option<Vec<Value>>> {
        let message = format!("index {index} is over expressions, and there is nobody to compute them");
        Err(SqlError::new(SqlState::INTERNAL_ERROR, message))
    }

    fn key(&self, index: Oid, values: &[Value]) -> Result<Vec<(String, String)>> {
        self.entry(index, values).map(|_| Vec::new())
    }
}

/// The way to an index's entries, made of its description (catalog/layout.rs).
pub(crate) struct IndexRows {
    pub(crate) oid: Oid,
    pub(crate) name: Arc<str>,
    pub(crate) home: Home,
    pub(crate) columns: Vec<KeyColumn>,
    /// The columns of the table, if it has no others and no predicate.
    pub(crate) plain: Option<Vec<usize>>,
    pub(crate) unique: bool,
    pub(crate) nulls_not_distinct: bool,
    /// Which of its columns is the one that decides a row's place.
    pub(crate) with_row: Option<usize>,
    pub(crate) is_exact: bool,
}

/// An entry of an index.
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) unique: bool,
}

impl IndexRows {
    /// Whether setting these columns may change a row's entry, while its key stays.
    pub(super) fn depends_on(&self, set: &[usize]) -> bool {
        self.plain.as_ref().is_none_or(|columns| columns.iter().any(|column| set.contains(column)))
    }

    /// The entry of a row; `None`: it has none.
    pub(super) fn entry(
        &self,
        tx: &dyn Access,
        table: &TableRows,
        row: &Key,
        values: &[Value],
        computed: &dyn Computed,
    ) -> Result<Option<Entry>> {
        let evaluated;
        let of: Vec<&Value> = match &self.plain {
            Some(columns) => columns.iter().map(|n| &values[*n]).collect(),
            None => {
                let Some(all) = computed.entry(self.oid, values)? else { return Ok(None) };
                evaluated = all;
                evaluated.iter().collect()
            }
        };
        let mut bytes = Vec::with_capacity(self.home.size.key_bytes());
        self.columns.iter().zip(&of).try_for_each(|(how, value)| how.encode(value, &mut bytes))?;
        let has_null = of.iter().any(|value| value.is_null());
        let unique = self.unique && (!has_null || self.nulls_not_distinct);
        let place = self.place_of(table, &of, tx.places())?;
        if !unique {
            table.append_key(row, values, &mut bytes)?;
        }
        fit(&mut bytes, self.home.size.key_bytes());
        Ok(Some(Entry { key: self.home.key(place, &bytes), unique }))
    }

    /// The key of the entry with these values in all columns, if there is one at most.
    pub(super) fn point(&self, tx: &dyn Access, table: &TableRows, of: &[&Value]) -> Result<Option<Key>> {
        if !self.unique || of.len() != self.columns.len() || of.iter().any(|value| value.is_null()) {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(self.home.size.key_bytes());
        self.columns.iter().zip(of).try_for_each(|(how, value)| how.encode(value, &mut bytes))?;
        fit(&mut bytes, self.home.size.key_bytes());
        Ok(Some(self.home.key(self.place_of(table, of, tx.places())?, &bytes)))
    }

    /// The place of entries whose columns begin with these values, if they decide it.
    pub(super) fn place_of_prefix(
        &self,
        table: &TableRows,
        prefix: &[Value],
        places: u16,
    ) -> Result<Option<u16>> {
        if prefix.is_empty() || self.with_row.is_some_and(|at| at >= prefix.len()) {
            return Ok(None);
        }
        let prefix: Vec<&Value> = prefix.iter().collect();
        self.place_of(table, &prefix, places).map(Some)
    }

    fn place_of(&self, table: &TableRows, of: &[&Value], places: u16) -> Result<u16> {
        match self.with_row {
            Some(at) if of[at].is_null() => hashed_place(of[at], &self.columns[at], places),
            Some(at) => table.place_of(of[at], places),
            None => hashed_place(of[0], &self.columns[0], places),
        }
    }
}

impl TableRows {
    /// Appends what tells a row's entry from those of other rows with the same values.
    fn append_key(&self, row: &Key, values: &[Value], out: &mut Vec<u8>) -> Result<()> {
        if self.key.is_empty() {
            // Its number; the number says nothing of the place, and need not: it is one of all.
            out.extend_from_slice(&row.words()[1].to_be_bytes());
            return Ok(());
        }
        self.key.iter().try_for_each(|(column, how)| how.encode(&values[*column], out))
    }
}

/// The place that a value's hash says.
pub(super) fn hashed_place(value: &Value, how: &KeyColumn, places: u16) -> Result<u16> {
    let mut bytes = Vec::new();
    let how = KeyColumn { not_null: false, padded: how.padded, ..KeyColumn::default() };
    how.encode(value, &mut bytes)?;
    Ok(((u128::from(hash64(&bytes)) * u128::from(places)) >> 64) as u16)
}

/// Whether keys of columns of these types are never cut.
pub(crate) fn is_exact(types: impl Iterator<Item = Type>, room: usize) -> bool {
    let width = |ty: Type| match KeyWidth::of(ty) {
        Some(KeyWidth::AtMost(bytes)) => Some(bytes),
        // Every character may take four bytes.
        Some(KeyWidth::Usual(_)) if ty.modifier > 4 && matches!(ty.oid, oid::VARCHAR | oid::BPCHAR) => {
            Some(4 * (ty.modifier as usize - 4) + 1)
        }
        _ => None,
    };
    types.map(width).sum::<Option<usize>>().is_some_and(|bytes| bytes <= room)
}
