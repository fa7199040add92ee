//! Times out of texts that have to be exactly as a pattern is: `.datetime()` of paths.
//!
//! The pattern tells the type: a date, a time or both, with or without a zone.

use super::super::time_format::{Piece, pieces};
use super::{Mode, format_error, read};
use crate::error::{Result, SqlError, SqlState};
use crate::types::datetime::{DAY_US, SECOND_US, date_in_range, round_micros, timestamp_in_range};
use crate::types::value::Value;

/// What a text without a pattern may look like: a date, a time with and without a zone, both of them with and
/// without a zone; fractions of seconds and minutes of zones where they are given.
const ISO: [&str; 19] = [
    "yyyy-mm-dd",
    "HH24:MI:SS.USTZH:TZM",
    "HH24:MI:SS.USTZH",
    "HH24:MI:SSTZH:TZM",
    "HH24:MI:SSTZH",
    "HH24:MI:SS.US",
    "HH24:MI:SS",
    "yyyy-mm-dd HH24:MI:SS.USTZH:TZM",
    "yyyy-mm-dd HH24:MI:SS.USTZH",
    "yyyy-mm-dd HH24:MI:SSTZH:TZM",
    "yyyy-mm-dd HH24:MI:SSTZH",
    "yyyy-mm-dd\"T\"HH24:MI:SS.USTZH:TZM",
    "yyyy-mm-dd\"T\"HH24:MI:SS.USTZH",
    "yyyy-mm-dd\"T\"HH24:MI:SSTZH:TZM",
    "yyyy-mm-dd\"T\"HH24:MI:SSTZH",
    "yyyy-mm-dd HH24:MI:SS.US",
    "yyyy-mm-dd HH24:MI:SS",
    "yyyy-mm-dd\"T\"HH24:MI:SS.US",
    "yyyy-mm-dd\"T\"HH24:MI:SS",
];

#[cold]
pub(super) fn too_short() -> SqlError {
    format_error("input string is too short for datetime format".to_string())
}

#[cold]
pub(super) fn too_long() -> SqlError {
    format_error("trailing characters remain in input string after datetime format".to_string())
}

/// Passes a character of the pattern.
pub(super) fn literal(rest: &str, c: char, is_quoted: bool) -> Result<&str> {
    rest.strip_prefix(c).ok_or_else(|| {
        let what = if is_quoted { "character" } else { "separator" };
        format_error(format!("unmatched format {what} \"{c}\""))
    })
}

/// What fields of a pattern speak of.
#[derive(Default)]
struct Parts {
    date: bool,
    time: bool,
    zone: bool,
}

impl Parts {
    fn of(pieces: &[Piece]) -> Parts {
        let mut parts = Parts::default();
        for piece in pieces {
            let Piece::Field { word, .. } = piece else { continue };
            match *word {
                "A.M." | "AM" | "P.M." | "PM" | "HH" | "HH12" | "HH24" | "MI" | "SS" | "MS" | "US" => {
                    parts.time = true;
                }
                "SSSS" | "SSSSS" => parts.time = true,
                word if word.starts_with("FF") => parts.time = true,
                "TZ" | "TZH" | "TZM" | "OF" => parts.zone = true,
                // Tells nothing by itself.
                "IW" => {}
                _ => parts.date = true,
            }
        }
        parts
    }
}

/// The moment that a text tells by a pattern, and how many seconds east of UTC it is told. The inner error is
/// that the text is not as the pattern says.
///
/// # Errors
/// 22007 for a pattern with other separators than ` - . / , ' : ;`.
pub(in crate::func::bodies) fn standard(whole: &str, pattern: &str) -> Result<Result<(Value, i32)>> {
    let pieces = pieces(pattern)?;
    let separators = pieces.iter().filter_map(|piece| match piece {
        Piece::Literal(c, false) => Some(*c),
        _ => None,
    });
    for c in separators {
        if !"-./,':; ".contains(c) {
            return Err(format_error(format!("invalid datetime format separator: \"{c}\"")));
        }
    }
    Ok(moment(whole, &pieces))
}

/// The same by the first pattern of ISO 8601 that fits.
///
/// # Errors
/// As [`standard`].
pub(in crate::func::bodies) fn iso(whole: &str) -> Result<Option<(Value, i32)>> {
    for pattern in ISO {
        if let Ok(moment) = standard(whole, pattern)? {
            return Ok(Some(moment));
        }
    }
    Ok(None)
}

fn moment(whole: &str, pieces: &[Piece]) -> Result<(Value, i32)> {
    let fields = read(whole, pieces, Mode::Standard)?;
    let (days, time) = (fields.days(whole)?, fields.time(whole)?);
    let east = fields.zone(whole)?.unwrap_or(0);
    let precision = if fields.precision > 0 { fields.precision } else { 6 };
    let parts = Parts::of(pieces);
    let timestamp = |name: &str| {
        let local = i128::from(days) * i128::from(DAY_US) + i128::from(time);
        let range = |_| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{name} out of range"));
        timestamp_in_range(local - i128::from(east * SECOND_US)).map_err(range)
    };
    let value = match parts {
        Parts { date: true, time: true, zone: true } => {
            Value::Timestamptz(round_micros(timestamp("timestamptz")?, precision))
        }
        Parts { date: true, time: true, zone: false } => {
            Value::Timestamp(round_micros(timestamp("timestamp")?, precision))
        }
        Parts { date: true, time: false, zone: true } => {
            return Err(format_error("datetime format is zoned but not timed".to_string()));
        }
        Parts { date: true, .. } => {
            let told = |_| {
                let message = format!("date out of range: \"{whole}\"");
                SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
            };
            Value::Date(date_in_range(days).map_err(told)?)
        }
        Parts { time: true, zone: true, .. } => Value::Timetz(round_micros(time, precision), -east as i32),
        Parts { time: true, .. } => Value::Time(round_micros(time, precision)),
        _ => return Err(format_error("datetime format is not dated and not timed".to_string())),
    };
    Ok((value, east as i32))
}
