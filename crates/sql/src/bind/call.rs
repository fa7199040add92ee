//! Calls of functions.

use std::sync::Arc;

use super::scope::ExprKind;
use super::{Binder, Collation, Scope, Typed, fail};
use crate::error::{Result, SqlError, SqlState};
use crate::func::{FunctionCall, FunctionKind, Slot, resolve_function};
use crate::parse::Pos;
use crate::parse::ast::{self, FuncCall};
use crate::tree::{Expr, Form, Head, SetCall};
use crate::types::{Oid, Type, builtin_types, oid};

impl Binder<'_> {
    pub(crate) fn call(&self, scope: &mut Scope<'_>, call: &FuncCall, pos: Pos) -> Result<Typed> {
        let name = call.name.last();
        let kinds = crate::func::functions(name);
        let aggregate = kinds.iter().any(|function| function.kind == FunctionKind::Aggregate);
        if call.over.is_some() {
            return self.window_call(scope, call, pos);
        }
        if kinds.iter().any(|function| function.kind == FunctionKind::Window) && call.within_group.is_empty()
        {
            let message = format!("window function {name} requires an OVER clause");
            return fail(SqlState::WRONG_OBJECT_TYPE, pos, message);
        }
        if aggregate {
            return self.aggregate(scope, call, pos);
        }
        for (used, what) in
            [(call.star, "*"), (call.distinct, "DISTINCT"), (!call.order_by.is_empty(), "ORDER BY")]
        {
            if used {
                let message = format!("{what} specified, but {name} is not an aggregate function");
                let message = if what == "*" {
                    format!("{name}(*) specified, but {name} is not an aggregate function")
                } else {
                    message
                };
                return fail(SqlState::WRONG_OBJECT_TYPE, pos, message);
            }
        }
        if call.filter.is_some() {
            let message = format!("FILTER specified, but {name} is not an aggregate function");
            return fail(SqlState::WRONG_OBJECT_TYPE, pos, message);
        }
        if !call.within_group.is_empty() {
            let message = format!("WITHIN GROUP specified, but {name} is not an aggregate function");
            return fail(SqlState::WRONG_OBJECT_TYPE, pos, message);
        }
        let args = call.args.iter().map(|arg| self.expr(scope, &arg.expr)).collect::<Result<Vec<_>>>()?;
        let inputs: Vec<Oid> = args.iter().map(|arg| arg.ty.oid).collect();
        let names: Vec<Option<&str>> = call.args.iter().map(|arg| arg.name.as_deref()).collect();
        let names = if names.iter().any(Option::is_some) { names } else { Vec::new() };
        let variadic = call.args.last().is_some_and(|arg| arg.variadic);
        // The grammar's own calls name their functions so.
        let words = call.name.schema() == Some("pg_catalog");
        let form = if words { Form::Words } else { Form::Plain };
        // A literal in a type's name is read as a value of it, whatever else has that name.
        if inputs == [oid::UNKNOWN]
            && names.is_empty()
            && !variadic
            && let Some(typed) = self.as_cast(call, &args)?
        {
            return Ok(typed);
        }
        let resolved = match resolve_function(self.types(), name, &inputs, &names, variadic) {
            Ok(resolved) => resolved,
            Err(error) => match self.as_cast(call, &args)? {
                Some(typed) => return Ok(typed),
                None => return Err(self.named_as_written(error, call).at(pos + 1)),
            },
        };
        self.finish_call(scope, resolved, args, (form, pos))
    }

    fn named_as_written(&self, mut error: SqlError, call: &FuncCall) -> SqlError {
        if let Some(schema) = call.name.schema().filter(|schema| *schema != "pg_catalog") {
            error.message = error.message.replacen("function ", &format!("function {schema}."), 1);
        }
        error
    }

    /// `int4('5')`, `text(x)`: a type's name called with one argument is a cast.
    fn as_cast(&self, call: &FuncCall, args: &[Typed]) -> Result<Option<Typed>> {
        let [arg] = args else { return Ok(None) };
        if !matches!(call.name.schema(), None | Some("pg_catalog")) {
            return Ok(None);
        }
        let Some(info) = builtin_types().find(|info| info.name == call.name.last()) else { return Ok(None) };
        self.coerce(arg.clone(), Type::of(info.oid), super::Context::Explicit)
    }

    /// The arguments in the order of the parameters.
    pub(crate) fn slots(&self, resolved: &FunctionCall, args: &[Typed]) -> Result<(Vec<Expr>, bool)> {
        let mut exprs = Vec::with_capacity(resolved.slots.len());
        let mut spread = false;
        for slot in &resolved.slots {
            exprs.push(match slot {
                Slot::Argument { index, ty } => self.argument(args[*index].clone(), *ty)?.expr,
                Slot::Array { from, element, .. } => {
                    let rest = args[*from..].iter().map(|arg| self.argument(arg.clone(), *element));
                    let elements = rest.map(|typed| typed.map(|t| t.expr)).collect::<Result<_>>()?;
                    Expr::Array { elements, element: *element, nested: false }
                }
                Slot::Spread { index, .. } => {
                    spread = true;
                    args[*index].expr.clone()
                }
                Slot::Default(value) => Expr::value(value.clone()),
            });
        }
        Ok((exprs, spread))
    }

    fn finish_call(
        &self,
        scope: &mut Scope<'_>,
        resolved: FunctionCall,
        args: Vec<Typed>,
        (form, pos): (Form, Pos),
    ) -> Result<Typed> {
        let (exprs, spread) = self.slots(&resolved, &args)?;
        let mut head = Head { form, ..head_of(&resolved) };
        if head.function.oid == PG_TYPEOF && args[0].is_open() && !matches!(args[0].expr, Expr::Param(_)) {
            // It alone tells a literal from a text.
            head.types = Arc::from([oid::UNKNOWN]);
        }
        let result = Type::of(resolved.result);
        let collation = self.collation_of_call(&head, &args)?;
        if !resolved.function.returns_set {
            let call = Expr::Call { head, args: exprs, spread };
            return Ok(Typed::new(call, result, pos).collated(collation));
        }
        if !matches!(
            scope.place,
            ExprKind::Target | ExprKind::OrderBy | ExprKind::GroupBy | ExprKind::FromFunction
        ) {
            let message = format!("set-returning functions are not allowed in {}", scope.place.text());
            return Err(SqlError::refused_by_postgresql(message).at(pos + 1));
        }
        if let Some(around) = scope.no_sets {
            let message = format!("set-returning functions are not allowed in {around}");
            let hint = "You might be able to move the set-returning function into a LATERAL FROM item.";
            return Err(SqlError::refused_by_postgresql(message).hint(hint).at(pos + 1));
        }
        let width = head.function.columns.len().max(1);
        let call = SetCall { head, args: exprs, spread, width, scalar: false, told: Vec::new() };
        let number = match scope.sets.iter().position(|other| *other == call) {
            Some(number) => number,
            None => {
                scope.sets.push(call);
                scope.sets.len() - 1
            }
        };
        Ok(Typed::new(Expr::SetResult(number), result, pos).collated(collation))
    }

    /// Of its result.
    pub(crate) fn collation_of_call(&self, head: &Head, args: &[Typed]) -> Result<Collation> {
        let collation = Collation::of(args)?;
        collation.must_do_for(head.function)?;
        Ok(self.made(head.result, collation))
    }

    /// A built-in function by name.
    pub(crate) fn call_named(&self, name: &str, args: Vec<Typed>, pos: Pos) -> Result<Typed> {
        let inputs: Vec<Oid> = args.iter().map(|arg| arg.ty.oid).collect();
        let resolved =
            resolve_function(self.types(), name, &inputs, &[], false).map_err(|e| e.at(pos + 1))?;
        let (exprs, spread) = self.slots(&resolved, &args)?;
        let (head, result) = (head_of(&resolved), Type::of(resolved.result));
        let collation = self.collation_of_call(&head, &args)?;
        Ok(Typed::new(Expr::Call { head, args: exprs, spread }, result, pos).collated(collation))
    }

    /// A call in FROM: (the call, names and types of its columns).
    pub(crate) fn set_call(
        &self,
        scope: &mut Scope<'_>,
        ast: &ast::Expr,
    ) -> Result<(SetCall, Vec<(String, Type)>)> {
        let outer = std::mem::take(&mut scope.sets);
        let bound = self.expr(scope, ast);
        let mut sets = std::mem::replace(&mut scope.sets, outer);
        let typed = self.settled(bound?)?;
        let name = match &ast.kind {
            ast::Kind::Func(call) => call.name.last().to_string(),
            ast::Kind::SqlValue(name, _) => (*name).to_string(),
            _ => "?column?".to_string(),
        };
        if sets.len() > usize::from(matches!(typed.expr, Expr::SetResult(_))) {
            let message = "set-returning functions must appear at top level of FROM";
            return Err(SqlError::refused_by_postgresql(message).at(ast.pos + 1));
        }
        if let Expr::SetResult(number) = typed.expr {
            let call = sets.swap_remove(number);
            let columns = &call.head.function.columns;
            let fields = match columns.is_empty() {
                true => vec![(name, typed.ty)],
                false => columns
                    .iter()
                    .map(|(name, ty)| ((*name).to_string(), self.out_type(&call.head, *ty)))
                    .collect(),
            };
            return Ok((call, fields));
        }
        let Expr::Call { head, args, spread } = typed.expr else {
            // A cast or a constant: one row of one value, through the identity.
            let fields = vec![(name, typed.ty)];
            let head = Head {
                function: crate::func::function(PG_TYPEOF).expect("it is in the table"),
                operator: None,
                types: Arc::from([]),
                result: typed.ty.oid,
                form: Form::Plain,
            };
            let call = SetCall {
                head,
                args: vec![typed.expr],
                spread: false,
                width: 1,
                scalar: true,
                told: Vec::new(),
            };
            return Ok((call, fields));
        };
        let columns = &head.function.columns;
        let width = columns.len().max(1);
        let fields = match columns.is_empty() {
            true => vec![(name, typed.ty)],
            false => columns.iter().map(|(name, ty)| ((*name).to_string(), Type::of(*ty))).collect(),
        };
        Ok((SetCall { head, args, spread, width, scalar: true, told: Vec::new() }, fields))
    }

    /// A polymorphic output column is what the call's result is.
    pub(super) fn out_type(&self, head: &Head, ty: Oid) -> Type {
        if !crate::func::is_polymorphic(ty) {
            return Type::of(ty);
        }
        let element_of = |ty: Oid| match ty {
            oid::INT2VECTOR => oid::INT2,
            oid::OIDVECTOR => oid::OID,
            ty => self.types().element_of(ty),
        };
        let array = head.types.iter().copied().find(|ty| element_of(*ty) != 0);
        let element = array.map_or(head.result, element_of);
        let is_array = matches!(ty, oid::ANYARRAY | oid::ANYCOMPATIBLEARRAY);
        Type::of(if is_array { self.types().array_of(element) } else { element })
    }
}

/// It also stands for "the argument itself" where a FROM item is no call.
const PG_TYPEOF: Oid = 1619;

pub(crate) fn head_of(resolved: &FunctionCall) -> Head {
    let (function, types) = (resolved.function, Arc::from(resolved.types.as_slice()));
    Head { function, operator: None, types, result: resolved.result, form: Form::Plain }
}
