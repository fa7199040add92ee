//! A session over a [`Store`]: prepared statements, portals, transactions.
//!
//! 1. Statements of one text outside of a transaction block are one implicit transaction, ended by `sync`
//!    or by the end of `simple`; BEGIN makes it a block.
//! 2. After an error inside a block everything but its end is refused (25P02) until ROLLBACK [TO].
//! 3. Plans are kept with the number of the catalog that they were made at, and made again when it changed.

mod counted;
mod explain;
mod formatted;
mod give;
mod library;
mod maintain;
mod planning;
mod portal;
mod read_only;
pub(super) mod run;
pub(crate) mod settings;
mod show;
mod transaction;

use formatted::Formatted;
pub(crate) use portal::{Portal, Prepared};
pub(crate) use transaction::{Constraints, Savepoint};

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::Waiting;
use super::privilege;
use super::store::Store;
use super::system::{SessionSystem, Shared, Surroundings};
use crate::encoding;
use crate::error::{Result, Severity, SqlError, SqlState, in_characters};
use crate::parse::ast::Statement;
use crate::parse::{self, Parsed, parse};
use crate::session::{
    ColumnDescription, Described, Format, Formats, Parameters, Progress, Session, SessionStart, Sink,
    Timeouts, TransactionState,
};
use crate::stop;
use crate::types::context::EvalContext;
use crate::types::value::Value;
use crate::types::{Oid, Type, Types, binary, text};

/// The name by which a session finds the schema of its temporary objects, whatever that is called.
pub(crate) const OWN_SCHEMA: &str = "pg_temp";

/// A session that runs its statements over `S` itself, without a pod's workers.
pub struct LocalSession<S> {
    pub(crate) store: S,
    pub(crate) shared: Shared,
    pub(crate) start: SessionStart,
    pub(crate) state: TransactionState,
    /// A transaction is open, in a block or not.
    pub(crate) open: bool,
    pub(crate) begun_us: i64,
    pub(crate) savepoints: Vec<Savepoint>,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) constraints: Constraints,
    /// The transaction has run a plan: too late for some of its modes.
    pub(crate) has_asked: bool,
    /// The statement that runs is the last one of its transaction.
    pub(crate) is_last: bool,
    /// It is run again, for it has met a conflict.
    pub(crate) is_again: bool,
    pub(crate) statements: BTreeMap<String, Arc<Prepared>>,
    pub(crate) portals: BTreeMap<String, Portal>,
    /// Rows of the statement that ran last.
    pub(crate) rows_ran: u64,
    /// The statement that runs, where slow ones are told of.
    pub(crate) text: String,
    /// Types and values of the parameters of the statement that runs, where it was not planned before.
    pub(crate) arguments: (Vec<Oid>, Vec<Value>),
    /// Portals that the last end of a transaction has closed, for a statement that is run again.
    pub(crate) closed: BTreeMap<String, Portal>,
}

impl<S: Store> LocalSession<S> {
    /// A session of `start.user`.
    ///
    /// # Errors
    /// 22023 for settings that are refused.
    pub fn new(
        store: S,
        start: SessionStart,
        surroundings: Box<dyn Surroundings>,
    ) -> Result<LocalSession<S>> {
        let written = store.observed().map(|observed| observed.temporary().clone()).unwrap_or_default();
        let shared = Shared::new(&start, surroundings, written);
        counted::begin(&store, &shared, &start)?;
        Ok(LocalSession {
            store,
            shared,
            start,
            state: TransactionState::Idle,
            open: false,
            begun_us: 0,
            savepoints: Vec::new(),
            waiting: Vec::new(),
            constraints: Constraints::default(),
            has_asked: false,
            is_last: false,
            is_again: false,
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
            rows_ran: 0,
            text: String::new(),
            arguments: Default::default(),
            closed: BTreeMap::new(),
        })
    }

    /// The schemas in which names are looked for: that of temporary objects first, unless the setting has it
    /// elsewhere.
    pub(crate) fn search_path(&self) -> Arc<[String]> {
        let listed = privilege::usable_path(&self.store, &self.shared);
        if listed.iter().any(|name| name == OWN_SCHEMA)
            || !matches!(self.store.own_schema(false), Ok(Some(_)))
        {
            return listed;
        }
        std::iter::once(OWN_SCHEMA.to_owned()).chain(listed.iter().cloned()).collect()
    }

    /// Runs `body` with what binding and evaluation look at.
    pub(crate) fn with_context<T>(
        &self,
        body: impl FnOnce(EvalContext<'_>, &[String]) -> Result<T>,
    ) -> Result<T> {
        self.with_system(|ctx, system| body(ctx, system.search_path))
    }

    /// As `with_context`, with the catalog as functions see it.
    pub(crate) fn with_system<T>(
        &self,
        body: impl FnOnce(EvalContext<'_>, &SessionSystem<'_>) -> Result<T>,
    ) -> Result<T> {
        let path = self.search_path();
        let system = SessionSystem {
            store: &self.store,
            shared: &self.shared,
            search_path: &path,
            statements: &self.statements,
            portals: &self.portals,
        };
        let settings = self.shared.variables.borrow().eval.clone();
        let now = self.shared.surroundings.clock_us();
        let mut ctx = EvalContext::new(&settings, &system, now);
        if self.open {
            ctx.transaction_start_us = self.begun_us;
        }
        body(ctx, &system).map_err(|error| system.with_expressions(error))
    }

    /// Opens a transaction if none is open.
    pub(crate) fn ensure_open(&mut self) -> Result<()> {
        if !self.open {
            self.store.begin()?;
            self.open = true;
            self.begun_us = self.shared.surroundings.clock_us();
            self.shared.variables.borrow_mut().begin();
        }
        Ok(())
    }

    /// Ends the transaction; `false` if it was rolled back.
    pub(crate) fn end(&mut self, commit: bool) -> Result<()> {
        let mut result = Ok(());
        let mut committed = commit;
        if self.open {
            if commit {
                result = self.check_waiting();
                result = result.and_then(|()| self.settle_temporary());
                result = result.and_then(|()| self.shared.notify.before_commit(&self.store, &self.shared));
                result = result.and_then(|()| self.store.commit());
                committed = result.is_ok();
            }
            if !committed {
                self.store.rollback();
            }
            self.shared.notify.after_end(&self.store, &self.shared, committed);
            self.shared.new_labels.borrow_mut().clear();
        }
        self.open = false;
        self.shared.advisory.end_transaction(None);
        self.state = TransactionState::Idle;
        self.savepoints.clear();
        self.waiting.clear();
        self.constraints = Constraints::default();
        self.has_asked = false;
        self.closed = std::mem::take(&mut self.portals);
        self.closed.values_mut().for_each(|portal| portal.kept |= portal.hold && committed);
        if self.closed.values().any(|portal| portal.kept) {
            let (held, closed) = std::mem::take(&mut self.closed).into_iter().partition(|(_, one)| one.kept);
            (self.portals, self.closed) = (held, closed);
        }
        self.shared.variables.borrow_mut().end(committed);
        result
    }

    /// A statement failed: its block waits for its end, an implicit transaction is rolled back.
    pub(crate) fn failed(&mut self) {
        if self.state == TransactionState::Idle {
            // Nothing is left to say about a rollback.
            let _ = self.end(false);
        } else {
            self.state = TransactionState::Failed;
            self.shared.advisory.end_transaction(self.savepoints.last().map(|savepoint| &savepoint.locks));
        }
    }

    pub(crate) fn prepare(&mut self, sql: &str, parsed: Option<Parsed>, given: &[Oid]) -> Result<Prepared> {
        let sql: Arc<str> = sql.into();
        let Some(parsed) = parsed else {
            let (parameters, plan) = (Vec::new(), Mutex::default());
            return Ok(Prepared { sql, statement: None, parameters, columns: None, counted: None, plan });
        };
        let mut parameters = given.to_vec();
        parameters.resize(parameters.len().max(usize::from(parsed.parameters)), 0);
        let statement = parsed.statement;
        if let Statement::Unsupported(refusal) = &statement {
            return Err(refusal.clone());
        }
        let rows = matches!(
            statement,
            Statement::Query(_)
                | Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Merge(_)
        );
        if !rows {
            let parameters = self.utility_parameters(&statement, parameters)?;
            let columns = self.utility_columns(&statement)?;
            let columns = columns.map(|columns| self.described(&columns));
            return Ok(Prepared {
                sql,
                statement: Some(statement),
                parameters,
                columns,
                counted: None,
                plan: Mutex::default(),
            });
        }
        self.ensure_open()?;
        let (plan, parameters) = self.plan(&statement, parameters)?;
        let columns = plan.columns().map(|columns| self.described(columns));
        let plan = Mutex::new(Some(self.keep(Arc::new(plan))));
        let counted = self.counted(&sql);
        Ok(Prepared { sql, statement: Some(statement), parameters, columns, counted, plan })
    }

    pub(crate) fn prepared(&self, name: &str) -> Result<Arc<Prepared>> {
        self.statements.get(name).cloned().ok_or_else(|| {
            let message = match name {
                "" => "unnamed prepared statement does not exist".to_string(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    fn parameter_values(&self, prepared: &Prepared, given: Parameters<'_>) -> Result<Vec<Value>> {
        if given.count != prepared.parameters.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement requires {}",
                given.count,
                prepared.parameters.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        self.with_context(|ctx, _| {
            let mut values = Vec::with_capacity(given.count);
            for (at, ((format, bytes), ty)) in (1..).zip(given.iter().zip(&prepared.parameters)) {
                let ty = Type::of(ctx.base_of(*ty));
                values.push(match (bytes, format) {
                    (None, _) => Value::Null,
                    (Some(bytes), Format::Binary) => {
                        binary::receive(&ctx, ty, bytes, || format!(" in bind parameter {at}"))?
                    }
                    (Some(bytes), Format::Text) => text::input(&ctx, ty, encoding::text(bytes)?)?,
                });
            }
            Ok(values)
        })
    }

    fn refuse_failed(&self, statement: Option<&Statement>) -> Result<()> {
        let ends = matches!(
            statement,
            None | Some(Statement::Transaction(
                crate::parse::ast::Transaction::Commit { .. }
                    | crate::parse::ast::Transaction::Rollback { .. }
                    | crate::parse::ast::Transaction::RollbackTo(_)
            ))
        );
        if self.state == TransactionState::Failed && !ends {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    pub(crate) fn tell_notices(&mut self, sink: &mut dyn Sink) -> Result<()> {
        self.shared.notices.borrow_mut().extend(self.shared.temporary.take_ended());
        for notice in std::mem::take(&mut *self.shared.notices.borrow_mut()) {
            if notice.severity == Severity::Log {
                self.start.client.log(&notice);
            }
            if self.shared.variables.borrow().shows(notice.severity) {
                sink.notice(&notice)?;
            }
        }
        Ok(())
    }

    /// A text from the client as it is read under the session's settings, and its statements.
    pub(crate) fn parsed<'q>(&self, sql: &'q str) -> Result<(Cow<'q, str>, Vec<Parsed>)> {
        if !self.shared.variables.borrow().plain_escapes {
            return parse(sql).map(|parsed| (Cow::Borrowed(sql), parsed));
        }
        let (text, warnings) = parse::with_escapes(sql);
        if self.shared.variables.borrow().get("escape_string_warning")? == "on" {
            for (start, warning) in warnings {
                self.tell(in_characters(warning.at(start + 1), sql));
            }
        }
        let parsed = parse(&text)?;
        Ok((Cow::Owned(text), parsed))
    }

    /// Runs one statement of a text; its tag.
    fn run_one(&mut self, one: &Parsed, sql: &str, sink: &mut dyn Sink) -> Result<Option<String>> {
        self.refuse_failed(Some(&one.statement))?;
        let text = &sql[one.start as usize..one.end as usize];
        if one.parameters > 0 && !matches!(one.statement, Statement::Prepare { .. }) {
            let message = format!("there is no parameter ${}", one.parameters);
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message));
        }
        self.note_text(text);
        let counted = self.counted_text(&one.statement, text);
        let run = |own: &mut Self| own.run_statement(&one.statement, text, sink);
        let result = self.counting(counted.as_deref(), run);
        self.tell_notices(sink)?;
        result
    }

    /// One of the statements of a text, by itself; after the `last` the implicit transaction ends. Its tag is
    /// told when that has succeeded, which may find checks that were put off.
    pub(crate) fn simple_one(
        &mut self,
        one: &Parsed,
        sql: &str,
        last: bool,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let _watched = stop::watch(&self.start.interrupt);
        self.is_last = last && self.state == TransactionState::Idle;
        let mut result = self.run_one(one, sql, sink);
        if result.is_ok() && last && self.state == TransactionState::Idle {
            result = self.end(true).and(result);
        }
        let told = result.and_then(|tag| tag.map_or(Ok(()), |tag| sink.command_complete(&tag)));
        told.map_err(|error| {
            self.failed();
            in_characters(error, sql)
        })
    }

    fn execute_portal(&mut self, name: &str, max_rows: u32, sink: &mut dyn Sink) -> Result<Progress> {
        let _watched = stop::watch(&self.start.interrupt);
        let Some(portal) = self.portals.get(name) else {
            let message = format!("portal \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_CURSOR_NAME, message));
        };
        let prepared = portal.prepared.clone();
        self.refuse_failed(prepared.statement.as_ref())?;
        let Some(statement) = &prepared.statement else {
            sink.empty()?;
            return Ok(Progress::Complete);
        };
        if prepared.columns.is_none() && portal.done {
            let message = format!("portal \"{name}\" cannot be run");
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        if prepared.kept().is_none() {
            self.arguments = (prepared.parameters.clone(), portal.parameters.to_vec());
            let formats = portal.formats.clone();
            if let Some(portal) = self.portals.get_mut(name) {
                portal.done = true;
            }
            self.note_text(&prepared.sql);
            let tag =
                self.run_statement(statement, &prepared.sql, &mut Formatted { sink, formats: &formats });
            self.arguments = Default::default();
            self.tell_notices(sink)?;
            if let Some(tag) = tag? {
                sink.command_complete(&tag)?;
            }
            return Ok(Progress::Complete);
        }
        self.note_text(&prepared.sql);
        self.ensure_open()?;
        self.refuse_writing(statement)?;
        self.begins_reading(statement)?;
        let portal = &self.portals[name];
        // What has no rows is run whole, whatever the limit.
        let whole = max_rows == 0 || prepared.columns.is_none();
        if whole && portal.rows.is_none() && !portal.done {
            let (parameters, formats) = (portal.parameters.clone(), portal.formats.clone());
            let plan = self.plan_of(&prepared)?;
            let columns = prepared.columns.as_deref();
            let run = |own: &mut Self| own.run_plan(&plan, columns, (&parameters, &formats), sink);
            let tag = self.counting(prepared.counted.as_deref(), run);
            self.tell_notices(sink)?;
            let tag = tag?;
            if let Some(portal) = self.portals.get_mut(name) {
                portal.done = true;
            }
            sink.command_complete(&tag)?;
            return Ok(Progress::Complete);
        }
        self.fetch_portal(name, max_rows, sink)
    }
}

impl<S: Store> Session for LocalSession<S> {
    fn simple(&mut self, sql: &str, sink: &mut dyn Sink) -> Result<()> {
        let (sql, parsed) = self.parsed(sql).map_err(|error| {
            self.failed();
            in_characters(error, sql)
        })?;
        if parsed.is_empty() {
            sink.empty()?;
        }
        let last = parsed.len();
        (1..).zip(&parsed).try_for_each(|(at, one)| {
            if at > 1 {
                sink.next_statement(self.timeouts().statement_ms);
            }
            self.simple_one(one, &sql, at == last, sink)
        })
    }

    fn parse(&mut self, name: &str, sql: &str, parameter_types: &[Oid]) -> Result<()> {
        let _watched = stop::watch(&self.start.interrupt);
        let mut prepare = || -> Result<Prepared> {
            if !name.is_empty() && self.statements.contains_key(name) {
                let message = format!("prepared statement \"{name}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
            }
            let (sql, mut parsed) = self.parsed(sql)?;
            if parsed.len() > 1 {
                let message = "cannot insert multiple commands into a prepared statement";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            let parsed = parsed.pop();
            self.refuse_failed(parsed.as_ref().map(|parsed| &parsed.statement))?;
            self.prepare(&sql, parsed, parameter_types)
        };
        match prepare() {
            Ok(prepared) => {
                self.statements.insert(name.to_string(), Arc::new(prepared));
                Ok(())
            }
            Err(error) => {
                self.failed();
                Err(in_characters(error, sql))
            }
        }
    }

    fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: Parameters<'_>,
        result_formats: Formats<'_>,
    ) -> Result<()> {
        let _watched = stop::watch(&self.start.interrupt);
        let bound = self.prepared(statement).and_then(|prepared| {
            self.refuse_failed(prepared.statement.as_ref())?;
            if !portal.is_empty() && self.portals.contains_key(portal) {
                let message = format!("cursor \"{portal}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
            }
            let values = self.parameter_values(&prepared, parameters)?;
            let prepared = self.as_it_is_now(prepared)?;
            prepared.check_formats(result_formats)?;
            Ok((prepared, values))
        });
        match bound {
            Ok((prepared, parameters)) => {
                let (parameters, formats) = (parameters.into(), result_formats.0.into());
                let (rows, columns) = (None, Vec::new());
                let bound = Portal {
                    prepared,
                    parameters,
                    formats,
                    rows,
                    columns,
                    done: false,
                    hold: false,
                    kept: false,
                    failed: false,
                    forward: false,
                    depth: self.savepoints.len(),
                };
                self.portals.insert(portal.to_string(), bound);
                Ok(())
            }
            Err(error) => {
                self.failed();
                Err(error)
            }
        }
    }

    fn describe_statement(&mut self, name: &str) -> Result<Described<'_>> {
        if let Err(error) = self.prepared(name) {
            self.failed();
            return Err(error);
        }
        let prepared = &self.statements[name];
        Ok(Described { parameters: &prepared.parameters, columns: prepared.columns.as_deref() })
    }

    fn describe_portal(&mut self, name: &str) -> Result<Option<(&[ColumnDescription], Formats<'_>)>> {
        if !self.portals.contains_key(name) {
            self.failed();
            let message = format!("portal \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_CURSOR_NAME, message));
        }
        let portal = &self.portals[name];
        Ok(portal.prepared.columns.as_deref().map(|columns| (columns, Formats(&portal.formats))))
    }

    fn execute(&mut self, portal: &str, max_rows: u32, last: bool, sink: &mut dyn Sink) -> Result<Progress> {
        self.is_last = last && self.state == TransactionState::Idle;
        let ran = self.execute_portal(portal, max_rows, sink);
        let ended = ran.and_then(|progress| if last { self.sync().map(|()| progress) } else { Ok(progress) });
        ended.inspect_err(|_| self.failed())
    }

    fn close_statement(&mut self, name: &str) -> Result<()> {
        self.statements.remove(name);
        Ok(())
    }

    fn close_portal(&mut self, name: &str) -> Result<()> {
        self.portals.remove(name);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let _watched = stop::watch(&self.start.interrupt);
        if self.state == TransactionState::Idle { self.end(true) } else { Ok(()) }
    }

    fn statement_text(&self, name: &str) -> Option<Arc<str>> {
        self.statements.get(name).map(|prepared| prepared.sql.clone())
    }

    fn fail(&mut self) {
        self.failed();
    }

    fn transaction_state(&self) -> TransactionState {
        self.state
    }

    fn changed_parameters(&mut self) -> Vec<(&'static str, String)> {
        self.shared.variables.borrow_mut().changed()
    }

    fn timeouts(&self) -> Timeouts {
        self.shared.variables.borrow().timeouts
    }
}
