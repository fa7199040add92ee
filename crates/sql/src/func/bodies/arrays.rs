//! Functions and operators of arrays.

use std::sync::Arc;

use super::{array, int4, rows, scalar, set};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::Body;
use crate::stop;
use crate::types::context::EvalContext;
use crate::types::order::compare;
use crate::types::value::{Array, Dimension, Value};
use crate::types::{Oid, Types};

fn made(element: Oid, dimensions: Vec<Dimension>, elements: Vec<Value>) -> Result<Value> {
    Ok(Value::Array(Arc::new(Array { element, dimensions, elements })))
}

fn bad_subscript(message: &str) -> SqlError {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

fn same(element: Oid, a: &Value, b: &Value) -> bool {
    match (a.is_null(), b.is_null()) {
        (false, false) => compare(element, a, b).is_eq(),
        (a, b) => a && b,
    }
}

/// Whether each element of `part` is equal to one of `whole`; NULLs equal nothing.
fn contains(whole: &Array, part: &Array) -> Result<bool> {
    for wanted in &part.elements {
        stop::check()?;
        if wanted.is_null() || !whole.elements.iter().any(|e| !e.is_null() && same(whole.element, e, wanted))
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two arrays have an element in common; NULLs equal nothing.
fn overlap(left: &Array, right: &Array) -> Result<bool> {
    for wanted in left.elements.iter().filter(|e| !e.is_null()) {
        stop::check()?;
        if right.elements.iter().any(|e| !e.is_null() && same(left.element, wanted, e)) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn find(source: &str) -> Option<Body> {
    shape(source).or_else(|| asking(source)).or_else(|| changing(source))
}

fn dimension(a: &[Value]) -> Option<Dimension> {
    let at = usize::try_from(int4(&a[1])).ok()?.checked_sub(1)?;
    array(&a[0]).dimensions.get(at).copied()
}

fn int_or_null(number: Option<i32>) -> Result<Value> {
    Ok(number.map_or(Value::Null, Value::Int4))
}

fn shape(source: &str) -> Option<Body> {
    match source {
        "array_length" => scalar(|_, a| int_or_null(dimension(a).map(|d| d.len))),
        "array_lower" => scalar(|_, a| int_or_null(dimension(a).map(|d| d.lower))),
        "array_upper" => scalar(|_, a| int_or_null(dimension(a).map(|d| d.lower + d.len - 1))),
        "array_ndims" => scalar(|_, a| {
            let count = array(&a[0]).dimensions.len() as i32;
            int_or_null((count > 0).then_some(count))
        }),
        "array_cardinality" => scalar(|_, a| Ok(Value::Int4(array(&a[0]).elements.len() as i32))),
        "array_dims" => scalar(|_, a| {
            let dimensions = &array(&a[0]).dimensions;
            if dimensions.is_empty() {
                return Ok(Value::Null);
            }
            let shown = dimensions.iter().map(|d| format!("[{}:{}]", d.lower, d.lower + d.len - 1));
            Ok(Value::text(shown.collect::<String>()))
        }),
        "array_unnest" => set(|_, a| rows(array(&a[0]).elements.clone())),
        _ => None,
    }
}

fn one_dimension(array: &Array, what: &str) -> Result<()> {
    if array.dimensions.len() > 1 {
        let message = format!("{what} multidimensional arrays is not supported");
        return Err(SqlError::refused_by_postgresql(message));
    }
    Ok(())
}

fn position(a: &[Value], start: i32) -> Result<Value> {
    if a[0].is_null() {
        return Ok(Value::Null);
    }
    let array = array(&a[0]);
    one_dimension(array, "searching for elements in")?;
    let lower = array.dimensions.first().map_or(1, |d| d.lower);
    let skip = start.saturating_sub(lower).max(0) as usize;
    let found = array.elements.iter().skip(skip).position(|e| same(array.element, e, &a[1]));
    int_or_null(found.map(|at| at as i32 + skip as i32 + lower))
}

fn asking(source: &str) -> Option<Body> {
    match source {
        "arraycontains" => scalar(|_, a| contains(array(&a[0]), array(&a[1])).map(Value::Bool)),
        "arraycontained" => scalar(|_, a| contains(array(&a[1]), array(&a[0])).map(Value::Bool)),
        "arrayoverlap" => scalar(|_, a| overlap(array(&a[0]), array(&a[1])).map(Value::Bool)),
        "array_position" => scalar(|_, a| position(a, i32::MIN)),
        "array_position_start" => scalar(|_, a| match &a[2] {
            Value::Null => {
                let message = "initial position must not be null";
                Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message))
            }
            start => position(a, int4(start)),
        }),
        "array_positions" => scalar(|_, a| {
            if a[0].is_null() {
                return Ok(Value::Null);
            }
            let array = array(&a[0]);
            one_dimension(array, "searching for elements in")?;
            let lower = array.dimensions.first().map_or(1, |d| d.lower);
            let equal = array.elements.iter().enumerate().filter(|(_, e)| same(array.element, e, &a[1]));
            let places = equal.map(|(at, _)| Value::Int4(at as i32 + lower)).collect();
            Ok(Value::array(crate::types::oid::INT4, places))
        }),
        _ => None,
    }
}

/// The element type that a call's result array has.
fn element_of(ctx: &EvalContext<'_>, known: Option<&Value>) -> Oid {
    match known {
        Some(Value::Array(array)) => array.element,
        _ => ctx.element_of(ctx.result_type),
    }
}

fn changing(source: &str) -> Option<Body> {
    match source {
        "array_append" => scalar(|ctx, a| push(ctx, &a[0], &a[1], false)),
        "array_prepend" => scalar(|ctx, a| push(ctx, &a[1], &a[0], true)),
        "array_cat" => scalar(|_, a| match (&a[0], &a[1]) {
            (Value::Null, other) | (other, Value::Null) => Ok(other.clone()),
            (left, right) => concat(array(left), array(right)),
        }),
        "array_remove" | "array_replace" => match source {
            "array_remove" => scalar(|_, a| {
                let Value::Array(array) = &a[0] else { return Ok(Value::Null) };
                one_dimension(array, "removing elements from")?;
                let kept = array.elements.iter().filter(|e| !same(array.element, e, &a[1])).cloned();
                let kept: Vec<Value> = kept.collect();
                let shape = array.dimensions.first().map(|d| Dimension { len: kept.len() as i32, ..*d });
                made(array.element, shape.into_iter().filter(|d| d.len > 0).collect(), kept)
            }),
            _ => scalar(|_, a| {
                let Value::Array(array) = &a[0] else { return Ok(Value::Null) };
                let swap = |e: &Value| if same(array.element, e, &a[1]) { a[2].clone() } else { e.clone() };
                made(array.element, array.dimensions.clone(), array.elements.iter().map(swap).collect())
            }),
        },
        "array_fill" | "array_fill_with_lower_bounds" => scalar(fill),
        "trim_array" => scalar(|_, a| {
            let (array, count) = (array(&a[0]), int4(&a[1]));
            let len = array.dimensions.first().map_or(0, |d| d.len);
            if !(0..=len).contains(&count) {
                let message = format!("number of elements to trim must be between 0 and {len}");
                return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
            }
            let mut dimensions = array.dimensions.clone();
            let row = array.elements.len() / len.max(1) as usize;
            if let Some(first) = dimensions.first_mut() {
                *first = Dimension { len: len - count, lower: 1 };
            }
            let kept = array.elements[..row * (len - count) as usize].to_vec();
            made(array.element, if kept.is_empty() { Vec::new() } else { dimensions }, kept)
        }),
        _ => None,
    }
}

fn push(ctx: &EvalContext<'_>, to: &Value, element: &Value, in_front: bool) -> Result<Value> {
    let Value::Array(array) = to else {
        return Ok(Value::array(element_of(ctx, None), vec![element.clone()]));
    };
    if array.dimensions.len() > 1 {
        return Err(SqlError::new(
            SqlState::DATA_EXCEPTION,
            "argument must be empty or one-dimensional array",
        ));
    }
    let lower = array.dimensions.first().map_or(1, |d| d.lower);
    let mut elements = Vec::with_capacity(array.elements.len() + 1);
    elements.extend(in_front.then(|| element.clone()));
    elements.extend_from_slice(&array.elements);
    elements.extend((!in_front).then(|| element.clone()));
    made(array.element, vec![Dimension { len: elements.len() as i32, lower }], elements)
}

fn concat(left: &Arc<Array>, right: &Arc<Array>) -> Result<Value> {
    if left.dimensions.is_empty() || right.dimensions.is_empty() {
        let kept = if left.dimensions.is_empty() { right } else { left };
        return Ok(Value::Array(Arc::clone(kept)));
    }
    let (a, b) = (&left.dimensions, &right.dimensions);
    let lens = |dimensions: &[Dimension]| dimensions.iter().map(|d| d.len).collect::<Vec<_>>();
    let mut dimensions;
    match a.len() as i32 - b.len() as i32 {
        0 if lens(&a[1..]) == lens(&b[1..]) => {
            dimensions = a.clone();
            dimensions[0].len += b[0].len;
        }
        1 if lens(&a[1..]) == lens(b) => {
            dimensions = a.clone();
            dimensions[0].len += 1;
        }
        -1 if lens(a) == lens(&b[1..]) => {
            dimensions = b.clone();
            dimensions[0].len += 1;
        }
        apart => {
            let detail = match apart {
                0 => "Arrays with differing element dimensions are not compatible for concatenation."
                    .to_string(),
                1 | -1 => {
                    "Arrays with differing dimensions are not compatible for concatenation.".to_string()
                }
                _ => {
                    let (a, b) = (a.len(), b.len());
                    format!("Arrays of {a} and {b} dimensions are not compatible for concatenation.")
                }
            };
            return Err(bad_subscript("cannot concatenate incompatible arrays").detail(detail));
        }
    }
    made(left.element, dimensions, [&left.elements[..], &right.elements[..]].concat())
}

fn fill(ctx: &EvalContext<'_>, a: &[Value]) -> Result<Value> {
    let null = |what: &str| {
        SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, format!("dimension {what} cannot be null"))
    };
    let numbers = |value: &Value| -> Result<Vec<i32>> {
        if value.is_null() {
            return Err(null("array or low bound array"));
        }
        let number = |e: &Value| if e.is_null() { Err(null("values")) } else { Ok(int4(e)) };
        array(value).elements.iter().map(number).collect()
    };
    let wrong = |detail: &str| bad_subscript("wrong number of array subscripts").detail(detail);
    let lens = numbers(&a[1])?;
    let is_deep = |bounds: &&Value| !bounds.is_null() && array(bounds).dimensions.len() > 1;
    if a[1..].iter().any(|bounds| is_deep(&bounds)) {
        return Err(wrong("Dimension array must be one dimensional."));
    }
    let lowers = a.get(2).map_or(Ok(vec![1; lens.len()]), numbers)?;
    if lens.len() != lowers.len() {
        return Err(wrong("Low bound array has different size than dimensions array."));
    }
    let mut count: i64 = 1;
    for len in &lens {
        count = count.saturating_mul(i64::from(*len));
        if *len < 0 || count > 1 << 27 {
            let message = "array size exceeds the maximum allowed (134217727)";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
    }
    let element = ctx.element_of(ctx.result_type);
    if lens.is_empty() || count == 0 {
        return made(element, Vec::new(), Vec::new());
    }
    let dimensions = lens.iter().zip(lowers).map(|(len, lower)| Dimension { len: *len, lower }).collect();
    let mut elements = Vec::new();
    for at in 0..count as usize {
        stop::check_at(at)?;
        elements.push(a[0].clone());
    }
    made(element, dimensions, elements)
}

/// The element of an array at these subscripts; NULL where there is none (`array[i][j]`).
pub fn subscript(array: &Array, subscripts: &[i32]) -> Value {
    if subscripts.len() != array.dimensions.len() {
        return Value::Null;
    }
    let mut at = 0usize;
    for (subscript, dimension) in subscripts.iter().zip(&array.dimensions) {
        let offset = i64::from(*subscript) - i64::from(dimension.lower);
        if offset < 0 || offset >= i64::from(dimension.len) {
            return Value::Null;
        }
        at = at * dimension.len as usize + offset as usize;
    }
    array.elements[at].clone()
}

/// The part of an array between these bounds of each dimension (`array[a:b]`); empty where there is none.
pub fn slice(array: &Array, bounds: &[(Option<i32>, Option<i32>)]) -> Array {
    let empty = Array { element: array.element, dimensions: Vec::new(), elements: Vec::new() };
    if bounds.len() > array.dimensions.len() {
        return empty;
    }
    let mut ranges = Vec::new();
    for (i, dimension) in array.dimensions.iter().enumerate() {
        let last = dimension.lower + dimension.len - 1;
        let (low, high) = bounds.get(i).copied().unwrap_or_default();
        let (low, high) =
            (low.unwrap_or(dimension.lower).max(dimension.lower), high.unwrap_or(last).min(last));
        if low > high {
            return empty;
        }
        ranges.push((low - dimension.lower, high - dimension.lower));
    }
    let mut places = vec![0usize];
    for ((low, high), dimension) in ranges.iter().zip(&array.dimensions) {
        let within = |place: usize| (*low..=*high).map(move |i| place * dimension.len as usize + i as usize);
        places = places.into_iter().flat_map(within).collect();
    }
    let dimensions = ranges.iter().map(|(low, high)| Dimension { len: high - low + 1, lower: 1 }).collect();
    let elements = places.into_iter().map(|place| array.elements[place].clone()).collect();
    Array { element: array.element, dimensions, elements }
}
