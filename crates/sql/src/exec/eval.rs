//! Evaluation of expressions.
use std::cmp::Ordering;
use std::sync::Arc;

use super::{Env, Exec, Row};
use crate::error::{Result, SqlError, SqlState};
use crate::func::cast::cast_value;
use crate::tree::{Const, DomainCheck, Expr, Head, RowOp};
use crate::types::modifier::apply_modifier;
use crate::types::value::{Array, Dimension, Record, Value};
use crate::types::{Oid, order};

/// Three-valued: NULL is `None`.
pub(super) type Truth = Option<bool>;

pub(super) fn truth(truth: Truth) -> Value {
    truth.map_or(Value::Null, Value::Bool)
}

/// Bytes that a name has room for.
const NAME_BYTES: i64 = 64;

impl<'p> Exec<'p> {
    pub(crate) fn eval(&self, expr: &'p Expr, env: &Env<'_>) -> Result<Value> {
        match expr {
            Expr::Const(Const(value)) => Ok(value.clone()),
            Expr::Param(number) => Ok(self.params[*number].clone()),
            Expr::Column { depth, slot } => Ok(level(env, *depth).row[*slot].clone()),
            Expr::Call { head, args, spread } => self.eval_call(head, args, *spread, env),
            Expr::And(list) => self.junction(list, env, false),
            Expr::Or(list) => self.junction(list, env, true),
            Expr::Not(inner) => Ok(truth(self.eval(inner, env)?.as_bool().map(|value| !value))),
            Expr::IsNull { expr, negated, record } => self.is_null(expr, *negated, *record, env),
            Expr::IsTruth { expr, truth, negated } => {
                let value = self.eval(expr, env)?.as_bool();
                Ok(Value::Bool((value == *truth) != *negated))
            }
            Expr::Distinct { head, left, right, negated } => {
                let (left, right) = (self.eval(left, env)?, self.eval(right, env)?);
                let same = match (left.is_null(), right.is_null()) {
                    (true, true) => true,
                    (false, false) => self.test(head, left, right)? == Some(true),
                    _ => false,
                };
                Ok(Value::Bool(same == *negated))
            }
            Expr::Case { operand, whens, otherwise } => {
                self.case(operand.as_deref(), whens, otherwise.as_deref(), env)
            }
            Expr::CaseOperand => Ok(self.case.borrow().last().cloned().unwrap_or(Value::Null)),
            Expr::Coalesce(list) => {
                for part in list {
                    let value = self.eval(part, env)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            Expr::NullIf { head, left, right } => {
                let (left, right) = (self.eval(left, env)?, self.eval(right, env)?);
                let same = self.test(head, left.clone(), right)? == Some(true);
                Ok(if same { Value::Null } else { left })
            }
            Expr::Extreme { greatest, list, ty } => self.extreme(*greatest, list, *ty, env),
            Expr::Cast { expr, path, source, target, explicit } => {
                let value = self.eval(expr, env)?;
                if value.is_null() {
                    return Ok(value);
                }
                if *source == target.oid {
                    return apply_modifier(&self.ctx, *target, *explicit, value);
                }
                cast_value(&self.ctx, path, *source, *target, *explicit, &value)
            }
            Expr::AnyArray { head, left, array, all, cache } => {
                self.any_array(head, left, (array, *cache), *all, env)
            }
            Expr::InList { head, left, list, negated } => {
                let found = self.in_list(head, left, list, env)?;
                Ok(truth(found.map(|found| found != *negated)))
            }
            Expr::RowCompare { op, equals, less, left, right } => {
                let left = self.eval_list(left, env)?;
                let right = self.eval_list(right, env)?;
                self.compare_rows(*op, equals, less, left, right).map(truth)
            }
            Expr::Row { values, names, types } => {
                let (names, types) = (names.clone(), types.clone());
                Ok(Value::Record(Arc::new(Record { names, types, values: self.eval_list(values, env)? })))
            }
            Expr::Array { elements, element, nested } => self.array(elements, *element, *nested, env),
            Expr::Subscript { base, indexes } => self.subscript(base, indexes, env),
            Expr::Slice { base, bounds } => self.slice(base, bounds, env),
            Expr::Checked { expr, checks, .. } => self.in_domain(expr, checks, env),
            Expr::Replaced { base, bounds, slice, element, value } => {
                self.replaced(base, bounds, (*slice, *element), value, env)
            }
            Expr::Field { base, index } => match self.eval(base, env)? {
                Value::Record(record) => Ok(record.values.get(*index).cloned().unwrap_or(Value::Null)),
                _ => Ok(Value::Null),
            },
            Expr::WholeRow { depth, from, names, types } => {
                let values = level(env, *depth).row[*from..*from + names.len()].to_vec();
                if !values.is_empty() && values.iter().all(Value::is_null) {
                    return Ok(Value::Null);
                }
                Ok(Value::Record(Arc::new(Record { names: names.clone(), types: types.clone(), values })))
            }
            Expr::Subquery(subquery) => self.subquery(subquery, env),
            Expr::SetResult(number) => Ok(self.sets.borrow().get(*number).cloned().unwrap_or(Value::Null)),
            Expr::Grouping(numbers) => {
                let (slot, keys) = numbers.split_last().expect("the slot is last");
                let absent = level(env, 0).row[*slot].as_i64().unwrap_or(0);
                let bit = |bits: i32, key: &usize| (bits << 1) | i32::from(absent & (1 << key) != 0);
                Ok(Value::Int4(keys.iter().fold(0, bit)))
            }
            Expr::Aggregate { .. } | Expr::Window(_) => {
                Err(SqlError::new(SqlState::INTERNAL_ERROR, "an aggregate was left in a bound expression"))
            }
        }
    }

    pub(crate) fn eval_list(&self, list: &'p [Expr], env: &Env<'_>) -> Result<Row> {
        list.iter().map(|expr| self.eval(expr, env)).collect()
    }

    fn eval_call(&self, head: &'p Head, args: &'p [Expr], spread: bool, env: &Env<'_>) -> Result<Value> {
        match args {
            [] => self.apply(head, &[]),
            [one] if !spread => self.apply(head, &[self.eval(one, env)?]),
            [one, two] if !spread => self.apply(head, &[self.eval(one, env)?, self.eval(two, env)?]),
            _ => {
                let mut values = self.eval_list(args, env)?;
                if spread {
                    // Only `format` takes a list that is NULL for an empty one.
                    if values.last().is_some_and(Value::is_null) && head.function.name != "format" {
                        return Ok(Value::Null);
                    }
                    spread_last(&mut values);
                }
                self.apply(head, &values)
            }
        }
    }

    pub(crate) fn arguments(&self, args: &'p [Expr], spread: bool, env: &Env<'_>) -> Result<Row> {
        let mut values = self.eval_list(args, env)?;
        if spread {
            spread_last(&mut values);
        }
        Ok(values)
    }

    pub(crate) fn apply(&self, head: &Head, values: &[Value]) -> Result<Value> {
        self.calls.set(self.calls.get() + 1);
        head.function.call(&self.ctx.for_call(&head.types, head.result), values)
    }

    /// A comparison of two values.
    pub(crate) fn test(&self, head: &Head, left: Value, right: Value) -> Result<Truth> {
        Ok(self.apply(head, &[left, right])?.as_bool())
    }

    fn junction(&self, list: &'p [Expr], env: &Env<'_>, decides: bool) -> Result<Value> {
        let mut open = false;
        for part in list {
            match self.eval(part, env)?.as_bool() {
                Some(value) if value == decides => return Ok(Value::Bool(decides)),
                None => open = true,
                Some(_) => {}
            }
        }
        Ok(if open { Value::Null } else { Value::Bool(!decides) })
    }

    fn is_null(&self, expr: &'p Expr, negated: bool, record: bool, env: &Env<'_>) -> Result<Value> {
        let value = self.eval(expr, env)?;
        if let (true, Value::Record(record)) = (record, &value) {
            // A row is NULL if all its fields are, and not NULL if none is.
            let all = record.values.iter().all(|field| field.is_null() != negated);
            return Ok(Value::Bool(all));
        }
        Ok(Value::Bool(value.is_null() != negated))
    }

    fn case(
        &self,
        operand: Option<&'p Expr>,
        whens: &'p [(Expr, Expr)],
        otherwise: Option<&'p Expr>,
        env: &Env<'_>,
    ) -> Result<Value> {
        let operand = operand.map(|operand| self.eval(operand, env)).transpose()?;
        for (condition, result) in whens {
            let chosen = match &operand {
                Some(value) => self.with_operand(value.clone(), || self.eval(condition, env))?,
                None => self.eval(condition, env)?,
            };
            if chosen.as_bool() == Some(true) {
                return self.eval(result, env);
            }
        }
        otherwise.map_or(Ok(Value::Null), |otherwise| self.eval(otherwise, env))
    }

    pub(crate) fn with_operand<T>(&self, value: Value, body: impl FnOnce() -> Result<T>) -> Result<T> {
        self.case.borrow_mut().push(value);
        let result = body();
        self.case.borrow_mut().pop();
        result
    }

    fn extreme(&self, greatest: bool, list: &'p [Expr], ty: Oid, env: &Env<'_>) -> Result<Value> {
        let mut best = Value::Null;
        let wanted = if greatest { Ordering::Greater } else { Ordering::Less };
        for part in list {
            let value = self.eval(part, env)?;
            if !value.is_null() && (best.is_null() || order::compare(ty, &value, &best) == wanted) {
                best = value;
            }
        }
        Ok(best)
    }

    fn compare_rows(
        &self,
        op: RowOp,
        equals: &[Head],
        less: &[Head],
        left: Row,
        right: Row,
    ) -> Result<Truth> {
        if matches!(op, RowOp::Equal | RowOp::NotEqual) {
            let mut result = Some(true);
            for ((head, l), r) in equals.iter().zip(left).zip(right) {
                match self.test(head, l, r)? {
                    Some(false) => {
                        result = Some(false);
                        break;
                    }
                    None => result = None,
                    Some(true) => {}
                }
            }
            return Ok(result.map(|equal| equal == (op == RowOp::Equal)));
        }
        for (at, (l, r)) in left.into_iter().zip(right).enumerate() {
            match self.test(&equals[at], l.clone(), r.clone())? {
                Some(true) => {}
                None => return Ok(None),
                Some(false) => return self.test(&less[at], l, r),
            }
        }
        Ok(Some(matches!(op, RowOp::LessEqual | RowOp::GreaterEqual)))
    }

    fn array(&self, elements: &'p [Expr], element: Oid, nested: bool, env: &Env<'_>) -> Result<Value> {
        let values = self.eval_list(elements, env)?;
        if nested { nest(element, values) } else { Ok(Value::array(element, values)) }
    }

    fn subscript(&self, base: &'p Expr, indexes: &'p [Expr], env: &Env<'_>) -> Result<Value> {
        let base = self.eval(base, env)?;
        let indexes = self.eval_list(indexes, env)?;
        if indexes.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        if let (Some(name), [index]) = (base.as_str(), indexes.as_slice()) {
            // A name is an array of bytes from 0; behind its end are zeros.
            let index = index.as_i64().unwrap_or(-1);
            let byte = usize::try_from(index).ok().and_then(|index| name.as_bytes().get(index).copied());
            return Ok(match byte {
                Some(byte) if byte.is_ascii() => Value::text(char::from(byte).to_string()),
                Some(byte) => Value::text(format!("\\{byte:o}")),
                None if (0..NAME_BYTES).contains(&index) => Value::text(""),
                None => Value::Null,
            });
        }
        let Value::Array(array) = base else { return Ok(Value::Null) };
        if indexes.len() != array.dimensions.len() {
            return Ok(Value::Null);
        }
        let mut at = 0;
        for (dimension, index) in array.dimensions.iter().zip(&indexes) {
            let offset = index.as_i64().unwrap_or(0) - i64::from(dimension.lower);
            if offset < 0 || offset >= i64::from(dimension.len) {
                return Ok(Value::Null);
            }
            at = at * dimension.len as usize + offset as usize;
        }
        Ok(array.elements[at].clone())
    }

    fn in_domain(&self, expr: &'p Expr, checks: &'p [DomainCheck], env: &Env<'_>) -> Result<Value> {
        let value = self.eval(expr, env)?;
        checks.iter().try_for_each(|check| self.domain(value.clone(), check))?;
        Ok(value)
    }

    /// A value with a part of it replaced ([`crate::func::with_element`] and its kin).
    fn replaced(
        &self,
        base: &'p Expr,
        bounds: &'p [(Option<Expr>, Option<Expr>)],
        (slice, element): (bool, crate::types::Oid),
        value: &'p Expr,
        env: &Env<'_>,
    ) -> Result<Value> {
        let (base, value) = (self.eval(base, env)?, self.eval(value, env)?);
        let mut found = Vec::with_capacity(bounds.len());
        for (low, high) in bounds {
            let bound = |expr: &'p Option<Expr>| expr.as_ref().map(|expr| self.eval(expr, env)).transpose();
            let pair = (bound(low)?, bound(high)?);
            if [&pair.0, &pair.1].into_iter().flatten().any(Value::is_null) {
                let what = if element == 0 { "jsonb" } else { "array" };
                let message = format!("{what} subscript in assignment must not be null");
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
            }
            found.push(pair);
        }
        if element == 0 {
            let step = |(_, step): &(Option<Value>, Option<Value>)| {
                step.as_ref().and_then(Value::as_str).unwrap_or_default().to_string()
            };
            let path: Vec<String> = found.iter().map(step).collect();
            let document = if let Value::Jsonb(document) = &base { Some(&**document) } else { None };
            let value = match &value {
                Value::Jsonb(value) => (**value).clone(),
                _ => crate::types::json::Json::Null,
            };
            return Ok(Value::Jsonb(Arc::new(crate::func::in_document(document, &path, &value)?)));
        }
        let array = if let Value::Array(array) = &base { Some(&**array) } else { None };
        let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_i64).map(|n| n as i32);
        if !slice {
            let at: Vec<i32> = found.iter().map(|(_, at)| number(at).unwrap_or(0)).collect();
            return crate::func::with_element(array, element, &at, value)
                .map(|made| Value::Array(Arc::new(made)));
        }
        let Value::Array(source) = value else { return Ok(base) };
        let bounds: Vec<_> = found.iter().map(|(low, high)| (number(low), number(high))).collect();
        let made = crate::func::with_slice(array, element, &bounds, &source)?;
        Ok(Value::Array(Arc::new(made)))
    }

    fn slice(
        &self,
        base: &'p Expr,
        bounds: &'p [(Option<Expr>, Option<Expr>)],
        env: &Env<'_>,
    ) -> Result<Value> {
        let Value::Array(array) = self.eval(base, env)? else { return Ok(Value::Null) };
        let mut ranges = Vec::new();
        for (at, dimension) in array.dimensions.iter().enumerate() {
            let (first, last) = (i64::from(dimension.lower), i64::from(dimension.lower + dimension.len - 1));
            let bound = |expr: Option<&'p Expr>, open: i64| -> Result<Option<i64>> {
                match expr {
                    None => Ok(Some(open)),
                    Some(expr) => Ok(self.eval(expr, env)?.as_i64()),
                }
            };
            let (low, high) = match bounds.get(at) {
                Some((low, high)) => (bound(low.as_ref(), first)?, bound(high.as_ref(), last)?),
                None => (Some(first), Some(last)),
            };
            let (Some(low), Some(high)) = (low, high) else { return Ok(Value::Null) };
            ranges.push((low.max(first) - first, high.min(last) - first));
        }
        let empty = Value::array(array.element, Vec::new());
        if bounds.len() > array.dimensions.len() || ranges.iter().any(|(low, high)| low > high) {
            return Ok(empty);
        }
        let mut picked = vec![0usize];
        for ((low, high), dimension) in ranges.iter().zip(&array.dimensions) {
            let len = dimension.len as usize;
            picked =
                picked.iter().flat_map(|at| (*low..=*high).map(move |i| at * len + i as usize)).collect();
        }
        let elements = picked.into_iter().map(|at| array.elements[at].clone()).collect();
        let size = |(low, high): &(i64, i64)| Dimension { len: (high - low + 1) as i32, lower: 1 };
        let dimensions = ranges.iter().map(size).collect();
        Ok(Value::Array(Arc::new(Array { element: array.element, dimensions, elements })))
    }
}

fn level<'e>(env: &'e Env<'e>, depth: u16) -> &'e Env<'e> {
    let mut env = env;
    for _ in 0..depth {
        env = env.outer.expect("a column's level is there");
    }
    env
}

/// Arrays of one shape as one array of one more dimension.
pub(super) fn nest(element: Oid, values: Row) -> Result<Value> {
    let mismatch = || {
        let message = "multidimensional arrays must have array expressions with matching dimensions";
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
    };
    let mut dimensions: Option<Vec<Dimension>> = None;
    let mut elements = Vec::new();
    let count = values.len();
    for value in values {
        let Value::Array(array) = value else {
            continue;
        };
        match &dimensions {
            None => dimensions = Some(array.dimensions.clone()),
            Some(known) if *known == array.dimensions => {}
            Some(_) => return Err(mismatch()),
        }
        elements.extend(array.elements.iter().cloned());
    }
    let inner = dimensions.unwrap_or_default();
    if inner.is_empty() {
        return Ok(Value::array(element, Vec::new()));
    }
    let outer = Dimension { len: count as i32, lower: 1 };
    let dimensions = [outer].into_iter().chain(inner).collect();
    Ok(Value::Array(Arc::new(Array { element, dimensions, elements })))
}

/// The elements of the array that is the last argument in its place; none for NULL.
fn spread_last(values: &mut Row) {
    if let Some(Value::Array(array)) = values.pop() {
        values.extend(array.elements.iter().cloned());
    }
}
