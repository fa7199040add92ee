//! SET, SHOW, RESET and DISCARD, and rows of text that statements without a plan answer.
use super::run::warning;
use crate::bind::Collation;
use crate::catalog::object::{Object, UserTypeKind};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::Row;
use crate::exec::privilege;
use crate::exec::session::LocalSession;
use crate::exec::session::settings::list;
use crate::exec::store::Store;
use crate::exec::system::text_column;
use crate::func::quote_ident;
use crate::parse::ast::{SetValue, Statement};
use crate::session::{ColumnDescription, Formats, Sink, TransactionState};
use crate::tree::OutColumn;
use crate::types::value::Value;
use crate::types::{Type, Types};

impl<S: Store> LocalSession<S> {
    pub(super) fn set(&mut self, name: &str, value: &SetValue, local: bool) -> Result<()> {
        if local && self.state == TransactionState::Idle {
            let message = "SET LOCAL can only be used in transaction blocks";
            self.tell(warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
            return Ok(());
        }
        let role = name.eq_ignore_ascii_case("role") || name.eq_ignore_ascii_case("session_authorization");
        if let SetValue::List(list) = value {
            privilege::check_setting(&self.store, &self.shared, name, &list.join(", "))?;
        }
        self.set_variable(name, value, local)?;
        if let Some(known) = list::find(name).filter(|known| known.is_unheard)
            && self.shared.variables.borrow().get(name)? != known.start
        {
            self.notice(format!("setting \"{}\" is kept, and changes nothing", known.name));
        }
        if name.eq_ignore_ascii_case("session_authorization") {
            self.shared.variables.borrow_mut().set("role", "none", local)?;
        }
        if role {
            let on = if self.is_superuser() { "on" } else { "off" };
            self.shared.variables.borrow_mut().force("is_superuser", on);
        }
        Ok(())
    }

    fn set_variable(&self, name: &str, value: &SetValue, local: bool) -> Result<()> {
        match value {
            SetValue::Default => self.shared.variables.borrow_mut().reset(name),
            SetValue::List(list) => {
                let joined = if name.eq_ignore_ascii_case("search_path") {
                    list.iter().map(|part| quote_ident(part)).collect::<Vec<_>>().join(", ")
                } else {
                    list.join(", ")
                };
                let lower = name.to_ascii_lowercase();
                self.check_mode(&lower, &joined.to_ascii_lowercase())?;
                // What a transaction is ends with it.
                let local = local || lower.starts_with("transaction_");
                self.shared.variables.borrow_mut().set(name, &joined, local)
            }
        }
    }

    /// Columns of statements that are not planned, if they return rows.
    /// The types of the parameters of a statement that has another within.
    pub(crate) fn utility_parameters(
        &mut self,
        statement: &Statement,
        given: Vec<crate::types::Oid>,
    ) -> Result<Vec<crate::types::Oid>> {
        let query;
        let inner = match statement {
            _ if given.is_empty() => return Ok(given),
            Statement::Declare { query: declared, .. } => {
                query = Statement::Query((**declared).clone());
                &query
            }
            Statement::Explain { statement, .. } | Statement::CreateTableAs { query: statement, .. } => {
                statement
            }
            _ => return Ok(Vec::new()),
        };
        self.ensure_open()?;
        self.plan(inner, given).map(|(_, parameters)| parameters)
    }

    /// What a client is told of columns: of a domain the type under it, which clients know.
    pub(crate) fn described(&self, columns: &[OutColumn]) -> Vec<ColumnDescription> {
        let described = self.with_context(|ctx, _| {
            let describe = |column: &OutColumn| {
                let ty = self.under_domains(column.ty);
                ColumnDescription {
                    name: column.name.clone(),
                    ty,
                    len: ctx.type_info(ty.oid).map_or(-1, |info| info.len),
                    table: column.table,
                    attribute: column.attribute,
                }
            };
            Ok(columns.iter().map(describe).collect())
        });
        described.expect("nothing in it fails")
    }

    fn under_domains(&self, mut ty: Type) -> Type {
        while crate::types::builtin(ty.oid).is_none()
            && let Some(object) = self.store.object(ty.oid)
            && let Object::Type(user) = &*object
            && user.oid == ty.oid
            && let UserTypeKind::Domain { base, modifier, .. } = &user.kind
        {
            ty = Type { oid: *base, modifier: *modifier };
        }
        ty
    }

    pub(crate) fn utility_columns(&mut self, statement: &Statement) -> Result<Option<Vec<OutColumn>>> {
        Ok(match statement {
            Statement::Show(name) if name == "all" => {
                Some(vec![text_column("name"), text_column("setting"), text_column("description")])
            }
            Statement::Show(name) => Some(vec![text_column(&self.shown_name(name))]),
            Statement::Explain { .. } => Some(vec![text_column("QUERY PLAN")]),
            Statement::Fetch { name, moved: false, .. } => {
                self.portals.get(&name.text).map(|p| p.columns.clone())
            }
            Statement::Execute { name, .. } => {
                let prepared = self.prepared(&name.text)?;
                prepared.columns.as_ref().map(|columns| {
                    let column = |c: &crate::session::ColumnDescription| OutColumn {
                        name: c.name.clone(),
                        ty: c.ty,
                        table: c.table,
                        attribute: c.attribute,
                        fields: None,
                        collation: Collation::Default,
                    };
                    columns.iter().map(column).collect()
                })
            }
            _ => None,
        })
    }

    fn shown_name(&self, name: &str) -> String {
        list::find(name).map_or(name, |known| known.name).to_string()
    }

    /// Tells texts as rows.
    pub(crate) fn tell_rows(
        &self,
        columns: &[OutColumn],
        rows: &[Vec<String>],
        sink: &mut dyn Sink,
    ) -> Result<()> {
        sink.columns(&self.described(columns), Formats::default())?;
        self.with_context(|ctx, _| {
            rows.iter().try_for_each(|row| {
                let values: Row = row.iter().map(|text| Value::text(text.as_str())).collect();
                self.give(&ctx, &values, sink)
            })
        })
    }

    pub(super) fn show(&mut self, name: &str, sink: &mut dyn Sink) -> Result<String> {
        if name == "all" {
            let rows: Vec<Vec<String>> = {
                let variables = self.shared.variables.borrow();
                let row =
                    |(name, value): (&str, &str)| vec![name.to_string(), value.to_string(), String::new()];
                variables.all().into_iter().map(row).collect()
            };
            let columns = [text_column("name"), text_column("setting"), text_column("description")];
            self.tell_rows(&columns, &rows, sink)?;
            return Ok("SHOW".to_string());
        }
        let value = self.shared.variables.borrow().get(name)?.to_string();
        let column = text_column(&self.shown_name(name));
        self.tell_rows(&[column], &[vec![value]], sink)?;
        Ok("SHOW".to_string())
    }

    pub(super) fn discard(&mut self, what: &str) -> Result<String> {
        if what == "all" {
            if self.state != TransactionState::Idle {
                let message = "DISCARD ALL cannot run inside a transaction block";
                return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            self.statements.clear();
            self.portals.clear();
            self.shared.variables.borrow_mut().reset_all();
            self.shared.advisory.end_session();
            self.ensure_open()?;
            self.shared.notify.unlisten(None);
        }
        if matches!(what, "all" | "temp" | "temporary") {
            self.store.discard_own()?;
        }
        if matches!(what, "all" | "sequences") {
            self.shared.current.borrow_mut().clear();
            *self.shared.last.borrow_mut() = None;
        }
        let shown = if what == "temporary" { "temp" } else { what };
        Ok(format!("DISCARD {}", shown.to_uppercase()))
    }
}
