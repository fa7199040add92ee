//! Functions that make rows out of nothing: generate_series, generate_subscripts.

use super::{
    array, bool_of, int4, interval_of, invalid_parameter, numeric, scalar, set, timestamp_of, timestamptz_of,
};
use crate::error::{Result, SqlError};
use crate::func::registry::Body;
use crate::types::context::SetRows;
use crate::types::datetime::{add_to_timestamp, add_to_timestamptz};
use crate::types::numeric::Numeric;
use crate::types::order::interval_span;
use crate::types::value::Value;

#[cold]
fn zero_step() -> SqlError {
    invalid_parameter("step size cannot equal zero")
}

fn integers(first: i64, last: i64, step: i64, make: fn(i64) -> Value) -> Result<SetRows> {
    if step == 0 {
        return Err(zero_step());
    }
    let within = move |n: &i64| if step > 0 { *n <= last } else { *n >= last };
    let series =
        std::iter::successors(Some(first).filter(within), move |n| n.checked_add(step).filter(within));
    Ok(Box::new(series.map(move |n| Ok(vec![make(n)]))))
}

fn number(value: &Value) -> i64 {
    value.as_i64().expect("an integer")
}

/// Steps while the next one is within the end; an error ends the series.
fn moments(
    first: i64,
    last: i64,
    forward: bool,
    make: fn(i64) -> Value,
    step: impl Fn(i64) -> Result<i64> + Send + 'static,
) -> SetRows {
    let mut next = Some(first);
    Box::new(std::iter::from_fn(move || {
        let now = next.filter(|now| if forward { *now <= last } else { *now >= last })?;
        next = None;
        match step(now) {
            Ok(later) => next = Some(later),
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(vec![make(now)]))
    }))
}

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "generate_series_int4" | "generate_series_step_int4" => set(|_, a| {
            let step = a.get(2).map_or(1, number);
            let in_range = |row: &Result<Vec<Value>>| row.is_ok();
            let series = integers(number(&a[0]), number(&a[1]), step, |n| Value::Int4(n as i32))?;
            Ok(Box::new(series.take_while(in_range)))
        }),
        "generate_series_int8" | "generate_series_step_int8" => {
            set(|_, a| integers(number(&a[0]), number(&a[1]), a.get(2).map_or(1, number), Value::Int8))
        }
        "generate_series_numeric" | "generate_series_step_numeric" => set(|_, a| {
            let (first, last) = (numeric(&a[0]).clone(), numeric(&a[1]).clone());
            let step = a.get(2).map_or(Numeric::ONE, |step| numeric(step).clone());
            for (what, value) in [("start", &first), ("stop", &last), ("step", &step)] {
                if !value.is_finite() {
                    let kind = if value.is_nan() { "NaN" } else { "infinity" };
                    let what = if what == "step" { "step size".to_string() } else { format!("{what} value") };
                    return Err(invalid_parameter(format!("{what} cannot be {kind}")));
                }
            }
            if step.signum() == 0 {
                return Err(zero_step());
            }
            // All rows have the scale of start and step together.
            let scale = i64::from(first.scale().max(step.scale()));
            let mut next = first.round(scale);
            Ok(Box::new(std::iter::from_fn(move || {
                let within = if step.signum() > 0 { next <= last } else { next >= last };
                if !within {
                    return None;
                }
                let after = next.add(&step);
                Some(Ok(vec![Value::Numeric(std::mem::replace(&mut next, after))]))
            })))
        }),
        "generate_series_timestamp" => set(|_, a| {
            let step = interval_of(&a[2]);
            let span = interval_span(step);
            if span == 0 {
                return Err(zero_step());
            }
            let (first, last) = (timestamp_of(&a[0]), timestamp_of(&a[1]));
            Ok(moments(first, last, span > 0, Value::Timestamp, move |now| add_to_timestamp(now, step)))
        }),
        "generate_series_timestamptz" => set(|ctx, a| {
            let step = interval_of(&a[2]);
            let span = interval_span(step);
            if span == 0 {
                return Err(zero_step());
            }
            let zone = ctx.settings.time_zone.clone();
            let (first, last) = (timestamptz_of(&a[0]), timestamptz_of(&a[1]));
            let add = move |now| add_to_timestamptz(now, step, &zone);
            Ok(moments(first, last, span > 0, Value::Timestamptz, add))
        }),
        "generate_subscripts" | "generate_subscripts_nodir" => set(|_, a| {
            let at = usize::try_from(int4(&a[1])).ok().and_then(|at| at.checked_sub(1));
            let Some(dimension) = at.and_then(|at| array(&a[0]).dimensions.get(at).copied()) else {
                return Ok(Box::new(std::iter::empty()));
            };
            let (low, high) = (i64::from(dimension.lower), i64::from(dimension.lower + dimension.len - 1));
            let make = |n| Value::Int4(n as i32);
            if a.get(2).is_some_and(bool_of) {
                integers(high, low, -1, make)
            } else {
                integers(low, high, 1, make)
            }
        }),
        "pg_num_nulls" => scalar(|_, a| Ok(Value::Int4(a.iter().filter(|v| v.is_null()).count() as i32))),
        "pg_num_nonnulls" => scalar(|_, a| Ok(Value::Int4(a.iter().filter(|v| !v.is_null()).count() as i32))),
        _ => None,
    }
}
