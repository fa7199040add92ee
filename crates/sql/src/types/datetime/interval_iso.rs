//! Intervals as ISO 8601 writes them.

use super::super::text::number_end;
use super::interval::{Fault, Step, Sum, Unit};

/// A number of ISO 8601's forms: whole, fraction, how many digits the whole has, and what is behind it.
fn iso_number(text: &str) -> Step<(i64, f64, usize, &str)> {
    let (whole, end) = number_end(text);
    let sign = usize::from(text.starts_with(['+', '-']));
    let value: f64 = text[..end].parse().map_err(|_| Fault::Syntax)?;
    if value.abs() > 1e18 {
        return Err(Fault::Field);
    }
    let exact = text[..whole].parse::<i64>().ok().filter(|_| !text[whole..end].contains(['e', 'E']));
    let number = exact.unwrap_or(value.trunc() as i64);
    Ok((number, value - value.trunc(), whole - sign, &text[end..]))
}

/// `P1Y2M3DT4H5M6S`, and the alternative forms `P0001-02-03T04:05:06` and `P00010203T040506`, behind the `P`
/// (`DecodeISO8601Interval`).
pub(super) fn iso_form(text: &str) -> Step<Sum> {
    let mut sum = Sum::default();
    let (date, time) = text.split_once('T').map_or((text, None), |(date, time)| (date, Some(time)));
    if date.is_empty() && time.is_none_or(str::is_empty) {
        return Err(Fault::Syntax);
    }
    iso_part(date, &mut sum, '-', 8, [Unit::Year, Unit::Month, Unit::Day], |letter| match letter {
        'Y' => Some(Unit::Year),
        'M' => Some(Unit::Month),
        'W' => Some(Unit::Week),
        'D' => Some(Unit::Day),
        _ => None,
    })?;
    iso_part(time.unwrap_or(""), &mut sum, ':', 6, [Unit::Hour, Unit::Minute, Unit::Second], |letter| {
        match letter {
            'H' => Some(Unit::Hour),
            'M' => Some(Unit::Minute),
            'S' => Some(Unit::Second),
            _ => None,
        }
    })?;
    Ok(sum)
}

/// The date or the time: numbers with letters, or three numbers with separators, or all digits in one.
fn iso_part(
    text: &str,
    sum: &mut Sum,
    separator: char,
    width: usize,
    units: [Unit; 3],
    unit_of: impl Fn(char) -> Option<Unit>,
) -> Step<()> {
    let (mut rest, mut place, mut lettered) = (text, 0, false);
    while !rest.is_empty() {
        let (number, fraction, digits, behind) = iso_number(rest)?;
        rest = behind;
        let next = rest.chars().next();
        if let Some(unit) = next.and_then(&unit_of).filter(|_| place == 0) {
            sum.add(number, fraction, unit)?;
            (rest, lettered) = (&rest[1..], true);
            continue;
        }
        if lettered || place > 2 || next.is_some_and(|next| next != separator) {
            return Err(Fault::Syntax);
        }
        if place == 0 && digits == width && next.is_none() {
            let (high, low) = (number / 10_000, number % 10_000);
            sum.add(high, 0.0, units[0])?;
            sum.add(low / 100, 0.0, units[1])?;
            sum.add(low % 100, fraction, units[2])?;
            return Ok(());
        }
        sum.add(number, fraction, units[place])?;
        place += 1;
        rest = next.map_or("", |_| &rest[1..]);
        if next.is_some() && rest.is_empty() {
            return Err(Fault::Syntax);
        }
    }
    Ok(())
}
