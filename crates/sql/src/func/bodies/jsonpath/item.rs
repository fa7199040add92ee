//! What a path gives while it is evaluated: parts of documents, and values that were computed.

use std::cell::OnceCell;
use std::cmp::Ordering;

use crate::error::{Result, SqlError};
use crate::func::bodies::datetime::{date_to_timestamp, utc};
use crate::func::bodies::to_json::document_of;
use crate::types::context::{EvalContext, Settings};
use crate::types::datetime::words::fixed;
use crate::types::datetime::{DAY_US, offset_at};
use crate::types::json::{Json, Kind};
use crate::types::numeric::Numeric;
use crate::types::value::Value;
use crate::types::{Oid, oid, order};

/// An item.
#[derive(Clone)]
pub(super) enum Item<'a> {
    /// A part of a document, of the variables or of the path.
    Part(&'a Json),
    /// A plain value that was computed.
    Made(Json),
    /// A date or a time, and for a timestamptz how many seconds east of UTC its text says it is.
    Moment(Value, i32),
}

/// Objects that are made while a path is evaluated, and live until it has been.
#[derive(Default)]
pub(super) struct Generated {
    pub(super) first: OnceCell<Box<Node>>,
}

pub(super) struct Node {
    pub(super) document: Json,
    pub(super) next: OnceCell<Box<Node>>,
}

impl Drop for Generated {
    /// One after the other: they are too many to drop one within the other.
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(mut node) = next {
            next = node.next.take();
        }
    }
}

/// Type of a moment, and its name.
fn type_of(moment: &Value) -> (Oid, &'static str) {
    match moment {
        Value::Date(_) => (oid::DATE, "date"),
        Value::Time(_) => (oid::TIME, "time without time zone"),
        Value::Timetz(..) => (oid::TIMETZ, "time with time zone"),
        Value::Timestamp(_) => (oid::TIMESTAMP, "timestamp without time zone"),
        Value::Timestamptz(_) => (oid::TIMESTAMPTZ, "timestamp with time zone"),
        other => super::super::wrong("date or time", other),
    }
}

impl<'a> Item<'a> {
    /// The document that it is, unless it is a moment.
    pub(super) fn json(&self) -> Option<&Json> {
        match self {
            Item::Part(json) => Some(json),
            Item::Made(json) => Some(json),
            Item::Moment(..) => None,
        }
    }

    /// The array or object that it is: only parts of documents are such.
    pub(super) fn container(&self) -> Option<&'a Json> {
        match self {
            Item::Part(json @ (Json::Array(_) | Json::Object(_))) => Some(json),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    pub(super) fn elements(&self) -> Option<&'a [Json]> {
        match self.container() {
            Some(Json::Array(elements)) => Some(elements),
            _ => None,
        }
    }

    pub(super) fn is_array(&self) -> bool {
        self.elements().is_some()
    }

    /// The members, if it is an object.
    pub(super) fn members(&self) -> Option<&'a [(String, Json)]> {
        match self.container() {
            Some(Json::Object(members)) => Some(members),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<&Numeric> {
        match self.json() {
            Some(Json::Number(number)) => Some(number),
            _ => None,
        }
    }

    pub(super) fn string(&self) -> Option<&str> {
        match self.json() {
            Some(Json::String(text)) => Some(text),
            _ => None,
        }
    }

    /// What `.type()` calls it.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Item::Moment(moment, _) => type_of(moment).1,
            Item::Part(json) => super::super::json::kind_name(json.kind()),
            Item::Made(json) => super::super::json::kind_name(json.kind()),
        }
    }

    /// The item as a document; moments become texts.
    pub(super) fn into_json(self, ctx: &EvalContext<'_>) -> Result<Json> {
        match self {
            Item::Part(json) => Ok(json.clone()),
            Item::Made(json) => Ok(json),
            Item::Moment(Value::Timetz(micros, west), _) => {
                // ISO 8601 has minutes in every offset.
                let text = crate::types::text::output(ctx, oid::TIMETZ, &Value::Timetz(micros, west))?;
                let has_minutes = west % 3600 != 0;
                Ok(Json::String(text + if has_minutes { "" } else { ":00" }))
            }
            Item::Moment(moment, east) => {
                let settings = Settings { time_zone: fixed(east), ..ctx.settings.clone() };
                let ctx = EvalContext { settings: &settings, ..*ctx };
                document_of(&ctx, type_of(&moment).0, &moment)
            }
        }
    }
}

/// How two items are ordered; `None` if they cannot be.
///
/// # Errors
/// 0A000 for moments whose order depends on the time zone, unless that may be used.
pub(super) fn compare(
    ctx: &EvalContext<'_>,
    with_zone: bool,
    a: &Item<'_>,
    b: &Item<'_>,
) -> Result<Option<Ordering>> {
    Ok(match (a.json(), b.json()) {
        (Some(Json::Null), Some(Json::Null)) => Some(Ordering::Equal),
        (Some(Json::Bool(a)), Some(Json::Bool(b))) => Some(a.cmp(b)),
        (Some(Json::Number(a)), Some(Json::Number(b))) => Some(a.cmp(b)),
        (Some(Json::String(a)), Some(Json::String(b))) => Some(a.cmp(b)),
        (None, None) => match (a, b) {
            (Item::Moment(a, _), Item::Moment(b, _)) => compare_moments(ctx, with_zone, a, b)?,
            _ => unreachable!("what is no document is a moment"),
        },
        _ => None,
    })
}

/// Whether one of the two is null and the other one is not.
pub(super) fn is_null_beside_other(a: &Item<'_>, b: &Item<'_>) -> bool {
    let is_null = |item: &Item<'_>| item.json().is_some_and(|json| json.kind() == Kind::Null);
    is_null(a) != is_null(b)
}

fn check_zone(with_zone: bool, from: &str, to: &str) -> Result<()> {
    if with_zone {
        return Ok(());
    }
    let message = format!("cannot convert value from {from} to {to} without time zone usage");
    Err(SqlError::refused_by_postgresql(message).hint("Use *_tz() function for time zone support."))
}

fn compare_moments(ctx: &EvalContext<'_>, with_zone: bool, a: &Value, b: &Value) -> Result<Option<Ordering>> {
    let reversed = |ctx| Ok(compare_moments(ctx, with_zone, b, a)?.map(Ordering::reverse));
    Ok(Some(match (a, b) {
        (Value::Date(date), Value::Timestamp(micros)) => {
            (i128::from(*date) * i128::from(DAY_US)).cmp(&i128::from(*micros))
        }
        (Value::Date(date), Value::Timestamptz(micros)) => {
            check_zone(with_zone, "date", "timestamptz")?;
            // A day that no timestamp reaches is behind all of them.
            date_to_timestamp(*date).map_or(Ordering::Greater, |local| utc(ctx, local).cmp(micros))
        }
        (Value::Timestamp(local), Value::Timestamptz(micros)) => {
            check_zone(with_zone, "timestamp", "timestamptz")?;
            utc(ctx, *local).cmp(micros)
        }
        (Value::Time(micros), Value::Timetz(..)) => {
            check_zone(with_zone, "time", "timetz")?;
            let west = -offset_at(&ctx.settings.time_zone, ctx.transaction_start_us);
            order::compare(oid::TIMETZ, &Value::Timetz(*micros, west), b)
        }
        (Value::Timestamp(_), Value::Date(_))
        | (Value::Timestamptz(_), Value::Date(_) | Value::Timestamp(_))
        | (Value::Timetz(..), Value::Time(_)) => return reversed(ctx),
        _ if type_of(a).0 == type_of(b).0 => order::compare(type_of(a).0, a, b),
        _ => return Ok(None),
    }))
}
