//! Carrying out casts.

use std::sync::Arc;

use super::registry::function;
use super::resolve::CastPath;
use crate::error::Result;
use crate::types::context::EvalContext;
use crate::types::modifier::apply_modifier;
use crate::types::value::{Array, Value};
use crate::types::{Oid, Type, TypeKind, Types, array, oid, text};

/// Casts a value of type `source` to `target` (with its modifier) by `path`.
///
/// `explicit` is whether the cast is written: then too long texts are cut instead of refused. Checks of a
/// domain are not made here.
///
/// # Errors
/// What the cast finds wrong with the value.
pub fn cast_value(
    ctx: &EvalContext<'_>,
    path: &CastPath,
    source: Oid,
    target: Type,
    explicit: bool,
    value: &Value,
) -> Result<Value> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    let base = base_type(ctx, target);
    let cast = match path {
        CastPath::Relabel => relabel(ctx, base.oid, value.clone()),
        CastPath::Function(function_oid) => {
            let function = function(*function_oid).expect("a cast's function is in the table");
            let types = [source, oid::INT4, oid::BOOL];
            let modifier = [Value::Int4(base.modifier), Value::Bool(explicit)];
            let [modifier, explicit] = modifier;
            let arguments = [value.clone(), modifier, explicit];
            let count = function.arguments.len();
            let made = function.call(&ctx.for_call(&types[..count], base.oid), &arguments[..count])?;
            // It may give another type of the same bits: int2 becomes oid by way of int4.
            relabel(ctx, base.oid, made)
        }
        CastPath::InputOutput => {
            // The length is applied below, where an explicit cast may cut.
            let is_text = matches!(base.oid, oid::VARCHAR | oid::BPCHAR);
            let to = if is_text { Type::of(oid::TEXT) } else { base };
            text::input(ctx, to, &text::output(ctx, source, value)?)?
        }
        CastPath::Array(inner) => {
            let Value::Array(array) = value else { panic!("an array was expected, not {value:?}") };
            let element = array::element_of(ctx, base.oid);
            let element = Type { oid: element, modifier: base.modifier };
            let cast = |value| cast_value(ctx, inner, array.element, element, explicit, value);
            let elements: Result<Vec<Value>> = array.elements.iter().map(cast).collect();
            let dimensions = array.dimensions.clone();
            Value::Array(Arc::new(Array { element: element.oid, dimensions, elements: elements? }))
        }
    };
    apply_modifier(ctx, base, explicit, cast)
}

/// The type under a domain, with the modifier that is asked for.
fn base_type(types: &dyn Types, ty: Type) -> Type {
    match types.type_info(ty.oid) {
        Some(info) if info.kind == TypeKind::Domain => Type { oid: types.base_of(ty.oid), ..ty },
        _ => ty,
    }
}

/// The same bits as another type's value.
fn relabel(ctx: &EvalContext<'_>, target: Oid, value: Value) -> Value {
    match (target, value) {
        (oid::OID | oid::XID | oid::REGPROC | oid::REGCLASS | oid::REGTYPE, Value::Int4(n)) => {
            Value::Oid(n as Oid)
        }
        (
            oid::REGPROCEDURE..=oid::REGOPERATOR | oid::REGROLE | oid::REGNAMESPACE | oid::REGCOLLATION,
            Value::Int4(n),
        ) => Value::Oid(n as Oid),
        (oid::INT4, Value::Oid(n)) => Value::Int4(n as i32),
        (oid::BYTEA, Value::Text(text)) => Value::bytea(text.as_bytes()),
        (_, Value::Array(array)) => match array::element_of(ctx, target) {
            element if element == 0 || element == array.element => Value::Array(array),
            element => {
                let elements =
                    array.elements.iter().map(|value| relabel(ctx, element, value.clone())).collect();
                Value::Array(Arc::new(Array { element, dimensions: array.dimensions.clone(), elements }))
            }
        },
        (_, value) => value,
    }
}
