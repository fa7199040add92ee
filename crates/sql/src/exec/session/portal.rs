//! PREPARE and EXECUTE, cursors, and portals that hand out a part of their rows.
//!
//! 1. The rows of a cursor are made when it is declared, those of a portal at its first Execute with a limit;
//!    afterwards they are only handed out.
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Result, SqlError, SqlState};
use crate::exec::session::LocalSession;
use crate::exec::spill::TupleStore;
use crate::exec::store::Store;
use crate::observe::Counted;
use crate::parse::ast::{self, FetchCount, Ident, LockStrength, Statement};
use crate::plan::PlannedStatement;
use crate::session::{ColumnDescription, Formats, Progress, Sink, TransactionState};
use crate::tree::OutColumn;
use crate::types::value::Value;
use crate::types::{Oid, Type};

/// A prepared statement.
pub(crate) struct Prepared {
    pub(crate) sql: Arc<str>,
    /// `None`: an empty statement.
    pub(crate) statement: Option<Statement>,
    pub(crate) parameters: Vec<Oid>,
    pub(crate) columns: Option<Vec<ColumnDescription>>,
    /// Where its runs are counted.
    pub(crate) counted: Option<Arc<Counted>>,
    pub(crate) plan: Mutex<Option<KeptPlan>>,
}

/// A plan, and what it holds for.
#[derive(Clone)]
pub(crate) struct KeptPlan {
    /// The catalog's number.
    pub(crate) version: u64,
    /// That of statistics.
    pub(crate) statistics: u64,
    /// Where names are looked for.
    pub(crate) path: Arc<[String]>,
    pub(crate) plan: Arc<PlannedStatement>,
}

impl Prepared {
    pub(crate) fn kept(&self) -> Option<KeptPlan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// 08P01 unless the formats of a Bind are none, one for all columns, or one for each.
    pub(super) fn check_formats(&self, formats: Formats<'_>) -> Result<()> {
        let columns = self.columns.as_ref().map_or(formats.len(), Vec::len);
        if formats.len() > 1 && formats.len() != columns {
            let message =
                format!("bind message has {} result formats but query has {columns} columns", formats.len());
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        Ok(())
    }
}

/// A bound statement, or a cursor.
#[derive(Clone)]
pub(crate) struct Portal {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) parameters: Arc<[Value]>,
    pub(crate) formats: Arc<[u8]>,
    /// Rows that were made and how many of them were fetched.
    pub(crate) rows: Option<(Arc<TupleStore>, usize)>,
    pub(crate) columns: Vec<OutColumn>,
    pub(crate) done: bool,
    pub(crate) hold: bool,
    /// It was declared NO SCROLL.
    pub(crate) forward: bool,
    /// The transaction that declared it has committed.
    pub(crate) kept: bool,
    /// Reading it has failed: it cannot be read again.
    pub(crate) failed: bool,
    /// How many savepoints there were: those that are rolled back take it with them.
    pub(crate) depth: usize,
}

impl<S: Store> LocalSession<S> {
    pub(super) fn prepare_named(
        &mut self,
        name: &Ident,
        types: &[ast::TypeName],
        statement: &Statement,
        text: &str,
    ) -> Result<()> {
        let given = self.with_context(|ctx, path| {
            let binder = crate::bind::Binder::new(ctx, &self.store, path, Vec::new());
            types.iter().map(|ty| binder.resolve_type(ty).map(|ty| ty.oid)).collect::<Result<Vec<_>>>()
        })?;
        let highest = crate::parse::parse(text)?.first().map_or(0, |parsed| parsed.parameters);
        let parsed =
            crate::parse::Parsed { statement: statement.clone(), start: 0, end: 0, parameters: highest };
        let prepared = self.prepare(text, Some(parsed), &given)?;
        if self.statements.contains_key(&name.text) {
            let message = format!("prepared statement \"{}\" already exists", name.text);
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        self.statements.insert(name.text.clone(), Arc::new(prepared));
        Ok(())
    }

    /// The columns of a FETCH are those of the cursor that has the name when it is bound.
    pub(super) fn as_it_is_now(&mut self, prepared: Arc<Prepared>) -> Result<Arc<Prepared>> {
        let Some(statement @ Statement::Fetch { .. }) = &prepared.statement else { return Ok(prepared) };
        let columns = self.utility_columns(statement)?;
        Ok(Arc::new(Prepared {
            sql: prepared.sql.clone(),
            statement: prepared.statement.clone(),
            parameters: prepared.parameters.clone(),
            columns: columns.map(|columns| self.described(&columns)),
            counted: None,
            plan: Mutex::default(),
        }))
    }

    pub(super) fn execute_named(
        &mut self,
        name: &Ident,
        args: &[ast::Expr],
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let prepared = self.prepared(&name.text)?;
        if args.len() != prepared.parameters.len() {
            let message = format!("wrong number of parameters for prepared statement \"{}\"", name.text);
            let detail = format!("Expected {} parameters but got {}.", prepared.parameters.len(), args.len());
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).detail(detail));
        }
        self.ensure_open()?;
        let mut values = Vec::new();
        for (arg, ty) in args.iter().zip(&prepared.parameters) {
            values.push(self.constant(arg, Type::of(*ty))?);
        }
        let Some(statement) = &prepared.statement else { return Ok("SELECT 0".to_string()) };
        if prepared.kept().is_none() {
            return Ok(self.run_statement(statement, &prepared.sql, sink)?.unwrap_or_default());
        }
        self.refuse_writing(statement)?;
        let plan = self.plan_of(&prepared)?;
        self.run_plan(&plan, prepared.columns.as_deref(), (&values, &[]), sink)
    }

    pub(super) fn deallocate(&mut self, name: Option<&Ident>) -> Result<String> {
        match name {
            None => {
                self.statements.clear();
                Ok("DEALLOCATE ALL".to_string())
            }
            Some(name) => {
                self.prepared(&name.text)?;
                self.statements.remove(&name.text);
                Ok("DEALLOCATE".to_string())
            }
        }
    }

    pub(super) fn declare(&mut self, declared: &Statement, text: &str) -> Result<()> {
        let Statement::Declare { name, hold, scroll, insensitive, query, .. } = declared else {
            return Ok(());
        };
        if query.changes_rows() {
            let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
            return Err(SqlError::refused_by_postgresql(message));
        }
        self.ensure_open()?;
        let statement = Statement::Query((**query).clone());
        let (types, values) = self.arguments.clone();
        let (plan, _) = self.plan(&statement, types)?;
        if let Some(locking) = query.locking.first() {
            refuse_locks(locking.strength, *hold, *scroll == Some(true), *insensitive)?;
        }
        if !hold && self.state == TransactionState::Idle {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        if self.portals.contains_key(&name.text) {
            let message = format!("cursor \"{}\" already exists", name.text);
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        let (hold, forward) = (*hold, *scroll == Some(false));
        let columns = plan.columns().unwrap_or_default().to_vec();
        let (rows, _) = self.rows_of(&plan, &values)?;
        let described = self.described(&columns);
        let prepared = Prepared {
            sql: text.trim().into(),
            statement: Some(statement),
            parameters: Vec::new(),
            columns: Some(described),
            counted: None,
            plan: Mutex::default(),
        };
        let rows = Some((Arc::new(rows), 0));
        let (parameters, formats) = (Arc::default(), Arc::default());
        let prepared = Arc::new(prepared);
        let depth = self.savepoints.len();
        let (done, kept, failed) = (false, false, false);
        let made =
            Portal { prepared, parameters, formats, rows, columns, done, forward, hold, kept, failed, depth };
        self.portals.insert(name.text.clone(), made);
        Ok(())
    }

    fn cursor(&mut self, name: &Ident) -> Result<&mut Portal> {
        self.portals.get_mut(&name.text).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{}\" does not exist", name.text))
        })
    }

    /// A cursor's place is before row 0 (0), on row n-1 (n), or behind the last (len + 1).
    pub(super) fn fetch(
        &mut self,
        name: &Ident,
        count: &FetchCount,
        moved: bool,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let portal = self.cursor(name)?;
        if portal.rows.is_none() {
            // A portal of the protocol that nobody has executed yet.
            let (prepared, parameters) = (portal.prepared.clone(), portal.parameters.clone());
            self.ensure_open()?;
            let plan = self.plan_of(&prepared)?;
            let rows = self.rows_of(&plan, &parameters)?.0;
            let portal = self.cursor(name)?;
            portal.columns = plan.columns().unwrap_or_default().to_vec();
            portal.rows = Some((Arc::new(rows), 0));
        }
        let portal = self.cursor(name)?;
        let columns = portal.columns.clone();
        let Some((rows, place)) = &mut portal.rows else { return Ok(String::new()) };
        let (len, at) = (rows.len() as i64, *place as i64);
        if portal.failed {
            let message = format!("portal \"{}\" cannot be run", name.text);
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        if portal.forward && goes_back(count, at, len, moved) {
            portal.failed = true;
            let error =
                SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward");
            return Err(error.hint("Declare it with SCROLL option to enable backward scan."));
        }
        let one =
            |to: i64| (if (1..=len).contains(&to) { vec![to - 1] } else { Vec::new() }, to.clamp(0, len + 1));
        let (picked, to): (Vec<i64>, i64) = match *count {
            FetchCount::All => ((at..len).collect(), len + 1),
            FetchCount::BackwardAll => ((0..(at - 1).max(0)).rev().collect(), 0),
            FetchCount::Count(0) | FetchCount::Relative(0) => one(at),
            FetchCount::Count(n) if n > 0 => {
                let to = (at + n).min(len);
                ((at..to).collect(), if at + n > len { len + 1 } else { to })
            }
            FetchCount::Count(n) => {
                let first = (at - 1).min(len);
                let last = (first + n).max(0);
                ((last..first).rev().collect(), if first + n < 0 { 0 } else { last + 1 })
            }
            FetchCount::Absolute(n) => one(if n < 0 { len + 1 + n } else { n }),
            FetchCount::Relative(n) => one(at + n),
        };
        *place = to as usize;
        let rows = rows.clone();
        let number = picked.len();
        if !moved {
            sink.columns(&self.described(&columns), Formats::default())?;
            let mut reading = rows.reading();
            self.with_context(|ctx, _| {
                picked.iter().try_for_each(|at| self.give(&ctx, reading.row(*at as usize)?, sink))
            })?;
        }
        Ok(format!("{} {number}", if moved { "MOVE" } else { "FETCH" }))
    }

    pub(super) fn close(&mut self, name: Option<&Ident>) -> Result<String> {
        match name {
            None => {
                self.portals.clear();
                Ok("CLOSE CURSOR ALL".to_string())
            }
            Some(name) => {
                self.cursor(name)?;
                self.portals.remove(&name.text);
                Ok("CLOSE CURSOR".to_string())
            }
        }
    }

    /// An Execute with a limit: rows are made once, then handed out.
    pub(crate) fn fetch_portal(
        &mut self,
        name: &str,
        max_rows: u32,
        sink: &mut dyn Sink,
    ) -> Result<Progress> {
        let portal = &self.portals[name];
        let (prepared, formats) = (portal.prepared.clone(), portal.formats.clone());
        let plan = self.plan_of(&prepared)?;
        if self.portals[name].rows.is_none() {
            let parameters = self.portals[name].parameters.clone();
            let made = match self.portals[name].done {
                true => TupleStore::none(),
                false => self.rows_of(&plan, &parameters)?.0,
            };
            if let Some(portal) = self.portals.get_mut(name) {
                portal.rows = Some((Arc::new(made), 0));
            }
        }
        let Some((rows, from)) = self.portals[name].rows.clone() else { return Ok(Progress::Complete) };
        let left = rows.len() - from.min(rows.len());
        let count = if max_rows == 0 { left } else { left.min(max_rows as usize) };
        if let Some(columns) = &prepared.columns {
            sink.columns(columns, Formats(&formats))?;
        }
        self.with_context(|ctx, _| {
            let mut reading = rows.reading();
            (from..from + count).try_for_each(|at| self.give(&ctx, reading.row(at)?, sink))
        })?;
        if let Some(portal) = self.portals.get_mut(name) {
            portal.rows = Some((rows.clone(), from + count));
        }
        if max_rows > 0 && count == max_rows as usize {
            return Ok(Progress::Suspended);
        }
        sink.command_complete(&plan.tag(count as u64))?;
        Ok(Progress::Complete)
    }
}

/// A cursor that could be read twice, or after its transaction, locks no rows.
fn refuse_locks(strength: LockStrength, hold: bool, scroll: bool, insensitive: bool) -> Result<()> {
    let words = match strength {
        LockStrength::KeyShare => "FOR KEY SHARE",
        LockStrength::Share => "FOR SHARE",
        LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
        LockStrength::Update => "FOR UPDATE",
    };
    let (message, what) = match (hold, scroll, insensitive) {
        (true, ..) => (format!("DECLARE CURSOR WITH HOLD ... {words} is not supported"), "Holdable"),
        (_, true, _) => (format!("DECLARE SCROLL CURSOR ... {words} is not supported"), "Scrollable"),
        (_, _, true) => {
            let message = format!("DECLARE INSENSITIVE CURSOR ... {words} is not valid");
            let error = SqlError::new(SqlState::INVALID_CURSOR_DEFINITION, message);
            return Err(error.detail("Insensitive cursors must be READ ONLY."));
        }
        _ => return Ok(()),
    };
    Err(SqlError::refused_by_postgresql(message).detail(format!("{what} cursors must be READ ONLY.")))
}

/// Whether PostgreSQL moves backwards for it, from place `at` of `len` rows: to a row far enough ahead it
/// goes from where it is, to others from the start, and it goes back to show the row that it stands on.
fn goes_back(count: &FetchCount, at: i64, len: i64, moved: bool) -> bool {
    match *count {
        FetchCount::All => false,
        FetchCount::BackwardAll => !moved || at > 0,
        FetchCount::Count(0) | FetchCount::Relative(0) => !moved && (1..=len).contains(&at),
        FetchCount::Count(n) | FetchCount::Relative(n) => n < 0,
        FetchCount::Absolute(n) if n > 0 => at > 0 && (n - 1 <= at.min(len) / 2 || n <= at),
        FetchCount::Absolute(n) => n < 0 || at > 0,
    }
}
