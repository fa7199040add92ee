//! The text form of values: what a literal means and what a client sees.

use super::value::Value;
use super::{Oid, Type};
use crate::error::{Result, SqlError};
use crate::func::EvalContext;

/// The value that a text means for a type, brought to its modifier.
///
/// # Errors
/// 22P02 and others: not the text of a value of this type.
pub fn input(_ctx: &EvalContext<'_>, ty: Type, _text: &str) -> Result<Value> {
    Err(SqlError::unsupported(format_args!("input of type {}", ty.oid)))
}

/// The text of a value that is not NULL.
///
/// # Errors
/// 0A000 for a type without text form.
pub fn output(ctx: &EvalContext<'_>, ty: Oid, value: &Value) -> Result<String> {
    let mut text = String::new();
    write(ctx, ty, value, &mut text)?;
    Ok(text)
}

/// Appends the text of a value that is not NULL.
///
/// # Errors
/// As [`output`].
pub fn write(_ctx: &EvalContext<'_>, ty: Oid, _value: &Value, _to: &mut String) -> Result<()> {
    Err(SqlError::unsupported(format_args!("output of type {ty}")))
}
