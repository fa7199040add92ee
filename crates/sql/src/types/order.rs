//! Order, equality and hashing of values: what B-trees, ORDER BY, DISTINCT, GROUP BY and hash joins go by.

use std::cmp::Ordering;

use super::Oid;
use super::value::Value;

/// The order of two values of type `ty`, neither of them NULL (the type's default B-tree order).
///
/// # Panics
/// If the values are not both of this type.
pub fn compare(_ty: Oid, _a: &Value, _b: &Value) -> Ordering {
    Ordering::Equal
}

/// A number that is the same for values of type `ty` that compare as equal, NULLs included.
pub fn hash(_ty: Oid, _value: &Value) -> u64 {
    0
}
