//! The order of JSON documents, as jsonb has it.

use std::cmp::Ordering;

use super::Json;

/// The order of two documents: objects over arrays over booleans over numbers over strings over null; arrays
/// and objects by their number of elements first. A document that is an empty array is less than anything
/// else; one within a document is an array as any other.
pub fn compare(a: &Json, b: &Json) -> Ordering {
    let empty = |document: &Json| matches!(document, Json::Array(elements) if elements.is_empty());
    empty(b).cmp(&empty(a)).then_with(|| compare_within(a, b))
}

fn compare_within(a: &Json, b: &Json) -> Ordering {
    let rank = |document: &Json| match document {
        Json::Null => 0,
        Json::String(_) => 1,
        Json::Number(_) => 2,
        Json::Bool(_) => 3,
        Json::Array(_) => 4,
        Json::Object(_) => 5,
    };
    match (a, b) {
        (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
        (Json::Number(a), Json::Number(b)) => a.cmp(b),
        (Json::String(a), Json::String(b)) => a.cmp(b),
        (Json::Array(a), Json::Array(b)) => {
            let elements = || a.iter().zip(b).map(|(a, b)| compare_within(a, b)).find(|order| order.is_ne());
            a.len().cmp(&b.len()).then_with(|| elements().unwrap_or(Ordering::Equal))
        }
        (Json::Object(a), Json::Object(b)) => {
            let pair = |((key, value), (other_key, other)): (&(String, Json), &(String, Json))| {
                key.cmp(other_key).then_with(|| compare_within(value, other))
            };
            let members = || a.iter().zip(b).map(pair).find(|order| order.is_ne());
            a.len().cmp(&b.len()).then_with(|| members().unwrap_or(Ordering::Equal))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}
