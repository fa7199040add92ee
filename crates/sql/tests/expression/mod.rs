//! Reads and evaluates the expressions of the golden cases: literals, casts with `::`, calls, operators (all
//! of one precedence, from the left), parentheses.

use liger_sql::error::{Result, SqlError, SqlState};
use liger_sql::func::cast::cast_value;
use liger_sql::func::{Body, CastContext, FunctionCall, Slot, find_cast, resolve_function, resolve_operator};
use liger_sql::types::context::EvalContext;
use liger_sql::types::{Type, Types, builtin_by_name, oid, text};
use liger_sql::{Oid, Value};

/// A value with its type.
#[derive(Clone, Debug)]
pub struct Typed {
    ty: Oid,
    value: Value,
}

/// A reader over one case.
pub struct Reader<'a> {
    ctx: &'a EvalContext<'a>,
    rest: &'a str,
    /// What `x` stands for.
    variable: Option<Typed>,
}

const OPERATOR: &str = "+-*/<>=~!@#%^&|?";

/// Brings a value to the type that a call wants; a literal is read as it.
pub fn coerce(ctx: &EvalContext<'_>, from: &Typed, to: Oid) -> Result<Value> {
    if from.ty == to || to == oid::ANY {
        return Ok(from.value.clone());
    }
    if from.value.is_null() {
        return Ok(Value::Null);
    }
    if from.ty == oid::UNKNOWN {
        return text::input(ctx, Type::of(to), from.value.as_str().expect("a literal is a text"));
    }
    let path = find_cast(ctx, from.ty, to, CastContext::Implicit).expect("resolution found a cast");
    cast_value(ctx, &path, from.ty, Type::of(to), false, &from.value)
}

fn place(ctx: &EvalContext<'_>, call: &FunctionCall, given: &[Typed]) -> Result<Vec<Value>> {
    let mut placed = Vec::new();
    for slot in &call.slots {
        match slot {
            Slot::Argument { index, ty } => placed.push(coerce(ctx, &given[*index], *ty)?),
            Slot::Default(value) => placed.push(value.clone()),
            Slot::Array { from, element, .. } => {
                let elements: Result<Vec<Value>> =
                    given[*from..].iter().map(|value| coerce(ctx, value, *element)).collect();
                placed.push(Value::array(*element, elements?));
            }
            Slot::Spread { .. } => panic!("no case spreads an array"),
        }
    }
    Ok(placed)
}

impl<'a> Reader<'a> {
    pub fn new(ctx: &'a EvalContext<'a>, case: &'a str) -> Reader<'a> {
        Reader { ctx, rest: case, variable: None }
    }

    fn shown(&self, result: &Typed) -> Result<String> {
        match &result.value {
            Value::Null => Ok("NULL".to_string()),
            value => text::output(self.ctx, result.ty, value),
        }
    }

    /// The text of the whole expression's result.
    pub fn all(&mut self) -> Result<String> {
        let result = self.expression()?;
        assert!(self.rest.trim().is_empty(), "not read: {}", self.rest);
        self.shown(&result)
    }

    /// The rows of a function with `|` between.
    pub fn rows(&mut self) -> Result<String> {
        let name = self.word();
        let given = self.arguments()?;
        let types: Vec<Oid> = given.iter().map(|value| value.ty).collect();
        let call = resolve_function(self.ctx, &name, &types, &[], false)?;
        let ctx = self.ctx.for_call(&call.types, call.result);
        let mut shown = Vec::new();
        for row in call.function.call_set(&ctx, &place(self.ctx, &call, &given)?)? {
            let row = row?;
            if call.function.columns.len() < 2 {
                let null = row[0].is_null();
                let value = self.shown(&Typed { ty: call.result, value: row[0].clone() })?;
                shown.push(if null { String::new() } else { value });
            } else {
                let types: Vec<Oid> = call.function.columns.iter().map(|column| column.1).collect();
                let names = vec!["c".into(); row.len()].into();
                let record = liger_sql::types::value::Record { names, types: types.into(), values: row };
                let value = Value::Record(record.into());
                shown.push(self.shown(&Typed { ty: oid::RECORD, value })?);
            }
        }
        Ok(shown.join("|"))
    }

    /// `function expression`: the bytes of the binary form, and the same value read back from them.
    pub fn binary(&mut self) -> Result<String> {
        self.word();
        let sent = self.expression()?;
        let mut bytes = Vec::new();
        liger_sql::types::binary::send(self.ctx, sent.ty, &sent.value, &mut bytes)?;
        let read = liger_sql::types::binary::receive(self.ctx, Type::of(sent.ty), &bytes, String::new)?;
        let read = self.shown(&Typed { ty: sent.ty, value: read })?;
        assert_eq!(read, self.shown(&sent)?, "what was sent is not what was received");
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// `f(x, ..) over array`.
    pub fn aggregate(&mut self, is_ordered_set: bool) -> Result<String> {
        let (call_text, array_text) = self.rest.split_once(" over ").expect("over");
        let array = Reader::new(self.ctx, array_text).expression()?;
        let Value::Array(elements) = &array.value else { panic!("an array") };
        let element = self.ctx.element_of(array.ty);
        let row = |value: Value| -> Result<(String, Vec<Typed>)> {
            let mut reader = Reader::new(self.ctx, call_text);
            reader.variable = Some(Typed { ty: element, value });
            let name = reader.word();
            let mut given = reader.arguments()?;
            if is_ordered_set {
                given.push(reader.variable.expect("it was set"));
            }
            Ok((name, given))
        };
        let (name, sample) = row(Value::Null)?;
        let types: Vec<Oid> = sample.iter().map(|value| value.ty).collect();
        let call = resolve_function(self.ctx, &name, &types, &[], false)?;
        let ctx = self.ctx.for_call(&call.types, call.result);
        let Body::Aggregate(make) = call.function.body else {
            return Err(SqlError::unsupported(name, "none"));
        };
        let mut state = make(&ctx)?;
        let mut values = elements.elements.clone();
        if is_ordered_set {
            values.sort_by(|a, b| liger_sql::types::order::compare_nulls_last(element, a, b));
        }
        for value in values {
            state.add(&ctx, &place(self.ctx, &call, &row(value)?.1)?)?;
        }
        self.shown(&Typed { ty: call.result, value: state.finish(&ctx)? })
    }

    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn eat(&mut self, c: char) -> bool {
        let eats = self.peek() == Some(c);
        self.rest = &self.rest[if eats { c.len_utf8() } else { 0 }..];
        eats
    }

    fn take(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !keep(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn word(&mut self) -> String {
        self.peek();
        self.take(|c| c.is_alphanumeric() || c == '_').to_string()
    }

    fn arguments(&mut self) -> Result<Vec<Typed>> {
        assert!(self.eat('('), "( expected: {}", self.rest);
        let mut given = Vec::new();
        while !self.eat(')') {
            given.push(self.expression()?);
            self.eat(',');
        }
        Ok(given)
    }

    fn expression(&mut self) -> Result<Typed> {
        let mut left = self.operand()?;
        while self.peek().is_some_and(|c| OPERATOR.contains(c)) {
            let name = self.take(|c| OPERATOR.contains(c));
            let right = self.operand()?;
            let call = resolve_operator(self.ctx, name, Some(left.ty), right.ty)?;
            let placed = [coerce(self.ctx, &left, call.types[0])?, coerce(self.ctx, &right, call.types[1])?];
            let ctx = self.ctx.for_call(&call.types, call.result);
            left = Typed { ty: call.result, value: call.function.call(&ctx, &placed)? };
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Typed> {
        if self.peek().is_some_and(|c| OPERATOR.contains(c)) {
            let name = self.take(|c| OPERATOR.contains(c));
            let right = self.operand()?;
            let call = resolve_operator(self.ctx, name, None, right.ty)?;
            let placed = [coerce(self.ctx, &right, call.types[0])?];
            let ctx = self.ctx.for_call(&call.types, call.result);
            return Ok(Typed { ty: call.result, value: call.function.call(&ctx, &placed)? });
        }
        let mut value = self.primary()?;
        while self.rest.trim_start().starts_with("::") {
            self.rest = &self.rest.trim_start()[2..];
            let ty = self.type_name()?;
            value = self.cast(&value, ty)?;
        }
        Ok(value)
    }

    fn type_name(&mut self) -> Result<Type> {
        let name = self.word();
        let mut modifier = -1;
        if self.rest.starts_with('(') {
            self.rest = &self.rest[1..];
            let numbers: Vec<i32> =
                self.take(|c| c != ')').split(',').map(|n| n.trim().parse().unwrap()).collect();
            self.rest = &self.rest[1..];
            modifier = match (name.as_str(), &numbers[..]) {
                ("numeric", [precision]) => Type::numeric(*precision, 0).modifier,
                ("numeric", [precision, scale]) => Type::numeric(*precision, *scale).modifier,
                ("varchar" | "bpchar" | "char", [length]) => length + 4,
                ("interval", [precision]) => 0x7fff << 16 | precision,
                (_, numbers) => numbers[0],
            };
        }
        let is_array = self.rest.starts_with("[]");
        self.rest = &self.rest[if is_array { 2 } else { 0 }..];
        let name = if name == "char" { "bpchar".to_string() } else { name };
        let info = builtin_by_name(&if is_array { name.clone() + "[]" } else { name.clone() });
        let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"));
        Ok(Type { oid: info.ok_or_else(missing)?.oid, modifier })
    }

    fn cast(&self, value: &Typed, ty: Type) -> Result<Typed> {
        let cast = match (&value.value, value.ty) {
            (Value::Null, _) => Value::Null,
            (Value::Text(literal), oid::UNKNOWN) => {
                // The length is applied as that of an explicit cast.
                let read = text::input(self.ctx, Type { modifier: self.input_modifier(ty), ..ty }, literal)?;
                liger_sql::types::modifier::apply_modifier(self.ctx, ty, true, read)?
            }
            (other, from) => {
                let path = find_cast(self.ctx, from, ty.oid, CastContext::Explicit).ok_or_else(|| {
                    SqlError::new(SqlState::CANNOT_COERCE, format!("no cast from {from} to {}", ty.oid))
                })?;
                cast_value(self.ctx, &path, from, ty, true, other)?
            }
        };
        Ok(Typed { ty: ty.oid, value: cast })
    }

    /// An interval's fields matter when it is read; other modifiers come afterwards.
    fn input_modifier(&self, ty: Type) -> i32 {
        if ty.oid == oid::INTERVAL { ty.modifier } else { -1 }
    }

    fn primary(&mut self) -> Result<Typed> {
        let first = self.peek().expect("an operand");
        if self.eat('(') {
            let inner = self.expression()?;
            assert!(self.eat(')'), ") expected: {}", self.rest);
            return Ok(inner);
        }
        if self.eat('\'') {
            let mut literal = String::new();
            loop {
                literal.push_str(self.take(|c| c != '\''));
                self.rest = &self.rest[1..];
                if !self.rest.starts_with('\'') {
                    return Ok(Typed { ty: oid::UNKNOWN, value: Value::text(literal) });
                }
                literal.push('\'');
                self.rest = &self.rest[1..];
            }
        }
        if first.is_ascii_digit() {
            let digits = self.take(|c| c.is_ascii_digit() || c == '.');
            let ty = match () {
                () if digits.contains('.') => oid::NUMERIC,
                () if digits.parse::<i32>().is_ok() => oid::INT4,
                () if digits.parse::<i64>().is_ok() => oid::INT8,
                () => oid::NUMERIC,
            };
            return Ok(Typed { ty, value: text::input(self.ctx, Type::of(ty), digits)? });
        }
        let mut name = self.word();
        if name == "pg_catalog" && self.eat('.') {
            name = self.word();
        }
        match name.as_str() {
            "null" | "NULL" => return Ok(Typed { ty: oid::UNKNOWN, value: Value::Null }),
            "true" | "false" => return Ok(Typed { ty: oid::BOOL, value: Value::Bool(name == "true") }),
            "x" if self.variable.is_some() => return Ok(self.variable.clone().expect("it is there")),
            _ => {}
        }
        let given = self.arguments()?;
        let types: Vec<Oid> = given.iter().map(|value| value.ty).collect();
        let call = resolve_function(self.ctx, &name, &types, &[], false)?;
        let placed = place(self.ctx, &call, &given)?;
        let ctx = self.ctx.for_call(&call.types, call.result);
        Ok(Typed { ty: call.result, value: call.function.call(&ctx, &placed)? })
    }
}
