//! What a new database holds before its first statement: two schemas and three roles.
//!
//! 1. Numbers and names are PostgreSQL 15's. Of its predefined roles there are the one that owns
//!    `public` and the one that stops sessions.

use crate::catalog::privilege::{CREATE, USAGE};

use super::object::{
    BOOTSTRAP_ROLE, DATABASE_OWNER_ROLE, Grant, Object, PG_CATALOG, PUBLIC, Role, SIGNAL_ROLE, Schema,
};

/// The first objects; `verifier` is what the first role's password is checked against.
pub(crate) fn first_objects(verifier: Option<&str>) -> Vec<Object> {
    let schema = |oid, (name, comment): (&str, &str), owner| {
        let (name, comment) = (name.to_owned(), Some(comment.to_owned()));
        let usage = |grantee, privileges| Grant { grantee, grantor: owner, privileges, grantable: 0 };
        let grants = vec![usage(owner, USAGE | CREATE), usage(0, USAGE)];
        Object::Schema(Schema { oid, name, owner, grants, comment })
    };
    let role = |oid, name: &str| Role {
        oid,
        name: name.to_owned(),
        inherit: true,
        connections: -1,
        ..Role::default()
    };
    let postgres = Role {
        superuser: true,
        login: true,
        create_role: true,
        create_db: true,
        verifier: verifier.map(str::to_owned),
        ..role(BOOTSTRAP_ROLE, "postgres")
    };
    vec![
        Object::Role(postgres),
        Object::Role(role(DATABASE_OWNER_ROLE, "pg_database_owner")),
        Object::Role(role(SIGNAL_ROLE, "pg_signal_backend")),
        schema(PG_CATALOG, ("pg_catalog", "system catalog schema"), BOOTSTRAP_ROLE),
        schema(PUBLIC, ("public", "standard public schema"), DATABASE_OWNER_ROLE),
    ]
}
