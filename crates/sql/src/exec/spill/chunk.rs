//! Rows that are sorted at once, in memory, by prefixes of their first keys.
//!
//! Invariants:
//! 1. A prefix orders rows as their first key does, or leaves it open: rows of one prefix are compared.
//! 2. `order` has every row once: its prefix in the upper half, its number in the lower one. What is equal
//!    stays in the order of the numbers.
//! 3. Once sorted, rows lie in their order, so that whoever reads them goes through memory once.

use num_bigint::Sign;

use super::FlatRows;
use crate::exec::{Row, rows};
use crate::tree::SortKey;
use crate::types::numeric::{Numeric, ten};
use crate::types::oid;
use crate::types::value::Value;

/// Rows, and the order in which they are to be.
#[derive(Default)]
pub(super) struct Chunk {
    rows: FlatRows,
    order: Vec<u128>,
}

/// Bytes that a row takes besides its values.
pub(super) const ENTRY: usize = size_of::<u128>();

impl Chunk {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Appends a row; bytes that it takes.
    pub(super) fn push(&mut self, prefix: u64, row: Row) -> usize {
        self.order.push((u128::from(prefix) << 64) | self.rows.len() as u128);
        ENTRY + self.rows.push(row)
    }

    /// The prefix of a row; of one that is sorted.
    pub(super) fn prefix(&self, number: usize) -> u64 {
        (self.order[number] >> 64) as u64
    }

    pub(super) fn row(&self, number: usize) -> &[Value] {
        self.rows.row(number)
    }

    pub(super) fn take(&mut self, number: usize) -> Row {
        self.rows.take(number)
    }

    /// Puts the rows in order, and keeps the first `most` of them.
    pub(super) fn sort(&mut self, keys: &[SortKey], most: usize) {
        // Numbers differ, so nothing is equal.
        self.order.sort_unstable();
        let decided = keys.is_empty() || matches!(keys, [key] if is_whole(key));
        if !decided {
            let row = |at: &u128| self.rows.row(*at as u64 as usize);
            for ties in self.order.chunk_by_mut(|a, b| a >> 64 == b >> 64).filter(|ties| ties.len() > 1) {
                ties.sort_by(|a, b| rows::compare(keys, row(a), row(b)));
            }
        }
        self.order.truncate(most);
        self.rows.arrange(self.order.iter().map(|at| *at as u64 as usize));
        for (number, at) in self.order.iter_mut().enumerate() {
            *at = (*at >> 64 << 64) | number as u128;
        }
    }
}

/// Whether the prefix of a key says all about it.
fn is_whole(key: &SortKey) -> bool {
    matches!(key.ty, oid::BOOL | oid::INT2 | oid::INT4 | oid::DATE | oid::OID)
}

/// A number without what is behind its point, or the nearest that there is.
fn without_fraction(number: &Numeric) -> i64 {
    match number {
        Numeric::Small(unscaled, scale) => {
            10i64.checked_pow(u32::from(*scale)).map_or(0, |one| unscaled / one)
        }
        Numeric::Big(big) => {
            let whole = &big.0 / ten(u32::from(big.1));
            let far = if whole.sign() == Sign::Minus { i64::MIN } else { i64::MAX };
            i64::try_from(whole).unwrap_or(far)
        }
        Numeric::MinusInfinity => i64::MIN,
        Numeric::Infinity | Numeric::NaN => i64::MAX,
    }
}

/// A number by which the values of a key are in their order, or the same number where that is open.
pub(super) fn prefix(key: &SortKey, value: &Value) -> u64 {
    let float = |x: f64| {
        // Zeros are equal, and NaN is greater than all else.
        let bits = if x.is_nan() { f64::NAN.abs() } else { x + 0.0 }.to_bits();
        if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
    };
    let whole = |n: i64| (n as u64) ^ (1 << 63);
    let bytes = |bytes: &[u8]| {
        let mut first = [0; 8];
        let len = bytes.len().min(8);
        first[..len].copy_from_slice(&bytes[..len]);
        u64::from_be_bytes(first)
    };
    let number = match value {
        Value::Null => return if key.nulls_first { 0 } else { u64::MAX },
        Value::Bool(b) => u64::from(*b) << 1,
        Value::Int2(n) => whole(i64::from(*n) << 32),
        Value::Int4(n) => whole(i64::from(*n) << 31),
        Value::Date(n) => whole(i64::from(*n) << 31),
        Value::Oid(n) => u64::from(*n) << 1,
        Value::Int8(n) | Value::Time(n) | Value::Timestamp(n) | Value::Timestamptz(n) => whole(*n),
        Value::Float4(x) => float(f64::from(*x)),
        Value::Float8(x) => float(*x),
        Value::Numeric(number) => whole(without_fraction(number)),
        Value::Text(text) if key.ty == oid::BPCHAR => bytes(text.trim_end_matches(' ').as_bytes()),
        Value::Text(text) => bytes(text.as_bytes()),
        Value::Bytea(all) => bytes(all),
        Value::Uuid(all) => bytes(&all[..]),
        // Nothing is known of where they stand among the others of their type: all of these have one number.
        _ => 1 << 63,
    };
    // Between those of NULL.
    let number = (number >> 1) + 1;
    if key.descending { u64::MAX - number } else { number }
}
