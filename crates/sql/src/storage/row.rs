//! Bodies of SQL rows: the values of a table's columns in a slot of fixed size.
//!
//! ```text
//! 0 format u8 = 1; 2 if the row has a tail | 1 flags u8 (1: some value lies outside) | 2 columns u16
//! 4 NULL bits, 1 per column | fixed values, in order | ends of variable values, u16 each | these values
//!
//! end of a variable value: bits 0-14 offset behind it, from the first one's start; bit 15: it lies outside,
//!     and here is where (row/outside.rs)
//! (all numbers little-endian)
//! ```
//!
//! Invariants:
//! 1. A fixed column's bytes are at one offset in all rows that were written with so many columns, so that a
//!    change of it changes these bytes only; they are zero when it is NULL.
//! 2. A row says with how many columns it was written: columns that the table got later have the value that
//!    they were added with. A dropped column keeps its place, as NULL.
//! 3. What does not fit is put outside, the longest values first; see overflow.rs.
//! 4. Damaged bytes are an error (XX001), never a panic.

mod outside;

use std::borrow::Cow;
use std::sync::Arc;

use liger_fabric::shared_text;
use outside::{Variable, move_out};

use super::codec;
use crate::error::{Result, SqlError, SqlState};
use crate::types::oid;
use crate::types::value::{EnumLabel, Interval, Value};

pub use outside::{MovedOut, Outside, REFERENCE_BYTES, Reference, wholes};

/// How a column's values are kept.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the values are")]
pub enum Stored {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    Date,
    Time,
    Timetz,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
    /// By a label's place in the order; the type's labels in that order.
    Enum(Arc<[Arc<EnumLabel>]>),
    Text,
    Bytea,
    Json,
    /// Anything else, with what it is written in it: numeric, jsonb, arrays, rows.
    Tagged,
}

impl Stored {
    /// Of a type that is no enum: the type itself, or the one under a domain.
    pub fn of(base: crate::types::Oid) -> Stored {
        match base {
            oid::BOOL => Stored::Bool,
            oid::INT2 => Stored::Int2,
            oid::INT4 => Stored::Int4,
            oid::INT8 | oid::MONEY => Stored::Int8,
            oid::OID | oid::XID | oid::CID | oid::REGPROC | oid::REGPROCEDURE | oid::REGCLASS => Stored::Oid,
            oid::REGOPER | oid::REGOPERATOR | oid::REGTYPE | oid::REGROLE | oid::REGNAMESPACE => Stored::Oid,
            oid::REGCONFIG | oid::REGDICTIONARY | oid::REGCOLLATION => Stored::Oid,
            oid::FLOAT4 => Stored::Float4,
            oid::FLOAT8 => Stored::Float8,
            oid::DATE => Stored::Date,
            oid::TIME => Stored::Time,
            oid::TIMETZ => Stored::Timetz,
            oid::TIMESTAMP => Stored::Timestamp,
            oid::TIMESTAMPTZ => Stored::Timestamptz,
            oid::INTERVAL => Stored::Interval,
            oid::UUID => Stored::Uuid,
            oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::CHAR | oid::REFCURSOR => Stored::Text,
            oid::CSTRING | oid::UNKNOWN | oid::PG_NODE_TREE => Stored::Text,
            oid::BIT | oid::VARBIT => Stored::Text,
            oid::BYTEA | oid::MACADDR | oid::MACADDR8 | oid::INET | oid::CIDR => Stored::Bytea,
            oid::JSON => Stored::Json,
            _ => Stored::Tagged,
        }
    }

    /// Bytes of a fixed value; `None` if they vary.
    pub fn fixed(&self) -> Option<usize> {
        Some(match self {
            Stored::Bool => 1,
            Stored::Int2 => 2,
            Stored::Int4 | Stored::Oid | Stored::Float4 | Stored::Date | Stored::Enum(_) => 4,
            Stored::Int8 | Stored::Float8 | Stored::Time => 8,
            Stored::Timestamp | Stored::Timestamptz => 8,
            Stored::Timetz => 12,
            Stored::Interval | Stored::Uuid => 16,
            Stored::Text | Stored::Bytea | Stored::Json | Stored::Tagged => return None,
        })
    }

    /// Appends a value that is not NULL.
    fn write(&self, value: &Value, out: &mut Vec<u8>) -> Result<()> {
        match (self, value) {
            (Stored::Bool, Value::Bool(b)) => out.push(u8::from(*b)),
            (Stored::Int2, Value::Int2(n)) => out.extend_from_slice(&n.to_le_bytes()),
            (Stored::Int4, Value::Int4(n)) | (Stored::Date, Value::Date(n)) => {
                out.extend_from_slice(&n.to_le_bytes());
            }
            (Stored::Int8, Value::Int8(n))
            | (Stored::Time, Value::Time(n))
            | (Stored::Timestamp, Value::Timestamp(n))
            | (Stored::Timestamptz, Value::Timestamptz(n)) => out.extend_from_slice(&n.to_le_bytes()),
            (Stored::Oid, Value::Oid(n)) => out.extend_from_slice(&n.to_le_bytes()),
            (Stored::Float4, Value::Float4(x)) => out.extend_from_slice(&x.to_le_bytes()),
            (Stored::Float8, Value::Float8(x)) => out.extend_from_slice(&x.to_le_bytes()),
            (Stored::Timetz, Value::Timetz(micros, west)) => {
                out.extend_from_slice(&micros.to_le_bytes());
                out.extend_from_slice(&west.to_le_bytes());
            }
            (Stored::Interval, Value::Interval(it)) => {
                out.extend_from_slice(&it.micros.to_le_bytes());
                out.extend_from_slice(&it.days.to_le_bytes());
                out.extend_from_slice(&it.months.to_le_bytes());
            }
            (Stored::Uuid, Value::Uuid(bytes)) => out.extend_from_slice(&bytes[..]),
            (Stored::Enum(_), Value::Enum(label)) => out.extend_from_slice(&label.order.to_le_bytes()),
            (_, value) => out.extend_from_slice(&self.variable_bytes(value)?),
        }
        Ok(())
    }

    /// The bytes of a value of a variable length that is not NULL: those that it has, where these are them.
    fn variable_bytes<'v>(&self, value: &'v Value) -> Result<Cow<'v, [u8]>> {
        Ok(match (self, value) {
            (Stored::Text, Value::Text(text)) | (Stored::Json, Value::Json(text)) => {
                Cow::Borrowed(text.as_bytes())
            }
            (Stored::Bytea, Value::Bytea(bytes)) => Cow::Borrowed(bytes),
            (Stored::Tagged, value) => {
                let mut bytes = Vec::new();
                codec::write(value, &mut bytes)?;
                Cow::Owned(bytes)
            }
            (stored, value) => {
                let shown = format!("{value:?}");
                let shown = &shown[..shown.floor_char_boundary(100)];
                let what = format!("a column of {stored:?} was given {shown}");
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, what));
            }
        })
    }

    /// The value of these bytes.
    fn read(&self, bytes: &[u8]) -> Result<Value> {
        Ok(match self {
            Stored::Bool => Value::Bool(array::<1>(bytes, 0)?[0] != 0),
            Stored::Int2 => Value::Int2(i16::from_le_bytes(array(bytes, 0)?)),
            Stored::Int4 => Value::Int4(i32::from_le_bytes(array(bytes, 0)?)),
            Stored::Date => Value::Date(i32::from_le_bytes(array(bytes, 0)?)),
            Stored::Int8 => Value::Int8(i64::from_le_bytes(array(bytes, 0)?)),
            Stored::Time => Value::Time(i64::from_le_bytes(array(bytes, 0)?)),
            Stored::Timestamp => Value::Timestamp(i64::from_le_bytes(array(bytes, 0)?)),
            Stored::Timestamptz => Value::Timestamptz(i64::from_le_bytes(array(bytes, 0)?)),
            Stored::Oid => Value::Oid(u32::from_le_bytes(array(bytes, 0)?)),
            Stored::Float4 => Value::Float4(f32::from_le_bytes(array(bytes, 0)?)),
            Stored::Float8 => Value::Float8(f64::from_le_bytes(array(bytes, 0)?)),
            Stored::Timetz => {
                Value::Timetz(i64::from_le_bytes(array(bytes, 0)?), i32::from_le_bytes(array(bytes, 8)?))
            }
            Stored::Interval => Value::Interval(Interval {
                micros: i64::from_le_bytes(array(bytes, 0)?),
                days: i32::from_le_bytes(array(bytes, 8)?),
                months: i32::from_le_bytes(array(bytes, 12)?),
            }),
            Stored::Uuid => Value::Uuid(Arc::new(array(bytes, 0)?)),
            Stored::Enum(labels) => {
                let order = f32::from_le_bytes(array(bytes, 0)?);
                let label = labels.iter().find(|label| label.order == order);
                Value::Enum(label.ok_or_else(|| damaged("an enum label"))?.clone())
            }
            Stored::Text => Value::Text(codec::text(bytes)?),
            Stored::Json => Value::Json(codec::text(bytes)?),
            Stored::Bytea => Value::Bytea(bytes.into()),
            Stored::Tagged => codec::read(bytes)?,
        })
    }
}

/// `N` bytes from `at` on.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    bytes.get(at..at + N).and_then(|b| b.try_into().ok()).ok_or_else(|| damaged("a value's length"))
}

/// A row's bytes cannot be right.
#[cold]
pub(crate) fn damaged(what: &str) -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, format!("damaged row: {what} is wrong"))
}

const FORMAT: u8 = 1;
/// Of rows with a tail, which older programs did not know.
const FORMAT_WITH_TAIL: u8 = 2;
const FLAG_OUTSIDE: u8 = 1;
const HEAD: usize = 4;
const OUTSIDE: u16 = 1 << 15;
/// Where the columns of rows lie that were written with so many of them.
#[derive(Clone, Copy, Debug)]
struct Written {
    /// Fixed values, from the body's start.
    fixed: usize,
    /// Where variable ones end.
    ends: usize,
    /// How many variable ones there are.
    variable: usize,
}

/// The columns of a table, as bodies hold them.
#[derive(Clone, Debug)]
pub struct RowLayout {
    stored: Vec<Stored>,
    /// What rows have that were written before the column was there.
    missing: Vec<Value>,
    /// Of fixed columns: where they are among the fixed values. Of variable ones: which one it is.
    places: Vec<usize>,
    /// By the number of columns that a row was written with; the last one is how they are written now.
    written: Vec<Written>,
}

/// A value of a row, or where it is.
#[derive(Clone, Debug)]
pub enum Found {
    /// The value.
    Value(Value),
    /// It lies outside.
    Outside(Reference),
}

/// A body, and what did not fit it.
#[derive(Clone, Debug, Default)]
pub struct Encoded<'v> {
    /// The body; what is behind it in the slot means nothing.
    pub body: Vec<u8>,
    /// What lies outside; references to it are still to be filled in.
    pub outside: MovedOut<'v>,
}

/// Bytes of a body that are to be others.
#[derive(Default)]
pub struct Patch {
    bytes: Vec<u8>,
    /// Where they go, and how many.
    pieces: Vec<(usize, usize)>,
}

impl Patch {
    /// The pieces that `body` has not yet, as (offset, bytes).
    pub fn missing_in<'a>(&'a self, body: &'a [u8]) -> impl Iterator<Item = (usize, &'a [u8])> {
        let mut from = 0;
        let pieces = self.pieces.iter().map(move |(at, len)| {
            from += len;
            (*at, &self.bytes[from - len..from])
        });
        pieces.filter(|(at, bytes)| body[*at..*at + bytes.len()] != **bytes)
    }

    /// The body with all pieces.
    pub fn applied_to(&self, body: &[u8]) -> Vec<u8> {
        let mut applied = body.to_vec();
        let missing = self.missing_in(body);
        missing.for_each(|(at, bytes)| applied[at..at + bytes.len()].copy_from_slice(bytes));
        applied
    }
}

impl RowLayout {
    /// The layout of these columns, each with the value that rows have that were written before it was there.
    pub fn new(columns: Vec<(Stored, Value)>) -> RowLayout {
        let (stored, missing): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let (mut places, mut written) = (Vec::new(), Vec::new());
        let (mut bytes, mut variable) = (0, 0);
        for columns in 0..=stored.len() {
            let fixed = HEAD + columns.div_ceil(8);
            written.push(Written { fixed, ends: fixed + bytes, variable });
            match stored.get(columns).map(Stored::fixed) {
                Some(Some(len)) => {
                    places.push(bytes);
                    bytes += len;
                }
                Some(None) => {
                    places.push(variable);
                    variable += 1;
                }
                None => {}
            }
        }
        RowLayout { stored, missing, places, written }
    }

    /// Where the columns of rows lie that are written now.
    fn now(&self) -> &Written {
        self.written.last().expect("rows of no columns are the first")
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.stored.len()
    }

    /// Whether values of this column may lie outside.
    pub fn may_lie_outside(&self, column: usize) -> bool {
        self.stored[column].fixed().is_none()
    }

    /// The least bytes of a body, with all variable values empty.
    pub fn least_bytes(&self) -> usize {
        self.now().ends + 2 * self.now().variable
    }

    /// The bytes of one value of a variable length that is not NULL.
    ///
    /// # Errors
    /// If it is not of the column's type.
    pub fn value_bytes<'v>(&self, column: usize, value: &'v Value) -> Result<Cow<'v, [u8]>> {
        self.stored[column].variable_bytes(value)
    }

    /// The value of bytes that lay outside.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn value_of(&self, column: usize, bytes: Arc<[u8]>) -> Result<Value> {
        let text = |bytes| shared_text(bytes).map_err(|_| damaged("a text"));
        match self.stored[column] {
            Stored::Text => Ok(Value::Text(text(bytes)?)),
            Stored::Json => Ok(Value::Json(text(bytes)?)),
            Stored::Bytea => Ok(Value::Bytea(bytes)),
            ref stored => stored.read(&bytes),
        }
    }

    /// The body of a row of these values, in a slot of `slot` bytes. `keep` says where the value of a column
    /// lies already, unchanged, if it lies outside.
    ///
    /// # Errors
    /// If a value is not of its column's type, or the row is too long even with all values outside.
    pub fn encode<'v>(
        &self,
        values: &'v [Value],
        slot: usize,
        keep: impl Fn(usize) -> Option<Reference>,
    ) -> Result<Encoded<'v>> {
        assert_eq!(values.len(), self.stored.len(), "a value for every column");
        let mut body = vec![FORMAT, 0];
        body.extend_from_slice(&(values.len() as u16).to_le_bytes());
        body.resize(HEAD + values.len().div_ceil(8), 0);
        let mut variable = Vec::with_capacity(self.now().variable);
        for (column, (stored, value)) in self.stored.iter().zip(values).enumerate() {
            if value.is_null() {
                body[HEAD + column / 8] |= 1 << (column % 8);
            }
            let bytes = match (stored.fixed(), value) {
                (Some(len), Value::Null) => {
                    body.resize(body.len() + len, 0);
                    continue;
                }
                (Some(_), value) => {
                    stored.write(value, &mut body)?;
                    continue;
                }
                (None, Value::Null) => Cow::Borrowed(&[][..]),
                (None, value) => stored.variable_bytes(value)?,
            };
            variable.push(Variable { column, bytes, is_outside: false });
        }
        let outside = move_out(&mut variable, body.len(), slot, keep)?;
        body[0] = if outside.tail.is_empty() { FORMAT } else { FORMAT_WITH_TAIL };
        body[1] = if variable.iter().any(|value| value.is_outside) { FLAG_OUTSIDE } else { 0 };
        let mut end = 0;
        for value in &variable {
            end += value.bytes.len();
            let mark = if value.is_outside { OUTSIDE } else { 0 };
            body.extend_from_slice(&(end as u16 | mark).to_le_bytes());
        }
        variable.iter().for_each(|value| body.extend_from_slice(&value.bytes));
        debug_assert!(body.len() <= slot);
        Ok(Encoded { body, outside })
    }

    /// Fills in where the value of a column lies that [`RowLayout::encode`] has put outside.
    pub fn refer(&self, body: &mut [u8], column: usize, to: Reference) {
        let at = self.variable(body, self.now(), self.places[column]).expect("encoded just now").0;
        body[at..at + REFERENCE_BYTES].copy_from_slice(&to.to_bytes());
    }

    /// The value of a column.
    ///
    /// # Errors
    /// If the body is damaged.
    pub fn decode(&self, body: &[u8], column: usize) -> Result<Found> {
        let mut found = Err(damaged("its columns"));
        self.decode_each(body, |at| at == column, |_, value| found = Ok(value))?;
        found
    }

    /// Gives the values of those columns that are wanted, in order.
    ///
    /// # Errors
    /// If the body is damaged.
    pub fn decode_each(
        &self,
        body: &[u8],
        is_wanted: impl Fn(usize) -> bool,
        mut give: impl FnMut(usize, Found),
    ) -> Result<()> {
        let columns = self.columns_in(body)?;
        for column in (0..self.stored.len()).filter(|column| is_wanted(*column)) {
            let found = match column < columns {
                true => self.found(body, &self.written[columns], column)?,
                false => Found::Value(self.missing[column].clone()),
            };
            give(column, found);
        }
        Ok(())
    }

    fn found(&self, body: &[u8], written: &Written, column: usize) -> Result<Found> {
        let bit = body.get(HEAD + column / 8).ok_or_else(|| damaged("its length"))?;
        if bit & 1 << (column % 8) != 0 {
            return Ok(Found::Value(Value::Null));
        }
        let (stored, place) = (&self.stored[column], self.places[column]);
        if let Some(len) = stored.fixed() {
            let at = written.fixed + place;
            let bytes = body.get(at..at + len).ok_or_else(|| damaged("its length"))?;
            return Ok(Found::Value(stored.read(bytes)?));
        }
        let (start, end, outside) = self.variable(body, written, place)?;
        match outside {
            true => Ok(Found::Outside(Reference::from_bytes(array(body, start)?))),
            false => Ok(Found::Value(stored.read(&body[start..end])?)),
        }
    }

    /// What setting these columns to their values of `row` does to a body, if all of them have places of
    /// their own there.
    ///
    /// # Errors
    /// If a value is not of its column's type.
    pub fn patch(&self, row: &[Value], set: &[usize]) -> Result<Option<Patch>> {
        let mut patch = Patch::default();
        for column in set {
            let Some(len) = self.stored[*column].fixed() else { return Ok(None) };
            match &row[*column] {
                Value::Null => patch.bytes.resize(patch.bytes.len() + len, 0),
                value => self.stored[*column].write(value, &mut patch.bytes)?,
            }
            patch.pieces.push((self.now().fixed + self.places[*column], len));
            let (first, at) = (column / 8 * 8, HEAD + column / 8);
            if !patch.pieces.contains(&(at, 1)) {
                let nulls = row[first..].iter().take(8).map(Value::is_null);
                patch.bytes.push(nulls.rev().fold(0, |bits, is_null| 2 * bits + u8::from(is_null)));
                patch.pieces.push((at, 1));
            }
        }
        Ok(Some(patch))
    }

    /// Whether a body was written with all columns, so that each has its place.
    ///
    /// # Errors
    /// If the body is damaged.
    pub fn has_all(&self, body: &[u8]) -> Result<bool> {
        Ok(self.columns_in(body)? == self.stored.len())
    }

    /// Whether some value of this body lies outside.
    pub fn has_outside(body: &[u8]) -> bool {
        body.get(1).is_some_and(|flags| flags & FLAG_OUTSIDE != 0)
    }

    /// The values of this body that lie outside, by column.
    ///
    /// # Errors
    /// If the body is damaged.
    pub fn outside(&self, body: &[u8]) -> Result<Outside> {
        let mut all = Vec::new();
        if Self::has_outside(body) {
            let is_variable = |column| self.may_lie_outside(column);
            self.decode_each(body, is_variable, |column, found| {
                if let Found::Outside(reference) = found {
                    all.push((column, reference));
                }
            })?;
        }
        Ok(all)
    }

    /// With how many columns the body was written.
    fn columns_in(&self, body: &[u8]) -> Result<usize> {
        let columns = usize::from(u16::from_le_bytes(array(body, 2)?));
        if !matches!(body[0], FORMAT | FORMAT_WITH_TAIL) || columns > self.stored.len() {
            return Err(damaged("its head"));
        }
        Ok(columns)
    }

    /// Where variable value `n` is, and whether it lies outside.
    fn variable(&self, body: &[u8], written: &Written, n: usize) -> Result<(usize, usize, bool)> {
        let end_of = |n: usize| array(body, written.ends + 2 * n).map(u16::from_le_bytes);
        let first = written.ends + 2 * written.variable;
        let start = if n == 0 { 0 } else { end_of(n - 1)? & !OUTSIDE };
        let end = end_of(n)?;
        let (start, end, outside) =
            (first + usize::from(start), first + usize::from(end & !OUTSIDE), end & OUTSIDE != 0);
        if start > end || end > body.len() {
            return Err(damaged("a value's place"));
        }
        Ok((start, end, outside))
    }
}

/// Equal bytes between two changes that are recorded as one: a piece of the log has a head of a few bytes.
const JOINED: usize = 8;

/// The parts in which `new` differs from the slot's bytes `old`, as (offset, bytes), ascending and apart.
/// `new` may be shorter: the rest of the slot means nothing.
pub fn differences<'a>(old: &[u8], new: &'a [u8]) -> Vec<(usize, &'a [u8])> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for at in (0..new.len()).filter(|&at| old[at] != new[at]) {
        match spans.last_mut() {
            Some((_, end)) if at - *end <= JOINED => *end = at + 1,
            _ => spans.push((at, at + 1)),
        }
    }
    spans.into_iter().map(|(start, end)| (start, &new[start..end])).collect()
}

#[cfg(test)]
mod tests;
