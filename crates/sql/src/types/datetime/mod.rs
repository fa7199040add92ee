//! Dates and times: calendar, time zones, arithmetic; [`date_style`] and [`interval_style`] write them.
//!
//! Units: days and microseconds since 2000-01-01; offsets of zones in seconds east of UTC (a timetz holds
//! seconds west, as PostgreSQL does). `i64::MAX` and `i64::MIN` (`i32` for dates) are the infinities.

pub mod date_style;
pub mod interval;
mod interval_iso;
pub mod interval_style;
pub mod parse;
pub(crate) mod words;

pub use words::{fixed, named_zone, zone};

use std::fmt::Write;

use jiff::civil;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::value::Interval;
use crate::error::{Result, SqlError, SqlState};

/// Microseconds in a second.
pub const SECOND_US: i64 = 1_000_000;
/// Microseconds in a day.
pub const DAY_US: i64 = 86_400 * SECOND_US;
/// Julian day of 2000-01-01.
pub const EPOCH_JULIAN: i32 = 2_451_545;
/// Days from 1970-01-01 to 2000-01-01.
pub const UNIX_EPOCH_DAYS: i64 = 10_957;
/// First day of a timestamp or date (4713-11-24 BC), in days since 2000-01-01.
const FIRST_DAY: i64 = -2_451_545;
/// Behind the last timestamp: 294277-01-01.
const END_TIMESTAMP_US: i64 = 9_223_371_331_200_000_000;
/// Behind the last date: 5874898-01-01.
const END_DAY: i64 = 2_145_031_949;

/// A day of the calendar; year 0 is 1 BC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    /// Year; 0 is 1 BC, -1 is 2 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
}

/// Days since 2000-01-01 of a day (proleptic Gregorian; Howard Hinnant's `days_from_civil`).
pub fn days_of(day: Day) -> i64 {
    let year = day.year - i64::from(day.month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (day.month + if day.month > 2 { -3 } else { 9 }) + 2) / 5 + day.day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468 - UNIX_EPOCH_DAYS
}

/// The day that lies `days` after 2000-01-01.
pub fn day_of(days: i64) -> Day {
    let z = days + UNIX_EPOCH_DAYS + 719_468;
    let (era, of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    Day { year: year + era * 400 + i64::from(month <= 2), month, day }
}

/// Days of a month.
pub fn month_len(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Day of the week of a date: 0 is Sunday.
pub fn weekday(days: i64) -> i64 {
    (days + 6).rem_euclid(7)
}

/// ISO year and week of a date.
pub fn iso_week(days: i64) -> (i64, i64) {
    // The week belongs to the year that its Thursday lies in.
    let thursday = days - (weekday(days) + 6) % 7 + 3;
    let year = day_of(thursday).year;
    let first = days_of(Day { year, month: 1, day: 1 });
    (year, (thursday - first) / 7 + 1)
}

#[cold]
pub(crate) fn timestamp_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

#[cold]
pub(crate) fn date_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")
}

#[cold]
pub(crate) fn interval_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

/// The timestamp, if it is one that PostgreSQL has.
pub fn timestamp_in_range(micros: i128) -> Result<i64> {
    let first = i128::from(FIRST_DAY) * i128::from(DAY_US);
    if micros < first || micros >= i128::from(END_TIMESTAMP_US) {
        return Err(timestamp_out_of_range());
    }
    Ok(micros as i64)
}

/// The date, if it is one that PostgreSQL has.
pub fn date_in_range(days: i64) -> Result<i32> {
    if !(FIRST_DAY..END_DAY).contains(&days) { Err(date_out_of_range()) } else { Ok(days as i32) }
}

/// Days and microseconds within the day of a timestamp.
pub fn split(micros: i64) -> (i64, i64) {
    (micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US))
}

/// Whether a timestamp is one of the infinities.
pub fn is_infinite(micros: i64) -> bool {
    micros == i64::MAX || micros == i64::MIN
}

/// Years that time zones are computed in; others are moved there by multiples of 400 years.
const ZONE_YEARS: std::ops::Range<i64> = 1..9000;

fn into_zone_years(micros: i64) -> i64 {
    let year = day_of(micros.div_euclid(DAY_US)).year;
    let cycles = match year {
        _ if ZONE_YEARS.contains(&year) => return micros,
        ..1 => -(year.div_euclid(400)),
        _ => -((year - 8600).div_euclid(400)),
    };
    (i128::from(micros) + i128::from(cycles) * 146_097 * i128::from(DAY_US)) as i64
}

/// Offset of a zone at a moment, in seconds east.
pub fn offset_at(zone: &TimeZone, utc_us: i64) -> i32 {
    let unix_us = into_zone_years(utc_us) + UNIX_EPOCH_DAYS * DAY_US;
    let moment = jiff::Timestamp::from_microsecond(unix_us).expect("years of zones are jiff's");
    zone.to_offset(moment).seconds()
}

/// The moment that a clock of the zone shows this time: the first offset where the clock jumps over it, the
/// second where it shows it twice.
pub fn local_to_utc(zone: &TimeZone, local_us: i64) -> i64 {
    let (days, time) = split(into_zone_years(local_us));
    let day = day_of(days);
    let date = civil::date(day.year as i16, day.month as i8, day.day as i8);
    let (hour, minute, second) = (time / 3_600_000_000, time / 60_000_000 % 60, time / SECOND_US % 60);
    let clock = date.at(hour as i8, minute as i8, second as i8, 0);
    let offset = match zone.to_ambiguous_timestamp(clock).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        AmbiguousOffset::Gap { before, .. } => before,
        AmbiguousOffset::Fold { after, .. } => after,
    };
    local_us - i64::from(offset.seconds()) * SECOND_US
}

/// What the zone's clocks show at a moment.
pub fn utc_to_local(zone: &TimeZone, utc_us: i64) -> i64 {
    utc_us + i64::from(offset_at(zone, utc_us)) * SECOND_US
}

/// The zone's abbreviation at a moment (`CET`), or its offset where it has none.
pub fn abbreviation_at(zone: &TimeZone, utc_us: i64) -> String {
    let unix_us = into_zone_years(utc_us) + UNIX_EPOCH_DAYS * DAY_US;
    let moment = jiff::Timestamp::from_microsecond(unix_us).expect("years of zones are jiff's");
    zone.to_offset_info(moment).abbreviation().to_string()
}

/// Appends `HH:MM:SS[.ffffff]`.
pub fn write_time(micros: i64, to: &mut String) {
    let (hours, minutes, seconds) =
        (micros / 3_600_000_000, micros / 60_000_000 % 60, micros / SECOND_US % 60);
    write!(to, "{hours:02}:{minutes:02}:{seconds:02}").expect("a string takes it");
    write_fraction(micros % SECOND_US, to);
}

/// Appends the fraction of a second without zeros at the end.
pub(crate) fn write_fraction(micros: i64, to: &mut String) {
    if micros != 0 {
        let digits = format!("{:06}", micros.abs());
        to.push('.');
        to.push_str(digits.trim_end_matches('0'));
    }
}

/// Appends an offset: `+02`, `-03:30`.
pub fn write_offset(east: i32, to: &mut String) {
    let sign = if east < 0 { '-' } else { '+' };
    let (hours, minutes, seconds) = (east.abs() / 3600, east.abs() / 60 % 60, east.abs() % 60);
    write!(to, "{sign}{hours:02}").expect("a string takes it");
    if minutes != 0 || seconds != 0 {
        write!(to, ":{minutes:02}").expect("a string takes it");
    }
    if seconds != 0 {
        write!(to, ":{seconds:02}").expect("a string takes it");
    }
}

/// Rounded to a precision of 0 to 6 digits of a second; other precisions change nothing.
pub fn round_micros(micros: i64, precision: i32) -> i64 {
    if is_infinite(micros) || !(0..6).contains(&precision) {
        return micros;
    }
    let unit = 10i64.pow(6 - precision as u32);
    if micros >= 0 { (micros + unit / 2) / unit * unit } else { -((-micros + unit / 2) / unit * unit) }
}

/// A timestamp (local time) plus an interval: months first (the day is cut to the month), then days, then
/// time.
pub fn add_to_timestamp(micros: i64, interval: Interval) -> Result<i64> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    let moved = add_months_and_days(micros, interval)?;
    timestamp_in_range(i128::from(moved) + i128::from(interval.micros))
}

/// A timestamptz plus an interval: months and days by the zone's clocks, time in real time.
pub fn add_to_timestamptz(utc_us: i64, interval: Interval, zone: &TimeZone) -> Result<i64> {
    if is_infinite(utc_us) {
        return Ok(utc_us);
    }
    let mut moved = utc_us;
    if interval.months != 0 || interval.days != 0 {
        moved = local_to_utc(zone, add_months_and_days(utc_to_local(zone, utc_us), interval)?);
    }
    timestamp_in_range(i128::from(moved) + i128::from(interval.micros))
}

fn add_months_and_days(micros: i64, interval: Interval) -> Result<i64> {
    let (mut days, time) = split(micros);
    if interval.months != 0 {
        let day = day_of(days);
        let months = day.year * 12 + day.month - 1 + i64::from(interval.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        days = days_of(Day { year, month, day: day.day.min(month_len(year, month)) });
    }
    days += i64::from(interval.days);
    timestamp_in_range(i128::from(days) * i128::from(DAY_US) + i128::from(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_back() {
        for days in (-2_451_545..3_000_000).step_by(997) {
            let day = day_of(days);
            assert_eq!(days_of(day), days);
            assert!((1..=month_len(day.year, day.month)).contains(&day.day));
        }
        assert_eq!(days_of(Day { year: 2000, month: 1, day: 1 }), 0);
        assert_eq!((weekday(0), iso_week(0)), (6, (1999, 52)));
    }

    #[test]
    fn clocks_that_jump() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let at = |day: Day, hour: i64| days_of(day) * DAY_US + hour * 3600 * SECOND_US;
        let spring = at(Day { year: 2024, month: 3, day: 31 }, 2);
        assert_eq!(local_to_utc(&zone, spring), spring - 3600 * SECOND_US);
        let autumn = at(Day { year: 2024, month: 10, day: 27 }, 2);
        assert_eq!(local_to_utc(&zone, autumn), autumn - 3600 * SECOND_US);
        let far = at(Day { year: 100_024, month: 7, day: 1 }, 2);
        assert_eq!(offset_at(&zone, far), 7200);
    }
}
