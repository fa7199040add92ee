//! Records of documents, in the columns that the statement tells: `json_to_record(set)` and the jsonb ones.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::types::context::EvalContext;
use crate::types::json::{self, Json, Kind};
use crate::types::value::{Array, Dimension, Value};
use crate::types::{Type, Types, oid, text};

/// Most dimensions of an array.
const DIMENSIONS_MAX: usize = 6;

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
        Value::Jsonb(document) => Part::Tree(document),
        Value::Json(text) => Part::whole(text)?,
        _ => return Ok(if is_set { Vec::new() } else { vec![vec![Value::Null; columns.len()]] }),
    };
    let wrong = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let record = |document: Part<'_>| match document.kind() {
        Kind::Object => {
            let members = document.members()?;
            columns
                .iter()
                .map(|(name, ty)| match members.iter().rev().find(|(key, _)| key == name) {
                    Some((_, value)) => value_of(ctx, *value, *ty, name),
                    None => Ok(Value::Null),
                })
                .collect()
        }
        _ if is_set => Err(wrong(format!("argument of {name} must be an array of objects"))),
        _ => Err(wrong(format!("cannot call {name} on a non-object"))),
    };
    match document.kind() {
        Kind::Array if is_set => document.elements()?.into_iter().map(record).collect(),
        _ if is_set => Err(wrong(format!("cannot call {name} on a non-array"))),
        Kind::Object => Ok(vec![record(document)?]),
        Kind::Array => Err(wrong(format!("cannot call {name} on an array"))),
        _ => Err(wrong(format!("cannot call {name} on a scalar"))),
    }
}

/// A part of a document: json keeps its text as it is given.
#[derive(Clone, Copy)]
enum Part<'a> {
    Text(&'a str, Kind),
    Tree(&'a Json),
}

impl<'a> Part<'a> {
    fn whole(text: &'a str) -> Result<Part<'a>> {
        let span = json::check(text)?;
        Ok(Part::Text(&text[span.start..span.end], span.kind))
    }

    fn kind(self) -> Kind {
        match self {
            Part::Text(_, kind) => kind,
            Part::Tree(json) => json.kind(),
        }
    }

    /// The members of an object.
    fn members(self) -> Result<Vec<(String, Part<'a>)>> {
        Ok(match self {
            Part::Text(text, _) => {
                let part = |(key, span): (String, json::Span)| {
                    (key, Part::Text(&text[span.start..span.end], span.kind))
                };
                json::members(text)?.unwrap_or_default().into_iter().map(part).collect()
            }
            Part::Tree(Json::Object(members)) => {
                members.iter().map(|(key, value)| (key.clone(), Part::Tree(value))).collect()
            }
            Part::Tree(_) => Vec::new(),
        })
    }

    /// The elements of an array.
    fn elements(self) -> Result<Vec<Part<'a>>> {
        Ok(match self {
            Part::Text(text, _) => {
                let part = |span: json::Span| Part::Text(&text[span.start..span.end], span.kind);
                json::elements(text)?.unwrap_or_default().into_iter().map(part).collect()
            }
            Part::Tree(Json::Array(elements)) => elements.iter().map(Part::Tree).collect(),
            Part::Tree(_) => Vec::new(),
        })
    }

    fn written(self) -> String {
        match self {
            Part::Text(text, _) => text.to_string(),
            Part::Tree(json) => json.to_string(),
        }
    }

    /// What it says: a string without its quotes and escapes.
    fn plain(self) -> Result<String> {
        match self {
            Part::Text(text, Kind::String) => {
                let span = json::check(text)?;
                Ok(json::unquoted(text, span)?.unwrap_or_default())
            }
            Part::Tree(Json::String(text)) => Ok(text.clone()),
            other => Ok(other.written()),
        }
    }
}

/// A part of a document as a value of a type.
fn value_of(ctx: &EvalContext<'_>, part: Part<'_>, ty: Type, key: &str) -> Result<Value> {
    let element = ctx.element_of(ty.oid);
    let value = match part.kind() {
        Kind::Null => return Ok(Value::Null),
        _ if matches!(ty.oid, oid::JSON | oid::JSONB) => text::input(ctx, Type::of(ty.oid), &part.written())?,
        kind if element != 0 && kind != Kind::String => {
            let element = Type { oid: element, modifier: ty.modifier };
            let mut reading = Reading {
                ctx,
                element,
                key,
                depth: None,
                place: Vec::new(),
                lens: Vec::new(),
                values: Vec::new(),
            };
            reading.level(part, 0)?;
            return Ok(reading.array());
        }
        _ => text::input(ctx, Type::of(ty.oid), &part.plain()?)?,
    };
    crate::func::cast::cast_value(ctx, &crate::func::CastPath::Relabel, ty.oid, ty, false, &value)
}

/// An array that is read of arrays within one another. How many dimensions it has is told by the first
/// element that is no array.
struct Reading<'a> {
    ctx: &'a EvalContext<'a>,
    element: Type,
    key: &'a str,
    /// Dimensions, once they are known.
    depth: Option<usize>,
    /// Which element is read, from the outermost array to the innermost.
    place: Vec<usize>,
    /// Elements of each dimension, as far as they are known.
    lens: Vec<usize>,
    values: Vec<Value>,
}

impl Reading<'_> {
    /// Reads the array of a level, from 0.
    fn level(&mut self, part: Part<'_>, level: usize) -> Result<()> {
        if part.kind() != Kind::Array {
            let key = self.key;
            let hint = match self.place.is_empty() {
                true => format!("See the value of key \"{key}\"."),
                false => {
                    let place: String = self.place.iter().map(|at| format!("[{at}]")).collect();
                    format!("See the array element {place} of key \"{key}\".")
                }
            };
            let state = SqlState::INVALID_TEXT_REPRESENTATION;
            return Err(SqlError::new(state, "expected JSON array").hint(hint));
        }
        let elements = part.elements()?;
        if self.depth.is_none() && elements.first().is_none_or(|first| first.kind() != Kind::Array) {
            if level >= DIMENSIONS_MAX {
                let message = format!(
                    "number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})",
                    level + 1
                );
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
            self.depth = Some(level + 1);
        }
        let len = elements.len();
        for (at, element) in elements.into_iter().enumerate() {
            if self.depth == Some(level + 1) {
                let value = value_of(self.ctx, element, self.element, self.key)?;
                self.values.push(value);
            } else {
                self.place.push(at);
                self.level(element, level + 1)?;
                self.place.pop();
            }
        }
        self.lens.resize(self.lens.len().max(level + 1), usize::MAX);
        match self.lens[level] {
            usize::MAX => self.lens[level] = len,
            known if known != len => {
                let message = "malformed JSON array";
                let detail = "Multidimensional arrays must have sub-arrays with matching dimensions.";
                return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).detail(detail));
            }
            _ => {}
        }
        Ok(())
    }

    fn array(self) -> Value {
        let dimension = |len: &usize| Dimension { len: *len as i32, lower: 1 };
        let is_empty = self.values.is_empty();
        let dimensions = if is_empty { Vec::new() } else { self.lens.iter().map(dimension).collect() };
        Value::Array(Arc::new(Array { element: self.element.oid, dimensions, elements: self.values }))
    }
}
