//! Operators and functions of jsonb.

use std::sync::Arc;

use super::json::{kind_name, wrong_kind};
use super::{bool_of, document, int4, invalid_parameter, rows, scalar, set, text, texts};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::stop;
use crate::types::context::SetRows;
use crate::types::json::{Json, object};
use crate::types::value::Value;

fn made(document: Json) -> Result<Value> {
    Ok(Value::Jsonb(Arc::new(document)))
}

fn found(document: Option<&Json>, as_text: bool) -> Result<Value> {
    match document {
        None => Ok(Value::Null),
        Some(document) if as_text => Ok(document.unquoted().map_or(Value::Null, Value::text)),
        Some(document) => made(document.clone()),
    }
}

/// An element; a plain value is its own only one.
fn element(value: &Value, at: i32) -> Option<&Json> {
    match document(value) {
        Json::Object(_) => None,
        array @ Json::Array(_) => array.element(i64::from(at)),
        plain => matches!(at, 0 | -1).then_some(plain),
    }
}

fn follow<'a>(start: &'a Json, path: &Value) -> Option<&'a Json> {
    let mut at = start;
    for step in texts(path) {
        let step = step?;
        at = match at {
            Json::Object(_) => at.get(step)?,
            Json::Array(_) => at.element(step.trim().parse().ok()?)?,
            _ => return None,
        };
    }
    Some(at)
}

pub(super) fn find(source: &str) -> Option<Body> {
    reading(source).or_else(|| asking(source)).or_else(|| changing(source)).or_else(|| casting(source))
}

fn reading(source: &str) -> Option<Body> {
    match source {
        "jsonb_object_field" => scalar(|_, a| found(document(&a[0]).get(text(&a[1])), false)),
        "jsonb_object_field_text" => scalar(|_, a| found(document(&a[0]).get(text(&a[1])), true)),
        "jsonb_array_element" => scalar(|_, a| found(element(&a[0], int4(&a[1])), false)),
        "jsonb_array_element_text" => scalar(|_, a| found(element(&a[0], int4(&a[1])), true)),
        "jsonb_extract_path" => scalar(|_, a| found(follow(document(&a[0]), &a[1]), false)),
        "jsonb_extract_path_text" => scalar(|_, a| found(follow(document(&a[0]), &a[1]), true)),
        "jsonb_array_length" => scalar(|_, a| match document(&a[0]) {
            Json::Array(elements) => Ok(Value::Int4(elements.len() as i32)),
            other => Err(wrong_kind("get array length of", "array", other.kind())),
        }),
        "jsonb_typeof" => scalar(|_, a| Ok(Value::text(kind_name(document(&a[0]).kind())))),
        "jsonb_pretty" => scalar(|_, a| {
            let mut pretty = String::new();
            document(&a[0]).write_pretty(0, &mut pretty);
            Ok(Value::text(pretty))
        }),
        "jsonb_each" => set(|_, a| each(document(&a[0]), false)),
        "jsonb_each_text" => set(|_, a| each(document(&a[0]), true)),
        "jsonb_array_elements" => set(|_, a| elements(document(&a[0]), false)),
        "jsonb_array_elements_text" => set(|_, a| elements(document(&a[0]), true)),
        "jsonb_object_keys" => set(|_, a| match document(&a[0]) {
            Json::Object(members) => rows(members.iter().map(|(key, _)| Value::text(key.as_str())).collect()),
            other => Err(wrong_kind("call jsonb_object_keys on", "object", other.kind())),
        }),
        _ => None,
    }
}

fn each(document: &Json, as_text: bool) -> Result<SetRows> {
    let Json::Object(members) = document else {
        let function = if as_text { "jsonb_each_text" } else { "jsonb_each" };
        return Err(invalid_parameter(format!("cannot call {function} on a non-object")));
    };
    let row =
        |(key, value): &(String, Json)| Ok(vec![Value::text(key.as_str()), found(Some(value), as_text)?]);
    let rows: Result<Vec<Vec<Value>>> = members.iter().map(row).collect();
    Ok(Box::new(rows?.into_iter().map(Ok)))
}

fn elements(document: &Json, as_text: bool) -> Result<SetRows> {
    match document {
        Json::Array(elements) => {
            let values: Result<Vec<Value>> = elements.iter().map(|e| found(Some(e), as_text)).collect();
            rows(values?)
        }
        Json::Object(_) => Err(invalid_parameter("cannot extract elements from an object")),
        _ => Err(invalid_parameter("cannot extract elements from a scalar")),
    }
}

/// `@>`: whether `whole` has all that `part` has.
fn contains(whole: &Json, part: &Json) -> Result<bool> {
    Ok(match (whole, part) {
        (Json::Object(_), Json::Object(members)) => {
            for (key, part) in members.iter() {
                let Some(whole) = whole.get(key) else { return Ok(false) };
                if !contains(whole, part)? {
                    return Ok(false);
                }
            }
            true
        }
        (Json::Array(elements), Json::Array(parts)) => {
            for part in parts.iter() {
                stop::check()?;
                if !has_element(elements, part)? {
                    return Ok(false);
                }
            }
            true
        }
        // An array contains a plain value as if that were an array of one, at the top only.
        (Json::Array(elements), part @ (Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_))) => {
            elements.contains(part)
        }
        (whole, part) => whole == part,
    })
}

fn has_element(elements: &[Json], part: &Json) -> Result<bool> {
    for element in elements {
        let has = match (element, part) {
            (Json::Array(_), Json::Array(_)) | (Json::Object(_), Json::Object(_)) => contains(element, part)?,
            _ => element == part,
        };
        if has {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_key(document: &Json, key: &str) -> bool {
    match document {
        Json::Object(_) => document.get(key).is_some(),
        Json::Array(elements) => {
            elements.iter().any(|element| matches!(element, Json::String(s) if s == key))
        }
        Json::String(text) => text == key,
        _ => false,
    }
}

fn asking(source: &str) -> Option<Body> {
    match source {
        "jsonb_contains" => scalar(|_, a| contains(document(&a[0]), document(&a[1])).map(Value::Bool)),
        "jsonb_contained" => scalar(|_, a| contains(document(&a[1]), document(&a[0])).map(Value::Bool)),
        "jsonb_exists" => scalar(|_, a| Ok(Value::Bool(has_key(document(&a[0]), text(&a[1]))))),
        "jsonb_exists_any" => scalar(|_, a| {
            Ok(Value::Bool(texts(&a[1]).into_iter().flatten().any(|key| has_key(document(&a[0]), key))))
        }),
        "jsonb_exists_all" => scalar(|_, a| {
            Ok(Value::Bool(texts(&a[1]).into_iter().flatten().all(|key| has_key(document(&a[0]), key))))
        }),
        _ => None,
    }
}

fn concat(a: &Json, b: &Json) -> Result<Json> {
    Ok(match (a, b) {
        (Json::Object(a), Json::Object(b)) => object(a.iter().chain(b).cloned().collect()),
        _ => {
            let listed = |document: &Json| match document {
                Json::Array(elements) => elements.clone(),
                other => vec![other.clone()],
            };
            Json::Array([listed(a), listed(b)].concat())
        }
    })
}

fn delete_key(document: &Json, keys: &[&str]) -> Result<Json> {
    Ok(match document {
        Json::Object(members) => {
            Json::Object(members.iter().filter(|(key, _)| !keys.contains(&key.as_str())).cloned().collect())
        }
        Json::Array(elements) => {
            let is_key = |e: &&Json| matches!(e, Json::String(text) if keys.contains(&text.as_str()));
            Json::Array(elements.iter().filter(|e| !is_key(e)).cloned().collect())
        }
        _ => return Err(invalid_parameter("cannot delete from scalar")),
    })
}

/// What is done at the end of a path.
#[derive(Clone, Copy, PartialEq)]
enum Change<'a> {
    Delete,
    /// Sets the value; creates it if the flag says so.
    Set(&'a Json, bool),
    /// Inserts in front of the place or behind it.
    Insert(&'a Json, bool),
}

fn change(document: &Json, path: &[Option<&str>], depth: usize, what: Change<'_>) -> Result<Json> {
    let Some((step, rest)) = path.split_first() else { return Ok(document.clone()) };
    let Some(step) = step else {
        let message = format!("path element at position {} is null", depth + 1);
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
    };
    match document {
        Json::Object(members) => change_object(members, step, rest, depth, what),
        Json::Array(elements) => change_array(elements, step, rest, depth, what),
        other => Ok(other.clone()),
    }
}

fn change_object(
    members: &[(String, Json)],
    step: &str,
    rest: &[Option<&str>],
    depth: usize,
    what: Change<'_>,
) -> Result<Json> {
    let mut members = members.to_vec();
    let at = members.iter().position(|(key, _)| key == step);
    match (at, rest.is_empty(), what) {
        (Some(at), true, Change::Delete) => drop(members.remove(at)),
        (Some(at), true, Change::Set(value, _)) => members[at].1 = value.clone(),
        (Some(_), true, Change::Insert(..)) => {
            return Err(invalid_parameter("cannot replace existing key")
                .hint("Try using the function jsonb_set to replace key value."));
        }
        (None, true, Change::Set(value, true) | Change::Insert(value, _)) => {
            members.push((step.to_string(), value.clone()));
        }
        (Some(at), false, _) => members[at].1 = change(&members[at].1, rest, depth + 1, what)?,
        _ => {}
    }
    Ok(object(members))
}

fn change_array(
    elements: &[Json],
    step: &str,
    rest: &[Option<&str>],
    depth: usize,
    what: Change<'_>,
) -> Result<Json> {
    let mut elements = elements.to_vec();
    let given: i64 = step.trim().parse().map_err(|_| {
        let message = format!("path element at position {} is not an integer: \"{step}\"", depth + 1);
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
    })?;
    let len = elements.len() as i64;
    let at = if given < 0 { given + len } else { given };
    let inside = (0..len).contains(&at);
    match (rest.is_empty(), what) {
        (false, _) if inside => {
            let at = at as usize;
            elements[at] = change(&elements[at], rest, depth + 1, what)?;
        }
        (false, _) => {}
        (true, Change::Delete) if inside => drop(elements.remove(at as usize)),
        (true, Change::Delete) => {}
        (true, Change::Set(value, _)) if inside => elements[at as usize] = value.clone(),
        (true, Change::Set(value, true)) => elements.insert(at.clamp(0, len) as usize, value.clone()),
        (true, Change::Set(..)) => {}
        (true, Change::Insert(value, after)) => {
            let at = if inside { at + i64::from(after) } else { at };
            elements.insert(at.clamp(0, len) as usize, value.clone());
        }
    }
    Ok(Json::Array(elements))
}

fn at_path(a: &[Value], what: Change<'_>) -> Result<Value> {
    let start = document(&a[0]);
    if !matches!(start, Json::Object(_) | Json::Array(_)) {
        let verb = if what == Change::Delete { "delete path in" } else { "set path in" };
        return Err(invalid_parameter(format!("cannot {verb} scalar")));
    }
    let is_empty = matches!(start, Json::Array(elements) if elements.is_empty());
    if is_empty && matches!(what, Change::Delete | Change::Set(_, false)) {
        return made(start.clone());
    }
    made(change(start, &texts(&a[1]), 0, what)?)
}

fn changing(source: &str) -> Option<Body> {
    match source {
        "jsonb_concat" => scalar(|_, a| made(concat(document(&a[0]), document(&a[1]))?)),
        "jsonb_delete" => scalar(|_, a| made(delete_key(document(&a[0]), &[text(&a[1])])?)),
        "jsonb_delete_array" => scalar(|_, a| {
            let keys: Vec<&str> = texts(&a[1]).into_iter().flatten().collect();
            made(delete_key(document(&a[0]), &keys)?)
        }),
        "jsonb_delete_idx" => scalar(|_, a| match document(&a[0]) {
            Json::Array(elements) => {
                let at = i64::from(int4(&a[1]));
                let at = if at < 0 { at + elements.len() as i64 } else { at };
                let kept = elements.iter().enumerate().filter(|(i, _)| *i as i64 != at);
                made(Json::Array(kept.map(|(_, element)| element.clone()).collect()))
            }
            Json::Object(_) => Err(invalid_parameter("cannot delete from object using integer index")),
            _ => Err(invalid_parameter("cannot delete from scalar")),
        }),
        "jsonb_delete_path" => scalar(|_, a| at_path(a, Change::Delete)),
        "jsonb_set" => scalar(|_, a| at_path(a, Change::Set(document(&a[2]), a.get(3).is_none_or(bool_of)))),
        "jsonb_insert" => {
            scalar(|_, a| at_path(a, Change::Insert(document(&a[2]), a.get(3).is_some_and(bool_of))))
        }
        "jsonb_set_lax" => scalar(set_lax),
        "jsonb_strip_nulls" => scalar(|_, a| made(strip_nulls(document(&a[0])))),
        _ => None,
    }
}

/// `jsonb_set` with a choice of what a NULL does.
fn set_lax(_: &crate::types::context::EvalContext<'_>, a: &[Value]) -> Result<Value> {
    if a[0].is_null() || a[1].is_null() || a[3].is_null() {
        return Ok(Value::Null);
    }
    if a[4].is_null() {
        let message = "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \
                       \"raise_exception\"";
        return Err(invalid_parameter(message));
    }
    let creates = bool_of(&a[3]);
    if !a[2].is_null() {
        return at_path(a, Change::Set(document(&a[2]), creates));
    }
    match text(&a[4]) {
        "raise_exception" => {
            let error = SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "JSON value must not be null");
            let detail = "Exception was raised because null_value_treatment is \"raise_exception\".";
            Err(error.detail(detail).hint(
                "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL \
                 is not passed.",
            ))
        }
        "use_json_null" => at_path(a, Change::Set(&Json::Null, creates)),
        "delete_key" => at_path(a, Change::Delete),
        "return_target" => Ok(a[0].clone()),
        _ => Err(invalid_parameter(
            "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \
             \"raise_exception\"",
        )),
    }
}

fn strip_nulls(document: &Json) -> Json {
    match document {
        Json::Object(members) => {
            let kept = members.iter().filter(|(_, value)| *value != Json::Null);
            Json::Object(kept.map(|(key, value)| (key.clone(), strip_nulls(value))).collect())
        }
        Json::Array(elements) => Json::Array(elements.iter().map(strip_nulls).collect()),
        other => other.clone(),
    }
}

#[cold]
fn no_cast(document: &Json, name: &str) -> SqlError {
    let message = format!("cannot cast jsonb {} to type {name}", kind_name(document.kind()));
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn casting(source: &str) -> Option<Body> {
    fn number(a: &[Value], name: &str, source: &str) -> Result<Value> {
        let Json::Number(number) = document(&a[0]) else { return Err(no_cast(document(&a[0]), name)) };
        let function = super::numbers::find(source);
        let Some(Body::Scalar(cast)) = function else { panic!("{source} is a cast") };
        let settings = crate::types::context::Settings::default();
        let system = crate::types::context::NoSystem;
        let ctx = crate::types::context::EvalContext::new(&settings, &system, 0);
        cast(&ctx, &[Value::Numeric(number.clone())])
    }
    match source {
        "jsonb_bool" => scalar(|_, a| match document(&a[0]) {
            Json::Bool(b) => Ok(Value::Bool(*b)),
            other => Err(no_cast(other, "boolean")),
        }),
        "jsonb_numeric" => scalar(|_, a| match document(&a[0]) {
            Json::Number(number) => Ok(Value::Numeric(number.clone())),
            other => Err(no_cast(other, "numeric")),
        }),
        "jsonb_int2" => scalar(|_, a| number(a, "smallint", "numeric_int2")),
        "jsonb_int4" => scalar(|_, a| number(a, "integer", "numeric_int4")),
        "jsonb_int8" => scalar(|_, a| number(a, "bigint", "numeric_int8")),
        "jsonb_float4" => scalar(|_, a| number(a, "real", "numeric_float4")),
        "jsonb_float8" => scalar(|_, a| number(a, "double precision", "numeric_float8")),
        _ => None,
    }
}
