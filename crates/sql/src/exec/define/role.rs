//! CREATE and ALTER ROLE.
use crate::catalog::object::{Object, Role};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::parse::ast::RoleOption;

impl<S: Store> LocalSession<S> {
    pub(super) fn create_role(&self, name: &str, user: bool, options: &[RoleOption]) -> Result<()> {
        if self.store.role(name).is_some() {
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("role \"{name}\" already exists")));
        }
        let oid = self.store.new_oid()?;
        let (name, connections) = (name.to_string(), -1);
        let mut role = Role { oid, name, login: user, inherit: true, connections, ..Role::default() };
        self.apply_role(&mut role, options)?;
        self.store.create(Object::Role(role))
    }

    pub(super) fn alter_role(&self, name: &str, options: &[RoleOption]) -> Result<()> {
        let name = if matches!(name, "current_user" | "session_user") { &self.shared.user } else { name };
        let found = self.store.role(name).and_then(|oid| self.store.object(oid));
        let Some(Object::Role(mut role)) = found.as_deref().cloned() else {
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")));
        };
        self.apply_role(&mut role, options)?;
        self.store.replace(Object::Role(role))
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
                    _ => {}
                },
                RoleOption::Password(None) => role.verifier = None,
                RoleOption::Password(Some(text)) => {
                    role.verifier = Some(self.start.server.password_verifier(text))
                }
                RoleOption::ConnectionLimit(limit) => role.connections = *limit as i32,
                RoleOption::ValidUntil(_) => {}
                RoleOption::InRole(names) => {
                    for name in names {
                        let found = self.store.role(name).ok_or_else(|| {
                            SqlError::new(
                                SqlState::UNDEFINED_OBJECT,
                                format!("role \"{name}\" does not exist"),
                            )
                        })?;
                        role.member_of.push((found, false));
                    }
                }
            }
        }
        Ok(())
    }
}
