//! Operators and functions of json, which keeps its text: results are pieces of it.

use super::{int4, rows, scalar, set, text, texts};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::context::SetRows;
use crate::types::json::{self, Kind, Span};
use crate::types::value::Value;

/// What a step or the end of a path gives: a piece of the text.
fn piece(text: &str, span: Span) -> Value {
    Value::Json(text[span.start..span.end].into())
}

fn unquoted(text: &str, span: Span) -> Result<Value> {
    Ok(json::unquoted(text, span)?.map_or(Value::Null, Value::text))
}

fn member(whole: &str, key: &str) -> Result<Option<Span>> {
    let members = json::members(whole)?;
    Ok(members.and_then(|members| members.into_iter().rev().find(|(own, _)| own == key)).map(|found| found.1))
}

fn element(whole: &str, at: i64) -> Result<Option<Span>> {
    let Some(elements) = json::elements(whole)? else { return Ok(None) };
    let at = if at < 0 { at + elements.len() as i64 } else { at };
    Ok(usize::try_from(at).ok().and_then(|at| elements.get(at).copied()))
}

/// Follows a path of keys and subscripts.
fn follow(whole: &str, path: &Value) -> Result<Option<Span>> {
    let mut span = json::check(whole)?;
    for step in texts(path) {
        let Some(step) = step else { return Ok(None) };
        let part = &whole[span.start..span.end];
        let next = match span.kind {
            Kind::Object => member(part, step)?,
            Kind::Array => match step.trim().parse() {
                Ok(at) => element(part, at)?,
                Err(_) => None,
            },
            _ => None,
        };
        let Some(next) = next else { return Ok(None) };
        span = Span { kind: next.kind, start: span.start + next.start, end: span.start + next.end };
    }
    Ok(Some(span))
}

fn whole(a: &[Value]) -> &str {
    text(&a[0])
}

fn found(a: &[Value], span: Option<Span>, as_text: bool) -> Result<Value> {
    match span {
        None => Ok(Value::Null),
        Some(span) if as_text => unquoted(whole(a), span),
        Some(span) => Ok(piece(whole(a), span)),
    }
}

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "json_object_field" => scalar(|_, a| found(a, member(whole(a), text(&a[1]))?, false)),
        "json_object_field_text" => scalar(|_, a| found(a, member(whole(a), text(&a[1]))?, true)),
        "json_array_element" => scalar(|_, a| found(a, element(whole(a), i64::from(int4(&a[1])))?, false)),
        "json_array_element_text" => {
            scalar(|_, a| found(a, element(whole(a), i64::from(int4(&a[1])))?, true))
        }
        "json_extract_path" => scalar(|_, a| found(a, follow(whole(a), &a[1])?, false)),
        "json_extract_path_text" => scalar(|_, a| found(a, follow(whole(a), &a[1])?, true)),
        "json_array_length" => scalar(|_, a| match json::elements(whole(a))? {
            Some(elements) => Ok(Value::Int4(elements.len() as i32)),
            None => Err(wrong_kind("get array length of", "array", json::check(whole(a))?.kind)),
        }),
        "json_typeof" => scalar(|_, a| Ok(Value::text(kind_name(json::check(whole(a))?.kind)))),
        "json_each" => set(|_, a| each(a, false)),
        "json_each_text" => set(|_, a| each(a, true)),
        "json_array_elements" => set(|_, a| array_elements(a, false)),
        "json_array_elements_text" => set(|_, a| array_elements(a, true)),
        "json_object_keys" => set(|_, a| match json::members(whole(a))? {
            Some(members) => rows(members.into_iter().map(|(key, _)| Value::text(key)).collect()),
            None => Err(wrong_kind("call json_object_keys on", "object", json::check(whole(a))?.kind)),
        }),
        "json_strip_nulls" => scalar(|_, a| {
            let mut made = String::new();
            strip_nulls(whole(a), &mut made)?;
            Ok(Value::Json(made.into()))
        }),
        _ => None,
    }
}

/// What `json_typeof` calls it.
pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Bool => "boolean",
        Kind::Number => "number",
        Kind::String => "string",
        Kind::Array => "array",
        Kind::Object => "object",
    }
}

#[cold]
pub(super) fn wrong_kind(verb: &str, wanted: &str, kind: Kind) -> SqlError {
    let other = match kind {
        Kind::Array => "an array",
        Kind::Object => "a non-array",
        _ => "a scalar",
    };
    let message = match wanted {
        "array" if kind == Kind::Object => format!("cannot {verb} a non-array"),
        _ => format!("cannot {verb} {other}"),
    };
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn each(a: &[Value], as_text: bool) -> Result<SetRows> {
    let Some(members) = json::members(whole(a))? else {
        let kind = json::check(whole(a))?.kind;
        return Err(wrong_kind("deconstruct", "object", kind));
    };
    let row = |(key, span): (String, Span)| Ok(vec![Value::text(key), found(a, Some(span), as_text)?]);
    let rows: Result<Vec<Vec<Value>>> = members.into_iter().map(row).collect();
    Ok(Box::new(rows?.into_iter().map(Ok)))
}

fn array_elements(a: &[Value], as_text: bool) -> Result<SetRows> {
    let Some(elements) = json::elements(whole(a))? else {
        let kind = json::check(whole(a))?.kind;
        return Err(wrong_kind("extract elements from", "array", kind));
    };
    let values: Result<Vec<Value>> = elements.into_iter().map(|span| found(a, Some(span), as_text)).collect();
    rows(values?)
}

fn strip_nulls(whole: &str, to: &mut String) -> Result<()> {
    let span = json::check(whole)?;
    if let Some(members) = json::members(whole)? {
        to.push('{');
        for (i, (key, span)) in members.into_iter().filter(|(_, span)| span.kind != Kind::Null).enumerate() {
            to.push_str(if i == 0 { "" } else { "," });
            json::write_string(&key, to);
            to.push(':');
            strip_nulls(&whole[span.start..span.end], to)?;
        }
        to.push('}');
    } else if let Some(elements) = json::elements(whole)? {
        to.push('[');
        for (i, span) in elements.into_iter().enumerate() {
            to.push_str(if i == 0 { "" } else { "," });
            strip_nulls(&whole[span.start..span.end], to)?;
        }
        to.push(']');
    } else {
        to.push_str(&whole[span.start..span.end]);
    }
    Ok(())
}
