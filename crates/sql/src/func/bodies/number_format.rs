//! Numbers in patterns: `to_char(1234.5, '9,999.99')` and `to_number`.

use super::{float4, float8, int4, int8, numeric, scalar, text};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::numeric::Numeric;
use crate::types::value::Value;

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    /// `9`, or `0` with leading zeros from here on.
    Digit(bool),
    Point,
    Comma,
    /// `S`: the sign where it stands.
    Sign,
    /// `MI`: a minus or a blank.
    Minus,
    /// `PL`: a plus or a blank.
    Plus,
    /// `SG`: a plus or a minus.
    PlusMinus,
    /// `PR`: negative numbers in angle brackets.
    Angle,
    Currency,
    /// `RN`: Roman, with small letters for `rn`.
    Roman(bool),
    /// `TH`: an ordinal's ending.
    Ordinal(bool),
    Exponent,
    /// `V`: times 10 to the digits behind it.
    Shift,
    Literal(char),
}

/// A pattern and what it says as a whole.
#[derive(Default)]
struct Pattern {
    pieces: Vec<Piece>,
    fill: bool,
    before: usize,
    behind: usize,
    shift: usize,
    first_zero: Option<usize>,
}

fn parse(pattern: &str) -> Result<Pattern> {
    let mut made = Pattern::default();
    let mut rest = pattern;
    let (mut in_fraction, mut in_shift, mut has_ended) = (false, false, false);
    'pieces: while let Some(c) = rest.chars().next() {
        for (word, piece) in WORDS {
            if rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)) {
                let small = rest.starts_with(|c: char| c.is_ascii_lowercase());
                rest = &rest[word.len()..];
                has_ended |= *piece == Piece::Angle;
                match piece {
                    Piece::Roman(_) => made.pieces.push(Piece::Roman(small)),
                    Piece::Ordinal(_) => made.pieces.push(Piece::Ordinal(small)),
                    other => made.pieces.push(other.clone()),
                }
                continue 'pieces;
            }
        }
        if rest.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("FM")) {
            made.fill = true;
            rest = &rest[2..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '9' | '0' if has_ended => {
                let message = format!("\"{c}\" must be ahead of \"PR\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            '9' | '0' => {
                let digits = made.before + made.behind + made.shift;
                match (in_shift, in_fraction) {
                    (true, _) => made.shift += 1,
                    (_, true) => made.behind += 1,
                    _ => made.before += 1,
                }
                if c == '0' && made.first_zero.is_none() {
                    made.first_zero = Some(digits);
                }
                made.pieces.push(Piece::Digit(c == '0'));
            }
            '.' | 'D' | 'd' => {
                if in_fraction {
                    let message = "multiple decimal points";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                in_fraction = true;
                made.pieces.push(Piece::Point);
            }
            ',' | 'G' | 'g' => made.pieces.push(Piece::Comma),
            'S' | 's' => made.pieces.push(Piece::Sign),
            'L' | 'l' => made.pieces.push(Piece::Currency),
            'V' | 'v' => {
                in_shift = true;
                made.pieces.push(Piece::Shift);
            }
            'B' | 'b' | 'C' | 'c' => {}
            '"' => {
                let end = rest.find('"').unwrap_or(rest.len());
                made.pieces.extend(rest[..end].chars().map(Piece::Literal));
                rest = rest.get(end + 1..).unwrap_or("");
            }
            '\\' => {
                let Some(escaped) = rest.chars().next() else { continue };
                made.pieces.push(Piece::Literal(escaped));
                rest = &rest[escaped.len_utf8()..];
            }
            c => made.pieces.push(Piece::Literal(c)),
        }
    }
    Ok(made)
}

const WORDS: &[(&str, Piece)] = &[
    ("MI", Piece::Minus),
    ("PL", Piece::Plus),
    ("SG", Piece::PlusMinus),
    ("PR", Piece::Angle),
    ("RN", Piece::Roman(false)),
    ("TH", Piece::Ordinal(false)),
    ("EEEE", Piece::Exponent),
];

/// The ending of an ordinal number.
pub(super) fn ordinal(number: i64, small: bool) -> &'static str {
    let ending = match (number.abs() % 100, number.abs() % 10) {
        (11..=13, _) => "TH",
        (_, 1) => "ST",
        (_, 2) => "ND",
        (_, 3) => "RD",
        _ => "TH",
    };
    match (ending, small) {
        (ending, false) => ending,
        ("ST", true) => "st",
        ("ND", true) => "nd",
        ("RD", true) => "rd",
        _ => "th",
    }
}

/// A number from 1 to 3999 in Roman digits.
pub(super) fn roman(mut number: i64) -> Option<String> {
    if !(1..4000).contains(&number) {
        return None;
    }
    let digits = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut made = String::new();
    for (value, digit) in digits {
        while number >= value {
            made.push_str(digit);
            number -= value;
        }
    }
    Some(made)
}

/// `negative`: of a float, which has its sign also where it is rounded to zero.
fn format(number: &Numeric, negative: bool, pattern: &Pattern) -> Result<String> {
    let is_roman = pattern.pieces.iter().find_map(|piece| match piece {
        Piece::Roman(small) => Some(*small),
        _ => None,
    });
    if let Some(small) = is_roman {
        if !number.is_finite() {
            let what = if number.is_nan() { "NaN" } else { "infinity" };
            let message = format!("cannot convert {what} to integer");
            return Err(SqlError::refused_by_postgresql(message));
        }
        let digits = number.to_i64().and_then(roman).unwrap_or_else(|| "#".repeat(15));
        let digits = if small { digits.to_lowercase() } else { digits };
        return Ok(if pattern.fill { digits } else { format!("{digits:>15}") });
    }
    if pattern.pieces.contains(&Piece::Exponent) {
        return Ok(scientific(number, pattern));
    }
    let shifted = match pattern.shift {
        0 => number.clone(),
        shift => number.mul(&Numeric::new(crate::types::numeric::ten(shift as u32), 0))?,
    };
    let behind = if pattern.shift > 0 { 0 } else { pattern.behind };
    let rounded = shifted.round(behind as i64);
    let negative = negative || rounded.signum() < 0;
    let written = rounded.abs().to_string();
    let (whole, fraction) = written.split_once('.').unwrap_or((&written, ""));
    let places = pattern.before + pattern.shift;
    let whole = if whole == "0" && pattern.before > 0 && behind > 0 { "" } else { whole };
    let overflows = whole.len() > places;
    Ok(lay_out(pattern, whole, fraction, negative, overflows, &rounded))
}

/// Whether the sign stands in front of the first digit, and what is written there.
fn sign_of(pattern: &Pattern, negative: bool) -> (bool, &'static str) {
    let has = |piece: &Piece| pattern.pieces.contains(piece);
    let place = |is: &dyn Fn(&Piece) -> bool| pattern.pieces.iter().position(is);
    let blank = if pattern.fill { "" } else { " " };
    if has(&Piece::Sign) {
        let leads = place(&|p| *p == Piece::Sign) < place(&|p| matches!(p, Piece::Digit(_)));
        return (leads, if negative { "-" } else { "+" });
    }
    if has(&Piece::Angle) {
        return (true, if negative { "<" } else { blank });
    }
    if has(&Piece::Minus) || has(&Piece::PlusMinus) {
        return (false, "");
    }
    (true, if negative { "-" } else { blank })
}

/// Walks over the pattern and puts digits, blanks and signs where it says.
fn lay_out(
    pattern: &Pattern,
    whole: &str,
    fraction: &str,
    negative: bool,
    overflows: bool,
    number: &Numeric,
) -> String {
    let (anchored, sign_text) = sign_of(pattern, negative);
    let places = pattern.before + pattern.shift;
    let skipped = places.saturating_sub(whole.len());
    let zero_from = pattern.first_zero.unwrap_or(usize::MAX);
    let first_digit = skipped.min(zero_from);
    let mut made = String::new();
    let mut sign_done = !anchored;
    let (mut place, mut in_fraction, mut behind) = (0, false, 0);
    let digits_end = fraction.trim_end_matches('0').len();
    for piece in &pattern.pieces {
        let starts = !in_fraction && place >= first_digit;
        match piece {
            Piece::Digit(is_zero) if in_fraction => {
                let digit = fraction.as_bytes().get(behind).copied().unwrap_or(b'0');
                behind += 1;
                let keep = !pattern.fill || behind <= digits_end || *is_zero || zero_behind(pattern, behind);
                if overflows {
                    made.push('#');
                } else if keep {
                    made.push(digit as char);
                }
            }
            Piece::Digit(_) => {
                if starts && !sign_done {
                    made.push_str(sign_text);
                    sign_done = true;
                }
                if overflows {
                    if !sign_done {
                        made.push_str(sign_text);
                        sign_done = true;
                    }
                    made.push('#');
                } else if place >= skipped {
                    made.push(whole.as_bytes()[place - skipped] as char);
                } else if place >= zero_from {
                    made.push('0');
                } else if !pattern.fill {
                    made.push(' ');
                }
                place += 1;
            }
            // NaN and infinities have no digits behind the point.
            Piece::Point if !number.is_finite() && !overflows => break,
            Piece::Point => {
                if !sign_done {
                    made.push_str(sign_text);
                    sign_done = true;
                }
                in_fraction = true;
                let whole_missing = whole.is_empty() && zero_from > places;
                if pattern.fill && whole_missing && digits_end == 0 && !zero_behind(pattern, 1) {
                    made.push('0');
                }
                made.push('.');
            }
            Piece::Comma if overflows || place > first_digit || in_fraction => made.push(','),
            Piece::Comma => made.push_str(if pattern.fill { "" } else { " " }),
            Piece::Sign if anchored => {}
            Piece::Sign => made.push(if negative { '-' } else { '+' }),
            Piece::Minus if negative => made.push('-'),
            Piece::Plus if !negative => made.push('+'),
            Piece::Minus | Piece::Plus => made.push_str(if pattern.fill { "" } else { " " }),
            Piece::PlusMinus => made.push(if negative { '-' } else { '+' }),
            Piece::Angle => made.push_str(if negative {
                ">"
            } else if pattern.fill {
                ""
            } else {
                " "
            }),
            Piece::Currency => made.push(' '),
            Piece::Ordinal(small) => {
                if !negative && !overflows && pattern.behind == 0 {
                    made.push_str(ordinal(number.to_i64().unwrap_or(0), *small));
                }
            }
            Piece::Shift | Piece::Exponent | Piece::Roman(_) => {}
            Piece::Literal(c) => made.push(*c),
        }
    }
    if !sign_done {
        made.push_str(sign_text);
    }
    made
}

/// Whether a `0` stands at this place behind the point (from 1) or later.
fn zero_behind(pattern: &Pattern, behind: usize) -> bool {
    let mut in_fraction = false;
    let mut at = 0;
    for piece in &pattern.pieces {
        match piece {
            Piece::Point => in_fraction = true,
            Piece::Digit(is_zero) if in_fraction => {
                at += 1;
                if *is_zero && at >= behind {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

fn scientific(number: &Numeric, pattern: &Pattern) -> String {
    if !number.is_finite() {
        return format!(" {}.{}", "#".repeat(pattern.before), "#".repeat(pattern.behind + 4));
    }
    let written = number.abs().trim_scale().to_string();
    let digits: String = written.chars().filter(char::is_ascii_digit).collect();
    let point = written.find('.').unwrap_or(written.len()) as i64;
    let leading = digits.len() - digits.trim_start_matches('0').len();
    let mut exponent = if number.signum() == 0 { 0 } else { point - 1 - leading as i64 };
    let mantissa = format!(
        "{}.{}",
        &digits[leading.min(digits.len() - 1)..][..1],
        &digits[(leading + 1).min(digits.len())..]
    );
    let mut rounded = Numeric::parse(&mantissa).expect("digits").expect("small").round(pattern.behind as i64);
    if rounded >= Numeric::from_i64(10) {
        exponent += 1;
        rounded = Numeric::ONE.round(pattern.behind as i64);
    }
    let sign = if number.signum() < 0 {
        "-"
    } else if pattern.fill {
        ""
    } else {
        " "
    };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{rounded}e{exponent_sign}{:02}", exponent.abs())
}

/// The number in a text that follows a pattern.
fn read(whole: &str, pattern: &Pattern) -> Result<Numeric> {
    let mut chars = whole.trim().chars().peekable();
    let (mut digits, mut negative, mut seen_point) = (String::new(), false, false);
    let mut sign = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        if let Some(c) = chars.next_if(|c| matches!(c, '-' | '+' | '<')) {
            negative |= c != '+';
        }
    };
    for piece in &pattern.pieces {
        match piece {
            Piece::Digit(_) => {
                while chars.next_if_eq(&' ').is_some() {}
                sign(&mut chars);
                if !seen_point && chars.peek() == Some(&'.') {
                    continue;
                }
                if let Some(digit) = chars.next_if(char::is_ascii_digit) {
                    digits.push(digit);
                }
            }
            Piece::Point => {
                if chars.next_if_eq(&'.').is_some() {
                    digits.push('.');
                    seen_point = true;
                }
            }
            Piece::Comma => drop(chars.next_if_eq(&',')),
            Piece::Sign | Piece::Minus | Piece::Plus | Piece::PlusMinus => sign(&mut chars),
            Piece::Angle => drop(chars.next_if_eq(&'>')),
            Piece::Literal(_) | Piece::Currency => {
                chars.next_if(|c| !c.is_ascii_digit() && *c != '-' && *c != '+' && *c != '.');
            }
            Piece::Ordinal(_) => {
                chars.next();
                chars.next();
            }
            Piece::Shift | Piece::Exponent | Piece::Roman(_) => {}
        }
    }
    let text = if negative { format!("-{digits}") } else { digits };
    let number = Numeric::parse(&text).unwrap_or_else(|| {
        let message = format!(
            "invalid input syntax for type numeric: \"{}\"",
            if text.is_empty() { " " } else { &text }
        );
        Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message))
    })?;
    match pattern.shift {
        0 => Ok(number),
        shift => number.div(&Numeric::new(crate::types::numeric::ten(shift as u32), 0)),
    }
}

fn written(number: &Numeric, pattern: &Value) -> Result<Value> {
    Ok(Value::text(format(number, false, &parse(text(pattern))?)?))
}

fn float_written(value: f64, number: &Numeric, pattern: &Value) -> Result<Value> {
    let negative = value.is_sign_negative() && value.is_finite();
    Ok(Value::text(format(number, negative, &parse(text(pattern))?)?))
}

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "numeric_to_char" => scalar(|_, a| written(numeric(&a[0]), &a[1])),
        "int4_to_char" => scalar(|_, a| written(&Numeric::from_i64(i64::from(int4(&a[0]))), &a[1])),
        "int8_to_char" => scalar(|_, a| written(&Numeric::from_i64(int8(&a[0])), &a[1])),
        "float8_to_char" => scalar(|_, a| {
            let value = float8(&a[0]);
            float_written(value, &Numeric::from_f64(value), &a[1])
        }),
        "float4_to_char" => scalar(|_, a| {
            let value = float4(&a[0]);
            float_written(f64::from(value), &Numeric::from_f32(value), &a[1])
        }),
        "numeric_to_number" => scalar(|_, a| read(text(&a[0]), &parse(text(&a[1]))?).map(Value::Numeric)),
        _ => None,
    }
}
