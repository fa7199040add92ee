//! Intervals as text, in each IntervalStyle.

use std::fmt::Write;

use super::super::value::Interval;
use super::write_fraction;

/// `IntervalStyle`: how intervals are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum IntervalStyle {
    #[default]
    Postgres,
    PostgresVerbose,
    SqlStandard,
    Iso8601,
}

impl IntervalStyle {
    /// The style that a value of the setting names.
    pub fn named(name: &str) -> IntervalStyle {
        match name {
            "postgres_verbose" => IntervalStyle::PostgresVerbose,
            "sql_standard" => IntervalStyle::SqlStandard,
            "iso_8601" => IntervalStyle::Iso8601,
            _ => IntervalStyle::Postgres,
        }
    }
}

/// An interval in fields, each with its sign.
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
}

impl Fields {
    fn of(interval: Interval) -> Fields {
        let micros = interval.micros;
        Fields {
            year: i64::from(interval.months / 12),
            month: i64::from(interval.months % 12),
            day: i64::from(interval.days),
            hour: micros / 3_600_000_000,
            minute: micros / 60_000_000 % 60,
            second: micros / 1_000_000 % 60,
            micros: micros % 1_000_000,
        }
    }

    fn has_time(&self) -> bool {
        self.hour != 0 || self.minute != 0 || self.second != 0 || self.micros != 0
    }

    fn all(&self) -> [i64; 7] {
        [self.year, self.month, self.day, self.hour, self.minute, self.second, self.micros]
    }

    /// Seconds with their fraction, without a sign.
    fn seconds(&self, width: usize) -> String {
        let mut shown = format!("{:0width$}", self.second.abs());
        write_fraction(self.micros, &mut shown);
        shown
    }
}

/// Appends the interval in a style.
pub fn write(interval: Interval, style: IntervalStyle, to: &mut String) {
    match style {
        IntervalStyle::Postgres => postgres(interval, to),
        IntervalStyle::PostgresVerbose => verbose(&Fields::of(interval), to),
        IntervalStyle::SqlStandard => standard(interval, to),
        IntervalStyle::Iso8601 => iso(&Fields::of(interval), to),
    }
}

/// `1 year 2 mons 3 days 04:05:06.7`.
fn postgres(interval: Interval, to: &mut String) {
    let start = to.len();
    let mut after_negative = false;
    let units = [
        (i64::from(interval.months / 12), "year"),
        (i64::from(interval.months % 12), "mon"),
        (i64::from(interval.days), "day"),
    ];
    for (count, unit) in units.into_iter().filter(|(count, _)| *count != 0) {
        let blank = if to.len() == start { "" } else { " " };
        let plus = if after_negative && count > 0 { "+" } else { "" };
        let plural = if count == 1 { "" } else { "s" };
        write!(to, "{blank}{plus}{count} {unit}{plural}").expect("a string takes it");
        after_negative = count < 0;
    }
    let micros = interval.micros.unsigned_abs();
    if micros != 0 || to.len() == start {
        let blank = if to.len() == start { "" } else { " " };
        let sign = match interval.micros {
            ..0 => "-",
            _ if after_negative => "+",
            _ => "",
        };
        let (hours, minutes) = (micros / 3_600_000_000, micros / 60_000_000 % 60);
        let seconds = micros / 1_000_000 % 60;
        write!(to, "{blank}{sign}{hours:02}:{minutes:02}:{seconds:02}").expect("a string takes it");
        write_fraction((micros % 1_000_000) as i64, to);
    }
}

/// `@ 1 year 2 mons 3 days 4 hours 5 mins 6.7 secs`, with `ago` behind where the first of them is negative.
fn verbose(fields: &Fields, to: &mut String) {
    let (mut is_zero, mut is_before) = (true, false);
    to.push('@');
    let units = [
        (fields.year, "year"),
        (fields.month, "mon"),
        (fields.day, "day"),
        (fields.hour, "hour"),
        (fields.minute, "min"),
    ];
    for (count, unit) in units.into_iter().filter(|(count, _)| *count != 0) {
        is_before |= is_zero && count < 0;
        let shown = if is_before { -count } else { count };
        let plural = if shown == 1 { "" } else { "s" };
        write!(to, " {shown} {unit}{plural}").expect("a string takes it");
        is_zero = false;
    }
    if fields.second != 0 || fields.micros != 0 {
        let negative = fields.second < 0 || fields.micros < 0;
        is_before |= is_zero && negative;
        let sign = if negative == is_before { "" } else { "-" };
        let plural = if fields.second.abs() != 1 || fields.micros != 0 { "s" } else { "" };
        write!(to, " {sign}{} sec{plural}", fields.seconds(1)).expect("a string takes it");
        is_zero = false;
    }
    to.push_str(if is_zero { " 0" } else { "" });
    to.push_str(if is_before { " ago" } else { "" });
}

/// `1-2` and `3 4:05:06`; what SQL has no form for with signs everywhere.
fn standard(interval: Interval, to: &mut String) {
    let mut f = Fields::of(interval);
    let negative = f.all().iter().any(|field| *field < 0);
    let positive = f.all().iter().any(|field| *field > 0);
    let (months, times) = (f.year != 0 || f.month != 0, f.day != 0 || f.has_time());
    if !negative && !positive {
        to.push('0');
        return;
    }
    let sign = |negative: bool| if negative { '-' } else { '+' };
    let time_negative = [f.hour, f.minute, f.second, f.micros].iter().any(|field| *field < 0);
    if negative && positive || months && times {
        let (year, month, day) = (f.year.abs(), f.month.abs(), f.day.abs());
        let (a, b, c) = (sign(f.year < 0 || f.month < 0), sign(f.day < 0), sign(time_negative));
        let (hour, minute, seconds) = (f.hour.abs(), f.minute.abs(), f.seconds(2));
        write!(to, "{a}{year}-{month} {b}{day} {c}{hour}:{minute:02}:{seconds}").expect("a string takes it");
        return;
    }
    if negative {
        to.push('-');
        f = Fields {
            year: -f.year,
            month: -f.month,
            day: -f.day,
            hour: -f.hour,
            minute: -f.minute,
            second: -f.second,
            micros: -f.micros,
        };
    }
    let time = format!("{}:{:02}:{}", f.hour, f.minute, f.seconds(2));
    to.push_str(&match () {
        () if months => format!("{}-{}", f.year, f.month),
        () if f.day != 0 => format!("{} {time}", f.day),
        () => time,
    });
}

/// `P1Y2M3DT4H5M6.7S`.
fn iso(fields: &Fields, to: &mut String) {
    if fields.all().iter().all(|field| *field == 0) {
        to.push_str("PT0S");
        return;
    }
    to.push('P');
    let parts = |to: &mut String, parts: &[(i64, char)]| {
        for (count, unit) in parts.iter().filter(|(count, _)| *count != 0) {
            write!(to, "{count}{unit}").expect("a string takes it");
        }
    };
    parts(to, &[(fields.year, 'Y'), (fields.month, 'M'), (fields.day, 'D')]);
    if !fields.has_time() {
        return;
    }
    to.push('T');
    parts(to, &[(fields.hour, 'H'), (fields.minute, 'M')]);
    if fields.second != 0 || fields.micros != 0 {
        to.push_str(if fields.second < 0 || fields.micros < 0 { "-" } else { "" });
        to.push_str(&fields.seconds(1));
        to.push('S');
    }
}
