//! Expressions.

use std::sync::Arc;

use super::scope::{ExprKind, ScopeColumn};
use super::select::check_entries;
use super::{Binder, Collation, Meant, Scope, Typed, fail};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::Pos;
use crate::parse::ast::{self, IsTest, Kind, Subscript};
use crate::tree::{Expr, Fields, Form};
use crate::types::array::{DIMENSIONS_MAX, too_many_dimensions};
use crate::types::value::Value;
use crate::types::{Oid, Type, bits, oid, text};

impl Binder<'_> {
    pub(crate) fn exprs(&self, scope: &mut Scope<'_>, list: &[ast::Expr]) -> Result<Vec<Typed>> {
        list.iter().map(|expr| self.expr(scope, expr)).collect()
    }

    pub(crate) fn expr(&self, scope: &mut Scope<'_>, ast: &ast::Expr) -> Result<Typed> {
        let pos = ast.pos;
        let typed = |expr, oid| Ok(Typed::new(expr, Type::of(oid), pos));
        match &ast.kind {
            Kind::Null => typed(Expr::null(), oid::UNKNOWN),
            Kind::Bool(value) => typed(Expr::value(Value::Bool(*value)), oid::BOOL),
            Kind::Integer(digits) => self.integer(digits, pos),
            Kind::Float(digits) => self.numeric(digits, pos),
            Kind::Str(literal) => typed(Expr::value(Value::text(literal.as_str())), oid::UNKNOWN),
            Kind::Bits(digits, hex) => {
                let bits = bits::parse_digits(digits, *hex).map_err(|error| error.at(pos + 1))?;
                typed(Expr::value(Value::text(bits)), oid::BIT)
            }
            Kind::Param(number) => self.parameter(*number, pos),
            Kind::Column(parts) => self.column(scope, parts, pos),
            Kind::Star(parts) if !parts.is_empty() => scope.row_of(parts, pos),
            Kind::Star(_) => {
                fail(SqlState::SYNTAX_ERROR, pos, "row expansion via \"*\" is not supported here")
            }
            Kind::Default => fail(SqlState::SYNTAX_ERROR, pos, "DEFAULT is not allowed in this context"),
            Kind::Unary(op, operand) => {
                let operand = self.expr(scope, operand)?;
                self.operator(&op.name, None, operand, pos)
            }
            Kind::Binary(op, left, right) => self.binary(scope, op, left, right, pos),
            Kind::And(list) => typed(Expr::And(self.conditions(scope, list, "AND")?), oid::BOOL),
            Kind::Or(list) => typed(Expr::Or(self.conditions(scope, list, "OR")?), oid::BOOL),
            Kind::Not(operand) => {
                let operand = self.expr(scope, operand)?;
                typed(Expr::Not(Box::new(self.boolean(operand, "NOT")?)), oid::BOOL)
            }
            Kind::Is { expr, test, negated } => self.is_test(scope, expr, *test, *negated, pos),
            Kind::Distinct { left, right, negated } => self.distinct(scope, left, right, *negated, pos),
            Kind::Between { expr, low, high, negated, symmetric } => {
                self.between(scope, expr, low, high, *negated, *symmetric, pos)
            }
            Kind::InList { expr, list, negated } => self.in_list(scope, expr, list, *negated, pos),
            Kind::InQuery { expr, query, negated } => self.in_query(scope, expr, query, *negated, pos),
            Kind::Like { kind, expr, pattern, escape, negated } => {
                self.like(scope, *kind, expr, pattern, escape.as_deref(), *negated, pos)
            }
            Kind::AnyArray { left, op, all, array } => self.any_array(scope, left, op, *all, array, pos),
            Kind::AnyQuery { left, op, all, query } => self.any_query(scope, left, op, *all, query, pos),
            Kind::Cast(inner, name, at) => self.cast_expr(scope, inner, name, pos, *at),
            Kind::Func(call) => self.call(scope, call, pos),
            Kind::SqlValue(name, precision) => self.sql_value(name, *precision, pos),
            Kind::Case { operand, whens, otherwise } => {
                let around = scope.no_sets.replace("CASE");
                let case = self.case(scope, operand.as_deref(), whens, otherwise.as_deref(), pos);
                scope.no_sets = around;
                case
            }
            Kind::Coalesce(list) => {
                let around = scope.no_sets.replace("COALESCE");
                let list = self.exprs(scope, list);
                scope.no_sets = around;
                let list = list?;
                let collation = Collation::of(&list)?;
                let (list, ty) = self.common(list, "COALESCE")?;
                Ok(Typed::new(Expr::Coalesce(list), ty, pos).collated(collation))
            }
            Kind::NullIf(left, right) => self.nullif(scope, left, right, pos),
            Kind::Extreme(greatest, list) => {
                let list = self.exprs(scope, list)?;
                let collation = Collation::of(&list)?;
                let (list, ty) = self.common(list, if *greatest { "GREATEST" } else { "LEAST" })?;
                let expr = Expr::Extreme { greatest: *greatest, list, ty: ty.oid };
                Ok(Typed::new(expr, ty, pos).collated(collation))
            }
            Kind::Grouping(list) => self.grouping(scope, list, pos),
            Kind::Row(list, _) => self.row(scope, list, pos),
            Kind::Array(list) => self.array(scope, list, None, pos),
            Kind::ArrayQuery(query) => self.array_query(scope, query, pos),
            Kind::Exists(query) => self.exists(scope, query, pos),
            Kind::Scalar(query) => self.scalar_query(scope, query, pos),
            Kind::Subscript(base, subscripts) => self.subscript(scope, base, subscripts, pos),
            Kind::Field(base, name) => self.field(scope, base, name, pos),
            Kind::FieldStar(_) => {
                fail(SqlState::SYNTAX_ERROR, pos, "row expansion via \"*\" is not supported here")
            }
            Kind::Collate(inner, name) => self.collate(scope, inner, name, pos),
        }
    }

    fn conditions(&self, scope: &mut Scope<'_>, list: &[ast::Expr], what: &str) -> Result<Vec<Expr>> {
        let bind = |part: &ast::Expr| self.expr(scope, part).and_then(|typed| self.boolean(typed, what));
        list.iter().map(bind).collect()
    }

    fn integer(&self, digits: &str, pos: Pos) -> Result<Typed> {
        let (value, ty) = match (digits.parse::<i32>(), digits.parse::<i64>()) {
            (Ok(number), _) => (Value::Int4(number), oid::INT4),
            (_, Ok(number)) => (Value::Int8(number), oid::INT8),
            _ => return self.numeric(digits, pos),
        };
        Ok(Typed::new(Expr::value(value), Type::of(ty), pos))
    }

    fn numeric(&self, digits: &str, pos: Pos) -> Result<Typed> {
        let value =
            text::input(&self.ctx, Type::of(oid::NUMERIC), digits).map_err(|error| error.at(pos + 1))?;
        Ok(Typed::new(Expr::value(value), Type::of(oid::NUMERIC), pos))
    }

    fn parameter(&self, number: u16, pos: Pos) -> Result<Typed> {
        let number = usize::from(number) - 1;
        let mut parameters = self.parameters.borrow_mut();
        if parameters.len() <= number {
            parameters.resize(number + 1, 0);
        }
        let ty = match parameters[number] {
            0 => oid::UNKNOWN,
            ty => ty,
        };
        Ok(Typed::new(Expr::Param(number), Type::of(ty), pos))
    }

    fn column(&self, scope: &mut Scope<'_>, parts: &[String], pos: Pos) -> Result<Typed> {
        let place = if scope.place == ExprKind::AggregateArgument { scope.around } else { scope.place };
        if place == ExprKind::Lasting(super::DEFAULTS) {
            let message = "cannot use column reference in DEFAULT expression";
            return Err(SqlError::refused_by_postgresql(message).at(pos + 1));
        }
        match scope.column_of(parts, pos) {
            Ok((typed, (relation, number))) => {
                // A row goes on without one of its columns.
                if number != 0 {
                    self.looks_at((relation, number));
                }
                if matches!(scope.place, ExprKind::Lasting(_)) && relation != 0 {
                    let of_row = number == 0;
                    self.spelled(
                        pos,
                        if of_row { Meant::Row(relation) } else { Meant::Column(relation, number) },
                    );
                }
                Ok(typed)
            }
            // `table.function`: the field notation for a call is not taken, but a field of a row column is.
            Err(error) if parts.len() >= 2 && error.state != SqlState::AMBIGUOUS_COLUMN => {
                let (last, base) = parts.split_last().expect("two parts");
                match scope.column(base, pos) {
                    // A column that a table lacks is no field of its rows.
                    Ok(_) if error.state == SqlState::UNDEFINED_COLUMN => Err(error),
                    Ok(base) => self.field_of(scope, base, last, pos),
                    Err(_) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn is_test(
        &self,
        scope: &mut Scope<'_>,
        expr: &ast::Expr,
        test: IsTest,
        negated: bool,
        pos: Pos,
    ) -> Result<Typed> {
        let operand = self.expr(scope, expr)?;
        let truth = match test {
            IsTest::Null => {
                let operand = self.settled(operand)?;
                let record = operand.ty.oid == oid::RECORD;
                let expr = Expr::IsNull { expr: Box::new(operand.expr), negated, record };
                return Ok(Typed::new(expr, Type::of(oid::BOOL), pos));
            }
            IsTest::True => Some(true),
            IsTest::False => Some(false),
            IsTest::Unknown => None,
        };
        let what = match test {
            IsTest::True => "IS TRUE",
            IsTest::False => "IS FALSE",
            _ => "IS UNKNOWN",
        };
        let expr = Box::new(self.boolean(operand, what)?);
        Ok(Typed::new(Expr::IsTruth { expr, truth, negated }, Type::of(oid::BOOL), pos))
    }

    fn cast_expr(
        &self,
        scope: &mut Scope<'_>,
        inner: &ast::Expr,
        name: &ast::TypeName,
        pos: Pos,
        at: Pos,
    ) -> Result<Typed> {
        let target = self.resolve_type(name)?;
        if let Kind::Array(list) = &inner.kind {
            let element = self.types().element_of(target.oid);
            if element != 0 {
                let array = self.array(scope, list, Some(element), pos)?;
                return self.cast(array, target);
            }
        }
        let mut operand = self.expr(scope, inner)?;
        if !operand.is_open() {
            operand.pos = pos;
        }
        let source = operand.ty.oid;
        let cast = self.coerce_written(operand, target)?;
        let cast = cast.ok_or_else(|| self.cannot_cast(source, target.oid, at))?;
        // To a type without a length: of any length.
        Ok(Typed { ty: Type { modifier: target.modifier, ..cast.ty }, ..cast })
    }

    fn sql_value(&self, name: &'static str, precision: Option<i64>, pos: Pos) -> Result<Typed> {
        let (function, target) = match name {
            "current_timestamp" => ("now", oid::TIMESTAMPTZ),
            "current_date" => ("now", oid::DATE),
            "current_time" => ("now", oid::TIMETZ),
            "localtime" => ("now", oid::TIME),
            "localtimestamp" => ("now", oid::TIMESTAMP),
            "current_role" | "current_user" | "user" => ("current_user", oid::NAME),
            "session_user" => ("session_user", oid::NAME),
            "current_catalog" => ("current_database", oid::NAME),
            _ => ("current_schema", oid::NAME),
        };
        let mut value = self.call_named(function, Vec::new(), pos)?;
        let target = Type { oid: target, modifier: precision.map_or(-1, |digits| digits.clamp(0, 6) as i32) };
        if let Expr::Call { head, .. } = &mut value.expr {
            head.form = Form::Keyword(name, target);
        }
        self.cast(value, target)
    }

    fn case(
        &self,
        scope: &mut Scope<'_>,
        operand: Option<&ast::Expr>,
        whens: &[(ast::Expr, ast::Expr)],
        otherwise: Option<&ast::Expr>,
        pos: Pos,
    ) -> Result<Typed> {
        let operand =
            operand.map(|operand| self.expr(scope, operand).and_then(|o| self.settled(o))).transpose()?;
        let (mut conditions, mut results) = (Vec::new(), Vec::new());
        for (condition, result) in whens {
            let bound = self.expr(scope, condition)?;
            conditions.push(match &operand {
                Some(operand) => {
                    let collation = operand.collation;
                    let operand =
                        Typed::new(Expr::CaseOperand, operand.ty, condition.pos).collated(collation);
                    self.operator("=", Some(operand), bound, condition.pos)?.expr
                }
                None => self.boolean(bound, "CASE/WHEN")?,
            });
            results.push(self.expr(scope, result)?);
        }
        // The ELSE counts first for the common type, as in PostgreSQL.
        let default = match otherwise {
            Some(otherwise) => self.expr(scope, otherwise)?,
            None => Typed::new(Expr::null(), Type::of(oid::UNKNOWN), pos),
        };
        results.insert(0, default);
        let collation = Collation::of(&results)?;
        let (mut results, ty) = self.common(results, "CASE")?;
        let otherwise = Some(Box::new(results.remove(0)));
        let operand = operand.map(|operand| Box::new(operand.expr));
        let whens = conditions.into_iter().zip(results).collect();
        Ok(Typed::new(Expr::Case { operand, whens, otherwise }, ty, pos).collated(collation))
    }

    fn row(&self, scope: &mut Scope<'_>, list: &[ast::Expr], pos: Pos) -> Result<Typed> {
        let mut typed = Vec::new();
        for item in list {
            match &item.kind {
                Kind::Star(parts) => {
                    for column in self.expand_star(scope, parts, item.pos)? {
                        let field = Typed::new(column.expr, column.ty, item.pos);
                        typed.push(field.collated(column.collation));
                    }
                }
                _ => {
                    let bound = self.expr(scope, item)?;
                    typed.push(self.settled(bound)?);
                }
            }
        }
        check_entries("ROW expressions", typed.len()).map_err(|error| error.at(pos + 1))?;
        let names: Arc<[Arc<str>]> = (1..=typed.len()).map(|n| Arc::from(format!("f{n}"))).collect();
        let types: Arc<[Oid]> = typed.iter().map(|t| t.ty.oid).collect();
        let values = typed.into_iter().map(|t| t.expr).collect();
        Ok(Typed::new(Expr::Row { values, names, types }, Type::of(oid::RECORD), pos))
    }

    fn array(
        &self,
        scope: &mut Scope<'_>,
        list: &[ast::Expr],
        wanted: Option<Oid>,
        pos: Pos,
    ) -> Result<Typed> {
        if list.is_empty() && wanted.is_none() {
            let hint = "Explicitly cast to the desired type, for example ARRAY[]::integer[].";
            let message = "cannot determine type of empty array";
            return Err(SqlError::new(SqlState::INDETERMINATE_DATATYPE, message).hint(hint).at(pos + 1));
        }
        let bind = |item: &ast::Expr| match &item.kind {
            Kind::Array(inner) => self.array(scope, inner, wanted, item.pos),
            _ => self.expr(scope, item),
        };
        let items: Vec<Typed> = list.iter().map(bind).collect::<Result<_>>()?;
        let nested = items.iter().any(|item| self.types().element_of(item.ty.oid) != 0);
        if let Some(element) = wanted {
            let ty = if nested { self.types().array_of(element) } else { element };
            let cast = |item: Typed| self.cast(item, Type::of(ty)).map(|typed| typed.expr);
            let elements = items.into_iter().map(cast).collect::<Result<_>>()?;
            let array = self.types().array_of(element);
            return Ok(Typed::new(Expr::Array { elements, element, nested }, Type::of(array), pos));
        }
        let collation = Collation::of(&items)?;
        let (elements, ty) = self.common(items, "ARRAY")?;
        let element = if nested { self.types().element_of(ty.oid) } else { ty.oid };
        let array = self.types().array_of(element);
        if array == 0 {
            let name = super::type_text(self.types(), element);
            let message = format!("could not find array type for data type {name}");
            return fail(SqlState::UNDEFINED_OBJECT, pos, message);
        }
        Ok(Typed::new(Expr::Array { elements, element, nested }, Type::of(array), pos).collated(collation))
    }

    fn subscript(
        &self,
        scope: &mut Scope<'_>,
        base: &ast::Expr,
        list: &[Subscript],
        pos: Pos,
    ) -> Result<Typed> {
        let base = self.expr(scope, base)?;
        if base.ty.oid == oid::JSONB {
            return self.json_subscript(scope, base, list, pos);
        }
        let element = match base.ty.oid {
            oid::INT2VECTOR => oid::INT2,
            oid::OIDVECTOR => oid::OID,
            oid::NAME => oid::CHAR,
            ty => self.types().element_of(ty),
        };
        if element == 0 {
            let name = super::type_text(self.types(), base.ty.oid);
            let message = format!("cannot subscript type {name} because it does not support subscripting");
            return fail(SqlState::DATATYPE_MISMATCH, base.pos, message);
        }
        if list.len() > DIMENSIONS_MAX {
            return Err(too_many_dimensions(list.len()));
        }
        let base_expr = Box::new(base.expr);
        if list.iter().any(|subscript| matches!(subscript, Subscript::Slice(..))) {
            let mut bounds = Vec::new();
            for subscript in list {
                bounds.push(match subscript {
                    Subscript::Index(index) => {
                        (Some(Expr::value(Value::Int4(1))), Some(self.array_index(scope, index)?))
                    }
                    Subscript::Slice(low, high) => {
                        let low = low.as_ref().map(|low| self.array_index(scope, low)).transpose()?;
                        (low, high.as_ref().map(|high| self.array_index(scope, high)).transpose()?)
                    }
                });
            }
            return Ok(Typed::new(Expr::Slice { base: base_expr, bounds }, Type::of(base.ty.oid), pos));
        }
        let mut indexes = Vec::new();
        for subscript in list {
            if let Subscript::Index(index) = subscript {
                indexes.push(self.array_index(scope, index)?);
            }
        }
        let ty = Type { oid: element, modifier: base.ty.modifier };
        Ok(Typed::new(Expr::Subscript { base: base_expr, indexes }, ty, pos))
    }

    pub(super) fn array_index(&self, scope: &mut Scope<'_>, expr: &ast::Expr) -> Result<Expr> {
        let typed = self.expr(scope, expr)?;
        let at = typed.pos;
        match self.coerce(typed, Type::of(oid::INT4), super::Context::Assignment)? {
            Some(typed) => Ok(typed.expr),
            None => fail(SqlState::DATATYPE_MISMATCH, at, "array subscript must have type integer"),
        }
    }

    /// Subscripts of jsonb are a path, as `#>` has one.
    fn json_subscript(
        &self,
        scope: &mut Scope<'_>,
        base: Typed,
        list: &[Subscript],
        pos: Pos,
    ) -> Result<Typed> {
        let mut args = vec![base];
        args.extend(self.json_path(scope, list, pos)?);
        self.call_named("jsonb_extract_path", args, pos)
    }

    pub(super) fn json_path(
        &self,
        scope: &mut Scope<'_>,
        list: &[Subscript],
        pos: Pos,
    ) -> Result<Vec<Typed>> {
        let mut path = Vec::new();
        for subscript in list {
            let Subscript::Index(index) = subscript else {
                return fail(
                    SqlState::DATATYPE_MISMATCH,
                    slice_place(subscript, pos),
                    "jsonb subscript does not support slices",
                );
            };
            let index = self.expr(scope, index)?;
            if !matches!(index.ty.oid, oid::INT2 | oid::INT4 | oid::INT8 | oid::TEXT | oid::UNKNOWN) {
                let name = super::type_text(self.types(), index.ty.oid);
                let message = format!("subscript type {name} is not supported");
                let hint = "jsonb subscript must be coercible to either integer or text.";
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).hint(hint).at(index.pos + 1));
            }
            path.push(self.cast(index, Type::of(oid::TEXT))?);
        }
        Ok(path)
    }

    fn field(&self, scope: &mut Scope<'_>, base: &ast::Expr, name: &str, pos: Pos) -> Result<Typed> {
        let base = self.expr(scope, base)?;
        self.field_of(scope, base, name, pos)
    }

    /// The fields of an expression that is a record, where they are known.
    pub(super) fn fields_of(&self, scope: &Scope<'_>, expr: &Expr) -> Option<Fields> {
        let of_function = |head: &crate::tree::Head| {
            let columns = &head.function.columns;
            (!columns.is_empty()).then(|| {
                columns.iter().map(|(name, ty)| (Arc::from(*name), self.out_type(head, *ty).oid)).collect()
            })
        };
        match expr {
            Expr::Row { names, types, .. } | Expr::WholeRow { names, types, .. } => {
                Some(names.iter().cloned().zip(types.iter().copied()).collect())
            }
            Expr::Call { head, .. } => of_function(head),
            Expr::SetResult(number) => of_function(&scope.sets.get(*number)?.head),
            Expr::Column { depth, slot } => {
                let mut scope = scope;
                for _ in 0..*depth {
                    scope = scope.parent?;
                }
                let is_it = |column: &&ScopeColumn| column.expr == Expr::slot(*slot);
                scope.entries.iter().flat_map(|entry| &entry.columns).find(is_it)?.fields.clone()
            }
            _ => None,
        }
    }

    fn field_of(&self, scope: &Scope<'_>, base: Typed, name: &str, pos: Pos) -> Result<Typed> {
        let known = self.fields_of(scope, &base.expr);
        let found = known.as_ref().and_then(|fields| fields.iter().position(|(field, _)| &**field == name));
        match (found, known) {
            (Some(index), Some(fields)) => {
                let ty = Type::of(fields[index].1);
                Ok(Typed::new(Expr::Field { base: Box::new(base.expr), index }, ty, pos))
            }
            (None, Some(_)) => {
                let table = match &base.expr {
                    Expr::WholeRow { from, .. } => scope.entries.iter().find(|entry| entry.at == *from),
                    _ => None,
                };
                let message = match table {
                    Some(table) => format!("column {}.{name} does not exist", table.name),
                    None => format!("could not identify column \"{name}\" in record data type"),
                };
                fail(SqlState::UNDEFINED_COLUMN, pos, message)
            }
            _ => {
                let ty = super::type_text(self.types(), base.ty.oid);
                let message =
                    format!("column notation .{name} applied to type {ty}, which is not a composite type");
                fail(SqlState::WRONG_OBJECT_TYPE, pos, message)
            }
        }
    }

    fn collate(&self, scope: &mut Scope<'_>, inner: &ast::Expr, name: &ast::Path, pos: Pos) -> Result<Typed> {
        let typed = self.expr(scope, inner)?;
        let typed = self.settled(typed)?;
        let name = self.check_collation(typed.ty.oid, name, pos)?;
        Ok(typed.collated(Collation::Explicit(name, pos)))
    }

    /// The collation's name; refuses one that there is not, or of a type that has none.
    pub(crate) fn check_collation(&self, ty: Oid, name: &ast::Path, pos: Pos) -> Result<&'static str> {
        let Some(known) = Collation::named(name.last()) else {
            let message = format!("collation \"{}\" for encoding \"UTF8\" does not exist", name.last());
            return fail(SqlState::UNDEFINED_OBJECT, pos, message);
        };
        let info = self.types().type_info(ty);
        if info.is_some_and(|info| info.category == 'S' || info.collation != 0) {
            return Ok(known);
        }
        let ty = super::type_text(self.types(), ty);
        fail(SqlState::DATATYPE_MISMATCH, pos, format!("collations are not supported by type {ty}"))
    }
}

/// Where the last bound of a slice stands that is there.
fn slice_place(subscript: &Subscript, otherwise: Pos) -> Pos {
    match subscript {
        Subscript::Slice(_, Some(bound)) | Subscript::Slice(Some(bound), None) => bound.pos,
        _ => otherwise,
    }
}
