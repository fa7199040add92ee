//! A value of any type, or NULL.
//!
//! Values do not know their type exactly: `Text` is a text, a varchar, a name..., and what belongs to a type
//! (how it is written, compared, cast) is asked with the type's oid. Large values are shared, so that cloning
//! a value never copies its bytes.
//!
//! Units: dates in days and timestamps in microseconds since 2000-01-01, times in microseconds since
//! midnight, as in PostgreSQL; the largest and smallest numbers are infinity and -infinity of dates and
//! timestamps.

use std::sync::Arc;

use super::Oid;
use super::json::Json;
use super::jsonpath::JsonPath;
use super::numeric::Numeric;

/// A value or NULL.
#[derive(Clone, Debug)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// bool.
    Bool(bool),
    /// smallint.
    Int2(i16),
    /// integer.
    Int4(i32),
    /// bigint; money, in cents.
    Int8(i64),
    /// oid, the reg* types, xid and cid.
    Oid(Oid),
    /// real.
    Float4(f32),
    /// double precision.
    Float8(f64),
    /// numeric.
    Numeric(Numeric),
    /// text, varchar, char(n) (with its padding), name, "char", cstring, unknown, refcursor and the like; bit
    /// strings too, a character for each bit.
    Text(Arc<str>),
    /// bytea; macaddr and macaddr8, of 6 and 8 bytes; inet and cidr ([`super::inet`]).
    Bytea(Arc<[u8]>),
    /// date: days since 2000-01-01.
    Date(i32),
    /// time: microseconds since midnight, up to and including 24:00:00.
    Time(i64),
    /// time with time zone: microseconds since midnight, and seconds west of UTC.
    Timetz(i64, i32),
    /// timestamp: microseconds since 2000-01-01.
    Timestamp(i64),
    /// timestamptz: microseconds since 2000-01-01 00:00 UTC.
    Timestamptz(i64),
    /// interval.
    Interval(Interval),
    /// uuid.
    Uuid(Arc<[u8; 16]>),
    /// json: its text as it was given.
    Json(Arc<str>),
    /// jsonb.
    Jsonb(Arc<Json>),
    /// jsonpath.
    Jsonpath(Arc<JsonPath>),
    /// An array of any element type; int2vector and oidvector too.
    Array(Arc<Array>),
    /// A label of an enum type.
    Enum(Arc<EnumLabel>),
    /// A row.
    Record(Arc<Record>),
    /// The result of a function that returns nothing.
    Void,
}

/// Months, days and microseconds, which do not convert into one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

/// One dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Number of elements along it.
    pub len: i32,
    /// First subscript.
    pub lower: i32,
}

/// An array. Without dimensions it is empty.
#[derive(Clone, Debug)]
pub struct Array {
    /// Type of the elements.
    pub element: Oid,
    /// Outermost first; at most 6.
    pub dimensions: Vec<Dimension>,
    /// In row-major order; as many as the product of the dimensions.
    pub elements: Vec<Value>,
}

/// A label of an enum.
#[derive(Clone, Debug, PartialEq)]
pub struct EnumLabel {
    /// The enum type.
    pub oid: Oid,
    /// Place of the label in the type's order.
    pub order: f32,
    /// The label.
    pub label: Arc<str>,
}

/// A row as a value.
#[derive(Clone, Debug)]
pub struct Record {
    /// Names of the fields (`f1`, `f2`... for a row constructor), as many as there are values.
    pub names: Arc<[Arc<str>]>,
    /// Types of the fields.
    pub types: Arc<[Oid]>,
    /// Values of the fields.
    pub values: Vec<Value>,
}

impl Value {
    /// A text.
    pub fn text(text: impl Into<Arc<str>>) -> Value {
        Value::Text(text.into())
    }

    /// A bytea.
    pub fn bytea(bytes: impl Into<Arc<[u8]>>) -> Value {
        Value::Bytea(bytes.into())
    }

    /// A one-dimensional array with subscripts from 1 (empty: without dimensions).
    pub fn array(element: Oid, elements: Vec<Value>) -> Value {
        Value::Array(Arc::new(Array::new(element, elements)))
    }

    /// Whether it is NULL.
    #[inline]
    pub const fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The truth value; NULL is `None`.
    ///
    /// # Panics
    /// If it is neither a bool nor NULL.
    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Null => None,
            Value::Bool(b) => Some(*b),
            other => panic!("a bool was expected, not {other:?}"),
        }
    }

    /// The number of a smallint, integer, bigint or oid; `None` for anything else.
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int2(n) => Some(i64::from(*n)),
            Value::Int4(n) => Some(i64::from(*n)),
            Value::Int8(n) => Some(*n),
            Value::Oid(n) => Some(i64::from(*n)),
            _ => None,
        }
    }

    /// The characters of a text-like value; `None` for anything else.
    #[inline]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) | Value::Json(text) => Some(text),
            Value::Enum(label) => Some(&label.label),
            _ => None,
        }
    }
}

impl Array {
    /// A one-dimensional array with subscripts from 1 (empty: without dimensions).
    pub fn new(element: Oid, elements: Vec<Value>) -> Array {
        let dimensions = match elements.len() {
            0 => Vec::new(),
            len => vec![Dimension { len: len as i32, lower: 1 }],
        };
        Array { element, dimensions, elements }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_three_words() {
        assert_eq!(size_of::<Value>(), 24);
    }
}
