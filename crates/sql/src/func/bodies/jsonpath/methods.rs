//! What computes new items: arithmetic, and the methods of items.

use super::ids::Offsets;
use super::item::{Item, Node};
use super::run::{Base, Found, Outcome, Run, error};
use crate::error::{Result, SqlState};
use crate::func::bodies::time_read;
use crate::types::context::EvalContext;
use crate::types::json::{Json, object};
use crate::types::jsonpath::{Method, Operator, Path, Step};
use crate::types::numeric::Numeric;
use crate::types::value::Value;
use crate::types::{Type, oid, text};

impl<'a> Run<'a> {
    pub(super) fn arithmetic(
        &mut self,
        path: &'a [Step],
        (operator, left, right): (Operator, &'a Path, &'a Path),
        item: &Item<'a>,
        found: Found<'_, 'a>,
    ) -> Result<Outcome> {
        let Some(left) = self.sequence(left, item, true)? else { return Ok(Outcome::Failed) };
        let Some(right) = self.sequence(right, item, true)? else { return Ok(Outcome::Failed) };
        let number = |items: &[Item<'a>]| match items {
            [only] => only.number().cloned(),
            _ => None,
        };
        let not_single = |side: &str| {
            let symbol = operator.symbol();
            format!("{side} operand of jsonpath operator {symbol} is not a single numeric value")
        };
        let state = SqlState::SINGLETON_SQL_JSON_ITEM_REQUIRED;
        let Some(left) = number(&left) else { return self.fail(state, || not_single("left")) };
        let Some(right) = number(&right) else { return self.fail(state, || not_single("right")) };
        let computed = match operator {
            Operator::Add => Ok(left.add(&right)),
            Operator::Subtract => Ok(left.sub(&right)),
            Operator::Multiply => left.mul(&right),
            Operator::Divide => left.div(&right),
            _ => left.rem(&right),
        };
        match computed {
            Ok(number) => self.next(path, Item::Made(Json::Number(number)), found),
            Err(error) if self.tells => Err(error),
            Err(_) => Ok(Outcome::Failed),
        }
    }

    pub(super) fn sign(
        &mut self,
        path: &'a [Step],
        is_minus: bool,
        of: &'a Path,
        item: &Item<'a>,
        mut found: Found<'_, 'a>,
    ) -> Result<Outcome> {
        let Some(items) = self.sequence(of, item, true)? else { return Ok(Outcome::Failed) };
        let nobody_looks = found.is_none() && path.len() == 1;
        let mut outcome = Outcome::Nothing;
        for item in items {
            let Some(number) = item.number() else {
                if nobody_looks {
                    continue;
                }
                return self.fail(SqlState::SQL_JSON_NUMBER_NOT_FOUND, || {
                    let sign = if is_minus { '-' } else { '+' };
                    format!("operand of unary jsonpath operator {sign} is not a numeric value")
                });
            };
            let number = if is_minus { number.neg() } else { number.clone() };
            match self.next(path, Item::Made(Json::Number(number)), found.as_deref_mut())? {
                Outcome::Failed => return Ok(Outcome::Failed),
                Outcome::Found if found.is_none() => return Ok(Outcome::Found),
                Outcome::Found => outcome = Outcome::Found,
                Outcome::Nothing => {}
            }
        }
        Ok(outcome)
    }

    pub(super) fn method(
        &mut self,
        path: &'a [Step],
        method: Method,
        item: &Item<'a>,
        found: Found<'_, 'a>,
    ) -> Result<Outcome> {
        let name = method.name();
        let made = match method {
            Method::Type => Json::String(item.type_name().to_string()),
            Method::Size => match item.elements() {
                None if !self.lax => {
                    return self.misfit(SqlState::SQL_JSON_ARRAY_NOT_FOUND, || {
                        format!("jsonpath item method .{name}() can only be applied to an array")
                    });
                }
                elements => Json::Number(Numeric::from_i64(elements.map_or(1, <[Json]>::len) as i64)),
            },
            Method::Abs | Method::Floor | Method::Ceiling => {
                let Some(number) = item.number() else {
                    return self.fail(SqlState::NON_NUMERIC_SQL_JSON_ITEM, || {
                        format!("jsonpath item method .{name}() can only be applied to a numeric value")
                    });
                };
                Json::Number(match method {
                    Method::Abs => number.abs(),
                    Method::Floor => number.floor(),
                    _ => number.ceil(),
                })
            }
            Method::Double => match double(self.ctx, item) {
                Ok(number) => Json::Number(number),
                Err(message) => {
                    return self.fail(SqlState::NON_NUMERIC_SQL_JSON_ITEM, || message.to_string());
                }
            },
            Method::KeyValue => return self.key_value(path, item, found),
        };
        self.next(path, Item::Made(made), found)
    }

    pub(super) fn datetime(
        &mut self,
        path: &'a [Step],
        template: Option<&str>,
        item: &Item<'a>,
        found: Found<'_, 'a>,
    ) -> Result<Outcome> {
        let state = SqlState::INVALID_ARGUMENT_FOR_SQL_JSON_DATETIME_FUNCTION;
        let Some(given) = item.string() else {
            return self.fail(state, || {
                "jsonpath item method .datetime() can only be applied to a string".to_string()
            });
        };
        let read = match template {
            Some(template) => match time_read::standard(given, template)? {
                Err(error) if self.tells => return Err(error),
                read => read.ok(),
            },
            None => time_read::iso(given)?,
        };
        match read {
            Some((moment, east)) => self.next(path, Item::Moment(moment, east), found),
            None if template.is_none() && self.tells => {
                let message = format!("datetime format is not recognized: \"{given}\"");
                let hint = "Use a datetime template argument to specify the input data format.";
                Err(error(state, message).hint(hint))
            }
            None => Ok(Outcome::Failed),
        }
    }

    fn key_value(&mut self, path: &'a [Step], item: &Item<'a>, mut found: Found<'_, 'a>) -> Result<Outcome> {
        let Some(members) = item.members() else {
            return self.fail(SqlState::SQL_JSON_OBJECT_NOT_FOUND, || {
                "jsonpath item method .keyvalue() can only be applied to an object".to_string()
            });
        };
        if members.is_empty() || found.is_none() && path.len() == 1 {
            return Ok(if members.is_empty() { Outcome::Nothing } else { Outcome::Found });
        }
        let id = self.number_of(item.container().expect("an object"))?;
        let mut outcome = Outcome::Nothing;
        for (key, value) in members {
            let pair = object(vec![
                ("key".to_string(), Json::String(key.clone())),
                ("value".to_string(), value.clone()),
                ("id".to_string(), Json::Number(Numeric::from_i64(id))),
            ]);
            let pair = self.keep(pair);
            let base = Base { document: Some(pair), number: self.next_number };
            self.next_number += 1;
            outcome = self.with_base(base, path, Item::Part(pair), found.as_deref_mut())?;
            if outcome == Outcome::Failed || outcome == Outcome::Found && found.is_none() {
                break;
            }
        }
        Ok(outcome)
    }

    /// Keeps an object that was made for as long as the path is evaluated.
    fn keep(&mut self, document: Json) -> &'a Json {
        let new = || Box::new(Node { document, next: std::cell::OnceCell::new() });
        let node = self.generated.get_or_init(new);
        self.generated = &node.next;
        &node.document
    }

    /// What `.keyvalue()` numbers an object with.
    fn number_of(&mut self, container: &Json) -> Result<i64> {
        let Base { document: Some(document), number } = self.base else { return Ok(0) };
        let start = match usize::try_from(number).ok().and_then(|number| self.places.get_mut(number)) {
            // A pair that was made: it is small, or its value is asked for once.
            None => Offsets::of(document)?.start(container),
            _ if number == 1 && self.vars.is_none() => Offsets::of(document)?.start(container),
            Some(places) => {
                if places.is_none() {
                    *places = Some(Offsets::of(document)?);
                }
                places.as_ref().map_or(0, |places| places.start(container))
            }
        };
        Ok(start as i64 + number * 10_000_000_000)
    }
}

/// The number that an item is or that its text is, or what is wrong with it.
fn double(ctx: &EvalContext<'_>, item: &Item<'_>) -> std::result::Result<Numeric, &'static str> {
    let read = |given: &str| match text::input(ctx, Type::of(oid::FLOAT8), given) {
        Ok(Value::Float8(double)) if double.is_finite() => Some(double),
        _ => None,
    };
    match (item.number(), item.string()) {
        (Some(number), _) => read(&number.to_string()).map(|_| number.clone()).ok_or(
            "numeric argument of jsonpath item method .double() is out of range for type double precision",
        ),
        (None, Some(given)) => read(given).map(Numeric::from_f64).ok_or(
            "string argument of jsonpath item method .double() is not a valid representation of a double \
             precision number",
        ),
        (None, None) => {
            Err("jsonpath item method .double() can only be applied to a string or numeric value")
        }
    }
}
