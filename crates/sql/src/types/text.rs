//! The text form of values: what a literal means and what a client sees.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use super::context::{EvalContext, Settings};
use super::datetime::interval_style::IntervalStyle;
use super::inet::Inet;
use super::numeric::Numeric;
use super::value::{Array, Dimension, Value};
use super::{Oid, Type, TypeKind, Types, array, bits, bytea, datetime, format_builtin, json, jsonpath, oid};
use super::{inet, mac, modifier, money};
use crate::error::{Result, SqlError, SqlState};
use crate::missing;

#[cold]
pub(crate) fn invalid(ty: Oid, text: &str) -> SqlError {
    let name = format_builtin(Type::of(ty)).unwrap_or_else(|| ty.to_string());
    let message = format!("invalid input syntax for type {name}: \"{text}\"");
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
}

/// The value that a text means for a type, brought to its modifier.
///
/// # Errors
/// 22P02 and others: not the text of a value of this type.
pub fn input(ctx: &EvalContext<'_>, ty: Type, text: &str) -> Result<Value> {
    let value = match ty.oid {
        oid::BOOL => Value::Bool(parse_bool(text).ok_or_else(|| invalid(ty.oid, text))?),
        oid::INT2 | oid::INT4 | oid::INT8 => return parse_int(ty.oid, text),
        oid::OID | oid::XID | oid::CID => Value::Oid(parse_oid(ty.oid, text)?),
        oid::FLOAT4 => Value::Float4(parse_float::<f32>(text, ty.oid)?),
        oid::FLOAT8 => Value::Float8(parse_float::<f64>(text, ty.oid)?),
        oid::NUMERIC => Value::Numeric(Numeric::parse(text).unwrap_or_else(|| Err(invalid(ty.oid, text)))?),
        oid::TEXT | oid::UNKNOWN | oid::CSTRING | oid::REFCURSOR | oid::ACLITEM => {
            return Ok(Value::text(text));
        }
        oid::VARCHAR | oid::BPCHAR => Value::text(text),
        oid::NAME => return Ok(Value::text(cut(text, 63))),
        oid::CHAR => return Ok(Value::text(char_in(text))),
        oid::BYTEA => Value::bytea(bytea::parse(text)?),
        oid::DATE => Value::Date(datetime::parse::date(text, ctx)?),
        oid::TIME => Value::Time(datetime::parse::time(text, false, ctx)?.0),
        oid::TIMETZ => {
            let (micros, east) = datetime::parse::time(text, true, ctx)?;
            Value::Timetz(micros, -east)
        }
        oid::TIMESTAMP => Value::Timestamp(datetime::parse::timestamp(text, false, ctx)?),
        oid::TIMESTAMPTZ => Value::Timestamptz(datetime::parse::timestamp(text, true, ctx)?),
        oid::INTERVAL => {
            let style = ctx.settings.interval_style;
            Value::Interval(datetime::interval::parse(text, ty.modifier, style)?)
        }
        oid::UUID => Value::Uuid(Arc::new(parse_uuid(text).ok_or_else(|| invalid(ty.oid, text))?)),
        oid::MONEY => Value::Int8(money::parse(text)?),
        oid::INET | oid::CIDR => Value::bytea(inet::parse(ty.oid, text)?.to_bytes()),
        oid::MACADDR => Value::bytea(mac::parse(text)?),
        oid::MACADDR8 => Value::bytea(mac::parse8(text)?),
        oid::BIT | oid::VARBIT => Value::text(bits::parse(text)?),
        oid::JSON => {
            json::check(text)?;
            Value::Json(text.into())
        }
        oid::JSONB => Value::Jsonb(Arc::new(json::parse(text)?)),
        oid::JSONPATH => Value::Jsonpath(Arc::new(jsonpath::parse(text)?)),
        oid::INT2VECTOR | oid::OIDVECTOR => return parse_vector(ctx, ty.oid, text),
        oid::VOID => Value::Void,
        oid::REGPROC..=oid::REGPROC
        | oid::REGPROCEDURE..=oid::REGTYPE
        | oid::REGCONFIG
        | oid::REGDICTIONARY
        | oid::REGNAMESPACE
        | oid::REGROLE
        | oid::REGCOLLATION => return reg_in(ctx, ty.oid, text),
        _ => return input_other(ctx, ty, text),
    };
    modifier::apply_modifier(ctx, ty, false, value)
}

/// A label of an enum type; refuses (55P04) one that the transaction has added, which indexes might otherwise
/// keep when it is gone.
pub(crate) fn settled_label(ctx: &EvalContext<'_>, ty: Oid, label: Value) -> Result<Value> {
    match label.as_str() {
        Some(name) if ctx.system.is_new_label(ty, name) => {
            let shown = crate::types::text_of_types(ctx, &[ty]);
            let message = format!("unsafe use of new value \"{name}\" of enum type {shown}");
            let error = SqlError::new(SqlState::UNSAFE_NEW_ENUM_VALUE_USAGE, message);
            Err(error.hint("New enum values must be committed before they can be used."))
        }
        _ => Ok(label),
    }
}

/// A value of type "char" by its byte: the character with its number, nothing for zero.
pub(crate) fn char_of(byte: u8) -> String {
    if byte == 0 { String::new() } else { char::from(byte).to_string() }
}

/// The byte of a value of type "char".
pub(crate) fn byte_of(value: &str) -> u8 {
    value.chars().next().and_then(|c| u8::try_from(c).ok()).unwrap_or(0)
}

/// The value of type "char" that a text means: its first byte, or the one that it writes in octal.
pub(crate) fn char_in(text: &str) -> String {
    char_of(match *text.as_bytes() {
        [b'\\', a @ b'0'..=b'7', b @ b'0'..=b'7', c @ b'0'..=b'7'] => (a & 3) << 6 | (b & 7) << 3 | c & 7,
        [first, ..] => first,
        [] => 0,
    })
}

/// A value of type "char" as it is written: a byte that is no character of its own in octal.
pub(crate) fn char_out(value: &str) -> Cow<'_, str> {
    match byte_of(value) {
        byte @ 128.. => Cow::Owned(format!("\\{byte:03o}")),
        _ => Cow::Borrowed(value),
    }
}

/// Types that are known by their description only: arrays, enums, domains.
fn input_other(ctx: &EvalContext<'_>, ty: Type, text: &str) -> Result<Value> {
    let Some(info) = ctx.type_info(ty.oid) else {
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type {} does not exist", ty.oid)));
    };
    if info.is_array() {
        return array::input(ctx, Type { oid: info.element, modifier: ty.modifier }, text);
    }
    match info.kind {
        TypeKind::Domain => input(ctx, Type { oid: info.base, modifier: ty.modifier }, text),
        TypeKind::Enum => {
            let label = ctx.system.enum_label(ty.oid, text).ok_or_else(|| {
                let shown = crate::types::text_of_types(ctx, &[ty.oid]);
                let message = format!("invalid input value for enum {shown}: \"{text}\"");
                SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
            })?;
            settled_label(ctx, ty.oid, label)
        }
        TypeKind::Pseudo => {
            let message = format!("cannot accept a value of type {}", info.name);
            Err(SqlError::refused_by_postgresql(message))
        }
        _ => Err(SqlError::unsupported(format_args!("a value of type {}", info.name), missing::TYPES)),
    }
}

/// At most `bytes` bytes, and no half characters.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

fn parse_bool(text: &str) -> Option<bool> {
    let word = text.trim().to_ascii_lowercase();
    let starts = |full: &str, least: usize| word.len() >= least && full.starts_with(&word);
    match () {
        () if starts("true", 1) || starts("yes", 1) || word == "on" || word == "1" => Some(true),
        () if starts("false", 1) || starts("no", 1) || starts("off", 2) || word == "0" => Some(false),
        () => None,
    }
}

fn parse_int(ty: Oid, text: &str) -> Result<Value> {
    let digits = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let valid = digits.trim_start_matches(['+', '-']);
    if valid.is_empty() || valid.len() + 1 < digits.len() || !valid.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid(ty, text));
    }
    let number = digits.parse::<i64>().ok();
    let value = match ty {
        oid::INT2 => number.and_then(|n| i16::try_from(n).ok()).map(Value::Int2),
        oid::INT4 => number.and_then(|n| i32::try_from(n).ok()).map(Value::Int4),
        _ => number.map(Value::Int8),
    };
    value.ok_or_else(|| {
        let name = format_builtin(Type::of(ty)).expect("an integer type has a name");
        let message = format!("value \"{text}\" is out of range for type {name}");
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
}

fn parse_oid(ty: Oid, text: &str) -> Result<Oid> {
    let number: i64 = text.trim().parse().map_err(|_| invalid(ty, text))?;
    u32::try_from(number).or_else(|_| i32::try_from(number).map(|n| n as u32)).map_err(|_| {
        let message = format!("value \"{text}\" is out of range for type oid");
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
}

/// What f32 and f64 have in common.
trait Float: std::str::FromStr + Copy {
    fn wide(self) -> f64;
}

impl Float for f32 {
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Float for f64 {
    fn wide(self) -> f64 {
        self
    }
}

fn parse_float<F: Float>(text: &str, ty: Oid) -> Result<F> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let float: F = trimmed.parse().map_err(|_| invalid(ty, text))?;
    let wide = float.wide();
    let mantissa = trimmed.split(['e', 'E']).next().unwrap_or("");
    let lost = wide == 0.0 && mantissa.bytes().any(|b| matches!(b, b'1'..=b'9'));
    let overflows = wide.is_infinite() && trimmed.bytes().any(|b| b.is_ascii_digit());
    if lost || overflows {
        let name = if ty == oid::FLOAT4 { "real" } else { "double precision" };
        let message = format!("\"{trimmed}\" is out of range for type {name}");
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    Ok(float)
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let inner = text.strip_prefix('{').map_or(Some(text), |rest| rest.strip_suffix('}'))?;
    let mut uuid = [0; 16];
    let mut rest = inner.as_bytes();
    for (i, byte) in uuid.iter_mut().enumerate() {
        if i > 0 && i % 2 == 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        let [high, low, tail @ ..] = rest else { return None };
        let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
        *byte = digit(*high)? << 4 | digit(*low)?;
        rest = tail;
    }
    rest.is_empty().then_some(uuid)
}

/// `1 2 3`, with subscripts from 0.
fn parse_vector(ctx: &EvalContext<'_>, ty: Oid, text: &str) -> Result<Value> {
    let element = array::element_of(ctx, ty);
    let elements: Result<Vec<Value>> =
        text.split_whitespace().map(|word| input(ctx, Type::of(element), word)).collect();
    let elements = elements?;
    let dimensions = vec![Dimension { len: elements.len() as i32, lower: 0 }];
    Ok(Value::Array(Arc::new(Array { element, dimensions, elements })))
}

fn reg_in(ctx: &EvalContext<'_>, ty: Oid, text: &str) -> Result<Value> {
    if text == "-" && ty != oid::REGOPER {
        return Ok(Value::Oid(0));
    }
    match text.parse() {
        Ok(number) => Ok(Value::Oid(number)),
        Err(_) => ctx.system.reg_in(ty, text).map(Value::Oid),
    }
}

/// Where the number at the beginning of a text ends: its whole part, sign included, and all of it, with a
/// fraction and an exponent if it has them.
pub(crate) fn number_end(text: &str) -> (usize, usize) {
    let digits =
        |from: usize| text[from..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |at| from + at);
    let whole = digits(usize::from(text.starts_with(['-', '+'])));
    let end = if text[whole..].starts_with('.') { digits(whole + 1) } else { whole };
    if !text[end..].starts_with(['e', 'E']) {
        return (whole, end);
    }
    let from = end + 1 + usize::from(text[end + 1..].starts_with(['-', '+']));
    (whole, if digits(from) > from { digits(from) } else { end })
}

/// The text of a date, a time or an interval that every session reads alike, whatever its settings; none for
/// values of other types.
pub(crate) fn unmistakable(ctx: &EvalContext<'_>, ty: Oid, value: &Value) -> Option<String> {
    let settings = Settings { interval_style: IntervalStyle::Iso8601, ..Settings::default() };
    let of_time = matches!(
        value,
        Value::Date(_)
            | Value::Time(_)
            | Value::Timetz(..)
            | Value::Timestamp(_)
            | Value::Timestamptz(_)
            | Value::Interval(_)
    );
    let plain = EvalContext { settings: &settings, ..*ctx };
    of_time.then(|| output(&plain, ty, value).ok()).flatten()
}

/// The text of a value that is not NULL.
///
/// # Errors
/// 0A000 for a type without text form.
pub fn output(ctx: &EvalContext<'_>, ty: Oid, value: &Value) -> Result<String> {
    let mut text = String::new();
    write(ctx, ty, value, &mut text)?;
    Ok(text)
}

/// Appends the text of a value that is not NULL.
///
/// # Errors
/// As [`output`].
pub fn write(ctx: &EvalContext<'_>, ty: Oid, value: &Value, to: &mut String) -> Result<()> {
    match value {
        Value::Null | Value::Void => {}
        Value::Bool(b) => to.push(if *b { 't' } else { 'f' }),
        Value::Int2(n) => write!(to, "{n}").expect("a string takes it"),
        Value::Int4(n) => write!(to, "{n}").expect("a string takes it"),
        Value::Int8(cents) if ty == oid::MONEY => money::write(*cents, to),
        Value::Int8(n) => write!(to, "{n}").expect("a string takes it"),
        Value::Oid(n) => write_oid(ctx, ty, *n, to),
        Value::Float4(f) => {
            write_float(f64::from(*f), Width::Single(*f), ctx.settings.extra_float_digits, to)
        }
        Value::Float8(f) => write_float(*f, Width::Double, ctx.settings.extra_float_digits, to),
        Value::Numeric(n) => write!(to, "{n}").expect("a string takes it"),
        Value::Text(text) if ty == oid::CHAR => to.push_str(&char_out(text)),
        Value::Text(text) | Value::Json(text) => to.push_str(text),
        Value::Bytea(bytes) if matches!(ty, oid::INET | oid::CIDR) => inet::write(ty, Inet::of(bytes), to),
        Value::Bytea(bytes) if matches!(ty, oid::MACADDR | oid::MACADDR8) => mac::write(bytes, to),
        Value::Bytea(bytes) => write_bytea(bytes, ctx.settings.bytea_escape, to),
        Value::Date(date) => datetime::date_style::write_date(*date, ctx.settings.date_style, to),
        Value::Time(time) => datetime::write_time(*time, to),
        Value::Timetz(time, west) => {
            datetime::write_time(*time, to);
            datetime::write_offset(-west, to);
        }
        Value::Timestamp(timestamp) => {
            datetime::date_style::write_timestamp(*timestamp, ctx.settings.date_style, to);
        }
        Value::Timestamptz(timestamp) => {
            let (zone, style) = (&ctx.settings.time_zone, ctx.settings.date_style);
            datetime::date_style::write_timestamptz(*timestamp, zone, style, to);
        }
        Value::Interval(interval) => {
            datetime::interval_style::write(*interval, ctx.settings.interval_style, to)
        }
        Value::Uuid(uuid) => {
            for (i, byte) in uuid.iter().enumerate() {
                to.push_str(if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" });
                write!(to, "{byte:02x}").expect("a string takes it");
            }
        }
        Value::Jsonb(document) => document.write(to),
        Value::Jsonpath(path) => write!(to, "{path}").expect("a string takes it"),
        Value::Enum(label) => to.push_str(&label.label),
        Value::Array(array) if matches!(ty, oid::INT2VECTOR | oid::OIDVECTOR) => {
            for (i, element) in array.elements.iter().enumerate() {
                to.push_str(if i == 0 { "" } else { " " });
                write(ctx, array.element, element, to)?;
            }
        }
        Value::Array(array) => array::write(ctx, array, to)?,
        Value::Record(record) => array::write_record(ctx, record, to)?,
    }
    Ok(())
}

fn write_oid(ctx: &EvalContext<'_>, ty: Oid, number: Oid, to: &mut String) {
    let plain = matches!(ty, oid::OID | oid::XID | oid::CID);
    match number {
        // That is an operator.
        0 if matches!(ty, oid::REGOPER | oid::REGOPERATOR) => to.push('0'),
        0 if !plain => to.push('-'),
        _ => match (!plain).then(|| ctx.system.reg_out(ty, number)).flatten() {
            Some(name) => to.push_str(&name),
            None => write!(to, "{number}").expect("a string takes it"),
        },
    }
}

enum Width {
    Single(f32),
    Double,
}

fn write_float(float: f64, width: Width, extra_digits: i32, to: &mut String) {
    if float.is_nan() {
        return to.push_str("NaN");
    }
    if float.is_infinite() {
        return to.push_str(if float > 0.0 { "Infinity" } else { "-Infinity" });
    }
    // Digits and exponent as `%e` has them; then fixed for exponents that are not too far from 0.
    let (text, fixed_below) = match width {
        _ if extra_digits <= 0 => {
            let own = if matches!(width, Width::Single(_)) { 6 } else { 15 };
            let digits = (own + extra_digits).max(1);
            (format!("{float:.*e}", digits as usize - 1), digits)
        }
        Width::Single(single) => (format!("{single:e}"), 6),
        Width::Double => (format!("{float:e}"), 15),
    };
    let (mantissa, exponent) = text.split_once('e').expect("an exponent was asked for");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits = mantissa.replace('.', "");
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        digits => digits,
    };
    to.push_str(sign);
    if !(-4..fixed_below).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(to, "{first}{point}{rest}e{sign}{:02}", exponent.abs()).expect("a string takes it");
    } else if exponent < 0 {
        to.push_str("0.");
        to.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        to.push_str(digits);
    } else if digits.len() <= exponent as usize + 1 {
        to.push_str(digits);
        to.extend(std::iter::repeat_n('0', exponent as usize + 1 - digits.len()));
    } else {
        let (whole, fraction) = digits.split_at(exponent as usize + 1);
        write!(to, "{whole}.{fraction}").expect("a string takes it");
    }
}

fn write_bytea(bytes: &[u8], escapes: bool, to: &mut String) {
    if !escapes {
        to.push_str("\\x");
        return bytea::write_hex(bytes, to);
    }
    for byte in bytes {
        match byte {
            b'\\' => to.push_str("\\\\"),
            b' '..=b'~' => to.push(*byte as char),
            _ => write!(to, "\\{byte:03o}").expect("a string takes it"),
        }
    }
}
