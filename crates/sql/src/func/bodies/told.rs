//! Records of documents, in the columns that the statement tells: `json_to_record(set)` and the jsonb ones.

use crate::error::{Result, SqlError, SqlState};
use crate::func::context::EvalContext;
use crate::types::json::{self, Json};
use crate::types::value::{Array, Dimension, Value};
use crate::types::{Type, Types, oid, text};

/// The rows of such a function; `None` for another one.
pub fn told_rows(
    ctx: &EvalContext<'_>,
    source: &str,
    argument: &Value,
    columns: &[(String, Type)],
) -> Option<Result<Vec<Vec<Value>>>> {
    let (is_set, name) = match source {
        "json_to_record" | "jsonb_to_record" => (false, source),
        "json_to_recordset" | "jsonb_to_recordset" => (true, source),
        _ => return None,
    };
    Some(rows(ctx, is_set, name, argument, columns))
}

fn rows(
    ctx: &EvalContext<'_>,
    is_set: bool,
    name: &str,
    argument: &Value,
    columns: &[(String, Type)],
) -> Result<Vec<Vec<Value>>> {
    let document = match argument {
        Value::Jsonb(document) => (**document).clone(),
        Value::Json(text) => json::parse(text)?,
        _ => return Ok(if is_set { Vec::new() } else { vec![vec![Value::Null; columns.len()]] }),
    };
    let wrong = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let record = |document: &Json| match document {
        Json::Object(members) => columns
            .iter()
            .map(|(name, ty)| match members.iter().find(|(key, _)| key == name) {
                Some((_, value)) => value_of(ctx, value, *ty, name),
                None => Ok(Value::Null),
            })
            .collect(),
        _ if is_set => Err(wrong(format!("argument of {name} must be an array of objects"))),
        _ => Err(wrong(format!("cannot call {name} on a non-object"))),
    };
    match &document {
        Json::Array(elements) if is_set => elements.iter().map(record).collect(),
        _ if is_set => Err(wrong(format!("cannot call {name} on a non-array"))),
        Json::Object(_) => Ok(vec![record(&document)?]),
        Json::Array(_) => Err(wrong(format!("cannot call {name} on an array"))),
        _ => Err(wrong(format!("cannot call {name} on a scalar"))),
    }
}

/// A part of a document as a value of a type.
fn value_of(ctx: &EvalContext<'_>, document: &Json, ty: Type, key: &str) -> Result<Value> {
    let written = |document: &Json| {
        let mut to = String::new();
        document.write(&mut to);
        to
    };
    let value = match (document, ctx.element_of(ty.oid)) {
        (Json::Null, _) => return Ok(Value::Null),
        (document, _) if matches!(ty.oid, oid::JSON | oid::JSONB) => {
            text::input(ctx, Type::of(ty.oid), &written(document))?
        }
        (Json::Array(elements), element) if element != 0 => {
            let mut dimensions = Vec::new();
            let mut values = Vec::new();
            flatten(
                ctx,
                elements,
                0,
                Type { oid: element, modifier: ty.modifier },
                key,
                (&mut dimensions, &mut values),
            )?;
            let dimensions = if values.is_empty() { Vec::new() } else { dimensions };
            return Ok(Value::Array(std::sync::Arc::new(Array { element, dimensions, elements: values })));
        }
        (Json::String(text), element) if element != 0 && !text.starts_with('{') => {
            let message = "expected JSON array";
            let hint = format!("See the value of key \"{key}\".");
            return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).hint(hint));
        }
        (Json::String(string), _) => text::input(ctx, Type::of(ty.oid), string)?,
        (document, _) => text::input(ctx, Type::of(ty.oid), &written(document))?,
    };
    crate::types::cast::cast_value(ctx, &crate::func::CastPath::Relabel, ty.oid, ty, false, &value)
}

fn flatten(
    ctx: &EvalContext<'_>,
    elements: &[Json],
    depth: usize,
    element: Type,
    key: &str,
    (dimensions, values): (&mut Vec<Dimension>, &mut Vec<Value>),
) -> Result<()> {
    let len = elements.len() as i32;
    match dimensions.get(depth) {
        None => dimensions.push(Dimension { len, lower: 1 }),
        Some(known) if known.len != len => {
            let message = "malformed JSON array";
            let detail = "Multidimensional arrays must have sub-arrays with matching dimensions.";
            return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).detail(detail));
        }
        Some(_) => {}
    }
    for part in elements {
        match part {
            Json::Array(inner) if !matches!(element.oid, oid::JSON | oid::JSONB) => {
                flatten(ctx, inner, depth + 1, element, key, (dimensions, values))?;
            }
            part => values.push(value_of(ctx, part, element, key)?),
        }
    }
    Ok(())
}
