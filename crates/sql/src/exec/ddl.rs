//! Statements that define objects: where they go, what exists already, DROP and its dependencies, the
//! smaller kinds.

use std::sync::Arc;

use super::session::LocalSession;
use super::store::Store;
use crate::bind::Binder;
use crate::catalog::object::{
    BOOTSTRAP_ROLE, Column, Expression, Object, Role, Rule, Schema, Sequence, View,
};
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::parse::ast::{self, ObjectKind, Path, RoleOption, SequenceOption, Statement};
use crate::session::Sink;
use crate::types::{Oid, Type, oid};

impl<S: Store> LocalSession<S> {
    /// Runs a statement that defines something; its tag.
    pub(crate) fn define(
        &mut self,
        statement: &Statement,
        _text: &str,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let tag = match statement {
            Statement::CreateTable(table) => {
                self.create_table(table)?;
                "CREATE TABLE"
            }
            Statement::CreateTableAs { .. } => return self.create_table_as(statement, sink),
            Statement::CreateIndex(index) => {
                self.create_index(index)?;
                "CREATE INDEX"
            }
            Statement::CreateSequence { name, if_not_exists, options, .. } => {
                self.create_sequence(name, *if_not_exists, options)?;
                "CREATE SEQUENCE"
            }
            Statement::AlterSequence { name, if_exists, options } => {
                self.alter_sequence(name, *if_exists, options)?;
                "ALTER SEQUENCE"
            }
            Statement::CreateView { name, replace, columns, query, text } => {
                self.create_view(name, *replace, columns, query, text)?;
                "CREATE VIEW"
            }
            Statement::CreateType { name, kind } => {
                self.create_type(name, kind)?;
                "CREATE TYPE"
            }
            Statement::CreateDomain { name, base, constraints } => {
                self.create_domain(name, base, constraints)?;
                "CREATE DOMAIN"
            }
            Statement::AlterTypeAddValue { name, if_not_exists, label, place } => {
                self.add_label(name, *if_not_exists, label, place.as_ref())?;
                "ALTER TYPE"
            }
            Statement::AlterTypeRenameValue { name, from, to } => {
                self.rename_label(name, from, to)?;
                "ALTER TYPE"
            }
            Statement::CreateSchema { name, if_not_exists, owner } => {
                self.create_schema(name.as_ref().map(|n| n.text.as_str()), *if_not_exists, owner.as_deref())?;
                "CREATE SCHEMA"
            }
            Statement::CreateRole { name, user, options } => {
                self.create_role(&name.text, *user, options)?;
                "CREATE ROLE"
            }
            Statement::AlterRole { name, options } => {
                self.alter_role(name, options)?;
                "ALTER ROLE"
            }
            Statement::CreateExtension { name, .. } => {
                return Err(SqlError::unsupported(format_args!("extension \"{}\"", name.text)));
            }
            Statement::CreateDatabase { .. } => return Err(SqlError::unsupported("CREATE DATABASE")),
            Statement::AlterTable { kind, name, if_exists, actions } => {
                self.alter_table(*kind, name, *if_exists, actions)?;
                return Ok(format!("ALTER {}", kind.word().to_uppercase()));
            }
            Statement::Drop { kind, if_exists, names, cascade } => {
                for name in names {
                    self.drop_named(*kind, *if_exists, name, *cascade)?;
                }
                return Ok(format!("DROP {}", kind.word().to_uppercase()));
            }
            Statement::Truncate { tables, restart, cascade } => {
                self.truncate(tables, *restart, *cascade)?;
                "TRUNCATE TABLE"
            }
            Statement::Comment { kind, name, of, text } => {
                self.comment(*kind, name, of.as_ref(), text.clone())?;
                "COMMENT"
            }
            Statement::Grant(grant) if grant.grant => "GRANT",
            Statement::Grant(_) => "REVOKE",
            _ => return Err(SqlError::unsupported("this statement")),
        };
        Ok(tag.to_string())
    }

    pub(crate) fn with_binder<T>(&self, body: impl FnOnce(&Binder<'_>) -> Result<T>) -> Result<T> {
        self.with_context(|ctx, path| body(&Binder::new(ctx, &self.store, path, Vec::new())))
    }

    pub(crate) fn notice(&self, message: String) {
        let notice = SqlError::notice(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message);
        self.shared.notices.borrow_mut().push(notice);
    }

    /// The schema that a new object goes to.
    pub(crate) fn target_schema(&self, path: &Path) -> Result<Oid> {
        if let Some(name) = path.schema() {
            return self.store.schema(name).ok_or_else(|| {
                SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
                    .at(path.pos + 1)
            });
        }
        let found = self.search_path().iter().find_map(|name| self.store.schema(name));
        found.ok_or_else(|| {
            let message = "no schema has been selected to create in";
            SqlError::new(SqlState::INVALID_SCHEMA_NAME, message).at(path.pos + 1)
        })
    }

    /// Refuses a name that a relation of the schema has; true: it has, and that is fine.
    pub(crate) fn relation_exists(&self, schema: Oid, name: &str, fine: bool) -> Result<bool> {
        if self.store.relation(schema, name).is_none() {
            return Ok(false);
        }
        if fine {
            self.notice(format!("relation \"{name}\" already exists, skipping"));
            return Ok(true);
        }
        Err(SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")))
    }

    /// A name of the form `base` that no relation of the schema has.
    pub(crate) fn free_name(&self, schema: Oid, base: &str) -> String {
        let mut name = base.to_string();
        let mut number = 0;
        while self.store.relation(schema, &name).is_some() {
            number += 1;
            name = format!("{base}{number}");
        }
        name
    }

    pub(crate) fn find(&self, path: &Path) -> Result<Option<Arc<Object>>> {
        self.with_binder(|binder| binder.find_relation(path))
    }

    pub(crate) fn create_sequence(&self, path: &Path, fine: bool, options: &[SequenceOption]) -> Result<()> {
        let schema = self.target_schema(path)?;
        if self.relation_exists(schema, path.last(), fine)? {
            return Ok(());
        }
        let sequence = self.new_sequence(schema, path.last(), oid::INT8, options)?;
        self.store.create(Object::Sequence(sequence))
    }

    pub(crate) fn new_sequence(
        &self,
        schema: Oid,
        name: &str,
        ty: Oid,
        options: &[SequenceOption],
    ) -> Result<Sequence> {
        let mut sequence = Sequence {
            oid: self.store.new_oid()?,
            name: name.to_string(),
            schema,
            owner: BOOTSTRAP_ROLE,
            type_oid: ty,
            start: 0,
            increment: 1,
            min: 0,
            max: 0,
            cache: 1,
            cycle: false,
            owned_by: None,
            grants: Vec::new(),
            comment: None,
        };
        self.apply_sequence(&mut sequence, options, true)?;
        Ok(sequence)
    }

    /// Puts options into a sequence; where it is new, what was not said gets its default.
    fn apply_sequence(&self, sequence: &mut Sequence, options: &[SequenceOption], new: bool) -> Result<()> {
        let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        let (mut start, mut min, mut max) = (None, None, None);
        for option in options {
            match option {
                SequenceOption::As(name) => {
                    sequence.type_oid = self.with_binder(|binder| binder.resolve_type(name))?.oid;
                    if !matches!(sequence.type_oid, oid::INT2 | oid::INT4 | oid::INT8) {
                        return invalid("sequence type must be smallint, integer, or bigint".to_string());
                    }
                }
                SequenceOption::Start(value) => start = Some(*value),
                SequenceOption::Increment(0) => return invalid("INCREMENT must not be zero".to_string()),
                SequenceOption::Increment(value) => sequence.increment = *value,
                SequenceOption::Min(value) => min = Some(*value),
                SequenceOption::Max(value) => max = Some(*value),
                SequenceOption::Cache(value) if *value < 1 => {
                    return invalid(format!("CACHE ({value}) must be greater than zero"));
                }
                SequenceOption::Cache(value) => sequence.cache = *value,
                SequenceOption::Cycle(value) => sequence.cycle = *value,
                SequenceOption::OwnedBy(None) => sequence.owned_by = None,
                SequenceOption::OwnedBy(Some(path)) => sequence.owned_by = Some(self.owned_column(path)?),
                SequenceOption::Restart(_) => {}
            }
        }
        let (low, high) = match sequence.type_oid {
            oid::INT2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            oid::INT4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        };
        let up = sequence.increment > 0;
        match min {
            Some(value) => sequence.min = value.unwrap_or(if up { 1 } else { low }),
            None if new => sequence.min = if up { 1 } else { low },
            None => {}
        }
        match max {
            Some(value) => sequence.max = value.unwrap_or(if up { high } else { -1 }),
            None if new => sequence.max = if up { high } else { -1 },
            None => {}
        }
        let (min, max) = (sequence.min, sequence.max);
        if min >= max {
            return invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})"));
        }
        match start {
            Some(value) => sequence.start = value,
            None if new => sequence.start = if up { min } else { max },
            None => {}
        }
        let start = sequence.start;
        if start < min {
            return invalid(format!("START value ({start}) cannot be less than MINVALUE ({min})"));
        }
        if start > max {
            return invalid(format!("START value ({start}) cannot be greater than MAXVALUE ({max})"));
        }
        Ok(())
    }

    fn owned_column(&self, path: &Path) -> Result<(Oid, u16)> {
        let mut table = path.clone();
        let column = table.parts.pop().unwrap_or_default();
        match self.find(&table)?.as_deref() {
            Some(Object::Table(table)) => {
                match table.columns.iter().position(|c| !c.dropped && c.name == column) {
                    Some(at) => Ok((table.oid, at as u16)),
                    None => {
                        let message =
                            format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                        Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
                    }
                }
            }
            _ => Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{}\" does not exist", table.shown()),
            )),
        }
    }

    fn alter_sequence(&self, path: &Path, if_exists: bool, options: &[SequenceOption]) -> Result<()> {
        let Some(Object::Sequence(mut sequence)) = self.find(path)?.as_deref().cloned() else {
            return self.missing("relation", SqlState::UNDEFINED_TABLE, path, if_exists);
        };
        self.apply_sequence(&mut sequence, options, false)?;
        for option in options {
            if let SequenceOption::Restart(value) = option {
                self.store.set_value(sequence.oid, value.unwrap_or(sequence.start), false)?;
            }
        }
        self.store.replace(Object::Sequence(sequence))
    }

    pub(crate) fn missing(&self, what: &str, state: SqlState, path: &Path, fine: bool) -> Result<()> {
        let name = path.shown();
        if fine {
            self.notice(format!("{what} \"{name}\" does not exist, skipping"));
            return Ok(());
        }
        Err(SqlError::new(state, format!("{what} \"{name}\" does not exist")))
    }

    fn create_view(
        &self,
        path: &Path,
        replace: bool,
        names: &[ast::Ident],
        query: &ast::Query,
        text: &str,
    ) -> Result<()> {
        let schema = self.target_schema(path)?;
        let (columns, depends) = self.with_binder(|binder| {
            let bound = binder.query(None, false, query)?;
            Ok((Binder::output_columns(&bound), binder.used.borrow().clone()))
        })?;
        if names.len() > columns.len() {
            let message = "CREATE VIEW specifies more column names than columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut made: Vec<Column> = columns.iter().map(|(name, ty)| Column::new(name, *ty)).collect();
        for (column, name) in made.iter_mut().zip(names) {
            column.name = name.text.clone();
        }
        for (at, column) in made.iter().enumerate() {
            if made[..at].iter().any(|other| other.name == column.name) {
                let message = format!("column \"{}\" specified more than once", column.name);
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
        }
        let query = Expression { sql: text.to_string(), depends };
        let existing = self.store.relation(schema, path.last());
        if let (true, Some(Object::View(old))) = (replace, existing.as_deref()) {
            for (at, column) in old.columns.iter().enumerate() {
                match made.get(at) {
                    None => {
                        let message = "cannot drop columns from view";
                        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                    }
                    Some(new) if new.name != column.name => {
                        let message = format!(
                            "cannot change name of view column \"{}\" to \"{}\"",
                            column.name, new.name
                        );
                        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                    }
                    Some(new) if new.type_oid != column.type_oid => {
                        let message = format!("cannot change data type of view column \"{}\"", column.name);
                        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                    }
                    Some(_) => {}
                }
            }
            return self.store.replace(Object::View(View { columns: made, query, ..old.clone() }));
        }
        self.relation_exists(schema, path.last(), false)?;
        let view = View {
            oid: self.store.new_oid()?,
            name: path.last().to_string(),
            schema,
            owner: BOOTSTRAP_ROLE,
            columns: made,
            query,
            ..View::default()
        };
        self.store.create(Object::View(view))
    }

    fn create_schema(&self, name: Option<&str>, fine: bool, owner: Option<&str>) -> Result<()> {
        let name = name.or(owner).unwrap_or_default();
        if self.store.schema(name).is_some() {
            if fine {
                self.notice(format!("schema \"{name}\" already exists, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(
                SqlState::DUPLICATE_SCHEMA,
                format!("schema \"{name}\" already exists"),
            ));
        }
        if name.starts_with("pg_") {
            let message = format!("unacceptable schema name \"{name}\"");
            let detail = "The prefix \"pg_\" is reserved for system schemas.";
            return Err(SqlError::new(SqlState::RESERVED_NAME, message).detail(detail));
        }
        let (oid, owner) = (self.store.new_oid()?, BOOTSTRAP_ROLE);
        self.store.create(Object::Schema(Schema { oid, name: name.to_string(), owner, ..Schema::default() }))
    }

    fn create_role(&self, name: &str, user: bool, options: &[RoleOption]) -> Result<()> {
        if self.store.role(name).is_some() {
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("role \"{name}\" already exists")));
        }
        let oid = self.store.new_oid()?;
        let (name, connections) = (name.to_string(), -1);
        let mut role = Role { oid, name, login: user, inherit: true, connections, ..Role::default() };
        self.apply_role(&mut role, options)?;
        self.store.create(Object::Role(role))
    }

    fn alter_role(&self, name: &str, options: &[RoleOption]) -> Result<()> {
        let name = if matches!(name, "current_user" | "session_user") { &self.shared.user } else { name };
        let found = self.store.role(name).and_then(|oid| self.store.object(oid));
        let Some(Object::Role(mut role)) = found.as_deref().cloned() else {
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")));
        };
        self.apply_role(&mut role, options)?;
        self.store.replace(Object::Role(role))
    }

    fn apply_role(&self, role: &mut Role, options: &[RoleOption]) -> Result<()> {
        for option in options {
            match option {
                RoleOption::Flag(name, on) => match *name {
                    "login" => role.login = *on,
                    "superuser" => role.superuser = *on,
                    "createdb" => role.create_db = *on,
                    "createrole" => role.create_role = *on,
                    "inherit" => role.inherit = *on,
                    _ => {}
                },
                RoleOption::Password(None) => role.verifier = None,
                RoleOption::Password(Some(text)) => {
                    role.verifier = Some(self.start.server.password_verifier(text))
                }
                RoleOption::ConnectionLimit(limit) => role.connections = *limit as i32,
                RoleOption::ValidUntil(_) => {}
                RoleOption::InRole(names) => {
                    for name in names {
                        let found = self.store.role(name).ok_or_else(|| {
                            SqlError::new(
                                SqlState::UNDEFINED_OBJECT,
                                format!("role \"{name}\" does not exist"),
                            )
                        })?;
                        role.member_of.push((found, false));
                    }
                }
            }
        }
        Ok(())
    }

    fn drop_named(&mut self, kind: ObjectKind, if_exists: bool, path: &Path, cascade: bool) -> Result<()> {
        match kind {
            ObjectKind::Schema => return self.drop_schema(path, if_exists, cascade),
            ObjectKind::Role => {
                return match self.store.role(path.last()) {
                    Some(oid) => self.store.remove(oid),
                    None => self.missing("role", SqlState::UNDEFINED_OBJECT, path, if_exists),
                };
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
        self.drop_object(&object, cascade)
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

    fn truncate(&mut self, paths: &[Path], restart: bool, cascade: bool) -> Result<()> {
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

    /// A type as it is written in a table's definition; serial ones with the type behind them.
    pub(crate) fn column_type(&self, name: &ast::TypeName) -> Result<(Type, bool)> {
        let serial = match name.name.last() {
            "serial" | "serial4" => Some(oid::INT4),
            "bigserial" | "serial8" => Some(oid::INT8),
            "smallserial" | "serial2" => Some(oid::INT2),
            _ => None,
        };
        match serial.filter(|_| name.name.parts.len() == 1 && !name.array) {
            Some(ty) => Ok((Type::of(ty), true)),
            None => self.with_binder(|binder| binder.resolve_type(name)).map(|ty| (ty, false)),
        }
    }
}

/// The index behind a constraint.
pub(crate) fn index_of(rule: &Rule) -> Option<Oid> {
    match rule {
        Rule::PrimaryKey { index, .. } | Rule::Unique { index, .. } => Some(*index),
        _ => None,
    }
}
