//! Access lists of objects, and roles with the roles that they are members of: what somebody may do, as the
//! catalog has it. Who asks, and the refusals, are the session's (exec/privilege.rs).

use super::object::{BOOTSTRAP_ROLE, DATABASE_OWNER_ROLE, Grant, Object};
use super::view::CatalogView;
use crate::error::{SqlError, SqlState};
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

fn role_of(store: &dyn CatalogView, oid: Oid) -> Option<crate::catalog::object::Role> {
    match store.object(oid).as_deref() {
        Some(Object::Role(role)) => Some(role.clone()),
        _ => None,
    }
}

pub(crate) fn is_superuser(store: &dyn CatalogView, role: Oid) -> bool {
    matches!(store.object(role).as_deref(), Some(Object::Role(role)) if role.superuser)
}

/// A role and all that it is a member of; `inherits`: only those whose privileges it has by itself.
pub(crate) fn roles_of(store: &dyn CatalogView, role: Oid, inherits: bool) -> Vec<Oid> {
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
pub(crate) fn owns(store: &dyn CatalogView, role: Oid, object: &Object) -> bool {
    is_superuser(store, role) || roles_of(store, role, true).contains(&owner_of(store, object))
}

/// An index belongs to the owner of its table.
fn owner_of(store: &dyn CatalogView, object: &Object) -> Oid {
    match object {
        Object::Index(index) => store.object(index.table).map_or(0, |table| owner_and_list(&table).0),
        other => owner_and_list(other).0,
    }
}

/// Those of the privileges `wanted` that a role has on an object; `option`: that it may give on.
pub(crate) fn held(store: &dyn CatalogView, role: Oid, object: &Object, wanted: u32, option: bool) -> u32 {
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
