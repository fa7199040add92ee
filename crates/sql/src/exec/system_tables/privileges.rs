//! Privileges as the catalog shows them, and functions that ask for them.

use super::Look;
use crate::catalog::object::Grant;
use crate::exec::privilege::{self, PRIVILEGES};
use crate::exec::system::quoted;
use crate::types::value::Value;
use crate::types::{Oid, oid};

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
    let shown = grants.iter().filter(|grant| grant.privileges != 0);
    Value::array(oid::ACLITEM, shown.map(item).collect())
}

/// Whether a role has one of these privileges (`SELECT, INSERT WITH GRANT OPTION`) on an object.
pub(super) fn has(
    look: &crate::exec::system::SessionSystem<'_>,
    role: Oid,
    object: &crate::catalog::object::Object,
    wanted: &str,
) -> bool {
    wanted.split(',').any(|word| {
        let word = word.trim().to_ascii_uppercase();
        let (word, option) = match word.strip_suffix(" WITH GRANT OPTION") {
            Some(word) => (word, true),
            None => (word.as_str(), false),
        };
        let bit = PRIVILEGES.iter().find(|(.., name)| *name == word).map_or(0, |(bit, ..)| *bit);
        privilege::held(look.store, role, object, bit, option) & bit != 0
    })
}
