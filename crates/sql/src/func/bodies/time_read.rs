//! Times out of texts by a pattern: `to_date`, `to_timestamp`.

use super::time_format::{DAYS, MONTHS, Piece, pieces};
use super::{scalar, text};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::datetime::{
    DAY_US, Day, EPOCH_JULIAN, SECOND_US, date_in_range, days_of, local_to_utc, month_len,
    timestamp_in_range, weekday,
};
use crate::types::value::Value;

/// What a text gives, as far as it has been read.
#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    of_year: Option<i64>,
    julian: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    week_of_month: Option<i64>,
    week_of_year: Option<i64>,
    quarter: Option<i64>,
    century: Option<i64>,
    hour: i64,
    twelve_hours: bool,
    minute: i64,
    second: i64,
    seconds_of_day: Option<i64>,
    micros: i64,
    pm: Option<bool>,
    is_bc: bool,
    zone_sign: i64,
    zone_hours: Option<i64>,
    zone_minutes: i64,
}

#[cold]
fn bad_value(text: &str, word: &str) -> SqlError {
    let text = text.split_whitespace().next().unwrap_or_default();
    let message = format!("invalid value \"{text}\" for \"{word}\"");
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
        .detail("The given value did not match any of the allowed values for this field.")
}

#[cold]
fn out_of_range(text: &str) -> SqlError {
    let message = format!("date/time field value out of range: \"{text}\"");
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// Most digits that a field takes when another number follows it.
fn digits_max(word: &str) -> usize {
    match word {
        "YYYY" | "IYYY" | "SSSS" | "SSSSS" => {
            if word.len() == 5 {
                5
            } else {
                4
            }
        }
        "YYY" | "IYY" | "DDD" | "IDDD" | "MS" | "FF3" => 3,
        "Y" | "I" | "D" | "ID" | "W" | "Q" | "FF1" => 1,
        "J" => 7,
        "US" | "FF6" => 6,
        "FF4" => 4,
        "FF5" => 5,
        _ => 2,
    }
}

fn name_at(rest: &str, names: &[&str], short: bool) -> Option<(usize, usize)> {
    names
        .iter()
        .position(|name| {
            let name = if short { &name[..3] } else { name };
            rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        })
        .map(|at| (at, if short { 3 } else { names[at].len() }))
}

/// The error about a field, whose name is shown as the pattern has it.
fn as_given(mut error: SqlError, word: &str, given: &str) -> SqlError {
    error.message = error.message.replace(&format!("for \"{word}\""), &format!("for \"{given}\""));
    error
}

/// Weeks as ISO counts them go with years that it counts, and the others with the others.
fn one_convention(pieces: &[Piece]) -> Result<()> {
    const ISO: &[&str] = &["IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I"];
    const GREGORIAN: &[&str] = &[
        "CC", "DDD", "DD", "D", "MM", "MONTH", "MON", "Q", "RM", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY",
        "Y", "BC", "AD", "B.C.", "A.D.",
    ];
    let any = |list: &[&str]| {
        pieces.iter().any(|piece| matches!(piece, Piece::Field { word, .. } if list.contains(word)))
    };
    if !any(ISO) || !any(GREGORIAN) {
        return Ok(());
    }
    Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, "invalid combination of date conventions")
        .hint("Do not mix Gregorian and ISO week date conventions in a formatting template."))
}

fn read(whole: &str, pattern: &str) -> Result<Fields> {
    let mut fields = Fields { zone_sign: 1, ..Fields::default() };
    let mut rest = whole;
    let pieces = pieces(pattern);
    one_convention(&pieces)?;
    let is_separator = |c: char| !c.is_alphanumeric();
    for (i, piece) in pieces.iter().enumerate() {
        let (word, given, fill, ending) = match piece {
            Piece::Literal(c) => {
                if is_separator(*c) {
                    // Separators of the text and of the pattern may differ in kind and number.
                    rest = match rest.chars().next() {
                        Some(own)
                            if is_separator(own)
                                && !(matches!(own, '-' | '+') && next_is_zone(&pieces, i)) =>
                        {
                            &rest[own.len_utf8()..]
                        }
                        _ => rest,
                    };
                } else {
                    rest = rest.chars().next().map_or(rest, |own| &rest[own.len_utf8()..]);
                }
                continue;
            }
            Piece::Field { word, given, fill, ordinal } => (*word, given, *fill, ordinal.is_some()),
        };
        rest = rest.trim_start();
        if !matches!(word, "TZH" | "OF" | "YYYY" | "Y,YYY") {
            rest = rest.trim_start_matches(|c: char| is_separator(c) && !matches!(c, '-' | '+'));
        }
        if let Some(taken) =
            read_word(rest, word, &mut fields).map_err(|error| as_given(error, word, given))?
        {
            rest = &rest[taken..];
            continue;
        }
        let signed = matches!(word, "TZH") && rest.starts_with(['-', '+']);
        if signed {
            fields.zone_sign = if rest.starts_with('-') { -1 } else { 1 };
            rest = &rest[1..];
        }
        let followed = matches!(pieces.get(i + 1), Some(Piece::Field { .. }));
        let limit = if fill || !followed {
            if followed { usize::MAX } else { limit_alone(word) }
        } else {
            digits_max(word)
        };
        let len = rest.bytes().take(limit).take_while(u8::is_ascii_digit).count();
        if len == 0 {
            if rest.is_empty() {
                break;
            }
            let shown: String = rest.chars().take(digits_max(word)).collect();
            return Err(bad_value(&shown, given).detail("Value must be an integer."));
        }
        let digits = &rest[..len];
        let number: i64 = digits.parse().map_err(|_| out_of_range(whole))?;
        store(&mut fields, word, digits, number, whole)?;
        rest = &rest[len..];
        if ending {
            rest = rest.get(2..).unwrap_or("");
        }
    }
    Ok(fields)
}

fn next_is_zone(pieces: &[Piece], at: usize) -> bool {
    matches!(pieces.get(at + 1), Some(Piece::Field { word: "TZH" | "OF", .. }))
}

/// Digits that a field takes when none follows: years may be longer.
fn limit_alone(word: &str) -> usize {
    match word {
        "YYYY" | "IYYY" | "J" => 9,
        other => digits_max(other),
    }
}

/// Fields that are words; the number of bytes read.
fn read_word(rest: &str, word: &str, fields: &mut Fields) -> Result<Option<usize>> {
    let one_of = |options: &[&str]| {
        options.iter().position(|o| rest.get(..o.len()).is_some_and(|start| start.eq_ignore_ascii_case(o)))
    };
    Ok(Some(match word {
        "MONTH" | "MON" => {
            let full = if word == "MONTH" { name_at(rest, &MONTHS, false) } else { None };
            let (at, len) =
                full.or_else(|| name_at(rest, &MONTHS, true)).ok_or_else(|| bad_value(rest, word))?;
            fields.month = Some(at as i64 + 1);
            len
        }
        "DAY" | "DY" => {
            let full = if word == "DAY" { name_at(rest, &DAYS, false) } else { None };
            full.or_else(|| name_at(rest, &DAYS, true)).ok_or_else(|| bad_value(rest, word))?.1
        }
        "AM" | "PM" => {
            let at = one_of(&["am", "pm"]).ok_or_else(|| bad_value(rest, word))?;
            (fields.pm, fields.twelve_hours) = (Some(at == 1), true);
            2
        }
        "A.M." | "P.M." => {
            let at = one_of(&["a.m.", "p.m."]).ok_or_else(|| bad_value(rest, word))?;
            (fields.pm, fields.twelve_hours) = (Some(at == 1), true);
            4
        }
        "BC" | "AD" => {
            fields.is_bc = one_of(&["ad", "bc"]).ok_or_else(|| bad_value(rest, word))? == 1;
            2
        }
        "B.C." | "A.D." => {
            fields.is_bc = one_of(&["a.d.", "b.c."]).ok_or_else(|| bad_value(rest, word))? == 1;
            4
        }
        "RM" => {
            let numerals = ["viii", "vii", "iii", "xii", "vi", "iv", "ix", "ii", "xi", "v", "x", "i"];
            let values = [8, 7, 3, 12, 6, 4, 9, 2, 11, 5, 10, 1];
            let at = one_of(&numerals).ok_or_else(|| bad_value(rest, word))?;
            fields.month = Some(values[at]);
            numerals[at].len()
        }
        "TZ" | "OF" => {
            let message = format!("formatting field \"{word}\" is only supported in to_char");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        _ => return Ok(None),
    }))
}

fn short_year(digits: &str, number: i64) -> i64 {
    match digits.len() {
        1 | 2 => number + if number < 70 { 2000 } else { 1900 },
        3 => {
            number
                + if number < 100 {
                    2000
                } else if number >= 520 {
                    1000
                } else {
                    2000
                }
        }
        _ => number,
    }
}

fn store(fields: &mut Fields, word: &str, digits: &str, number: i64, whole: &str) -> Result<()> {
    let scaled = |places: usize| {
        let cut: String = format!("{digits:0<places$}").chars().take(places).collect();
        cut.parse::<i64>().unwrap_or(0)
    };
    match word {
        "YYYY" => fields.year = Some(number),
        "YYY" | "YY" | "Y" => fields.year = Some(short_year(digits, number)),
        "IYYY" => fields.iso_year = Some(number),
        "IYY" | "IY" | "I" => fields.iso_year = Some(short_year(digits, number)),
        "MM" => fields.month = Some(number),
        "DD" => fields.day = Some(number),
        "DDD" => fields.of_year = Some(number),
        "J" => fields.julian = Some(number),
        "IW" => fields.iso_week = Some(number),
        "ID" => fields.iso_day = Some(number),
        "W" => fields.week_of_month = Some(number),
        "WW" => fields.week_of_year = Some(number),
        "Q" => fields.quarter = Some(number),
        "CC" => fields.century = Some(number),
        "HH24" => fields.hour = number,
        "HH" | "HH12" => {
            if !(1..=12).contains(&number) {
                let message = format!("hour \"{number}\" is invalid for the 12-hour clock");
                return Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
                    .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            (fields.hour, fields.twelve_hours) = (number, true);
        }
        "MI" => fields.minute = number,
        "SS" => fields.second = number,
        "SSSS" | "SSSSS" => fields.seconds_of_day = Some(number),
        "MS" | "FF3" => fields.micros += scaled(3) * 1000,
        "US" | "FF6" => fields.micros += scaled(6),
        "FF1" | "FF2" | "FF4" | "FF5" => fields.micros += scaled(6),
        "TZH" => fields.zone_hours = Some(number),
        "TZM" => fields.zone_minutes = number,
        _ => {}
    }
    if fields.hour > 23 || fields.minute > 59 || fields.second > 59 {
        return Err(out_of_range(whole));
    }
    Ok(())
}

impl Fields {
    fn days(&self, whole: &str) -> Result<i64> {
        if let Some(julian) = self.julian {
            return Ok(julian - i64::from(EPOCH_JULIAN));
        }
        if let Some(iso_year) = self.iso_year {
            let fourth = days_of(Day { year: iso_year, month: 1, day: 4 });
            let monday = fourth - (weekday(fourth) + 6) % 7;
            return Ok(monday + (self.iso_week.unwrap_or(1) - 1) * 7 + self.iso_day.unwrap_or(1) - 1);
        }
        let mut year = self.year.or(self.century.map(|century| (century - 1) * 100 + 1)).unwrap_or(0);
        if self.is_bc {
            year = 1 - year;
        } else if year == 0 && self.year.is_none() {
            // Without a year it is 1 BC.
            year = 0;
        }
        let of_year = self.of_year.or(self.week_of_year.map(|week| (week - 1) * 7 + 1));
        if let Some(of_year) = of_year {
            let len =
                days_of(Day { year: year + 1, month: 1, day: 1 }) - days_of(Day { year, month: 1, day: 1 });
            if !(1..=len).contains(&of_year) {
                return Err(out_of_range(whole));
            }
            return Ok(days_of(Day { year, month: 1, day: 1 }) + of_year - 1);
        }
        let month = self.month.unwrap_or(1);
        let day = self.day.or(self.week_of_month.map(|week| (week - 1) * 7 + 1)).unwrap_or(1);
        if !(1..=12).contains(&month) || day < 1 || day > month_len(year, month) {
            return Err(out_of_range(whole));
        }
        debug_assert!(self.quarter.is_none_or(|quarter| quarter >= 0));
        Ok(days_of(Day { year, month, day }))
    }

    fn time(&self) -> i64 {
        if let Some(seconds) = self.seconds_of_day {
            return seconds * SECOND_US + self.micros;
        }
        let hour = match self.pm {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            None if self.twelve_hours && self.hour == 12 => 0,
            _ => self.hour,
        };
        ((hour * 60 + self.minute) * 60 + self.second) * SECOND_US + self.micros
    }
}

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "to_date" => scalar(|_, a| {
            let whole = text(&a[0]);
            date_in_range(read(whole, text(&a[1]))?.days(whole)?).map(Value::Date)
        }),
        "to_timestamp" => scalar(|ctx, a| {
            let whole = text(&a[0]);
            let fields = read(whole, text(&a[1]))?;
            let micros = i128::from(fields.days(whole)?) * i128::from(DAY_US) + i128::from(fields.time());
            let local = timestamp_in_range(micros)?;
            Ok(Value::Timestamptz(match fields.zone_hours {
                Some(hours) => {
                    let east = fields.zone_sign * (hours * 3600 + fields.zone_minutes * 60);
                    local - east * SECOND_US
                }
                None => local_to_utc(&ctx.settings.time_zone, local),
            }))
        }),
        _ => None,
    }
}
