//! Statements that define objects, each kind in a room of its own; here is what they share: where an object
//! goes, and what is there already.

mod absent;
mod add_column;
mod alter;
mod comment;
mod constraint;
mod domain;
mod drop;
mod grant;
mod index;
mod like;
mod materialized;
mod names;
mod passes;
mod retype;
mod role;
mod schema;
mod sequence;
pub(crate) mod storing;
mod table;
mod temporary;
mod types;
mod using_index;
mod view;

pub(crate) use index::column_names;

use std::sync::Arc;

use super::privilege;
use super::session::{LocalSession, OWN_SCHEMA};
use super::store::Store;
use crate::bind::Binder;
use crate::catalog::object::{Object, Rule};
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::missing;
use crate::parse::ast::{self, Path, Statement};
use crate::types::{Oid, Type, oid};

impl<S: Store> LocalSession<S> {
    /// Runs a statement that defines something; its tag.
    pub(crate) fn define(&mut self, statement: &Statement) -> Result<String> {
        let tag = match statement {
            Statement::CreateTable(table) => {
                self.create_table(table)?;
                "CREATE TABLE"
            }
            Statement::CreateTableAs { .. } => return self.create_table_as(statement),
            Statement::CreateIndex(index) => {
                self.create_index(index)?;
                "CREATE INDEX"
            }
            Statement::CreateSequence { name, temporary, if_not_exists, options } => {
                self.create_sequence((name, *temporary), *if_not_exists, options)?;
                "CREATE SEQUENCE"
            }
            Statement::AlterSequence { name, if_exists, options } => {
                self.alter_sequence(name, *if_exists, options)?;
                "ALTER SEQUENCE"
            }
            Statement::CreateView { name, temporary, replace, columns, options, query, text } => {
                self.create_view((name, *temporary), *replace, columns, options, (query, text))?;
                "CREATE VIEW"
            }
            Statement::CreateType { name, kind } => {
                self.create_type(name, kind)?;
                "CREATE TYPE"
            }
            Statement::CreateDomain { name, base, collation, constraints } => {
                self.create_domain(name, base, collation.as_ref(), constraints)?;
                "CREATE DOMAIN"
            }
            Statement::AlterDomain(name, change) => {
                self.alter_domain(name, change)?;
                "ALTER DOMAIN"
            }
            Statement::AlterTypeAddValue { name, if_not_exists, label, place } => {
                self.add_label(name, *if_not_exists, label, place.as_ref())?;
                "ALTER TYPE"
            }
            Statement::AlterTypeRenameValue { name, from, to } => {
                self.rename_label(name, from, to)?;
                "ALTER TYPE"
            }
            Statement::CreateSchema { name, if_not_exists, owner, elements } => {
                self.create_schema(name.as_ref(), *if_not_exists, owner.as_deref(), elements)?;
                "CREATE SCHEMA"
            }
            Statement::CreateRole { name, user, options } => {
                self.create_role(&name.text, *user, options)?;
                "CREATE ROLE"
            }
            Statement::AlterRole { name, change } => {
                self.alter_role(name, change)?;
                "ALTER ROLE"
            }
            Statement::CreateExtension { name, .. } => {
                let what = format_args!("extension \"{}\"", name.text);
                return Err(SqlError::unsupported(what, missing::EXTENSIONS));
            }
            Statement::CreateDatabase { .. } => {
                return Err(SqlError::unsupported("CREATE DATABASE", missing::DATABASES));
            }
            Statement::AlterTable { kind, name, if_exists, actions } => {
                self.alter_table(*kind, name, *if_exists, actions)?;
                return Ok(format!("ALTER {}", kind.word().to_uppercase()));
            }
            Statement::Drop { kind, if_exists, names, cascade, concurrently } => {
                self.drop_named(*kind, *if_exists, names, (*cascade, *concurrently))?;
                return Ok(format!("DROP {}", kind.word().to_uppercase()));
            }
            Statement::DropAbsent(drop) => return self.drop_absent(drop),
            Statement::Truncate { tables, restart, cascade } => {
                self.truncate(tables, *restart, *cascade)?;
                "TRUNCATE TABLE"
            }
            Statement::Comment { name, arguments: Some((word, types)), .. } => {
                return Err(self.no_comment_on_function(word, name, types)?);
            }
            Statement::Comment { kind, name, of, text, .. } => {
                self.comment(*kind, name, of.as_ref(), text.clone())?;
                "COMMENT"
            }
            Statement::Grant(grant) => {
                self.grant(grant)?;
                match (&grant.default, grant.grant, &grant.on) {
                    (Some(_), ..) => "ALTER DEFAULT PRIVILEGES",
                    (None, true, None) => "GRANT ROLE",
                    (None, false, None) => "REVOKE ROLE",
                    (None, true, Some(_)) => "GRANT",
                    (None, false, Some(_)) => "REVOKE",
                }
            }
            Statement::Owned(owned) => {
                self.owned(owned)?;
                if owned.to.is_some() { "REASSIGN OWNED" } else { "DROP OWNED" }
            }
            _ => return Err(SqlError::unsupported("this statement", missing::STATEMENTS)),
        };
        Ok(tag.to_string())
    }

    pub(crate) fn with_binder<T>(&self, body: impl FnOnce(&Binder<'_>) -> Result<T>) -> Result<T> {
        self.with_context(|ctx, path| body(&Binder::new(ctx, &self.store, path, Vec::new())))
    }

    pub(crate) fn notice(&self, message: String) {
        self.notice_of(SqlState::SUCCESSFUL_COMPLETION, message);
    }

    /// A notice with the code of what would be an error otherwise.
    pub(crate) fn notice_of(&self, state: SqlState, message: String) {
        let notice = SqlError::notice(Severity::Notice, state, message);
        self.shared.notices.borrow_mut().push(notice);
    }

    /// The schema that a new object goes to; `temporary`: it was said to be that.
    pub(crate) fn target_schema(&self, path: &Path, temporary: bool) -> Result<Oid> {
        let schema = self.schema_for(path, temporary)?;
        if let Some(object) = self.store.object(schema) {
            self.allow_on(&object, privilege::CREATE).map_err(|error| error.at(path.pos + 1))?;
        }
        Ok(schema)
    }

    /// A new object with its owner, and what others may do with it from the start.
    pub(crate) fn own(&self, mut object: Object) -> Object {
        let owner = self.role();
        if let Some((own, _)) = privilege::list_mut(&mut object) {
            *own = owner;
        }
        let first = self.first_list(&object);
        if let Some((_, list)) = privilege::list_mut(&mut object) {
            *list = first;
        }
        object
    }

    fn schema_for(&self, path: &Path, temporary: bool) -> Result<Oid> {
        let listed = privilege::usable_path(&self.store, &self.shared);
        let is_own = |name: &str| name == OWN_SCHEMA;
        let first = listed.iter().find(|name| is_own(name) || self.store.schema(name).is_some());
        let into_own = match path.schema() {
            Some(name) => is_own(name),
            None => temporary || first.is_some_and(|name| is_own(name)),
        };
        if into_own {
            let own = self.store.own_schema(true)?;
            return own.ok_or_else(|| {
                SqlError::unsupported(
                    "a temporary object here",
                    "Make it a permanent one, and drop it afterwards.",
                )
            });
        }
        if let Some(name) = path.schema() {
            let found = self.store.schema(name);
            if temporary && found.is_some_and(|schema| !self.is_temporary(schema)) {
                let message = "cannot create temporary relation in non-temporary schema";
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message).at(path.pos + 1));
            }
            return found.ok_or_else(|| {
                SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
                    .at(path.pos + 1)
            });
        }
        let found = first.and_then(|name| self.store.schema(name));
        found.ok_or_else(|| {
            let message = "no schema has been selected to create in";
            SqlError::new(SqlState::INVALID_SCHEMA_NAME, message).at(path.pos + 1)
        })
    }

    /// Refuses a name that a relation of the schema has; true: it has, and that is fine.
    pub(crate) fn relation_exists(&self, schema: Oid, name: &str, fine: bool) -> Result<bool> {
        if schema == crate::catalog::object::PG_CATALOG {
            let message = format!("permission denied to create \"pg_catalog.{name}\"");
            let detail = "System catalog modifications are currently disallowed.";
            return Err(privilege::refused(message).detail(detail));
        }
        if self.store.relation(schema, name).is_none() {
            return Ok(false);
        }
        if fine {
            self.notice_of(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists, skipping"),
            );
            return Ok(true);
        }
        Err(SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")))
    }

    /// An object's name, with its schema where the search path does not lead there.
    pub(crate) fn visible_name(&self, object: &Object) -> String {
        let name = crate::func::quote_ident(object.name());
        let known: Vec<Oid> = self.search_path().iter().filter_map(|name| self.store.schema(name)).collect();
        let place = known.iter().position(|schema| *schema == object.schema());
        let is_there = |schema: &Oid| match object {
            Object::Type(_) => self.store.type_named(*schema, object.name()).is_some(),
            _ => self.store.relation(*schema, object.name()).is_some(),
        };
        let is_hidden = place.is_none_or(|place| known[..place].iter().any(is_there));
        match self.store.object(object.schema()).filter(|_| is_hidden) {
            Some(schema) => format!("{}.{name}", crate::func::quote_ident(schema.name())),
            None => name,
        }
    }

    /// `view v`, `table s.t`: an object as messages about dependencies name it.
    pub(crate) fn spelled(&self, object: &Object) -> String {
        format!("{} {}", object.kind(), self.visible_name(object))
    }

    /// The notice about what went with something that was dropped.
    pub(crate) fn tell_cascade(&self, gone: &[String]) {
        let message = match gone {
            [] => return,
            [only] => format!("drop cascades to {only}"),
            several => format!("drop cascades to {} other objects", several.len()),
        };
        let mut notice = SqlError::notice(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message);
        if gone.len() > 1 {
            let lines: Vec<String> = gone.iter().map(|what| format!("drop cascades to {what}")).collect();
            notice = notice.detail(lines.join("\n"));
        }
        self.shared.notices.borrow_mut().push(notice);
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
        self.with_names(|binder| binder.find_relation(path)).map_err(SqlError::nowhere)
    }

    /// As `with_binder`, for names that a statement says: those of schemas that the role may look into.
    pub(crate) fn with_names<T>(&self, body: impl FnOnce(&Binder<'_>) -> Result<T>) -> Result<T> {
        self.with_binder(|binder| {
            let made = body(binder);
            self.may_look_into(&binder.needs.borrow())?;
            made
        })
    }

    pub(crate) fn missing(&self, what: &str, state: SqlState, path: &Path, fine: bool) -> Result<()> {
        let is_relation = matches!(what, "relation" | "table" | "view" | "index" | "sequence");
        let schema = path.schema().filter(|name| is_relation && self.store.schema(name).is_none());
        if let Some(schema) = schema.filter(|_| !fine) {
            let message = format!("schema \"{schema}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
        }
        let name = if is_relation && fine { path.last().to_string() } else { path.shown() };
        if fine {
            self.notice(format!("{what} \"{name}\" does not exist, skipping"));
            return Ok(());
        }
        Err(SqlError::new(state, format!("{what} \"{name}\" does not exist")))
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
