//! Operators, comparisons of rows, IN, ANY and BETWEEN.

use std::sync::Arc;

use super::{Binder, Collation, Scope, Typed, fail};
use crate::error::{Result, SqlError, SqlState};
use crate::func::{FunctionKind, OperatorCall, resolve_operator, select_common_type};
use crate::parse::Pos;
use crate::parse::ast::{self, Kind, LikeKind};
use crate::tree::{Expr, Form, Head, RowOp};
use crate::types::{Oid, Type, oid};

fn boolean(expr: Expr, pos: Pos) -> Typed {
    Typed::new(expr, Type::of(oid::BOOL), pos)
}

impl Head {
    fn of(call: &OperatorCall) -> Head {
        debug_assert!(call.function.kind == FunctionKind::Normal);
        let (function, operator) = (call.function, Some(call.operator));
        Head {
            function,
            operator,
            types: Arc::from(call.types.as_slice()),
            result: call.result,
            form: Form::Plain,
        }
    }
}

impl Binder<'_> {
    pub(crate) fn operator(&self, name: &str, left: Option<Typed>, right: Typed, pos: Pos) -> Result<Typed> {
        let (head, args, collation) = self.operator_parts(name, left, right, pos)?;
        let (result, collation) = (head.result, self.made(head.result, collation));
        let call = Expr::Call { head, args, spread: false };
        Ok(Typed::new(call, Type::of(result), pos).collated(collation))
    }

    fn operator_parts(
        &self,
        name: &str,
        left: Option<Typed>,
        right: Typed,
        pos: Pos,
    ) -> Result<(Head, Vec<Expr>, Collation)> {
        let call = resolve_operator(self.types(), name, left.as_ref().map(|l| l.ty.oid), right.ty.oid)
            .map_err(|error| error.at(pos + 1))?;
        let collation = match &left {
            Some(left) => left.collation.and(right.collation, right.pos)?,
            None => right.collation,
        };
        collation.must_do_for(call.function)?;
        let mut args = Vec::with_capacity(2);
        for (typed, ty) in left.into_iter().chain([right]).zip(&call.types) {
            args.push(self.argument(typed, *ty)?.expr);
        }
        Ok((Head::of(&call), args, collation))
    }

    /// The operator between values of these types.
    pub(crate) fn head(&self, name: &str, left: Oid, right: Oid, pos: Pos) -> Result<Head> {
        let call =
            resolve_operator(self.types(), name, Some(left), right).map_err(|error| error.at(pos + 1))?;
        Ok(Head::of(&call))
    }

    pub(crate) fn binary(
        &self,
        scope: &mut Scope<'_>,
        op: &ast::Operator,
        l: &ast::Expr,
        r: &ast::Expr,
        pos: Pos,
    ) -> Result<Typed> {
        let row_op = match op.name.as_str() {
            "=" => Some(RowOp::Equal),
            "<>" => Some(RowOp::NotEqual),
            "<" => Some(RowOp::Less),
            "<=" => Some(RowOp::LessEqual),
            ">" => Some(RowOp::Greater),
            ">=" => Some(RowOp::GreaterEqual),
            _ => None,
        };
        if let (Some(row_op), Kind::Row(left, _)) = (row_op, &l.kind) {
            match &r.kind {
                Kind::Row(right, _) => return self.rows(scope, row_op, left, right, pos),
                Kind::Scalar(query) => return self.row_subquery(scope, &op.name, left, query, pos),
                _ => {}
            }
        }
        let left = self.expr(scope, l)?;
        let right = self.expr(scope, r)?;
        self.operator(&op.name, Some(left), right, pos)
    }

    fn rows(
        &self,
        scope: &mut Scope<'_>,
        op: RowOp,
        left: &[ast::Expr],
        right: &[ast::Expr],
        pos: Pos,
    ) -> Result<Typed> {
        let left = self.exprs(scope, left)?;
        let right = self.exprs(scope, right)?;
        self.row_compare(op, left, right, pos)
    }

    pub(crate) fn row_compare(
        &self,
        op: RowOp,
        left: Vec<Typed>,
        right: Vec<Typed>,
        pos: Pos,
    ) -> Result<Typed> {
        if left.len() != right.len() {
            let message = "unequal number of entries in row expressions";
            return fail(SqlState::SYNTAX_ERROR, pos, message);
        }
        if left.is_empty() {
            let message = "cannot compare rows of zero length";
            return Err(SqlError::refused_by_postgresql(message).at(pos + 1));
        }
        let strict = match op {
            RowOp::Equal | RowOp::NotEqual => None,
            RowOp::Less | RowOp::LessEqual => Some("<"),
            RowOp::Greater | RowOp::GreaterEqual => Some(">"),
        };
        let (mut equals, mut less) = (Vec::new(), Vec::new());
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        for (l, r) in left.into_iter().zip(right) {
            let (head, mut args, _) = self.operator_parts("=", Some(l), r, pos)?;
            if let Some(strict) = strict {
                less.push(self.head(strict, head.types[0], head.types[1], pos)?);
            }
            rights.extend(args.pop());
            lefts.extend(args.pop());
            equals.push(head);
        }
        Ok(boolean(Expr::RowCompare { op, equals, less, left: lefts, right: rights }, pos))
    }

    pub(crate) fn distinct(
        &self,
        scope: &mut Scope<'_>,
        l: &ast::Expr,
        r: &ast::Expr,
        negated: bool,
        pos: Pos,
    ) -> Result<Typed> {
        if let (Kind::Row(left, _), Kind::Row(right, _)) = (&l.kind, &r.kind) {
            let parts = left.iter().zip(right).map(|(l, r)| self.distinct(scope, l, r, false, pos));
            let parts = parts.map(|part| part.map(|typed| typed.expr)).collect::<Result<Vec<_>>>()?;
            let any = Expr::Or(parts);
            return Ok(boolean(if negated { Expr::Not(Box::new(any)) } else { any }, pos));
        }
        let (left, right) = (self.expr(scope, l)?, self.expr(scope, r)?);
        if let Expr::Const(crate::tree::Const(crate::types::value::Value::Null)) = right.expr {
            let left = self.settled(left)?;
            let expr = Expr::IsNull { expr: Box::new(left.expr), negated: !negated, record: false };
            return Ok(boolean(expr, pos));
        }
        let (head, mut args, _) = self.operator_parts("=", Some(left), right, pos)?;
        let right = Box::new(args.pop().unwrap_or(Expr::null()));
        let left = Box::new(args.pop().unwrap_or(Expr::null()));
        Ok(boolean(Expr::Distinct { head, left, right, negated }, pos))
    }

    pub(crate) fn nullif(
        &self,
        scope: &mut Scope<'_>,
        l: &ast::Expr,
        r: &ast::Expr,
        pos: Pos,
    ) -> Result<Typed> {
        let (left, right) = (self.expr(scope, l)?, self.expr(scope, r)?);
        let given = left.ty;
        let (head, mut args, collation) = self.operator_parts("=", Some(left), right, pos)?;
        let right = Box::new(args.pop().unwrap_or(Expr::null()));
        let left = Box::new(args.pop().unwrap_or(Expr::null()));
        // What the operator is given comes out: it may be of another type than what was written.
        let ty = if given.oid == head.types[0] { given } else { Type::of(head.types[0]) };
        let collation = self.made(ty.oid, collation);
        Ok(Typed::new(Expr::NullIf { head, left, right }, ty, pos).collated(collation))
    }

    pub(crate) fn in_list(
        &self,
        scope: &mut Scope<'_>,
        l: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
        pos: Pos,
    ) -> Result<Typed> {
        if let Kind::Row(left, _) = &l.kind {
            let mut parts = Vec::with_capacity(list.len());
            for item in list {
                let Kind::Row(right, _) = &item.kind else {
                    let message = "unequal number of entries in row expressions";
                    return fail(SqlState::SYNTAX_ERROR, item.pos, message);
                };
                parts.push(self.rows(scope, RowOp::Equal, left, right, pos)?.expr);
            }
            let any = Expr::Or(parts);
            return Ok(boolean(if negated { Expr::Not(Box::new(any)) } else { any }, pos));
        }
        let left = self.expr(scope, l)?;
        let items = self.exprs(scope, list)?;
        let inputs: Vec<Oid> = std::iter::once(&left).chain(&items).map(|typed| typed.ty.oid).collect();
        let Ok(common) = select_common_type(self.types(), &inputs, "IN") else {
            let mut parts = Vec::new();
            for item in items {
                parts.push(self.operator("=", Some(left.clone()), item, pos)?.expr);
            }
            let any = Expr::Or(parts);
            return Ok(boolean(if negated { Expr::Not(Box::new(any)) } else { any }, pos));
        };
        let head = self.head("=", if left.is_open() { common } else { left.ty.oid }, common, pos)?;
        left.collation.and(Collation::of(&items)?, pos)?.must_do_for(head.function)?;
        let left = Box::new(self.argument(left, head.types[0])?.expr);
        let list = items.into_iter().map(|item| self.argument(item, head.types[1]).map(|typed| typed.expr));
        let list = list.collect::<Result<Vec<_>>>()?;
        Ok(boolean(Expr::InList { head, left, list, negated }, pos))
    }

    pub(crate) fn any_array(
        &self,
        scope: &mut Scope<'_>,
        l: &ast::Expr,
        op: &ast::Operator,
        all: bool,
        array: &ast::Expr,
        pos: Pos,
    ) -> Result<Typed> {
        let (left, array) = (self.expr(scope, l)?, self.expr(scope, array)?);
        let element = match array.ty.oid {
            oid::UNKNOWN => oid::UNKNOWN,
            oid::INT2VECTOR => oid::INT2,
            oid::OIDVECTOR => oid::OID,
            ty => match self.types().element_of(ty) {
                0 => {
                    let message = "op ANY/ALL (array) requires array on right side";
                    return fail(SqlState::WRONG_OBJECT_TYPE, pos, message);
                }
                element => element,
            },
        };
        let head = self.head(&op.name, left.ty.oid, element, pos)?;
        if head.result != oid::BOOL {
            let message = "op ANY/ALL (array) requires operator to yield boolean";
            return fail(SqlState::WRONG_OBJECT_TYPE, pos, message);
        }
        left.collation.and(array.collation, array.pos)?.must_do_for(head.function)?;
        let left = Box::new(self.argument(left, head.types[0])?.expr);
        let vector = matches!(array.ty.oid, oid::INT2VECTOR | oid::OIDVECTOR) && element == head.types[1];
        let array = if vector { array } else { self.argument(array, self.types().array_of(head.types[1]))? };
        Ok(boolean(Expr::AnyArray { head, left, array: Box::new(array.expr), all, cache: None }, pos))
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of the construct")]
    pub(crate) fn between(
        &self,
        scope: &mut Scope<'_>,
        expr: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
        negated: bool,
        symmetric: bool,
        pos: Pos,
    ) -> Result<Typed> {
        let mut within = |low: &ast::Expr, high: &ast::Expr| -> Result<Expr> {
            let op = |name: &str| ast::Operator { schema: None, name: name.to_string() };
            let (first, second, join): (_, _, fn(Vec<Expr>) -> Expr) = match negated {
                false => (op(">="), op("<="), Expr::And),
                true => (op("<"), op(">"), Expr::Or),
            };
            let first = self.binary(scope, &first, expr, low, pos)?.expr;
            let second = self.binary(scope, &second, expr, high, pos)?.expr;
            Ok(join(vec![first, second]))
        };
        let straight = within(low, high)?;
        if !symmetric {
            return Ok(boolean(straight, pos));
        }
        let crossed = within(high, low)?;
        let both = vec![straight, crossed];
        Ok(boolean(if negated { Expr::And(both) } else { Expr::Or(both) }, pos))
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of the construct")]
    pub(crate) fn like(
        &self,
        scope: &mut Scope<'_>,
        kind: LikeKind,
        expr: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        negated: bool,
        pos: Pos,
    ) -> Result<Typed> {
        let left = self.expr(scope, expr)?;
        let mut right = self.expr(scope, pattern)?;
        let escape = escape.map(|escape| self.expr(scope, escape)).transpose()?;
        let name = match (kind, negated) {
            (LikeKind::Like, false) => "~~",
            (LikeKind::Like, true) => "!~~",
            (LikeKind::ILike, false) => "~~*",
            (LikeKind::ILike, true) => "!~~*",
            (LikeKind::Similar, false) => "~",
            (LikeKind::Similar, true) => "!~",
        };
        if kind == LikeKind::Similar {
            let args = [right].into_iter().chain(escape).collect();
            right = self.call_named("similar_to_escape", args, pos)?;
        } else if let Some(escape) = escape {
            right = self.call_named("like_escape", vec![right, escape], pos)?;
        }
        self.operator(name, Some(left), right, pos)
    }

    pub(crate) fn not_here(what: &str, instead: &str, pos: Pos) -> SqlError {
        SqlError::unsupported(what, instead).at(pos + 1)
    }
}
