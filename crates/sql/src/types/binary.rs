//! The binary form of values: what drivers send and receive. All numbers are big-endian.

use std::borrow::Cow;
use std::sync::Arc;

use num_bigint::{BigInt, BigUint, Sign};

use super::context::EvalContext;
use super::inet::Inet;
use super::numeric::{Numeric, ten};
use super::value::{Array, Dimension, Interval, Record, Value};
use super::{Oid, Type, TypeKind, Types, array, bits, inet, json, jsonpath, mac, modifier, oid, text};
use crate::error::{Result, SqlError, SqlState};

#[cold]
fn malformed(what: &str) -> SqlError {
    let message = format!("incorrect binary data format: {what}");
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let taken = self.0.split_at_checked(count).ok_or_else(|| {
            let what = if count == 1 { "no" } else { "insufficient" };
            SqlError::new(SqlState::PROTOCOL_VIOLATION, format!("{what} data left in message"))
        })?;
        self.0 = taken.1;
        Ok(taken.0)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("N bytes were taken"))
    }

    fn i16(&mut self) -> Result<i16> {
        self.fixed().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32> {
        self.fixed().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64> {
        self.fixed().map(i64::from_be_bytes)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn text(&mut self, ctx: &EvalContext<'_>) -> Result<Cow<'a, str>> {
        ctx.settings.client_encoding.read(self.rest())
    }
}

/// The value that bytes from a client mean for a type, brought to its modifier. `place`: what the bytes are,
/// after the message for some that are left behind the value (` in bind parameter 1`).
///
/// # Errors
/// 22P03 or 08P01: not the bytes of a value of this type.
pub fn receive(ctx: &EvalContext<'_>, ty: Type, bytes: &[u8], place: impl Fn() -> String) -> Result<Value> {
    receive_exactly(ctx, ty, bytes, || format!("incorrect binary data format{}", place()))
}

/// As [`receive`]; `left`: the message for bytes that are left.
fn receive_exactly(
    ctx: &EvalContext<'_>,
    ty: Type,
    bytes: &[u8],
    left: impl Fn() -> String,
) -> Result<Value> {
    let mut from = Bytes(bytes);
    let value = receive_from(ctx, ty, &mut from)?;
    if !from.0.is_empty() {
        return Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, left()));
    }
    modifier::apply_modifier(ctx, ty, false, value)
}

fn receive_from(ctx: &EvalContext<'_>, ty: Type, from: &mut Bytes<'_>) -> Result<Value> {
    Ok(match ty.oid {
        oid::BOOL => Value::Bool(from.fixed::<1>()?[0] != 0),
        oid::INT2 => Value::Int2(from.i16()?),
        oid::INT4 => Value::Int4(from.i32()?),
        oid::INT8 => Value::Int8(from.i64()?),
        oid::FLOAT4 => Value::Float4(f32::from_be_bytes(from.fixed()?)),
        oid::FLOAT8 => Value::Float8(f64::from_be_bytes(from.fixed()?)),
        oid::NUMERIC => Value::Numeric(receive_numeric(from)?),
        oid::BYTEA => Value::bytea(from.rest()),
        oid::DATE => Value::Date(from.i32()?),
        oid::TIME => Value::Time(from.i64()?),
        oid::TIMETZ => Value::Timetz(from.i64()?, from.i32()?),
        oid::TIMESTAMP => Value::Timestamp(from.i64()?),
        oid::TIMESTAMPTZ => Value::Timestamptz(from.i64()?),
        oid::INTERVAL => {
            let (micros, days, months) = (from.i64()?, from.i32()?, from.i32()?);
            Value::Interval(Interval { months, days, micros })
        }
        oid::UUID => Value::Uuid(Arc::new(from.fixed()?)),
        oid::MONEY => Value::Int8(from.i64()?),
        oid::INET | oid::CIDR => Value::bytea(inet::received(ty.oid, from.rest())?.to_bytes()),
        oid::MACADDR => Value::bytea(from.fixed::<6>()?.as_slice()),
        oid::MACADDR8 => Value::bytea(mac::received8(from.rest())?),
        oid::BIT | oid::VARBIT => {
            let length = from.i32()?;
            Value::text(bits::received(length, from.rest())?)
        }
        oid::JSON => {
            let document = from.text(ctx)?;
            json::check(&document)?;
            Value::Json((*document).into())
        }
        oid::JSONB => {
            expect_version(from, "unsupported jsonb version number")?;
            Value::Jsonb(Arc::new(json::parse(&from.text(ctx)?)?))
        }
        oid::JSONPATH => {
            expect_version(from, "unsupported jsonpath version number:")?;
            Value::Jsonpath(Arc::new(jsonpath::parse(&from.text(ctx)?)?))
        }
        oid::CHAR => Value::text(text::char_of(from.fixed::<1>()?[0])),
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::UNKNOWN | oid::CSTRING => {
            Value::text(&*from.text(ctx)?)
        }
        _ => return receive_other(ctx, ty, from),
    })
}

/// Reads the version in front of a text, which is 1.
fn expect_version(from: &mut Bytes<'_>, refusal: &str) -> Result<()> {
    match from.fixed::<1>()? {
        [1] => Ok(()),
        [other] => Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("{refusal} {other}"))),
    }
}

fn receive_other(ctx: &EvalContext<'_>, ty: Type, from: &mut Bytes<'_>) -> Result<Value> {
    let element = array::element_of(ctx, ty.oid);
    if element != 0 {
        return receive_array(ctx, from, Type { oid: element, modifier: ty.modifier });
    }
    let info = ctx.type_info(ty.oid);
    let is_number = info.as_ref().is_some_and(|info| info.category == 'N');
    match info.map(|info| info.kind) {
        _ if is_number || matches!(ty.oid, oid::XID | oid::CID) => Ok(Value::Oid(from.i32()? as Oid)),
        Some(TypeKind::Domain) => receive_from(ctx, Type::of(ctx.base_of(ty.oid)), from),
        Some(_) => match from.text(ctx) {
            Ok(text) => text::input(ctx, ty, &text),
            // A type of which there are no values says so, whatever was sent.
            Err(unreadable) => Err(match text::input(ctx, ty, "") {
                Err(refusal) if refusal.is_unsupported() => refusal,
                _ => unreadable,
            }),
        },
        None => {
            Err(SqlError::unsupported(format_args!("binary input of type {}", ty.oid), "Send it as text."))
        }
    }
}

fn receive_array(ctx: &EvalContext<'_>, from: &mut Bytes<'_>, element: Type) -> Result<Value> {
    let (dimensions, _has_null, sent) = (from.i32()?, from.i32()?, from.i32()? as Oid);
    if !(0..=6).contains(&dimensions) {
        return Err(malformed("wrong number of array dimensions"));
    }
    let oid_like = |oid| matches!(oid, oid::TEXT | oid::VARCHAR | oid::UNKNOWN | oid::BPCHAR);
    if sent != element.oid && !(oid_like(sent) && oid_like(element.oid)) {
        let message = format!("wrong element type: {sent} instead of {}", element.oid);
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    let mut count: i64 = if dimensions == 0 { 0 } else { 1 };
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        let (len, lower) = (from.i32()?, from.i32()?);
        count = count.checked_mul(i64::from(len)).filter(|n| (0..1 << 27).contains(n)).ok_or_else(|| {
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "array size exceeds the maximum allowed")
        })?;
        shape.push(Dimension { len, lower });
    }
    let mut elements = Vec::new();
    let short = |mut error: SqlError| {
        error.state = SqlState::INVALID_BINARY_REPRESENTATION;
        error.message = "insufficient data left in message".to_string();
        error
    };
    for number in 1..=count {
        elements.push(match from.i32()? {
            -1 => Value::Null,
            len => {
                let bytes = from.take(usize::try_from(len).unwrap_or(usize::MAX)).map_err(short)?;
                receive_exactly(ctx, element, bytes, || {
                    format!("improper binary format in array element {number}")
                })?
            }
        });
    }
    let dimensions = if count == 0 { Vec::new() } else { shape };
    Ok(Value::Array(Arc::new(Array { element: element.oid, dimensions, elements })))
}

/// Signs of a numeric on the wire.
mod sign {
    pub const NEGATIVE: u16 = 0x4000;
    pub const NAN: u16 = 0xc000;
    pub const INFINITY: u16 = 0xd000;
    pub const MINUS_INFINITY: u16 = 0xf000;
}

fn receive_numeric(from: &mut Bytes<'_>) -> Result<Numeric> {
    let (count, weight) = (from.i16()? as u16, i64::from(from.i16()?));
    let (sign, scale) = (from.i16()? as u16, from.i16()? as u16);
    match sign {
        sign::NAN => return Ok(Numeric::NaN),
        sign::INFINITY => return Ok(Numeric::Infinity),
        sign::MINUS_INFINITY => return Ok(Numeric::MinusInfinity),
        0 | sign::NEGATIVE => {}
        _ => return Err(malformed("invalid sign in external \"numeric\" value")),
    }
    if scale > 0x3fff {
        return Err(malformed("invalid scale in external \"numeric\" value"));
    }
    let mut digits = Vec::with_capacity(4 * usize::from(count));
    for _ in 0..count {
        let digit = from.i16()?;
        if !(0..10_000).contains(&digit) {
            return Err(malformed("invalid digit in external \"numeric\" value"));
        }
        digits.extend_from_slice(format!("{digit:04}").as_bytes());
    }
    let unscaled = BigInt::from(BigUint::parse_bytes(&digits, 10).unwrap_or_default());
    // The digits are those of unscaled / 10000^(count - 1 - weight).
    let own_scale = 4 * (i64::from(count) - 1 - weight);
    let unscaled = if sign == sign::NEGATIVE { -unscaled } else { unscaled };
    Ok(Numeric::checked(unscaled, own_scale)?.trunc(i64::from(scale)))
}

/// Appends a numeric: digits in base 10,000, weight, sign and scale.
pub(crate) fn send_numeric(number: &Numeric, to: &mut Vec<u8>) {
    let mut words = |words: [u16; 4]| words.iter().for_each(|word| to.extend(word.to_be_bytes()));
    let (unscaled, scale) = match number {
        Numeric::NaN => return words([0, 0, sign::NAN, 0]),
        Numeric::Infinity => return words([0, 0, sign::INFINITY, 0x20]),
        Numeric::MinusInfinity => return words([0, 0, sign::MINUS_INFINITY, 0x20]),
        finite => finite.parts().expect("a finite number has parts"),
    };
    // Whole groups of four digits behind the point.
    let groups_behind = u32::from(scale).div_ceil(4);
    let aligned = &*unscaled * ten(groups_behind * 4 - u32::from(scale));
    let text = aligned.magnitude().to_str_radix(10);
    let padded = "0".repeat(text.len().next_multiple_of(4) - text.len()) + &text;
    let groups = padded.as_bytes().chunks(4);
    let mut digits: Vec<u16> =
        groups.map(|group| group.iter().fold(0, |n, c| n * 10 + u16::from(c - b'0'))).collect();
    let weight = digits.len() as i64 - 1 - i64::from(groups_behind);
    let mut skipped = 0;
    if unscaled.sign() == Sign::NoSign {
        digits.clear();
    }
    while digits.first() == Some(&0) {
        digits.remove(0);
        skipped += 1;
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let weight = if digits.is_empty() { 0 } else { weight - skipped };
    let negative = if unscaled.sign() == Sign::Minus { sign::NEGATIVE } else { 0 };
    words([digits.len() as u16, weight as i16 as u16, negative, scale]);
    digits.iter().for_each(|digit| to.extend(digit.to_be_bytes()));
}

/// Appends the binary form of a value that is not NULL.
///
/// # Errors
/// 0A000 for a type without binary form.
pub fn send(ctx: &EvalContext<'_>, ty: Oid, value: &Value, to: &mut Vec<u8>) -> Result<()> {
    match value {
        Value::Null => panic!("NULL has no binary form"),
        Value::Void => {}
        Value::Bool(b) => to.push(u8::from(*b)),
        Value::Int2(n) => to.extend(n.to_be_bytes()),
        Value::Int4(n) | Value::Date(n) => to.extend(n.to_be_bytes()),
        Value::Oid(n) => to.extend(n.to_be_bytes()),
        Value::Int8(n) | Value::Time(n) | Value::Timestamp(n) | Value::Timestamptz(n) => {
            to.extend(n.to_be_bytes());
        }
        Value::Float4(f) => to.extend(f.to_be_bytes()),
        Value::Float8(f) => to.extend(f.to_be_bytes()),
        Value::Numeric(number) => send_numeric(number, to),
        Value::Text(_) if ty == oid::ACLITEM => {
            let message = "no binary output function available for type aclitem";
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        }
        Value::Text(text) if matches!(ty, oid::BIT | oid::VARBIT) => bits::send(text, to),
        Value::Text(text) if ty == oid::CHAR => to.push(text::byte_of(text)),
        Value::Text(text) | Value::Json(text) => send_text(ctx, text, to)?,
        Value::Bytea(bytes) if matches!(ty, oid::INET | oid::CIDR) => inet::send(ty, Inet::of(bytes), to),
        Value::Bytea(bytes) => to.extend(&**bytes),
        Value::Timetz(time, west) => {
            to.extend(time.to_be_bytes());
            to.extend(west.to_be_bytes());
        }
        Value::Interval(interval) => {
            to.extend(interval.micros.to_be_bytes());
            to.extend(interval.days.to_be_bytes());
            to.extend(interval.months.to_be_bytes());
        }
        Value::Uuid(uuid) => to.extend(&uuid[..]),
        Value::Jsonb(document) => {
            to.push(1);
            send_text(ctx, &document.to_string(), to)?;
        }
        Value::Jsonpath(path) => {
            to.push(1);
            send_text(ctx, &path.to_string(), to)?;
        }
        Value::Enum(label) => send_text(ctx, &label.label, to)?,
        Value::Array(array) => send_array(ctx, ty, array, to)?,
        Value::Record(record) => send_record(ctx, record, to)?,
    }
    Ok(())
}

/// A text in the client's encoding.
fn send_text(ctx: &EvalContext<'_>, text: &str, to: &mut Vec<u8>) -> Result<()> {
    to.extend_from_slice(&ctx.settings.client_encoding.write(text)?);
    Ok(())
}

/// The length of a value in front of it, -1 for NULL.
fn send_sized(ctx: &EvalContext<'_>, ty: Oid, value: &Value, to: &mut Vec<u8>) -> Result<()> {
    let start = to.len();
    to.extend((-1i32).to_be_bytes());
    if !value.is_null() {
        send(ctx, ty, value, to)?;
        let len = (to.len() - start - 4) as i32;
        to[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }
    Ok(())
}

fn send_array(ctx: &EvalContext<'_>, ty: Oid, array: &Array, to: &mut Vec<u8>) -> Result<()> {
    // The declared element type: an array of varchar may hold one that was made of texts.
    let element = match array::element_of(ctx, ty) {
        0 => array.element,
        element => element,
    };
    to.extend((array.dimensions.len() as i32).to_be_bytes());
    to.extend(i32::from(array.elements.iter().any(Value::is_null)).to_be_bytes());
    to.extend(element.to_be_bytes());
    for dimension in &array.dimensions {
        to.extend(dimension.len.to_be_bytes());
        to.extend(dimension.lower.to_be_bytes());
    }
    array.elements.iter().try_for_each(|value| send_sized(ctx, element, value, to))
}

fn send_record(ctx: &EvalContext<'_>, record: &Record, to: &mut Vec<u8>) -> Result<()> {
    to.extend((record.values.len() as i32).to_be_bytes());
    for (value, ty) in record.values.iter().zip(&*record.types) {
        to.extend(ty.to_be_bytes());
        send_sized(ctx, *ty, value, to)?;
    }
    Ok(())
}
