//! SET of UPDATE and of ON CONFLICT: columns, rows of columns, and parts of columns.

use super::change::GENERATED_ALWAYS;
use super::tree::Expr;
use super::updatable::Changed;
use super::{Binder, Scope, Typed, fail};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::{self, Ident, Kind};
use crate::types::value::Value;
use crate::types::{Type, oid};

impl Binder<'_> {
    pub(super) fn assignments(
        &self,
        scope: &mut Scope<'_>,
        changed: &Changed,
        list: &[ast::Assignment],
    ) -> Result<Vec<(usize, Expr)>> {
        let table = &changed.table;
        let mut set: Vec<(usize, Expr)> = Vec::new();
        for assignment in list {
            let values: Vec<Option<Typed>> = match (&assignment.value.kind, assignment.row) {
                (Kind::Default, false) => vec![None],
                (_, false) => vec![Some(self.expr(scope, &assignment.value)?)],
                (Kind::Row(exprs, _), true) => {
                    let bind = |expr: &ast::Expr| match expr.kind {
                        Kind::Default => Ok(None),
                        _ => self.expr(scope, expr).map(Some),
                    };
                    exprs.iter().map(bind).collect::<Result<_>>()?
                }
                (Kind::Scalar(query), true) => {
                    self.row_columns(scope, query, assignment.value.pos)?.into_iter().map(Some).collect()
                }
                (_, true) => vec![Some(self.expr(scope, &assignment.value)?)],
            };
            if values.len() != assignment.columns.len() {
                let message = "number of columns does not match number of values";
                return fail(SqlState::SYNTAX_ERROR, assignment.columns[0].pos, message);
            }
            for (name, value) in assignment.columns.iter().zip(values) {
                let at = self.column_number(&changed.shown, name)?;
                if !assignment.part.is_empty() {
                    let before = set.iter().position(|(other, _)| *other == at);
                    let base = match before.map(|before| set.remove(before).1) {
                        Some(base @ Expr::Replaced { .. }) => base,
                        Some(_) => return Err(assigned_twice(name)),
                        None => Expr::slot(at),
                    };
                    let place = (&table.columns[at], name.pos);
                    set.push((at, self.replaced(scope, base, place, &assignment.part, value)?));
                    continue;
                }
                if set.iter().any(|(other, _)| *other == at) {
                    return Err(assigned_twice(name));
                }
                let column = &table.columns[at];
                let only_default = column.generated.is_some() || column.identity.is_some_and(|i| i.always);
                if value.is_some() && only_default {
                    let message = format!("column \"{}\" can only be updated to DEFAULT", name.text);
                    let detail = match column.generated {
                        Some(_) => format!("Column \"{}\" is a generated column.", name.text),
                        None => format!(
                            "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                            name.text
                        ),
                    };
                    return Err(SqlError::new(GENERATED_ALWAYS, message).detail(detail));
                }
                let expr = match value {
                    Some(typed) => self.coerce_assign(typed, column.ty(), Some(&column.name))?.expr,
                    None => self.default_of(table, at)?,
                };
                set.push((at, expr));
            }
        }
        Ok(set)
    }

    /// A column's value with a part of it replaced.
    fn replaced(
        &self,
        scope: &mut Scope<'_>,
        base: Expr,
        (column, pos): (&crate::catalog::object::Column, u32),
        part: &[ast::Subscript],
        value: Option<Typed>,
    ) -> Result<Expr> {
        let Some(value) = value else {
            return Err(SqlError::refused_by_postgresql("cannot set an array element to DEFAULT").at(pos + 1));
        };
        let own = crate::types::Types::base_of(&self.ctx, column.type_oid);
        let slice = part.iter().any(|part| matches!(part, ast::Subscript::Slice(..)));
        let mut bounds = Vec::new();
        let (element, wanted) = if own == oid::JSONB {
            bounds =
                self.json_path(scope, part, pos)?.into_iter().map(|step| (None, Some(step.expr))).collect();
            (0, oid::JSONB)
        } else {
            let element = self.types().element_of(own);
            if element == 0 {
                let name = super::type_text(self.types(), own);
                let message =
                    format!("cannot subscript type {name} because it does not support subscripting");
                return fail(SqlState::DATATYPE_MISMATCH, pos, message);
            }
            for part in part {
                bounds.push(match part {
                    ast::Subscript::Index(index) if slice => {
                        (Some(Expr::value(Value::Int4(1))), Some(self.array_index(scope, index)?))
                    }
                    ast::Subscript::Index(index) => (None, Some(self.array_index(scope, index)?)),
                    ast::Subscript::Slice(low, high) => {
                        let low = low.as_ref().map(|low| self.array_index(scope, low)).transpose()?;
                        (low, high.as_ref().map(|high| self.array_index(scope, high)).transpose()?)
                    }
                });
            }
            (element, if slice { own } else { element })
        };
        let (from, at) = (value.ty.oid, value.pos);
        let target = Type { oid: wanted, modifier: if own == oid::JSONB { -1 } else { column.modifier } };
        let Some(value) = self.coerce(value, target, super::Context::Assignment)? else {
            let (wanted, from) =
                (super::type_text(self.types(), wanted), super::type_text(self.types(), from));
            let name = &column.name;
            let message = format!(
                "subscripted assignment to \"{name}\" requires type {wanted} but expression is of type {from}"
            );
            let hint = "You will need to rewrite or cast the expression.";
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).hint(hint).at(at + 1));
        };
        let (base, value) = (Box::new(base), Box::new(value.expr));
        Ok(Expr::Replaced { base, bounds, slice, element, value })
    }
}

fn assigned_twice(name: &Ident) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("multiple assignments to same column \"{}\"", name.text))
}
