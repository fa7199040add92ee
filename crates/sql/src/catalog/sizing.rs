//! Which classes the rows of an object get, from its columns.
//!
//! A row gets room for its fixed values and for what is usual of the others; what is longer lies outside. A
//! key gets room for what is usual; longer ones are cut.

use std::sync::Arc;

use super::Catalog;
use super::change::NewTable;
use super::object::{Column, IndexColumn, Indexed, Table, UserTypeKind};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::classes::{ClassSize, Classes};
use crate::storage::key::KeyWidth;
use crate::storage::overflow;
use crate::storage::row::{REFERENCE_BYTES, RowLayout, Stored};
use crate::types::value::{EnumLabel, Value};
use crate::types::{BuiltinTypes, Type, Types, oid};

/// The classes of a table.
pub struct Sizes {
    /// Of its rows.
    pub rows: ClassSize,
    /// Of values outside of them, if there can be any.
    pub overflow: Option<ClassSize>,
}

/// Bytes that rows have to spare for columns that a table gets later.
const SPARE_BYTES: usize = 16;

/// Bytes that rows get at most for what their values usually take: beyond a page of PostgreSQL there is only
/// what they cannot do without.
const USUAL_MAX: usize = 8192;

/// Columns of a variable length that may all be long: of more, some are short.
const LONG_COLUMNS: usize = 8;

/// Bytes of a hidden row number.
pub const NUMBER_BYTES: usize = 8;

/// Bytes that values of a variable length usually take in a row.
fn usual(ty: Type) -> usize {
    let declared = ty.modifier - 4;
    match ty.oid {
        oid::BPCHAR if declared > 0 => (declared as usize).min(256),
        oid::VARCHAR if declared > 0 => (declared as usize).min(64),
        oid::NUMERIC => 12,
        oid::JSON | oid::JSONB => 160,
        oid::TEXT | oid::VARCHAR | oid::BYTEA | oid::JSONPATH => 40,
        _ => 32,
    }
}

/// The classes of a new table whose rows are keyed by the columns `key`, or by a number.
///
/// # Errors
/// If a column of the key has no order, or a row is longer than any class.
pub fn of_table(catalog: &Catalog, new: &NewTable, key: &[u16]) -> Result<Sizes> {
    let stored = new.columns.iter().map(|column| (stored_of(catalog, column), Value::Null)).collect();
    let layout = RowLayout::new(stored);
    let varies = |n: &usize| layout.may_lie_outside(*n) && !new.columns[*n].dropped;
    let variable: Vec<usize> = (0..new.columns.len()).filter(varies).collect();
    let least = layout.least_bytes();
    let asked = new.options.iter().find(|option| option.0 == "row_bytes").and_then(|o| o.1.parse().ok());
    let fits = asked.unwrap_or_else(|| {
        let usual = variable.iter().enumerate().map(|(at, n)| {
            let usual = usual(base_type(catalog, &new.columns[*n]));
            if at < LONG_COLUMNS { usual } else { usual / 2 }
        });
        let usual: usize = usual.sum();
        (least + usual + SPARE_BYTES).min(USUAL_MAX)
    });
    let body = fits.max(least + variable.len() * REFERENCE_BYTES);
    let most = catalog.classes().body_max();
    if body > most {
        let message = format!("row is too big: size {body}, maximum size {most}");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let mut width = if key.is_empty() { NUMBER_BYTES } else { 0 };
    for column in key {
        width += key_bytes(catalog, base_type(catalog, &new.columns[usize::from(*column)]))?;
    }
    let rows = choose(catalog.classes(), width, body)?;
    let overflow = (!variable.is_empty()).then_some(overflow::SIZE);
    Ok(Sizes { rows, overflow })
}

/// Whether rows of these columns may not fit the class that a table has, even with values outside.
pub fn is_too_small(catalog: &Catalog, table: &Table) -> bool {
    let stored = table.columns.iter().map(|column| (stored_of(catalog, column), Value::Null)).collect();
    let layout = RowLayout::new(stored);
    let varies = |n: &usize| layout.may_lie_outside(*n) && !table.columns[*n].dropped;
    let variable = (0..table.columns.len()).filter(varies).count();
    layout.least_bytes() + variable * REFERENCE_BYTES > usize::from(table.rows.size.body)
}

/// Whether some value of these columns may have to lie outside.
pub fn may_lie_outside(catalog: &Catalog, table: &Table) -> bool {
    let live = table.columns.iter().filter(|column| !column.dropped);
    live.into_iter().any(|column| stored_of(catalog, column).fixed().is_none())
}

/// The class of a new index.
///
/// # Errors
/// If a column of it has no order.
pub fn of_index(catalog: &Catalog, table: &Table, columns: &[IndexColumn]) -> Result<ClassSize> {
    let mut width = 0;
    for column in columns {
        let ty = match &column.of {
            Indexed::Column(n) => base_type(catalog, &table.columns[usize::from(*n)]),
            Indexed::Expression { type_oid, modifier, .. } => Type { oid: *type_oid, modifier: *modifier },
        };
        width += 1 + key_bytes(catalog, ty)?;
    }
    for column in &table.key {
        width += key_bytes(catalog, base_type(catalog, &table.columns[usize::from(*column)]))?;
    }
    if table.key.is_empty() {
        width += NUMBER_BYTES;
    }
    // An entry's body is the key of its row.
    choose(catalog.classes(), width, 8 * usize::from(table.rows.size.words))
}

fn choose(classes: &Classes, key_bytes: usize, body: usize) -> Result<ClassSize> {
    classes.choose(key_bytes, body).ok_or_else(|| {
        let message = format!("the pod has no rows of {key_bytes} bytes of key and {body} bytes of values");
        SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
    })
}

fn key_bytes(catalog: &Catalog, ty: Type) -> Result<usize> {
    let is_enum = catalog.type_of(ty.oid).is_some();
    match KeyWidth::of(ty) {
        Some(_) if is_enum => Ok(4),
        Some(KeyWidth::AtMost(bytes) | KeyWidth::Usual(bytes)) => Ok(bytes),
        None => {
            let name = BuiltinTypes.type_info(ty.oid).map_or("this".into(), |info| info.name.to_string());
            let message =
                format!("data type {name} has no default operator class for access method \"btree\"");
            let hint = "You must specify an operator class for the index or define a default operator class \
                        for the data type.";
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).hint(hint))
        }
    }
}

/// A column's type, or the one under its domain.
pub fn base_type(catalog: &Catalog, column: &Column) -> Type {
    let mut ty = column.ty();
    while let Some(user) = catalog.type_of(ty.oid) {
        match user.kind {
            UserTypeKind::Domain { base, modifier, .. } => {
                ty = Type { oid: base, modifier };
            }
            _ => break,
        }
    }
    ty
}

/// How a column's values are kept.
pub(crate) fn stored_of(catalog: &Catalog, column: &Column) -> Stored {
    let base = base_type(catalog, column);
    match catalog.type_of(base.oid).map(|user| (user.oid, &user.kind)) {
        Some((oid, UserTypeKind::Enum(labels))) => {
            let label = |(order, label): &(f32, String)| {
                Arc::new(EnumLabel { oid, order: *order, label: label.as_str().into() })
            };
            Stored::Enum(labels.iter().map(label).collect())
        }
        Some(_) => Stored::Tagged,
        None => Stored::of(base.oid),
    }
}
