//! Times in patterns: `to_char(now(), 'YYYY-MM-DD HH24:MI:SS')`.

use super::number_format::{ordinal, roman};
use super::{interval_of, scalar, text, timestamp_of, timestamptz_of};
use crate::error::Result;
use crate::func::registry::Body;
use crate::stop;
use crate::types::datetime::{
    DAY_US, Day, EPOCH_JULIAN, SECOND_US, abbreviation_at, day_of, days_of, is_infinite, iso_week, offset_at,
    split, weekday,
};
use crate::types::value::{Interval, Value};

/// Key words of patterns, longer ones in front of those that they begin with.
pub(super) const KEYWORDS: &[&str] = &[
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "D", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM",
    "MONTH", "MON", "MS", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ", "US",
    "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y",
];

/// A piece of a pattern.
#[derive(Debug)]
pub(super) enum Piece {
    /// A key word (upper case), how it is written, FM in front, TH or th behind.
    Field { word: &'static str, given: String, fill: bool, ordinal: Option<bool> },
    /// Anything else, in quotes or not.
    Literal(char, bool),
    /// FX: from here on nothing is passed over that the pattern does not name.
    Fixed,
}

fn names_follow(rest: &str) -> bool {
    ["MON", "DAY", "DY"]
        .iter()
        .any(|word| rest.get(..word.len()).is_some_and(|s| s.eq_ignore_ascii_case(word)))
}

/// Splits a pattern; TM prefixes are passed over.
pub(super) fn pieces(pattern: &str) -> Result<Vec<Piece>> {
    let mut found = Vec::new();
    let mut rest = pattern;
    let starts =
        |rest: &str, word: &str| rest.get(..word.len()).is_some_and(|s| s.eq_ignore_ascii_case(word));
    while let Some(c) = rest.chars().next() {
        stop::check_at(found.len())?;
        let mut fill = false;
        let mut tail = rest;
        while let Some(prefix) = ["FM", "TM", "FX"].iter().find(|prefix| starts(tail, prefix)) {
            // Names of a locale (TM) are not filled up either.
            fill |= *prefix == "FM" || *prefix == "TM" && names_follow(&tail[2..]);
            if *prefix == "FX" {
                found.push(Piece::Fixed);
            }
            tail = &tail[2..];
        }
        if let Some(word) = KEYWORDS.iter().find(|word| starts(tail, word)) {
            let given = tail[..word.len()].to_string();
            tail = &tail[word.len()..];
            let ordinal = starts(tail, "TH").then(|| tail.starts_with('t'));
            rest = &tail[if ordinal.is_some() { 2 } else { 0 }..];
            found.push(Piece::Field { word, given, fill, ordinal });
            continue;
        }
        if tail.len() < rest.len() {
            rest = tail;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => {
                let mut escaped = false;
                while let Some(c) = rest.chars().next() {
                    rest = &rest[c.len_utf8()..];
                    match c {
                        '"' if !escaped => break,
                        '\\' if !escaped => escaped = true,
                        c => {
                            found.push(Piece::Literal(c, true));
                            escaped = false;
                        }
                    }
                }
            }
            '\\' if rest.starts_with('"') => {
                found.push(Piece::Literal('"', true));
                rest = &rest[1..];
            }
            c => found.push(Piece::Literal(c, false)),
        }
    }
    Ok(found)
}

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// What fields are taken from.
struct Moment {
    day: Day,
    days: i64,
    micros: i64,
    /// Name and offset of the zone of a timestamptz.
    zone: Option<(String, i32)>,
    is_interval: bool,
}

/// A word in the case in which its key word is written: DAY, Day or day.
fn cased(word: &str, given: &str) -> String {
    let mut letters = given.chars();
    match (letters.next().is_some_and(char::is_uppercase), letters.next().is_some_and(char::is_uppercase)) {
        (true, true) => word.to_uppercase(),
        (true, false) => word.to_string(),
        _ => word.to_lowercase(),
    }
}

fn number(moment: &Moment, word: &str) -> Option<(i64, usize)> {
    let Moment { day: Day { year, month, day }, days, micros, .. } = *moment;
    let shown = match year {
        _ if moment.is_interval => year,
        1.. => year,
        _ => 1 - year,
    };
    let (hour, minute, second) = (micros / 3_600_000_000, micros / 60_000_000 % 60, micros / SECOND_US % 60);
    let fraction = micros % SECOND_US;
    let of_year = if moment.is_interval {
        day + month * 30
    } else {
        days - days_of(Day { year, month: 1, day: 1 }) + 1
    };
    let (iso_year, week) = iso_week(days);
    let iso_year = if iso_year > 0 { iso_year } else { 1 - iso_year };
    Some(match word {
        "HH" | "HH12" => (if hour % 12 == 0 { 12 * hour.signum().max(1) } else { hour % 12 }, 2),
        "HH24" => (hour, 2),
        "MI" => (minute, 2),
        "SS" => (second, 2),
        "SSSS" | "SSSSS" => (micros / SECOND_US, 1),
        "MS" | "FF3" => (fraction / 1000, 3),
        "US" | "FF6" => (fraction, 6),
        "FF1" => (fraction / 100_000, 1),
        "FF2" => (fraction / 10_000, 2),
        "FF4" => (fraction / 100, 4),
        "FF5" => (fraction / 10, 5),
        "MM" => (month, 2),
        "DD" => (day, 2),
        "DDD" => (of_year, 3),
        "D" => (weekday(days) + 1, 1),
        "ID" => ((weekday(days) + 6) % 7 + 1, 1),
        "IDDD" => ((week - 1) * 7 + (weekday(days) + 6) % 7 + 1, 3),
        "W" => ((day - 1) / 7 + 1, 1),
        "WW" => ((of_year - 1) / 7 + 1, 2),
        "IW" => (week, 2),
        "Q" => ((month - 1) / 3 + 1, 1),
        "CC" => (if year > 0 { (year - 1) / 100 + 1 } else { year / 100 - 1 }, 2),
        "J" => (days + i64::from(EPOCH_JULIAN), 1),
        "YYYY" => (shown, 4),
        "YYY" => (shown % 1000, 3),
        "YY" => (shown % 100, 2),
        "Y" => (shown % 10, 1),
        "IYYY" => (iso_year, 4),
        "IYY" => (iso_year % 1000, 3),
        "IY" => (iso_year % 100, 2),
        "I" => (iso_year % 10, 1),
        _ => return None,
    })
}

/// Fields that are words; `None` for one that this kind of value has not.
fn word_of(moment: &Moment, word: &str, given: &str, fill: bool) -> String {
    let padded = |name: &str| if fill { cased(name, given) } else { format!("{:<9}", cased(name, given)) };
    let Moment { day: Day { year, month, .. }, days, micros, .. } = *moment;
    let hour = micros / 3_600_000_000;
    let month_at = (month - 1).rem_euclid(12) as usize;
    let afternoon = hour.rem_euclid(24) >= 12;
    let half = |am: &str, pm: &str| {
        let chosen = if afternoon { pm } else { am };
        if given.starts_with(char::is_uppercase) { chosen.to_uppercase() } else { chosen.to_lowercase() }
    };
    let era = |bc: &str, ad: &str| {
        let chosen = if year <= 0 { bc } else { ad };
        if given.starts_with(char::is_uppercase) { chosen.to_uppercase() } else { chosen.to_lowercase() }
    };
    let zone = moment.zone.as_ref();
    let east = zone.map_or(0, |zone| zone.1);
    let sign = if east < 0 { '-' } else { '+' };
    match word {
        "MONTH" => padded(MONTHS[month_at]),
        "MON" => cased(&MONTHS[month_at][..3], given),
        "DAY" => padded(DAYS[weekday(days) as usize]),
        "DY" => cased(&DAYS[weekday(days) as usize][..3], given),
        "AM" | "PM" => half("am", "pm"),
        "A.M." | "P.M." => half("a.m.", "p.m."),
        "BC" | "AD" => era("bc", "ad"),
        "B.C." | "A.D." => era("b.c.", "a.d."),
        "RM" => {
            let digits = roman(month).unwrap_or_default();
            let digits = if given.starts_with(char::is_uppercase) { digits } else { digits.to_lowercase() };
            if fill { digits } else { format!("{digits:<4}") }
        }
        "TZ" => {
            let name = zone.map_or("", |zone| &zone.0);
            if given.starts_with(char::is_uppercase) { name.to_uppercase() } else { name.to_lowercase() }
        }
        "TZH" => format!("{sign}{:02}", east.abs() / 3600),
        "TZM" => format!("{:02}", east.abs() / 60 % 60),
        "OF" => match east.abs() / 60 % 60 {
            0 => format!("{sign}{:02}", east.abs() / 3600),
            minutes => format!("{sign}{:02}:{minutes:02}", east.abs() / 3600),
        },
        "Y,YYY" => {
            let shown = if year > 0 || moment.is_interval { year } else { 1 - year };
            format!("{},{:03}", shown / 1000, shown % 1000)
        }
        _ => String::new(),
    }
}

fn format(moment: &Moment, pattern: &str) -> Result<String> {
    let mut made = String::new();
    for (at, piece) in pieces(pattern)?.into_iter().enumerate() {
        stop::check_at(at)?;
        match piece {
            Piece::Literal(c, _) => made.push(c),
            Piece::Fixed => {}
            Piece::Field { word, given, fill, ordinal: ending } => match number(moment, word) {
                Some((value, width)) => {
                    let width = match () {
                        () if fill && !word.starts_with("FF") && !matches!(word, "MS" | "US") => 0,
                        () if value < 0 => width + 1,
                        () => width,
                    };
                    made.push_str(&format!("{value:0width$}"));
                    if let Some(small) = ending {
                        made.push_str(ordinal(value, small));
                    }
                }
                None => made.push_str(&word_of(moment, word, &given, fill)),
            },
        }
    }
    Ok(made)
}

/// `Wed Feb 21 10:03:04.123456 2024 UTC`.
pub(super) fn of_day(days: i64, micros: i64, zone: &str) -> Result<String> {
    let moment = Moment { day: day_of(days), days, micros, zone: None, is_interval: false };
    Ok(format!("{} {zone}", format(&moment, "Dy Mon DD HH24:MI:SS.US YYYY")?))
}

fn of_interval(interval: Interval) -> Moment {
    let months = i64::from(interval.months);
    let day = Day { year: months / 12, month: months % 12, day: i64::from(interval.days) };
    Moment { day, days: 0, micros: interval.micros, zone: None, is_interval: true }
}

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "timestamp_to_char" => scalar(|_, a| {
            let local = timestamp_of(&a[0]);
            if text(&a[1]).is_empty() || is_infinite(local) {
                return Ok(Value::Null);
            }
            let (days, micros) = split(local);
            let moment = Moment { day: day_of(days), days, micros, zone: None, is_interval: false };
            Ok(Value::text(format(&moment, text(&a[1]))?))
        }),
        "timestamptz_to_char" => scalar(|ctx, a| {
            let utc = timestamptz_of(&a[0]);
            if text(&a[1]).is_empty() || is_infinite(utc) {
                return Ok(Value::Null);
            }
            let east = offset_at(&ctx.settings.time_zone, utc);
            let (days, micros) = split(utc + i64::from(east) * SECOND_US);
            let zone = Some((abbreviation_at(&ctx.settings.time_zone, utc), east));
            let moment = Moment { day: day_of(days), days, micros, zone, is_interval: false };
            debug_assert!(micros < DAY_US);
            Ok(Value::text(format(&moment, text(&a[1]))?))
        }),
        "interval_to_char" => scalar(|_, a| {
            if text(&a[1]).is_empty() {
                return Ok(Value::Null);
            }
            Ok(Value::text(format(&of_interval(interval_of(&a[0])), text(&a[1]))?))
        }),
        _ => None,
    }
}
