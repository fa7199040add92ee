//! Runs of statements are counted by their texts (`observe`), and what a session begins with.
use std::sync::Arc;

use super::settings::Variables;
use crate::catalog::object::Object;
use crate::error::Result;
use crate::exec::privilege;
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::exec::system::Shared;
use crate::observe::Counted;
use crate::parse::ast::Statement;
use crate::session::SessionStart;

impl<S: Store> LocalSession<S> {
    /// Where runs of a text are counted.
    pub(super) fn counted(&self, sql: &str) -> Option<Arc<Counted>> {
        self.store.observed().map(|observed| observed.statements().of(self.role(), sql))
    }

    /// Where runs of a statement of the simple protocol are counted; what controls the session is not.
    pub(super) fn counted_text(&self, statement: &Statement, sql: &str) -> Option<Arc<Counted>> {
        match statement {
            Statement::Transaction(_) | Statement::Set { .. } | Statement::Show(_) => None,
            _ => self.counted(sql),
        }
    }

    /// Runs something, and counts it if it succeeds.
    pub(super) fn counting<R>(
        &mut self,
        counted: Option<&Counted>,
        body: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let Some(counted) = counted else { return body(self) };
        let began = self.shared.surroundings.clock_us();
        self.rows_ran = 0;
        let made = body(self)?;
        let took = self.shared.surroundings.clock_us() - began;
        counted.add(took.max(0).cast_unsigned(), self.rows_ran);
        Ok(made)
    }
}

/// Puts the settings of the role and of the client into a new session.
pub(super) fn begin(store: &dyn Store, shared: &Shared, start: &SessionStart) -> Result<()> {
    let mut variables = Variables::new(&start.user, &start.encoding);
    variables.force("default_transaction_isolation", store.usual_isolation().name());
    variables.force("max_connections", &start.server.connections_max().to_string());
    let own = store.role(&start.user).and_then(|oid| store.object(oid));
    if let Some(Object::Role(role)) = own.as_deref() {
        for (name, value) in &role.settings {
            // A setting that has become invalid, or that the role may not set, keeps nobody out.
            if privilege::check_setting(store, shared, name, value).is_ok() {
                let _ = variables.set(name, value, false);
            }
        }
        variables.force("is_superuser", if role.superuser { "on" } else { "off" });
    }
    for (name, value) in &start.parameters {
        privilege::check_setting(store, shared, name, value)?;
        variables.set(name, value, false)?;
    }
    variables.keep_as_start();
    *shared.variables.borrow_mut() = variables;
    Ok(())
}
