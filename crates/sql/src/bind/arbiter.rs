//! Which unique index ON CONFLICT means: the one over just the columns and expressions that it lists.

use std::sync::Arc;

use super::{Binder, Scope, fail, hints};
use crate::catalog::object::{Index, Indexed, Rule, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::Pos;
use crate::parse::ast::{self, ConflictTarget, Kind};
use crate::tree::Expr;

/// What is looked for.
#[derive(Default)]
struct Wanted {
    columns: Vec<u16>,
    expressions: Vec<Expr>,
}

impl Binder<'_> {
    /// The index; `None`: any.
    ///
    /// # Errors
    /// 42P10: there is no such index; 42704: no such constraint; 42703: no such column.
    pub(super) fn arbiter(&self, table: &Arc<Table>, conflict: &ast::OnConflict) -> Result<Option<u32>> {
        let (exprs, filter, at) = match &conflict.target {
            ConflictTarget::None => return Ok(None),
            ConflictTarget::Constraint(name) => {
                let found = table.constraints.iter().find(|constraint| constraint.name == name.text);
                return match found.map(|constraint| &constraint.rule) {
                    Some(Rule::PrimaryKey { index, .. } | Rule::Unique { index, .. }) => Ok(Some(*index)),
                    _ => {
                        let (name, own) = (&name.text, &table.name);
                        let message = format!("constraint \"{name}\" for table \"{own}\" does not exist");
                        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
                    }
                };
            }
            ConflictTarget::Columns(exprs, filter, at) => (exprs, filter, *at),
        };
        let mut wanted = Wanted::default();
        let names: &[&str] =
            if conflict.update.is_some() { &[&table.name, "excluded"] } else { &[&table.name] };
        exprs.iter().try_for_each(|expr| self.want(table, expr, (names, at), &mut wanted))?;
        wanted.columns.sort_unstable();
        wanted.columns.dedup();
        let indexes = self.store.indexes(table.oid);
        let fits = |index: &&Arc<Index>| index.unique && self.is_over(table, index, &wanted);
        // One over some rows only is meant if the target says of which.
        let of_all = indexes.iter().filter(fits).find(|index| index.predicate.is_none());
        let of_some = || indexes.iter().filter(fits).find(|_| filter.is_some());
        let found = of_all.or_else(of_some).ok_or_else(|| {
            let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
            SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
        });
        found.map(|index| Some(index.oid))
    }

    /// Takes note of a part of the target; `names`: what the table is called there.
    fn want(
        &self,
        table: &Arc<Table>,
        expr: &ast::Expr,
        (names, at): (&[&str], Pos),
        wanted: &mut Wanted,
    ) -> Result<()> {
        match &expr.kind {
            // All collations that there are sort alike.
            Kind::Collate(inner, _) => self.want(table, inner, (names, at), wanted),
            Kind::Column(parts) => {
                let name = &parts[0];
                let Some(number) = table.columns.iter().position(|c| !c.dropped && c.name == *name) else {
                    let message = format!("column \"{name}\" does not exist");
                    let mut scope = Scope::root();
                    for (i, name) in names.iter().enumerate() {
                        scope.add_table(table, name, None, i * table.columns.len(), true);
                    }
                    let missing: Result<()> = fail(SqlState::UNDEFINED_COLUMN, at, message);
                    return missing.map_err(|error| match hints::column(&scope, None, name) {
                        Some(hint) => error.hint(hint),
                        None => error,
                    });
                };
                wanted.columns.push(number as u16);
                Ok(())
            }
            _ => {
                let expr = self.table_ast(table, expr, None, "index expressions")?.expr;
                if !wanted.expressions.contains(&expr) {
                    wanted.expressions.push(expr);
                }
                Ok(())
            }
        }
    }

    /// Whether an index is over what is wanted, and over nothing else.
    fn is_over(&self, table: &Arc<Table>, index: &Index, wanted: &Wanted) -> bool {
        let (mut columns, mut expressions) = (Vec::new(), 0);
        for part in &index.columns {
            match &part.of {
                Indexed::Column(number) => columns.push(*number),
                Indexed::Expression { expression, .. } => {
                    let bound = self.table_expr(table, &expression.sql, None, "index expressions");
                    if !bound.is_ok_and(|expr| wanted.expressions.contains(&expr)) {
                        return false;
                    }
                    expressions += 1;
                }
            }
        }
        columns.sort_unstable();
        columns.dedup();
        columns == wanted.columns && expressions == wanted.expressions.len()
    }
}
