//! `ALTER TABLE .. ADD .. USING INDEX`: an index that is there becomes a primary key's or a unique
//! constraint's.
//!
//! The index takes the constraint's name. Where it would be kept otherwise as the constraint's (a primary
//! key keeps the rows of its table, a deferrable index has entries of another form), it is made anew under
//! another number, and foreign keys over it follow.

use std::collections::BTreeSet;

use crate::catalog::object::{Constraint, Index, IndexColumn, Indexed, Object, Rule, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::exec::system_tables::operator_classes::default_class;
use crate::parse::ast::{self, ConstraintKind, Ident};
use crate::progress::Command;
use crate::types::Oid;

const NOT_SUCH: &str = "Cannot create a primary key or unique constraint using such an index.";

impl<S: Store> LocalSession<S> {
    /// Adds a constraint to a table that has rows.
    pub(super) fn alter_add_constraint(&mut self, table: &mut Table, ast: &ast::Constraint) -> Result<()> {
        match &ast.kind {
            ConstraintKind::UsingIndex { primary, index } => {
                self.add_using_index(table, ast, *primary, index)
            }
            _ => self.add_constraint(table, ast, true).map_err(SqlError::nowhere),
        }
    }

    /// Adds the constraint to a table that is in the catalog.
    ///
    /// # Errors
    /// 42704, 55000 and 42809: there is no such index, or it is none for a constraint; 42P16: a second
    /// primary key; 23502: NULLs in what becomes one; 42P07 and 42710: the name is taken.
    fn add_using_index(
        &mut self,
        table: &mut Table,
        ast: &ast::Constraint,
        primary: bool,
        name: &Ident,
    ) -> Result<()> {
        let index = self.index_named(table, name, ast.pos + 1)?;
        self.check_for_constraint(table, ast, &index).map_err(|error| error.at(ast.pos + 1))?;
        let columns: Vec<u16> = index.columns.iter().filter_map(plain).collect();
        if primary {
            for at in &columns.iter().copied().collect::<BTreeSet<u16>>() {
                self.check_not_null(table, usize::from(*at))?;
                table.columns[usize::from(*at)].not_null = true;
            }
        }
        let new_name = ast.name.clone().unwrap_or_else(|| index.name.clone());
        if new_name != index.name {
            let old = &index.name;
            self.notice(format!(
                "ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{old}\" to \"{new_name}\""
            ));
            self.relation_exists(table.schema, &new_name, false)?;
        }
        if primary && table.constraints.iter().any(|one| matches!(one.rule, Rule::PrimaryKey { .. })) {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        if table.constraints.iter().any(|one| one.name == new_name) {
            let message = format!("constraint \"{new_name}\" for relation \"{}\" already exists", table.name);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        self.store.replace(Object::Table(table.clone()))?;
        let mut made = Index { name: new_name.clone(), primary, deferrable: ast.deferrable, ..index.clone() };
        if primary || ast.deferrable != index.deferrable {
            self.store.remove(index.oid)?;
            made = Index { oid: self.store.new_oid(table.oid)?, rows: None, ..made };
            self.install_index(table, made.clone(), Command::CreateIndex)?;
            self.refer_to(table, index.oid, made.oid)?;
        } else {
            self.store.replace(Object::Index(made.clone()))?;
        }
        let rule = match primary {
            true => Rule::PrimaryKey { columns, index: made.oid },
            false => Rule::Unique { columns, index: made.oid },
        };
        table.constraints.push(Constraint {
            oid: self.store.new_oid(table.oid)?,
            name: new_name,
            rule,
            deferrable: ast.deferrable,
            deferred: ast.deferred,
            not_valid: false,
            no_inherit: false,
            comment: None,
        });
        self.store.replace(Object::Table(table.clone()))
    }

    /// The index with this name in the table's schema.
    fn index_named(&self, table: &Table, name: &Ident, at: u32) -> Result<Index> {
        let name = &name.text;
        match self.store.relation(table.schema, name).as_deref() {
            Some(Object::Index(index)) => Ok(index.clone()),
            Some(_) => {
                let message = format!("\"{name}\" is not an index");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            None => {
                let message = format!("index \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).at(at))
            }
        }
    }

    /// Refuses an index that cannot be a constraint's.
    fn check_for_constraint(&self, table: &Table, ast: &ast::Constraint, index: &Index) -> Result<()> {
        let name = &index.name;
        let not_ready = |message| SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
        let wrong = |message, detail: &str| {
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail(detail.to_string()))
        };
        let owner = self.store.object(index.table);
        if let Some(Object::Table(owner)) = owner.as_deref()
            && owner.constraints.iter().any(|one| super::index_of(&one.rule) == Some(index.oid))
        {
            return Err(not_ready(format!("index \"{name}\" is already associated with a constraint")));
        }
        if index.table != table.oid {
            return Err(not_ready(format!("index \"{name}\" does not belong to table \"{}\"", table.name)));
        }
        if !index.valid {
            return Err(not_ready(format!("index \"{name}\" is not valid")));
        }
        if !index.unique {
            return wrong(format!("\"{name}\" is not a unique index"), NOT_SUCH);
        }
        if index.columns.iter().any(|column| plain(column).is_none()) {
            return wrong(format!("index \"{name}\" contains expressions"), NOT_SUCH);
        }
        if index.predicate.is_some() {
            return wrong(format!("\"{name}\" is a partial index"), NOT_SUCH);
        }
        if index.deferrable && !ast.deferrable {
            let detail = "Cannot create a non-deferrable constraint using a deferrable index.";
            return wrong(format!("\"{name}\" is a deferrable index"), detail);
        }
        let usual = |(at, column): (usize, &IndexColumn)| {
            let of = plain(column).map(|at| table.columns[usize::from(at)].type_oid);
            let class = of.map(|of| self.with_binder(|b| Ok(default_class(b.types(), "btree", of))));
            let own = match (column.class, class) {
                (Some(named), Some(Ok(usual))) => named == usual,
                (named, _) => named.is_none(),
            };
            (column.descending || column.nulls_first || !own).then_some(at + 1)
        };
        if let Some(number) = index.columns.iter().enumerate().find_map(usual) {
            let what = "does not have default sorting behavior";
            return wrong(format!("index \"{name}\" column number {number} {what}"), NOT_SUCH);
        }
        Ok(())
    }

    /// Foreign keys over an index are over another from now on; `table` may have some over itself.
    fn refer_to(&self, table: &mut Table, old: Oid, new: Oid) -> Result<()> {
        let changed = |of: &mut Table| {
            let keys = of.constraints.iter_mut().filter_map(|one| match &mut one.rule {
                Rule::ForeignKey { index, .. } if *index == old => Some(index),
                _ => None,
            });
            keys.map(|index| *index = new).count() > 0
        };
        changed(table);
        for object in self.store.objects() {
            let Object::Table(other) = &*object else { continue };
            let mut other = other.clone();
            if other.oid != table.oid && changed(&mut other) {
                self.store.replace(Object::Table(other))?;
            }
        }
        Ok(())
    }
}

/// The column that a part of an index is, if it is one.
fn plain(column: &IndexColumn) -> Option<u16> {
    match column.of {
        Indexed::Column(at) => Some(at),
        Indexed::Expression { .. } => None,
    }
}
