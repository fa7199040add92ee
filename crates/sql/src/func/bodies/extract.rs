//! Fields of dates and times: extract, date_part, date_trunc.

use super::datetime::zone_named;
use super::{date_of, interval_of, scalar, text, time_of, timestamp_of, timestamptz_of};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::context::EvalContext;
use crate::types::datetime::interval::Unit;
use crate::types::datetime::{
    DAY_US, Day, EPOCH_JULIAN, SECOND_US, UNIX_EPOCH_DAYS, day_of, days_of, is_infinite, iso_week,
    local_to_utc, offset_at, split, utc_to_local, weekday,
};
use crate::types::numeric::Numeric;
use crate::types::value::{Interval, Value};

/// A field that is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Field {
    Unit(Unit),
    Dow,
    IsoDow,
    Doy,
    IsoYear,
    Epoch,
    Julian,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

fn field(name: &str) -> Option<Field> {
    Some(match name {
        "dow" => Field::Dow,
        "isodow" => Field::IsoDow,
        "doy" => Field::Doy,
        "isoyear" => Field::IsoYear,
        "epoch" => Field::Epoch,
        "julian" | "jd" | "j" => Field::Julian,
        "timezone" => Field::Timezone,
        "timezone_hour" | "timezone_h" => Field::TimezoneHour,
        "timezone_minute" | "timezone_m" => Field::TimezoneMinute,
        other => Field::Unit(Unit::named(other)?),
    })
}

#[cold]
fn unknown(name: &str, ty: &str) -> SqlError {
    let message = format!("unit \"{name}\" not recognized for type {ty}");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cold]
fn unsupported(name: &str, ty: &str) -> SqlError {
    SqlError::refused_by_postgresql(format!("unit \"{name}\" not supported for type {ty}"))
}

fn whole(number: i64) -> Option<Numeric> {
    Some(Numeric::from_i64(number))
}

/// A number of microseconds as a number with this scale of a unit.
fn decimal(micros: i128, scale: u16) -> Option<Numeric> {
    Some(Numeric::from_i128(micros, scale))
}

/// Fields of a time of day.
fn of_time(field: Field, micros: i64) -> Option<Numeric> {
    let of_minute = i128::from(micros % 60_000_000);
    match field {
        Field::Unit(Unit::Microsecond) => whole(micros % 60_000_000),
        Field::Unit(Unit::Millisecond) => decimal(of_minute, 3),
        Field::Unit(Unit::Second) => decimal(of_minute, 6),
        Field::Unit(Unit::Minute) => whole(micros / 60_000_000 % 60),
        Field::Unit(Unit::Hour) => whole(micros / 3_600_000_000),
        _ => None,
    }
}

fn century(year: i64, len: i64) -> i64 {
    if year > 0 { (year + len - 1) / len } else { -((len - year) / len) }
}

/// Fields of a day.
fn of_day(field: Field, days: i64) -> Option<Numeric> {
    let Day { year, month, day } = day_of(days);
    // There is no year 0: 1 BC comes before 1 AD.
    let shown = if year > 0 { year } else { year - 1 };
    whole(match field {
        Field::Unit(Unit::Day) => day,
        Field::Unit(Unit::Month) => month,
        Field::Unit(Unit::Quarter) => (month - 1) / 3 + 1,
        Field::Unit(Unit::Week) => iso_week(days).1,
        Field::Unit(Unit::Year) => shown,
        Field::Unit(Unit::Decade) => year.div_euclid(10),
        Field::Unit(Unit::Century) => century(year, 100),
        Field::Unit(Unit::Millennium) => century(year, 1000),
        Field::Dow => weekday(days),
        Field::IsoDow => (weekday(days) + 6) % 7 + 1,
        Field::Doy => days - days_of(Day { year, month: 1, day: 1 }) + 1,
        Field::IsoYear => match iso_week(days).0 {
            year @ 1.. => year,
            year => year - 1,
        },
        Field::Julian => days + i64::from(EPOCH_JULIAN),
        _ => return None,
    })
}

/// Fields of a timestamp as a clock shows it; `utc` is the moment of a timestamptz with its offset east.
fn of_timestamp(field: Field, local: i64, utc: Option<(i64, i32)>) -> Option<Numeric> {
    let (days, time) = split(local);
    match (field, utc) {
        (Field::Epoch, _) => {
            let micros = utc.map_or(local, |(utc, _)| utc);
            decimal(i128::from(micros) + i128::from(UNIX_EPOCH_DAYS) * i128::from(DAY_US), 6)
        }
        (Field::Julian, _) => {
            let day = Numeric::from_i64(days + i64::from(EPOCH_JULIAN));
            let part = Numeric::from_i64(time).div(&Numeric::from_i64(DAY_US)).expect("a day is not 0");
            Some(day.add(&part))
        }
        (Field::Timezone, Some((_, east))) => whole(i64::from(east)),
        (Field::TimezoneHour, Some((_, east))) => whole(i64::from(east / 3600)),
        (Field::TimezoneMinute, Some((_, east))) => whole(i64::from(east / 60 % 60)),
        _ => of_time(field, time).or_else(|| of_day(field, days)),
    }
}

/// Infinite moments have infinite years and no hours.
fn of_infinity(field: Field, positive: bool) -> Option<Numeric> {
    use Unit::{Century, Decade, Millennium, Year};
    match field {
        Field::Unit(Year | Decade | Century | Millennium) | Field::Epoch | Field::IsoYear | Field::Julian => {
            Some(if positive { Numeric::Infinity } else { Numeric::MinusInfinity })
        }
        _ => None,
    }
}

fn of_interval(field: Field, interval: Interval) -> Option<Numeric> {
    let months = i64::from(interval.months);
    match field {
        Field::Unit(Unit::Day) => whole(i64::from(interval.days)),
        Field::Unit(Unit::Month) => whole(months % 12),
        Field::Unit(Unit::Quarter) => whole(months % 12 / 3 + 1),
        Field::Unit(Unit::Year) => whole(months / 12),
        Field::Unit(Unit::Decade) => whole(months / 120),
        Field::Unit(Unit::Century) => whole(months / 1200),
        Field::Unit(Unit::Millennium) => whole(months / 12_000),
        // A year counts 365.25 days here, a month 30.
        Field::Epoch => {
            let days_x4 = i128::from(months / 12) * 1461
                + i128::from(months % 12) * 120
                + i128::from(interval.days) * 4;
            decimal(days_x4 * i128::from(DAY_US / 4) + i128::from(interval.micros), 6)
        }
        _ => of_time(field, interval.micros),
    }
}

/// The field of any value: `None` if the type has no such field, NULL for infinities.
fn extract(ctx: &EvalContext<'_>, a: &[Value]) -> Result<Value> {
    let name = text(&a[0]).to_ascii_lowercase();
    let ty = match &a[1] {
        Value::Date(_) => "date",
        Value::Timestamp(_) => "timestamp without time zone",
        Value::Timestamptz(_) => "timestamp with time zone",
        Value::Time(_) => "time without time zone",
        Value::Timetz(..) => "time with time zone",
        _ => "interval",
    };
    let field = field(&name).ok_or_else(|| unknown(&name, ty))?;
    let found = match &a[1] {
        Value::Date(date @ (i32::MAX | i32::MIN)) => {
            return infinite(field, *date > 0, &name, ty, |field| of_day(field, 0));
        }
        Value::Date(_) => {
            let days = i64::from(date_of(&a[1]));
            match field {
                Field::Epoch => whole((days + UNIX_EPOCH_DAYS) * 86_400),
                field => of_day(field, days),
            }
        }
        Value::Timestamp(us) | Value::Timestamptz(us) if is_infinite(*us) => {
            return infinite(field, *us > 0, &name, ty, |field| of_timestamp(field, 0, Some((0, 0))));
        }
        Value::Timestamp(_) => of_timestamp(field, timestamp_of(&a[1]), None),
        Value::Timestamptz(_) => {
            let utc = timestamptz_of(&a[1]);
            let east = offset_at(&ctx.settings.time_zone, utc);
            of_timestamp(field, utc + i64::from(east) * SECOND_US, Some((utc, east)))
        }
        Value::Time(_) if field == Field::Epoch => decimal(i128::from(time_of(&a[1])), 6),
        Value::Time(time) => of_time(field, *time),
        Value::Timetz(time, west) => match field {
            Field::Epoch => decimal(i128::from(*time) + i128::from(*west) * i128::from(SECOND_US), 6),
            Field::Timezone => whole(i64::from(-west)),
            Field::TimezoneHour => whole(i64::from(-west / 3600)),
            Field::TimezoneMinute => whole(i64::from(-west / 60 % 60)),
            field => of_time(field, *time),
        },
        other => of_interval(field, interval_of(other)),
    };
    found.map(Value::Numeric).ok_or_else(|| unsupported(&name, ty))
}

fn infinite(
    field: Field,
    positive: bool,
    name: &str,
    ty: &str,
    exists: impl Fn(Field) -> Option<Numeric>,
) -> Result<Value> {
    match of_infinity(field, positive) {
        Some(infinity) => Ok(Value::Numeric(infinity)),
        None if exists(field).is_some() => Ok(Value::Null),
        None => Err(unsupported(name, ty)),
    }
}

/// date_part gives the same as a float.
fn part(ctx: &EvalContext<'_>, a: &[Value]) -> Result<Value> {
    Ok(match extract(ctx, a)? {
        Value::Numeric(number) => Value::Float8(number.to_f64()),
        other => other,
    })
}

/// The start of the unit that a clock's time lies in.
fn truncated(unit: Unit, local: i64) -> i64 {
    let (days, time) = split(local);
    let Day { year, month, .. } = day_of(days);
    let at = |year: i64, month: i64| days_of(Day { year, month, day: 1 }) * DAY_US;
    let cut = |unit_us: i64| days * DAY_US + time / unit_us * unit_us;
    // Centuries and millennia begin with year 1.
    let era = |len: i64| {
        if year > 0 {
            (year + len - 1) / len * len - (len - 1)
        } else {
            -((len - 1 - (year - 1)) / len) * len + 1
        }
    };
    match unit {
        Unit::Microsecond => local,
        Unit::Millisecond => cut(1000),
        Unit::Second => cut(SECOND_US),
        Unit::Minute => cut(60_000_000),
        Unit::Hour => cut(3_600_000_000),
        Unit::Day => days * DAY_US,
        Unit::Week => (days - (weekday(days) + 6) % 7) * DAY_US,
        Unit::Month => at(year, month),
        Unit::Quarter => at(year, (month - 1) / 3 * 3 + 1),
        Unit::Year => at(year, 1),
        Unit::Decade => at(year.div_euclid(10) * 10, 1),
        Unit::Century => at(era(100), 1),
        Unit::Millennium => at(era(1000), 1),
    }
}

fn unit_of(name: &Value, ty: &str) -> Result<Unit> {
    let name = text(name).to_ascii_lowercase();
    match field(&name) {
        Some(Field::Unit(unit)) => Ok(unit),
        Some(Field::Timezone | Field::TimezoneHour | Field::TimezoneMinute) => Err(unsupported(&name, ty)),
        _ => Err(unknown(&name, ty)),
    }
}

fn truncate_interval(unit: Unit, interval: Interval, name: &Value) -> Result<Interval> {
    let Interval { months, days, micros } = interval;
    let cut = |unit: i32| Interval { months: months / unit * unit, ..Interval::default() };
    let time = |unit_us: i64| Interval { months, days, micros: micros / unit_us * unit_us };
    Ok(match unit {
        Unit::Millennium => cut(12_000),
        Unit::Century => cut(1200),
        Unit::Decade => cut(120),
        Unit::Year => cut(12),
        Unit::Quarter => cut(3),
        Unit::Month => cut(1),
        Unit::Day => Interval { months, days, micros: 0 },
        Unit::Hour => time(3_600_000_000),
        Unit::Minute => time(60_000_000),
        Unit::Second => time(SECOND_US),
        Unit::Millisecond => time(1000),
        Unit::Microsecond => interval,
        Unit::Week => {
            return Err(unsupported(text(name), "interval").detail("Months usually have fractional weeks."));
        }
    })
}

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "extract_date"
        | "extract_time"
        | "extract_timetz"
        | "extract_timestamp"
        | "extract_timestamptz"
        | "extract_interval" => scalar(extract),
        "timestamp_part" | "timestamptz_part" | "time_part" | "timetz_part" | "interval_part" => scalar(part),
        "date_part/2" => scalar(|ctx, a| {
            let local = match date_of(&a[1]) {
                i32::MAX => i64::MAX,
                i32::MIN => i64::MIN,
                date => i64::from(date) * DAY_US,
            };
            part(ctx, &[a[0].clone(), Value::Timestamp(local)])
        }),
        "timestamp_trunc" => scalar(|_, a| {
            let unit = unit_of(&a[0], "timestamp without time zone")?;
            let local = timestamp_of(&a[1]);
            Ok(Value::Timestamp(if is_infinite(local) { local } else { truncated(unit, local) }))
        }),
        "timestamptz_trunc" | "timestamptz_trunc_zone" => scalar(|ctx, a| {
            let unit = unit_of(&a[0], "timestamp with time zone")?;
            let utc = timestamptz_of(&a[1]);
            let zone = match a.get(2) {
                Some(name) => zone_named(text(name))?,
                None => ctx.settings.time_zone.clone(),
            };
            if is_infinite(utc) {
                return Ok(Value::Timestamptz(utc));
            }
            let local = utc_to_local(&zone, utc);
            let cut = truncated(unit, local);
            // Small units are cut without asking the zone again, which may show an hour twice.
            let moved = match unit {
                Unit::Microsecond | Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour => {
                    utc - (local - cut)
                }
                _ => local_to_utc(&zone, cut),
            };
            Ok(Value::Timestamptz(moved))
        }),
        "interval_trunc" => scalar(|_, a| {
            let unit = unit_of(&a[0], "interval")?;
            truncate_interval(unit, interval_of(&a[1]), &a[0]).map(Value::Interval)
        }),
        _ => None,
    }
}
