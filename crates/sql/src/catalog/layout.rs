//! How rows of tables and entries of their indexes are laid out, from the descriptions.

use std::sync::Arc;

use super::Catalog;
use super::object::{Column, Constraint, Index, IndexColumn, Indexed, Object, Rule, UserTypeKind};
use super::sizing::{base_type, stored_of};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::codec;
use crate::storage::index::{IndexRows, is_exact};
use crate::storage::key::KeyColumn;
use crate::storage::row::RowLayout;
use crate::storage::table::TableRows;
use crate::types::value::{EnumLabel, Value};
use crate::types::{Oid, Type, oid};

/// The way to the rows of a table of this catalog.
///
/// # Errors
/// If there is no such table, or the pod has not its class.
pub(super) fn table_rows(catalog: &Catalog, oid: Oid) -> Result<TableRows> {
    let table = catalog.table(oid).ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_TABLE, format!("there is no table with oid {oid}"))
    })?;
    let missing = |column: &Column| missing_value(column, |oid| catalog.get(oid).cloned());
    let stored = table.columns.iter().map(|column| Ok((stored_of(catalog, column), missing(column)?)));
    let layout = RowLayout::new(stored.collect::<Result<_>>()?);
    let key = |n: &u16| (usize::from(*n), key_column(catalog, &table.columns[usize::from(*n)]));
    let widths = table.key.iter().map(|n| base_type(catalog, &table.columns[usize::from(*n)]));
    let home = catalog.home(table.rows)?;
    let is_exact = is_exact(widths, home.size.key_bytes());
    let key: Vec<_> = table.key.iter().map(key).collect();
    let of_key = |c: &&Constraint| matches!(c.rule, Rule::PrimaryKey { .. });
    let key_index = table.constraints.iter().find(of_key).map_or(0, |c| match c.rule {
        Rule::PrimaryKey { index, .. } => index,
        _ => 0,
    });
    let schema = catalog.get(table.schema).map_or("", |schema| schema.name());
    let mut rows = TableRows {
        oid,
        name: table.name.as_str().into(),
        schema: schema.into(),
        home,
        overflow: table.overflow.map(|at| catalog.home(at)).transpose()?,
        layout,
        columns: table.columns.iter().map(|c| (c.name.as_str().into(), c.type_oid)).collect(),
        key,
        key_index,
        key_name: catalog.index(key_index).map_or("", |index| &index.name).into(),
        placing: table.placing,
        is_exact,
        indexes: Vec::new(),
    };
    for index in catalog.indexes_of(oid).filter(|index| index.rows.is_some()) {
        rows.indexes.push(index_rows(catalog, &rows, index)?);
    }
    Ok(rows)
}

/// What rows have in a column that were written before it was there; `object` finds the enum that it is of.
///
/// # Errors
/// If that is damaged.
pub(crate) fn missing_value(column: &Column, object: impl Fn(Oid) -> Option<Arc<Object>>) -> Result<Value> {
    let Some(bytes) = &column.missing else { return Ok(Value::Null) };
    let value = codec::read(bytes)?;
    if let Value::Enum(label) = &value
        && let Some(Object::Type(user)) = object(label.oid).as_deref()
        && let UserTypeKind::Enum(labels) = &user.kind
        && let Some((order, name)) = labels.iter().find(|(order, _)| *order == label.order)
    {
        // It may have another name since then.
        let (oid, order, label) = (label.oid, *order, name.as_str().into());
        return Ok(Value::Enum(Arc::new(EnumLabel { oid, order, label })));
    }
    Ok(value)
}

/// The way to the entries of an index that has some.
fn index_rows(catalog: &Catalog, table: &TableRows, index: &Index) -> Result<IndexRows> {
    let of = catalog.table(table.oid).expect("looked up by the caller");
    let home = catalog.home(index.rows.expect("an index with entries of its own"))?;
    let column = |part: &IndexColumn| {
        let (descending, nulls_first) = (part.descending, part.nulls_first);
        let padded = match &part.of {
            Indexed::Column(n) => key_column(catalog, &of.columns[usize::from(*n)]).padded,
            Indexed::Expression { type_oid, .. } => *type_oid == oid::BPCHAR,
        };
        KeyColumn { descending, nulls_first, not_null: false, padded }
    };
    let plain = |part: &IndexColumn| match part.of {
        Indexed::Column(n) => Some(usize::from(n)),
        Indexed::Expression { .. } => None,
    };
    let all_plain: Option<Vec<usize>> = index.columns.iter().map(plain).collect();
    let placing = table.placing_column().map(|(column, _)| column);
    let with_row = index.columns.iter().position(|part| placing.is_some() && plain(part) == placing);
    let widths = index.columns.iter().map(|part| match &part.of {
        Indexed::Column(n) => base_type(catalog, &of.columns[usize::from(*n)]),
        Indexed::Expression { type_oid, modifier, .. } => Type { oid: *type_oid, modifier: *modifier },
    });
    let of_key = of.key.iter().map(|n| base_type(catalog, &of.columns[usize::from(*n)]));
    let hidden = of.key.is_empty().then_some(Type::of(oid::INT8));
    let nulls = index.columns.len();
    let room = home.size.key_bytes().saturating_sub(nulls);
    Ok(IndexRows {
        oid: index.oid,
        name: index.name.as_str().into(),
        home,
        columns: index.columns.iter().map(column).collect(),
        plain: all_plain.filter(|_| index.predicate.is_none()),
        unique: index.is_unique_at_once(),
        nulls_not_distinct: index.nulls_not_distinct,
        with_row,
        is_exact: is_exact(widths.chain(of_key).chain(hidden), room),
    })
}

fn key_column(catalog: &Catalog, column: &Column) -> KeyColumn {
    KeyColumn { padded: base_type(catalog, column).oid == oid::BPCHAR, ..KeyColumn::PRIMARY }
}
