//! Which Rust function carries out which function of the catalog.
//!
//! Each module knows some names of implementations (`pg_proc.prosrc`; `name/number of arguments` for those
//! that PostgreSQL writes in SQL). A name that none knows is left to the
//! [`System`](crate::types::context::System).

mod aggregates;
pub(super) mod arrays;
mod bits;
mod compare;
pub(super) mod convert;
mod datetime;
mod encoding;
mod extract;
mod inet;
mod joining;
mod json;
mod jsonb;
mod jsonpath;
pub(super) mod like;
mod mac;
mod math;
mod money;
mod number_format;
mod numbers;
pub(super) mod parts;
mod regexp;
mod series;
mod statistics;
pub(super) mod strings;
mod time_format;
mod time_read;
mod to_json;
pub(super) mod told;

use std::sync::Arc;

use super::registry::{Body, FunctionKind, ScalarFn, SetFn, WindowFunction};
use crate::error::{Result, SqlError, SqlState};
use crate::types::context::{EvalContext, SetRows};
use crate::types::numeric::Numeric;
use crate::types::value::{Array, Interval, Value};

/// The body of the function with this kind, name and name of its implementation.
pub(super) fn body(kind: FunctionKind, name: &str, source: &str) -> Body {
    let found = match kind {
        FunctionKind::Aggregate => aggregates::find(name).or_else(|| statistics::find(name)),
        FunctionKind::Window => window(name).map(Body::Window),
        FunctionKind::Normal => compare::find(source)
            .or_else(|| numbers::find(source))
            .or_else(|| math::find(source))
            .or_else(|| strings::find(source))
            .or_else(|| joining::find(source))
            .or_else(|| like::find(source))
            .or_else(|| regexp::find(source))
            .or_else(|| encoding::find(source))
            .or_else(|| datetime::find(source))
            .or_else(|| extract::find(source))
            .or_else(|| time_format::find(source))
            .or_else(|| time_read::find(source))
            .or_else(|| number_format::find(source))
            .or_else(|| json::find(source))
            .or_else(|| jsonb::find(source))
            .or_else(|| jsonpath::find(source))
            .or_else(|| to_json::find(source))
            .or_else(|| arrays::find(source))
            .or_else(|| series::find(source))
            .or_else(|| bits::find(source))
            .or_else(|| inet::find(source))
            .or_else(|| mac::find(source))
            .or_else(|| money::find(source))
            .or_else(|| convert::find(source)),
    };
    found.unwrap_or(Body::System)
}

fn window(name: &str) -> Option<WindowFunction> {
    Some(match name {
        "row_number" => WindowFunction::RowNumber,
        "rank" => WindowFunction::Rank,
        "dense_rank" => WindowFunction::DenseRank,
        "percent_rank" => WindowFunction::PercentRank,
        "cume_dist" => WindowFunction::CumeDist,
        "ntile" => WindowFunction::Ntile,
        "lag" => WindowFunction::Lag,
        "lead" => WindowFunction::Lead,
        "first_value" => WindowFunction::FirstValue,
        "last_value" => WindowFunction::LastValue,
        "nth_value" => WindowFunction::NthValue,
        _ => return None,
    })
}

fn scalar(body: ScalarFn) -> Option<Body> {
    Some(Body::Scalar(body))
}

fn set(body: SetFn) -> Option<Body> {
    Some(Body::Set(body))
}

/// Rows of one column.
fn rows(values: Vec<Value>) -> Result<SetRows> {
    Ok(Box::new(values.into_iter().map(|value| Ok(vec![value]))))
}

#[cold]
fn wrong(wanted: &str, value: &Value) -> ! {
    panic!("a {wanted} was expected, not {value:?}")
}

/// Reading arguments whose types the resolution has made sure of.
macro_rules! readers {
    ($($name:ident: $variant:ident -> $ty:ty;)*) => {
        $(#[inline]
        fn $name(value: &Value) -> $ty {
            match value {
                Value::$variant(inner) => *inner,
                other => wrong(stringify!($variant), other),
            }
        })*
    };
}

readers! {
    bool_of: Bool -> bool;
    int2: Int2 -> i16;
    int4: Int4 -> i32;
    int8: Int8 -> i64;
    float4: Float4 -> f32;
    float8: Float8 -> f64;
    date_of: Date -> i32;
    time_of: Time -> i64;
    timestamp_of: Timestamp -> i64;
    timestamptz_of: Timestamptz -> i64;
    interval_of: Interval -> Interval;
}

fn numeric(value: &Value) -> &Numeric {
    match value {
        Value::Numeric(numeric) => numeric,
        other => wrong("numeric", other),
    }
}

#[inline]
fn text(value: &Value) -> &str {
    match value {
        Value::Text(text) | Value::Json(text) => text,
        other => wrong("text", other),
    }
}

fn bytea(value: &Value) -> &[u8] {
    match value {
        Value::Bytea(bytes) => bytes,
        other => wrong("bytea", other),
    }
}

fn array(value: &Value) -> &Arc<Array> {
    match value {
        Value::Array(array) => array,
        other => wrong("array", other),
    }
}

fn document(value: &Value) -> &crate::types::json::Json {
    match value {
        Value::Jsonb(document) => document,
        other => wrong("jsonb", other),
    }
}

/// The texts of a text array, NULLs included.
fn texts(value: &Value) -> Vec<Option<&str>> {
    array(value).elements.iter().map(Value::as_str).collect()
}

fn invalid_parameter(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The text that a value of a call's argument is written as.
fn written(ctx: &EvalContext<'_>, argument: usize, value: &Value) -> Result<String> {
    let ty = ctx.argument_types.get(argument).copied().unwrap_or(crate::types::oid::TEXT);
    crate::types::text::output(ctx, ty, value)
}
