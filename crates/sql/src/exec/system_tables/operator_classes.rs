//! Classes of operators: which one an index has for a column, by its access method and the column's type.
//!
//! All indexes are sorted by the values' own order, whatever class is named: for texts, which have the order
//! of their bytes, that is the order of `text_pattern_ops` too.

use crate::catalog::system::fixed_rows;
use crate::error::{Result, SqlError, SqlState};
use crate::types::value::Value;
use crate::types::{Oid, TypeKind, Types, oid};

/// A row of `pg_opclass`.
struct Class {
    oid: Oid,
    name: &'static str,
    input: Oid,
    default: bool,
}

fn number(text: &str) -> Oid {
    text.parse().unwrap_or(0)
}

/// The rows of an access method; `None`: there is no such method.
fn of_method(method: &str) -> Option<impl Iterator<Item = Class>> {
    let rows = |relation: &str| fixed_rows(relation).iter();
    let method = rows("pg_am").find(|row| row[1] == method)?[0];
    let classes = rows("pg_opclass").filter(move |row| row[1] == method);
    Some(classes.map(|row| Class {
        oid: number(row[0]),
        name: row[2],
        input: number(row[6]),
        default: row[7] == "t",
    }))
}

/// The type that a class for values of this one is declared for.
fn declared(types: &dyn Types, ty: Oid) -> Oid {
    let base = types.base_of(ty);
    match types.type_info(base) {
        _ if base == oid::VARCHAR => oid::TEXT,
        Some(info) if info.is_array() => oid::ANYARRAY,
        Some(info) if info.kind == TypeKind::Enum => oid::ANYENUM,
        Some(info) if info.kind == TypeKind::Composite => oid::RECORD,
        _ => base,
    }
}

/// The class that a type has with this method when none is named, or with btrees; 0: none.
pub(crate) fn default_class(types: &dyn Types, method: &str, ty: Oid) -> Oid {
    let declared = declared(types, ty);
    let of = |method: &str| of_method(method)?.find(|class| class.default && class.input == declared);
    of(method).or_else(|| of("btree")).map_or(0, |class| class.oid)
}

/// The name of a class.
pub(super) fn name_of(class: Oid) -> Option<&'static str> {
    let found = fixed_rows("pg_opclass").iter().find(|row| number(row[0]) == class);
    found.map(|row| row[2])
}

/// Whether indexes of an access method have a property; NULL: there is no such property or method.
pub(super) fn method_property(method: Oid, property: &str) -> Value {
    let methods = fixed_rows("pg_am").iter();
    let Some(name) = methods.filter(|row| row[3] == "i").find(|row| number(row[0]) == method) else {
        return Value::Null;
    };
    let having: &[&str] = match property {
        "can_order" | "can_unique" => &["btree"],
        "can_multi_col" => &["btree", "gist", "gin", "brin"],
        "can_exclude" => &["btree", "hash", "gist", "spgist"],
        "can_include" => &["btree", "gist", "spgist"],
        _ => return Value::Null,
    };
    Value::Bool(having.contains(&name[1]))
}

/// The class that is named for a column of an index, unless it is the one that would be taken anyway.
///
/// # Errors
/// 42704 if the access method has none of this name, 42804 if it is not one for the column's type.
pub(crate) fn named_class(types: &dyn Types, method: &str, name: &str, ty: Oid) -> Result<Option<Oid>> {
    let Some(mut classes) = of_method(method) else { return Ok(None) };
    let Some(class) = classes.find(|class| class.name == name) else {
        let message = format!("operator class \"{name}\" does not exist for access method \"{method}\"");
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
    };
    if class.input != declared(types, ty) {
        let shown = crate::bind::type_text(types, ty);
        let message = format!("operator class \"{name}\" does not accept data type {shown}");
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    Ok((!class.default).then_some(class.oid))
}
