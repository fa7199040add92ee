//! CREATE DOMAIN and ALTER DOMAIN.
//!
//! What a domain says holds for what is stored: a constraint that is added is checked against all columns of
//! the domain, and of domains over it, unless it is NOT VALID. A column that is an array of the domain keeps
//! it from getting new constraints, as in PostgreSQL.
use std::sync::Arc;

use crate::bind::type_text;
use crate::catalog::object::{Expression, Object, Table, UserType, UserTypeKind};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::Exec;
use crate::exec::session::LocalSession;
use crate::exec::store::Store;
use crate::parse::ast::{self, AlterDomain, ConstraintKind, Path};
use crate::tree::DomainCheck;
use crate::types::{Oid, Type, TypeKind, Types};

/// What a domain is over and says.
struct Domain<'t> {
    base: Type,
    not_null: &'t mut bool,
    default: &'t mut Option<Expression>,
    checks: &'t mut Vec<(String, Expression)>,
}

fn of(user: &mut UserType) -> Option<Domain<'_>> {
    match &mut user.kind {
        UserTypeKind::Domain { base, modifier, not_null, default, checks } => {
            let base = Type { oid: *base, modifier: *modifier };
            Some(Domain { base, not_null, default, checks })
        }
        _ => None,
    }
}

#[cold]
fn no_constraint(name: &str, domain: &str) -> SqlError {
    let message = format!("constraint \"{name}\" of domain \"{domain}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

/// What PostgreSQL calls a constraint that no domain has.
fn impossible(kind: &ConstraintKind) -> Option<&'static str> {
    match kind {
        ConstraintKind::PrimaryKey(_) => Some("primary key constraints not possible for domains"),
        ConstraintKind::Unique(..) => Some("unique constraints not possible for domains"),
        ConstraintKind::ForeignKey(..) => Some("foreign key constraints not possible for domains"),
        ConstraintKind::Identity { .. } | ConstraintKind::Generated(..) => {
            Some("specifying GENERATED not supported for domains")
        }
        _ => None,
    }
}

impl<S: Store> LocalSession<S> {
    pub(super) fn create_domain(
        &self,
        path: &Path,
        base: &ast::TypeName,
        collation: Option<&Path>,
        constraints: &[ast::Constraint],
    ) -> Result<()> {
        let base = self.with_binder(|binder| binder.resolve_type(base)).map_err(SqlError::nowhere)?;
        let is_pseudo = self.with_binder(|binder| {
            Ok(binder.types().type_info(base.oid).is_some_and(|info| info.kind == TypeKind::Pseudo))
        })?;
        if is_pseudo {
            let shown = self.with_binder(|b| Ok(type_text(b.types(), base.oid)))?;
            let message = format!("\"{shown}\" is not a valid base type for a domain");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        self.check_collation(base.oid, collation).map_err(SqlError::nowhere)?;
        let syntax = |message: &str| Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        let (mut says_null, mut default, mut checks) = (None, None, Vec::new());
        for constraint in constraints {
            match &constraint.kind {
                ConstraintKind::NotNull if says_null == Some(true) => {
                    return syntax("conflicting NULL/NOT NULL constraints");
                }
                ConstraintKind::Null if says_null == Some(false) => {
                    return syntax("conflicting NULL/NOT NULL constraints");
                }
                ConstraintKind::NotNull => says_null = Some(false),
                ConstraintKind::Null => says_null = Some(true),
                ConstraintKind::Default(..) if default.is_some() => {
                    return syntax("multiple default expressions");
                }
                ConstraintKind::Default(_, sql) => {
                    default = Some(self.lasting_of_domain(base.oid, sql, Some((base, path.last())))?);
                }
                ConstraintKind::Check(_, sql) => {
                    self.add_check(path.last(), base, &mut checks, (constraint.name.as_deref(), sql))?;
                }
                kind => return syntax(impossible(kind).unwrap_or("no constraint of a domain")),
            }
        }
        // A domain over a domain begins with that one's default, and keeps it.
        if default.is_none()
            && let Some(Object::Type(below)) = self.store.object(base.oid).as_deref()
            && let UserTypeKind::Domain { default: inherited, .. } = &below.kind
        {
            default.clone_from(inherited);
        }
        let not_null = says_null == Some(false);
        let (base, modifier) = (base.oid, base.modifier);
        self.add_type(path, UserTypeKind::Domain { base, modifier, not_null, default, checks })
    }

    /// Adds a check under its name, or one made for it; the name.
    fn add_check(
        &self,
        domain: &str,
        base: Type,
        checks: &mut Vec<(String, Expression)>,
        (given, sql): (Option<&str>, &str),
    ) -> Result<String> {
        let taken = |name: &str| checks.iter().any(|(other, _)| other == name);
        let name = match given {
            Some(name) if taken(name) => {
                let message = format!("constraint \"{name}\" for domain \"{domain}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
            Some(name) => name.to_string(),
            None => {
                let first = super::table::joined(domain, "", "check");
                let numbered = (1..).map(|number| format!("{first}{number}"));
                std::iter::once(first.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(first)
            }
        };
        self.with_binder(|binder| binder.domain_check(base.oid, sql).map(drop))?;
        checks.push((name.clone(), self.lasting_of_domain(base.oid, sql, None)?));
        Ok(name)
    }

    pub(super) fn alter_domain(&mut self, path: &Path, change: &AlterDomain) -> Result<()> {
        let mut user = self.user_type(path, "a domain").map_err(SqlError::nowhere)?;
        let (oid, name, object) = (user.oid, user.name.clone(), Object::Type(user.clone()));
        let domain = of(&mut user).ok_or_else(|| self.wrong_kind(oid, "a domain"))?;
        self.must_own(&object)?;
        let shown = self.with_binder(|binder| Ok(type_text(binder.types(), oid)))?;
        match change {
            AlterDomain::Default(None) => *domain.default = None,
            AlterDomain::Default(Some((_, sql))) => {
                *domain.default =
                    Some(self.lasting_of_domain(domain.base.oid, sql, Some((domain.base, &name)))?);
            }
            AlterDomain::NotNull(true) => {
                let check = DomainCheck {
                    column: 0,
                    each: false,
                    domain: shown,
                    check: String::new(),
                    condition: None,
                };
                self.look_at_columns(oid, &check)?;
                *domain.not_null = true;
            }
            AlterDomain::NotNull(false) => *domain.not_null = false,
            AlterDomain::Add(constraint) => {
                let ConstraintKind::Check(_, sql) = &constraint.kind else {
                    let message = impossible(&constraint.kind).unwrap_or("no constraint of a domain");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                };
                let given = (constraint.name.as_deref(), sql.as_str());
                let check = self.add_check(&name, domain.base, domain.checks, given)?;
                if !constraint.not_valid {
                    self.validate_check(oid, shown, domain.base, (&check, sql))?;
                }
            }
            AlterDomain::Drop { if_exists, name: check } => {
                let before = domain.checks.len();
                domain.checks.retain(|(other, _)| *other != check.text);
                if domain.checks.len() == before {
                    let missing = no_constraint(&check.text, &path.shown());
                    if !if_exists {
                        return Err(missing);
                    }
                    self.notice(format!("{}, skipping", missing.message));
                    return Ok(());
                }
            }
            AlterDomain::RenameConstraint(from, to) => {
                let has = |name: &str| domain.checks.iter().position(|(other, _)| other == name);
                let Some(at) = has(&from.text) else {
                    let message = format!("constraint \"{}\" for domain {shown} does not exist", from.text);
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                };
                if has(&to.text).is_some() {
                    let message = format!("constraint \"{}\" for domain {shown} already exists", to.text);
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                }
                domain.checks[at].0.clone_from(&to.text);
            }
            AlterDomain::Validate(check) => {
                let found = domain.checks.iter().find(|(other, _)| *other == check.text);
                let sql = found.ok_or_else(|| no_constraint(&check.text, &path.shown()))?.1.sql.clone();
                return self.validate_check(oid, shown, domain.base, (&check.text, &sql));
            }
        }
        self.store.replace(Object::Type(user))
    }

    fn validate_check(&self, oid: Oid, domain: String, base: Type, (check, sql): (&str, &str)) -> Result<()> {
        let condition = self.with_binder(|binder| binder.domain_check(base.oid, sql))?;
        let check = check.to_string();
        let check = DomainCheck { column: 0, each: false, domain, check, condition: Some(condition) };
        self.look_at_columns(oid, &check)
    }

    /// Looks at every value of a domain that a column has.
    fn look_at_columns(&self, domain: Oid, check: &DomainCheck) -> Result<()> {
        for object in self.store.objects() {
            let Object::Table(table) = &*object else { continue };
            for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.dropped) {
                let uses = self.with_binder(|binder| Ok(uses(binder.types(), column.type_oid, domain)))?;
                match uses {
                    Uses::Not => {}
                    Uses::Within => {
                        let (table, column) = (&table.name, &column.name);
                        let message = format!(
                            "cannot alter type \"{}\" because column \"{table}.{column}\" uses it",
                            check.domain
                        );
                        return Err(SqlError::refused_by_postgresql(message));
                    }
                    Uses::Is => self.look_at_column(&Arc::new(table.clone()), at, check)?,
                }
            }
        }
        Ok(())
    }

    fn look_at_column(&self, table: &Arc<Table>, at: usize, check: &DomainCheck) -> Result<()> {
        self.with_context(|ctx, path| {
            let exec = Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, (0, 0));
            self.each_row(table, |row| {
                exec.domain(row[at].clone(), check).map_err(|error| {
                    let what = match check.condition {
                        None => "contains null values",
                        Some(_) => "contains values that violate the new constraint",
                    };
                    let (column, table) = (&table.columns[at].name, &table.name);
                    let message = format!("column \"{column}\" of table \"{table}\" {what}");
                    SqlError::new(error.state, message)
                })
            })
        })
    }
}

/// How a column's type uses a domain.
enum Uses {
    Not,
    Is,
    /// As the element of an array.
    Within,
}

fn uses(types: &dyn Types, mut ty: Oid, domain: Oid) -> Uses {
    let mut is_within = false;
    loop {
        if ty == domain {
            return if is_within { Uses::Within } else { Uses::Is };
        }
        let element = types.element_of(ty);
        if element != 0 {
            (ty, is_within) = (element, true);
            continue;
        }
        match types.type_info(ty).filter(|info| info.kind == TypeKind::Domain) {
            Some(info) => ty = info.base,
            None => return Uses::Not,
        }
    }
}
