//! Keys of SQL rows: bytes that sort like the values of the key's columns.
//!
//! ```text
//! column    | null byte, if it may be NULL | value, all bits inverted if descending |
//! key       | column | column | ...                          zero-padded to the class's width
//! cut key   | first bytes of that, up to 8 less than fit | hash of the whole, 8 bytes |
//! ```
//!
//! Invariants:
//! 1. Whole keys sort as PostgreSQL sorts the values (texts by their bytes, collation "C"): integers
//!    big-endian with the sign bit flipped; floats as their total order, with one zero and one NaN, the
//!    greatest; numerics as class, exponent and digits in pairs; intervals as the microseconds that they
//!    compare by; texts with a zero behind them (they contain none), char(n) without its padding; bytea with
//!    zeros escaped.
//! 2. Equal values have equal bytes and different values different ones, so that whole keys are equal exactly
//!    if their values are. No column's bytes are the beginning of another value's.
//! 3. Of cut keys, equality means equality of the values but for an accident of 2^-64, which whoever finds a
//!    row compares away; order means order only up to the cut.
//!
//! Nothing is ever decoded from a key: rows hold the values.

use crate::error::{Result, SqlError, SqlState};
use crate::types::numeric::Numeric;
use crate::types::value::{Interval, Value};
use crate::types::{Type, oid};

/// How a column takes part in a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyColumn {
    /// Larger values first.
    pub descending: bool,
    /// NULLs before all values, whatever the direction.
    pub nulls_first: bool,
    /// There are no NULLs, and so no byte for them.
    pub not_null: bool,
    /// Blanks at the end mean nothing: char(n).
    pub padded: bool,
}

impl KeyColumn {
    /// A column of a primary key.
    pub const PRIMARY: KeyColumn =
        KeyColumn { descending: false, nulls_first: false, not_null: true, padded: false };

    /// Appends a value.
    ///
    /// # Errors
    /// If values of this kind have no order.
    pub fn encode(&self, value: &Value, out: &mut Vec<u8>) -> Result<()> {
        let null = value.is_null();
        debug_assert!(!(null && self.not_null), "a NULL in a column that has none");
        if !self.not_null {
            out.push(u8::from(null != self.nulls_first));
        }
        let start = out.len();
        match value {
            Value::Null => {}
            Value::Text(text) if self.padded => encode_text(text.trim_end_matches(' '), out),
            value => encode_value(value, out)?,
        }
        if self.descending {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(())
    }
}

/// Bytes that a hash takes in a cut key.
pub const HASH_BYTES: usize = 8;

/// Cuts a key to `room` bytes if it is longer; true if it was.
pub fn fit(key: &mut Vec<u8>, room: usize) -> bool {
    if key.len() <= room {
        return false;
    }
    let hash = hash64(key);
    key.truncate(room - HASH_BYTES);
    key.extend_from_slice(&hash.to_be_bytes());
    true
}

/// The part of a prefix by which rows can be found whether their keys are cut or not.
pub fn searchable(prefix: &[u8], room: usize) -> &[u8] {
    &prefix[..prefix.len().min(room - HASH_BYTES)]
}

/// A fixed hash of bytes: the finaliser of splitmix64 over words of 8 bytes.
pub fn hash64(bytes: &[u8]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64 ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_be_bytes(word)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
    }
    hash
}

/// How many bytes the values of a type take in a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyWidth {
    /// At most so many.
    AtMost(usize),
    /// Any number; so many are usual.
    Usual(usize),
}

impl KeyWidth {
    /// Of a type; `base` is the type itself, or the one under a domain. `None`: its values have no order.
    pub fn of(base: Type) -> Option<KeyWidth> {
        use KeyWidth::{AtMost, Usual};
        Some(match base.oid {
            oid::BOOL => AtMost(2),
            oid::CHAR => AtMost(3),
            oid::INT2 => AtMost(2),
            oid::INT4 | oid::OID | oid::FLOAT4 | oid::DATE | oid::REGCLASS | oid::REGTYPE => AtMost(4),
            oid::INT8 | oid::MONEY | oid::FLOAT8 | oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ => AtMost(8),
            oid::TIMETZ => AtMost(12),
            oid::INTERVAL | oid::UUID => AtMost(16),
            oid::NAME => AtMost(64),
            // Most texts are not all of 4-byte characters: their usual width is that of their characters.
            oid::VARCHAR | oid::BPCHAR if base.modifier > 4 => Usual(base.modifier as usize - 4 + 1),
            oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::BYTEA => Usual(33),
            oid::NUMERIC => match base.precision_scale() {
                Some((precision, _)) => AtMost(5 + (precision as usize).div_ceil(2) + 1),
                None => Usual(12),
            },
            oid::JSON | oid::JSONB | oid::JSONPATH => return None,
            oid::RECORD | oid::VOID | oid::UNKNOWN => return None,
            _ => Usual(33),
        })
    }
}

fn encode_value(value: &Value, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Value::Null => unreachable!("the caller has dealt with NULL"),
        Value::Bool(b) => out.push(u8::from(*b)),
        Value::Int2(n) => out.extend_from_slice(&(*n as u16 ^ 0x8000).to_be_bytes()),
        Value::Int4(n) | Value::Date(n) => out.extend_from_slice(&flip32(*n)),
        Value::Int8(n) | Value::Time(n) | Value::Timestamp(n) | Value::Timestamptz(n) => {
            out.extend_from_slice(&flip64(*n));
        }
        Value::Oid(n) => out.extend_from_slice(&n.to_be_bytes()),
        Value::Float4(x) => out.extend_from_slice(&float32(*x)),
        Value::Float8(x) => out.extend_from_slice(&float64(*x)),
        Value::Numeric(n) => encode_numeric(n, out),
        Value::Text(text) => encode_text(text, out),
        Value::Bytea(bytes) => encode_bytes(bytes, out),
        Value::Timetz(micros, west) => {
            // Compared by the moment, and then by the zone.
            out.extend_from_slice(&flip64(micros + i64::from(*west) * 1_000_000));
            out.extend_from_slice(&flip32(*west));
        }
        Value::Interval(interval) => {
            let span = span_of(interval) as u128 ^ (1 << 127);
            out.extend_from_slice(&span.to_be_bytes());
        }
        Value::Uuid(bytes) => out.extend_from_slice(&bytes[..]),
        Value::Enum(label) => out.extend_from_slice(&float32(label.order)),
        Value::Array(array) => {
            for element in &array.elements {
                out.push(if element.is_null() { 2 } else { 1 });
                if !element.is_null() {
                    encode_value(element, out)?;
                }
            }
            out.push(0);
        }
        Value::Json(_) | Value::Jsonb(_) | Value::Jsonpath(_) | Value::Record(_) | Value::Void => {
            let what = "values of this type cannot be sorted by an index";
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, what));
        }
    }
    Ok(())
}

fn flip32(n: i32) -> [u8; 4] {
    (n as u32 ^ 0x8000_0000).to_be_bytes()
}

fn flip64(n: i64) -> [u8; 8] {
    (n as u64 ^ 0x8000_0000_0000_0000).to_be_bytes()
}

fn float32(x: f32) -> [u8; 4] {
    // One zero, and one NaN that is greater than infinity.
    let x = if x == 0.0 {
        0.0
    } else if x.is_nan() {
        f32::NAN.abs()
    } else {
        x
    };
    let bits = x.to_bits();
    (if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 }).to_be_bytes()
}

fn float64(x: f64) -> [u8; 8] {
    let x = if x == 0.0 {
        0.0
    } else if x.is_nan() {
        f64::NAN.abs()
    } else {
        x
    };
    let bits = x.to_bits();
    (if bits >> 63 == 1 { !bits } else { bits | 0x8000_0000_0000_0000 }).to_be_bytes()
}

/// What intervals compare by: months of 30 days of 24 hours.
fn span_of(interval: &Interval) -> i128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * 86_400_000_000 + i128::from(interval.micros)
}

fn encode_text(text: &str, out: &mut Vec<u8>) {
    debug_assert!(!text.as_bytes().contains(&0), "a text contains no zero byte");
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 1]);
}

/// Bytes of a numeric's exponent.
const EXPONENT_BYTES: usize = 3;

fn encode_numeric(n: &Numeric, out: &mut Vec<u8>) {
    let (digits, scale) = match n {
        Numeric::MinusInfinity => return out.push(0),
        Numeric::Infinity => return out.push(4),
        Numeric::NaN => return out.push(5),
        Numeric::Small(unscaled, scale) => (unscaled.to_string(), usize::from(*scale)),
        Numeric::Big(big) => (big.0.to_string(), usize::from(big.1)),
    };
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, &digits[..]),
    };
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return out.push(2);
    }
    out.push(if negative { 1 } else { 3 });
    let start = out.len();
    // Digits before the point, less than zero if there are zeros behind it first; pairs meet at the point.
    let whole = digits.len() as i64 - scale as i64;
    let exponent = (whole + 1).div_euclid(2);
    let biased = (exponent + (1 << 23)) as u32;
    out.extend_from_slice(&biased.to_be_bytes()[4 - EXPONENT_BYTES..]);
    let lead = if whole.rem_euclid(2) == 1 { "0" } else { "" };
    let mut pairs = lead.bytes().chain(digits.trim_end_matches('0').bytes()).map(|digit| digit - b'0');
    while let Some(high) = pairs.next() {
        out.push(1 + 10 * high + pairs.next().unwrap_or(0));
    }
    out.push(0);
    if negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

#[cfg(test)]
mod tests;
