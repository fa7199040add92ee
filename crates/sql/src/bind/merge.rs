//! MERGE: the source joined to the table that is changed, and what is done with each row of that.
//!
//! 1. Only the source is seen where there is no row of the table: in conditions and values of WHEN NOT
//!    MATCHED, and in the source itself.
//! 2. Rows of the source without a match are joined only where some WHEN NOT MATCHED asks for them.

use std::sync::Arc;

use super::scope::{CteName, Entry, ExprKind};
use super::updatable::Changed;
use super::{Binder, Scope, fail};
use crate::catalog::object::Table;
use crate::catalog::privilege;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::{self, FromKind, Ident, JoinKind};
use crate::tree::{Expr, From, Joined, Merge, MergeAction, When};

/// Runs `body` where the target cannot be seen.
fn without_target<T>(scope: &mut Scope<'_>, body: impl FnOnce(&mut Scope<'_>) -> Result<T>) -> Result<T> {
    let (own, others) = scope.visible.columns.drain(..).partition(|(_, entry)| *entry == Some(0));
    scope.visible.columns = others;
    scope.entries[0].hidden = true;
    let made = body(scope);
    scope.entries[0].hidden = false;
    let mut all: Vec<_> = own;
    all.append(&mut scope.visible.columns);
    scope.visible.columns = all;
    made.map_err(|error| hinted(&scope.entries[0], error))
}

/// Says of a column that is not found where it would be.
fn hinted(target: &Entry, error: SqlError) -> SqlError {
    let missing = |name: &str| error.message == format!("column \"{name}\" does not exist");
    let Some(column) = target.columns.iter().find(|column| missing(&column.name)) else { return error };
    let (name, table) = (&column.name, &target.name);
    let place = "but it cannot be referenced from this part of the query.";
    error.hint(format!("There is a column named \"{name}\" in table \"{table}\", {place}"))
}

/// What the actions need of the table that they change.
fn privileges(whens: &[ast::When]) -> u32 {
    let of = |when: &ast::When| match when.action {
        ast::MergeAction::Nothing => 0,
        ast::MergeAction::Delete => privilege::DELETE,
        ast::MergeAction::Update(_) => privilege::UPDATE,
        ast::MergeAction::Insert { .. } => privilege::INSERT,
    };
    match whens.iter().fold(0, |all, when| all | of(when)) {
        0 => privilege::SELECT,
        all => all,
    }
}

/// Behind a WHEN without a condition no other of its kind is reached.
fn reachable(whens: &[ast::When]) -> Result<()> {
    for matched in [true, false] {
        let mut same = whens.iter().filter(|when| when.matched == matched);
        if same.any(|when| when.condition.is_none()) && same.next().is_some() {
            let message = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    Ok(())
}

impl Binder<'_> {
    pub(super) fn merge(
        &self,
        parent: Option<&Scope<'_>>,
        ctes: &[CteName],
        ast: &ast::Merge,
    ) -> Result<Merge> {
        if ast.with.as_ref().is_some_and(|with| with.recursive) {
            let message = "WITH RECURSIVE is not supported for MERGE statement";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut names = ctes.to_vec();
        let bound_ctes = self.with(parent, false, &mut names, ast.with.as_ref())?;
        reachable(&ast.whens)?;
        let table = self.merged_table(ast)?;
        let (changed, target) = (Changed::of(table.clone()), self.target(&table)?);
        let mut scope = self.target_scope(parent, &names, &changed, &ast.table, ast.alias.as_ref());
        let source =
            without_target(&mut scope, |scope| self.source_list(scope, std::slice::from_ref(&ast.source)))?;
        let on = self.condition(&mut scope, Some(&ast.on), ExprKind::JoinOn)?;
        let mut whens = Vec::with_capacity(ast.whens.len());
        for when in &ast.whens {
            let bound = match when.matched {
                true => self.when(&mut scope, &changed, when),
                false => without_target(&mut scope, |scope| self.when(scope, &changed, when)),
            };
            whens.push(bound?);
        }
        let mut read: Vec<Expr> = on.iter().cloned().collect();
        read.extend(whens.iter_mut().flat_map(|when| when.exprs()).map(|expr| expr.clone()));
        self.reads(&ast.table, table.columns.len(), read.iter())?;
        let kind = match whens.iter().all(|when| when.matched) {
            true => JoinKind::Inner,
            false => JoinKind::Left,
        };
        let own = From::Table { table, at: 0 };
        let from =
            From::Join { kind, left: Box::new(source), right: Box::new(own), on, written: Joined::default() };
        let (slots, names) = (scope.slots, scope.into_names());
        Ok(Merge { names, ctes: bound_ctes, target, from, slots, whens })
    }

    fn merged_table(&self, ast: &ast::Merge) -> Result<Arc<Table>> {
        let found = self.find_relation(&ast.table)?;
        if let Some(view) = found.as_deref().filter(|found| found.query().is_some()) {
            let message = format!("cannot execute MERGE on relation \"{}\"", view.name());
            let error = SqlError::refused_by_postgresql(message);
            return Err(error.detail(format!("This operation is not supported for {}s.", view.kind())));
        }
        let table = self.target_table(&ast.table)?;
        self.need(table.oid, privileges(&ast.whens));
        let own = ast.alias.as_ref().map_or(ast.table.last(), |alias| alias.text.as_str());
        let other = match (&ast.source.alias, &ast.source.kind) {
            (Some(alias), _) => Some(alias.name.text.as_str()),
            (None, FromKind::Table { name }) => Some(name.last()),
            _ => None,
        };
        if other == Some(own) {
            let message = format!("name \"{own}\" specified more than once");
            let detail = "The name is used both as MERGE target table and data source.";
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message).detail(detail));
        }
        Ok(table)
    }

    fn when(&self, scope: &mut Scope<'_>, changed: &Changed, ast: &ast::When) -> Result<When> {
        let condition = self.condition(scope, ast.condition.as_ref(), ExprKind::MergeWhen)?;
        let action = match &ast.action {
            ast::MergeAction::Nothing => MergeAction::Nothing,
            ast::MergeAction::Delete => MergeAction::Delete,
            ast::MergeAction::Update(set) => MergeAction::Update(self.assignments(scope, changed, set)?),
            ast::MergeAction::Insert { columns, overriding, values } => {
                let given = values.as_deref().unwrap_or_default();
                MergeAction::Insert(self.merged_values(scope, &changed.table, columns, *overriding, given)?)
            }
        };
        Ok(When { matched: ast.matched, condition, action })
    }

    fn merged_values(
        &self,
        scope: &mut Scope<'_>,
        table: &Arc<Table>,
        names: &[Ident],
        overriding: Option<bool>,
        given: &[ast::Expr],
    ) -> Result<Vec<Expr>> {
        let columns = self.column_list(table, names)?;
        if let Some(more) = given.get(columns.len()) {
            let message = "INSERT has more expressions than target columns";
            return fail(SqlState::SYNTAX_ERROR, more.pos, message);
        }
        if let Some(name) = names.get(given.len()) {
            let message = "INSERT has more target columns than expressions";
            return fail(SqlState::SYNTAX_ERROR, name.pos, message);
        }
        let mut values = Vec::with_capacity(table.columns.len());
        for at in 0..table.columns.len() {
            values.push(self.default_of(table, at)?);
        }
        let place = std::mem::replace(&mut scope.place, ExprKind::Values);
        for (expr, at) in given.iter().zip(columns) {
            values[at] = self.given_value(scope, table, at, expr, overriding)?;
        }
        scope.place = place;
        Ok(values)
    }
}
