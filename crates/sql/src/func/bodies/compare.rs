//! Comparisons: `=`, `<`... of one type and across types, and the larger and smaller of two.

use std::cmp::Ordering;

use super::{date_of, float8, scalar, text, timestamp_of, timestamptz_of};
use crate::func::registry::{Body, ScalarFn};
use crate::types::context::EvalContext;
use crate::types::datetime::{DAY_US, local_to_utc};
use crate::types::order::{compare, compare_floats};
use crate::types::value::Value;
use crate::types::{Oid, oid};

/// Six comparisons by an order of the two arguments.
macro_rules! comparison {
    ($suffix:expr, $order:expr) => {
        match $suffix {
            "eq" => scalar(|ctx, a| Ok(Value::Bool($order(ctx, a).is_eq()))),
            "ne" => scalar(|ctx, a| Ok(Value::Bool($order(ctx, a).is_ne()))),
            "lt" => scalar(|ctx, a| Ok(Value::Bool($order(ctx, a).is_lt()))),
            "le" => scalar(|ctx, a| Ok(Value::Bool($order(ctx, a).is_le()))),
            "gt" => scalar(|ctx, a| Ok(Value::Bool($order(ctx, a).is_gt()))),
            "ge" => scalar(|ctx, a| Ok(Value::Bool($order(ctx, a).is_ge()))),
            "cmp" => scalar(|ctx, a| Ok(Value::Int4($order(ctx, a) as i32))),
            "larger" => scalar(|ctx, a| Ok(a[usize::from($order(ctx, a).is_lt())].clone())),
            "smaller" => scalar(|ctx, a| Ok(a[usize::from($order(ctx, a).is_gt())].clone())),
            _ => None,
        }
    };
}

pub(super) fn find(source: &str) -> Option<Body> {
    let special = match source {
        "bpchar_pattern_lt" => "bpcharlt",
        "bpchar_pattern_le" => "bpcharle",
        "bpchar_pattern_gt" => "bpchargt",
        "bpchar_pattern_ge" => "bpcharge",
        "text_pattern_lt" => "text_lt",
        "text_pattern_le" => "text_le",
        "text_pattern_gt" => "text_gt",
        "text_pattern_ge" => "text_ge",
        "xidneq" => "xidne",
        "btboolcmp" => "boolcmp",
        "bttextcmp" => "textcmp",
        "btarraycmp" => "array_cmp",
        "btrecordcmp" => "record_cmp",
        "btnamecmp" => "namecmp",
        "btfloat8cmp" => "float8cmp",
        "btfloat4cmp" => "float4cmp",
        "btoidcmp" => "oidcmp",
        other => other,
    };
    let suffixes = ["eqtext", "netext", "lttext", "letext", "gttext", "getext"];
    if let Some(own) = special.strip_prefix("name").filter(|rest| suffixes.contains(rest)) {
        return one_type(&own[..2]);
    }
    if let Some(suffix) = special.strip_prefix("text").and_then(|rest| rest.strip_suffix("name")) {
        return one_type(suffix);
    }
    for prefix in ["float48", "float84"] {
        if let Some(suffix) = special.strip_prefix(prefix).filter(|s| s.len() == 2) {
            return floats(suffix);
        }
    }
    if let Some(rest) = special.strip_prefix("int")
        && rest.len() == 4
        && rest.starts_with(|c: char| c.is_ascii_digit())
        && rest[1..].starts_with(|c: char| c.is_ascii_digit())
    {
        return integers(&rest[2..]);
    }
    for left in ["date", "timestamp", "timestamptz"] {
        let Some(rest) = special.strip_prefix(left).and_then(|rest| rest.strip_prefix('_')) else { continue };
        let Some((suffix, right)) = rest.split_once('_') else { continue };
        if ["date", "timestamp", "timestamptz"].contains(&right) {
            return dates(suffix);
        }
    }
    let prefixes = [
        "bool",
        "int2",
        "int4",
        "int8",
        "float4",
        "float8",
        "numeric_",
        "text_",
        "text",
        "name",
        "char",
        "bytea",
        "date_",
        "time_",
        "timetz_",
        "timestamp_",
        "interval_",
        "uuid_",
        "network_",
        "cash_",
        "cash",
        "macaddr_",
        "macaddr8_",
        "bit",
        "jsonb_",
        "enum_",
        "array_",
        "record_image_",
        "record_",
        "oidvector",
        "oid",
        "xid",
        "cid",
    ];
    if let Some(suffix) = special.strip_prefix("bpchar_").or_else(|| special.strip_prefix("bpchar")) {
        return comparison!(suffix, bpchar);
    }
    prefixes.iter().find_map(|prefix| special.strip_prefix(prefix).and_then(one_type))
}

fn one_type(suffix: &str) -> Option<Body> {
    // The most frequent comparisons of all are of integers: no detour for them.
    match suffix {
        "eq" => Some(Body::Scalar(equal as ScalarFn)),
        suffix => comparison!(suffix, same),
    }
}

fn equal(_: &EvalContext<'_>, a: &[Value]) -> crate::error::Result<Value> {
    Ok(Value::Bool(match (&a[0], &a[1]) {
        (Value::Int4(a), Value::Int4(b)) => a == b,
        (Value::Int8(a), Value::Int8(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => a == b,
        (a, b) => compare(0, a, b).is_eq(),
    }))
}

#[inline]
fn same(_: &EvalContext<'_>, a: &[Value]) -> Ordering {
    const ANY: Oid = 0;
    compare(ANY, &a[0], &a[1])
}

fn bpchar(_: &EvalContext<'_>, a: &[Value]) -> Ordering {
    debug_assert!(!text(&a[0]).contains('\0'));
    compare(oid::BPCHAR, &a[0], &a[1])
}

fn floats(suffix: &str) -> Option<Body> {
    comparison!(suffix, |_: &EvalContext<'_>, a: &[Value]| {
        let wide = |value: &Value| match value {
            Value::Float4(f) => f64::from(*f),
            other => float8(other),
        };
        compare_floats(wide(&a[0]), wide(&a[1]))
    })
}

fn integers(suffix: &str) -> Option<Body> {
    comparison!(suffix, |_: &EvalContext<'_>, a: &[Value]| a[0].as_i64().cmp(&a[1].as_i64()))
}

/// Dates, timestamps and timestamptzs among one another: as the session's clocks show them.
fn dates(suffix: &str) -> Option<Body> {
    comparison!(suffix, |ctx: &EvalContext<'_>, a: &[Value]| moment(ctx, &a[0], &a[1])
        .cmp(&moment(ctx, &a[1], &a[0])))
}

fn moment(ctx: &EvalContext<'_>, value: &Value, other: &Value) -> i128 {
    let local = match value {
        Value::Timestamptz(_) => return i128::from(timestamptz_of(value)),
        Value::Date(i32::MAX) => return i128::from(i64::MAX),
        Value::Date(i32::MIN) => return i128::from(i64::MIN),
        Value::Date(_) => i128::from(date_of(value)) * i128::from(DAY_US),
        _ => i128::from(timestamp_of(value)),
    };
    match (other, i64::try_from(local)) {
        (Value::Timestamptz(_), Ok(local)) if !crate::types::datetime::is_infinite(local) => {
            i128::from(local_to_utc(&ctx.settings.time_zone, local))
        }
        _ => local,
    }
}
