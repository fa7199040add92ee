//! Values with a part of them replaced: `array[i]`, `array[i:j]` and `document['key']` as targets of UPDATE.

use crate::error::{Result, SqlError, SqlState};
use crate::types::Oid;
use crate::types::json::{Json, object};
use crate::types::value::{Array, Dimension, Value};

/// Most elements of an array.
const ELEMENTS_MAX: i64 = 134_217_727;

fn wrong_subscript(message: &str) -> SqlError {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

fn extended(array: &Array, low: i64, high: i64, with: impl Fn(i64) -> Option<Value>) -> Result<Array> {
    let dimension = array.dimensions[0];
    let (first, end) = (i64::from(dimension.lower), i64::from(dimension.lower) + i64::from(dimension.len));
    let (first_new, end_new) = (first.min(low), end.max(high + 1));
    if end_new - first_new > ELEMENTS_MAX {
        let message = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let old = |at: i64| {
        if at < first || at >= end { Value::Null } else { array.elements[(at - first) as usize].clone() }
    };
    let elements = (first_new..end_new).map(|at| with(at).unwrap_or_else(|| old(at))).collect();
    let dimensions = vec![Dimension { len: (end_new - first_new) as i32, lower: first_new as i32 }];
    Ok(Array { element: array.element, dimensions, elements })
}

/// The array with the element at these subscripts replaced; NULLs fill what lies between.
///
/// # Errors
/// 2202E for subscripts that the array's dimensions do not have.
pub fn with_element(array: Option<&Array>, element: Oid, at: &[i32], value: Value) -> Result<Array> {
    let Some(array) = array.filter(|array| !array.dimensions.is_empty()) else {
        let dimensions = at.iter().map(|lower| Dimension { len: 1, lower: *lower }).collect();
        return Ok(Array { element, dimensions, elements: vec![value] });
    };
    if array.dimensions.len() != at.len() {
        return Err(wrong_subscript("wrong number of array subscripts"));
    }
    if let [only] = at {
        let only = i64::from(*only);
        return extended(array, only, only, |place| (place == only).then(|| value.clone()));
    }
    let mut place = 0usize;
    for (subscript, dimension) in at.iter().zip(&array.dimensions) {
        let offset = i64::from(*subscript) - i64::from(dimension.lower);
        if offset < 0 || offset >= i64::from(dimension.len) {
            return Err(wrong_subscript("array subscript out of range"));
        }
        place = place * dimension.len as usize + offset as usize;
    }
    let mut array = array.clone();
    array.elements[place] = value;
    Ok(array)
}

/// The array with the elements between these bounds replaced by those of `source`.
///
/// # Errors
/// 2202E for bounds that the array's dimensions do not have, or too few elements.
pub fn with_slice(
    array: Option<&Array>,
    element: Oid,
    bounds: &[(Option<i32>, Option<i32>)],
    source: &Array,
) -> Result<Array> {
    let mut ranges = Vec::new();
    let array = array.filter(|array| !array.dimensions.is_empty());
    for (i, (low, high)) in bounds.iter().enumerate() {
        let own = array.and_then(|array| array.dimensions.get(i));
        let low = low.or(own.map(|own| own.lower));
        let high = high.or(own.map(|own| own.lower + own.len - 1));
        let (Some(low), Some(high)) = (low, high) else {
            return Err(wrong_subscript("array slice subscript must provide both boundaries").detail(
                "When assigning to a slice of an empty array value, slice boundaries must be fully \
                 specified.",
            ));
        };
        if low > high {
            return Err(wrong_subscript("upper bound cannot be less than lower bound"));
        }
        ranges.push((i64::from(low), i64::from(high)));
    }
    let many = |ranges: &[(i64, i64)]| ranges.iter().map(|(low, high)| high - low + 1).product::<i64>();
    let enough = |ranges: &[(i64, i64)]| match (source.elements.len() as i64) < many(ranges) {
        true => Err(wrong_subscript("source array too small")),
        false => Ok(()),
    };
    let Some(array) = array else {
        enough(&ranges)?;
        let dimension =
            |(low, high): &(i64, i64)| Dimension { len: (high - low + 1) as i32, lower: *low as i32 };
        let dimensions = ranges.iter().map(dimension).collect();
        let elements = source.elements[..many(&ranges) as usize].to_vec();
        return Ok(Array { element, dimensions, elements });
    };
    if array.dimensions.len() < ranges.len() {
        return Err(wrong_subscript("wrong number of array subscripts"));
    }
    if array.dimensions.len() == 1 {
        enough(&ranges)?;
        let (low, high) = ranges[0];
        let given =
            |at: i64| (low..=high).contains(&at).then(|| source.elements[(at - low) as usize].clone());
        return extended(array, low, high, given);
    }
    for (i, dimension) in array.dimensions.iter().enumerate() {
        let (first, last) = (i64::from(dimension.lower), i64::from(dimension.lower + dimension.len - 1));
        match ranges.get(i) {
            Some((low, high)) if *low < first || *high > last => {
                return Err(wrong_subscript("array subscript out of range"));
            }
            Some(_) => {}
            None => ranges.push((first, last)),
        }
    }
    enough(&ranges)?;
    let mut places = vec![0usize];
    for ((low, high), dimension) in ranges.iter().zip(&array.dimensions) {
        let from = (low - i64::from(dimension.lower)) as usize;
        let to = (high - i64::from(dimension.lower)) as usize;
        let within = |place: usize| (from..=to).map(move |i| place * dimension.len as usize + i);
        places = places.into_iter().flat_map(within).collect();
    }
    let mut array = array.clone();
    for (place, value) in places.into_iter().zip(&source.elements) {
        array.elements[place] = value.clone();
    }
    Ok(array)
}

/// The document with what the path leads to replaced; what is missing on the way is made, an array where the
/// step is a number.
///
/// # Errors
/// 22023 where the path leads into a plain value.
pub fn in_document(document: Option<&Json>, path: &[String], value: &Json) -> Result<Json> {
    match document {
        Some(document) => put(document, path, 0, value),
        None => Ok(made(path, value)),
    }
}

/// What a path makes of nothing.
fn made(path: &[String], value: &Json) -> Json {
    let Some((step, rest)) = path.split_first() else { return value.clone() };
    match step.parse::<usize>() {
        Ok(at) => {
            let mut elements = vec![Json::Null; at];
            elements.push(made(rest, value));
            Json::Array(elements)
        }
        Err(_) => object(vec![(step.clone(), made(rest, value))]),
    }
}

fn put(document: &Json, path: &[String], depth: usize, value: &Json) -> Result<Json> {
    let Some((step, rest)) = path.split_first() else { return Ok(value.clone()) };
    let within =
        |old: &Json| if rest.is_empty() { Ok(value.clone()) } else { put(old, rest, depth + 1, value) };
    match document {
        Json::Object(members) => {
            let mut members = members.clone();
            match members.iter().position(|(key, _)| key == step) {
                Some(at) => members[at].1 = within(&members[at].1)?,
                None => members.push((step.clone(), made(rest, value))),
            }
            Ok(object(members))
        }
        Json::Array(elements) => {
            let mut elements = elements.clone();
            let given: i64 = step.trim().parse().map_err(|_| {
                let message = format!("path element at position {} is not an integer: \"{step}\"", depth + 1);
                SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
            })?;
            let at = if given < 0 { given + elements.len() as i64 } else { given };
            let Ok(at) = usize::try_from(at) else {
                let message = format!("path element at position {} is out of range: {given}", depth + 1);
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            };
            match elements.get(at) {
                Some(old) => elements[at] = within(old)?,
                None => {
                    elements.resize(at, Json::Null);
                    elements.push(made(rest, value));
                }
            }
            Ok(Json::Array(elements))
        }
        _ => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "cannot replace existing key")
            .detail("The path assumes key is a composite object, but it is a scalar value.")),
    }
}
