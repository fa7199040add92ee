//! Dates and timestamps as text, in each DateStyle (`EncodeDateOnly`, `EncodeDateTime` of PostgreSQL's
//! datetime.c).

use std::fmt::Write;

use jiff::tz::TimeZone;

use super::{
    Day, SECOND_US, abbreviation_at, day_of, is_infinite, offset_at, split, weekday, write_offset, write_time,
};

/// The first word of `DateStyle`: how dates are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum DateForm {
    #[default]
    Iso,
    Postgres,
    Sql,
    German,
}

impl DateForm {
    /// Its word in the setting.
    pub fn name(self) -> &'static str {
        match self {
            DateForm::Iso => "ISO",
            DateForm::Postgres => "Postgres",
            DateForm::Sql => "SQL",
            DateForm::German => "German",
        }
    }
}

/// Order of day, month and year where input leaves it open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words: day, month, year")]
pub enum DateOrder {
    #[default]
    Mdy,
    Dmy,
    Ymd,
}

/// `DateStyle`: the form, and the order of day and month where the form leaves it open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DateStyle {
    /// How dates are written.
    pub form: DateForm,
    /// What comes first, in input and output.
    pub order: DateOrder,
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// The year as it is counted, and whether that is before Christ.
fn year_of(day: Day) -> (i64, bool) {
    if day.year <= 0 { (1 - day.year, true) } else { (day.year, false) }
}

/// Appends a day in numbers; true if it is before Christ, which is said behind a time.
fn write_day(day: Day, style: DateStyle, to: &mut String) -> bool {
    let (year, is_bc) = year_of(day);
    let (first, second) = match style.order {
        DateOrder::Dmy => (day.day, day.month),
        DateOrder::Mdy | DateOrder::Ymd => (day.month, day.day),
    };
    match style.form {
        DateForm::Iso => write!(to, "{year:04}-{:02}-{:02}", day.month, day.day),
        DateForm::Postgres => write!(to, "{first:02}-{second:02}-{year:04}"),
        DateForm::Sql => write!(to, "{first:02}/{second:02}/{year:04}"),
        DateForm::German => write!(to, "{:02}.{:02}.{year:04}", day.day, day.month),
    }
    .expect("a string takes it");
    is_bc
}

/// Appends a date.
pub fn write_date(date: i32, style: DateStyle, to: &mut String) {
    match date {
        i32::MAX => to.push_str("infinity"),
        i32::MIN => to.push_str("-infinity"),
        _ => {
            if write_day(day_of(i64::from(date)), style, to) {
                to.push_str(" BC");
            }
        }
    }
}

/// Appends a timestamp without time zone.
pub fn write_timestamp(micros: i64, style: DateStyle, to: &mut String) {
    write_moment(micros, style, |_| (), to);
}

/// Appends a timestamptz as the zone's clocks show it.
pub fn write_timestamptz(utc_us: i64, zone: &TimeZone, style: DateStyle, to: &mut String) {
    if is_infinite(utc_us) {
        return write_timestamp(utc_us, style, to);
    }
    let east = offset_at(zone, utc_us);
    let write_zone = |to: &mut String| match style.form {
        DateForm::Iso => write_offset(east, to),
        DateForm::Postgres | DateForm::Sql | DateForm::German => {
            write!(to, " {}", abbreviation_at(zone, utc_us)).expect("a string takes it");
        }
    };
    write_moment(utc_us + i64::from(east) * SECOND_US, style, write_zone, to);
}

/// Appends what clocks show, with what says their zone.
fn write_moment(local_us: i64, style: DateStyle, write_zone: impl Fn(&mut String), to: &mut String) {
    match local_us {
        i64::MAX => return to.push_str("infinity"),
        i64::MIN => return to.push_str("-infinity"),
        _ => {}
    }
    let (days, time) = split(local_us);
    let day = day_of(days);
    let (year, is_bc) = year_of(day);
    if style.form == DateForm::Postgres {
        let (weekday, month) = (DAYS[weekday(days) as usize], MONTHS[day.month as usize - 1]);
        match style.order {
            DateOrder::Dmy => write!(to, "{weekday} {:02} {month} ", day.day),
            DateOrder::Mdy | DateOrder::Ymd => write!(to, "{weekday} {month} {:02} ", day.day),
        }
        .expect("a string takes it");
        write_time(time, to);
        write!(to, " {year:04}").expect("a string takes it");
    } else {
        write_day(day, style, to);
        to.push(' ');
        write_time(time, to);
    }
    write_zone(to);
    to.push_str(if is_bc { " BC" } else { "" });
}

#[cfg(test)]
mod tests {
    use super::super::{DAY_US, days_of};
    use super::*;

    /// The examples of PostgreSQL's manual, table 8.14 and 8.15.
    #[test]
    fn styles() {
        let moment = days_of(Day { year: 1997, month: 12, day: 17 }) * DAY_US + 26_256 * SECOND_US;
        let shown = |form, order| {
            let mut text = String::new();
            write_timestamp(moment, DateStyle { form, order }, &mut text);
            text
        };
        assert_eq!(shown(DateForm::Iso, DateOrder::Dmy), "1997-12-17 07:17:36");
        assert_eq!(shown(DateForm::Sql, DateOrder::Mdy), "12/17/1997 07:17:36");
        assert_eq!(shown(DateForm::Sql, DateOrder::Dmy), "17/12/1997 07:17:36");
        assert_eq!(shown(DateForm::Postgres, DateOrder::Mdy), "Wed Dec 17 07:17:36 1997");
        assert_eq!(shown(DateForm::Postgres, DateOrder::Dmy), "Wed 17 Dec 07:17:36 1997");
        assert_eq!(shown(DateForm::German, DateOrder::Ymd), "17.12.1997 07:17:36");
    }
}
