//! Privileges: how the catalog shows them, and who has them.

use super::Look;
use crate::catalog::object::{Grant, Object};
use crate::exec::store::Store;
use crate::exec::system::quoted;
use crate::types::value::Value;
use crate::types::{Oid, oid};

/// Bits, their letters in an access list and their names.
const PRIVILEGES: &[(u32, char, &str)] = &[
    (1, 'a', "INSERT"),
    (2, 'r', "SELECT"),
    (4, 'w', "UPDATE"),
    (8, 'd', "DELETE"),
    (16, 'D', "TRUNCATE"),
    (32, 'x', "REFERENCES"),
    (64, 't', "TRIGGER"),
    (128, 'X', "EXECUTE"),
    (256, 'U', "USAGE"),
    (512, 'C', "CREATE"),
];

/// The name of the privilege with this letter.
pub(super) fn name(letter: char) -> Option<&'static str> {
    PRIVILEGES.iter().find(|(_, own, _)| *own == letter).map(|(.., name)| *name)
}

/// An access list: NULL while nobody was given anything.
pub(super) fn acl(look: &Look<'_>, grants: &[Grant]) -> Value {
    if grants.is_empty() {
        return Value::Null;
    }
    let name = |oid: Oid| match oid {
        0 => String::new(),
        oid => look.system.store.object(oid).map_or(oid.to_string(), |role| quoted(role.name())),
    };
    let item = |grant: &Grant| {
        let mut letters = String::new();
        for (bit, letter, _) in PRIVILEGES.iter().filter(|(bit, ..)| grant.privileges & bit != 0) {
            letters.push(*letter);
            letters.push_str(if grant.grantable & bit != 0 { "*" } else { "" });
        }
        Value::text(format!("{}={letters}/{}", name(grant.grantee), name(grant.grantor)))
    };
    Value::array(oid::ACLITEM, grants.iter().map(item).collect())
}

/// Whether a role has one of these privileges (`SELECT, INSERT WITH GRANT OPTION`) on an object: superusers
/// and owners have all of them, others what was given to them, to a role that they inherit from, or to
/// everybody.
pub(super) fn has(store: &dyn Store, role: Oid, object: &Object, wanted: &str) -> bool {
    let (owner, grants, everybody): (Oid, &[Grant], u32) = match object {
        Object::Schema(it) => (it.owner, &it.grants[..], 0),
        Object::Table(it) => (it.owner, &it.grants[..], 0),
        Object::Sequence(it) => (it.owner, &it.grants[..], 0),
        Object::View(it) => (it.owner, &it.grants[..], 0),
        Object::Type(it) => (it.owner, &it.grants[..], 256),
        Object::Index(_) | Object::Role(_) => (0, &[], 0),
    };
    let roles = roles_of(store, role);
    if is_superuser(store, role) || roles.contains(&owner) {
        return true;
    }
    wanted.split(',').any(|word| {
        let word = word.trim().to_ascii_uppercase();
        let (word, option) = match word.strip_suffix(" WITH GRANT OPTION") {
            Some(word) => (word, true),
            None => (word.as_str(), false),
        };
        let bit = PRIVILEGES.iter().find(|(.., name)| *name == word).map_or(0, |(bit, ..)| *bit);
        let given = |grant: &&Grant| grant.grantee == 0 || roles.contains(&grant.grantee);
        let bits = |grant: &Grant| if option { grant.grantable } else { grant.privileges };
        (!option && everybody & bit != 0) || grants.iter().filter(given).any(|grant| bits(grant) & bit != 0)
    })
}

pub(super) fn is_superuser(store: &dyn Store, role: Oid) -> bool {
    matches!(store.object(role).as_deref(), Some(Object::Role(role)) if role.superuser)
}

/// A role and all that it is a member of.
pub(super) fn roles_of(store: &dyn Store, role: Oid) -> Vec<Oid> {
    let mut roles = vec![role];
    let mut at = 0;
    while at < roles.len() {
        if let Some(Object::Role(role)) = store.object(roles[at]).as_deref() {
            let more: Vec<Oid> =
                role.member_of.iter().map(|(of, _)| *of).filter(|of| !roles.contains(of)).collect();
            roles.extend(more);
        }
        at += 1;
    }
    roles
}
