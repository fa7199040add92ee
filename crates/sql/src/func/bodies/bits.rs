//! Bit strings: combining, cutting, searching, and casts from and to integers. A value has a character for
//! each bit ([`crate::types::bits`]).

use super::numbers::out_of_range;
use super::{int4, int8, scalar, text};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::types::bits::filled;
use crate::types::value::Value;

pub(super) fn find(source: &str) -> Option<Body> {
    match source {
        "bit_and" => scalar(|_, a| two(a, "AND", |a, b| a & b)),
        "bit_or" => scalar(|_, a| two(a, "OR", |a, b| a | b)),
        "bitxor" => scalar(|_, a| two(a, "XOR", |a, b| a ^ b)),
        "bitnot" => scalar(|_, a| {
            let flipped = text(&a[0]).chars().map(|bit| if bit == '0' { '1' } else { '0' });
            Ok(Value::text(flipped.collect::<String>()))
        }),
        "bitshiftleft" => scalar(|_, a| Ok(shifted(text(&a[0]), i64::from(int4(&a[1]))))),
        "bitshiftright" => scalar(|_, a| Ok(shifted(text(&a[0]), -i64::from(int4(&a[1]))))),
        "bitcat" => scalar(|_, a| Ok(Value::text([text(&a[0]), text(&a[1])].concat()))),
        "bitsubstr" => scalar(|_, a| {
            let (from, length) = (int4(&a[1]), int4(&a[2]));
            if length < 0 {
                return Err(negative_length());
            }
            Ok(Value::text(part(text(&a[0]), i64::from(from), i64::from(from) + i64::from(length))))
        }),
        "bitsubstr_no_len" => {
            scalar(|_, a| Ok(Value::text(part(text(&a[0]), i64::from(int4(&a[1])), i64::MAX))))
        }
        "bitoverlay" => scalar(|_, a| overlaid(text(&a[0]), text(&a[1]), int4(&a[2]), int4(&a[3]))),
        "bitoverlay_no_len" => scalar(|_, a| {
            let length = text(&a[1]).len() as i32;
            overlaid(text(&a[0]), text(&a[1]), int4(&a[2]), length)
        }),
        "bitlength" => scalar(|_, a| Ok(Value::Int4(text(&a[0]).len() as i32))),
        "bitoctetlength" => scalar(|_, a| Ok(Value::Int4(text(&a[0]).len().div_ceil(8) as i32))),
        "bit_bit_count" => {
            scalar(|_, a| Ok(Value::Int8(text(&a[0]).bytes().filter(|bit| *bit == b'1').count() as i64)))
        }
        "bitposition" => scalar(|_, a| {
            let (bits, wanted) = (text(&a[0]), text(&a[1]));
            let found = if bits.is_empty() { None } else { bits.find(wanted) };
            Ok(Value::Int4(found.map_or(0, |at| at as i32 + 1)))
        }),
        "bitgetbit" => scalar(|_, a| {
            let at = place(text(&a[0]), int4(&a[1]))?;
            Ok(Value::Int4(i32::from(text(&a[0]).as_bytes()[at] - b'0')))
        }),
        "bitsetbit" => scalar(|_, a| {
            let at = place(text(&a[0]), int4(&a[1]))?;
            let bit = match int4(&a[2]) {
                0 => "0",
                1 => "1",
                _ => return Err(super::invalid_parameter("new bit must be 0 or 1")),
            };
            let mut bits = text(&a[0]).to_string();
            bits.replace_range(at..=at, bit);
            Ok(Value::text(bits))
        }),
        "bitfromint4" => scalar(|_, a| Ok(from_integer(i64::from(int4(&a[0])), int4(&a[1])))),
        "bitfromint8" => scalar(|_, a| Ok(from_integer(int8(&a[0]), int4(&a[1])))),
        "bittoint4" => scalar(|_, a| {
            let number = number(text(&a[0]), 32).ok_or_else(|| out_of_range("integer"))?;
            Ok(Value::Int4(number as i32))
        }),
        "bittoint8" => scalar(|_, a| {
            let number = number(text(&a[0]), 64).ok_or_else(|| out_of_range("bigint"))?;
            Ok(Value::Int8(number as i64))
        }),
        _ => None,
    }
}

fn two(arguments: &[Value], name: &str, op: fn(i64, i64) -> i64) -> Result<Value> {
    combine(text(&arguments[0]), text(&arguments[1]), name, op).map(Value::text)
}

/// The bits of two strings of one length, each with its counterpart.
///
/// # Errors
/// 22026: their lengths differ.
pub(super) fn combine(a: &str, b: &str, name: &str, op: fn(i64, i64) -> i64) -> Result<String> {
    if a.len() != b.len() {
        let message = format!("cannot {name} bit strings of different sizes");
        return Err(SqlError::new(SqlState::STRING_DATA_LENGTH_MISMATCH, message));
    }
    let bit = |byte: u8| i64::from(byte - b'0');
    let pairs = a.bytes().zip(b.bytes());
    Ok(pairs.map(|(a, b)| if op(bit(a), bit(b)) == 1 { '1' } else { '0' }).collect())
}

/// Moved to the left, or to the right by a number below zero; zeros come in.
fn shifted(bits: &str, by: i64) -> Value {
    let (length, places) = (bits.len(), by.unsigned_abs() as usize);
    let kept = length.saturating_sub(places);
    Value::text(match by {
        0.. => filled(&bits[length - kept..], length),
        _ => ["0".repeat(length - kept).as_str(), &bits[..kept]].concat(),
    })
}

/// The bits from one place, counted from 1, to before another.
fn part(bits: &str, from: i64, to: i64) -> &str {
    let at = |place: i64| (place.max(1) - 1).min(bits.len() as i64) as usize;
    bits.get(at(from)..at(to)).unwrap_or("")
}

fn overlaid(bits: &str, by: &str, from: i32, length: i32) -> Result<Value> {
    if from <= 0 {
        return Err(negative_length());
    }
    let to = from.checked_add(length).ok_or_else(|| out_of_range("integer"))?;
    let (before, behind) = (part(bits, 1, from.into()), part(bits, to.into(), i64::MAX));
    Ok(Value::text([before, by, behind].concat()))
}

fn negative_length() -> SqlError {
    SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed")
}

fn place(bits: &str, at: i32) -> Result<usize> {
    match usize::try_from(at) {
        Ok(at) if at < bits.len() => Ok(at),
        _ => {
            let message = format!("bit index {at} out of valid range (0..{})", bits.len() as i64 - 1);
            Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message))
        }
    }
}

/// The last bits of an integer, as many as the type has; a longer type repeats its sign.
fn from_integer(number: i64, length: i32) -> Value {
    let bit = |place: i32| if number >> place.min(63) & 1 == 1 { '1' } else { '0' };
    Value::text((0..length.max(1)).rev().map(bit).collect::<String>())
}

/// The integer of at most `limit` bits.
fn number(bits: &str, limit: usize) -> Option<u64> {
    (bits.len() <= limit).then(|| bits.bytes().fold(0, |number, bit| number << 1 | u64::from(bit - b'0')))
}
