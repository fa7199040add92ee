//! The binary form of values: what drivers send and receive.

use super::value::Value;
use super::{Oid, Type};
use crate::error::{Result, SqlError};
use crate::func::EvalContext;

/// The value that bytes from a client mean for a type, brought to its modifier.
///
/// # Errors
/// 22P03 or 08P01: not the bytes of a value of this type.
pub fn receive(_ctx: &EvalContext<'_>, ty: Type, _bytes: &[u8]) -> Result<Value> {
    Err(SqlError::unsupported(format_args!("binary input of type {}", ty.oid)))
}

/// Appends the binary form of a value that is not NULL.
///
/// # Errors
/// 0A000 for a type without binary form.
pub fn send(_ctx: &EvalContext<'_>, ty: Oid, _value: &Value, _to: &mut Vec<u8>) -> Result<()> {
    Err(SqlError::unsupported(format_args!("binary output of type {ty}")))
}
