//! SET of UPDATE and of ON CONFLICT: columns, rows of columns, and parts of columns.

use std::sync::Arc;

use super::change::GENERATED_ALWAYS;
use super::updatable::Changed;
use super::{Binder, Scope, Typed, fail};
use crate::catalog::object::{Column, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::{self, Ident, Kind};
use crate::tree::Expr;
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
                if only_default && (value.is_some() || changed.is_through_view()) {
                    self.refuse_late(at, only_default_for(column));
                }
                let expr = match value {
                    Some(typed) => self.coerce_assign(typed, column.ty(), &column.name)?.expr,
                    None => self.default_of(&changed.shown, at)?,
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
        (column, pos): (&Column, u32),
        part: &[ast::Subscript],
        value: Option<Typed>,
    ) -> Result<Expr> {
        let Some(value) = value else {
            return Err(SqlError::refused_by_postgresql("cannot set an array element to DEFAULT").at(pos + 1));
        };
        let own = crate::types::Types::base_of(&self.ctx, column.type_oid);
        let slice = part.iter().any(|part| matches!(part, ast::Subscript::Slice(..)));
        let mut bounds = Vec::new();
        let element = if own == oid::JSONB {
            bounds =
                self.json_path(scope, part, pos)?.into_iter().map(|step| (None, Some(step.expr))).collect();
            0
        } else {
            let element = self.types().element_of(own);
            self.part_type(column, pos, part)?;
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
            element
        };
        let value = self.as_part(value, self.part_type(column, pos, part)?, &column.name)?;
        let (base, value) = (Box::new(base), Box::new(value.expr));
        Ok(Expr::Replaced { base, bounds, slice, element, value })
    }

    /// The type of the value that a part of a column is assigned.
    pub(super) fn part_type(&self, column: &Column, pos: u32, part: &[ast::Subscript]) -> Result<Type> {
        let own = crate::types::Types::base_of(&self.ctx, column.type_oid);
        let slice = part.iter().any(|part| matches!(part, ast::Subscript::Slice(..)));
        let element = self.types().element_of(own);
        Ok(match (own, element) {
            (oid::JSONB, _) => Type::of(own),
            (_, 0) => {
                let name = super::type_text(self.types(), own);
                let message =
                    format!("cannot subscript type {name} because it does not support subscripting");
                return fail(SqlState::DATATYPE_MISMATCH, pos, message);
            }
            (own, element) => Type { oid: if slice { own } else { element }, modifier: column.modifier },
        })
    }

    /// A value as that of a part of the column `name`.
    fn as_part(&self, value: Typed, target: Type, name: &str) -> Result<Typed> {
        let (from, at) = (value.ty.oid, value.pos);
        if let Some(base) = self.with_length(target.oid, from) {
            let value = self.as_part(value, base, name)?;
            return Ok(Typed { ty: target, ..value });
        }
        if let Some(value) = self.coerce(value, target, super::Context::Assignment)? {
            return Ok(value);
        }
        let (wanted, from) =
            (super::type_text(self.types(), target.oid), super::type_text(self.types(), from));
        let message = format!(
            "subscripted assignment to \"{name}\" requires type {wanted} but expression is of type {from}"
        );
        let hint = "You will need to rewrite or cast the expression.";
        Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).hint(hint).at(at + 1))
    }

    /// The columns of an INSERT, some of them in parts: those may be there more than once.
    pub(super) fn columns_and_parts(&self, table: &Table, ast: &ast::Insert) -> Result<Vec<usize>> {
        let mut numbers: Vec<usize> = Vec::new();
        for (slot, name) in ast.columns.iter().enumerate() {
            let at = self.column_number(table, name)?;
            let is_whole = |slot: usize| ast.parts[slot].is_empty();
            let again = (0..slot).any(|other| numbers[other] == at && (is_whole(other) || is_whole(slot)));
            if again {
                let message = format!("column \"{}\" specified more than once", name.text);
                return fail(SqlState::DUPLICATE_COLUMN, name.pos, message);
            }
            if !is_whole(slot) {
                let typed = self.part_type(&table.columns[at], name.pos, &ast.parts[slot]);
                typed.map_err(SqlError::nowhere)?;
            }
            numbers.push(at);
        }
        Ok(numbers)
    }

    /// A value that VALUES gives to a part of a column.
    pub(super) fn given_part(
        &self,
        scope: &mut Scope<'_>,
        (column, pos): (&Column, u32),
        part: &[ast::Subscript],
        expr: &ast::Expr,
    ) -> Result<Expr> {
        if expr.kind == Kind::Default {
            return Err(SqlError::refused_by_postgresql("cannot set an array element to DEFAULT").at(pos + 1));
        }
        let typed = self.expr(scope, expr)?;
        self.as_part(typed, self.part_type(column, pos, part)?, &column.name).map(|typed| typed.expr)
    }

    /// What columns are made of that get the first `width` slots of the source; the slots' types.
    pub(super) fn set_slots(
        &self,
        of: (&Arc<Table>, &[usize], &ast::Insert),
        width: usize,
        values: &mut [Expr],
    ) -> Result<Vec<Type>> {
        let (table, columns, ast) = of;
        let mut types = Vec::with_capacity(width);
        for (slot, at) in columns.iter().take(width).enumerate() {
            let column = &table.columns[*at];
            match ast.parts.get(slot).filter(|part| !part.is_empty()) {
                None => {
                    types.push(column.ty());
                    values[*at] = Expr::slot(slot);
                }
                Some(part) => {
                    let pos = ast.columns[slot].pos;
                    types.push(self.part_type(column, pos, part)?);
                    let typed = Typed::new(Expr::slot(slot), types[slot], pos);
                    values[*at] = self.set_part(of, slot, typed, values)?;
                }
            }
        }
        Ok(types)
    }

    /// A column that an INSERT gives a value gets none but by its default, where it says so.
    pub(super) fn refuse_generated(&self, table: &Table, at: usize, overriding: Option<bool>) {
        let column = &table.columns[at];
        let name = &column.name;
        let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
        if column.identity.is_some_and(|identity| identity.always) && overriding.is_none() {
            let detail = format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.");
            let hint = "Use OVERRIDING SYSTEM VALUE to override.";
            self.refuse_late(at, SqlError::new(GENERATED_ALWAYS, message).detail(detail).hint(hint));
        } else if column.generated.is_some() {
            let detail = format!("Column \"{name}\" is a generated column.");
            self.refuse_late(at, SqlError::new(GENERATED_ALWAYS, message).detail(detail));
        }
    }

    /// A column of an INSERT whose part the slot's value is, over what the slots before it made of it.
    pub(super) fn set_part(
        &self,
        (table, columns, ast): (&Arc<Table>, &[usize], &ast::Insert),
        slot: usize,
        value: Typed,
        values: &[Expr],
    ) -> Result<Expr> {
        let at = columns[slot];
        let base = if columns[..slot].contains(&at) { values[at].clone() } else { Expr::null() };
        let mut scope = Scope::with_parent(None, false);
        let place = (&table.columns[at], ast.columns[slot].pos);
        self.replaced(&mut scope, base, place, &ast.parts[slot], Some(value))
    }
}

/// A column that nothing but its default, or what it is generated from, may set.
pub(crate) fn only_default_for(column: &Column) -> SqlError {
    let name = &column.name;
    let detail = match column.generated {
        Some(_) => format!("Column \"{name}\" is a generated column."),
        None => format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."),
    };
    let message = format!("column \"{name}\" can only be updated to DEFAULT");
    SqlError::new(GENERATED_ALWAYS, message).detail(detail)
}

fn assigned_twice(name: &Ident) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("multiple assignments to same column \"{}\"", name.text))
}
