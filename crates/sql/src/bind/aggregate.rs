//! Calls of aggregates, and GROUPING.

use super::call::head_of;
use super::scope::Place;
use super::tree::{AggregateCall, Expr, SortKey};
use super::{Binder, Scope, Typed, fail};
use crate::error::{Result, SqlError, SqlState};
use crate::func::{FunctionCall, resolve_function};
use crate::parse::Pos;
use crate::parse::ast::{self, FuncCall, SortBy};
use crate::types::{Oid, Type, oid};

impl Binder<'_> {
    pub(crate) fn aggregate(&self, scope: &mut Scope<'_>, call: &FuncCall, pos: Pos) -> Result<Typed> {
        let nested = scope.aggregate_depth > 0;
        let place = std::mem::replace(&mut scope.place, Place::AggregateArgument);
        if !nested {
            scope.around = place;
        }
        scope.aggregate_depth += 1;
        let bound = self.aggregate_call(scope, call, pos);
        scope.aggregate_depth -= 1;
        scope.place = place;
        let (bound, result) = bound?;
        if nested {
            // Said by the call around it, when that has found its own function.
            let error = SqlError::new(SqlState::GROUPING_ERROR, "aggregate function calls cannot be nested");
            scope.misplaced.get_or_insert(error.at(pos + 1));
            return Ok(Typed::new(Expr::null(), result, pos));
        }
        scope.misplaced.take().map_or(Ok(()), Err)?;
        if !scope.place.takes_aggregates() {
            let message = match scope.place {
                Place::Where
                | Place::GroupBy
                | Place::Limit
                | Place::Values
                | Place::Returning
                | Place::Lasting(_) => {
                    format!("aggregate functions are not allowed in {}", scope.place.text())
                }
                Place::JoinOn => "aggregate functions are not allowed in JOIN conditions".to_string(),
                Place::FromFunction => "aggregate functions are not allowed in functions in FROM".to_string(),
                _ => "aggregate functions are not allowed here".to_string(),
            };
            return fail(SqlState::GROUPING_ERROR, pos, message);
        }
        if scope.recurses {
            let message = "aggregate functions are not allowed in a recursive query's recursive term";
            return fail(SqlState::INVALID_RECURSION, pos, message);
        }
        scope.grouping = true;
        let number = match scope.aggregates.iter().position(|other| *other == bound) {
            Some(number) => number,
            None => {
                scope.aggregates.push(bound);
                scope.aggregates.len() - 1
            }
        };
        Ok(Typed::new(Expr::Aggregate(number), result, pos))
    }

    pub(crate) fn aggregate_call(
        &self,
        scope: &mut Scope<'_>,
        call: &FuncCall,
        pos: Pos,
    ) -> Result<(AggregateCall, Type)> {
        let name = call.name.last();
        let mut args = call.args.iter().map(|arg| self.expr(scope, &arg.expr)).collect::<Result<Vec<_>>>()?;
        let direct = if call.within_group.is_empty() { 0 } else { args.len() };
        let mut order: Vec<(Expr, SortKey)> = Vec::new();
        for sort in &call.within_group {
            args.push(self.expr(scope, &sort.expr)?);
        }
        let inputs: Vec<Oid> = args.iter().map(|arg| arg.ty.oid).collect();
        let variadic = call.args.last().is_some_and(|arg| arg.variadic);
        if args.is_empty() && !call.star && name != "count" {
            // Falls through: resolution tells that there is no such function.
        } else if call.star && name != "count" {
            let message = format!("function {name}() does not exist");
            return fail(SqlState::UNDEFINED_FUNCTION, pos, message);
        } else if args.is_empty() && !call.star {
            let message = format!("{name}(*) must be used to call a parameterless aggregate function");
            return fail(SqlState::WRONG_OBJECT_TYPE, pos, message);
        }
        let resolved: FunctionCall = resolve_function(self.types(), name, &inputs, &[], variadic)
            .map_err(|error| error.at(pos + 1))?;
        let (exprs, _) = self.slots(&resolved, &args)?;
        let head = head_of(&resolved);
        for (at, sort) in call.within_group.iter().enumerate() {
            let ty = head.types.get(direct + at).copied().unwrap_or(oid::TEXT);
            order.push((exprs[direct + at].clone(), sort_key(0, ty, sort)));
        }
        for sort in &call.order_by {
            let typed = self.expr(scope, &sort.expr)?;
            let typed = self.settled(typed)?;
            order.push((typed.expr, sort_key(0, typed.ty.oid, sort)));
        }
        let distinct = if call.distinct { head.types.to_vec() } else { Vec::new() };
        if call.distinct && order.iter().any(|(expr, _)| !exprs.iter().any(|arg| arg.bare() == expr.bare())) {
            let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
            let at = call.order_by.first().map_or(pos, |sort| sort.expr.pos);
            return fail(SqlState::INVALID_COLUMN_REFERENCE, at, message);
        }
        let filter = match &call.filter {
            Some(filter) => {
                let typed = self.expr(scope, filter)?;
                Some(self.boolean(typed, "FILTER")?)
            }
            None => None,
        };
        let result = Type::of(resolved.result);
        Ok((AggregateCall { head, args: exprs, distinct, order, filter, direct }, result))
    }

    /// GROUPING: which keys, as expressions; turned into numbers when the level's keys are known.
    pub(crate) fn grouping(&self, scope: &mut Scope<'_>, list: &[ast::Expr], pos: Pos) -> Result<Typed> {
        let place = std::mem::replace(&mut scope.place, Place::AggregateArgument);
        let exprs = self.exprs(scope, list);
        scope.place = place;
        if let (Some(misplaced), 0) = (&scope.misplaced, scope.aggregate_depth) {
            return Err(misplaced.clone());
        }
        scope.grouping = true;
        let mut numbers = Vec::new();
        for typed in exprs? {
            match scope.group_keys.iter().position(|key| *key == typed.expr) {
                Some(number) => numbers.push(number),
                None => {
                    let message =
                        "arguments to GROUPING must be grouping expressions of the associated query level";
                    return fail(SqlState::GROUPING_ERROR, typed.pos, message);
                }
            }
        }
        Ok(Typed::new(Expr::Grouping(numbers), Type::of(oid::INT4), pos))
    }
}

pub(crate) fn sort_key(column: usize, ty: Oid, sort: &SortBy) -> SortKey {
    let nulls_first = sort.nulls_first.unwrap_or(sort.descending);
    SortKey { column, ty, descending: sort.descending, nulls_first }
}
