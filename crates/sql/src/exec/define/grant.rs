//! GRANT, REVOKE, ALTER DEFAULT PRIVILEGES; DROP OWNED and REASSIGN OWNED; what new objects begin with.
//!
//! 1. Privileges are given by an object's owner, also where a superuser says so, or by a role that may give
//!    them on. Whoever loses the right to give on takes along what he gave (CASCADE), or does not lose it.
//! 2. An access list that was touched has an entry of the owner, so that it is never taken for an empty one.

use super::LocalSession;
use crate::catalog::depend::Goes;
use crate::catalog::object::{DefaultGrants, Grant as Given, Object, Role};
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::exec::privilege::{
    self, PRIVILEGES, all_of, default_list, held, list_mut, owner_and_list, refused,
};
use crate::exec::store::Store;
use crate::missing;
use crate::parse::ast::{Grant, Owned, Path};
use crate::types::Oid;

/// Adds privileges to a list.
fn give(list: &mut Vec<Given>, grantee: Oid, grantor: Oid, bits: u32, option: bool) {
    let more = if option { bits } else { 0 };
    match list.iter_mut().find(|given| given.grantee == grantee && given.grantor == grantor) {
        Some(given) => {
            (given.privileges, given.grantable) = (given.privileges | bits, given.grantable | more)
        }
        None => list.push(Given { grantee, grantor, privileges: bits, grantable: more }),
    }
}

/// Takes privileges from a list, or only the right to give them on, with all that this was the ground of.
fn take(
    list: &mut Vec<Given>,
    grantee: Oid,
    grantor: Oid,
    bits: u32,
    option: bool,
    cascade: bool,
) -> Result<()> {
    let Some(given) = list.iter_mut().find(|given| given.grantee == grantee && given.grantor == grantor)
    else {
        return Ok(());
    };
    let lost = given.grantable & bits;
    given.grantable &= !bits;
    if !option {
        given.privileges &= !bits;
    }
    let gave =
        |given: &&Given| given.grantor == grantee && given.grantee != grantee && given.privileges & lost != 0;
    let gone: Vec<Given> = list.iter().filter(gave).copied().collect();
    if grantee == grantor || lost == 0 || gone.is_empty() {
        return Ok(());
    }
    if !cascade {
        let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, "dependent privileges exist");
        return Err(error.hint("Use CASCADE to revoke them too."));
    }
    gone.iter().try_for_each(|given| take(list, given.grantee, grantee, lost, false, true))
}

/// The letter of `ALTER DEFAULT PRIVILEGES` for a kind of object, as in `pg_default_acl`.
fn letter_of(object: &Object) -> Option<char> {
    match object {
        Object::Table(_) | Object::View(_) => Some('r'),
        Object::Sequence(_) => Some('S'),
        Object::Schema(_) => Some('n'),
        Object::Type(_) => Some('T'),
        Object::Index(_) | Object::Role(_) => None,
    }
}

impl<S: Store> LocalSession<S> {
    pub(super) fn grant(&self, grant: &Grant) -> Result<()> {
        let Some((kind, names)) = &grant.on else {
            let of: Vec<String> = grant.privileges.iter().map(|(name, _)| name.clone()).collect();
            return self.grant_roles(&of, &grant.roles, grant.grant, grant.with_option);
        };
        if grant.privileges.iter().any(|(_, columns)| !columns.is_empty()) {
            return Err(SqlError::unsupported(
                "privileges on columns",
                "Grant rights on a view that has these columns.",
            ));
        }
        if let Some((roles, schemas)) = &grant.default {
            return self.grant_defaults(grant, kind, roles, schemas);
        }
        let mut named = grant.roles.iter().filter(|name| *name != "public");
        named.try_for_each(|name| self.role_named(name).map(|_| ()))?;
        for object in self.granted_objects(kind, names)? {
            self.grant_on(grant, &object)?;
        }
        Ok(())
    }

    fn granted_objects(&self, kind: &str, names: &[Path]) -> Result<Vec<Object>> {
        let mut found = Vec::new();
        for path in names {
            let schema = || {
                self.store.schema(path.last()).and_then(|oid| self.store.object(oid)).ok_or_else(|| {
                    let message = format!("schema \"{}\" does not exist", path.last());
                    SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
                })
            };
            let fits = |object: &Object| match kind {
                "all tables" => matches!(object, Object::Table(_) | Object::View(_)),
                _ => matches!(object, Object::Sequence(_)),
            };
            match kind {
                "schema" => found.push((*schema()?).clone()),
                "all tables" | "all sequences" => {
                    let schema = schema()?.oid();
                    let within = self.store.objects().into_iter();
                    let within = within.filter(|object| object.schema() == schema && fits(object));
                    found.extend(within.map(|object| (*object).clone()));
                }
                "table" | "sequence" => match self.find(path)?.as_deref() {
                    None | Some(Object::Index(_)) => {
                        let message = format!("relation \"{}\" does not exist", path.shown());
                        return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
                    }
                    Some(other) if kind == "sequence" && !matches!(other, Object::Sequence(_)) => {
                        let message = format!("\"{}\" is not a sequence", path.last());
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                    }
                    Some(object) => found.push(object.clone()),
                },
                "type" | "domain" => found.push(Object::Type(self.user_type(path, "a user's type")?)),
                kind => {
                    let kind = kind.to_uppercase();
                    return Err(SqlError::unsupported(
                        format_args!("privileges on {kind}"),
                        missing::PRIVILEGES,
                    ));
                }
            }
        }
        Ok(found)
    }

    /// The bits of a statement's privileges; `all`: those that there are on the object.
    fn bits_of(&self, grant: &Grant, all: u32, kind: &str) -> Result<u32> {
        let mut bits = 0;
        for (name, _) in &grant.privileges {
            let known = PRIVILEGES.iter().find(|(.., known)| known.eq_ignore_ascii_case(name));
            match known {
                Some((bit, ..)) if bit & all != 0 => bits |= bit,
                Some((.., name)) => {
                    let message = format!("invalid privilege type {name} for {kind}");
                    return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
                }
                None => {
                    let message = format!("unrecognized privilege type \"{name}\"");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            }
        }
        Ok(if grant.privileges.is_empty() { all } else { bits })
    }

    /// Numbers of roles; 0 for PUBLIC.
    fn grantees(&self, grant: &Grant) -> Result<Vec<Oid>> {
        let number = |name: &String| match name.as_str() {
            "public" => Ok(0),
            name => self.role_named(name).map(|role| role.oid),
        };
        let grantees = grant.roles.iter().map(number).collect::<Result<Vec<_>>>()?;
        if grant.grant && grant.with_option && grantees.contains(&0) {
            let message = "grant options can only be granted to roles";
            return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
        }
        Ok(grantees)
    }

    fn grant_on(&self, grant: &Grant, object: &Object) -> Result<()> {
        let mut bits = self.bits_of(grant, all_of(object), object.kind())?;
        let (owner, role) = (owner_and_list(object).0, self.role());
        let mut grantor = owner;
        if !privilege::owns(&self.store, role, object) {
            let may = held(&self.store, role, object, bits, true);
            if may == 0 && held(&self.store, role, object, all_of(object), false) == 0 {
                return Err(privilege::denied(object));
            }
            if may != bits && (may == 0 || !grant.privileges.is_empty()) {
                let (done, name) = (if grant.grant { "granted" } else { "revoked" }, object.name());
                let message = match may {
                    0 => format!("no privileges were {done} for \"{name}\""),
                    _ => format!("not all privileges were {done} for \"{name}\""),
                };
                let warning = {
                    let state = match grant.grant {
                        true => SqlState::WARNING_PRIVILEGE_NOT_GRANTED,
                        false => SqlState::WARNING_PRIVILEGE_NOT_REVOKED,
                    };
                    SqlError::notice(Severity::Warning, state, message)
                };
                self.shared.notices.borrow_mut().push(warning);
            }
            (bits, grantor) = (may, role);
        }
        let mut changed = object.clone();
        let default = default_list(object);
        let Some((_, list)) = list_mut(&mut changed) else { return Ok(()) };
        if list.is_empty() {
            *list = default;
        }
        for grantee in self.grantees(grant)? {
            match grant.grant {
                true => give(list, grantee, grantor, bits, grant.with_option),
                false => take(list, grantee, grantor, bits, grant.with_option, grant.cascade)?,
            }
        }
        list.retain(|given| given.privileges != 0 || given.grantee == owner);
        if !list.iter().any(|given| given.grantee == owner) {
            list.push(Given { grantee: owner, grantor: owner, privileges: 0, grantable: 0 });
        }
        if changed == *object { Ok(()) } else { self.store.replace(changed) }
    }

    fn grant_defaults(&self, grant: &Grant, kind: &str, roles: &[String], schemas: &[String]) -> Result<()> {
        let (letter, all) = match kind {
            "tables" => ('r', 127),
            "sequences" => ('S', privilege::SELECT | privilege::UPDATE | privilege::USAGE),
            "schemas" => ('n', privilege::USAGE | privilege::CREATE),
            "types" => ('T', privilege::USAGE),
            kind => {
                let kind = kind.to_uppercase();
                return Err(SqlError::unsupported(
                    format_args!("default privileges on {kind}"),
                    missing::PRIVILEGES,
                ));
            }
        };
        let bits = self.bits_of(grant, all, kind.trim_end_matches('s'))?;
        let own = ["current_user".to_string()];
        for name in if roles.is_empty() { &own[..] } else { roles } {
            let mut role = self.role_named(name)?;
            if !self.is_superuser()
                && !privilege::roles_of(&self.store, self.role(), true).contains(&role.oid)
            {
                return Err(refused("permission denied to change default privileges"));
            }
            let mut places = Vec::new();
            for schema in schemas {
                places.push(self.store.schema(schema).ok_or_else(|| {
                    let message = format!("schema \"{schema}\" does not exist");
                    SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
                })?);
            }
            if schemas.is_empty() {
                places.push(0);
            }
            for schema in places {
                let at = role.defaults.iter().position(|d| d.schema == schema && d.kind == letter);
                let at = at.unwrap_or_else(|| {
                    let mut grants = Vec::new();
                    if schema == 0 {
                        give(&mut grants, role.oid, role.oid, all, false);
                    }
                    role.defaults.push(DefaultGrants { schema, kind: letter, grants });
                    role.defaults.len() - 1
                });
                for grantee in self.grantees(grant)? {
                    let list = &mut role.defaults[at].grants;
                    match grant.grant {
                        true => give(list, grantee, role.oid, bits, grant.with_option),
                        false => take(list, grantee, role.oid, bits, grant.with_option, grant.cascade)?,
                    }
                    list.retain(|given| given.privileges != 0 || schema == 0 && given.grantee == role.oid);
                }
            }
            role.defaults.retain(|default| !default.grants.is_empty());
            self.store.replace(Object::Role(role))?;
        }
        Ok(())
    }

    /// The access list that a new object begins with: empty, unless ALTER DEFAULT PRIVILEGES said otherwise.
    pub(super) fn first_list(&self, object: &Object) -> Vec<Given> {
        let owner = owner_and_list(object).0;
        let (Some(letter), Some(Object::Role(Role { defaults, .. }))) =
            (letter_of(object), self.store.object(owner).as_deref().cloned())
        else {
            return Vec::new();
        };
        let of = |schema: Oid| defaults.iter().find(|d| d.kind == letter && d.schema == schema);
        let (global, here) = (of(0), of(object.schema()).filter(|_| object.schema() != 0));
        if global.is_none() && here.is_none() {
            return Vec::new();
        }
        let mut list = global.map_or_else(|| default_list(object), |default| default.grants.clone());
        for given in here.iter().flat_map(|default| &default.grants) {
            give(&mut list, given.grantee, given.grantor, given.privileges, false);
        }
        list
    }

    /// DROP OWNED BY, REASSIGN OWNED BY.
    pub(super) fn owned(&mut self, owned: &Owned) -> Result<()> {
        // They go together: what depends on another of them is in nobody's way.
        let mut dropped = Vec::new();
        for name in &owned.roles {
            let role = self.role_named(name)?;
            if !self.is_superuser()
                && !privilege::roles_of(&self.store, self.role(), true).contains(&role.oid)
            {
                let what = if owned.to.is_some() { "reassign" } else { "drop" };
                return Err(refused(format!("permission denied to {what} objects")));
            }
            let to = owned.to.as_ref().map(|name| self.role_named(name)).transpose()?;
            if let Some(to) = &to
                && !self.is_superuser()
                && !privilege::roles_of(&self.store, self.role(), true).contains(&to.oid)
            {
                return Err(refused("permission denied to reassign objects"));
            }
            for object in self.store.objects() {
                let Some(object) = self.store.object(object.oid()) else { continue };
                let mine = owner_and_list(&object).0 == role.oid;
                match &to {
                    Some(to) if mine => self.give_to(&object, to.oid)?,
                    Some(_) => {}
                    None if mine => dropped.push(Goes::Object(object.oid())),
                    None => self.forget_role(&object, role.oid)?,
                }
            }
        }
        if dropped.is_empty() { Ok(()) } else { self.drop_all(&dropped, owned.cascade) }
    }

    /// Takes all that a role was given on an object, or gave.
    fn forget_role(&self, object: &Object, role: Oid) -> Result<()> {
        let mut changed = object.clone();
        let Some((_, list)) = list_mut(&mut changed) else { return Ok(()) };
        list.retain(|given| given.grantee != role && given.grantor != role);
        if changed == *object { Ok(()) } else { self.store.replace(changed) }
    }

    /// Gives an object another owner, with the sequences of its columns.
    pub(super) fn give_to(&self, object: &Object, owner: Oid) -> Result<()> {
        let mut changed = object.clone();
        let Some((own, list)) = list_mut(&mut changed) else { return Ok(()) };
        let before = std::mem::replace(own, owner);
        for given in list {
            given.grantee = if given.grantee == before { owner } else { given.grantee };
            given.grantor = if given.grantor == before { owner } else { given.grantor };
        }
        if changed != *object {
            self.store.replace(changed)?;
        }
        for other in self.store.objects() {
            if let Object::Sequence(sequence) = &*other
                && sequence.owned_by.is_some_and(|(table, _)| table == object.oid())
            {
                self.give_to(&other, owner)?;
            }
        }
        Ok(())
    }

    /// `ALTER .. OWNER TO`.
    pub(super) fn change_owner(&self, object: &Object, name: &str) -> Result<()> {
        self.must_own(object)?;
        let to = self.role_named(name)?;
        if owner_and_list(object).0 == to.oid {
            return Ok(());
        }
        self.goes_with_its_table(object, || {
            format!("cannot change owner of sequence \"{}\"", object.name())
        })?;
        let own = privilege::roles_of(&self.store, self.role(), false);
        if !self.is_superuser() && !own.contains(&to.oid) {
            return Err(refused(format!("must be member of role \"{}\"", to.name)));
        }
        self.give_to(object, to.oid)
    }
}
