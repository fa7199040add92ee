//! Who may do what: access lists of objects, and roles with the roles that they are members of.
//!
//! 1. Superusers may do everything. For all others an object's access list decides; while nobody was given
//!    anything that is [`default_list`], in which the owner has everything.
//! 2. Statements over rows are checked each time they run, against the catalog of their transaction: what is
//!    revoked counts for plans that were made before.
//! 3. A view's query is allowed what the view's owner is allowed, and who asks for the view needs only that.
//!
//! Not here: privileges on single columns, databases, functions and languages (0A000 where they are given).

use std::sync::Arc;

use crate::catalog::object::Object;
pub(crate) use crate::catalog::privilege::*;
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::session::settings::list;
use crate::exec::store::Store;
use crate::exec::system::Shared;
use crate::exec::system_tables;
use crate::types::Oid;

/// The role whose rights count in a session; one that is gone has none.
pub(crate) fn asking(store: &dyn Store, shared: &Shared) -> Oid {
    store.role(shared.variables.borrow().current_role(&shared.user)).unwrap_or(0)
}

/// Whether that is a superuser: asked for every statement, so the answer is kept.
pub(crate) fn asks_superuser(store: &dyn Store, shared: &Shared) -> bool {
    let version = (store.version(), shared.variables.borrow().role_changes);
    if let Some((known, answer)) = shared.superuser.get()
        && known == version
    {
        return answer;
    }
    let answer = is_superuser(store, asking(store, shared));
    shared.superuser.set(Some((version, answer)));
    answer
}

/// The numbers of the catalog and of roles, a search path, and the schemas of it that may be used.
pub(crate) type Usable = ((u64, u64), Arc<[String]>, Arc<[String]>);

/// The schemas of the search path, without those that the current role may not use: names are not looked for
/// there. The answer is kept.
pub(crate) fn usable_path(store: &dyn Store, shared: &Shared) -> Arc<[String]> {
    let listed = shared.variables.borrow().search_path.clone();
    if asks_superuser(store, shared) {
        return listed;
    }
    let version = (store.version(), shared.variables.borrow().role_changes);
    if let Some((known, of, usable)) = &*shared.usable.borrow()
        && (*known, of) == (version, &listed)
    {
        return usable.clone();
    }
    let role = asking(store, shared);
    let is_usable = |name: &&String| {
        let schema = store.schema(name).and_then(|oid| store.object(oid));
        schema.is_none_or(|schema| held(store, role, &schema, USAGE, false) != 0)
    };
    let usable: Arc<[String]> = listed.iter().filter(is_usable).cloned().collect();
    *shared.usable.borrow_mut() = Some((version, listed, usable.clone()));
    usable
}

/// Refuses a setting that only superusers change, and a value of `role` or `session_authorization` that
/// the session may not set.
pub(crate) fn check_setting(store: &dyn Store, shared: &Shared, name: &str, value: &str) -> Result<()> {
    if list::find(name).is_some_and(|known| known.context == list::Context::Superuser)
        && !asks_superuser(store, shared)
    {
        return Err(refused(format!("permission denied to set parameter \"{name}\"")));
    }
    let authorization = name.eq_ignore_ascii_case("session_authorization");
    if !(authorization || name.eq_ignore_ascii_case("role") && value != "none") {
        return Ok(());
    }
    let Some(wanted) = store.role(value) else {
        let message = format!("role \"{value}\" does not exist");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    };
    let own = match authorization {
        true => store.role(&shared.user),
        false => store.role(shared.variables.borrow().session_role(&shared.user)),
    };
    let own = own.unwrap_or(0);
    if own == wanted || is_superuser(store, own) {
        return Ok(());
    }
    match authorization {
        true => Err(refused("permission denied to set session authorization")),
        false if roles_of(store, own, false).contains(&wanted) => Ok(()),
        false => Err(refused(format!("permission denied to set role \"{value}\""))),
    }
}

impl<S: Store> LocalSession<S> {
    /// The role whose rights count.
    pub(crate) fn role(&self) -> Oid {
        asking(&self.store, &self.shared)
    }

    pub(crate) fn is_superuser(&self) -> bool {
        asks_superuser(&self.store, &self.shared)
    }

    /// Refuses what somebody may not do (42501).
    pub(crate) fn allow(&self, needs: &[Need]) -> Result<()> {
        // A view's owner may be allowed less than who asks for the view.
        let all = needs.is_empty() || self.is_superuser();
        let mut asked = needs.iter().filter(|need| !all || need.by != 0).peekable();
        if asked.peek().is_none() {
            return Ok(());
        }
        let asks = self.role();
        asked.try_for_each(|need| self.allow_one(asks, need))
    }

    /// Refuses names in schemas that the role may not look into.
    pub(crate) fn may_look_into(&self, needs: &[Need]) -> Result<()> {
        if self.is_superuser() {
            return Ok(());
        }
        let is_schema =
            |need: &&Need| matches!(self.store.object(need.object).as_deref(), Some(Object::Schema(_)));
        let schemas: Vec<Need> = needs.iter().filter(is_schema).copied().collect();
        self.allow(&schemas)
    }

    fn allow_one(&self, asks: Oid, need: &Need) -> Result<()> {
        let by = if need.by == 0 { asks } else { need.by };
        match self.store.object(need.object) {
            // A view has found what is in it.
            Some(object) if need.by != 0 && matches!(*object, Object::Schema(_)) => Ok(()),
            Some(object) if held(&self.store, by, &object, need.bits, false) != need.bits => {
                let error = denied(&object);
                Err(if need.at == 0 { error } else { error.at(need.at) })
            }
            Some(_) => Ok(()),
            None => match system_tables::by_oid(need.object) {
                Some(system) if system.is_secret() && !is_superuser(&self.store, by) => {
                    Err(refused(format!("permission denied for table {}", system.name())))
                }
                _ => Ok(()),
            },
        }
    }

    /// Refuses one thing on one object.
    pub(crate) fn allow_on(&self, object: &Object, bits: u32) -> Result<()> {
        if self.is_superuser() || held(&self.store, self.role(), object, bits, false) == bits {
            return Ok(());
        }
        Err(denied(object))
    }

    /// Refuses what only an object's owner may do.
    pub(crate) fn must_own(&self, object: &Object) -> Result<()> {
        if self.is_superuser() || owns(&self.store, self.role(), object) {
            return Ok(());
        }
        Err(refused(format!("must be owner of {} {}", object.kind(), object.name())))
    }
}
