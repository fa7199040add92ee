//! Calls of aggregates, and GROUPING.

use super::call::head_of;
use super::scope::ExprKind;
use super::{Binder, Collation, Scope, Typed, fail};
use crate::error::{Result, SqlError, SqlState};
use crate::func::{FunctionCall, resolve_function};
use crate::parse::Pos;
use crate::parse::ast::{self, FuncCall, SortBy};
use crate::tree::{AggregateCall, Expr, SortKey};
use crate::types::{Oid, Type, oid};

impl Binder<'_> {
    pub(crate) fn aggregate(&self, scope: &mut Scope<'_>, call: &FuncCall, pos: Pos) -> Result<Typed> {
        let place = scope.enter_aggregate();
        let bound = self.aggregate_call(scope, call, pos);
        scope.leave_aggregate(place);
        let (mut bound, result, collation) = bound?;
        scope.misplaced.take().map_or(Ok(()), Err)?;
        let depth = level_of(scope, &mut bound, pos)?;
        let level = scope.level(depth);
        if let Some(message) = refused(level) {
            return fail(SqlState::GROUPING_ERROR, pos, message);
        }
        if level.recurses {
            let message = "aggregate functions are not allowed in a recursive query's recursive term";
            return fail(SqlState::INVALID_RECURSION, pos, message);
        }
        level.grouping.set(true);
        let mut aggregates = level.aggregates.borrow_mut();
        // One within another's arguments is kept apart, for that one tells where it stands.
        let known = aggregates.iter().position(|(other, _)| *other == bound);
        let number = known.filter(|_| level.aggregate_depth == 0).unwrap_or(aggregates.len());
        if number == aggregates.len() {
            aggregates.push((bound, pos));
        }
        Ok(Typed::new(Expr::Aggregate { depth, number }, result, pos).collated(collation))
    }

    pub(crate) fn aggregate_call(
        &self,
        scope: &mut Scope<'_>,
        call: &FuncCall,
        pos: Pos,
    ) -> Result<(AggregateCall, Type, Collation)> {
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
        let collation = self.collation_of_call(&head, &args)?;
        for (at, sort) in call.within_group.iter().enumerate() {
            let ty = head.types.get(direct + at).copied().unwrap_or(oid::TEXT);
            order.push((exprs[direct + at].clone(), sort_key(0, ty, sort)));
        }
        for sort in &call.order_by {
            let typed = self.expr(scope, &sort.expr)?;
            let typed = self.settled(typed)?;
            typed.collation.must_be_one()?;
            order.push((typed.expr, sort_key(0, typed.ty.oid, sort)));
        }
        let distinct = if call.distinct { head.types.to_vec() } else { Vec::new() };
        for (ty, argument) in distinct.iter().zip(&args) {
            self.comparable(*ty, argument.pos)?;
        }
        // As they are written: what is cast without being asked counts as what it was.
        let is_argument = |expr: &Expr| exprs.contains(expr) || args.iter().any(|arg| arg.expr == *expr);
        if call.distinct && order.iter().any(|(expr, _)| !is_argument(expr)) {
            let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
            let at = call.order_by.first().map_or(pos, |sort| sort.expr.pos);
            return fail(SqlState::INVALID_COLUMN_REFERENCE, at, message);
        }
        let filter = match &call.filter {
            Some(filter) => {
                let before = scope.aggregates.borrow().len();
                let typed = self.expr(scope, filter)?;
                if let Some((_, at)) = scope.aggregates.borrow().get(before) {
                    let message = "aggregate functions are not allowed in FILTER";
                    return fail(SqlState::GROUPING_ERROR, *at, message);
                }
                Some(self.boolean(typed, "FILTER")?)
            }
            None => None,
        };
        let result = Type::of(resolved.result);
        Ok((AggregateCall { head, args: exprs, distinct, order, filter, direct }, result, collation))
    }

    /// GROUPING: which keys, as expressions; turned into numbers when the level's keys are known.
    pub(crate) fn grouping(&self, scope: &mut Scope<'_>, list: &[ast::Expr], pos: Pos) -> Result<Typed> {
        let place = scope.enter_aggregate();
        let exprs = self.exprs(scope, list);
        scope.leave_aggregate(place);
        scope.misplaced.take().map_or(Ok(()), Err)?;
        scope.grouping.set(true);
        let (exprs, mut numbers) = (exprs?, Vec::new());
        let Some(keys) = &scope.group_keys else {
            return Ok(Typed::new(Expr::Grouping(numbers), Type::of(oid::INT4), pos));
        };
        for typed in exprs {
            match keys.iter().position(|key| *key == typed.expr) {
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

/// Why an aggregate of the level may not stand where the level's binding is, if it may not.
fn refused(level: &Scope<'_>) -> Option<String> {
    let place = if level.place == ExprKind::AggregateArgument { level.around } else { level.place };
    match place {
        place if place.takes_aggregates() => None,
        ExprKind::Where
        | ExprKind::GroupBy
        | ExprKind::Limit
        | ExprKind::Values
        | ExprKind::Returning
        | ExprKind::FromFunction
        | ExprKind::MergeWhen
        | ExprKind::Lasting(_) => Some(format!("aggregate functions are not allowed in {}", place.text())),
        ExprKind::JoinOn => Some("aggregate functions are not allowed in JOIN conditions".to_string()),
        ExprKind::FromQuery => {
            Some("aggregate functions are not allowed in FROM clause of their own query level".to_string())
        }
        _ => Some("aggregate functions are not allowed here".to_string()),
    }
}

/// How many levels further out an aggregate belongs: to the innermost query whose columns it is about, or to
/// its own if it is about none. The call becomes one over that level's row.
fn level_of(scope: &Scope<'_>, call: &mut AggregateCall, pos: Pos) -> Result<u16> {
    let mut direct = call.args.drain(..call.direct).collect::<Vec<_>>();
    let (columns, nested) = innermost(&mut |visit| call.walk(0, visit));
    let depth = columns.into_iter().chain(nested.map(|(depth, _)| depth)).min().unwrap_or(0);
    let inner = |(of, number): (u16, usize)| {
        let places = scope.level(of).aggregates.borrow();
        fail(SqlState::GROUPING_ERROR, places[number].1, "aggregate function calls cannot be nested")
    };
    if let Some(nested) = nested.filter(|(of, _)| *of == depth) {
        return inner(nested);
    }
    let (columns, nested) = innermost(&mut |visit| crate::tree::walk::walk_list(&mut direct, 0, visit));
    if columns.is_some_and(|of| of < depth) {
        let message = "outer-level aggregate cannot contain a lower-level variable in its direct arguments";
        return fail(SqlState::GROUPING_ERROR, pos, message);
    }
    if let Some(nested) = nested.filter(|(of, _)| *of <= depth) {
        return inner(nested);
    }
    if let Some((_, name)) = scope.read_ctes.borrow().iter().find(|(of, _)| *of < depth) {
        let error = SqlError::refused_by_postgresql("outer-level aggregate cannot use a nested CTE");
        let detail = format!("CTE \"{name}\" is below the aggregate's semantic level.");
        return Err(error.detail(detail).at(pos + 1));
    }
    call.args.splice(0..0, direct);
    call.walk(0, &mut |part, within| {
        if let Expr::Column { depth: own, .. }
        | Expr::WholeRow { depth: own, .. }
        | Expr::Aggregate { depth: own, .. } = part
            && *own >= within
        {
            *own -= depth;
        }
        false
    });
    Ok(depth)
}

/// Of what a walk comes upon: the innermost level that a column is of, and the innermost aggregate.
fn innermost(walk: &mut dyn FnMut(crate::tree::walk::Visit<'_>)) -> (Option<u16>, Option<(u16, usize)>) {
    let (mut columns, mut nested): (Option<u16>, Option<(u16, usize)>) = (None, None);
    walk(&mut |part, within| {
        match part {
            Expr::Column { depth, .. } | Expr::WholeRow { depth, .. } if *depth >= within => {
                let level = *depth - within;
                columns = Some(columns.map_or(level, |known| known.min(level)));
            }
            Expr::Aggregate { depth, number } if *depth >= within => {
                let found = (*depth - within, *number);
                nested = Some(nested.map_or(found, |known| if found.0 < known.0 { found } else { known }));
            }
            _ => {}
        }
        false
    });
    (columns, nested)
}
