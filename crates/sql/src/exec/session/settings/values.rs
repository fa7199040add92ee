//! Values of settings: what a text means for each type, and the form in which it is kept and shown.

use super::list::{Kind, Known};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::define::storing::check_method;
use crate::types::datetime::date_style::DateOrder;
use crate::types::datetime::date_style::{DateForm, DateStyle};
use crate::types::datetime::interval_style::IntervalStyle;
use crate::types::datetime::{SECOND_US, interval, named_zone};
use crate::types::text::number_end;

const MEMORY: &[(&str, f64)] = &[
    ("TB", (1u64 << 40) as f64),
    ("GB", (1u64 << 30) as f64),
    ("MB", (1u64 << 20) as f64),
    ("kB", 1024.0),
    ("B", 1.0),
];
/// In microseconds.
const TIME: &[(&str, f64)] =
    &[("d", 86_400e6), ("h", 3600e6), ("min", 60e6), ("s", 1e6), ("ms", 1e3), ("us", 1.0)];

/// The units in which a setting of a unit may be given, and what that one is of the smallest.
fn units_of(unit: &str) -> Option<(&'static [(&'static str, f64)], f64)> {
    let of = |units: &'static [(&'static str, f64)]| {
        units.iter().find(|(name, _)| *name == unit).map(|(_, size)| (units, *size))
    };
    match unit {
        "8kB" => Some((MEMORY, 8192.0)),
        _ => of(MEMORY).or_else(|| of(TIME)),
    }
}

/// In the largest unit that divides it, as PostgreSQL shows it.
pub(super) fn shown_whole(value: i64, unit: &str) -> String {
    let Some((units, size)) = units_of(unit).filter(|_| value > 0) else { return value.to_string() };
    let total = value as f64 * size;
    let (name, one) = units.iter().find(|(_, one)| total % one == 0.0).expect("the smallest divides all");
    format!("{}{name}", total / one)
}

pub(super) fn shown_real(value: f64, unit: &str) -> String {
    let Some((units, size)) = units_of(unit).filter(|_| value > 0.0) else { return general(value) };
    let total = value * size;
    let divides = |one: f64| ((total / one).round() / (total / one) - 1.0).abs() <= 1e-8;
    let (name, one) = units.iter().find(|(_, one)| divides(*one)).unwrap_or_else(|| &units[units.len() - 1]);
    format!("{}{name}", general(total / one))
}

/// Six digits, with an exponent where the number is far from 1 (C's `%g`).
pub(crate) fn general(value: f64) -> String {
    let digits = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        } else {
            text.to_string()
        }
    };
    let written = format!("{value:.5e}");
    let (mantissa, exponent) = written.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if (-4..6).contains(&exponent) {
        return digits(&format!("{value:.*}", (5 - exponent).max(0) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", digits(mantissa), exponent.abs())
}

/// A number with a unit perhaps, in the unit of the setting; an error with what units there are.
fn number(known: &Known, unit: &str, value: &str) -> Result<f64> {
    let invalid = || {
        let message = format!("invalid value for parameter \"{}\": \"{value}\"", known.name);
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    };
    let text = value.trim();
    let (number, given) = match text.strip_prefix("0x") {
        Some(hex) => {
            let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
            (i64::from_str_radix(&hex[..end], 16).map_err(|_| invalid())? as f64, &hex[end..])
        }
        None => {
            let (_, end) = number_end(text);
            (text[..end].parse::<f64>().map_err(|_| invalid())?, &text[end..])
        }
    };
    let given = given.trim();
    if given.is_empty() {
        return Ok(number);
    }
    let (units, size) = units_of(unit).ok_or_else(invalid)?;
    match units.iter().find(|(name, _)| *name == given) {
        Some((_, one)) => Ok(number * one / size),
        None if std::ptr::eq(units, TIME) => Err(invalid()
            .hint("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".")),
        None => {
            Err(invalid()
                .hint("Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\"."))
        }
    }
}

fn outside(known: &Known, value: String, unit: &str, least: String, greatest: String) -> SqlError {
    let blank = if unit.is_empty() { "" } else { " " };
    let message = format!(
        "{value}{blank}{unit} is outside the valid range for parameter \"{}\" ({least} .. {greatest})",
        known.name
    );
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The value in the form that is kept; errors of words name the setting as it was `given`.
pub(super) fn checked(known: &Known, given: &str, value: &str) -> Result<String> {
    match &known.kind {
        Kind::Boolean => boolean(value).map(|on| switch(on).to_string()).ok_or_else(|| {
            let message = format!("parameter \"{given}\" requires a Boolean value");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        }),
        Kind::Integer(unit, least, greatest) => {
            let whole = number(known, unit, value)?.round_ties_even();
            if !(-2_147_483_648.0..=2_147_483_647.0).contains(&whole) {
                let message = format!("invalid value for parameter \"{}\": \"{value}\"", known.name);
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .hint("Value exceeds integer range."));
            }
            let whole = whole as i64;
            if !(*least..=*greatest).contains(&whole) {
                return Err(outside(known, whole.to_string(), unit, least.to_string(), greatest.to_string()));
            }
            Ok(shown_whole(whole, unit))
        }
        Kind::Real(unit, least, greatest) => {
            let real = number(known, unit, value)?;
            if !(*least..=*greatest).contains(&real) {
                return Err(outside(known, general(real), unit, general(*least), general(*greatest)));
            }
            Ok(shown_real(real, unit))
        }
        Kind::Words(words) => {
            let word = value.to_ascii_lowercase();
            // A switch with more than two positions takes the other spellings of those two as well.
            let other = boolean(value).map(switch);
            let found = words.iter().find(|known| **known == word || Some(**known) == other);
            found.map(|found| (*found).to_string()).ok_or_else(|| {
                let message = format!("invalid value for parameter \"{given}\": \"{value}\"");
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .hint(format!("Available values: {}.", words.join(", ")))
            })
        }
        Kind::Text if known.name == "default_table_access_method" => {
            let invalid = |detail: String| {
                let message = format!("invalid value for parameter \"{given}\": \"{value}\"");
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).detail(detail)
            };
            if value.is_empty() {
                return Err(invalid(format!("{given} cannot be empty.")));
            }
            let none = SqlState::UNDEFINED_OBJECT;
            let detail = format!("Table access method \"{value}\" does not exist.");
            let checked = check_method(value);
            checked.map_err(|error| if error.state == none { invalid(detail) } else { error })?;
            Ok(value.to_string())
        }
        Kind::Text => Ok(value.to_string()),
    }
}

/// The number of a kept value in the setting's own unit, as `pg_settings` shows it.
pub(crate) fn plain(known: &Known, value: &str) -> String {
    match &known.kind {
        Kind::Integer(unit, ..) | Kind::Real(unit, ..) => {
            number(known, unit, value).map_or_else(|_| value.to_string(), |number| number.to_string())
        }
        _ => value.to_string(),
    }
}

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// `on`, `yes`, `t` and the other spellings, down to unambiguous beginnings.
pub(crate) fn boolean(value: &str) -> Option<bool> {
    let word = value.to_ascii_lowercase();
    let begins = |whole: &str, least: usize| word.len() >= least && whole.starts_with(&word);
    match word.as_str() {
        "1" => Some(true),
        "0" => Some(false),
        _ if begins("on", 2) || begins("true", 1) || begins("yes", 1) => Some(true),
        _ if begins("off", 2) || begins("false", 1) || begins("no", 1) => Some(false),
        _ => None,
    }
}

/// A time in milliseconds, as it was kept.
pub(crate) fn milliseconds(value: &str) -> Option<u64> {
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let number: u64 = value[..digits].parse().ok()?;
    let unit = match value[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// An amount of memory in kilobytes, as it was kept.
pub(crate) fn kilobytes(value: &str) -> Option<i64> {
    let digits = value.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(value.len());
    let number: i64 = value[..digits].parse().ok()?;
    let unit = match value[digits..].trim() {
        "" | "kB" => 1,
        "MB" => 1 << 10,
        "GB" => 1 << 20,
        "TB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// The zone that a value of `TimeZone` means, and how that is called.
pub(super) fn zone(value: &str) -> Option<(String, jiff::tz::TimeZone)> {
    let plain = value.trim();
    if plain.eq_ignore_ascii_case("utc")
        || plain.eq_ignore_ascii_case("gmt")
        || plain.eq_ignore_ascii_case("zulu")
    {
        return Some((plain.to_ascii_uppercase(), jiff::tz::TimeZone::UTC));
    }
    // A number is hours east, as an interval is; everything else is a name, or counts west as POSIX does.
    let interval = plain.get(..8).filter(|word| word.eq_ignore_ascii_case("interval"));
    let seconds = match (interval, plain.parse::<f64>()) {
        (Some(_), _) => {
            let text = plain[8..].trim().trim_matches('\'');
            let span = interval::parse(text, -1, IntervalStyle::Postgres).ok()?;
            let micros = Some(span.micros).filter(|_| span.months == 0 && span.days == 0)?;
            Some(i32::try_from(micros / SECOND_US).ok()?)
        }
        (None, Ok(hours)) => Some((hours * 3600.0) as i32),
        (None, Err(_)) => None,
    };
    if let Some(seconds) = seconds {
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).ok()?);
        let (h, m) = (seconds.abs() / 3600, seconds.abs() % 3600 / 60);
        let sign = if seconds < 0 { ('-', '+') } else { ('+', '-') };
        let tail = if m == 0 { String::new() } else { format!(":{m:02}") };
        return Some((format!("<{}{h:02}{tail}>{}{h:02}{tail}", sign.0, sign.1), zone));
    }
    named_zone(plain)
}

/// What the words of a value say; what they leave open is as it was `before`. A form and an order may be
/// said once. An error is PostgreSQL's detail.
pub(super) fn date_style(value: &str, before: DateStyle) -> std::result::Result<DateStyle, String> {
    let (mut form, mut order, mut is_default) = (None, None, false);
    let put_order = |found: &mut Option<DateOrder>, new| {
        let fits = found.is_none_or(|old| old == new);
        *found = Some(new);
        fits
    };
    for part in value.split(',').map(|part| part.trim().to_ascii_lowercase()) {
        let word = part.as_str();
        let named = match word {
            "iso" => Some(DateForm::Iso),
            "sql" => Some(DateForm::Sql),
            "german" => Some(DateForm::German),
            _ if word.starts_with("postgres") => Some(DateForm::Postgres),
            _ => None,
        };
        let fits = match word {
            _ if named.is_some() => form.replace(named).is_none_or(|old| old == named),
            "dmy" => put_order(&mut order, DateOrder::Dmy),
            "mdy" | "us" => put_order(&mut order, DateOrder::Mdy),
            "ymd" => put_order(&mut order, DateOrder::Ymd),
            _ if word.starts_with("euro") => put_order(&mut order, DateOrder::Dmy),
            _ if word.starts_with("noneuro") => put_order(&mut order, DateOrder::Mdy),
            "default" => {
                is_default = true;
                true
            }
            "" if value.trim().is_empty() => true,
            _ => return Err(format!("Unrecognized key word: \"{word}\".")),
        };
        if !fits {
            return Err("Conflicting \"datestyle\" specifications.".to_string());
        }
    }
    let before = if is_default { DateStyle::default() } else { before };
    let form = form.flatten().unwrap_or(before.form);
    // German dates begin with the day, unless it is said otherwise.
    let usual = if form == DateForm::German && before.form != form { DateOrder::Dmy } else { before.order };
    Ok(DateStyle { form, order: order.unwrap_or(usual) })
}

pub(super) fn shown_date_style(style: DateStyle) -> String {
    let order = match style.order {
        DateOrder::Mdy => "MDY",
        DateOrder::Dmy => "DMY",
        DateOrder::Ymd => "YMD",
    };
    format!("{}, {order}", style.form.name())
}

#[cfg(test)]
mod tests {
    use super::super::list::find;
    use super::*;

    fn set(name: &str, value: &str) -> std::result::Result<String, String> {
        checked(find(name).unwrap(), name, value).map_err(|error| error.message.clone())
    }

    #[test]
    fn numbers_with_units() {
        assert_eq!(set("work_mem", "2048"), Ok("2MB".to_string()));
        assert_eq!(set("work_mem", "1 GB"), Ok("1GB".to_string()));
        assert_eq!(set("statement_timeout", "90s"), Ok("90s".to_string()));
        assert_eq!(set("statement_timeout", "1.5min"), Ok("90s".to_string()));
        assert_eq!(set("shared_buffers", "16MB"), Ok("16MB".to_string()));
        assert_eq!(set("vacuum_cost_delay", "2"), Ok("2ms".to_string()));
        assert_eq!(set("seq_page_cost", "1e3"), Ok("1000".to_string()));
        assert_eq!(set("seq_page_cost", "0.00001"), Ok("1e-05".to_string()));
        assert_eq!(set("seq_page_cost", "1234567"), Ok("1.23457e+06".to_string()));
        assert_eq!(plain(find("shared_buffers").unwrap(), "16MB"), "2048");
        let message = "8 kB is outside the valid range for parameter \"work_mem\" (64 .. 2147483647)";
        assert_eq!(set("work_mem", "8kB"), Err(message.to_string()));
        assert!(set("work_mem", "1 day").is_err() && set("work_mem", "").is_err());
        assert!(set("extra_float_digits", "3s").is_err());
    }

    #[test]
    fn words_and_switches() {
        assert_eq!(set("synchronous_commit", "tru"), Ok("on".to_string()));
        assert_eq!(set("enable_seqscan", "F"), Ok("off".to_string()));
        assert!(set("enable_seqscan", "o").is_err() && set("synchronous_commit", "maybe").is_err());
    }

    #[test]
    fn date_styles() {
        let from = |value| date_style(value, DateStyle::default()).ok().map(shown_date_style);
        assert_eq!(from("Postgres, MDY").as_deref(), Some("Postgres, MDY"));
        assert_eq!(from("german").as_deref(), Some("German, DMY"));
        assert_eq!(from("sql,euro").as_deref(), Some("SQL, DMY"));
        assert_eq!((from("iso, sql"), from("mdy, dmy"), from("nothing")), (None, None, None));
    }
}
