//! Bytes of values that say themselves what they are: numeric, jsonb, arrays, rows.
//!
//! ```text
//! value   tag u8, then as the tag says (numbers little-endian; len is u32)
//! text    len, bytes        numeric  kind u8, scale u16, len, two's complement of the unscaled value
//! array   element u32, dimensions u8, (len i32, lower i32) each, elements
//! row     count u32, (name, type, value) each
//! json    tag u8: null, false, true, number, string, array (count), object (count, (key, value) each)
//! path    its exact text
//! ```
//!
//! It does NOT sort: see key.rs.

use std::sync::Arc;

use num_bigint::BigInt;

use super::row::{array, damaged};
use crate::error::{Result, SqlError, SqlState};
use crate::types::json::Json;
use crate::types::jsonpath;
use crate::types::numeric::Numeric;
use crate::types::value::{Array, Dimension, EnumLabel, Interval, Record, Value};

/// Levels of arrays, rows and documents within one another.
const DEPTH_MAX: usize = 500;

/// Appends a value.
///
/// # Errors
/// If it is nested too deeply.
pub fn write(value: &Value, out: &mut Vec<u8>) -> Result<()> {
    write_at(value, out, 0)
}

/// The value of these bytes.
///
/// # Errors
/// If they are damaged.
pub fn read(bytes: &[u8]) -> Result<Value> {
    let mut reader = Reader { bytes, at: 0, depth: 0 };
    let value = reader.value()?;
    if reader.at == bytes.len() { Ok(value) } else { Err(damaged("a value's end")) }
}

/// Appends the values that are written one after the other in these bytes.
///
/// # Errors
/// If they are damaged.
pub fn read_all(bytes: &[u8], out: &mut Vec<Value>) -> Result<()> {
    let mut reader = Reader { bytes, at: 0, depth: 0 };
    while reader.at < bytes.len() {
        out.push(reader.value()?);
    }
    Ok(())
}

/// A text of these bytes.
///
/// # Errors
/// If they are no UTF-8.
pub fn text(bytes: &[u8]) -> Result<Arc<str>> {
    std::str::from_utf8(bytes).map(Arc::from).map_err(|_| damaged("a text"))
}

fn number(n: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(n as u32).to_le_bytes());
}

fn put(bytes: &[u8], out: &mut Vec<u8>) {
    number(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn write_at(value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    if depth > DEPTH_MAX {
        return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "a value is nested too deeply"));
    }
    macro_rules! tagged {
        ($tag:literal, $($bytes:expr),*) => {{ out.push($tag); $(out.extend_from_slice(&$bytes);)* }};
    }
    match value {
        Value::Null => out.push(0),
        Value::Bool(b) => tagged!(1, [u8::from(*b)]),
        Value::Int2(n) => tagged!(2, n.to_le_bytes()),
        Value::Int4(n) => tagged!(3, n.to_le_bytes()),
        Value::Int8(n) => tagged!(4, n.to_le_bytes()),
        Value::Oid(n) => tagged!(5, n.to_le_bytes()),
        Value::Float4(x) => tagged!(6, x.to_le_bytes()),
        Value::Float8(x) => tagged!(7, x.to_le_bytes()),
        Value::Numeric(n) => {
            out.push(8);
            write_numeric(n, out);
        }
        Value::Text(text) => {
            out.push(9);
            put(text.as_bytes(), out);
        }
        Value::Bytea(bytes) => {
            out.push(10);
            put(bytes, out);
        }
        Value::Date(n) => tagged!(11, n.to_le_bytes()),
        Value::Time(n) => tagged!(12, n.to_le_bytes()),
        Value::Timetz(n, west) => tagged!(13, n.to_le_bytes(), west.to_le_bytes()),
        Value::Timestamp(n) => tagged!(14, n.to_le_bytes()),
        Value::Timestamptz(n) => tagged!(15, n.to_le_bytes()),
        Value::Interval(it) => {
            tagged!(16, it.micros.to_le_bytes(), it.days.to_le_bytes(), it.months.to_le_bytes());
        }
        Value::Uuid(bytes) => tagged!(17, bytes[..]),
        Value::Json(text) => {
            out.push(18);
            put(text.as_bytes(), out);
        }
        Value::Jsonb(json) => {
            out.push(19);
            write_json(json, out, depth)?;
        }
        Value::Array(array) => {
            tagged!(20, array.element.to_le_bytes(), [array.dimensions.len() as u8]);
            for dimension in &array.dimensions {
                out.extend_from_slice(&dimension.len.to_le_bytes());
                out.extend_from_slice(&dimension.lower.to_le_bytes());
            }
            number(array.elements.len(), out);
            array.elements.iter().try_for_each(|element| write_at(element, out, depth + 1))?;
        }
        Value::Enum(label) => {
            tagged!(21, label.oid.to_le_bytes(), label.order.to_le_bytes());
            put(label.label.as_bytes(), out);
        }
        Value::Record(record) => {
            tagged!(22, (record.values.len() as u32).to_le_bytes());
            for ((name, ty), value) in record.names.iter().zip(record.types.iter()).zip(&record.values) {
                put(name.as_bytes(), out);
                out.extend_from_slice(&ty.to_le_bytes());
                write_at(value, out, depth + 1)?;
            }
        }
        Value::Void => out.push(23),
        Value::Jsonpath(path) => {
            out.push(24);
            put(path.exact().as_bytes(), out);
        }
    }
    Ok(())
}

fn write_numeric(n: &Numeric, out: &mut Vec<u8>) {
    match n {
        Numeric::NaN => out.push(0),
        Numeric::Infinity => out.push(1),
        Numeric::MinusInfinity => out.push(2),
        Numeric::Small(unscaled, scale) => {
            out.push(3);
            out.extend_from_slice(&scale.to_le_bytes());
            let bytes = unscaled.to_le_bytes();
            // Without the bytes that only repeat the sign.
            let sign = if *unscaled < 0 { 0xff } else { 0 };
            let mut len = 8;
            while len > 1 && bytes[len - 1] == sign && (bytes[len - 2] ^ sign) & 0x80 == 0 {
                len -= 1;
            }
            out.push(len as u8);
            out.extend_from_slice(&bytes[..len]);
        }
        Numeric::Big(big) => {
            out.push(4);
            out.extend_from_slice(&big.1.to_le_bytes());
            put(&big.0.to_signed_bytes_le(), out);
        }
    }
}

fn write_json(json: &Json, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    if depth > DEPTH_MAX {
        return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "a document is nested too deeply"));
    }
    match json {
        Json::Null => out.push(0),
        Json::Bool(b) => out.push(1 + u8::from(*b)),
        Json::Number(n) => {
            out.push(3);
            write_numeric(n, out);
        }
        Json::String(text) => {
            out.push(4);
            put(text.as_bytes(), out);
        }
        Json::Array(elements) => {
            out.push(5);
            number(elements.len(), out);
            elements.iter().try_for_each(|element| write_json(element, out, depth + 1))?;
        }
        Json::Object(members) => {
            out.push(6);
            number(members.len(), out);
            for (key, value) in members {
                put(key.as_bytes(), out);
                write_json(value, out, depth + 1)?;
            }
        }
    }
    Ok(())
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let found = array(self.bytes, self.at)?;
        self.at += N;
        Ok(found)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.fixed::<1>()?[0])
    }

    fn count(&mut self) -> Result<usize> {
        let count = u32::from_le_bytes(self.fixed()?) as usize;
        // Everything that is counted takes a byte at least.
        if count > self.bytes.len() - self.at { Err(damaged("a count")) } else { Ok(count) }
    }

    fn slice(&mut self, len: usize) -> Result<&'a [u8]> {
        let found = self.bytes.get(self.at..self.at + len).ok_or_else(|| damaged("a value's length"))?;
        self.at += len;
        Ok(found)
    }

    fn sized(&mut self) -> Result<&'a [u8]> {
        let len = self.count()?;
        self.slice(len)
    }

    fn text(&mut self) -> Result<Arc<str>> {
        text(self.sized()?)
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX + 1 {
            return Err(damaged("a value's depth"));
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn value(&mut self) -> Result<Value> {
        Ok(match self.byte()? {
            0 => Value::Null,
            1 => Value::Bool(self.byte()? != 0),
            2 => Value::Int2(i16::from_le_bytes(self.fixed()?)),
            3 => Value::Int4(i32::from_le_bytes(self.fixed()?)),
            4 => Value::Int8(i64::from_le_bytes(self.fixed()?)),
            5 => Value::Oid(u32::from_le_bytes(self.fixed()?)),
            6 => Value::Float4(f32::from_le_bytes(self.fixed()?)),
            7 => Value::Float8(f64::from_le_bytes(self.fixed()?)),
            8 => Value::Numeric(self.numeric()?),
            9 => Value::Text(self.text()?),
            10 => Value::Bytea(self.sized()?.into()),
            11 => Value::Date(i32::from_le_bytes(self.fixed()?)),
            12 => Value::Time(i64::from_le_bytes(self.fixed()?)),
            13 => Value::Timetz(i64::from_le_bytes(self.fixed()?), i32::from_le_bytes(self.fixed()?)),
            14 => Value::Timestamp(i64::from_le_bytes(self.fixed()?)),
            15 => Value::Timestamptz(i64::from_le_bytes(self.fixed()?)),
            16 => Value::Interval(Interval {
                micros: i64::from_le_bytes(self.fixed()?),
                days: i32::from_le_bytes(self.fixed()?),
                months: i32::from_le_bytes(self.fixed()?),
            }),
            17 => Value::Uuid(Arc::new(self.fixed()?)),
            18 => Value::Json(self.text()?),
            19 => Value::Jsonb(Arc::new(self.deeper(Self::json)?)),
            20 => Value::Array(Arc::new(self.deeper(Self::array)?)),
            21 => {
                let oid = u32::from_le_bytes(self.fixed()?);
                let order = f32::from_le_bytes(self.fixed()?);
                Value::Enum(Arc::new(EnumLabel { oid, order, label: self.text()? }))
            }
            22 => Value::Record(Arc::new(self.deeper(Self::record)?)),
            23 => Value::Void,
            24 => {
                let path = jsonpath::parse(&self.text()?).map_err(|_| damaged("a path"))?;
                Value::Jsonpath(Arc::new(path))
            }
            _ => return Err(damaged("a value's tag")),
        })
    }

    fn array(&mut self) -> Result<Array> {
        let element = u32::from_le_bytes(self.fixed()?);
        let dimensions = (0..self.byte()?).map(|_| {
            let len = i32::from_le_bytes(self.fixed()?);
            Ok(Dimension { len, lower: i32::from_le_bytes(self.fixed()?) })
        });
        let dimensions = dimensions.collect::<Result<_>>()?;
        let elements = (0..self.count()?).map(|_| self.value()).collect::<Result<_>>()?;
        Ok(Array { element, dimensions, elements })
    }

    fn record(&mut self) -> Result<Record> {
        let (mut names, mut types, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.count()? {
            names.push(self.text()?);
            types.push(u32::from_le_bytes(self.fixed()?));
            values.push(self.value()?);
        }
        Ok(Record { names: names.into(), types: types.into(), values })
    }

    fn numeric(&mut self) -> Result<Numeric> {
        Ok(match self.byte()? {
            0 => Numeric::NaN,
            1 => Numeric::Infinity,
            2 => Numeric::MinusInfinity,
            3 => {
                let scale = u16::from_le_bytes(self.fixed()?);
                let len = usize::from(self.byte()?);
                let bytes = self.slice(len)?;
                if !(1..=8).contains(&len) {
                    return Err(damaged("a numeric"));
                }
                let sign = if bytes[len - 1] & 0x80 == 0 { 0 } else { 0xff };
                let mut whole = [sign; 8];
                whole[..len].copy_from_slice(bytes);
                Numeric::Small(i64::from_le_bytes(whole), scale)
            }
            4 => {
                let scale = u16::from_le_bytes(self.fixed()?);
                Numeric::Big(Box::new((BigInt::from_signed_bytes_le(self.sized()?), scale)))
            }
            _ => return Err(damaged("a numeric")),
        })
    }

    fn json(&mut self) -> Result<Json> {
        Ok(match self.byte()? {
            0 => Json::Null,
            tag @ 1..=2 => Json::Bool(tag == 2),
            3 => Json::Number(self.numeric()?),
            4 => Json::String(self.text()?.to_string()),
            5 => {
                let elements = (0..self.count()?).map(|_| self.deeper(Self::json));
                Json::Array(elements.collect::<Result<_>>()?)
            }
            6 => {
                let member = |reader: &mut Self| Ok((reader.text()?.to_string(), reader.deeper(Self::json)?));
                Json::Object((0..self.count()?).map(|_| member(self)).collect::<Result<_>>()?)
            }
            _ => return Err(damaged("a document")),
        })
    }
}
