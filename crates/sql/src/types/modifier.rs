//! The modifiers of types (lengths, precisions).

use std::sync::Arc;

use super::context::EvalContext;
use super::value::{Array, Value};
use super::{Type, array, bits, datetime, oid};
use crate::error::{Result, SqlError, SqlState};

/// Brings a value to its type's modifier: pads and cuts texts, rounds numbers and times.
///
/// # Errors
/// 22001 for a text that is too long (and not `explicit`), 22003 for a number that is too large.
pub fn apply_modifier(ctx: &EvalContext<'_>, ty: Type, explicit: bool, value: Value) -> Result<Value> {
    if ty.modifier < 0 {
        return Ok(value);
    }
    Ok(match (ty.oid, value) {
        (oid::VARCHAR, Value::Text(text)) => {
            fit_text(text, ty.modifier - 4, explicit, "character varying").map(Value::Text)?
        }
        (oid::BPCHAR, Value::Text(text)) => {
            let length = (ty.modifier - 4) as usize;
            let text = fit_text(text, ty.modifier - 4, explicit, "character")?;
            let characters = text.chars().count();
            match length.checked_sub(characters) {
                None | Some(0) => Value::Text(text),
                Some(missing) => Value::text(format!("{text}{}", " ".repeat(missing))),
            }
        }
        (oid::BIT | oid::VARBIT, Value::Text(text)) => Value::Text(bits::fit(ty, explicit, text)?),
        (oid::NUMERIC, Value::Numeric(number)) => match ty.precision_scale() {
            Some((precision, scale)) => Value::Numeric(number.fit(precision, scale)?),
            None => Value::Numeric(number),
        },
        (oid::TIMESTAMP, Value::Timestamp(us)) => Value::Timestamp(datetime::round_micros(us, ty.modifier)),
        (oid::TIMESTAMPTZ, Value::Timestamptz(us)) => {
            Value::Timestamptz(datetime::round_micros(us, ty.modifier))
        }
        (oid::TIME, Value::Time(us)) => Value::Time(datetime::round_micros(us, ty.modifier)),
        (oid::TIMETZ, Value::Timetz(us, west)) => {
            Value::Timetz(datetime::round_micros(us, ty.modifier), west)
        }
        (oid::INTERVAL, Value::Interval(interval)) => {
            Value::Interval(datetime::interval::apply_modifier(interval, ty.modifier))
        }
        (array_type, Value::Array(array)) => {
            let element = Type { oid: array::element_of(ctx, array_type), modifier: ty.modifier };
            let fit = |value: &Value| apply_modifier(ctx, element, explicit, value.clone());
            let elements: Result<Vec<Value>> = array.elements.iter().map(fit).collect();
            let dimensions = array.dimensions.clone();
            Value::Array(Arc::new(Array { element: array.element, dimensions, elements: elements? }))
        }
        (_, value) => value,
    })
}

/// A text of at most `length` characters: blanks that are too many are cut, and other characters too if the
/// cast is explicit.
fn fit_text(text: Arc<str>, length: i32, explicit: bool, name: &str) -> Result<Arc<str>> {
    if text.len() <= length as usize {
        return Ok(text);
    }
    let Some((end, _)) = text.char_indices().nth(length as usize) else { return Ok(text) };
    if explicit || text[end..].bytes().all(|b| b == b' ') {
        return Ok(text[..end].into());
    }
    let message = format!("value too long for type {name}({length})");
    Err(SqlError::new(SqlState::STRING_DATA_RIGHT_TRUNCATION, message))
}
