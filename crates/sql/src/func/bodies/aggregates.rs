//! Aggregates: counting, sums, extremes, and collecting into texts, arrays and documents.

use std::sync::Arc;

use super::to_json::{document_of, key, write};
use super::{bool_of, text};
use crate::error::{Result, SqlError, SqlState};
use crate::func::registry::{Accumulator, AggregateFn, Body};
use crate::types::context::EvalContext;
use crate::types::json::{Json, object, write_string};
use crate::types::numeric::Numeric;
use crate::types::value::{Array, Dimension, Interval, Value};
use crate::types::{Oid, Types, oid, order};

pub(super) fn find(name: &str) -> Option<Body> {
    let make: AggregateFn = match name {
        "count" => |_| Ok(Box::new(Count(0))),
        "sum" => |ctx| sum(ctx, false),
        "avg" => |ctx| sum(ctx, true),
        "min" => |ctx| Ok(Box::new(Extreme { ty: argument(ctx, 0), wants_less: true, best: Value::Null })),
        "max" => |ctx| Ok(Box::new(Extreme { ty: argument(ctx, 0), wants_less: false, best: Value::Null })),
        "bool_and" | "every" => |_| Ok(Box::new(Fold { state: Value::Null, step: and })),
        "bool_or" => |_| Ok(Box::new(Fold { state: Value::Null, step: or })),
        "bit_and" => {
            |_| Ok(Box::new(Fold { state: Value::Null, step: |a, b| bits(a, b, "AND", |a, b| a & b) }))
        }
        "bit_or" => {
            |_| Ok(Box::new(Fold { state: Value::Null, step: |a, b| bits(a, b, "OR", |a, b| a | b) }))
        }
        "bit_xor" => {
            |_| Ok(Box::new(Fold { state: Value::Null, step: |a, b| bits(a, b, "XOR", |a, b| a ^ b) }))
        }
        "string_agg" => |_| Ok(Box::new(Joined::Nothing)),
        "array_agg" => |ctx| Ok(Box::new(Collected { element: argument(ctx, 0), values: None })),
        "json_agg" => |_| Ok(Box::new(JsonList { made: String::new(), is_b: false, values: None })),
        "jsonb_agg" => |_| Ok(Box::new(JsonList { made: String::new(), is_b: true, values: None })),
        "json_object_agg" => {
            |_| Ok(Box::new(JsonMembers { made: String::new(), is_b: false, members: None }))
        }
        "jsonb_object_agg" => {
            |_| Ok(Box::new(JsonMembers { made: String::new(), is_b: true, members: None }))
        }
        _ => return None,
    };
    Some(Body::Aggregate(make))
}

fn argument(ctx: &EvalContext<'_>, at: usize) -> Oid {
    ctx.argument_types.get(at).copied().unwrap_or(oid::TEXT)
}

struct Count(i64);

impl Accumulator for Count {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        self.0 += i64::from(arguments.first().is_none_or(|value| !value.is_null()));
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        Ok(Value::Int8(self.0))
    }
}

fn sum(ctx: &EvalContext<'_>, is_average: bool) -> Result<Box<dyn Accumulator>> {
    Ok(match argument(ctx, 0) {
        ty @ (oid::INT2 | oid::INT4 | oid::INT8) => Box::new(Integers { ty, is_average, sum: 0, count: 0 }),
        ty @ (oid::FLOAT4 | oid::FLOAT8) => Box::new(Floats { ty, is_average, sum: 0.0, count: 0 }),
        oid::INTERVAL => Box::new(Intervals { is_average, sum: Interval::default(), count: 0 }),
        oid::MONEY => Box::new(Fold { state: Value::Null, step: super::money::add }),
        _ => Box::new(Numerics { is_average, sum: Numeric::ZERO, count: 0 }),
    })
}

/// Sums of integers are exact in 128 bits; the result is a bigint for smaller ones, else a numeric.
struct Integers {
    ty: Oid,
    is_average: bool,
    sum: i128,
    count: i64,
}

impl Accumulator for Integers {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        if let Some(number) = arguments[0].as_i64() {
            self.sum += i128::from(number);
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        if self.count == 0 {
            return Ok(Value::Null);
        }
        if self.is_average {
            let average = Numeric::from_i128(self.sum, 0).div(&Numeric::from_i64(self.count))?;
            return Ok(Value::Numeric(average));
        }
        if self.ty == oid::INT8 {
            return Ok(Value::Numeric(Numeric::from_i128(self.sum, 0)));
        }
        let sum = i64::try_from(self.sum).map(Value::Int8);
        sum.map_err(|_| super::numbers::out_of_range("bigint"))
    }
}

struct Floats {
    ty: Oid,
    is_average: bool,
    sum: f64,
    count: i64,
}

impl Accumulator for Floats {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        let float = match arguments[0] {
            Value::Float4(float) => f64::from(float),
            Value::Float8(float) => float,
            _ => return Ok(()),
        };
        let sum = match (self.ty, self.is_average) {
            (oid::FLOAT4, false) => f64::from((self.sum + float) as f32),
            _ => self.sum + float,
        };
        self.sum = super::numbers::checked(sum, self.sum.is_infinite() || float.is_infinite(), true)?;
        self.count += 1;
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        Ok(match (self.count, self.is_average, self.ty) {
            (0, ..) => Value::Null,
            (count, true, _) => Value::Float8(self.sum / count as f64),
            (_, false, oid::FLOAT4) => Value::Float4(self.sum as f32),
            _ => Value::Float8(self.sum),
        })
    }
}

struct Numerics {
    is_average: bool,
    sum: Numeric,
    count: i64,
}

impl Accumulator for Numerics {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        if let Value::Numeric(number) = &arguments[0] {
            self.sum = self.sum.add(number);
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        Ok(match (self.count, self.is_average) {
            (0, _) => Value::Null,
            (count, true) => Value::Numeric(self.sum.div(&Numeric::from_i64(count))?),
            _ => Value::Numeric(self.sum.clone()),
        })
    }
}

struct Intervals {
    is_average: bool,
    sum: Interval,
    count: i64,
}

impl Accumulator for Intervals {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        if let Value::Interval(interval) = arguments[0] {
            self.sum = self.sum.plus(interval)?;
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        Ok(match (self.count, self.is_average) {
            (0, _) => Value::Null,
            (count, true) => Value::Interval(self.sum.scale(1.0 / count as f64)?),
            _ => Value::Interval(self.sum),
        })
    }
}

/// min and max.
struct Extreme {
    ty: Oid,
    wants_less: bool,
    best: Value,
}

impl Accumulator for Extreme {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        let value = &arguments[0];
        if value.is_null() {
            return Ok(());
        }
        let better = self.best.is_null() || {
            let order = order::compare(self.ty, value, &self.best);
            if self.wants_less { order.is_lt() } else { order.is_gt() }
        };
        if better {
            self.best = value.clone();
        }
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        Ok(self.best.clone())
    }
}

/// An operation over all values that are not NULL.
struct Fold {
    state: Value,
    step: fn(&Value, &Value) -> Result<Value>,
}

impl Accumulator for Fold {
    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        let value = &arguments[0];
        if !value.is_null() {
            self.state = if self.state.is_null() { value.clone() } else { (self.step)(&self.state, value)? };
        }
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        Ok(self.state.clone())
    }
}

fn and(a: &Value, b: &Value) -> Result<Value> {
    Ok(Value::Bool(bool_of(a) && bool_of(b)))
}

fn or(a: &Value, b: &Value) -> Result<Value> {
    Ok(Value::Bool(bool_of(a) || bool_of(b)))
}

fn bits(a: &Value, b: &Value, name: &str, op: fn(i64, i64) -> i64) -> Result<Value> {
    Ok(match (a, b) {
        (Value::Int2(a), Value::Int2(b)) => Value::Int2(op(i64::from(*a), i64::from(*b)) as i16),
        (Value::Int4(a), Value::Int4(b)) => Value::Int4(op(i64::from(*a), i64::from(*b)) as i32),
        (Value::Int8(a), Value::Int8(b)) => Value::Int8(op(*a, *b)),
        (Value::Text(a), Value::Text(b)) => Value::text(super::bits::combine(a, b, name, op)?),
        (other, _) => super::wrong("integer", other),
    })
}

/// string_agg of texts or byte strings.
enum Joined {
    Nothing,
    Text(String),
    Bytes(Vec<u8>),
}

impl Accumulator for Joined {
    fn collects(&self) -> bool {
        true
    }

    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        match (&mut *self, &arguments[0], &arguments[1]) {
            (_, Value::Null, _) => {}
            (Joined::Nothing, Value::Bytea(bytes), _) => *self = Joined::Bytes(bytes.to_vec()),
            (Joined::Nothing, first, _) => *self = Joined::Text(text(first).to_owned()),
            (Joined::Bytes(so_far), piece, separator) => {
                for part in [separator, piece].into_iter().filter(|part| !part.is_null()) {
                    so_far.extend_from_slice(super::bytea(part));
                }
            }
            (Joined::Text(so_far), piece, separator) => {
                so_far.push_str(separator.as_str().unwrap_or(""));
                so_far.push_str(text(piece));
            }
        }
        Ok(())
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        Ok(match self {
            Joined::Nothing => Value::Null,
            Joined::Text(joined) => Value::text(joined.as_str()),
            Joined::Bytes(joined) => Value::bytea(joined.as_slice()),
        })
    }
}

/// array_agg; of arrays, it makes an array with one dimension more.
struct Collected {
    element: Oid,
    values: Option<Vec<Value>>,
}

impl Accumulator for Collected {
    fn collects(&self) -> bool {
        true
    }

    fn add(&mut self, _: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        self.values.get_or_insert_default().push(arguments[0].clone());
        Ok(())
    }

    fn finish(&self, ctx: &EvalContext<'_>) -> Result<Value> {
        let Some(values) = &self.values else { return Ok(Value::Null) };
        if ctx.element_of(self.element) == 0 {
            return Ok(Value::array(self.element, values.clone()));
        }
        let bad = |state, message: &str| SqlError::new(state, message);
        let mut inner: Option<&Arc<Array>> = None;
        let mut elements = Vec::new();
        for value in values {
            let Value::Array(array) = value else {
                return Err(bad(SqlState::NULL_VALUE_NOT_ALLOWED, "cannot accumulate null arrays"));
            };
            if inner.is_none() && array.dimensions.is_empty() {
                return Err(bad(SqlState::ARRAY_SUBSCRIPT_ERROR, "cannot accumulate empty arrays"));
            }
            if inner.is_some_and(|first| first.dimensions != array.dimensions) {
                let message = "cannot accumulate arrays of different dimensionality";
                return Err(bad(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
            }
            inner = Some(array);
            elements.extend(array.elements.iter().cloned());
        }
        let inner = inner.expect("there is a value");
        let outer = Dimension { len: values.len() as i32, lower: 1 };
        let dimensions = [&[outer], &inner.dimensions[..]].concat();
        Ok(Value::Array(Arc::new(Array { element: inner.element, dimensions, elements })))
    }
}

/// json_agg keeps text, jsonb_agg documents.
struct JsonList {
    made: String,
    is_b: bool,
    values: Option<Vec<Json>>,
}

impl Accumulator for JsonList {
    fn collects(&self) -> bool {
        true
    }

    fn add(&mut self, ctx: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        let ty = argument(ctx, 0);
        let values = self.values.get_or_insert_default();
        if self.is_b {
            values.push(document_of(ctx, ty, &arguments[0])?);
            return Ok(());
        }
        let is_composite = matches!(arguments[0], Value::Array(_) | Value::Record(_));
        if !self.made.is_empty() {
            self.made.push_str(if is_composite { ", \n " } else { ", " });
        }
        write(ctx, ty, &arguments[0], false, &mut self.made)
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        Ok(match &self.values {
            None => Value::Null,
            Some(values) if self.is_b => Value::Jsonb(Arc::new(Json::Array(values.clone()))),
            Some(_) => Value::Json(format!("[{}]", self.made).into()),
        })
    }
}

struct JsonMembers {
    made: String,
    is_b: bool,
    members: Option<Vec<(String, Json)>>,
}

impl Accumulator for JsonMembers {
    fn collects(&self) -> bool {
        true
    }

    fn add(&mut self, ctx: &EvalContext<'_>, arguments: &[Value]) -> Result<()> {
        let name = match &arguments[0] {
            Value::Null => {
                let message = "field name must not be null";
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            name => key(ctx, argument(ctx, 0), name, 1)?,
        };
        let members = self.members.get_or_insert_default();
        if self.is_b {
            members.push((name, document_of(ctx, argument(ctx, 1), &arguments[1])?));
            return Ok(());
        }
        self.made.push_str(if self.made.is_empty() { "" } else { ", " });
        write_string(&name, &mut self.made);
        self.made.push_str(" : ");
        write(ctx, argument(ctx, 1), &arguments[1], false, &mut self.made)
    }

    fn finish(&self, _: &EvalContext<'_>) -> Result<Value> {
        Ok(match &self.members {
            None => Value::Null,
            Some(members) if self.is_b => Value::Jsonb(Arc::new(object(members.clone()))),
            Some(_) => Value::Json(format!("{{ {} }}", self.made).into()),
        })
    }
}
