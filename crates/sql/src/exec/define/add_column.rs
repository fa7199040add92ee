//! ALTER TABLE .. ADD COLUMN.
//!
//! 1. Rows say with how many columns they were written (storage/row.rs). A column that all of them have the
//!    same value in comes with a description that has this value: no row is read, and none is written.
//! 2. Where each row may have another value (of a volatile default, or a generated column), or a domain has
//!    something to say, every row is written anew. So it is where the value is longer than descriptions are
//!    to be.

use std::sync::Arc;

use super::alter::contains_null;
use super::storing::check_column_name;
use crate::bind::Binder;
use crate::catalog::object::{Object, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::exec::{Env, Exec};
use crate::parse::ast::{ColumnDef, ConstraintKind};
use crate::storage::codec;

/// Bytes of a value that the description of a column may have.
const MISSING_MOST: usize = 8192;

/// What rows get in a new column that are there already.
enum First {
    /// Each what the default is for it.
    Each,
    /// All the same, as descriptions have it; nothing: NULL.
    Same(Option<Vec<u8>>),
}

impl<S: Store> LocalSession<S> {
    pub(super) fn alter_add(&mut self, old: Table, fine: bool, column: &ColumnDef) -> Result<()> {
        check_column_name(&column.name.text)?;
        if old.columns.iter().any(|c| !c.dropped && c.name == column.name.text) {
            let message =
                format!("column \"{}\" of relation \"{}\" already exists", column.name.text, old.name);
            if fine {
                self.notice_of(SqlState::DUPLICATE_COLUMN, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let (mut table, at) = (old.clone(), old.columns.len());
        let mut constraints = Vec::new();
        self.add_column(&mut table, column, &mut constraints)?;
        let shared = Arc::new(table.clone());
        for constraint in &column.constraints {
            if let ConstraintKind::Generated(expr, _) = &constraint.kind {
                self.check_generated(&shared, expr)?;
            }
        }
        self.settle_texts(&mut table)?;
        match self.first_value(&Arc::new(table.clone()), at)? {
            First::Each => {
                self.store.replace(Object::Table(table.clone()))?;
                self.fill_column(&Arc::new(old), &Arc::new(table.clone()), at)?;
            }
            First::Same(missing) => {
                table.columns[at].missing = missing;
                self.store.replace(Object::Table(table.clone()))?;
                if table.columns[at].not_null && table.columns[at].missing.is_none() {
                    self.check_not_null(&table, at)?;
                }
            }
        }
        for constraint in &constraints {
            self.add_constraint(&mut table, constraint, true)?;
        }
        Ok(())
    }

    /// What the rows that are there get in the last column of a table.
    fn first_value(&self, table: &Arc<Table>, at: usize) -> Result<First> {
        if table.columns[at].generated.is_some() {
            return Ok(First::Each);
        }
        self.with_context(|ctx, path| {
            let binder = Binder::new(ctx, &self.store, path, Vec::new());
            let default = binder.default_of(table, at)?;
            let target = binder.target(table)?;
            if binder.is_volatile(&default) || target.domains.iter().any(|check| check.column == at) {
                return Ok(First::Each);
            }
            let exec = Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, (0, 0));
            let value = exec.eval(&default, &Env::EMPTY)?;
            if value.is_null() {
                return Ok(First::Same(None));
            }
            let mut bytes = Vec::new();
            codec::write(&value, &mut bytes)?;
            Ok(if bytes.len() > MISSING_MOST { First::Each } else { First::Same(Some(bytes)) })
        })
    }

    /// Puts what a new column has into every row.
    fn fill_column(&self, old: &Arc<Table>, new: &Arc<Table>, at: usize) -> Result<()> {
        self.with_context(|ctx, path| {
            let binder = Binder::new(ctx, &self.store, path, Vec::new());
            let default = binder.default_of(new, at)?;
            let target = binder.target(new)?;
            let exec = Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, (0, 0));
            self.store.rewrite(old, new, &mut |mut row| {
                row.truncate(at);
                row.push(exec.eval(&default, &Env::EMPTY)?);
                if let Some((_, generated)) = target.generated.iter().find(|(column, _)| *column == at) {
                    row[at] = exec.eval(generated, &Env { row: &row, outer: None })?;
                }
                if row[at].is_null() && new.columns[at].not_null {
                    return Err(contains_null(new, at));
                }
                exec.in_domains(&target, &row, |column| column == at)?;
                Ok(row)
            })
        })
    }
}
