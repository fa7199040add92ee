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

use crate::catalog::object::{BOOTSTRAP_ROLE, DATABASE_OWNER_ROLE, Grant, Object};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::session::settings::list;
use crate::exec::store::Store;
use crate::exec::system::Shared;
use crate::exec::system_tables;
use crate::types::Oid;

pub(crate) const INSERT: u32 = 1;
pub(crate) const SELECT: u32 = 2;
pub(crate) const UPDATE: u32 = 4;
pub(crate) const DELETE: u32 = 8;
pub(crate) const TRUNCATE: u32 = 16;
pub(crate) const REFERENCES: u32 = 32;
const TRIGGER: u32 = 64;
pub(crate) const USAGE: u32 = 256;
pub(crate) const CREATE: u32 = 512;

/// Bits, their letters in an access list and their names.
pub(crate) const PRIVILEGES: &[(u32, char, &str)] = &[
    (INSERT, 'a', "INSERT"),
    (SELECT, 'r', "SELECT"),
    (UPDATE, 'w', "UPDATE"),
    (DELETE, 'd', "DELETE"),
    (TRUNCATE, 'D', "TRUNCATE"),
    (REFERENCES, 'x', "REFERENCES"),
    (TRIGGER, 't', "TRIGGER"),
    (128, 'X', "EXECUTE"),
    (USAGE, 'U', "USAGE"),
    (CREATE, 'C', "CREATE"),
];

/// What a statement over rows needs: privileges on an object, as the role that asks (`by` is 0) or as the
/// owner of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Need {
    pub(crate) object: Oid,
    pub(crate) bits: u32,
    pub(crate) by: Oid,
    /// Where the name of what is in a schema stands in the text, from 1; 0 for what is no schema.
    pub(crate) at: u32,
}

/// All privileges that there are on a kind of object.
pub(crate) fn all_of(object: &Object) -> u32 {
    match object {
        Object::Schema(_) => USAGE | CREATE,
        Object::Table(_) | Object::View(_) => {
            INSERT | SELECT | UPDATE | DELETE | TRUNCATE | REFERENCES | TRIGGER
        }
        Object::Sequence(_) => SELECT | UPDATE | USAGE,
        Object::Type(_) => USAGE,
        Object::Index(_) | Object::Role(_) => 0,
    }
}

/// An object's owner and its access list, empty while nobody was given anything.
pub(crate) fn owner_and_list(object: &Object) -> (Oid, &[Grant]) {
    match object {
        Object::Schema(it) => (it.owner, &it.grants),
        Object::Table(it) => (it.owner, &it.grants),
        Object::Sequence(it) => (it.owner, &it.grants),
        Object::View(it) => (it.owner, &it.grants),
        Object::Type(it) => (it.owner, &it.grants),
        Object::Index(_) | Object::Role(_) => (0, &[]),
    }
}

/// The object's owner and list, to be changed; `None` for what has none.
pub(crate) fn list_mut(object: &mut Object) -> Option<(&mut Oid, &mut Vec<Grant>)> {
    match object {
        Object::Schema(it) => Some((&mut it.owner, &mut it.grants)),
        Object::Table(it) => Some((&mut it.owner, &mut it.grants)),
        Object::Sequence(it) => Some((&mut it.owner, &mut it.grants)),
        Object::View(it) => Some((&mut it.owner, &mut it.grants)),
        Object::Type(it) => Some((&mut it.owner, &mut it.grants)),
        Object::Index(_) | Object::Role(_) => None,
    }
}

/// What an empty access list stands for.
pub(crate) fn default_list(object: &Object) -> Vec<Grant> {
    let (grantor, all) = (owner_and_list(object).0, all_of(object));
    let own = Grant { grantee: grantor, grantor, privileges: all, grantable: 0 };
    let public = Grant { grantee: 0, grantor, privileges: USAGE, grantable: 0 };
    match object {
        Object::Type(_) => vec![public, own],
        Object::Schema(schema) if schema.name == "pg_catalog" => vec![own, public],
        _ => vec![own],
    }
}

fn role_of(store: &dyn Store, oid: Oid) -> Option<crate::catalog::object::Role> {
    match store.object(oid).as_deref() {
        Some(Object::Role(role)) => Some(role.clone()),
        _ => None,
    }
}

pub(crate) fn is_superuser(store: &dyn Store, role: Oid) -> bool {
    matches!(store.object(role).as_deref(), Some(Object::Role(role)) if role.superuser)
}

/// A role and all that it is a member of; `inherits`: only those whose privileges it has by itself.
pub(crate) fn roles_of(store: &dyn Store, role: Oid, inherits: bool) -> Vec<Oid> {
    let mut roles = vec![role];
    let mut at = 0;
    while at < roles.len() {
        if let Some(member) = role_of(store, roles[at]).filter(|role| role.inherit || !inherits) {
            let mut of: Vec<Oid> = member.member_of.iter().map(|(of, _)| *of).collect();
            if member.oid == BOOTSTRAP_ROLE {
                of.push(DATABASE_OWNER_ROLE);
            }
            of.retain(|of| !roles.contains(of));
            roles.extend(of);
        }
        at += 1;
    }
    roles
}

/// Whether a role has the rights of an object's owner.
pub(crate) fn owns(store: &dyn Store, role: Oid, object: &Object) -> bool {
    is_superuser(store, role) || roles_of(store, role, true).contains(&owner_of(store, object))
}

/// An index belongs to the owner of its table.
fn owner_of(store: &dyn Store, object: &Object) -> Oid {
    match object {
        Object::Index(index) => store.object(index.table).map_or(0, |table| owner_and_list(&table).0),
        other => owner_and_list(other).0,
    }
}

/// Those of the privileges `wanted` that a role has on an object; `option`: that it may give on.
pub(crate) fn held(store: &dyn Store, role: Oid, object: &Object, wanted: u32, option: bool) -> u32 {
    if is_superuser(store, role) {
        return wanted;
    }
    let roles = roles_of(store, role, true);
    let (owner, list) = owner_and_list(object);
    if option && roles.contains(&owner) {
        return wanted;
    }
    let default = if list.is_empty() { default_list(object) } else { Vec::new() };
    let list = if list.is_empty() { &default } else { list };
    let given = list.iter().filter(|grant| grant.grantee == 0 || roles.contains(&grant.grantee));
    given.fold(0, |all, grant| all | if option { grant.grantable } else { grant.privileges }) & wanted
}

pub(crate) fn denied(object: &Object) -> SqlError {
    let message = format!("permission denied for {} {}", object.kind(), object.name());
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

pub(crate) fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

pub(crate) fn no_role(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

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
