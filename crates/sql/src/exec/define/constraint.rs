//! Constraints of tables: keys, checks and foreign keys, with the names that PostgreSQL gives them.
use std::collections::BTreeSet;
use std::sync::Arc;

use super::storing::SYSTEM_COLUMNS;
use super::table::joined;
use crate::catalog::object::{Action, Constraint, IndexColumn, Indexed, Object, Rule, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::privilege;
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::func::{CastContext, find_cast};
use crate::parse::ast::{self, ConstraintKind, Ident};
use crate::types::{Oid, Type, Types, oid};

impl<S: Store> LocalSession<S> {
    pub(super) fn constraint_name(
        &self,
        table: &Table,
        given: Option<&String>,
        (columns, suffix): (&str, &str),
        is_new: bool,
    ) -> Result<String> {
        if let Some(name) = given {
            if let Some(other) = table.constraints.iter().find(|constraint| constraint.name == *name) {
                let both = is_new && suffix == "check" && matches!(other.rule, Rule::Check { .. });
                let message = match both {
                    true => format!("check constraint \"{name}\" already exists"),
                    false => format!("constraint \"{name}\" for relation \"{}\" already exists", table.name),
                };
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
            return Ok(name.clone());
        }
        let mut name = joined(&table.name, columns, suffix);
        let mut number = 0;
        let taken = |name: &str| {
            table.constraints.iter().any(|constraint| constraint.name == name)
                || (suffix != "check"
                    && suffix != "fkey"
                    && self.store.relation(table.schema, name).is_some())
        };
        while taken(&name) {
            number += 1;
            name = joined(&table.name, columns, &format!("{suffix}{number}"));
        }
        Ok(name)
    }

    /// Adds a constraint to a table that is in the catalog; `check`: its rows are looked at.
    pub(super) fn add_constraint(
        &mut self,
        table: &mut Table,
        ast: &ast::Constraint,
        check: bool,
    ) -> Result<()> {
        let names = |table: &Table, columns: &[u16]| {
            columns
                .iter()
                .map(|at| table.columns[usize::from(*at)].name.as_str())
                .collect::<Vec<_>>()
                .join("_")
        };
        let oid = self.store.new_oid(table.oid)?;
        let (name, rule) = match &ast.kind {
            ConstraintKind::PrimaryKey(list) | ConstraintKind::Unique(list, _) => {
                let primary = matches!(ast.kind, ConstraintKind::PrimaryKey(_));
                if primary && check {
                    list.iter().try_for_each(|name| self.column_of(table, name).map(|_| ()))?;
                }
                let has = |c: &Constraint| matches!(c.rule, Rule::PrimaryKey { .. });
                if primary && table.constraints.iter().any(has) {
                    let message =
                        format!("multiple primary keys for table \"{}\" are not allowed", table.name);
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                }
                // PostgreSQL finds out so late in ALTER TABLE that it points nowhere.
                let late = |error: &SqlError| check && error.state == SqlState::UNDEFINED_COLUMN;
                let columns = self.columns_named(table, list);
                let columns = columns.map_err(|e| if late(&e) { SqlError::nowhere(e) } else { e })?;
                let shown = if primary { String::new() } else { names(table, &columns) };
                let suffix = if primary { "pkey" } else { "key" };
                let name = self.constraint_name(table, ast.name.as_ref(), (&shown, suffix), !check)?;
                if self.store.relation(table.schema, &name).is_some() {
                    let message = format!("relation \"{name}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
                }
                if primary {
                    for at in &columns.iter().copied().collect::<BTreeSet<u16>>() {
                        if check {
                            self.check_not_null(table, usize::from(*at))?;
                        }
                        table.columns[usize::from(*at)].not_null = true;
                    }
                    self.store.replace(Object::Table(table.clone()))?;
                }
                let parts = columns.iter().map(|at| IndexColumn::of(*at)).collect();
                let nulls_equal = matches!(ast.kind, ConstraintKind::Unique(_, true));
                let index = self.new_index(table, &name, parts, (primary, nulls_equal, ast.deferrable))?;
                let rule = match primary {
                    true => Rule::PrimaryKey { columns, index },
                    false => Rule::Unique { columns, index },
                };
                (name, rule)
            }
            ConstraintKind::Check(expr, sql) => {
                let shown = self.only_column(table, expr);
                let name = self.constraint_name(table, ast.name.as_ref(), (&shown, "check"), !check)?;
                let condition = self.lasting(table, sql, None)?;
                (name, Rule::Check { condition })
            }
            ConstraintKind::ForeignKey(list, references) => self.foreign_key(table, ast, list, references)?,
            ConstraintKind::UsingIndex { .. } => {
                let message = "cannot use an existing index in CREATE TABLE";
                return Err(SqlError::refused_by_postgresql(message).at(ast.pos + 1));
            }
            _ => return Ok(()),
        };
        let (deferrable, deferred) = (ast.deferrable, ast.deferred);
        // A new table has no rows that could break it.
        let not_valid = ast.not_valid && check;
        let (no_inherit, comment) = (ast.no_inherit, None);
        let constraint = Constraint { oid, name, rule, deferrable, deferred, not_valid, no_inherit, comment };
        table.constraints.push(constraint.clone());
        self.store.replace(Object::Table(table.clone()))?;
        if check && !ast.not_valid {
            self.check_rows(table, &constraint)?;
        } else if let Rule::Check { .. } = constraint.rule {
            self.with_binder(|binder| binder.target(&Arc::new(table.clone())).map(|_| ()))?;
        }
        Ok(())
    }

    /// The column that a check is about, if it is about one.
    fn only_column(&self, table: &Table, expr: &ast::Expr) -> String {
        let mut found = Vec::new();
        let shared = Arc::new(table.clone());
        let bound = self.with_binder(|binder| binder.table_ast(&shared, expr, None, crate::bind::CHECKS));
        if let Ok(mut bound) = bound {
            bound.expr.walk(0, &mut |part, _| {
                if let crate::tree::Expr::Column { slot, .. } = part
                    && !found.contains(slot)
                {
                    found.push(*slot);
                }
                false
            });
        }
        match found.as_slice() {
            [only] => table.columns[*only].name.clone(),
            _ => String::new(),
        }
    }

    fn foreign_key(
        &self,
        table: &Table,
        ast: &ast::Constraint,
        list: &[Ident],
        references: &ast::References,
    ) -> Result<(String, Rule)> {
        let mut columns = Vec::new();
        for name in list {
            let found = table.columns.iter().position(|c| !c.dropped && c.name == name.text);
            columns.push(found.map(|at| at as u16).ok_or_else(|| no_key_column(&name.text))?);
        }
        let parent = self.with_binder(|binder| binder.target_table(&references.table))?;
        if parent.materialized.is_some() {
            let message = format!("referenced relation \"{}\" is not a table", parent.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let parent = if parent.oid == table.oid { Arc::new(table.clone()) } else { parent };
        let (own, its) = (self.is_temporary(table.schema), self.is_temporary(parent.schema));
        if own != its {
            let kind = if own { "temporary" } else { "permanent" };
            let message = format!("constraints on {kind} tables may reference only {kind} tables");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        self.allow_on(&Object::Table((*parent).clone()), privilege::REFERENCES)?;
        let (wanted, index) = self.referenced(&parent, &references.columns)?;
        refuse_actions(table, &columns, references)?;
        let mut set = Vec::new();
        for name in &references.set_columns {
            let found = table.columns.iter().position(|c| !c.dropped && c.name == name.text);
            let at = found.ok_or_else(|| no_key_column(&name.text))? as u16;
            if !columns.contains(&at) {
                let name = &name.text;
                let message = format!(
                    "column \"{name}\" referenced in ON DELETE SET action must be part of foreign key"
                );
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
            }
            if !set.contains(&at) {
                set.push(at);
            }
        }
        if wanted.len() != columns.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(SqlError::new(SqlState::INVALID_FOREIGN_KEY, message));
        }
        let shown = columns
            .iter()
            .map(|at| table.columns[usize::from(*at)].name.as_str())
            .collect::<Vec<_>>()
            .join("_");
        let name = self.constraint_name(table, ast.name.as_ref(), (&shown, "fkey"), false)?;
        self.check_key_types(&name, (table, &columns), (&parent, &wanted))?;
        let action = |action: ast::Action| match action {
            ast::Action::Nothing => Action::NoAction,
            ast::Action::Restrict => Action::Restrict,
            ast::Action::Cascade => Action::Cascade,
            ast::Action::SetNull => Action::SetNull,
            ast::Action::SetDefault => Action::SetDefault,
        };
        let (on_delete, on_update) = (action(references.on_delete), action(references.on_update));
        let (table, references, full) = (parent.oid, wanted, references.match_full);
        Ok((name, Rule::ForeignKey { columns, table, references, index, on_delete, set, on_update, full }))
    }

    /// Refuses a foreign key between columns that cannot be compared.
    pub(super) fn check_key_types(
        &self,
        name: &str,
        (table, columns): (&Table, &[u16]),
        (parent, wanted): (&Table, &[u16]),
    ) -> Result<()> {
        for (own, other) in columns.iter().zip(wanted) {
            let (own, other) = (&table.columns[usize::from(*own)], &parent.columns[usize::from(*other)]);
            if !self.with_binder(|binder| Ok(fits_key(binder.types(), other.type_oid, own.type_oid)))? {
                let message = format!("foreign key constraint \"{name}\" cannot be implemented");
                let shown = |ty: Type| {
                    self.with_binder(|b| Ok(crate::bind::type_text(b.types(), ty.oid))).unwrap_or_default()
                };
                let detail = format!(
                    "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                    own.name,
                    other.name,
                    shown(own.ty()),
                    shown(other.ty())
                );
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).detail(detail));
            }
        }
        Ok(())
    }

    /// The columns that a foreign key refers to, and the unique index over them.
    fn referenced(&self, parent: &Table, names: &[Ident]) -> Result<(Vec<u16>, Oid)> {
        let refused = |kind: &str| {
            let message = format!("cannot use a deferrable {kind} for referenced table \"{}\"", parent.name);
            Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
        };
        if names.is_empty() {
            let key = parent.constraints.iter().find_map(|constraint| match &constraint.rule {
                Rule::PrimaryKey { columns, index } => Some((constraint, columns.clone(), *index)),
                _ => None,
            });
            if key.as_ref().is_some_and(|(constraint, ..)| constraint.deferrable) {
                return refused("primary key");
            }
            return key.map(|(_, columns, index)| (columns, index)).ok_or_else(|| {
                let message = format!("there is no primary key for referenced table \"{}\"", parent.name);
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            });
        }
        let mut wanted = Vec::new();
        for name in names {
            let found = parent.columns.iter().position(|c| !c.dropped && c.name == name.text);
            wanted.push(found.map(|at| at as u16).ok_or_else(|| no_key_column(&name.text))?);
        }
        let mut sorted = wanted.clone();
        sorted.sort_unstable();
        let mut is_deferrable = false;
        let mut indexes = self.store.indexes(parent.oid);
        indexes.sort_by_key(|index| !index.primary);
        for index in indexes {
            let mut columns: Vec<u16> = Vec::new();
            for column in &index.columns {
                if let Indexed::Column(at) = column.of {
                    columns.push(at);
                }
            }
            let plain = columns.len() == index.columns.len();
            columns.sort_unstable();
            if index.unique && index.predicate.is_none() && plain && columns == sorted {
                if index.deferrable {
                    is_deferrable = true;
                    continue;
                }
                return Ok((wanted, index.oid));
            }
        }
        if is_deferrable {
            return refused("unique constraint");
        }
        let message = format!(
            "there is no unique constraint matching given keys for referenced table \"{}\"",
            parent.name
        );
        Err(SqlError::new(SqlState::INVALID_FOREIGN_KEY, message))
    }

    pub(super) fn columns_named(&self, table: &Table, names: &[Ident]) -> Result<Vec<u16>> {
        let mut numbers = Vec::new();
        for name in names {
            let Some(at) = table.columns.iter().position(|c| !c.dropped && c.name == name.text) else {
                let message = format!("column \"{}\" named in key does not exist", name.text);
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).at(name.pos + 1));
            };
            if numbers.contains(&(at as u16)) {
                let message = format!("column \"{}\" appears twice in primary key constraint", name.text);
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message).at(name.pos + 1));
            }
            numbers.push(at as u16);
        }
        Ok(numbers)
    }
}

/// Whether a column of one type may refer to one of another: they are of a kind that has an equality of its
/// own, or the one is cast to the other without being asked.
fn fits_key(types: &dyn Types, referenced: Oid, own: Oid) -> bool {
    let (to, from) = (types.base_of(referenced), types.base_of(own));
    let kind = |ty: Oid| match ty {
        oid::INT2 | oid::INT4 | oid::INT8 => 1,
        oid::FLOAT4 | oid::FLOAT8 => 2,
        oid::DATE | oid::TIMESTAMP | oid::TIMESTAMPTZ => 3,
        oid::TEXT | oid::VARCHAR | oid::NAME => 4,
        _ => 0,
    };
    to == from
        || kind(to) != 0 && kind(to) == kind(from)
        || find_cast(types, from, to, CastContext::Implicit).is_some()
}

/// No action of a foreign key sets a generated column.
fn refuse_actions(table: &Table, columns: &[u16], references: &ast::References) -> Result<()> {
    if columns.iter().all(|at| table.columns[usize::from(*at)].generated.is_none()) {
        return Ok(());
    }
    let sets = |action| matches!(action, ast::Action::SetNull | ast::Action::SetDefault);
    let event = match (references.on_update, references.on_delete) {
        (update, _) if sets(update) || update == ast::Action::Cascade => "ON UPDATE",
        (_, delete) if sets(delete) => "ON DELETE",
        _ => return Ok(()),
    };
    let message = format!("invalid {event} action for foreign key constraint containing generated column");
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

/// A foreign key names a column that is none of the table's.
fn no_key_column(name: &str) -> SqlError {
    if SYSTEM_COLUMNS.contains(&name) {
        return SqlError::refused_by_postgresql("system columns cannot be used in foreign keys");
    }
    let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
}
