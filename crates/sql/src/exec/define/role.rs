//! CREATE, ALTER and DROP ROLE, and who is a member of whom.
//!
//! 1. Who may do what is PostgreSQL 15's: superusers everything, roles with CREATEROLE everything that makes
//!    nobody a superuser, everybody changes his own password.
//! 2. A password is kept as what it is checked against; its text is in no row and no message.

use crate::catalog::object::{DATABASE_OWNER_ROLE, FIRST_USER_OID, Object, Role};
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::exec::privilege::{self, no_role, refused};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::parse::ast::{AlterRole, Path, RoleOption, SetValue};
use crate::types::value::Value;
use crate::types::{Oid, Type, oid, text};

impl<S: Store> LocalSession<S> {
    /// The role of this name, or of `current_user` and its kin.
    pub(crate) fn role_named(&self, name: &str) -> Result<Role> {
        let variables = self.shared.variables.borrow();
        let name = match name {
            "current_user" | "current_role" => variables.current_role(&self.shared.user),
            "session_user" => variables.session_role(&self.shared.user),
            name => name,
        };
        match self.store.role(name).and_then(|oid| self.store.object(oid)).as_deref() {
            Some(Object::Role(role)) => Ok(role.clone()),
            _ => Err(no_role(name)),
        }
    }

    /// Whether the current role may create roles.
    pub(super) fn makes_roles(&self) -> bool {
        let own = self.store.object(self.role());
        self.is_superuser() || matches!(own.as_deref(), Some(Object::Role(role)) if role.create_role)
    }

    fn check_role_name(&self, name: &str) -> Result<()> {
        if name.starts_with("pg_") || matches!(name, "public" | "none") {
            let message = format!("role name \"{name}\" is reserved");
            let error = SqlError::new(SqlState::RESERVED_NAME, message);
            return Err(match name.starts_with("pg_") {
                true => error.detail("Role names starting with \"pg_\" are reserved."),
                false => error,
            });
        }
        if self.store.role(name).is_some() {
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("role \"{name}\" already exists")));
        }
        Ok(())
    }

    pub(super) fn create_role(&self, name: &str, user: bool, options: &[RoleOption]) -> Result<()> {
        let superuser = options.contains(&RoleOption::Flag("superuser", true));
        if superuser && !self.is_superuser() {
            return Err(refused("must be superuser to create superusers"));
        }
        for flag in ["replication", "bypassrls"] {
            if options.contains(&RoleOption::Flag(flag, true)) && !self.is_superuser() {
                return Err(refused(format!("must be superuser to create {flag} users")));
            }
        }
        if !self.makes_roles() {
            return Err(refused("permission denied to create role"));
        }
        self.check_role_name(name)?;
        let oid = self.store.new_oid(0)?;
        let (name, connections) = (name.to_string(), -1);
        let mut role = Role { oid, name, login: user, inherit: true, connections, ..Role::default() };
        self.apply_role(&mut role, options)?;
        self.store.create(Object::Role(role))?;
        self.apply_memberships(oid, options)
    }

    pub(super) fn alter_role(&self, name: &str, change: &AlterRole) -> Result<()> {
        let mut role = self.role_named(name)?;
        let own = role.oid == self.role();
        let password = |option: &RoleOption| matches!(option, RoleOption::Password(_));
        let allowed = match change {
            AlterRole::Options(options) => own && options.iter().all(password),
            AlterRole::Setting(..) => own,
            AlterRole::Rename(_) | AlterRole::Members(..) => false,
        };
        let raised = RoleOption::Flag("superuser", true);
        let superuser =
            role.superuser || matches!(change, AlterRole::Options(options) if options.contains(&raised));
        if superuser && !allowed && !self.is_superuser() {
            return Err(refused("must be superuser to alter superuser roles or change superuser attribute"));
        }
        if !allowed && !self.makes_roles() {
            return Err(refused("permission denied"));
        }
        match change {
            AlterRole::Options(options) => {
                self.apply_role(&mut role, options)?;
                let oid = role.oid;
                self.store.replace(Object::Role(role))?;
                self.apply_memberships(oid, options)
            }
            AlterRole::Rename(name) => {
                self.check_role_name(name)?;
                role.name.clone_from(name);
                self.store.replace(Object::Role(role))
            }
            AlterRole::Setting(name, value) => {
                self.apply_setting(&mut role, name.as_deref(), value.as_ref())?;
                self.store.replace(Object::Role(role))
            }
            AlterRole::Members(names, adds) => {
                names.iter().try_for_each(|member| self.change_member(&role, member, *adds, false))
            }
        }
    }

    fn apply_setting(&self, role: &mut Role, name: Option<&str>, value: Option<&SetValue>) -> Result<()> {
        let Some(name) = name else {
            role.settings.clear();
            return Ok(());
        };
        role.settings.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        if let Some(SetValue::List(list)) = value {
            let joined = list.join(", ");
            // What cannot be set here cannot be set at a log-in either.
            let mut tried = self.shared.variables.borrow().clone();
            tried.set(name, &joined, false)?;
            role.settings.push((name.to_string(), joined));
        }
        Ok(())
    }

    fn apply_role(&self, role: &mut Role, options: &[RoleOption]) -> Result<()> {
        for option in options {
            match option {
                RoleOption::Flag(name, on) => match *name {
                    "login" => role.login = *on,
                    "superuser" => role.superuser = *on,
                    "createdb" => role.create_db = *on,
                    "createrole" => role.create_role = *on,
                    "inherit" => role.inherit = *on,
                    "replication" => role.replication = *on,
                    "bypassrls" => role.bypass_rls = *on,
                    _ => {}
                },
                RoleOption::Password(None) => role.verifier = None,
                RoleOption::Password(Some(text)) if text.is_empty() => {
                    self.notice("empty string is not a valid password, clearing password".to_string());
                    role.verifier = None;
                }
                RoleOption::Password(Some(text)) => {
                    role.verifier = Some(self.start.server.password_verifier(text))
                }
                RoleOption::ConnectionLimit(limit) if *limit < -1 => {
                    let message = format!("invalid connection limit: {limit}");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                }
                RoleOption::ConnectionLimit(limit) => {
                    role.connections = i32::try_from(*limit).unwrap_or(i32::MAX);
                }
                RoleOption::Number => self.notice("SYSID can no longer be specified".to_string()),
                RoleOption::ValidUntil(until) => {
                    let read = |ctx: crate::types::context::EvalContext<'_>, _: &[String]| {
                        text::input(&ctx, Type::of(oid::TIMESTAMPTZ), until)
                    };
                    role.valid_until = match self.with_context(read)? {
                        Value::Timestamptz(us) => Some(us),
                        _ => None,
                    };
                }
                RoleOption::InRole(_) | RoleOption::Members(..) => {}
            }
        }
        Ok(())
    }

    /// The options that name other roles, once the role is there.
    fn apply_memberships(&self, oid: Oid, options: &[RoleOption]) -> Result<()> {
        let Some(Object::Role(role)) = self.store.object(oid).as_deref().cloned() else { return Ok(()) };
        for option in options {
            match option {
                RoleOption::InRole(names) => {
                    self.grant_roles(names, std::slice::from_ref(&role.name), true, false)?;
                }
                RoleOption::Members(names, admin) => {
                    for name in names {
                        self.change_member(&role, name, true, *admin)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn change_member(&self, of: &Role, member: &str, adds: bool, admin: bool) -> Result<()> {
        let mut member = self.role_named(member)?;
        let (name, of_name) = (&member.name, &of.name);
        let known = member.member_of.iter().position(|(known, _)| *known == of.oid);
        match (adds, known) {
            (true, Some(at)) if member.member_of[at].1 || !admin => {
                self.notice(format!("role \"{name}\" is already a member of role \"{of_name}\""));
                return Ok(());
            }
            (true, Some(at)) => member.member_of[at].1 = true,
            (true, None) => {
                if privilege::roles_of(&self.store, of.oid, false).contains(&member.oid) {
                    let message = format!("role \"{of_name}\" is a member of role \"{name}\"");
                    return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
                }
                member.member_of.push((of.oid, admin));
            }
            (false, Some(at)) if admin => member.member_of[at].1 = false,
            (false, Some(at)) => _ = member.member_of.remove(at),
            (false, None) => {
                let message = format!("role \"{name}\" is not a member of role \"{of_name}\"");
                let warning = SqlError::notice(Severity::Warning, SqlState::WARNING, message);
                self.shared.notices.borrow_mut().push(warning);
                return Ok(());
            }
        }
        self.store.replace(Object::Role(member))
    }

    /// GRANT and REVOKE of roles.
    pub(super) fn grant_roles(
        &self,
        of: &[String],
        members: &[String],
        adds: bool,
        admin: bool,
    ) -> Result<()> {
        members.iter().try_for_each(|name| self.role_named(name).map(|_| ()))?;
        for name in of {
            let of = self.role_named(name)?;
            let own = self.store.object(self.role());
            let is_admin = matches!(own.as_deref(), Some(Object::Role(role))
                if role.member_of.contains(&(of.oid, true)));
            if of.superuser && !self.is_superuser() {
                return Err(refused("must be superuser to alter superusers"));
            }
            if !is_admin && !self.makes_roles() {
                return Err(refused(format!("must have admin option on role \"{}\"", of.name)));
            }
            if adds && of.oid == DATABASE_OWNER_ROLE {
                let message = format!("role \"{}\" cannot have explicit members", of.name);
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
            }
            for member in members {
                self.change_member(&of, member, adds, admin)?;
            }
        }
        Ok(())
    }

    pub(super) fn drop_role(&self, path: &Path, if_exists: bool) -> Result<()> {
        if !self.makes_roles() {
            return Err(refused("permission denied to drop role"));
        }
        let name = path.last();
        if matches!(name, "current_user" | "current_role" | "session_user") {
            let message = "cannot use special role specifier in DROP ROLE";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let Ok(role) = self.role_named(name) else {
            return self.missing("role", SqlState::UNDEFINED_OBJECT, path, if_exists);
        };
        if role.oid == self.role() || role.name == self.shared.user {
            let who = if role.oid == self.role() { "current" } else { "session" };
            let message = format!("{who} user cannot be dropped");
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
        }
        if role.oid < FIRST_USER_OID {
            let message = format!("cannot drop role {name} because it is required by the database system");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
        if role.superuser && !self.is_superuser() {
            return Err(refused("must be superuser to drop superusers"));
        }
        let details = self.depending_on(&role);
        if !details.is_empty() {
            let message = format!("role \"{name}\" cannot be dropped because some objects depend on it");
            let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
            return Err(error.detail(details.join("\n")));
        }
        for object in self.store.objects() {
            if let Object::Role(other) = &*object
                && other.member_of.iter().any(|(of, _)| *of == role.oid)
            {
                let mut other = other.clone();
                other.member_of.retain(|(of, _)| *of != role.oid);
                self.store.replace(Object::Role(other))?;
            }
        }
        self.store.remove(role.oid)
    }

    /// What a role owns, and what it was given, in the words of an error's detail.
    fn depending_on(&self, role: &Role) -> Vec<String> {
        let mut details = Vec::new();
        let mut objects = self.store.objects();
        // A sequence of a column was made before its table.
        objects.sort_by_key(|object| match &**object {
            Object::Sequence(sequence) => {
                sequence.owned_by.map_or((sequence.oid, 1), |(table, _)| (table, 0))
            }
            other => (other.oid(), 1),
        });
        for object in objects {
            let (owner, list) = privilege::owner_and_list(&object);
            let kind = object.kind();
            let name = self.visible_name(&object);
            if owner == role.oid && !matches!(*object, Object::Index(_)) {
                details.push(format!("owner of {kind} {name}"));
            } else if list.iter().any(|grant| grant.grantee == role.oid || grant.grantor == role.oid) {
                details.push(format!("privileges for {kind} {name}"));
            }
            if let Object::Role(other) = &*object {
                let given = |default: &crate::catalog::object::DefaultGrants| {
                    default.grants.iter().any(|grant| grant.grantee == role.oid)
                };
                if other.oid != role.oid && other.defaults.iter().any(given) {
                    details.push(format!("default privileges of role {}", other.name));
                }
            }
        }
        details
    }
}
