//! Making JSON of values: to_json(b), row_to_json, json(b)_build_object and the like.

use std::sync::Arc;

use super::{array, bool_of, invalid_parameter, scalar, texts};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::context::EvalContext;
use crate::types::datetime::date_style::{DateStyle, write_date, write_timestamp, write_timestamptz};
use crate::types::json::{self, Json, write_string};
use crate::types::value::{Array, Dimension, Value};
use crate::types::{Oid, oid, text};

/// Appends a value as JSON; arrays over several lines if `pretty`.
pub(super) fn write(
    ctx: &EvalContext<'_>,
    ty: Oid,
    value: &Value,
    pretty: bool,
    to: &mut String,
) -> Result<()> {
    match value {
        Value::Null => to.push_str("null"),
        Value::Bool(b) => to.push_str(if *b { "true" } else { "false" }),
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) if ty != oid::MONEY => {
            text::write(ctx, ty, value, to)?
        }
        Value::Float4(_) | Value::Float8(_) | Value::Numeric(_) => {
            let number = text::output(ctx, ty, value)?;
            let is_json = !number.contains(['N', 'I', 'n', 'i']);
            if is_json { to.push_str(&number) } else { write_string(&number, to) }
        }
        Value::Json(_) | Value::Jsonb(_) => text::write(ctx, ty, value, to)?,
        // JSON has its own form, whatever DateStyle says.
        Value::Date(date) => {
            let mut written = String::new();
            write_date(*date, DateStyle::default(), &mut written);
            write_string(&written, to);
        }
        Value::Timestamp(_) | Value::Timestamptz(_) => {
            let mut written = String::new();
            match value {
                Value::Timestamptz(utc_us) => {
                    write_timestamptz(*utc_us, &ctx.settings.time_zone, DateStyle::default(), &mut written);
                }
                Value::Timestamp(micros) => write_timestamp(*micros, DateStyle::default(), &mut written),
                _ => unreachable!("one of the two"),
            }
            if let Some(blank) = written.find(' ') {
                written.replace_range(blank..blank + 1, "T");
            }
            // ISO 8601 has minutes in every offset.
            let hours_only = matches!(value, Value::Timestamptz(_))
                && written.len() > 3
                && matches!(written.as_bytes()[written.len() - 3], b'+' | b'-');
            written.push_str(if hours_only { ":00" } else { "" });
            write_string(&written, to);
        }
        Value::Array(array) if !matches!(ty, oid::INT2VECTOR | oid::OIDVECTOR) => {
            let mut elements = array.elements.iter();
            if array.dimensions.is_empty() {
                to.push_str("[]");
            } else {
                write_level(ctx, array, &array.dimensions, &mut elements, pretty, to)?;
            }
        }
        Value::Array(array) => {
            let mut elements = array.elements.iter();
            write_level(ctx, array, &array.dimensions, &mut elements, false, to)?;
        }
        Value::Record(record) => {
            to.push('{');
            for (i, (name, value)) in record.names.iter().zip(&record.values).enumerate() {
                to.push_str(if i == 0 {
                    ""
                } else if pretty {
                    ",\n "
                } else {
                    ","
                });
                write_string(name, to);
                to.push(':');
                write(ctx, record.types[i], value, false, to)?;
            }
            to.push('}');
        }
        other => write_string(&text::output(ctx, ty, other)?, to),
    }
    Ok(())
}

fn write_level(
    ctx: &EvalContext<'_>,
    array: &Array,
    dimensions: &[Dimension],
    elements: &mut std::slice::Iter<'_, Value>,
    pretty: bool,
    to: &mut String,
) -> Result<()> {
    to.push('[');
    for i in 0..dimensions[0].len {
        if i > 0 {
            to.push_str(if pretty { ",\n " } else { "," });
        }
        if dimensions.len() > 1 {
            write_level(ctx, array, &dimensions[1..], elements, false, to)?;
        } else {
            let element = elements.next().expect("as many elements as the dimensions say");
            write(ctx, array.element, element, false, to)?;
        }
    }
    to.push(']');
    Ok(())
}

/// A value as a document.
pub(super) fn document_of(ctx: &EvalContext<'_>, ty: Oid, value: &Value) -> Result<Json> {
    Ok(match value {
        Value::Jsonb(document) => (**document).clone(),
        Value::Numeric(number) if number.is_finite() => Json::Number(number.clone()),
        other => {
            let mut written = String::new();
            write(ctx, ty, other, false, &mut written)?;
            json::parse(&written)?
        }
    })
}

fn type_of(ctx: &EvalContext<'_>, argument: usize) -> Oid {
    ctx.argument_types.get(argument).copied().unwrap_or(oid::TEXT)
}

/// A value as the key of an object.
pub(super) fn key(ctx: &EvalContext<'_>, ty: Oid, value: &Value, place: usize) -> Result<String> {
    match value {
        Value::Null => {
            let message = format!("argument {place} cannot be null");
            Err(invalid_parameter(message).hint("Object keys should be text."))
        }
        Value::Array(_) | Value::Record(_) | Value::Json(_) | Value::Jsonb(_) => {
            let message = "key value must be scalar, not array, composite, or json";
            Err(invalid_parameter(message))
        }
        Value::Bool(value) => Ok(if *value { "true" } else { "false" }.to_string()),
        value => text::output(ctx, ty, value),
    }
}

#[cold]
fn uneven(function: &str) -> SqlError {
    invalid_parameter("argument list must have even number of elements")
        .hint(format!("The arguments of {function}() must consist of alternating keys and values."))
}

fn build_object(ctx: &EvalContext<'_>, a: &[Value]) -> Result<String> {
    if !a.len().is_multiple_of(2) {
        return Err(uneven("json_build_object"));
    }
    let mut made = String::from("{");
    for i in (0..a.len()).step_by(2) {
        made.push_str(if i == 0 { "" } else { ", " });
        write_string(&key(ctx, type_of(ctx, i), &a[i], i + 1)?, &mut made);
        made.push_str(" : ");
        write(ctx, type_of(ctx, i + 1), &a[i + 1], false, &mut made)?;
    }
    Ok(made + "}")
}

/// Keys and values of `json_object('{a,1,b,2}')` and `json_object('{a,b}', '{1,2}')`.
fn pairs(a: &[Value]) -> Result<Vec<(String, Option<String>)>> {
    let dimension = |value: &Value| array(value).dimensions.len();
    let bad = |message: &str| SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message);
    let keys_and_values: Vec<(Option<&str>, Option<&str>)> = match a {
        [both] => {
            let all = texts(both);
            match (dimension(both), array(both).dimensions.last().map(|d| d.len)) {
                (0, _) => {}
                (1, Some(len)) if len % 2 != 0 => {
                    return Err(bad("array must have even number of elements"));
                }
                (1, _) => {}
                (2, Some(2)) => {}
                (2, _) => return Err(bad("array must have two columns")),
                _ => return Err(bad("wrong number of array subscripts")),
            }
            all.chunks(2).map(|pair| (pair[0], pair[1])).collect()
        }
        _ => {
            if dimension(&a[0]) > 1 || dimension(&a[1]) > 1 {
                return Err(bad("wrong number of array subscripts"));
            }
            let (keys, values) = (texts(&a[0]), texts(&a[1]));
            if keys.len() != values.len() {
                return Err(bad("mismatched array dimensions"));
            }
            keys.into_iter().zip(values).collect()
        }
    };
    let null_key =
        || SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key");
    let pair = |(key, value): (Option<&str>, Option<&str>)| {
        Ok((key.ok_or_else(null_key)?.to_string(), value.map(str::to_string)))
    };
    keys_and_values.into_iter().map(pair).collect()
}

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "to_json" | "array_to_json" | "row_to_json" => scalar(|ctx, a| {
            let mut made = String::new();
            write(ctx, type_of(ctx, 0), &a[0], false, &mut made)?;
            Ok(Value::Json(made.into()))
        }),
        "array_to_json_pretty" | "row_to_json_pretty" => scalar(|ctx, a| {
            let mut made = String::new();
            write(ctx, type_of(ctx, 0), &a[0], bool_of(&a[1]), &mut made)?;
            Ok(Value::Json(made.into()))
        }),
        "to_jsonb" => scalar(|ctx, a| Ok(Value::Jsonb(Arc::new(document_of(ctx, type_of(ctx, 0), &a[0])?)))),
        "json_build_array" | "json_build_array_noargs" => scalar(|ctx, a| {
            let mut made = String::from("[");
            for (i, value) in a.iter().enumerate() {
                made.push_str(if i == 0 { "" } else { ", " });
                write(ctx, type_of(ctx, i), value, false, &mut made)?;
            }
            Ok(Value::Json((made + "]").into()))
        }),
        "jsonb_build_array" | "jsonb_build_array_noargs" => scalar(|ctx, a| {
            let elements: Result<Vec<Json>> =
                a.iter().enumerate().map(|(i, value)| document_of(ctx, type_of(ctx, i), value)).collect();
            Ok(Value::Jsonb(Arc::new(Json::Array(elements?))))
        }),
        "json_build_object" | "json_build_object_noargs" => {
            scalar(|ctx, a| Ok(Value::Json(build_object(ctx, a)?.into())))
        }
        "jsonb_build_object" | "jsonb_build_object_noargs" => scalar(|ctx, a| {
            if !a.len().is_multiple_of(2) {
                return Err(uneven("jsonb_build_object"));
            }
            let mut members = Vec::new();
            for i in (0..a.len()).step_by(2) {
                if a[i].is_null() {
                    return Err(invalid_parameter(format!("argument {}: key must not be null", i + 1)));
                }
                let name = key(ctx, type_of(ctx, i), &a[i], i + 1)?;
                members.push((name, document_of(ctx, type_of(ctx, i + 1), &a[i + 1])?));
            }
            Ok(Value::Jsonb(Arc::new(json::object(members))))
        }),
        "json_object" | "json_object_two_arg" => scalar(|_, a| {
            let mut made = String::from("{");
            for (i, (key, value)) in pairs(a)?.into_iter().enumerate() {
                made.push_str(if i == 0 { "" } else { ", " });
                write_string(&key, &mut made);
                made.push_str(" : ");
                match value {
                    None => made.push_str("null"),
                    Some(value) => write_string(&value, &mut made),
                }
            }
            Ok(Value::Json((made + "}").into()))
        }),
        "jsonb_object" | "jsonb_object_two_arg" => scalar(|_, a| {
            let member =
                |(key, value): (String, Option<String>)| (key, value.map_or(Json::Null, Json::String));
            Ok(Value::Jsonb(Arc::new(json::object(pairs(a)?.into_iter().map(member).collect()))))
        }),
        _ => None,
    }
}
