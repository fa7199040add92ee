//! DROP and what depends on what is dropped; TRUNCATE.
//!
//! 1. An object goes after those that could not be without it (CASCADE), or not at all (2BP01).
use std::sync::Arc;

use super::index_of;
use crate::catalog::object::{Column, Index, Object, Rule, UserType, UserTypeKind};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::privilege;
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::parse::ast::{ObjectKind, Path};
use crate::types::Oid;

/// What could not be without an object that is dropped.
enum Dependent {
    View(Arc<Object>),
    /// A constraint of a table.
    Constraint(Oid, Oid),
    /// Defaults of a table's columns.
    Defaults(Oid),
}

impl<S: Store> LocalSession<S> {
    pub(super) fn drop_named(
        &mut self,
        kind: ObjectKind,
        if_exists: bool,
        path: &Path,
        cascade: bool,
    ) -> Result<()> {
        match kind {
            ObjectKind::Schema => return self.drop_schema(path, if_exists, cascade),
            ObjectKind::Role => {
                return self.drop_role(path, if_exists);
            }
            ObjectKind::Type | ObjectKind::Domain => return self.drop_type(kind, path, if_exists, cascade),
            ObjectKind::Table
            | ObjectKind::View
            | ObjectKind::Index
            | ObjectKind::Sequence
            | ObjectKind::MaterializedView => {}
            _ if if_exists => {
                self.notice(format!("{} \"{}\" does not exist, skipping", kind.word(), path.shown()));
                return Ok(());
            }
            _ => return Err(SqlError::unsupported(format_args!("DROP {}", kind.word().to_uppercase()))),
        }
        let Some(object) = self.find(path)? else {
            return self.missing(kind.word(), SqlState::UNDEFINED_TABLE, path, if_exists);
        };
        let fits = matches!(
            (kind, &*object),
            (ObjectKind::Table, Object::Table(_))
                | (ObjectKind::View, Object::View(_))
                | (ObjectKind::Index, Object::Index(_))
                | (ObjectKind::Sequence, Object::Sequence(_))
        );
        if !fits {
            let article = if kind == ObjectKind::Index { "an" } else { "a" };
            let message = format!("\"{}\" is not {article} {}", path.last(), kind.word());
            let hint = format!(
                "Use DROP {} to remove {} {}.",
                object.kind().to_uppercase(),
                if object.kind() == "index" { "an" } else { "a" },
                object.kind()
            );
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint));
        }
        self.must_own_or_schema(&object)?;
        self.drop_object(&object, cascade)
    }

    /// The owner of a schema may drop what is in it.
    fn must_own_or_schema(&self, object: &Object) -> Result<()> {
        let schema = self.store.object(object.schema());
        match schema.filter(|schema| self.must_own(schema).is_ok()) {
            Some(_) => Ok(()),
            None => self.must_own(object),
        }
    }

    /// Drops an object and, if they may go with it, those that depend on it.
    pub(crate) fn drop_object(&mut self, object: &Object, cascade: bool) -> Result<()> {
        let mut gone = Vec::new();
        self.drop_with(object, cascade, &mut gone)?;
        self.tell_cascade(&gone);
        Ok(())
    }

    /// Drops an object with all that depends on it, and tells nobody.
    pub(super) fn drop_quietly(&mut self, object: &Object) -> Result<()> {
        if self.store.object(object.oid()).is_some() {
            self.drop_with(object, true, &mut Vec::new())?;
        }
        Ok(())
    }

    fn drop_with(&mut self, object: &Object, cascade: bool, gone: &mut Vec<String>) -> Result<()> {
        let oid = object.oid();
        if let Object::Index(index) = object {
            self.refuse_constraint_index(index)?;
        }
        self.drop_dependents(object, cascade, gone)?;
        if let Object::Table(_) = object {
            for index in self.store.indexes(oid) {
                self.store.remove(index.oid)?;
            }
            for other in self.store.objects() {
                if let Object::Sequence(sequence) = &*other
                    && sequence.owned_by.is_some_and(|(table, _)| table == oid)
                {
                    self.store.remove(sequence.oid)?;
                }
            }
        }
        self.store.remove(oid)
    }

    fn refuse_constraint_index(&self, index: &Index) -> Result<()> {
        let owner = self.store.object(index.table);
        if let Some(Object::Table(table)) = owner.as_deref()
            && let Some(constraint) = table.constraints.iter().find(|c| index_of(&c.rule) == Some(index.oid))
        {
            let (name, constraint) = (&index.name, &constraint.name);
            let own = self.visible_name(owner.as_ref().expect("it is there"));
            let message = format!(
                "cannot drop index {name} because constraint {constraint} on table {own} requires it"
            );
            let hint = format!("You can drop constraint {constraint} on table {own} instead.");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).hint(hint));
        }
        Ok(())
    }

    /// Refuses to drop something on which these depend.
    fn depended_on(&self, what: &str, details: &[String]) -> SqlError {
        let message = format!("cannot drop {what} because other objects depend on it");
        let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
        let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
        error.detail(details.join("\n")).hint(hint)
    }

    /// Objects that could not be without this one: refused, or dropped with it.
    fn drop_dependents(&mut self, object: &Object, cascade: bool, gone: &mut Vec<String>) -> Result<()> {
        let oid = object.oid();
        let mut dependents = Vec::new();
        for other in self.store.objects() {
            match &*other {
                Object::View(view) if view.query.depends.contains(&oid) => {
                    dependents.push((self.spelled(&other), Dependent::View(other.clone())));
                }
                Object::Table(table) if table.oid != oid => {
                    let own = self.visible_name(&other);
                    for constraint in &table.constraints {
                        if let Rule::ForeignKey { table: parent, .. } = constraint.rule
                            && parent == oid
                        {
                            let what = format!("constraint {} on table {own}", constraint.name);
                            dependents.push((what, Dependent::Constraint(table.oid, constraint.oid)));
                        }
                    }
                    if !matches!(object, Object::Sequence(_)) {
                        continue;
                    }
                    for column in table.columns.iter().filter(|column| !column.dropped) {
                        if column.default.as_ref().is_some_and(|default| default.depends.contains(&oid)) {
                            let what = format!("default value for column {} of table {own}", column.name);
                            dependents.push((what, Dependent::Defaults(table.oid)));
                        }
                    }
                }
                _ => {}
            }
        }
        if dependents.is_empty() {
            return Ok(());
        }
        let shown = self.spelled(object);
        if !cascade {
            let lines: Vec<String> =
                dependents.iter().map(|(what, _)| format!("{what} depends on {shown}")).collect();
            return Err(self.depended_on(&shown, &lines));
        }
        for (what, dependent) in dependents {
            match dependent {
                Dependent::View(view) if self.store.object(view.oid()).is_some() => {
                    gone.push(what);
                    self.drop_with(&view, true, gone)?;
                }
                Dependent::View(_) => {}
                Dependent::Constraint(table, constraint) => {
                    gone.push(what);
                    if let Some(Object::Table(mut table)) = self.store.object(table).as_deref().cloned() {
                        table.constraints.retain(|other| other.oid != constraint);
                        self.store.replace(Object::Table(table))?;
                    }
                }
                Dependent::Defaults(table) => {
                    gone.push(what);
                    if let Some(Object::Table(mut table)) = self.store.object(table).as_deref().cloned() {
                        for column in &mut table.columns {
                            column.default =
                                column.default.take().filter(|default| !default.depends.contains(&oid));
                        }
                        self.store.replace(Object::Table(table))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn drop_schema(&mut self, path: &Path, if_exists: bool, cascade: bool) -> Result<()> {
        let name = path.last();
        let Some(schema) = self.store.schema(name) else {
            return self.missing("schema", SqlState::INVALID_SCHEMA_NAME, path, if_exists);
        };
        if let Some(object) = self.store.object(schema) {
            self.must_own(&object)?;
        }
        let owned = |object: &Object| {
            matches!(object, Object::Index(_))
                || matches!(object, Object::Sequence(sequence) if sequence.owned_by.is_some())
        };
        let within: Vec<_> = self
            .store
            .objects()
            .into_iter()
            .filter(|object| object.schema() == schema && !owned(object))
            .collect();
        if !within.is_empty() && !cascade {
            let line = |object: &Arc<Object>| format!("{} depends on schema {name}", self.spelled(object));
            let lines: Vec<String> = within.iter().map(line).collect();
            return Err(self.depended_on(&format!("schema {name}"), &lines));
        }
        let mut gone = Vec::new();
        for object in within {
            let what = self.spelled(&object);
            if self.store.object(object.oid()).is_some() {
                gone.push(what);
                match &*object {
                    Object::Type(user) => self.drop_type_with(user, true, &mut gone)?,
                    other => self.drop_with(other, true, &mut gone)?,
                }
            }
        }
        self.tell_cascade(&gone);
        self.store.remove(schema)
    }

    fn drop_type(&mut self, kind: ObjectKind, path: &Path, if_exists: bool, cascade: bool) -> Result<()> {
        let Ok(user) = self.user_type(path) else {
            return self.missing("type", SqlState::UNDEFINED_OBJECT, path, if_exists);
        };
        if kind == ObjectKind::Domain && !matches!(user.kind, UserTypeKind::Domain { .. }) {
            let message = format!("\"{}\" is not a domain", path.last());
            let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
            return Err(error.hint("Use DROP TYPE to remove a type."));
        }
        self.must_own_or_schema(&Object::Type(user.clone()))?;
        let mut gone = Vec::new();
        self.drop_type_with(&user, cascade, &mut gone)?;
        self.tell_cascade(&gone);
        Ok(())
    }

    fn drop_type_with(&mut self, user: &UserType, cascade: bool, gone: &mut Vec<String>) -> Result<()> {
        let shown = format!("type {}", self.visible_name(&Object::Type(user.clone())));
        let mut columns = Vec::new();
        for object in self.store.objects() {
            let Object::Table(table) = &*object else { continue };
            let uses = |column: &Column| {
                !column.dropped && (column.type_oid == user.oid || column.type_oid == user.array)
            };
            let own = self.visible_name(&object);
            for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| uses(column)) {
                let what = format!("column {} of table {own}", column.name);
                columns.push((table.oid, at, column.type_oid == user.array, what));
            }
        }
        columns.sort_by_key(|(.., array, _)| !array);
        if !columns.is_empty() && !cascade {
            let line = |(_, _, array, what): &(Oid, usize, bool, String)| {
                format!("{what} depends on {shown}{}", if *array { "[]" } else { "" })
            };
            let lines: Vec<String> = columns.iter().map(line).collect();
            return Err(self.depended_on(&shown, &lines));
        }
        for (table, at, _, what) in columns {
            if let Some(Object::Table(table)) = self.store.object(table).as_deref().cloned() {
                gone.push(what);
                self.alter_drop(table, at, true)?;
            }
        }
        self.store.remove(user.oid)
    }

    pub(super) fn truncate(&mut self, paths: &[Path], restart: bool, cascade: bool) -> Result<()> {
        let mut tables = Vec::new();
        for path in paths {
            tables.push(self.with_binder(|binder| binder.target_table(path))?);
        }
        let mut at = 0;
        while at < tables.len() {
            for child in self.store.referencing(tables[at].oid) {
                if tables.iter().any(|table| table.oid == child.oid) {
                    continue;
                }
                if !cascade {
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    let detail = format!("Table \"{}\" references \"{}\".", child.name, tables[at].name);
                    let hint = format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        child.name
                    );
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                        .detail(detail)
                        .hint(hint));
                }
                self.notice(format!("truncate cascades to table \"{}\"", child.name));
                tables.push(child);
            }
            at += 1;
        }
        for table in &tables {
            self.allow_on(&Object::Table((**table).clone()), privilege::TRUNCATE)?;
        }
        for table in &tables {
            self.store.truncate(table)?;
            for object in self.store.objects() {
                if let Object::Sequence(sequence) = &*object
                    && restart
                    && sequence.owned_by.is_some_and(|(owner, _)| owner == table.oid)
                {
                    self.store.set_value(sequence.oid, sequence.start, false)?;
                }
            }
        }
        Ok(())
    }
}
