//! CREATE SCHEMA, with what is made in it at once.

use crate::catalog::object::{Object, Schema};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::privilege;
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::parse::ast::{Ident, Path, Statement};

/// In which order the elements of a schema are made, whatever order they are written in.
fn place(element: &Statement) -> usize {
    match element {
        Statement::CreateSequence { .. } => 0,
        Statement::CreateTable(_) => 1,
        Statement::CreateView { .. } => 2,
        Statement::CreateIndex(_) => 3,
        _ => 4,
    }
}

impl<S: Store> LocalSession<S> {
    /// Makes a schema with what is in it.
    pub(super) fn create_schema(
        &mut self,
        name: Option<&Ident>,
        fine: bool,
        owner: Option<&str>,
        elements: &[Statement],
    ) -> Result<()> {
        let owner = owner.map(|owner| self.role_named(owner)).transpose()?;
        let of_owner = owner.as_ref().map(|owner| owner.name.as_str());
        let name = name.map(|name| name.text.as_str()).or(of_owner).unwrap_or_default();
        if !self.is_superuser() {
            return Err(privilege::refused(format!(
                "permission denied for database {}",
                self.shared.database
            )));
        }
        if name.starts_with("pg_") {
            let message = format!("unacceptable schema name \"{name}\"");
            let detail = "The prefix \"pg_\" is reserved for system schemas.";
            return Err(SqlError::new(SqlState::RESERVED_NAME, message).detail(detail));
        }
        if self.store.schema(name).is_some() {
            if fine {
                self.notice_of(
                    SqlState::DUPLICATE_SCHEMA,
                    format!("schema \"{name}\" already exists, skipping"),
                );
                return Ok(());
            }
            return Err(SqlError::new(
                SqlState::DUPLICATE_SCHEMA,
                format!("schema \"{name}\" already exists"),
            ));
        }
        let schema = Schema { oid: self.store.new_oid(0)?, name: name.to_string(), ..Schema::default() };
        self.store.create(self.own(Object::Schema(schema.clone())))?;
        if let (Some(owner), Some(made)) = (&owner, self.store.object(schema.oid)) {
            self.give_to(&made, owner.oid)?;
        }
        let name = schema.name.clone();
        self.fill_schema(&name, elements)
    }

    /// Makes the elements of a new schema, where names without a schema are looked up first.
    fn fill_schema(&mut self, schema: &str, elements: &[Statement]) -> Result<()> {
        if elements.is_empty() {
            return Ok(());
        }
        for element in elements {
            let made = match element {
                Statement::CreateSequence { name, .. } | Statement::CreateView { name, .. } => Some(name),
                Statement::CreateTable(table) => Some(&table.name),
                Statement::CreateIndex(index) => Some(&index.table),
                _ => None,
            };
            let other = made.and_then(Path::schema).filter(|other| *other != schema);
            if let Some(other) = other {
                let message = format!(
                    "CREATE specifies a schema ({other}) different from the one being created ({schema})"
                );
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_DEFINITION, message));
            }
        }
        let is_temporary = |element: &Statement| match element {
            Statement::CreateSequence { temporary, .. } | Statement::CreateView { temporary, .. } => {
                *temporary
            }
            Statement::CreateTable(table) => table.temporary,
            _ => false,
        };
        if elements.iter().any(is_temporary) {
            let message = "cannot create temporary relation in non-temporary schema";
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        let made = self.store.schema(schema).and_then(|oid| self.store.object(oid));
        if let Some(Object::Schema(made)) = made.as_deref()
            && made.owner != self.role()
        {
            return Err(SqlError::unsupported(
                "CREATE SCHEMA of another role with objects in it",
                "SET ROLE to that role first, or send the statements one by one.",
            ));
        }
        let before = self.shared.variables.borrow().search_path.clone();
        let within = std::iter::once(schema.to_string()).chain(before.iter().cloned()).collect();
        self.shared.variables.borrow_mut().search_path = within;
        let mut sorted: Vec<&Statement> = elements.iter().collect();
        sorted.sort_by_key(|element| place(element));
        let done = sorted.into_iter().try_for_each(|element| match element {
            Statement::Unsupported(refusal) => Err(refusal.clone()),
            element => self.define(element).map(|_| ()),
        });
        self.shared.variables.borrow_mut().search_path = before;
        done
    }
}
