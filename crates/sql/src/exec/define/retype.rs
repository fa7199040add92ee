//! ALTER TABLE .. ALTER COLUMN .. TYPE.
//!
//! 1. What can be refused by looking at types alone is refused before anything changes.
//! 2. Its default, and the checks and indexes that it is in, keep the types of their literals.
//! 3. Constraints that the column is in are looked at again: they must fit its new type, and its new values.

use std::sync::Arc;

use super::index::{MUTABLE_EXPRESSION, MUTABLE_PREDICATE};
use crate::bind::{Binder, Context, Typed, full_type_text, type_text};
use crate::catalog::object::{Constraint, Expression, IndexColumn, Indexed, Object, Rule, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::exec::system_tables::deparse::Style;
use crate::exec::{Env, Exec};
use crate::parse::ast;
use crate::tree::Expr;
use crate::types::{Oid, Type, oid};

impl<S: Store> LocalSession<S> {
    /// Gives column `at` the type `ty`. Its values are what `using` makes of a row, or casts of those that
    /// are there.
    pub(super) fn alter_type_of(
        &mut self,
        old: Table,
        at: usize,
        ty: Type,
        using: Option<&(ast::Expr, String)>,
    ) -> Result<()> {
        let mut table = old.clone();
        let old = Arc::new(old);
        let column = &mut table.columns[at];
        (column.type_oid, column.modifier) = (ty.oid, ty.modifier);
        if let Some(default) = &column.default {
            column.default = Some(self.printed(&old, default, Some(old.columns[at].ty()))?);
        }
        for constraint in &mut table.constraints {
            if let Rule::Check { condition } = &mut constraint.rule
                && condition.has_column(old.oid, at as u16)
            {
                *condition = self.printed(&old, condition, None)?;
            }
        }
        let typed = self.with_binder(|binder| retyped(binder, &old, (at, ty), using))?;
        let refused_default = |binder: &Binder<'_>| {
            let (name, to) = (&old.columns[at].name, type_text(binder.types(), ty.oid));
            let message = format!("default for column \"{name}\" cannot be cast automatically to type {to}");
            SqlError::new(SqlState::DATATYPE_MISMATCH, message)
        };
        self.with_binder(|binder| {
            let Some(default) = &table.columns[at].default else { return Ok(()) };
            let fits = binder.coerce(binder.default_text(&default.sql)?, ty, Context::Assignment)?;
            fits.map(drop).ok_or_else(|| refused_default(binder))
        })?;
        self.refuse_uses_of(&old, at)?;
        if let Some(identity) = table.columns[at].identity {
            self.change_sequence(identity.sequence, Some(ty.oid), &[])?;
        }
        let new = Arc::new(table.clone());
        self.store.replace(Object::Table(table))?;
        for index in self.store.indexes(new.oid) {
            let is_over =
                |column: &IndexColumn| matches!(column.of, Indexed::Column(on) if usize::from(on) == at);
            if index.columns.iter().any(is_over) {
                self.check_order_of(ty.oid)?;
            }
        }
        self.retype_indexes(&old, &new, at)?;
        self.check_fits(&new)?;
        self.with_binder(|binder| binder.target(&new).map(|_| ()))?;
        self.with_context(|ctx, path| {
            let binder = Binder::new(ctx, &self.store, path, Vec::new());
            binder.default_of(&new, at)?;
            let exec = Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, (0, 0));
            self.store.rewrite(&old, &new, &mut |mut row| {
                row[at] = exec.eval(&typed.expr, &Env { row: &row, outer: None })?;
                if row[at].is_null() && new.columns[at].not_null {
                    return Err(super::alter::contains_null(&new, at));
                }
                Ok(row)
            })
        })
        .map_err(of_index)?;
        self.check_constraints_of(&new, at)
    }

    /// A text over a table, as PostgreSQL prints it: its literals and casts keep their types where it is
    /// bound over the table with another one.
    fn printed(&self, old: &Table, text: &Expression, target: Option<Type>) -> Result<Expression> {
        let style = Style::expression(false);
        let sql = self.with_system(|_, system| Ok(system.expression(old, &text.sql, target, style)))?;
        self.lasting(old, &sql, None)
    }

    /// Looks whether the checks and foreign keys of a table, and the keys that refer to it, still fit its
    /// columns.
    fn check_fits(&self, table: &Arc<Table>) -> Result<()> {
        let mut own: Vec<&Constraint> = table.constraints.iter().collect();
        own.sort_by_key(|constraint| constraint.oid);
        for constraint in own {
            match &constraint.rule {
                Rule::Check { condition } => {
                    self.with_binder(|binder| binder.check_of(table, &condition.sql).map(drop))?;
                }
                _ => self.check_key(table, constraint, None)?,
            }
        }
        for child in self.store.referencing(table.oid).iter().filter(|child| child.oid != table.oid) {
            child.constraints.iter().try_for_each(|it| self.check_key(child, it, Some(table.oid)))?;
        }
        Ok(())
    }

    /// Looks whether a foreign key, if it is one and refers to the table `only`, fits.
    fn check_key(&self, child: &Arc<Table>, constraint: &Constraint, only: Option<Oid>) -> Result<()> {
        let Rule::ForeignKey { columns, table: to, references, .. } = &constraint.rule else { return Ok(()) };
        match self.store.object(*to).as_deref() {
            Some(Object::Table(parent)) if only.is_none_or(|only| only == *to) => {
                self.check_key_types(&constraint.name, (child, columns), (parent, references))
            }
            _ => Ok(()),
        }
    }

    /// Binds the expressions and predicates of a table's indexes anew: they must still mean something, and
    /// may have other types now.
    fn retype_indexes(&self, old: &Table, table: &Arc<Table>, at: usize) -> Result<()> {
        for index in self.store.indexes(table.oid) {
            let mut new = (*index).clone();
            let mut made_anew = new.include.contains(&(at as u16));
            for column in &mut new.columns {
                if column.of == Indexed::Column(at as u16) {
                    made_anew = true;
                } else if let Indexed::Expression { expression, type_oid, modifier } = &mut column.of
                    && expression.has_column(table.oid, at as u16)
                {
                    made_anew = true;
                    *expression = self.printed(old, expression, None)?;
                    let bound = self.with_binder(|binder| {
                        let parsed = crate::parse::parse_expr(&expression.sql)?;
                        let bound = binder.table_ast(table, &parsed, None, "index expressions")?;
                        binder.immutable(&bound.expr, MUTABLE_EXPRESSION)?;
                        binder.settled(bound)
                    });
                    let ty = bound.map_err(SqlError::nowhere)?.ty;
                    (*type_oid, *modifier) = (ty.oid, ty.modifier);
                }
            }
            if let Some(predicate) = &mut new.predicate
                && predicate.has_column(table.oid, at as u16)
            {
                made_anew = true;
                *predicate = self.printed(old, predicate, None)?;
                let ty = Some((Type::of(oid::BOOL), table.name.as_str()));
                self.with_binder(|binder| {
                    let bound = binder.table_expr(table, &predicate.sql, ty, "index predicates")?;
                    binder.immutable(&bound, MUTABLE_PREDICATE)
                })?;
            }
            if made_anew {
                new.names.clear();
                new.names = super::column_names(table, &new);
                self.store.replace(Object::Index(new))?;
            }
        }
        Ok(())
    }

    /// Looks at the rows again for the checks and foreign keys that a column is in, those of other tables
    /// too.
    fn check_constraints_of(&self, table: &Arc<Table>, at: usize) -> Result<()> {
        let (number, counted) = (at as u16, at as i16 + 1);
        for constraint in &table.constraints {
            let is_in = match &constraint.rule {
                Rule::Check { condition } => condition.columns.contains(&(table.oid, counted)),
                Rule::ForeignKey { columns, .. } => columns.contains(&number),
                Rule::PrimaryKey { .. } | Rule::Unique { .. } => false,
            };
            if is_in && !constraint.not_valid {
                self.check_rows(table, constraint)?;
            }
        }
        let refers = |constraint: &&Constraint| match &constraint.rule {
            Rule::ForeignKey { table: to, references, .. } => {
                *to == table.oid && references.contains(&number) && !constraint.not_valid
            }
            _ => false,
        };
        for child in self.store.referencing(table.oid).iter().filter(|child| child.oid != table.oid) {
            child.constraints.iter().filter(refers).try_for_each(|it| self.check_rows(child, it))?;
        }
        Ok(())
    }
}

/// Rows that are alike now are told of as where an index is made over them.
fn of_index(mut error: SqlError) -> SqlError {
    if let (SqlState::UNIQUE_VIOLATION, Some(index)) = (error.state, &error.constraint) {
        error.message = format!("could not create unique index \"{index}\"");
        error.detail = error.detail.take().map(|detail| detail.replace("already exists", "is duplicated"));
    }
    error
}

/// What a column's values become.
fn retyped(
    binder: &Binder<'_>,
    old: &Arc<Table>,
    (at, ty): (usize, Type),
    using: Option<&(ast::Expr, String)>,
) -> Result<Typed> {
    let column = &old.columns[at];
    let typed = match using {
        Some((expr, _)) => {
            let typed = binder.table_ast(old, expr, None, "transform expressions")?;
            if column.generated.is_some() {
                let message = "cannot specify USING when altering type of generated column";
                let detail = format!("Column \"{}\" is a generated column.", column.name);
                return Err(SqlError::new(SqlState::INVALID_COLUMN_DEFINITION, message).detail(detail));
            }
            typed
        }
        None => Typed::new(Expr::slot(at), column.ty(), 0),
    };
    if column.identity.is_some() {
        super::table::check_identity_type(ty.oid)?;
    }
    binder.coerce(typed, ty, Context::Assignment)?.ok_or_else(|| {
        let (name, to) = (&column.name, type_text(binder.types(), ty.oid));
        let (result, what) = match using {
            Some(_) => ("result of USING clause for ", "You might need to add an explicit cast.".to_string()),
            None => {
                let (quoted, to) = (crate::func::quote_ident(name), full_type_text(binder.types(), ty));
                ("", format!("You might need to specify \"USING {quoted}::{to}\"."))
            }
        };
        let message = format!("{result}column \"{name}\" cannot be cast automatically to type {to}");
        let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
        if column.generated.is_some() { error } else { error.hint(what) }
    })
}
