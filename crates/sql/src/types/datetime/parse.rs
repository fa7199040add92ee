//! Reading dates, times and timestamps: ISO forms, month names, American and European orders, zones.
//!
//! Follows PostgreSQL's `ParseDateTime` and `DecodeDateTime`, in one pass over the text.

use jiff::tz::TimeZone;

use super::words;
use super::{
    DAY_US, Day, EPOCH_JULIAN, SECOND_US, days_of, local_to_utc, month_len, split, timestamp_in_range,
};
use crate::error::{Result, SqlError, SqlState};
use crate::types::context::EvalContext;
use crate::types::datetime::date_style::DateOrder;

/// What was read.
#[derive(Default)]
struct Read {
    year: Option<(i64, bool)>,
    month: Option<i64>,
    day: Option<i64>,
    /// Days since 2000-01-01, where they were given as a whole.
    days: Option<i64>,
    text_month: bool,
    micros: Option<i64>,
    zone: Option<TimeZone>,
    is_bc: bool,
    pm: Option<bool>,
    special: Option<Special>,
}

#[derive(Clone, Copy, PartialEq)]
enum Special {
    Infinity,
    MinusInfinity,
    Epoch,
    Now,
}

/// Why a text is no date.
pub(super) enum Fault {
    Syntax,
    Field,
    /// A month or day that no month has: the order of the fields may be meant otherwise.
    MonthOrDay,
    Displacement,
    Zone(String),
}

pub(super) type Step<T> = std::result::Result<T, Fault>;

impl Fault {
    #[cold]
    fn error(self, what: &str, text: &str) -> SqlError {
        match self {
            Fault::Syntax => SqlError::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type {what}: \"{text}\""),
            ),
            Fault::Field => SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("date/time field value out of range: \"{text}\""),
            ),
            Fault::MonthOrDay => {
                Fault::Field.error(what, text).hint("Perhaps you need a different \"datestyle\" setting.")
            }
            Fault::Displacement => SqlError::new(
                SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
                format!("time zone displacement out of range: \"{text}\""),
            ),
            Fault::Zone(name) => SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("time zone \"{name}\" not recognized"),
            ),
        }
    }
}

fn number(text: &str) -> Step<i64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    text.parse().map_err(|_| Fault::Field)
}

/// An offset in seconds east: `+2`, `-0330`, `+05:30`, `-00:00:10`; `None` if it is none.
pub fn offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let parts: Vec<&str> = digits.split(':').collect();
    let value = |part: &str| number(part).ok().map(|n| n as i32);
    let (hours, minutes, seconds) = match parts[..] {
        [all] if all.len() <= 2 => (value(all)?, 0, 0),
        [all] if all.len() <= 4 => (value(&all[..all.len() - 2])?, value(&all[all.len() - 2..])?, 0),
        [all] if all.len() == 6 => (value(&all[..2])?, value(&all[2..4])?, value(&all[4..])?),
        [hours, minutes] => (value(hours)?, value(minutes)?, 0),
        [hours, minutes, seconds] => (value(hours)?, value(minutes)?, value(seconds)?),
        _ => return None,
    };
    (hours <= 15 && minutes < 60 && seconds < 60).then_some(sign * (hours * 3600 + minutes * 60 + seconds))
}

/// The microseconds of `.123`, rounded.
pub(super) fn fraction(digits: &str) -> Step<i64> {
    if digits.is_empty() {
        return Ok(0);
    }
    number(&digits[..digits.len().min(15)])?;
    let value: f64 = format!("0.{digits}").parse().map_err(|_| Fault::Syntax)?;
    Ok((value * 1e6).round_ties_even() as i64)
}

/// `HH:MM[:SS[.f]]` in microseconds.
fn clock(text: &str) -> Step<i64> {
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    let parts: Vec<&str> = whole.split(':').collect();
    let (hours, minutes, seconds) = match parts[..] {
        [hours, minutes] if digits.is_empty() => (number(hours)?, number(minutes)?, 0),
        [minutes, seconds] => (0, number(minutes)?, number(seconds)?),
        [hours, minutes, seconds] => (number(hours)?, number(minutes)?, number(seconds)?),
        _ => return Err(Fault::Syntax),
    };
    let micros = fraction(digits)?;
    if minutes > 59 || seconds > 60 || hours > 24 {
        return Err(Fault::Field);
    }
    let time = ((hours * 60 + minutes) * 60 + seconds) * SECOND_US + micros;
    if time > DAY_US { Err(Fault::Field) } else { Ok(time) }
}

/// `HHMM`, `HHMMSS` in microseconds.
fn plain_clock(digits: &str, rest: &str) -> Step<i64> {
    match digits.len() {
        6 => clock(&format!("{}:{}:{}.{rest}", &digits[..2], &digits[2..4], &digits[4..])),
        4 => clock(&format!("{}:{}", &digits[..2], &digits[2..])),
        _ => Err(Fault::Syntax),
    }
}

impl Read {
    fn has_date(&self) -> bool {
        self.days.is_some() || (self.year.is_some() && self.month.is_some() && self.day.is_some())
    }

    /// Takes one number of a date (`DecodeNumber`).
    fn part(&mut self, digits: &str, order: DateOrder) -> Step<()> {
        let value = number(digits)?;
        let is_short = digits.len() <= 2;
        let year = Some((value, is_short));
        match (self.year.is_some(), self.month.is_some(), self.day.is_some()) {
            (false, false, false) => match order {
                _ if !is_short => self.year = year,
                DateOrder::Ymd => self.year = year,
                DateOrder::Dmy => self.day = Some(value),
                DateOrder::Mdy => self.month = Some(value),
            },
            (true, false, false) => self.month = Some(value),
            // The first number was the day after all: 08-Jan-1999, where years come first.
            (true, true, false) if self.text_month && !is_short && self.year.is_some_and(|year| year.1) => {
                self.day = self.year.map(|year| year.0);
                self.year = year;
            }
            (true, true, false) => self.day = Some(value),
            (false, true, false) if self.text_month && (!is_short || order == DateOrder::Ymd) => {
                self.year = year;
            }
            (false, true, false) => self.day = Some(value),
            (false, false, true) => self.month = Some(value),
            (false, true, true) => self.year = year,
            (true, false, true) => self.month = Some(value),
            (true, true, true) => return Err(Fault::Syntax),
        }
        Ok(())
    }

    fn name_month(&mut self, month: i64) -> Step<()> {
        // A number that was taken for the month is the day after all.
        if let (Some(earlier @ 1..=31), None, false) = (self.month, self.day, self.text_month) {
            self.day = Some(earlier);
        } else if self.month.is_some() {
            return Err(Fault::Syntax);
        }
        self.month = Some(month);
        self.text_month = true;
        Ok(())
    }

    /// A date with separators: `1999-01-08`, `1/8/1999`, `08-Jan-1999`.
    fn date(&mut self, parts: &[&str], order: DateOrder) -> Step<()> {
        if self.has_date() || parts.len() > 3 {
            return Err(Fault::Syntax);
        }
        if parts.len() == 2 && number(parts[0]).is_ok() && parts[1].len() == 3 && parts[0].len() >= 4 {
            let first = days_of(Day { year: number(parts[0])?, month: 1, day: 1 });
            self.days = Some(first + number(parts[1])? - 1);
            return Ok(());
        }
        let is_number = |at: usize| parts.get(at).is_some_and(|part| number(part).is_ok());
        if is_number(0) && is_number(1) && parts.len() == 3 && !is_number(2) {
            return Err(Fault::Syntax);
        }
        let is_word = |part: &&&str| part.starts_with(|c: char| c.is_ascii_alphabetic());
        for word in parts.iter().filter(is_word) {
            let month = words::month(&word.to_ascii_lowercase()).ok_or(Fault::Syntax)?;
            self.name_month(month)?;
        }
        for digits in parts.iter().filter(|part| !is_word(part)) {
            self.part(digits, order)?;
        }
        Ok(())
    }

    fn digits(&mut self, digits: &str, rest: &str, after_t: bool, order: DateOrder) -> Step<()> {
        let len = digits.len();
        if (after_t || self.has_date()) && self.micros.is_none() && matches!(len, 4 | 6) {
            self.micros = Some(plain_clock(digits, rest)?);
            return Ok(());
        }
        if !rest.is_empty() {
            return Err(Fault::Syntax);
        }
        let nothing = self.year.is_none() && self.month.is_none() && self.day.is_none();
        if nothing && len >= 6 {
            let year = &digits[..len - 4];
            self.year = Some((number(year)?, year.len() == 2));
            self.month = Some(number(&digits[len - 4..len - 2])?);
            self.day = Some(number(&digits[len - 2..])?);
            return Ok(());
        }
        self.part(digits, order)
    }

    fn word(&mut self, word: &str, ctx: &EvalContext<'_>) -> Step<()> {
        let lower = word.to_ascii_lowercase();
        let today = || split(super::utc_to_local(&ctx.settings.time_zone, ctx.transaction_start_us)).0;
        match lower.as_str() {
            "infinity" | "+infinity" => self.special = Some(Special::Infinity),
            "-infinity" => self.special = Some(Special::MinusInfinity),
            "epoch" => self.special = Some(Special::Epoch),
            "now" => self.special = Some(Special::Now),
            "today" => self.days = Some(today()),
            "tomorrow" => self.days = Some(today() + 1),
            "yesterday" => self.days = Some(today() - 1),
            "allballs" => (self.micros, self.zone) = (Some(0), Some(TimeZone::UTC)),
            "bc" => self.is_bc = true,
            "ad" | "at" | "on" => {}
            "am" | "pm" => self.pm = Some(lower == "pm"),
            "dst" => {}
            _ if words::is_weekday(&lower) => {}
            _ => match words::month(&lower) {
                Some(month) => self.name_month(month)?,
                None => self.zone_word(word)?,
            },
        }
        Ok(())
    }

    fn zone_word(&mut self, word: &str) -> Step<()> {
        match words::zone(word) {
            Some(zone) if self.zone.is_none() => self.zone = Some(zone),
            Some(_) => return Err(Fault::Syntax),
            None if word.contains('/') => return Err(Fault::Zone(word.to_ascii_lowercase())),
            None => return Err(Fault::Syntax),
        }
        Ok(())
    }

    fn days(&self) -> Step<i64> {
        if let Some(days) = self.days {
            return Ok(days);
        }
        let (Some((mut year, is_short)), Some(month), Some(day)) = (self.year, self.month, self.day) else {
            return Err(Fault::Syntax);
        };
        if self.is_bc {
            if year <= 0 {
                return Err(Fault::Field);
            }
            year = 1 - year;
        } else if is_short {
            year += if year < 70 { 2000 } else { 1900 };
        } else if year <= 0 {
            return Err(Fault::Field);
        }
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(Fault::MonthOrDay);
        }
        if day > month_len(year, month) || year > 10_000_000 {
            return Err(Fault::Field);
        }
        Ok(days_of(Day { year, month, day }))
    }

    fn time(&self) -> Step<i64> {
        let micros = self.micros.unwrap_or(0);
        let Some(pm) = self.pm else { return Ok(micros) };
        let hours = micros / 3_600_000_000;
        match hours {
            13.. => Err(Fault::Field),
            12 if !pm => Ok(micros - 12 * 3_600_000_000),
            0..12 if pm => Ok(micros + 12 * 3_600_000_000),
            _ => Ok(micros),
        }
    }
}

fn end_of(text: &str, keep: impl Fn(char) -> bool) -> usize {
    text.find(|c: char| !keep(c)).unwrap_or(text.len())
}

/// Whether a time begins with `040506.789`, which would be a year and its day in a date.
fn begins_with_clock(text: &str) -> bool {
    end_of(text, |c| c.is_ascii_digit()) == 6 && text[6..].starts_with('.')
}

fn read(text: &str, is_time: bool, ctx: &EvalContext<'_>) -> Step<Read> {
    let mut found = Read::default();
    let order = ctx.settings.date_style.order;
    let mut rest = text.trim();
    let mut after_t = is_time && begins_with_clock(rest);
    let mut is_empty = true;
    while let Some(first) = rest.chars().next() {
        let seen_time = found.micros.is_some();
        if first.is_ascii_whitespace() || first == ',' {
            rest = &rest[1..];
            continue;
        }
        is_empty = false;
        let end;
        match first {
            '0'..='9' => end = read_number(rest, &mut found, after_t, order)?,
            '+' | '-' if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic()) => {
                end = 1 + end_of(&rest[1..], |c| c.is_ascii_alphabetic());
                found.word(&rest[..end], ctx)?;
            }
            '+' | '-' if found.has_date() || seen_time => {
                end = 1 + end_of(&rest[1..], |c| c.is_ascii_digit() || c == ':');
                let east = offset(&rest[..end]).ok_or(Fault::Displacement)?;
                let abbreviated = found.zone.take().map_or(0, |zone| super::offset_at(&zone, 0));
                found.zone = Some(words::fixed(if abbreviated == 0 { east } else { abbreviated + east }));
            }
            'T' | 't' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) && !seen_time => {
                after_t = true;
                rest = &rest[1..];
                continue;
            }
            'J' | 'j' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) && !found.has_date() => {
                end = 1 + end_of(&rest[1..], |c| c.is_ascii_digit());
                found.days = Some(number(&rest[1..end])? - i64::from(EPOCH_JULIAN));
                if rest[end..].starts_with('.') {
                    let digits = end_of(&rest[end + 1..], |c| c.is_ascii_digit());
                    let part: f64 = format!("0{}", &rest[end..=end + digits]).parse().unwrap_or(0.0);
                    found.micros = Some((part * DAY_US as f64).round_ties_even() as i64);
                    rest = &rest[digits + 1..];
                }
            }
            'Y' | 'y' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) && !found.has_date() => {
                end = read_units(rest, &mut found)?;
            }
            'A'..='Z' | 'a'..='z' => end = read_word(rest, &mut found, ctx)?,
            _ => return Err(Fault::Syntax),
        }
        after_t = false;
        rest = &rest[end..];
    }
    if is_empty { Err(Fault::Syntax) } else { Ok(found) }
}

/// `Y2001M12D27H04M05S06.789`: each number behind the letter of its unit.
fn read_units(text: &str, found: &mut Read) -> Step<usize> {
    let (mut at, mut clock) = (0, [None; 2]);
    loop {
        let letters = end_of(&text[at..], |c| c.is_ascii_alphabetic());
        let digits = end_of(&text[at + letters..], |c| c.is_ascii_digit());
        if letters == 0 || digits == 0 {
            break;
        }
        let (unit, shown) = (&text[at..at + letters], &text[at + letters..at + letters + digits]);
        let value = number(shown)?;
        at += letters + digits;
        match unit.to_ascii_lowercase().as_str() {
            "y" => found.year = Some((value, digits == 2)),
            "m" if found.month.is_none() => found.month = Some(value),
            "d" => found.day = Some(value),
            "h" => clock[0] = Some(value),
            "m" | "mm" => clock[1] = Some(value),
            "s" => {
                let behind = text[at..].strip_prefix('.').map(|rest| end_of(rest, |c| c.is_ascii_digit()));
                let part = behind.map_or("", |digits| &text[at + 1..at + 1 + digits]);
                at += behind.map_or(0, |digits| 1 + digits);
                let [hours, minutes] = clock.map(|part| part.unwrap_or(0));
                found.micros = Some(self::clock(&format!("{hours}:{minutes}:{value}.{part}"))?);
            }
            _ => return Err(Fault::Syntax),
        }
    }
    if let ([Some(hours), minutes], None) = (clock, found.micros) {
        found.micros = Some(self::clock(&format!("{hours}:{}", minutes.unwrap_or(0)))?);
    }
    Ok(at)
}

fn read_number(rest: &str, found: &mut Read, after_t: bool, order: DateOrder) -> Step<usize> {
    let len = end_of(rest, |c| c.is_ascii_digit());
    let next = rest[len..].chars().next();
    let behind = rest[len..].chars().nth(1).is_some_and(|c| c.is_ascii_alphanumeric());
    match next {
        Some(':') => {
            if found.micros.is_some() {
                return Err(Fault::Syntax);
            }
            let end = end_of(rest, |c| c.is_ascii_digit() || c == ':' || c == '.');
            found.micros = Some(clock(&rest[..end])?);
            Ok(end)
        }
        Some('.') if after_t || (len == 6 && found.has_date()) => {
            let end = len + 1 + end_of(&rest[len + 1..], |c| c.is_ascii_digit());
            found.digits(&rest[..len], &rest[len + 1..end], after_t, order)?;
            Ok(end)
        }
        Some(separator @ ('-' | '/' | '.')) if behind && !found.has_date() && !after_t => {
            let mut parts = vec![&rest[..len]];
            let mut end = len;
            while parts.len() < 3 && rest[end..].starts_with(separator) {
                let tail = &rest[end + 1..];
                let is_digits = tail.starts_with(|c: char| c.is_ascii_digit());
                let part =
                    end_of(tail, |c| if is_digits { c.is_ascii_digit() } else { c.is_ascii_alphabetic() });
                if part == 0 {
                    return Err(Fault::Syntax);
                }
                parts.push(&tail[..part]);
                end += 1 + part;
            }
            let more = rest[end..].strip_prefix(separator);
            if more.is_some_and(|more| more.starts_with(|c: char| c.is_ascii_digit() || c == separator)) {
                return Err(Fault::Syntax);
            }
            found.date(&parts, order)?;
            Ok(if more == Some("") { end + 1 } else { end })
        }
        _ => {
            found.digits(&rest[..len], "", after_t, order)?;
            Ok(len)
        }
    }
}

fn read_word(rest: &str, found: &mut Read, ctx: &EvalContext<'_>) -> Step<usize> {
    let letters = end_of(rest, |c| c.is_ascii_alphabetic());
    let is_month = words::month(&rest[..letters].to_ascii_lowercase()).is_some();
    let mut end = letters;
    if is_month {
        if rest[end..].starts_with(['-', '/', '.']) {
            end += 1;
        }
        found.word(&rest[..letters], ctx)?;
        // `Jan-08-1999`: what follows are the other parts.
        while rest[end..].starts_with(|c: char| c.is_ascii_digit()) && end > letters {
            let digits = end_of(&rest[end..], |c| c.is_ascii_digit());
            if rest[end + digits..].starts_with(':') {
                break;
            }
            found.part(&rest[end..end + digits], ctx.settings.date_style.order)?;
            end += digits;
            if rest[end..].starts_with(['-', '/', '.']) {
                end += 1;
            }
        }
        return Ok(end);
    }
    if rest[letters..].starts_with(['/', '_']) {
        end = end_of(rest, |c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '+' | '-'));
    }
    if rest[letters..].starts_with('.') && letters <= 2 {
        // `a.m.`, `p.m.`
        return Err(Fault::Syntax);
    }
    found.word(&rest[..end], ctx)?;
    Ok(end)
}

/// A date.
pub fn date(text: &str, ctx: &EvalContext<'_>) -> Result<i32> {
    let fail = |fault: Fault| fault.error("date", text);
    let found = read(text, false, ctx).map_err(fail)?;
    match found.special {
        Some(Special::Infinity) => return Ok(i32::MAX),
        Some(Special::MinusInfinity) => return Ok(i32::MIN),
        Some(Special::Epoch) => return Ok(-super::UNIX_EPOCH_DAYS as i32),
        Some(Special::Now) => {
            let local = super::utc_to_local(&ctx.settings.time_zone, ctx.transaction_start_us);
            return Ok(split(local).0 as i32);
        }
        None => {}
    }
    found.time().map_err(fail)?;
    let days = found.days().map_err(fail)?;
    super::date_in_range(days).map_err(|mut error| {
        error.message = format!("date out of range: \"{text}\"");
        error
    })
}

/// A timestamp without (`is_utc` false: zones in the text are ignored) or with time zone (in UTC).
pub fn timestamp(text: &str, is_utc: bool, ctx: &EvalContext<'_>) -> Result<i64> {
    let what = if is_utc { "timestamp with time zone" } else { "timestamp" };
    let fail = |fault: Fault| fault.error(what, text);
    let found = read(text, false, ctx).map_err(fail)?;
    let zone = &ctx.settings.time_zone;
    match found.special {
        Some(Special::Infinity) => return Ok(i64::MAX),
        Some(Special::MinusInfinity) => return Ok(i64::MIN),
        Some(Special::Epoch) => return Ok(-super::UNIX_EPOCH_DAYS * DAY_US),
        Some(Special::Now) if is_utc => return Ok(ctx.transaction_start_us),
        Some(Special::Now) => return Ok(super::utc_to_local(zone, ctx.transaction_start_us)),
        None => {}
    }
    let days = found.days().map_err(fail)?;
    let local = i128::from(days) * i128::from(DAY_US) + i128::from(found.time().map_err(fail)?);
    let out_of_range = |mut error: SqlError| {
        error.message = format!("timestamp out of range: \"{text}\"");
        error
    };
    let local = timestamp_in_range(local).map_err(out_of_range)?;
    if !is_utc {
        return Ok(local);
    }
    let utc = local_to_utc(found.zone.as_ref().unwrap_or(zone), local);
    timestamp_in_range(i128::from(utc)).map_err(out_of_range)
}

/// A time, and the offset in seconds east that a timetz has (of the session's zone where none is given).
pub fn time(text: &str, with_zone: bool, ctx: &EvalContext<'_>) -> Result<(i64, i32)> {
    let what = if with_zone { "time with time zone" } else { "time" };
    let fail = |fault: Fault| fault.error(what, text);
    let now = ctx.transaction_start_us;
    let mut found = match read(text, true, ctx) {
        Ok(found) => found,
        Err(fault) => return Err(fail(fault)),
    };
    if found.special == Some(Special::Now) {
        found.micros = Some(split(super::utc_to_local(&ctx.settings.time_zone, now)).1);
    } else if found.special.is_some() {
        return Err(fail(Fault::Syntax));
    }
    if found.micros.is_none() {
        // `0405` and `040506` were taken for parts of a date.
        let digits = text.trim();
        found.micros = Some(plain_clock(digits, "").map_err(fail)?);
    }
    let micros = found.time().map_err(fail)?;
    let zone = found.zone.as_ref().unwrap_or(&ctx.settings.time_zone);
    let moment = match found.days() {
        Ok(days) => local_to_utc(zone, days * DAY_US + micros.min(DAY_US - 1)),
        Err(_) => now,
    };
    Ok((micros, super::offset_at(zone, moment)))
}
