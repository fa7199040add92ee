//! Names of types become types.

use super::{Binder, Meant, fail};
use crate::error::{Result, SqlState};
use crate::parse::ast::TypeName;
use crate::types::{Oid, Type, TypeInfo, Types, builtin_by_name, builtin_types, format_builtin, oid};

const LENGTH_MAX: i64 = 10_485_760;
const BITS_MAX: i64 = 8 * LENGTH_MAX;

impl Binder<'_> {
    /// The type that a name means.
    pub(crate) fn resolve_type(&self, name: &TypeName) -> Result<Type> {
        let (base, pos) = (self.base_type(name)?, name.name.pos);
        let modifier = match (name.modifiers.as_slice(), base) {
            ([], oid::INTERVAL) => name.fields.map_or(-1, |fields| (fields << 16) | 0xffff),
            ([], _) => -1,
            ([length], oid::VARCHAR | oid::BPCHAR) => {
                let what = if base == oid::VARCHAR { "varchar" } else { "char" };
                if *length < 1 {
                    let message = format!("length for type {what} must be at least 1");
                    return fail(SqlState::INVALID_PARAMETER_VALUE, pos, message);
                }
                if *length > LENGTH_MAX {
                    let message = format!("length for type {what} cannot exceed {LENGTH_MAX}");
                    return fail(SqlState::INVALID_PARAMETER_VALUE, pos, message);
                }
                *length as i32 + 4
            }
            ([length], oid::BIT | oid::VARBIT) => {
                let what = if base == oid::VARBIT { "varbit" } else { "bit" };
                if *length < 1 {
                    let message = format!("length for type {what} must be at least 1");
                    return fail(SqlState::INVALID_PARAMETER_VALUE, pos, message);
                }
                if *length > BITS_MAX {
                    let message = format!("length for type {what} cannot exceed {BITS_MAX}");
                    return fail(SqlState::INVALID_PARAMETER_VALUE, pos, message);
                }
                *length as i32
            }
            ([precision, rest @ ..], oid::NUMERIC) if rest.len() < 2 => {
                let scale = rest.first().copied().unwrap_or(0);
                if !(1..=1000).contains(precision) {
                    let message = format!("NUMERIC precision {precision} must be between 1 and 1000");
                    return fail(SqlState::INVALID_PARAMETER_VALUE, pos, message);
                }
                if !(-1000..=1000).contains(&scale) {
                    let message = format!("NUMERIC scale {scale} must be between -1000 and 1000");
                    return fail(SqlState::INVALID_PARAMETER_VALUE, pos, message);
                }
                Type::numeric(*precision as i32, scale as i32).modifier
            }
            (_, oid::BIT | oid::VARBIT) => {
                return fail(SqlState::INVALID_PARAMETER_VALUE, pos, "invalid type modifier");
            }
            ([digits], oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ) => {
                (*digits).clamp(0, 6) as i32
            }
            ([digits], oid::INTERVAL) => (name.fields.unwrap_or(0x7fff) << 16) | (*digits).clamp(0, 6) as i32,
            _ => {
                let message = format!("type modifier is not allowed for type \"{}\"", name.name.last());
                return fail(SqlState::SYNTAX_ERROR, pos, message);
            }
        };
        if !name.array {
            return Ok(Type { oid: base, modifier });
        }
        match self.types().array_of(base) {
            0 => {
                let message =
                    format!("could not find array type for data type {}", type_text(self.types(), base));
                fail(SqlState::UNDEFINED_OBJECT, pos, message)
            }
            array => Ok(Type { oid: array, modifier }),
        }
    }

    fn base_type(&self, name: &TypeName) -> Result<Oid> {
        let last = name.name.last();
        let catalog = matches!(name.name.schema(), None | Some("pg_catalog"));
        if catalog && let Some(found) = catalog_type(last) {
            return Ok(found.oid);
        }
        let found = match name.name.schema() {
            Some(schema) => self.store.schema(schema).and_then(|schema| self.store.type_named(schema, last)),
            None => self.schemas().into_iter().find_map(|schema| self.store.type_named(schema, last)),
        };
        if let Some(object) = found {
            self.spelled(name.name.pos, Meant::Type(object.oid()));
            return Ok(object.oid());
        }
        let array = last.strip_prefix('_').unwrap_or(last);
        if array != last {
            let mut element = name.clone();
            element.name.parts = vec![array.to_string()];
            if let Ok(base) = self.base_type(&element) {
                return Ok(self.types().array_of(base));
            }
        }
        let shown = name.name.shown();
        fail(SqlState::UNDEFINED_OBJECT, name.name.pos, format!("type \"{shown}\" does not exist"))
    }
}

/// By its name in the catalog only: SQL's own names have become those already.
pub(crate) fn catalog_type(name: &str) -> Option<&'static TypeInfo> {
    match builtin_by_name(name) {
        Some(info) if info.name == name => Some(info),
        _ => builtin_types().find(|info| info.name == name),
    }
}

/// A type's name as messages print it.
pub(crate) fn type_text(types: &dyn Types, oid: Oid) -> String {
    crate::types::text_of_types(types, &[oid])
}

/// With its modifier.
pub(crate) fn full_type_text(types: &dyn Types, ty: Type) -> String {
    format_builtin(ty).unwrap_or_else(|| type_text(types, ty.oid))
}
