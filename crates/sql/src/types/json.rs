//! JSON documents: the value behind jsonb.

use super::numeric::Numeric;

/// A JSON document as jsonb keeps it.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// null.
    Null,
    /// true or false.
    Bool(bool),
    /// A number; keeps the zeros behind the point.
    Number(Numeric),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object: keys once each, shorter ones first, then by bytes.
    Object(Vec<(String, Json)>),
}
