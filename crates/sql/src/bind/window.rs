//! Calls over windows.

use super::aggregate::sort_key;
use super::call::head_of;
use super::scope::ExprKind;
use super::types::type_text;
use super::{Binder, Scope, Typed, fail};
use crate::error::{Result, SqlError, SqlState};
use crate::func::{FunctionKind, resolve_function};
use crate::parse::Pos;
use crate::parse::ast::{Bound, Exclusion, FrameUnit, FuncCall, Over, WindowDef};
use crate::tree::{Expr, Frame, WindowCall};
use crate::types::{Oid, Type, oid};

/// Types whose values a RANGE frame can be a distance away from.
const RANGED: [Oid; 12] = [
    oid::INT2,
    oid::INT4,
    oid::INT8,
    oid::FLOAT4,
    oid::FLOAT8,
    oid::NUMERIC,
    oid::DATE,
    oid::TIME,
    oid::TIMETZ,
    oid::TIMESTAMP,
    oid::TIMESTAMPTZ,
    oid::INTERVAL,
];

impl Binder<'_> {
    pub(crate) fn window_call(&self, scope: &mut Scope<'_>, call: &FuncCall, pos: Pos) -> Result<Typed> {
        let name = call.name.last();
        if call.distinct {
            return Err(SqlError::refused_by_postgresql("DISTINCT is not implemented for window functions")
                .at(pos + 1));
        }
        if !call.order_by.is_empty() {
            let message = "aggregate ORDER BY is not implemented for window functions";
            return Err(SqlError::refused_by_postgresql(message).at(pos + 1));
        }
        let place = scope.place;
        let bound = self.window_parts(scope, call, pos);
        scope.place = place;
        let (bound, result) = bound?;
        if bound.head.function.kind == FunctionKind::Normal {
            let message =
                format!("OVER specified, but {name} is not a window function nor an aggregate function");
            return fail(SqlState::WRONG_OBJECT_TYPE, pos, message);
        }
        scope.windows.push(bound);
        Ok(Typed::new(Expr::Window(scope.windows.len() - 1), result, pos))
    }

    /// Whether a window function may stand there, asked when its function has been found.
    fn window_place(scope: &mut Scope<'_>, place: ExprKind, pos: Pos) -> Result<()> {
        if matches!(place, ExprKind::Target | ExprKind::OrderBy) {
            return Ok(());
        }
        let place = if place == ExprKind::AggregateArgument { scope.around } else { place };
        if matches!(place, ExprKind::Target | ExprKind::OrderBy) {
            let message = "aggregate function calls cannot contain window function calls";
            scope.misplaced.get_or_insert(SqlError::new(SqlState::GROUPING_ERROR, message).at(pos + 1));
            return Ok(());
        }
        let message = match place {
            ExprKind::WindowDefinition => {
                "window functions are not allowed in window definitions".to_string()
            }
            ExprKind::Having => "window functions are not allowed in HAVING".to_string(),
            place => format!("window functions are not allowed in {}", place.text()),
        };
        fail(SqlState::WINDOWING_ERROR, pos, message)
    }

    fn window_parts(&self, scope: &mut Scope<'_>, call: &FuncCall, pos: Pos) -> Result<(WindowCall, Type)> {
        let place = scope.place;
        if matches!(place, ExprKind::Target | ExprKind::OrderBy) {
            scope.place = ExprKind::WindowDefinition;
        }
        let args = call.args.iter().map(|arg| self.expr(scope, &arg.expr)).collect::<Result<Vec<_>>>()?;
        let inputs: Vec<Oid> = args.iter().map(|arg| arg.ty.oid).collect();
        let resolved = resolve_function(self.types(), call.name.last(), &inputs, &[], false)
            .map_err(|error| error.at(pos + 1))?;
        let (args, _) = self.slots(&resolved, &args)?;
        let filter = match &call.filter {
            Some(filter) => {
                let typed = self.expr(scope, filter)?;
                Some(self.boolean(typed, "FILTER")?)
            }
            None => None,
        };
        Self::window_place(scope, place, pos)?;
        let def = match call.over.as_ref() {
            Some(Over::Name(name)) => self.named_window(scope, &name.text, name.pos)?,
            Some(Over::Window(def)) => self.full_window(scope, def)?,
            None => WindowDef::default(),
        };
        let mut partition = Vec::new();
        for expr in &def.partition_by {
            let typed = self.expr(scope, expr)?;
            let typed = self.settled(typed)?;
            partition.push((typed.expr, typed.ty.oid));
        }
        let mut order = Vec::new();
        for sort in &def.order_by {
            let typed = self.expr(scope, &sort.expr)?;
            let typed = self.settled(typed)?;
            order.push((typed.expr, sort_key(0, typed.ty.oid, sort)));
        }
        let frame = self.frame(scope, &def, &mut order)?;
        let (head, result) = (head_of(&resolved), Type::of(resolved.result));
        let name = match &call.over {
            Some(Over::Name(name)) => Some(name.text.clone()),
            _ => None,
        };
        Ok((WindowCall { name, head, args, filter, partition, order, frame }, result))
    }

    fn named_window(&self, scope: &Scope<'_>, name: &str, pos: Pos) -> Result<WindowDef> {
        let Some((_, def)) = scope.window_names.iter().find(|(known, _)| known == name) else {
            return fail(SqlState::UNDEFINED_OBJECT, pos, format!("window \"{name}\" does not exist"));
        };
        self.full_window(scope, &def.clone())
    }

    /// With what it takes from the window that it is based on.
    fn full_window(&self, scope: &Scope<'_>, def: &WindowDef) -> Result<WindowDef> {
        let Some(base) = &def.base else { return Ok(def.clone()) };
        let name = &base.text;
        let under = self.named_window(scope, name, base.pos)?;
        let refuse = |what: &str| fail(SqlState::WINDOWING_ERROR, base.pos, what.to_string());
        if !def.partition_by.is_empty() {
            return refuse(&format!("cannot override PARTITION BY clause of window \"{name}\""));
        }
        if !def.order_by.is_empty() && !under.order_by.is_empty() {
            return refuse(&format!("cannot override ORDER BY clause of window \"{name}\""));
        }
        if under.frame.is_some() {
            return refuse(&format!("cannot copy window \"{name}\" because it has a frame clause"));
        }
        let order_by = if def.order_by.is_empty() { under.order_by } else { def.order_by.clone() };
        Ok(WindowDef { base: None, partition_by: under.partition_by, order_by, frame: def.frame.clone() })
    }

    fn frame(
        &self,
        scope: &mut Scope<'_>,
        def: &WindowDef,
        order: &mut [(Expr, crate::tree::SortKey)],
    ) -> Result<Frame> {
        let Some(frame) = &def.frame else {
            let (start, end) = (Bound::UnboundedPreceding, Bound::CurrentRow);
            return Ok(Frame {
                unit: FrameUnit::Range,
                start,
                end,
                exclusion: Exclusion::None,
                arithmetic: None,
            });
        };
        if frame.unit == FrameUnit::Groups && order.is_empty() {
            return fail(SqlState::WINDOWING_ERROR, frame.pos, "GROUPS mode requires an ORDER BY clause");
        }
        let mut arithmetic = None;
        let mut bound = |binder: &Self,
                         bound: &Bound<Box<crate::parse::ast::Expr>>|
         -> Result<Bound<Box<Expr>>> {
            let (offset, preceding) = match bound {
                Bound::UnboundedPreceding => return Ok(Bound::UnboundedPreceding),
                Bound::UnboundedFollowing => return Ok(Bound::UnboundedFollowing),
                Bound::CurrentRow => return Ok(Bound::CurrentRow),
                Bound::Preceding(offset) => (offset, true),
                Bound::Following(offset) => (offset, false),
            };
            let typed = binder.expr(scope, offset)?;
            let expr = if frame.unit == FrameUnit::Range {
                let [(_, key)] = &*order else {
                    let message =
                        "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
                    return fail(SqlState::WINDOWING_ERROR, frame.pos, message);
                };
                let offset_type = match (typed.is_open(), key.ty) {
                    (false, _) => typed.ty.oid,
                    (true, oid::DATE | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::TIME | oid::TIMETZ) => {
                        oid::INTERVAL
                    }
                    (true, ty) => ty,
                };
                if !RANGED.contains(&key.ty) {
                    let name = type_text(binder.types(), key.ty);
                    let message = format!(
                        "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {name}"
                    );
                    return Err(SqlError::refused_by_postgresql(message).at(offset.pos + 1));
                }
                // A date and an interval make a timestamp: rows are compared as what the sum is.
                let compared = binder.head("+", key.ty, offset_type, offset.pos)?.result;
                let plus = binder.head("+", compared, offset_type, offset.pos)?;
                let minus = binder.head("-", compared, offset_type, offset.pos)?;
                let typed = binder.argument(typed, plus.types[1])?;
                arithmetic = Some((plus, minus));
                typed.expr
            } else {
                binder.bigint(typed, if frame.unit == FrameUnit::Rows { "ROWS" } else { "GROUPS" })?
            };
            Ok(if preceding { Bound::Preceding(Box::new(expr)) } else { Bound::Following(Box::new(expr)) })
        };
        let (start, end) = (bound(self, &frame.start)?, bound(self, &frame.end)?);
        if let (Some((plus, _)), [(expr, key)]) = (&arithmetic, order)
            && plus.result != key.ty
        {
            let typed = Typed::new(std::mem::replace(expr, Expr::null()), Type::of(key.ty), frame.pos);
            (*expr, key.ty) = (self.argument(typed, plus.result)?.expr, plus.result);
        }
        Ok(Frame { unit: frame.unit, start, end, exclusion: frame.exclusion, arithmetic })
    }
}
