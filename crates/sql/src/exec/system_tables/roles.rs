//! Roles, schemas and the database as rows.

use super::relations::PG_NAMESPACE;
use super::{INFORMATION_SCHEMA, Look, Maker, letter, privileges, texts};
use crate::catalog::first_objects;
use crate::catalog::object::{BOOTSTRAP_ROLE, Grant, Object, Role, Schema};
use crate::exec::Row;
use crate::types::Oid;
use crate::types::value::Value;

/// The number of the only database.
pub(crate) const DATABASE: Oid = 5;
/// UTF8 among PostgreSQL's encodings.
const UTF8: i32 = 6;

fn roles_of<'l>(look: &'l Look<'_>) -> impl Iterator<Item = &'l Role> {
    look.objects.iter().filter_map(|object| match &**object {
        Object::Role(role) => Some(role),
        _ => None,
    })
}

pub(super) fn roles(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pg_authid",
        [
            "oid",
            "rolname",
            "rolsuper",
            "rolinherit",
            "rolcreaterole",
            "rolcreatedb",
            "rolcanlogin",
            "rolreplication",
            "rolbypassrls",
            "rolconnlimit",
            "rolpassword",
            "rolvaliduntil",
        ],
    );
    let row = |role: &Role| {
        let bootstrap = role.oid == BOOTSTRAP_ROLE;
        maker.row([
            Value::Oid(role.oid),
            Value::text(role.name.as_str()),
            Value::Bool(role.superuser),
            Value::Bool(role.inherit),
            Value::Bool(role.create_role || bootstrap),
            Value::Bool(role.create_db || bootstrap),
            Value::Bool(role.login),
            Value::Bool(role.replication || bootstrap),
            Value::Bool(role.bypass_rls || bootstrap),
            Value::Int4(role.connections),
            role.verifier.as_ref().map_or(Value::Null, |verifier| Value::text(verifier.as_str())),
            role.valid_until.map_or(Value::Null, Value::Timestamptz),
        ])
    };
    roles_of(look).map(row).collect()
}

pub(super) fn members(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of("pg_auth_members", ["roleid", "member", "grantor", "admin_option"]);
    let mut rows = Vec::new();
    for role in roles_of(look) {
        rows.extend(role.member_of.iter().map(|(of, admin)| {
            maker.row([
                Value::Oid(*of),
                Value::Oid(role.oid),
                Value::Oid(BOOTSTRAP_ROLE),
                Value::Bool(*admin),
            ])
        }));
    }
    rows
}

pub(super) fn settings(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of("pg_db_role_setting", ["setrole", "setconfig"]);
    let row = |role: &Role| {
        let all: Vec<String> = role.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        maker.row([Value::Oid(role.oid), texts(all.iter().map(String::as_str))])
    };
    roles_of(look).filter(|role| !role.settings.is_empty()).map(row).collect()
}

pub(super) fn schemas(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of("pg_namespace", ["oid", "nspname", "nspowner", "nspacl"]);
    let row = |oid: Oid, name: &str, owner: Oid, grants: &[Grant]| {
        let acl = privileges::acl(look, grants);
        maker.row([Value::Oid(oid), Value::text(name), Value::Oid(owner), acl])
    };
    let own = [row(INFORMATION_SCHEMA, "information_schema", BOOTSTRAP_ROLE, &[])];
    let schemas = look.objects.iter().filter_map(|object| match &**object {
        Object::Schema(schema) => Some(row(schema.oid, &schema.name, schema.owner, &schema.grants)),
        _ => None,
    });
    own.into_iter().chain(schemas).collect()
}

/// What everybody may do in a new database, which is what a dump takes for granted.
pub(super) fn first_privileges(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of("pg_init_privs", ["objoid", "classoid", "objsubid", "privtype", "initprivs"]);
    let row = |object: Object| match object {
        Object::Schema(Schema { oid, grants, .. }) => {
            let (part, acl) = (Value::Int4(0), privileges::acl(look, &grants));
            Some(maker.row([Value::Oid(oid), Value::Oid(PG_NAMESPACE), part, letter('i'), acl]))
        }
        _ => None,
    };
    first_objects(None).into_iter().filter_map(row).collect()
}

pub(super) fn databases(look: &Look<'_>) -> Vec<Row> {
    let maker = Maker::of(
        "pg_database",
        [
            "oid",
            "datname",
            "datdba",
            "encoding",
            "datlocprovider",
            "datallowconn",
            "datconnlimit",
            "dattablespace",
            "datcollate",
            "datctype",
        ],
    );
    vec![maker.row([
        Value::Oid(DATABASE),
        Value::text(look.system.shared.database.as_str()),
        Value::Oid(BOOTSTRAP_ROLE),
        Value::Int4(UTF8),
        letter('c'),
        Value::Bool(true),
        Value::Int4(-1),
        Value::Oid(1663),
        Value::text("C"),
        Value::text("C.UTF-8"),
    ])]
}
