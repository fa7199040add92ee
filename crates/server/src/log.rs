//! What a server tells whoever runs it: one line for each event, for people or for programs.
//!
//! ```text
//!   2026-11-21T23:32:01.123456Z level=warning event=login_refused user=bob address=10.0.0.7 sqlstate=28P01
//!   {"time":"2026-11-21T23:32:01.123456Z","level":"warning","event":"login_refused","user":"bob", ...}
//! ```
//!
//! Invariants:
//! 1. An event is one line, whatever is in its values: line ends and quotes in them are written as escapes.
//! 2. Passwords, and what they are checked against, are in no line; the text of a statement is in those of
//!    slow statements only.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use liger_sql::types::datetime::{Day, UNIX_EPOCH_DAYS, day_of, days_of};

use crate::clock;

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It is as it should be.
    Info,
    /// Somebody may want to look.
    Warning,
    /// Something does not work.
    Error,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `key=value`, values in quotes where they need them.
    #[default]
    Text,
    /// A JSON object.
    Json,
}

/// An event: its name, and what else is known of it, in this order.
pub struct Entry<'a> {
    /// How much it matters.
    pub level: Level,
    /// A name in lower case, words joined by `_`.
    pub event: &'static str,
    /// Names and values.
    pub fields: &'a [(&'static str, &'a dyn Display)],
}

/// Takes events, from any thread.
pub type Logger = Arc<dyn Fn(&Entry<'_>) + Send + Sync>;

/// The line of an event that happens now, without its end.
pub fn line(entry: &Entry<'_>, format: Format) -> String {
    let time = shown_time(clock::now_us());
    let level = match entry.level {
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    };
    let mut text = match format {
        Format::Text => format!("{time} level={level} event={}", entry.event),
        Format::Json => format!("{{\"time\":\"{time}\",\"level\":\"{level}\",\"event\":\"{}\"", entry.event),
    };
    for (name, value) in entry.fields {
        let value = value.to_string();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/+".contains(c);
        let _ = match format {
            Format::Text if !value.is_empty() && value.chars().all(plain) => write!(text, " {name}={value}"),
            Format::Text => write!(text, " {name}={}", quoted(&value)),
            Format::Json => write!(text, ",\"{name}\":{}", quoted(&value)),
        };
    }
    if format == Format::Json {
        text.push('}');
    }
    text
}

/// A string of JSON.
fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c.is_control() => _ = write!(text, "\\u{:04x}", u32::from(c)),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// A time in microseconds since 1970 as ISO 8601 has it, UTC.
pub fn shown_time(us: i64) -> String {
    let (days, in_day) = (us.div_euclid(86_400_000_000), us.rem_euclid(86_400_000_000));
    let Day { year, month, day } = day_of(days - UNIX_EPOCH_DAYS);
    let (seconds, us) = (in_day / 1_000_000, in_day % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{us:06}Z")
}

/// The microseconds since 1970 of such a time.
pub fn time_us(shown: &str) -> Option<i64> {
    let mut numbers =
        shown.strip_suffix('Z')?.split(['-', 'T', ':', '.']).map(|part| part.parse::<i64>().ok());
    let mut next = || numbers.next().flatten();
    let days = days_of(Day { year: next()?, month: next()?, day: next()? }) + UNIX_EPOCH_DAYS;
    let seconds = days * 86_400 + next()? * 3600 + next()? * 60 + next()?;
    Some(seconds * 1_000_000 + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown() {
        assert_eq!(shown_time(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(shown_time(951_782_400_000_001), "2000-02-29T00:00:00.000001Z");
        assert_eq!(shown_time(1_798_761_599_999_999), "2026-12-31T23:59:59.999999Z");
    }

    #[test]
    fn times_are_read_as_they_are_shown() {
        for us in [0, 951_782_400_000_001, 1_798_761_599_999_999, 1_764_211_212_000_042] {
            assert_eq!(time_us(&shown_time(us)), Some(us));
        }
        assert_eq!(["", "Z", "2026-11-27T03:00:00Z", "2026-11-27"].map(time_us), [None; 4]);
    }

    #[test]
    fn an_event_is_one_line() {
        let query = "select '\"\n\u{1}'";
        let fields: &[(&'static str, &dyn Display)] = &[("user", &"bob"), ("query", &query), ("empty", &"")];
        let entry = Entry { level: Level::Warning, event: "slow_statement", fields };
        let text = line(&entry, Format::Text);
        let end = r#" level=warning event=slow_statement user=bob query="select '\"\n\u0001'" empty="""#;
        assert!(text.ends_with(end), "{text}");
        let json = line(&entry, Format::Json);
        let end = r#""event":"slow_statement","user":"bob","query":"select '\"\n\u0001'","empty":""}"#;
        assert!(json.ends_with(end), "{json}");
    }
}
