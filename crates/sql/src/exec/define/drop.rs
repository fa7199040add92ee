//! DROP and what depends on what is dropped; TRUNCATE.
//!
//! 1. An object goes after those that could not be without it (CASCADE), or not at all (2BP01).
use std::sync::Arc;

use super::index_of;
use crate::catalog::object::{Column, Object, Rule};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::privilege;
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::parse::ast::{ObjectKind, Path};

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

    pub(crate) fn drop_object(&mut self, object: &Object, cascade: bool) -> Result<()> {
        let oid = object.oid();
        if let Object::Index(index) = object {
            let owner = self.store.object(index.table);
            if let Some(Object::Table(table)) = owner.as_deref()
                && let Some(constraint) =
                    table.constraints.iter().find(|c| index_of(&c.rule) == Some(index.oid))
            {
                let (name, constraint) = (&index.name, &constraint.name);
                let message = format!(
                    "cannot drop index {name} because constraint {constraint} on table {} requires it",
                    table.name
                );
                let hint = format!("You can drop constraint {constraint} on table {} instead.", table.name);
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).hint(hint));
            }
        }
        self.drop_dependents(object, cascade)?;
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

    /// Objects that could not be without this one: refused, or dropped with it.
    fn drop_dependents(&mut self, object: &Object, cascade: bool) -> Result<()> {
        let oid = object.oid();
        let mut details = Vec::new();
        let (mut views, mut keys, mut defaults) = (Vec::new(), Vec::new(), Vec::new());
        for other in self.store.objects() {
            match &*other {
                Object::View(view) if view.query.depends.contains(&oid) => {
                    details.push(format!(
                        "view {} depends on {} {}",
                        view.name,
                        object.kind(),
                        object.name()
                    ));
                    views.push(other.clone());
                }
                Object::Table(table) if table.oid != oid => {
                    for constraint in &table.constraints {
                        if let Rule::ForeignKey { table: parent, .. } = constraint.rule
                            && parent == oid
                        {
                            let (name, own) = (&constraint.name, &table.name);
                            details.push(format!(
                                "constraint {name} on table {own} depends on table {}",
                                object.name()
                            ));
                            keys.push((table.oid, constraint.oid));
                        }
                    }
                }
                _ => {}
            }
            if let (Object::Sequence(sequence), Object::Table(table)) = (object, &*other) {
                for column in &table.columns {
                    let uses = column.default.as_ref().is_some_and(|default| default.depends.contains(&oid));
                    if uses && !column.dropped {
                        let (column, own) = (&column.name, &table.name);
                        details.push(format!(
                            "default value for column {column} of table {own} depends on sequence {}",
                            sequence.name
                        ));
                        defaults.push(table.oid);
                    }
                }
            }
        }
        if details.is_empty() {
            return Ok(());
        }
        if !cascade {
            let message =
                format!("cannot drop {} {} because other objects depend on it", object.kind(), object.name());
            let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
            let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
            return Err(error.detail(details.join("\n")).hint(hint));
        }
        for view in views {
            if self.store.object(view.oid()).is_some() {
                self.drop_object(&view, true)?;
            }
        }
        for (table, constraint) in keys {
            if let Some(Object::Table(mut table)) = self.store.object(table).as_deref().cloned() {
                table.constraints.retain(|other| other.oid != constraint);
                self.store.replace(Object::Table(table))?;
            }
        }
        for table in defaults {
            if let Some(Object::Table(mut table)) = self.store.object(table).as_deref().cloned() {
                for column in &mut table.columns {
                    column.default = column.default.take().filter(|default| !default.depends.contains(&oid));
                }
                self.store.replace(Object::Table(table))?;
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
        let within: Vec<_> =
            self.store.objects().into_iter().filter(|object| object.schema() == schema).collect();
        if !within.is_empty() && !cascade {
            let message = format!("cannot drop schema {name} because other objects depend on it");
            let shown = |object: &Arc<Object>| {
                format!("{} {name}.{} depends on schema {name}", object.kind(), object.name())
            };
            let detail = within
                .iter()
                .filter(|o| !matches!(***o, Object::Index(_)))
                .map(shown)
                .collect::<Vec<_>>()
                .join("\n");
            let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(detail)
                .hint(hint));
        }
        for object in within {
            if !matches!(*object, Object::Index(_)) && self.store.object(object.oid()).is_some() {
                self.drop_object(&object, true)?;
            }
        }
        self.store.remove(schema)
    }

    fn drop_type(&mut self, kind: ObjectKind, path: &Path, if_exists: bool, cascade: bool) -> Result<()> {
        let Ok(user) = self.user_type(path) else {
            return self.missing(kind.word(), SqlState::UNDEFINED_OBJECT, path, if_exists);
        };
        self.must_own_or_schema(&Object::Type(user.clone()))?;
        let mut details = Vec::new();
        for object in self.store.objects() {
            let Object::Table(table) = &*object else { continue };
            let uses = |column: &&Column| {
                !column.dropped && (column.type_oid == user.oid || column.type_oid == user.array)
            };
            for column in table.columns.iter().filter(uses) {
                details.push(format!(
                    "column {} of table {} depends on type {}",
                    column.name, table.name, user.name
                ));
            }
        }
        if !details.is_empty() && !cascade {
            let message = format!("cannot drop type {} because other objects depend on it", user.name);
            let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
            let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
            return Err(error.detail(details.join("\n")).hint(hint));
        }
        if !details.is_empty() {
            return Err(SqlError::unsupported("DROP TYPE CASCADE with columns of the type"));
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
