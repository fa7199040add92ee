//! Privileges as the catalog shows them, and functions that ask for them.

use super::Look;
use crate::catalog::object::Grant;
use crate::error::{Result, SqlError, SqlState};
use crate::exec::privilege::{self, PRIVILEGES};
use crate::func::quote_ident;
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
        oid => look.system.store.object(oid).map_or(oid.to_string(), |role| quote_ident(role.name())),
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

/// What may be asked for by functions whose names begin so: the longer before the shorter.
const ASKED: &[(&str, &[&str])] = &[
    ("has_any_column", &["SELECT", "INSERT", "UPDATE", "REFERENCES"]),
    ("has_column", &["SELECT", "INSERT", "UPDATE", "REFERENCES"]),
    ("has_table_", &["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "RULE"]),
    ("has_sequence", &["USAGE", "SELECT", "UPDATE"]),
    ("has_schema", &["CREATE", "USAGE"]),
    ("has_database", &["CREATE", "TEMPORARY", "TEMP", "CONNECT"]),
    ("has_function", &["EXECUTE"]),
    ("has_tablespace", &["CREATE"]),
    ("has_parameter", &["SET", "ALTER SYSTEM"]),
    ("pg_has_role", &["MEMBER", "USAGE"]),
    ("has_", &["USAGE"]),
];

/// Refuses words that are no privileges of what a function is about.
///
/// # Errors
/// 22023.
pub(super) fn check(source: &str, wanted: &str) -> Result<()> {
    let known = ASKED.iter().find(|(start, _)| source.starts_with(start)).map_or(&[][..], |(_, words)| words);
    let is_role = source.starts_with("pg_has_role");
    for word in wanted.split(',').map(str::trim) {
        let upper = word.to_ascii_uppercase();
        let admin = upper.strip_suffix(" WITH ADMIN OPTION").filter(|_| is_role);
        let plain = admin.or(upper.strip_suffix(" WITH GRANT OPTION")).unwrap_or(&upper);
        if !known.contains(&plain) {
            let message = format!("unrecognized privilege type: \"{word}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    Ok(())
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
