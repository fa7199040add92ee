//! Times out of texts by a pattern: `to_date`, `to_timestamp`.
//!
//! A text is read from left to right, field by field of the pattern, which ends where the text ends. Outside
//! of FX mode spaces and separators of the text may be more, fewer or others than the pattern has. As
//! PostgreSQL has it, 0 and "not told" are the same of most fields.
//!
//! [`standard`] reads strictly, as paths of JSON do.

mod standard;

pub(super) use standard::{iso, standard};

use super::time_format::{DAYS, MONTHS, Piece, pieces};
use super::{scalar, text};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::datetime::{
    DAY_US, Day, EPOCH_JULIAN, SECOND_US, date_in_range, day_of, days_of, local_to_utc, month_len,
    round_micros, timestamp_in_range, weekday,
};
use crate::types::value::Value;

/// Which calendar a pattern speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Convention {
    Gregorian,
    IsoWeek,
}

/// What a text gives, as far as it has been read. Days of the week are counted from Sunday, 1.
#[derive(Default)]
struct Fields {
    convention: Option<Convention>,
    year: i64,
    year_digits: usize,
    century: i64,
    is_bc: i64,
    month: i64,
    day: i64,
    of_year: i64,
    of_week: i64,
    week_of_month: i64,
    week: i64,
    julian: i64,
    hour: i64,
    twelve_hours: bool,
    pm: i64,
    minute: i64,
    second: i64,
    seconds_of_day: i64,
    millis: i64,
    micros: i64,
    /// Digits of a fraction that count, 0: all.
    precision: i32,
    zone_sign: i64,
    zone_hours: i64,
    zone_minutes: i64,
}

#[cold]
fn format_error(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

#[cold]
fn bad_value(text: &str, word: &str) -> SqlError {
    format_error(format!("invalid value \"{text}\" for \"{word}\""))
}

#[cold]
fn out_of_range(text: &str) -> SqlError {
    let message = format!("date/time field value out of range: \"{text}\"");
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// Characters that a number has where the next field begins with a digit.
fn width(word: &str) -> usize {
    match word {
        "HH24" | "HH12" => 2,
        "IDDD" | "MS" => 3,
        "ID" | "J" => 1,
        "US" => 6,
        "TZH" | "TZM" => 2,
        fraction if fraction.starts_with("FF") => usize::from(fraction.as_bytes()[2] - b'0'),
        other => other.len(),
    }
}

fn starts_with_digit(piece: &Piece) -> bool {
    match piece {
        Piece::Literal(c, _) => c.is_ascii_digit(),
        Piece::Fixed => false,
        Piece::Field { word, .. } => {
            let is_name = matches!(
                *word,
                "A.D."
                    | "AD"
                    | "B.C."
                    | "BC"
                    | "A.M."
                    | "AM"
                    | "P.M."
                    | "PM"
                    | "DAY"
                    | "DY"
                    | "MONTH"
                    | "MON"
            );
            !is_name && !matches!(*word, "RM" | "OF" | "TZ" | "TZH")
        }
    }
}

fn convention_of(word: &str) -> Option<Convention> {
    match word {
        "IDDD" | "ID" | "IW" | "IYYY" | "IYY" | "IY" | "I" => Some(Convention::IsoWeek),
        "DDD" | "DD" | "D" | "MM" | "MONTH" | "MON" | "RM" | "WW" | "W" | "Y,YYY" | "YYYY" | "YYY" | "YY"
        | "Y" => Some(Convention::Gregorian),
        _ => None,
    }
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

/// A field of the pattern.
struct Field<'p> {
    word: &'static str,
    given: &'p str,
    /// Its number ends where its digits do.
    is_open: bool,
}

impl Field<'_> {
    /// Sets a field that is told once, or twice alike.
    fn set(&self, field: &mut i64, value: i64) -> Result<()> {
        if *field != 0 && *field != value {
            let message = format!("conflicting values for \"{}\" field in formatting string", self.given);
            let detail = "This value contradicts a previous setting for the same field type.";
            return Err(format_error(message).detail(detail));
        }
        *field = value;
        Ok(())
    }

    /// Reads a number of at most `width` characters, its sign among them, into a field; how many it had.
    fn number(&self, rest: &mut &str, width: usize, field: &mut i64) -> Result<usize> {
        const FIXED: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";
        let init = *rest;
        let text = init.trim_start_matches(is_space);
        let shown: String = text.chars().take(width).collect();
        let signed = |text: &str| {
            let sign = usize::from(text.starts_with(['-', '+']));
            let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 { 0 } else { sign + digits }
        };
        let used = if self.is_open {
            signed(text)
        } else {
            let remain = text.chars().count();
            if remain < width {
                let message = format!("source string too short for \"{}\" formatting field", self.given);
                let detail = format!("Field requires {width} characters, but only {remain} remain.");
                return Err(format_error(message).detail(detail).hint(FIXED));
            }
            let used = signed(&shown);
            if used > 0 && used < width {
                let detail = format!("Field requires {width} characters, but only {used} could be parsed.");
                return Err(bad_value(&shown, self.given).detail(detail).hint(FIXED));
            }
            used
        };
        if used == 0 {
            return Err(bad_value(&shown, self.given).detail("Value must be an integer."));
        }
        let number = text[..used].parse::<i64>().ok().filter(|number| i32::try_from(*number).is_ok());
        let Some(number) = number else {
            let message = format!("value for \"{}\" in source string is out of range", self.given);
            let error = SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message);
            return Err(error.detail("Value must be in the range -2147483648 to 2147483647."));
        };
        *rest = &text[used..];
        self.set(field, number)?;
        Ok(init.len() - rest.len())
    }

    /// Reads one of these words, and tells which.
    fn one_of(&self, rest: &mut &str, words: &[&str]) -> Result<i64> {
        let is_here =
            |word: &&str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let Some(at) = words.iter().position(is_here) else {
            let shown = rest.split(is_space).next().unwrap_or_default();
            return Err(bad_value(shown, self.given)
                .detail("The given value did not match any of the allowed values for this field."));
        };
        *rest = &rest[words[at].len()..];
        Ok(at as i64)
    }

    /// Reads a year of fewer than four digits, which is one near 2020.
    fn short_year(&self, rest: &mut &str, fields: &mut Fields) -> Result<()> {
        let digits = self.word.len();
        let read = self.number(rest, digits, &mut fields.year)?;
        if read < 4 {
            fields.year += match fields.year {
                ..70 => 2000,
                70..100 => 1900,
                100..520 => 2000,
                520..1000 => 1000,
                _ => 0,
            };
        }
        fields.year_digits = digits;
        Ok(())
    }

    fn millennia(&self, rest: &mut &str, fields: &mut Fields) -> Result<()> {
        let bad = || format_error("invalid input string for \"Y,YYY\"".to_string());
        let (thousands, behind) = rest.split_once(',').ok_or_else(bad)?;
        let thousands: i64 = thousands.trim_start_matches(is_space).parse().map_err(|_| bad())?;
        let len = behind.bytes().take(3).take_while(u8::is_ascii_digit).count();
        let years: i64 = behind[..len].parse().map_err(|_| bad())?;
        self.set(&mut fields.year, thousands * 1000 + years)?;
        fields.year_digits = 4;
        *rest = &behind[len..];
        Ok(())
    }

    fn zone_hours(&self, rest: &mut &str, fields: &mut Fields, passed: Option<char>) -> Result<()> {
        let sign = rest.chars().next().filter(|c| matches!(c, '+' | '-' | ' '));
        *rest = &rest[usize::from(sign.is_some())..];
        // What was passed over as a separator may have been the sign.
        fields.zone_sign = if sign.or(passed) == Some('-') { -1 } else { 1 };
        self.number(rest, 2, &mut fields.zone_hours).map(drop)
    }

    fn fraction(&self, rest: &mut &str, places: usize, field: &mut i64) -> Result<()> {
        let read = self.number(rest, width(self.word), field)?;
        *field *= 10i64.pow(places.saturating_sub(read) as u32);
        Ok(())
    }

    /// Reads the field. `passed`: what the text had in front of it beyond what the pattern has.
    fn read(&self, rest: &mut &str, fields: &mut Fields, passed: Option<char>) -> Result<()> {
        let width = width(self.word);
        match self.word {
            "A.M." | "P.M." => self.half_day(rest, fields, &["a.m.", "p.m."])?,
            "AM" | "PM" => self.half_day(rest, fields, &["am", "pm"])?,
            "A.D." | "B.C." => {
                let is_bc = self.one_of(rest, &["a.d.", "b.c."])?;
                self.set(&mut fields.is_bc, is_bc)?;
            }
            "AD" | "BC" => {
                let is_bc = self.one_of(rest, &["ad", "bc"])?;
                self.set(&mut fields.is_bc, is_bc)?;
            }
            "MONTH" | "MON" => {
                let month = self.one_of(rest, &names(&MONTHS, self.word == "MON"))? + 1;
                self.set(&mut fields.month, month)?;
            }
            "RM" => {
                let numerals = ["xii", "xi", "x", "ix", "viii", "vii", "vi", "v", "iv", "iii", "ii", "i"];
                let month = 12 - self.one_of(rest, &numerals)?;
                self.set(&mut fields.month, month)?;
            }
            "DAY" | "DY" => {
                let day = self.one_of(rest, &names(&DAYS, self.word == "DY"))?;
                self.set(&mut fields.of_week, day)?;
                fields.of_week += 1;
            }
            "TZ" | "OF" => {
                let message = format!("formatting field \"{}\" is only supported in to_char", self.given);
                return Err(SqlError::refused_by_postgresql(message));
            }
            "HH" | "HH12" => {
                self.number(rest, width, &mut fields.hour)?;
                fields.twelve_hours = true;
            }
            "HH24" => drop(self.number(rest, width, &mut fields.hour)?),
            "MI" => drop(self.number(rest, width, &mut fields.minute)?),
            "SS" => drop(self.number(rest, width, &mut fields.second)?),
            "SSSS" | "SSSSS" => drop(self.number(rest, width, &mut fields.seconds_of_day)?),
            "MS" => self.fraction(rest, 3, &mut fields.millis)?,
            "US" => self.fraction(rest, 6, &mut fields.micros)?,
            "TZH" => self.zone_hours(rest, fields, passed)?,
            "TZM" => {
                fields.zone_sign = if fields.zone_sign == 0 { 1 } else { fields.zone_sign };
                self.number(rest, width, &mut fields.zone_minutes)?;
            }
            "MM" => drop(self.number(rest, width, &mut fields.month)?),
            "DD" => drop(self.number(rest, width, &mut fields.day)?),
            "DDD" | "IDDD" => drop(self.number(rest, width, &mut fields.of_year)?),
            "D" => drop(self.number(rest, width, &mut fields.of_week)?),
            "ID" => {
                self.number(rest, width, &mut fields.of_week)?;
                fields.of_week = if fields.of_week >= 7 { 1 } else { fields.of_week + 1 };
            }
            "WW" | "IW" => drop(self.number(rest, width, &mut fields.week)?),
            "W" => drop(self.number(rest, width, &mut fields.week_of_month)?),
            // It does not say which day.
            "Q" => drop(self.number(rest, width, &mut 0)?),
            "CC" => drop(self.number(rest, width, &mut fields.century)?),
            "Y,YYY" => self.millennia(rest, fields)?,
            "YYYY" | "IYYY" => {
                self.number(rest, width, &mut fields.year)?;
                fields.year_digits = 4;
            }
            "YYY" | "IYY" | "YY" | "IY" | "Y" | "I" => self.short_year(rest, fields)?,
            "J" => drop(self.number(rest, width, &mut fields.julian)?),
            fraction => {
                debug_assert!(fraction.starts_with("FF"), "a key word that nobody reads: {fraction}");
                fields.precision = width as i32;
                self.fraction(rest, 6, &mut fields.micros)?;
            }
        }
        Ok(())
    }

    fn half_day(&self, rest: &mut &str, fields: &mut Fields, words: &[&str]) -> Result<()> {
        let pm = self.one_of(rest, words)?;
        fields.twelve_hours = true;
        self.set(&mut fields.pm, pm)
    }
}

fn names<const N: usize>(names: &[&'static str; N], short: bool) -> [&'static str; N] {
    names.map(|name| if short { &name[..3] } else { name })
}

/// How exactly the text has to be as the pattern is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Lenient,
    /// Character by character, and to the end.
    Standard,
}

fn read(whole: &str, pieces: &[Piece], mode: Mode) -> Result<Fields> {
    let is_standard = mode == Mode::Standard;
    let (mut fields, mut rest, mut is_fixed) = (Fields::default(), whole, is_standard);
    // Characters that were passed over beyond what the pattern has.
    let mut extra = 0i64;
    let mut before = None;
    for (i, piece) in pieces.iter().enumerate() {
        if rest.is_empty() {
            if is_standard {
                return Err(standard::too_short());
            }
            break;
        }
        let is_field = matches!(piece, Piece::Field { .. });
        if !is_fixed && (is_field || i == 0) {
            extra += pass_spaces(&mut rest, &mut before);
        }
        let own = rest.chars().next();
        match piece {
            Piece::Fixed => is_fixed = true,
            Piece::Literal(c, is_quoted) if is_standard => rest = standard::literal(rest, *c, *is_quoted)?,
            Piece::Literal(c, false) if is_space(*c) || c.is_ascii_punctuation() => {
                let is_taken = own.is_some_and(|own| is_space(own) || own.is_ascii_punctuation());
                extra -= i64::from(!is_fixed && !is_taken);
                if is_taken || is_fixed {
                    before = own;
                    rest = &rest[own.map_or(0, char::len_utf8)..];
                }
            }
            Piece::Literal(..) => {
                if !is_fixed && extra > 0 {
                    extra -= 1;
                } else {
                    rest = &rest[own.map_or(0, char::len_utf8)..];
                }
            }
            Piece::Field { word, given, fill, ordinal } => {
                let convention = convention_of(word);
                if convention.is_some() && fields.convention.is_some_and(|other| Some(other) != convention) {
                    let message = "invalid combination of date conventions".to_string();
                    let hint = "Do not mix Gregorian and ISO week date conventions in a formatting template.";
                    return Err(format_error(message).hint(hint));
                }
                fields.convention = fields.convention.or(convention);
                let is_open = *fill || ordinal.is_some() || !pieces.get(i + 1).is_some_and(starts_with_digit);
                let field = Field { word, given, is_open };
                field.read(&mut rest, &mut fields, before.filter(|_| extra > 0))?;
                if ordinal.is_some() {
                    rest = rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
                }
                if !is_fixed {
                    extra = pass_spaces(&mut rest, &mut before);
                }
            }
        }
    }
    if is_standard && !rest.trim_start_matches(is_space).is_empty() {
        return Err(standard::too_long());
    }
    Ok(fields)
}

fn pass_spaces(rest: &mut &str, before: &mut Option<char>) -> i64 {
    let behind = rest.trim_start_matches(is_space);
    let passed = &rest[..rest.len() - behind.len()];
    *before = passed.chars().last().or(*before);
    *rest = behind;
    passed.len() as i64
}

impl Fields {
    /// The year as the calendar counts it, 0 for 1 BC; none if nothing says which.
    fn calendar_year(&self) -> Option<i64> {
        let century = if self.is_bc != 0 { -self.century } else { self.century };
        match () {
            () if self.year != 0 && self.century != 0 && self.year_digits <= 2 => {
                let of_century = self.year % 100;
                Some(match (of_century, century >= 0) {
                    (0, true) => century * 100,
                    (0, false) => century * 100 + 1,
                    (_, true) => of_century + (century - 1) * 100,
                    (_, false) => (century + 1) * 100 - of_century + 1,
                })
            }
            () if self.year != 0 => {
                let year = if self.is_bc != 0 { -self.year } else { self.year };
                Some(if year < 0 { year + 1 } else { year })
            }
            // The 21st century began in 2001, and the sixth before Christ in 600.
            () if century > 0 => Some((century - 1) * 100 + 1),
            () if century < 0 => Some(century * 100 + 1),
            () => None,
        }
    }

    fn days(&self, whole: &str) -> Result<i64> {
        let told_year = self.calendar_year();
        let mut date = Day { year: told_year.unwrap_or(0), month: 1, day: 1 };
        let (mut has_year, mut has_month, mut has_day) = (told_year.is_some(), false, false);
        let is_iso = self.convention == Some(Convention::IsoWeek);
        let (mut of_year, mut day) = (self.of_year, self.day);
        let monday_of = |year: i64, week: i64| {
            let fourth = days_of(Day { year, month: 1, day: 4 });
            fourth - (weekday(fourth) + 6) % 7 + (week - 1) * 7
        };
        if self.julian != 0 {
            date = day_of(self.julian - i64::from(EPOCH_JULIAN));
            (has_year, has_month, has_day) = (true, true, true);
        }
        if self.week != 0 && is_iso {
            let monday = monday_of(date.year, self.week);
            let behind = match self.of_week {
                0 => 0,
                1 => 6,
                day => day - 2,
            };
            date = day_of(monday + behind);
            (has_year, has_month, has_day) = (true, true, true);
        } else if self.week != 0 {
            of_year = (self.week - 1) * 7 + 1;
        }
        if self.week_of_month != 0 {
            day = (self.week_of_month - 1) * 7 + 1;
        }
        if day != 0 {
            (date.day, has_day) = (day, true);
        }
        if self.month != 0 {
            (date.month, has_month) = (self.month, true);
        }
        if of_year != 0 && (date.month <= 1 || date.day <= 1) {
            if date.year == 0 && self.is_bc == 0 {
                let message = "cannot calculate day of year without year information";
                return Err(format_error(message.to_string()));
            }
            if is_iso {
                date = day_of(monday_of(date.year, 1) - 1 + of_year);
                has_year = true;
            } else {
                let (mut month, mut left) = (1, of_year);
                while month <= 12 && left > month_len(date.year, month) {
                    left -= month_len(date.year, month);
                    month += 1;
                }
                date.month = if date.month <= 1 { month } else { date.month };
                date.day = if date.day <= 1 { left } else { date.day };
            }
            (has_month, has_day) = (true, true);
        }
        let is_whole = has_year && has_month && has_day;
        let bad_month = has_month && !(1..=12).contains(&date.month);
        let bad_day = has_day && !(1..=31).contains(&date.day);
        if bad_month || bad_day || is_whole && date.day > month_len(date.year, date.month) {
            return Err(out_of_range(whole));
        }
        // Without a year a month may end too late; the days go on in the next.
        Ok(days_of(Day { day: 1, ..date }) + date.day - 1)
    }

    fn time(&self, whole: &str) -> Result<i64> {
        let of_day = self.seconds_of_day;
        let (mut hour, mut minute, mut second) = (of_day / 3600, of_day % 3600 / 60, of_day % 60);
        let told = |field: i64, into: &mut i64| *into = if field != 0 { field } else { *into };
        told(self.second, &mut second);
        told(self.minute, &mut minute);
        told(self.hour, &mut hour);
        if self.twelve_hours {
            if !(1..=12).contains(&hour) {
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                let hint = "Use the 24-hour clock, or give an hour between 1 and 12.";
                return Err(format_error(message).hint(hint));
            }
            hour = hour % 12 + if self.pm != 0 { 12 } else { 0 };
        }
        let micros = self.millis * 1000 + self.micros;
        let is_in = |value: i64, end: i64| (0..end).contains(&value);
        if !(is_in(hour, 24) && is_in(minute, 60) && is_in(second, 60) && is_in(micros, SECOND_US)) {
            return Err(out_of_range(whole));
        }
        Ok(((hour * 60 + minute) * 60 + second) * SECOND_US + micros)
    }

    /// Seconds that the zone is east of UTC, if the text says so.
    fn zone(&self, whole: &str) -> Result<Option<i64>> {
        if !(0..=15).contains(&self.zone_hours) || !(0..60).contains(&self.zone_minutes) {
            let message = format!("time zone displacement out of range: \"{whole}\"");
            return Err(SqlError::new(SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE, message));
        }
        let east = self.zone_sign * (self.zone_hours * 3600 + self.zone_minutes * 60);
        Ok((self.zone_sign != 0).then_some(east))
    }
}

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "to_date" => scalar(|_, a| {
            let whole = text(&a[0]);
            let fields = read(whole, &pieces(text(&a[1]))?, Mode::Lenient)?;
            let days = fields.days(whole)?;
            fields.time(whole)?;
            let told = |mut error: SqlError| {
                error.message = format!("{}: \"{whole}\"", error.message);
                error
            };
            date_in_range(days).map(Value::Date).map_err(told)
        }),
        "to_timestamp" => scalar(|ctx, a| {
            let whole = text(&a[0]);
            let fields = read(whole, &pieces(text(&a[1]))?, Mode::Lenient)?;
            let (days, time) = (fields.days(whole)?, fields.time(whole)?);
            let local = timestamp_in_range(i128::from(days) * i128::from(DAY_US) + i128::from(time))?;
            let at = match fields.zone(whole)? {
                Some(east) => local - east * SECOND_US,
                None => local_to_utc(&ctx.settings.time_zone, local),
            };
            let counts = fields.precision > 0;
            Ok(Value::Timestamptz(if counts { round_micros(at, fields.precision) } else { at }))
        }),
        _ => None,
    }
}
