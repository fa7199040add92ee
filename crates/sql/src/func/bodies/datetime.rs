//! Arithmetic, casts and construction of dates, times and intervals.

use super::{
    date_of, float8, int4, interval_of, invalid_parameter, scalar, text, time_format, time_of, timestamp_of,
    timestamptz_of,
};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::context::EvalContext;
use crate::types::datetime::{
    DAY_US, Day, SECOND_US, UNIX_EPOCH_DAYS, abbreviation_at, add_to_timestamp, add_to_timestamptz,
    date_in_range, day_of, days_of, fixed, interval_out_of_range, is_infinite, local_to_utc, month_len,
    offset_at, parse, split, timestamp_in_range, timestamp_out_of_range, utc_to_local, zone,
};
use crate::types::order::interval_span;
use crate::types::value::{Interval, Value};

pub(super) fn find(source: &str) -> Option<Body> {
    now(source)
        .or_else(|| cast(source))
        .or_else(|| plus(source))
        .or_else(|| minus(source))
        .or_else(|| intervals(source))
        .or_else(|| make(source))
        .or_else(|| zones(source))
        .or_else(|| overlaps(source))
}

fn now(source: &str) -> Option<Body> {
    match source {
        "now" => scalar(|ctx, _| Ok(Value::Timestamptz(ctx.transaction_start_us))),
        "statement_timestamp" => scalar(|ctx, _| Ok(Value::Timestamptz(ctx.statement_start_us))),
        "timeofday" => scalar(|ctx, _| {
            let (utc, zone) = (ctx.system.clock_us(), &ctx.settings.time_zone);
            let (days, micros) = split(utc_to_local(zone, utc));
            Ok(Value::text(time_format::of_day(days, micros, &abbreviation_at(zone, utc))?))
        }),
        "clock_timestamp" => scalar(|ctx, _| Ok(Value::Timestamptz(ctx.system.clock_us()))),
        "date_finite" => scalar(|_, a| Ok(Value::Bool(!matches!(date_of(&a[0]), i32::MAX | i32::MIN)))),
        "timestamp_finite" => scalar(|_, a| {
            Ok(Value::Bool(match a[0] {
                Value::Timestamptz(us) | Value::Timestamp(us) => !is_infinite(us),
                _ => true,
            }))
        }),
        "interval_finite" => scalar(|_, _| Ok(Value::Bool(true))),
        _ => None,
    }
}

pub(super) fn date_to_timestamp(date: i32) -> Result<i64> {
    match date {
        i32::MAX => Ok(i64::MAX),
        i32::MIN => Ok(i64::MIN),
        _ => timestamp_in_range(i128::from(date) * i128::from(DAY_US)).map_err(date_beyond_timestamp),
    }
}

fn date_beyond_timestamp(mut error: SqlError) -> SqlError {
    error.message = "date out of range for timestamp".to_string();
    error
}

fn timestamp_to_date(micros: i64) -> Result<i32> {
    match micros {
        i64::MAX => Ok(i32::MAX),
        i64::MIN => Ok(i32::MIN),
        _ => date_in_range(split(micros).0),
    }
}

fn local(ctx: &EvalContext<'_>, utc_us: i64) -> i64 {
    if is_infinite(utc_us) { utc_us } else { utc_to_local(&ctx.settings.time_zone, utc_us) }
}

pub(super) fn utc(ctx: &EvalContext<'_>, local_us: i64) -> i64 {
    if is_infinite(local_us) { local_us } else { local_to_utc(&ctx.settings.time_zone, local_us) }
}

fn cast(source: &str) -> Option<Body> {
    match source {
        "date_timestamp" => scalar(|_, a| date_to_timestamp(date_of(&a[0])).map(Value::Timestamp)),
        "date_timestamptz" => scalar(|ctx, a| {
            let local_us = date_to_timestamp(date_of(&a[0]))?;
            let utc_us = utc(ctx, local_us);
            if !is_infinite(local_us) {
                timestamp_in_range(i128::from(utc_us)).map_err(date_beyond_timestamp)?;
            }
            Ok(Value::Timestamptz(utc_us))
        }),
        "timestamp_date" => scalar(|_, a| timestamp_to_date(timestamp_of(&a[0])).map(Value::Date)),
        "timestamptz_date" => {
            scalar(|ctx, a| timestamp_to_date(local(ctx, timestamptz_of(&a[0]))).map(Value::Date))
        }
        "timestamp_timestamptz" => scalar(|ctx, a| Ok(Value::Timestamptz(utc(ctx, timestamp_of(&a[0]))))),
        "timestamptz_timestamp" => scalar(|ctx, a| Ok(Value::Timestamp(local(ctx, timestamptz_of(&a[0]))))),
        "timestamp_time" => scalar(|_, a| {
            let us = timestamp_of(&a[0]);
            Ok(if is_infinite(us) { Value::Null } else { Value::Time(split(us).1) })
        }),
        "timestamptz_time" => scalar(|ctx, a| {
            let us = local(ctx, timestamptz_of(&a[0]));
            Ok(if is_infinite(us) { Value::Null } else { Value::Time(split(us).1) })
        }),
        "timestamptz_timetz" => scalar(|ctx, a| {
            let us = timestamptz_of(&a[0]);
            if is_infinite(us) {
                return Ok(Value::Null);
            }
            let east = offset_at(&ctx.settings.time_zone, us);
            Ok(Value::Timetz(split(local(ctx, us)).1, -east))
        }),
        "time_interval" => {
            scalar(|_, a| Ok(Value::Interval(Interval { micros: time_of(&a[0]), ..Default::default() })))
        }
        "interval_time" => scalar(|_, a| Ok(Value::Time(interval_of(&a[0]).micros.rem_euclid(DAY_US)))),
        "time_timetz" => scalar(|ctx, a| {
            let east = offset_at(&ctx.settings.time_zone, ctx.transaction_start_us);
            Ok(Value::Timetz(time_of(&a[0]), -east))
        }),
        "timetz_time" => scalar(|_, a| match a[0] {
            Value::Timetz(time, _) => Ok(Value::Time(time)),
            ref other => super::wrong("timetz", other),
        }),
        // Precisions are applied after the cast.
        "timestamp_scale" | "timestamptz_scale" | "time_scale" | "timetz_scale" | "interval_scale" => {
            scalar(|_, a| Ok(a[0].clone()))
        }
        "datetime_timestamp" => scalar(|_, a| {
            let day = date_to_timestamp(date_of(&a[0]))?;
            timestamp_in_range(i128::from(day) + i128::from(time_of(&a[1]))).map(Value::Timestamp)
        }),
        "timestamptz/2" => scalar(|ctx, a| {
            let day = date_to_timestamp(date_of(&a[0]))?;
            let local = timestamp_in_range(i128::from(day) + i128::from(time_of(&a[1])))?;
            Ok(Value::Timestamptz(local_to_utc(&ctx.settings.time_zone, local)))
        }),
        "timedate_pl/2" => scalar(|_, a| {
            let day = date_to_timestamp(date_of(&a[1]))?;
            timestamp_in_range(i128::from(day) + i128::from(time_of(&a[0]))).map(Value::Timestamp)
        }),
        "datetimetz_timestamptz" => scalar(|_, a| zoned(&a[0], &a[1])),
        "timetzdate_pl/2" => scalar(|_, a| zoned(&a[1], &a[0])),
        "float8_timestamptz" => scalar(|_, a| {
            let seconds = float8(&a[0]);
            if seconds.is_nan() {
                let message = "timestamp cannot be NaN";
                return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message));
            }
            if seconds.is_infinite() {
                return Ok(Value::Timestamptz(if seconds > 0.0 { i64::MAX } else { i64::MIN }));
            }
            let micros = (seconds * 1e6).round_ties_even() as i128 - i128::from(UNIX_EPOCH_DAYS * DAY_US);
            timestamp_in_range(micros).map(Value::Timestamptz)
        }),
        _ => None,
    }
}

fn add_days(date: i32, days: i64) -> Result<Value> {
    match date {
        i32::MAX | i32::MIN => Ok(Value::Date(date)),
        _ => date_in_range(i64::from(date) + days).map(Value::Date),
    }
}

fn negated(interval: Interval) -> Result<Interval> {
    interval.negate()
}

fn plus(source: &str) -> Option<Body> {
    match source {
        "date_pli" => scalar(|_, a| add_days(date_of(&a[0]), i64::from(int4(&a[1])))),
        "integer_pl_date/2" => scalar(|_, a| add_days(date_of(&a[1]), i64::from(int4(&a[0])))),
        "date_pl_interval" => scalar(|_, a| {
            add_to_timestamp(date_to_timestamp(date_of(&a[0]))?, interval_of(&a[1])).map(Value::Timestamp)
        }),
        "interval_pl_date/2" => scalar(|_, a| {
            add_to_timestamp(date_to_timestamp(date_of(&a[1]))?, interval_of(&a[0])).map(Value::Timestamp)
        }),
        "timestamp_pl_interval" => {
            scalar(|_, a| add_to_timestamp(timestamp_of(&a[0]), interval_of(&a[1])).map(Value::Timestamp))
        }
        "interval_pl_timestamp/2" => {
            scalar(|_, a| add_to_timestamp(timestamp_of(&a[1]), interval_of(&a[0])).map(Value::Timestamp))
        }
        "timestamptz_pl_interval" => scalar(|ctx, a| {
            let zone = &ctx.settings.time_zone;
            add_to_timestamptz(timestamptz_of(&a[0]), interval_of(&a[1]), zone).map(Value::Timestamptz)
        }),
        "interval_pl_timestamptz/2" => scalar(|ctx, a| {
            let zone = &ctx.settings.time_zone;
            add_to_timestamptz(timestamptz_of(&a[1]), interval_of(&a[0]), zone).map(Value::Timestamptz)
        }),
        "timetz_pl_interval" => scalar(|_, a| Ok(later(&a[0], interval_of(&a[1]).micros))),
        "interval_pl_timetz/2" => scalar(|_, a| Ok(later(&a[1], interval_of(&a[0]).micros))),
        "time_pl_interval" => scalar(|_, a| {
            Ok(Value::Time((time_of(&a[0]) + interval_of(&a[1]).micros % DAY_US).rem_euclid(DAY_US)))
        }),
        "interval_pl_time/2" => scalar(|_, a| {
            Ok(Value::Time((time_of(&a[1]) + interval_of(&a[0]).micros % DAY_US).rem_euclid(DAY_US)))
        }),
        _ => None,
    }
}

fn minus(source: &str) -> Option<Body> {
    match source {
        "date_mi" => scalar(|_, a| {
            let (left, right) = (date_of(&a[0]), date_of(&a[1]));
            if [left, right].iter().any(|date| matches!(*date, i32::MAX | i32::MIN)) {
                let message = "cannot subtract infinite dates";
                return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message));
            }
            Ok(Value::Int4(left - right))
        }),
        "date_mii" => scalar(|_, a| add_days(date_of(&a[0]), -i64::from(int4(&a[1])))),
        "date_mi_interval" => scalar(|_, a| {
            add_to_timestamp(date_to_timestamp(date_of(&a[0]))?, negated(interval_of(&a[1]))?)
                .map(Value::Timestamp)
        }),
        "timestamp_mi_interval" => scalar(|_, a| {
            add_to_timestamp(timestamp_of(&a[0]), negated(interval_of(&a[1]))?).map(Value::Timestamp)
        }),
        "timestamptz_mi_interval" => scalar(|ctx, a| {
            let zone = &ctx.settings.time_zone;
            add_to_timestamptz(timestamptz_of(&a[0]), negated(interval_of(&a[1]))?, zone)
                .map(Value::Timestamptz)
        }),
        "timestamp_mi" => scalar(|_, a| {
            let micros = |value: &Value| match value {
                Value::Timestamptz(us) => *us,
                other => timestamp_of(other),
            };
            let (left, right) = (micros(&a[0]), micros(&a[1]));
            if is_infinite(left) || is_infinite(right) {
                let message = "cannot subtract infinite timestamps";
                return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message));
            }
            let between = left.checked_sub(right).ok_or_else(interval_out_of_range)?;
            Interval { micros: between, ..Default::default() }.justify(true, false).map(Value::Interval)
        }),
        "time_mi_time" => scalar(|_, a| {
            Ok(Value::Interval(Interval { micros: time_of(&a[0]) - time_of(&a[1]), ..Default::default() }))
        }),
        "timetz_mi_interval" => scalar(|_, a| Ok(later(&a[0], -(interval_of(&a[1]).micros % DAY_US)))),
        "time_mi_interval" => scalar(|_, a| {
            Ok(Value::Time((time_of(&a[0]) - interval_of(&a[1]).micros % DAY_US).rem_euclid(DAY_US)))
        }),
        "timestamp_age" => scalar(|_, a| age(timestamp_of(&a[0]), timestamp_of(&a[1]))),
        "timestamptz_age" => {
            scalar(|ctx, a| age(local(ctx, timestamptz_of(&a[0])), local(ctx, timestamptz_of(&a[1]))))
        }
        "age/1" => scalar(|ctx, a| {
            let today = split(utc_to_local(&ctx.settings.time_zone, ctx.transaction_start_us)).0 * DAY_US;
            match a[0] {
                Value::Timestamptz(us) => age(today, local(ctx, us)),
                ref other => age(today, timestamp_of(other)),
            }
        }),
        _ => None,
    }
}

/// A time of day with a zone, `micros` later.
fn later(value: &Value, micros: i64) -> Value {
    let Value::Timetz(time, west) = *value else { super::wrong("timetz", value) };
    Value::Timetz((time + micros % DAY_US).rem_euclid(DAY_US), west)
}

/// A date at a time of day with a zone.
fn zoned(date: &Value, time: &Value) -> Result<Value> {
    let Value::Timetz(time, west) = *time else { super::wrong("timetz", time) };
    match date_to_timestamp(date_of(date))? {
        day if is_infinite(day) => Ok(Value::Timestamptz(day)),
        day => {
            let utc = i128::from(day) + i128::from(time) + i128::from(west) * i128::from(SECOND_US);
            timestamp_in_range(utc).map(Value::Timestamptz)
        }
    }
}

/// The difference in years, months, days and time, as one counts on a calendar.
fn age(left: i64, right: i64) -> Result<Value> {
    if is_infinite(left) || is_infinite(right) {
        return Err(timestamp_out_of_range());
    }
    let ((left_days, left_time), (right_days, right_time)) = (split(left), split(right));
    let (l, r) = (day_of(left_days), day_of(right_days));
    let sign = if left < right { -1 } else { 1 };
    let mut micros = sign * (left_time - right_time);
    let mut days = sign * (l.day - r.day);
    let mut months = sign * (12 * (l.year - r.year) + l.month - r.month);
    if micros < 0 {
        micros += DAY_US;
        days -= 1;
    }
    while days < 0 {
        // A month is as long as that of the earlier moment.
        let earlier = if sign < 0 { l } else { r };
        days += month_len(earlier.year, earlier.month);
        months -= 1;
    }
    let fit = |n: i64| i32::try_from(sign * n).map_err(|_| interval_out_of_range());
    Ok(Value::Interval(Interval { months: fit(months)?, days: fit(days)?, micros: sign * micros }))
}

fn intervals(source: &str) -> Option<Body> {
    match source {
        "interval_pl" => scalar(|_, a| interval_of(&a[0]).plus(interval_of(&a[1])).map(Value::Interval)),
        "interval_mi" => {
            scalar(|_, a| interval_of(&a[0]).plus(interval_of(&a[1]).negate()?).map(Value::Interval))
        }
        "interval_um" => scalar(|_, a| interval_of(&a[0]).negate().map(Value::Interval)),
        "interval_mul" => scalar(|_, a| interval_of(&a[0]).scale(float8(&a[1])).map(Value::Interval)),
        "mul_d_interval" => scalar(|_, a| interval_of(&a[1]).scale(float8(&a[0])).map(Value::Interval)),
        "interval_div" => scalar(|_, a| {
            let divisor = float8(&a[1]);
            if divisor == 0.0 {
                return Err(crate::types::numeric::division_by_zero());
            }
            interval_of(&a[0]).scale(1.0 / divisor).map(Value::Interval)
        }),
        "interval_justify_hours" => {
            scalar(|_, a| interval_of(&a[0]).justify(true, false).map(Value::Interval))
        }
        "interval_justify_days" => {
            scalar(|_, a| interval_of(&a[0]).justify(false, true).map(Value::Interval))
        }
        "interval_justify_interval" => {
            scalar(|_, a| interval_of(&a[0]).justify(true, true).map(Value::Interval))
        }
        _ => None,
    }
}

#[cold]
fn field_overflow(message: String) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

fn make_day(a: &[Value]) -> Result<i64> {
    let (year, month, day) = (int4(&a[0]), i64::from(int4(&a[1])), i64::from(int4(&a[2])));
    let astronomic = if year < 0 { i64::from(year) + 1 } else { i64::from(year) };
    if year == 0 || !(1..=12).contains(&month) || day < 1 || day > month_len(astronomic, month) {
        return Err(field_overflow(format!("date field value out of range: {year}-{month:02}-{day:02}")));
    }
    Ok(days_of(Day { year: astronomic, month, day }))
}

fn make_time(a: &[Value]) -> Result<i64> {
    let (hour, minute, second) = (int4(&a[0]), int4(&a[1]), float8(&a[2]));
    let valid = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&second);
    let micros =
        (i64::from(hour) * 60 + i64::from(minute)) * 60 * SECOND_US + (second * 1e6).round_ties_even() as i64;
    if !valid || micros > DAY_US {
        return Err(field_overflow(format!("time field value out of range: {hour}:{minute:02}:{second:02}")));
    }
    Ok(micros)
}

fn make(source: &str) -> Option<Body> {
    match source {
        "make_date" => scalar(|_, a| date_in_range(make_day(a)?).map(Value::Date)),
        "make_time" => scalar(|_, a| make_time(a).map(Value::Time)),
        "make_timestamp" => scalar(|_, a| {
            let micros = i128::from(make_day(a)?) * i128::from(DAY_US) + i128::from(make_time(&a[3..])?);
            timestamp_in_range(micros).map(Value::Timestamp)
        }),
        "make_timestamptz" | "make_timestamptz_at_timezone" => scalar(|ctx, a| {
            let micros = i128::from(make_day(a)?) * i128::from(DAY_US) + i128::from(make_time(&a[3..])?);
            let local = timestamp_in_range(micros)?;
            let zone = match a.get(6) {
                Some(name) => zone_or_offset(text(name))?,
                None => ctx.settings.time_zone.clone(),
            };
            Ok(Value::Timestamptz(local_to_utc(&zone, local)))
        }),
        "make_interval" => scalar(|_, a| {
            let part = |at: usize| a.get(at).map_or(0, |part| i64::from(int4(part)));
            let seconds = a.get(6).map_or(0.0, float8);
            let fit = |n: i64| i32::try_from(n).map_err(|_| interval_out_of_range());
            if !seconds.is_finite() {
                return Err(interval_out_of_range());
            }
            let micros = (part(4) * 60 + part(5)) * 60 * SECOND_US + (seconds * 1e6).round_ties_even() as i64;
            Ok(Value::Interval(Interval {
                months: fit(part(0) * 12 + part(1))?,
                days: fit(part(2) * 7 + part(3))?,
                micros,
            }))
        }),
        _ => None,
    }
}

/// The zone with this name.
pub(super) fn zone_named(name: &str) -> Result<jiff::tz::TimeZone> {
    zone(name).ok_or_else(|| invalid_parameter(format!("time zone \"{name}\" not recognized")))
}

/// A zone by its name, or by its offset: there a number counts east.
fn zone_or_offset(name: &str) -> Result<jiff::tz::TimeZone> {
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        let message = format!("invalid input syntax for type numeric time zone: \"{name}\"");
        let hint = "Numeric time zones must have \"-\" or \"+\" as first character.";
        return Err(invalid_parameter(message).hint(hint));
    }
    if name.starts_with(['+', '-']) && name[1..].bytes().all(|b| b.is_ascii_digit() || b == b':') {
        return match parse::offset(name) {
            Some(east) => Ok(fixed(east)),
            None => Err(invalid_parameter(format!("numeric time zone \"{name}\" out of range"))),
        };
    }
    zone_named(name)
}

fn fixed_zone(interval: Interval) -> Result<i64> {
    if interval.months != 0 || interval.days != 0 {
        let message = "interval time zone must not include months or days";
        return Err(invalid_parameter(message));
    }
    Ok(interval.micros / SECOND_US * SECOND_US)
}

fn zones(source: &str) -> Option<Body> {
    match source {
        "timestamp_zone" => scalar(|_, a| {
            let (zone, local) = (zone_named(text(&a[0]))?, timestamp_of(&a[1]));
            Ok(Value::Timestamptz(if is_infinite(local) { local } else { local_to_utc(&zone, local) }))
        }),
        "timestamptz_zone" => scalar(|_, a| {
            let (zone, utc) = (zone_named(text(&a[0]))?, timestamptz_of(&a[1]));
            Ok(Value::Timestamp(if is_infinite(utc) { utc } else { utc_to_local(&zone, utc) }))
        }),
        "timestamp_izone" => {
            scalar(|_, a| Ok(Value::Timestamptz(timestamp_of(&a[1]) - fixed_zone(interval_of(&a[0]))?)))
        }
        "timestamptz_izone" => {
            scalar(|_, a| Ok(Value::Timestamp(timestamptz_of(&a[1]) + fixed_zone(interval_of(&a[0]))?)))
        }
        "timetz_zone" | "timetz_izone" => scalar(|ctx, a| {
            let east = match &a[0] {
                Value::Interval(interval) => (fixed_zone(*interval)? / SECOND_US) as i32,
                name => offset_at(&zone_named(text(name))?, ctx.transaction_start_us),
            };
            let Value::Timetz(time, west) = a[1] else { super::wrong("timetz", &a[1]) };
            let moved = time + i64::from(west + east) * SECOND_US;
            Ok(Value::Timetz(moved.rem_euclid(DAY_US), -east))
        }),
        "timestamp_bin" | "timestamptz_bin" => scalar(|_, a| {
            let stride = interval_of(&a[0]);
            if stride.months != 0 {
                let message = "timestamps cannot be binned into intervals containing months or years";
                return Err(SqlError::refused_by_postgresql(message));
            }
            let stride_us = i64::try_from(interval_span(stride)).map_err(|_| interval_out_of_range())?;
            if stride_us <= 0 {
                return Err(field_overflow("stride must be greater than zero".to_string()));
            }
            let micros = |value: &Value| match value {
                Value::Timestamptz(us) => *us,
                other => timestamp_of(other),
            };
            let (at, origin) = (micros(&a[1]), micros(&a[2]));
            let binned = origin + (at - origin).div_euclid(stride_us) * stride_us;
            Ok(if matches!(a[1], Value::Timestamptz(_)) {
                Value::Timestamptz(binned)
            } else {
                Value::Timestamp(binned)
            })
        }),
        _ => None,
    }
}

fn overlaps(source: &str) -> Option<Body> {
    match source {
        "overlaps_timestamp" | "overlaps_time" | "overlaps_timetz" => scalar(|_, a| periods_overlap(a)),
        "overlaps/4" => scalar(|ctx, a| {
            // An interval is how long the period is that begins in front of it.
            let mut ends = a.to_vec();
            for at in [1, 3] {
                let Value::Interval(long) = a[at] else { continue };
                ends[at] = match a[at - 1] {
                    Value::Timestamp(from) => Value::Timestamp(add_to_timestamp(from, long)?),
                    Value::Timestamptz(from) => {
                        Value::Timestamptz(add_to_timestamptz(from, long, &ctx.settings.time_zone)?)
                    }
                    Value::Time(from) => Value::Time((from + long.micros % DAY_US).rem_euclid(DAY_US)),
                    _ => Value::Null,
                };
            }
            periods_overlap(&ends)
        }),
        _ => None,
    }
}

fn periods_overlap(a: &[Value]) -> Result<Value> {
    let order = |x: &Value, y: &Value| crate::types::order::compare(0, x, y);
    // Each period from its earlier to its later end; an open one counts as its known end.
    let period = |x: &Value, y: &Value| match (x.is_null(), y.is_null()) {
        (true, true) => None,
        (true, false) => Some((y.clone(), None)),
        (false, true) => Some((x.clone(), None)),
        _ if order(x, y).is_gt() => Some((y.clone(), Some(x.clone()))),
        _ => Some((x.clone(), Some(y.clone()))),
    };
    let (Some(first), Some(second)) = (period(&a[0], &a[1]), period(&a[2], &a[3])) else {
        return Ok(Value::Null);
    };
    let (early, late) = if order(&first.0, &second.0).is_gt() { (second, first) } else { (first, second) };
    if order(&early.0, &late.0).is_eq() {
        let open = early.1.is_none() || late.1.is_none();
        return Ok(if open { Value::Null } else { Value::Bool(true) });
    }
    Ok(match early.1 {
        None => Value::Null,
        Some(end) if order(&late.0, &end).is_lt() => Value::Bool(true),
        Some(_) => {
            if late.1.is_none() {
                Value::Null
            } else {
                Value::Bool(false)
            }
        }
    })
}
