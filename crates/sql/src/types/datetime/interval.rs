//! Intervals: reading PostgreSQL's and SQL's forms ([`super::interval_iso`]: ISO 8601's), arithmetic.
//! [`super::interval_style`] writes them.

use super::super::value::Interval;
use super::interval_iso::iso_form;
use super::interval_style::IntervalStyle;
use super::parse::fraction;
use super::{DAY_US, SECOND_US, interval_out_of_range};
use crate::error::{Result, SqlError, SqlState};

/// A unit of an interval or a field of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "units of time")]
pub enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
}

impl Unit {
    /// The unit that a word names, in any of its short forms.
    pub fn named(word: &str) -> Option<Unit> {
        // PostgreSQL looks at the first ten letters.
        let word = word.get(..10).unwrap_or(word).to_ascii_lowercase();
        Some(match word.as_str() {
            "microsecon" | "us" | "usec" | "usecs" | "useconds" | "usecond" => Unit::Microsecond,
            "millisecon" | "ms" | "msec" | "msecs" | "mseconds" | "msecond" => Unit::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "qtr" | "quarter" => Unit::Quarter,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            "dec" | "decs" | "decade" | "decades" => Unit::Decade,
            "c" | "cent" | "century" | "centuries" => Unit::Century,
            "mil" | "mils" | "millennium" | "millennia" => Unit::Millennium,
            _ => return None,
        })
    }
}

/// Sums in wide numbers, checked once at the end.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    years: i128,
    months: i128,
    days: i128,
    micros: i128,
}

impl Sum {
    /// Subtracts what was added since `before`, whatever its sign.
    fn take_away_what_came(&mut self, before: &Sum) {
        let taken = |now: i128, before: i128| before - (now - before).abs();
        *self = Sum {
            years: taken(self.years, before.years),
            months: taken(self.months, before.months),
            days: taken(self.days, before.days),
            micros: taken(self.micros, before.micros),
        };
    }

    pub(super) fn add(&mut self, number: i64, fraction: f64, unit: Unit) -> Step<()> {
        let whole = i128::from(number);
        let mut years = |count: i128| {
            self.years += whole * count;
            self.months += (fraction * count as f64 * 12.0).round_ties_even() as i128;
        };
        match unit {
            Unit::Year => years(1),
            Unit::Decade => years(10),
            Unit::Century => years(100),
            Unit::Millennium => years(1000),
            // It is a field of dates and intervals, and nothing that can be counted.
            Unit::Quarter => return Err(Fault::Syntax),
            Unit::Month => {
                self.months += whole;
                self.add_days(fraction * 30.0);
            }
            Unit::Week => {
                self.days += whole * 7;
                self.add_days(fraction * 7.0);
            }
            Unit::Day => {
                self.days += whole;
                self.add_micros(fraction * DAY_US as f64);
            }
            Unit::Hour => self.add_time(whole, fraction, 3_600_000_000),
            Unit::Minute => self.add_time(whole, fraction, 60_000_000),
            Unit::Second => self.add_time(whole, fraction, SECOND_US),
            Unit::Millisecond => self.add_time(whole, fraction, 1000),
            Unit::Microsecond => self.add_time(whole, fraction, 1),
        }
        Ok(())
    }

    fn add_time(&mut self, whole: i128, fraction: f64, unit_us: i64) {
        self.micros += whole * i128::from(unit_us);
        self.add_micros(fraction * unit_us as f64);
    }

    fn add_micros(&mut self, micros: f64) {
        self.micros += micros.round_ties_even() as i128;
    }

    /// Whole days, and the rest as time.
    fn add_days(&mut self, days: f64) {
        self.days += days as i128;
        self.add_micros((days - days.trunc()) * DAY_US as f64);
    }

    fn negate(&mut self) {
        *self = Sum { years: -self.years, months: -self.months, days: -self.days, micros: -self.micros };
    }

    fn interval(&self) -> Step<Interval> {
        let field = |number: i128| i32::try_from(number).map_err(|_| Fault::Field);
        let months = i64::from(field(self.years)?) * 12 + i64::from(field(self.months)?);
        Ok(Interval {
            months: i32::try_from(months).map_err(|_| Fault::Range)?,
            days: field(self.days)?,
            micros: self.micros.try_into().map_err(|_| Fault::Field)?,
        })
    }
}

pub(super) enum Fault {
    Syntax,
    Field,
    /// Years and months together.
    Range,
}

pub(super) type Step<T> = std::result::Result<T, Fault>;

/// A sign, a whole number and its fraction.
fn signed(text: &str) -> Step<(bool, i64, f64)> {
    let negative = text.starts_with('-');
    let digits = text.strip_prefix(['+', '-']).map_or(text, str::trim_start);
    let (whole, rest) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if digits.is_empty() || digits == "." || !all_digits(whole) || !all_digits(rest) {
        return Err(Fault::Syntax);
    }
    let number: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| Fault::Field)? };
    let number = i64::try_from(if negative { -number } else { number }).map_err(|_| Fault::Field)?;
    let fraction: f64 = if rest.is_empty() { 0.0 } else { format!("0.{rest}").parse().unwrap_or(0.0) };
    Ok((negative, number, if negative { -fraction } else { fraction }))
}

/// A word of an interval, as `ParseDateTime` tells them apart.
#[derive(Clone, Copy)]
enum Word<'t> {
    /// With colons.
    Clock(&'t str),
    /// Begins with a sign; a clock if it has colons.
    Signed(&'t str),
    Number(&'t str),
    Letters(&'t str),
}

/// Cuts the text; signs and what follows them are one, other punctuation only parts words.
fn words(text: &str) -> Step<Vec<Word<'_>>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let run = |from: usize, keep: &dyn Fn(char) -> bool| {
            rest[from..].find(|c| !keep(c)).map_or(rest.len(), |end| from + end)
        };
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.' | '-');
        let end = match first {
            '0'..='9' | '.' => {
                let end = run(0, &|c| c.is_ascii_digit());
                let end = match rest[end..].chars().next() {
                    Some(':') => run(end, &|c| c.is_ascii_digit() || matches!(c, ':' | '.')),
                    Some('-' | '/' | '.') => {
                        run(end, &|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '/' | '.'))
                    }
                    _ => end,
                };
                let word = &rest[..end];
                found.push(if word.contains(':') { Word::Clock(word) } else { Word::Number(word) });
                end
            }
            'A'..='Z' | 'a'..='z' => {
                let end = run(0, &|c| c.is_ascii_alphabetic());
                found.push(Word::Letters(&rest[..end]));
                end
            }
            '+' | '-' => {
                let blanks = run(1, &|c| c.is_ascii_whitespace());
                if !rest[blanks..].starts_with(|c: char| c.is_ascii_digit()) {
                    return Err(Fault::Syntax);
                }
                let end = run(blanks, &is_number);
                found.push(Word::Signed(&rest[..end]));
                end
            }
            _ if first.is_ascii_whitespace() || first.is_ascii_punctuation() => 1,
            _ => return Err(Fault::Syntax),
        };
        rest = &rest[end..];
    }
    Ok(found)
}

/// `H:MM[:SS[.f]]`, or `MM:SS.f`, in microseconds; `minutes_first` where the type says MINUTE TO SECOND.
fn clock(text: &str, minutes_first: bool) -> Step<i128> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let all_digits = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = whole.split(':').collect();
    if !parts.iter().all(all_digits) {
        return Err(Fault::Syntax);
    }
    let numbers: std::result::Result<Vec<i64>, _> = parts.iter().map(|part| part.parse()).collect();
    let (hours, minutes, seconds) = match numbers.map_err(|_| Fault::Field)?[..] {
        [minutes, seconds] if text.contains('.') || minutes_first => (0, minutes, seconds),
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return Err(Fault::Syntax),
    };
    if minutes > 59 || seconds > 60 {
        return Err(Fault::Field);
    }
    let micros = fraction(rest).map_err(|_| Fault::Syntax)?;
    let time =
        (i128::from(hours) * 3600 + i128::from(minutes) * 60 + i128::from(seconds)) * i128::from(SECOND_US);
    Ok(time + i128::from(micros))
}

/// The bits of what has been said: nothing may be said twice.
mod said {
    pub const MICROSECOND: u32 = 1;
    pub const MILLISECOND: u32 = 2;
    pub const SECOND: u32 = 4;
    pub const SECONDS: u32 = MICROSECOND | MILLISECOND | SECOND;
    pub const MINUTE: u32 = 8;
    pub const HOUR: u32 = 16;
    pub const CLOCK: u32 = SECONDS | MINUTE | HOUR;
    /// Those of the units from the day on.
    pub const LARGER: u32 = 32;
}

fn bit_of(unit: Unit, fraction: f64) -> u32 {
    match unit {
        Unit::Microsecond => said::MICROSECOND,
        Unit::Millisecond => said::MILLISECOND,
        Unit::Second if fraction != 0.0 => said::SECONDS,
        Unit::Second => said::SECOND,
        Unit::Minute => said::MINUTE,
        Unit::Hour => said::HOUR,
        larger => said::LARGER << (larger as u32),
    }
}

/// PostgreSQL's and SQL's forms, read from the last word to the first, so that a unit is known before its
/// number (`DecodeInterval`).
fn postgres_form(text: &str, default: Unit, minutes_first: bool, style: IntervalStyle) -> Step<Sum> {
    let words = words(text)?;
    // SQL's sign is that of all fields, unless another has its own.
    let is_signed = |word: &&Word<'_>| matches!(word, Word::Signed(_));
    let first = words.first().is_some_and(|word| matches!(word, Word::Signed(text) if text.starts_with('-')));
    let one_sign =
        style == IntervalStyle::SqlStandard && first && words.iter().filter(is_signed).count() == 1;
    let mut sum = Sum::default();
    let (mut unit, mut seen, mut ago) = (None, 0, false);
    for word in words.iter().rev() {
        let before = sum;
        let bits = match *word {
            Word::Letters(letters) if letters.eq_ignore_ascii_case("ago") => {
                ago = true;
                continue;
            }
            Word::Letters(letters) => {
                unit = Some(Unit::named(letters).ok_or(Fault::Syntax)?);
                continue;
            }
            Word::Clock(time) => {
                sum.micros += clock(time, minutes_first)?;
                unit = Some(Unit::Day);
                said::CLOCK
            }
            Word::Signed(time) if time.contains(':') => {
                let micros = clock(time[1..].trim_start(), minutes_first)?;
                sum.micros += if time.starts_with('-') { -micros } else { micros };
                unit = Some(Unit::Day);
                said::CLOCK
            }
            Word::Signed(number) | Word::Number(number) => {
                number_of(number, unit.get_or_insert(default), &mut sum)?
            }
        };
        if seen & bits != 0 {
            return Err(Fault::Syntax);
        }
        seen |= bits;
        if one_sign {
            sum.take_away_what_came(&before);
        }
    }
    if seen == 0 {
        return Err(Fault::Syntax);
    }
    if ago {
        sum.negate();
    }
    Ok(sum)
}

/// Adds a number of the unit, or years and months (`1-2`); what that says, and the unit of a number in
/// front of it.
fn number_of(text: &str, unit: &mut Unit, sum: &mut Sum) -> Step<u32> {
    if let Some((years, months)) = text[1..].split_once('-') {
        let (negative, years, rest) = signed(&text[..1 + years.len()])?;
        if rest != 0.0 || months.is_empty() || !months.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Fault::Syntax);
        }
        let months = months.parse::<i32>().ok().filter(|months| *months < 12).ok_or(Fault::Field)?;
        let months = i128::from(if negative { -months } else { months });
        sum.months += i128::from(years) * 12 + months;
        *unit = Unit::Month;
        return Ok(bit_of(Unit::Month, 0.0));
    }
    let (_, number, fraction) = signed(text)?;
    sum.add(number, fraction, *unit)?;
    let bits = bit_of(*unit, fraction);
    if *unit == Unit::Hour {
        *unit = Unit::Day;
    }
    Ok(bits)
}

/// Fields of an interval type's modifier (`INTERVAL DAY TO SECOND`).
mod fields {
    pub const MONTH: i32 = 1 << 1;
    pub const DAY: i32 = 1 << 3;
    pub const HOUR: i32 = 1 << 10;
    pub const MINUTE: i32 = 1 << 11;
    pub const SECOND: i32 = 1 << 12;
    pub const ALL: i32 = 0x7fff;
}

/// ` day to second(1)`: how a type with this modifier is written behind its name.
pub fn fields_of(modifier: i32) -> String {
    const NAMES: &[(i32, &str)] = &[
        (1 << 2, "year"),
        (fields::MONTH, "month"),
        (fields::DAY, "day"),
        (fields::HOUR, "hour"),
        (fields::MINUTE, "minute"),
        (fields::SECOND, "second"),
    ];
    let range = range_of(modifier);
    let named = || NAMES.iter().filter(|(bit, _)| range & bit != 0).map(|(_, name)| *name);
    let mut shown = match (named().next(), named().next_back()) {
        _ if range == fields::ALL => String::new(),
        (Some(first), Some(last)) if first != last => format!(" {first} to {last}"),
        (Some(only), _) => format!(" {only}"),
        _ => String::new(),
    };
    if modifier & 0xffff != 0xffff {
        shown.push_str(&format!("({})", modifier & 0xffff));
    }
    shown
}

fn range_of(modifier: i32) -> i32 {
    if modifier < 0 { fields::ALL } else { (modifier >> 16) & 0x7fff }
}

/// Reads an interval; the modifier of its type says what a number without unit means.
pub fn parse(text: &str, modifier: i32, style: IntervalStyle) -> Result<Interval> {
    let range = range_of(modifier);
    let default = match range {
        fields::ALL => Unit::Second,
        _ if range & fields::SECOND != 0 => Unit::Second,
        _ if range & fields::MINUTE != 0 => Unit::Minute,
        _ if range & fields::HOUR != 0 => Unit::Hour,
        _ if range & fields::DAY != 0 => Unit::Day,
        _ if range & fields::MONTH != 0 => Unit::Month,
        _ => Unit::Year,
    };
    let minutes_first = range == fields::MINUTE | fields::SECOND;
    let sum = match (postgres_form(text, default, minutes_first, style), text.trim().strip_prefix('P')) {
        (Err(Fault::Syntax), Some(iso)) => iso_form(iso),
        (sum, _) => sum,
    };
    match sum.and_then(|sum| sum.interval()) {
        Ok(interval) => Ok(interval),
        Err(Fault::Range) => Err(interval_out_of_range()),
        Err(Fault::Field) => {
            let message = format!("interval field value out of range: \"{text}\"");
            Err(SqlError::new(SqlState::INTERVAL_FIELD_OVERFLOW, message))
        }
        Err(Fault::Syntax) => {
            let message = format!("invalid input syntax for type interval: \"{text}\"");
            Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message))
        }
    }
}

/// Brought to the fields and the precision of its type.
pub fn apply_modifier(interval: Interval, modifier: i32) -> Interval {
    if modifier < 0 {
        return interval;
    }
    let range = range_of(modifier);
    let Interval { mut months, mut days, mut micros } = interval;
    if range != fields::ALL {
        let cut = |value: i64, unit: i64| value / unit * unit;
        if range & (fields::MONTH | fields::DAY | fields::HOUR | fields::MINUTE | fields::SECOND) == 0 {
            months = months / 12 * 12;
        }
        if range & (fields::DAY | fields::HOUR | fields::MINUTE | fields::SECOND) == 0 {
            days = 0;
        }
        micros = match () {
            () if range & fields::SECOND != 0 => micros,
            () if range & fields::MINUTE != 0 => cut(micros, 60_000_000),
            () if range & fields::HOUR != 0 => cut(micros, 3_600_000_000),
            () => 0,
        };
    }
    Interval { months, days, micros: super::round_micros(micros, modifier & 0xffff) }
}

impl Interval {
    /// The sum.
    ///
    /// # Errors
    /// 22008 if it is out of range.
    pub fn plus(self, other: Interval) -> Result<Interval> {
        let sum = || {
            Some(Interval {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                micros: self.micros.checked_add(other.micros)?,
            })
        };
        sum().ok_or_else(interval_out_of_range)
    }

    /// With the other sign.
    ///
    /// # Errors
    /// 22008 if it is out of range.
    pub fn negate(self) -> Result<Interval> {
        let negated = || {
            Some(Interval {
                months: self.months.checked_neg()?,
                days: self.days.checked_neg()?,
                micros: self.micros.checked_neg()?,
            })
        };
        negated().ok_or_else(interval_out_of_range)
    }

    /// Times `factor`; fractions of months become days and those of days time.
    ///
    /// # Errors
    /// 22008 if it is out of range.
    pub fn scale(self, factor: f64) -> Result<Interval> {
        let (months, days) = (f64::from(self.months) * factor, f64::from(self.days) * factor);
        let fits = |x: f64| x.is_finite() && x >= f64::from(i32::MIN) && x <= f64::from(i32::MAX);
        if !fits(months) || !fits(days) {
            return Err(interval_out_of_range());
        }
        let round = |x: f64| (x * 1e6).round_ties_even() / 1e6;
        let month_days = round((months - months.trunc()) * 30.0);
        let mut whole_days = days.trunc() + month_days.trunc();
        let mut seconds = round((days - days.trunc() + month_days - month_days.trunc()) * 86_400.0);
        if seconds.abs() >= 86_400.0 {
            whole_days += (seconds / 86_400.0).trunc();
            seconds -= (seconds / 86_400.0).trunc() * 86_400.0;
        }
        let micros = (self.micros as f64 * factor + seconds * 1e6).round_ties_even();
        if !fits(whole_days) || micros.is_nan() || micros.abs() >= i64::MAX as f64 {
            return Err(interval_out_of_range());
        }
        Ok(Interval { months: months as i32, days: whole_days as i32, micros: micros as i64 })
    }

    /// With whole days of its time moved to the days (`justify_hours`), or whole months of its days moved to
    /// the months (`justify_days`), so that all parts have one sign.
    pub fn justify(self, hours: bool, days: bool) -> Result<Interval> {
        let Interval { months, days: own_days, micros } = self;
        let (mut months, mut own_days, mut micros) = (i64::from(months), i64::from(own_days), micros);
        if hours {
            own_days += micros / DAY_US;
            micros %= DAY_US;
        }
        if days {
            months += own_days / 30;
            own_days %= 30;
        }
        if days && hours {
            if months > 0 && (own_days < 0 || (own_days == 0 && micros < 0)) {
                (months, own_days) = (months - 1, own_days + 30);
            } else if months < 0 && (own_days > 0 || (own_days == 0 && micros > 0)) {
                (months, own_days) = (months + 1, own_days - 30);
            }
        } else if days {
            if months > 0 && own_days < 0 {
                (months, own_days) = (months - 1, own_days + 30);
            } else if months < 0 && own_days > 0 {
                (months, own_days) = (months + 1, own_days - 30);
            }
        }
        if hours {
            if own_days > 0 && micros < 0 {
                (own_days, micros) = (own_days - 1, micros + DAY_US);
            } else if own_days < 0 && micros > 0 {
                (own_days, micros) = (own_days + 1, micros - DAY_US);
            }
        }
        let fit = |n: i64| i32::try_from(n).map_err(|_| interval_out_of_range());
        Ok(Interval { months: fit(months)?, days: fit(own_days)?, micros })
    }
}
