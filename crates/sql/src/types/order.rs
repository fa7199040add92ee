//! Order, equality and hashing of values: what B-trees, ORDER BY, DISTINCT, GROUP BY and hash joins go by.
//!
//! Texts are ordered by their bytes (the collation C, which is also that of C.UTF-8).

use std::cmp::Ordering;

use super::json::{self, Json};
use super::numeric::Numeric;
use super::value::{Interval, Value};
use super::{Oid, oid};

/// The order of two values of type `ty`, neither of them NULL (the type's default B-tree order).
///
/// # Panics
/// If the values are not both of this type.
pub fn compare(ty: Oid, a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int2(a), Value::Int2(b)) => a.cmp(b),
        (Value::Int4(a), Value::Int4(b)) => a.cmp(b),
        (Value::Int8(a), Value::Int8(b)) => a.cmp(b),
        (Value::Oid(a), Value::Oid(b)) => a.cmp(b),
        (Value::Float4(a), Value::Float4(b)) => compare_floats(f64::from(*a), f64::from(*b)),
        (Value::Float8(a), Value::Float8(b)) => compare_floats(*a, *b),
        (Value::Numeric(a), Value::Numeric(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) if ty == oid::BPCHAR => {
            a.trim_end_matches(' ').cmp(b.trim_end_matches(' '))
        }
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Json(a), Value::Json(b)) => a.cmp(b),
        (Value::Bytea(a), Value::Bytea(b)) => a.cmp(b),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Time(a), Value::Time(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::Timestamptz(a), Value::Timestamptz(b)) => a.cmp(b),
        (Value::Timetz(a, west), Value::Timetz(b, other_west)) => {
            let in_utc = |time: i64, west: i32| time + i64::from(west) * 1_000_000;
            in_utc(*a, *west).cmp(&in_utc(*b, *other_west)).then(west.cmp(other_west))
        }
        (Value::Interval(a), Value::Interval(b)) => interval_span(*a).cmp(&interval_span(*b)),
        (Value::Uuid(a), Value::Uuid(b)) => a.cmp(b),
        (Value::Jsonb(a), Value::Jsonb(b)) => json::compare(a, b),
        (Value::Jsonpath(a), Value::Jsonpath(b)) => a.exact().cmp(&b.exact()),
        (Value::Enum(a), Value::Enum(b)) => a.order.total_cmp(&b.order),
        (Value::Array(a), Value::Array(b)) => {
            let elements = compare_rows(&a.elements, &b.elements, |_| a.element);
            let by_shape = || {
                let dimensions = a.dimensions.len().cmp(&b.dimensions.len());
                let pairs = || a.dimensions.iter().zip(&b.dimensions);
                let lengths = pairs().map(|(x, y)| x.len.cmp(&y.len)).find(|o| o.is_ne());
                let bounds = pairs().map(|(x, y)| x.lower.cmp(&y.lower)).find(|o| o.is_ne());
                dimensions.then(lengths.or(bounds).unwrap_or(Ordering::Equal))
            };
            elements.then_with(by_shape)
        }
        (Value::Record(a), Value::Record(b)) => compare_rows(&a.values, &b.values, |i| a.types[i]),
        (Value::Void, Value::Void) => Ordering::Equal,
        _ => panic!("values of type {ty} cannot be compared: {a:?} and {b:?}"),
    }
}

/// The order of two values of type `ty`, NULLs last and equal to one another.
pub fn compare_nulls_last(ty: Oid, a: &Value, b: &Value) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (false, false) => compare(ty, a, b),
        (a_null, b_null) => a_null.cmp(&b_null),
    }
}

fn compare_rows(a: &[Value], b: &[Value], ty: impl Fn(usize) -> Oid) -> Ordering {
    let pairs = a.iter().zip(b).enumerate();
    let first = pairs.map(|(i, (a, b))| compare_nulls_last(ty(i), a, b)).find(|order| order.is_ne());
    first.unwrap_or(a.len().cmp(&b.len()))
}

/// NaN is greater than all others and equal to itself; zeros are equal.
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Length of an interval in microseconds, with months of 30 days and days of 24 hours.
pub fn interval_span(interval: Interval) -> i128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * 86_400_000_000 + i128::from(interval.micros)
}

/// A number that is the same for values of type `ty` that compare as equal, NULLs included. Integers of
/// different widths hash alike.
pub fn hash(ty: Oid, value: &Value) -> u64 {
    let mut state = Hash(0xcbf2_9ce4_8422_2325);
    hash_into(ty, value, &mut state);
    state.finish()
}

/// A fixed hash function (words multiplied and folded), the same on every host and in every run.
struct Hash(u64);

impl Hash {
    fn word(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        self.0 = (wide as u64) ^ ((wide >> 64) as u64).rotate_left(29);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        self.word(bytes.len() as u64);
    }

    fn float(&mut self, float: f64) {
        let float = if float.is_nan() { f64::NAN } else { float + 0.0 };
        self.word(float.to_bits());
    }

    fn numeric(&mut self, numeric: &Numeric) {
        match numeric.trim_scale() {
            Numeric::Small(unscaled, scale) => {
                self.word(unscaled as u64);
                self.word(u64::from(scale));
            }
            Numeric::Big(big) => {
                self.bytes(&big.0.to_signed_bytes_le());
                self.word(u64::from(big.1));
            }
            special => self.word(if special.is_nan() { u64::MAX } else { special.signum() as u64 ^ 0x55 }),
        }
    }

    fn json(&mut self, document: &Json) {
        match document {
            Json::Null => self.word(1),
            Json::Bool(b) => self.word(2 + u64::from(*b)),
            Json::Number(number) => self.numeric(number),
            Json::String(text) => self.bytes(text.as_bytes()),
            Json::Array(elements) => {
                self.word(elements.len() as u64 ^ (1 << 40));
                elements.iter().for_each(|element| self.json(element));
            }
            Json::Object(members) => {
                self.word(members.len() as u64 ^ (1 << 41));
                for (key, value) in members {
                    self.bytes(key.as_bytes());
                    self.json(value);
                }
            }
        }
    }

    fn finish(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }
}

fn hash_into(ty: Oid, value: &Value, state: &mut Hash) {
    match value {
        Value::Null => state.word(0x6e75_6c6c),
        Value::Void => state.word(0),
        Value::Bool(b) => state.word(u64::from(*b)),
        Value::Int2(n) => state.word(i64::from(*n) as u64),
        Value::Int4(n) => state.word(i64::from(*n) as u64),
        Value::Int8(n) | Value::Time(n) | Value::Timestamp(n) | Value::Timestamptz(n) => {
            state.word(*n as u64)
        }
        Value::Oid(n) => state.word(u64::from(*n)),
        Value::Date(n) => state.word(i64::from(*n) as u64),
        Value::Float4(f) => state.float(f64::from(*f)),
        Value::Float8(f) => state.float(*f),
        Value::Numeric(n) => state.numeric(n),
        Value::Text(text) if ty == oid::BPCHAR => state.bytes(text.trim_end_matches(' ').as_bytes()),
        Value::Text(text) | Value::Json(text) => state.bytes(text.as_bytes()),
        Value::Bytea(bytes) => state.bytes(bytes),
        Value::Timetz(time, west) => {
            state.word(*time as u64);
            state.word(*west as u64);
        }
        Value::Interval(interval) => {
            let span = interval_span(*interval);
            state.word(span as u64);
            state.word((span >> 64) as u64);
        }
        Value::Uuid(uuid) => state.bytes(&uuid[..]),
        Value::Jsonb(document) => state.json(document),
        Value::Jsonpath(path) => state.bytes(path.exact().as_bytes()),
        Value::Enum(label) => state.bytes(label.label.as_bytes()),
        Value::Array(array) => {
            for dimension in &array.dimensions {
                state.word(dimension.len as u64);
            }
            array.elements.iter().for_each(|element| hash_into(array.element, element, state));
        }
        Value::Record(record) => {
            for (value, ty) in record.values.iter().zip(&*record.types) {
                hash_into(*ty, value, state);
            }
        }
    }
}
