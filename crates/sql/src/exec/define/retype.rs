//! ALTER TABLE .. ALTER COLUMN .. TYPE.
//!
//! 1. What can be refused by looking at types alone is refused before anything changes.
//! 2. Constraints that the column is in are looked at again: they must fit its new type, and its new values.

use std::sync::Arc;

use crate::bind::tree::Expr;
use crate::bind::{Binder, Context, Typed, full_type_text, type_text};
use crate::catalog::object::{Constraint, IndexColumn, Indexed, Object, Rule, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::exec::{Env, Exec};
use crate::parse::ast;
use crate::types::{Type, oid};

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
        let from = column.ty();
        (column.type_oid, column.modifier) = (ty.oid, ty.modifier);
        let typed = self.with_binder(|binder| retyped(binder, &old, (at, ty), using))?;
        let refused_default = |binder: &Binder<'_>| {
            let (name, to) = (&old.columns[at].name, type_text(binder.types(), ty.oid));
            let message = format!("default for column \"{name}\" cannot be cast automatically to type {to}");
            SqlError::new(SqlState::DATATYPE_MISMATCH, message)
        };
        self.with_binder(|binder| {
            let own = Typed::new(Expr::slot(at), from, 0);
            let fits = binder.coerce(own, ty, Context::Assignment)?.is_some();
            if old.columns[at].default.is_some() && !fits { Err(refused_default(binder)) } else { Ok(()) }
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
        self.with_binder(|binder| binder.target(&new).map(|_| ()))?;
        self.retype_indexes(&new)?;
        self.check_keys_of(&new)?;
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

    /// Looks whether the foreign keys of a table, and those that refer to it, still fit its columns.
    fn check_keys_of(&self, table: &Arc<Table>) -> Result<()> {
        let mut children = self.store.referencing(table.oid);
        children.push(Arc::clone(table));
        for child in &children {
            for constraint in &child.constraints {
                let Rule::ForeignKey { columns, table: to, references, .. } = &constraint.rule else {
                    continue;
                };
                let parent = self.store.object(*to);
                let Some(Object::Table(parent)) = parent.as_deref() else { continue };
                if child.oid == table.oid || parent.oid == table.oid {
                    self.check_key_types(&constraint.name, (child, columns), (parent, references))?;
                }
            }
        }
        Ok(())
    }

    /// Binds the expressions and predicates of a table's indexes anew: they must still mean something, and
    /// may have other types now.
    fn retype_indexes(&self, table: &Arc<Table>) -> Result<()> {
        for index in self.store.indexes(table.oid) {
            let mut new = (*index).clone();
            self.with_binder(|binder| {
                for column in &mut new.columns {
                    if let Indexed::Expression { expression, type_oid, modifier } = &mut column.of {
                        let parsed = crate::parse::parse_expr(&expression.sql)?;
                        let bound = binder.table_ast(table, &parsed, None, "index expressions")?;
                        let ty = binder.settled(bound)?.ty;
                        (*type_oid, *modifier) = (ty.oid, ty.modifier);
                    }
                }
                if let Some(predicate) = &new.predicate {
                    let ty = Some(Type::of(oid::BOOL));
                    binder.table_expr(table, &predicate.sql, ty, "index predicates")?;
                }
                Ok(())
            })
            .map_err(SqlError::nowhere)?;
            if new != *index {
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
