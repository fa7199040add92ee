//! Running one statement of a session: over rows, or one that controls the session.

use std::sync::Arc;

use super::session::{LocalSession, Portal, Prepared, Savepoint};
use super::store::Store;
use super::system::text_column;
use super::{Exec, Row, Waiting};
use crate::bind::tree::{Expr, OutColumn};
use crate::bind::{BoundStatement, Scope};
use crate::catalog::object::Constraint;
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::func::CastContext;
use crate::parse::ast::{FetchCount, Ident, SetValue, Statement, Transaction, TransactionMode};
use crate::plan::PlannedStatement;
use crate::session::{Formats, Progress, Sink, TransactionState};
use crate::types::Type;
use crate::types::value::Value;

impl PlannedStatement {
    /// The columns of its rows, if it returns any.
    pub(crate) fn columns(&self) -> Option<&[OutColumn]> {
        match &self.statement {
            BoundStatement::Query(query) => Some(&query.columns),
            BoundStatement::Change(change) if change.columns().is_empty() => None,
            BoundStatement::Change(change) => Some(change.columns()),
        }
    }

    fn tag(&self, count: u64) -> String {
        use crate::bind::tree::Change;
        match &self.statement {
            BoundStatement::Query(_) => format!("SELECT {count}"),
            BoundStatement::Change(Change::Insert(_)) => format!("INSERT 0 {count}"),
            BoundStatement::Change(Change::Update(_)) => format!("UPDATE {count}"),
            BoundStatement::Change(Change::Delete(_)) => format!("DELETE {count}"),
        }
    }
}

fn warning(state: SqlState, message: &str) -> SqlError {
    SqlError::notice(Severity::Warning, state, message)
}

impl<S: Store> LocalSession<S> {
    /// Runs a statement; its tag, unless it has been told already.
    pub(crate) fn run_statement(
        &mut self,
        statement: &Statement,
        text: &str,
        sink: &mut dyn Sink,
    ) -> Result<Option<String>> {
        let tag = |tag: &str| Ok(Some(tag.to_string()));
        match statement {
            Statement::Query(query) => {
                if let crate::parse::ast::Body::Select(select) = &query.body
                    && select.into.is_some()
                {
                    return self.select_into(query).map(Some);
                }
                self.run_rows(statement, sink).map(Some)
            }
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
                self.run_rows(statement, sink).map(Some)
            }
            Statement::Transaction(transaction) => {
                self.transaction(transaction).map(|tag| Some(tag.to_string()))
            }
            Statement::Set { local, name, value } => {
                self.set(name, value, *local)?;
                tag("SET")
            }
            Statement::SetTransaction { session, modes } => {
                self.set_modes(modes, *session)?;
                tag("SET")
            }
            Statement::SetConstraints { names, deferred } => {
                self.set_constraints(names, *deferred)?;
                tag("SET CONSTRAINTS")
            }
            Statement::Show(name) => self.show(name, sink).map(Some),
            Statement::Reset(name) => {
                match name {
                    Some(name) => self.shared.variables.borrow_mut().reset(name)?,
                    None => self.shared.variables.borrow_mut().reset_all(),
                }
                tag("RESET")
            }
            Statement::Discard(what) => self.discard(what).map(Some),
            Statement::Prepare { name, types, statement, text: (from, to) } => {
                let _ = (from, to);
                self.prepare_named(name, types, statement, text)?;
                tag("PREPARE")
            }
            Statement::Execute { name, args } => self.execute_named(name, args, sink).map(Some),
            Statement::Deallocate(name) => self.deallocate(name.as_ref()).map(Some),
            Statement::Declare { name, hold, query, .. } => {
                self.declare(name, *hold, query)?;
                tag("DECLARE CURSOR")
            }
            Statement::Fetch { name, count, moved } => self.fetch(name, count, *moved, sink).map(Some),
            Statement::Close(name) => self.close(name.as_ref()).map(Some),
            Statement::Explain { options, statement } => self.explain(options, statement, sink).map(Some),
            Statement::Copy(copy) => {
                self.ensure_open()?;
                self.copy(copy, sink).map(Some)
            }
            Statement::Listen(_) => tag("LISTEN"),
            Statement::Unlisten(_) => tag("UNLISTEN"),
            Statement::Notify(..) => tag("NOTIFY"),
            Statement::Lock { .. } if self.state == TransactionState::Idle => {
                let message = "LOCK TABLE can only be used in transaction blocks";
                Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message))
            }
            Statement::Lock { .. } => tag("LOCK TABLE"),
            Statement::Maintenance { tag: "VACUUM", .. } if self.state != TransactionState::Idle => {
                let message = "VACUUM cannot run inside a transaction block";
                Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message))
            }
            Statement::Maintenance { tag: name, tables } => {
                self.maintain(tables)?;
                tag(name)
            }
            Statement::Do(body) => self.do_block(body, sink).map(Some),
            Statement::Unsupported(name) => Err(SqlError::unsupported(name)),
            other => {
                self.ensure_open()?;
                self.define(other, text, sink).map(Some)
            }
        }
    }

    /// A statement over rows that was not prepared.
    pub(crate) fn run_rows(&mut self, statement: &Statement, sink: &mut dyn Sink) -> Result<String> {
        self.ensure_open()?;
        let (plan, _) = self.plan(statement, Vec::new())?;
        self.run_plan(&plan, &[], &[], sink)
    }

    /// Runs a plan; rows and columns go to the sink.
    pub(crate) fn run_plan(
        &mut self,
        plan: &PlannedStatement,
        parameters: &[Value],
        formats: &[u8],
        sink: &mut dyn Sink,
    ) -> Result<String> {
        if let Some(columns) = plan.columns() {
            sink.columns(&self.described(columns), Formats(formats))?;
        }
        let (count, waiting) = self.with_context(|ctx, path| {
            let sizes = (plan.caches, plan.ctes);
            let exec = Exec::new(&self.store, ctx, parameters, &self.start.interrupt, path, sizes);
            let mut rows = 0;
            let changed = exec.run(plan, &mut |row| {
                rows += 1;
                sink.row(&ctx, &row)?;
                Ok(true)
            })?;
            let waiting = exec.settle_constraints(&|constraint| self.is_deferred(constraint))?;
            Ok((changed.unwrap_or(rows), waiting))
        })?;
        self.waiting.extend(waiting);
        Ok(plan.tag(count))
    }

    /// Runs a plan and keeps its rows.
    pub(crate) fn rows_of(
        &mut self,
        plan: &PlannedStatement,
        parameters: &[Value],
    ) -> Result<(Vec<Row>, u64)> {
        let (rows, count, waiting) = self.with_context(|ctx, path| {
            let sizes = (plan.caches, plan.ctes);
            let exec = Exec::new(&self.store, ctx, parameters, &self.start.interrupt, path, sizes);
            let mut rows = Vec::new();
            let changed = exec.run(plan, &mut |row| {
                rows.push(row);
                Ok(true)
            })?;
            let waiting = exec.settle_constraints(&|constraint| self.is_deferred(constraint))?;
            let count = changed.unwrap_or(rows.len() as u64);
            Ok((rows, count, waiting))
        })?;
        self.waiting.extend(waiting);
        Ok((rows, count))
    }

    pub(crate) fn is_deferred(&self, constraint: &Constraint) -> bool {
        if !constraint.deferrable {
            return false;
        }
        let own = self.deferred.get(&constraint.oid).copied();
        own.or(self.deferred_all).unwrap_or(constraint.deferred)
    }

    /// Checks what was put off to the commit.
    pub(crate) fn check_waiting(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        self.check_some(waiting, &|_| false).map(|_| ())
    }

    fn check_some(
        &mut self,
        waiting: Vec<Waiting>,
        deferred: &dyn Fn(&Constraint) -> bool,
    ) -> Result<Vec<Waiting>> {
        self.with_context(|ctx, path| {
            let exec = Exec::new(&self.store, ctx, &[], &self.start.interrupt, path, (0, 0));
            *exec.waiting.borrow_mut() = waiting;
            exec.settle_constraints(deferred)
        })
    }

    fn set_constraints(&mut self, names: &[crate::parse::ast::Path], deferred: bool) -> Result<()> {
        if names.is_empty() {
            self.deferred.clear();
            self.deferred_all = Some(deferred);
        }
        for path in names {
            let mut found = false;
            for object in self.store.objects() {
                let crate::catalog::object::Object::Table(table) = &*object else { continue };
                for constraint in table.constraints.iter().filter(|constraint| constraint.name == path.last())
                {
                    if !constraint.deferrable {
                        let message = format!("constraint \"{}\" is not deferrable", path.last());
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                    }
                    found = true;
                    self.deferred.insert(constraint.oid, deferred);
                }
            }
            if !found {
                let message = format!("constraint \"{}\" does not exist", path.last());
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
        }
        if !deferred {
            let waiting = std::mem::take(&mut self.waiting);
            let (all, own) = (self.deferred_all, self.deferred.clone());
            let still =
                move |c: &Constraint| c.deferrable && own.get(&c.oid).copied().or(all).unwrap_or(c.deferred);
            self.waiting = self.check_some(waiting, &still)?;
        }
        Ok(())
    }

    fn tell(&self, notice: SqlError) {
        self.shared.notices.borrow_mut().push(notice);
    }

    fn transaction(&mut self, transaction: &Transaction) -> Result<&'static str> {
        let block = self.state != TransactionState::Idle;
        match transaction {
            Transaction::Begin { start, modes } => {
                if block {
                    self.tell(warning(
                        SqlState::ACTIVE_SQL_TRANSACTION,
                        "there is already a transaction in progress",
                    ));
                } else {
                    self.ensure_open()?;
                    self.state = TransactionState::Active;
                    self.set_modes(modes, false)?;
                }
                Ok(if *start { "START TRANSACTION" } else { "BEGIN" })
            }
            Transaction::Commit { chain } | Transaction::Rollback { chain } => {
                let commit = matches!(transaction, Transaction::Commit { .. });
                if !block {
                    let message = "there is no transaction in progress";
                    if *chain {
                        let words = if commit { "COMMIT" } else { "ROLLBACK" };
                        let message = format!("{words} AND CHAIN can only be used in transaction blocks");
                        return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
                    }
                    self.tell(warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
                }
                let works = commit && self.state != TransactionState::Failed;
                self.end(works)?;
                if *chain {
                    self.ensure_open()?;
                    self.state = TransactionState::Active;
                }
                Ok(if works { "COMMIT" } else { "ROLLBACK" })
            }
            Transaction::Savepoint(name) => {
                self.require_block(block, "SAVEPOINT")?;
                let mark = self.store.mark();
                let waiting = self.waiting.len();
                self.savepoints.push(Savepoint { name: name.text.clone(), mark, waiting });
                Ok("SAVEPOINT")
            }
            Transaction::Release(name) => {
                self.require_block(block, "RELEASE SAVEPOINT")?;
                let at = self.savepoint(name)?;
                self.savepoints.truncate(at);
                Ok("RELEASE")
            }
            Transaction::RollbackTo(name) => {
                self.require_block(block, "ROLLBACK TO SAVEPOINT")?;
                let at = self.savepoint(name)?;
                let (mark, waiting) = (self.savepoints[at].mark, self.savepoints[at].waiting);
                self.store.undo_to(mark)?;
                self.waiting.truncate(waiting);
                self.savepoints.truncate(at + 1);
                self.state = TransactionState::Active;
                Ok("ROLLBACK")
            }
            Transaction::Prepared(name) => Err(SqlError::unsupported(name)),
        }
    }

    fn require_block(&self, block: bool, what: &str) -> Result<()> {
        if block {
            return Ok(());
        }
        let message = format!("{what} can only be used in transaction blocks");
        Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message))
    }

    fn savepoint(&self, name: &Ident) -> Result<usize> {
        self.savepoints.iter().rposition(|savepoint| savepoint.name == name.text).ok_or_else(|| {
            let message = format!("savepoint \"{}\" does not exist", name.text);
            SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, message)
        })
    }

    fn set_modes(&mut self, modes: &[TransactionMode], session: bool) -> Result<()> {
        let prefix = if session { "default_transaction" } else { "transaction" };
        let on = |value: bool| if value { "on" } else { "off" };
        let mut variables = self.shared.variables.borrow_mut();
        for mode in modes {
            let (name, value) = match mode {
                TransactionMode::Isolation(level) => ("isolation", *level),
                TransactionMode::ReadOnly(value) => ("read_only", on(*value)),
                TransactionMode::Deferrable(value) => ("deferrable", on(*value)),
            };
            variables.set(&format!("{prefix}_{name}"), value, !session)?;
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &SetValue, local: bool) -> Result<()> {
        if local && self.state == TransactionState::Idle {
            let message = "SET LOCAL can only be used in transaction blocks";
            self.tell(warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
            return Ok(());
        }
        let mut variables = self.shared.variables.borrow_mut();
        match value {
            SetValue::Default => variables.reset(name),
            SetValue::List(list) => {
                let joined = if name.eq_ignore_ascii_case("search_path") {
                    list.iter().map(|part| super::system::quoted(part)).collect::<Vec<_>>().join(", ")
                } else {
                    list.join(", ")
                };
                variables.set(name, &joined, local)
            }
        }
    }

    /// Columns of statements that are not planned, if they return rows.
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
                    };
                    columns.iter().map(column).collect()
                })
            }
            _ => None,
        })
    }

    fn shown_name(&self, name: &str) -> String {
        let variables = self.shared.variables.borrow();
        let known = variables.all().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map_or_else(|| name.to_string(), |(known, _)| known.clone())
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
                sink.row(&ctx, &values)
            })
        })
    }

    fn show(&mut self, name: &str, sink: &mut dyn Sink) -> Result<String> {
        if name == "all" {
            let rows: Vec<Vec<String>> = {
                let variables = self.shared.variables.borrow();
                variables
                    .all()
                    .map(|(name, value)| vec![name.clone(), value.clone(), String::new()])
                    .collect()
            };
            let columns = [text_column("name"), text_column("setting"), text_column("description")];
            self.tell_rows(&columns, &rows, sink)?;
            return Ok("SHOW".to_string());
        }
        let value = self.shared.variables.borrow().get(name)?;
        let column = text_column(&self.shown_name(name));
        self.tell_rows(&[column], &[vec![value]], sink)?;
        Ok("SHOW".to_string())
    }

    fn discard(&mut self, what: &str) -> Result<String> {
        if what == "all" {
            if self.state != TransactionState::Idle {
                let message = "DISCARD ALL cannot run inside a transaction block";
                return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            self.statements.clear();
            self.portals.clear();
            self.shared.variables.borrow_mut().reset_all();
            self.shared.current.borrow_mut().clear();
            *self.shared.last.borrow_mut() = None;
        }
        Ok(format!("DISCARD {}", what.to_uppercase()))
    }

    fn prepare_named(
        &mut self,
        name: &Ident,
        types: &[crate::parse::ast::TypeName],
        statement: &Statement,
        text: &str,
    ) -> Result<()> {
        if self.statements.contains_key(&name.text) {
            let message = format!("prepared statement \"{}\" already exists", name.text);
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        let given = self.with_context(|ctx, path| {
            let binder = crate::bind::Binder::new(ctx, &self.store, path, Vec::new());
            types.iter().map(|ty| binder.resolve_type(ty).map(|ty| ty.oid)).collect::<Result<Vec<_>>>()
        })?;
        let highest = crate::parse::parse(text)?.first().map_or(0, |parsed| parsed.parameters);
        let parsed =
            crate::parse::Parsed { statement: statement.clone(), start: 0, end: 0, parameters: highest };
        let prepared = self.prepare(text, Some(parsed), &given)?;
        self.statements.insert(name.text.clone(), Arc::new(prepared));
        Ok(())
    }

    fn execute_named(
        &mut self,
        name: &Ident,
        args: &[crate::parse::ast::Expr],
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
        let plan = self.plan_of(&prepared)?;
        self.run_plan(&plan, &values, &[], sink)
    }

    /// The value of an expression without columns.
    pub(crate) fn constant(&self, expr: &crate::parse::ast::Expr, ty: Type) -> Result<Value> {
        self.with_context(|ctx, path| {
            let binder = crate::bind::Binder::new(ctx, &self.store, path, Vec::new());
            let typed = binder.expr(&mut Scope::root(), expr)?;
            let (from, pos) = (typed.ty.oid, typed.pos);
            let Some(typed) = binder.coerce(typed, ty, CastContext::Assignment)? else {
                return Err(binder.cannot_cast(from, ty.oid, pos));
            };
            let mut expr: Expr = typed.expr;
            let caches = crate::plan::Planner::plan_expr(&self.store, &mut expr);
            let exec = Exec::new(
                &self.store,
                ctx,
                &[],
                &self.start.interrupt,
                path,
                (caches, binder.next_cte.get()),
            );
            exec.eval(&expr, &super::Env::EMPTY)
        })
    }

    fn deallocate(&mut self, name: Option<&Ident>) -> Result<String> {
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

    fn declare(&mut self, name: &Ident, hold: bool, query: &crate::parse::ast::Query) -> Result<()> {
        if !hold && self.state == TransactionState::Idle {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        if self.portals.contains_key(&name.text) {
            let message = format!("cursor \"{}\" already exists", name.text);
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        self.ensure_open()?;
        let statement = Statement::Query(query.clone());
        let (plan, _) = self.plan(&statement, Vec::new())?;
        let columns = plan.columns().unwrap_or_default().to_vec();
        let (rows, _) = self.rows_of(&plan, &[])?;
        let described = self.described(&columns);
        let prepared = Prepared {
            sql: "".into(),
            statement: Some(statement),
            parameters: Vec::new(),
            columns: Some(described),
            plan: std::sync::Mutex::default(),
        };
        let rows = Some((Arc::new(rows), 0));
        let (parameters, formats) = (Vec::new(), Vec::new());
        let prepared = Arc::new(prepared);
        self.portals.insert(
            name.text.clone(),
            Portal { prepared, parameters, formats, rows, columns, done: false, hold },
        );
        Ok(())
    }

    fn cursor(&mut self, name: &Ident) -> Result<&mut Portal> {
        self.portals.get_mut(&name.text).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{}\" does not exist", name.text))
        })
    }

    /// A cursor's place is before row 0 (0), on row n-1 (n), or behind the last (len + 1).
    fn fetch(
        &mut self,
        name: &Ident,
        count: &FetchCount,
        moved: bool,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let portal = self.cursor(name)?;
        let columns = portal.columns.clone();
        let Some((rows, place)) = &mut portal.rows else {
            return Err(SqlError::unsupported("FETCH from a portal of the protocol"));
        };
        let (len, at) = (rows.len() as i64, *place as i64);
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
            self.with_context(|ctx, _| picked.iter().try_for_each(|at| sink.row(&ctx, &rows[*at as usize])))?;
        }
        Ok(format!("{} {number}", if moved { "MOVE" } else { "FETCH" }))
    }

    fn close(&mut self, name: Option<&Ident>) -> Result<String> {
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
            let made = if self.portals[name].done { Vec::new() } else { self.rows_of(&plan, &parameters)?.0 };
            if let Some(portal) = self.portals.get_mut(name) {
                portal.rows = Some((Arc::new(made), 0));
            }
        }
        let Some((rows, from)) = self.portals[name].rows.clone() else { return Ok(Progress::Complete) };
        let left = rows.len() - from.min(rows.len());
        let count = if max_rows == 0 { left } else { left.min(max_rows as usize) };
        if let Some(columns) = plan.columns() {
            sink.columns(&self.described(columns), Formats(&formats))?;
        }
        self.with_context(|ctx, _| rows[from..from + count].iter().try_for_each(|row| sink.row(&ctx, row)))?;
        if let Some(portal) = self.portals.get_mut(name) {
            portal.rows = Some((rows.clone(), from + count));
        }
        if max_rows > 0 && count == max_rows as usize {
            return Ok(Progress::Suspended);
        }
        sink.command_complete(&plan.tag(count as u64))?;
        Ok(Progress::Complete)
    }

    fn maintain(&mut self, tables: &[crate::parse::ast::Path]) -> Result<()> {
        self.with_context(|ctx, path| {
            let binder = crate::bind::Binder::new(ctx, &self.store, path, Vec::new());
            tables.iter().try_for_each(|table| binder.target_table(table).map(|_| ()))
        })
    }

    fn explain(
        &mut self,
        options: &[(String, String)],
        statement: &Statement,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let analyze = options
            .iter()
            .any(|(name, value)| name == "analyze" && !matches!(value.as_str(), "false" | "off"));
        self.ensure_open()?;
        let (plan, _) = self.plan(statement, Vec::new())?;
        let mut lines = plan.explain();
        if analyze {
            let (_, count) = self.rows_of(&plan, &[])?;
            lines.push(format!("Rows: {count}"));
        }
        if options.iter().any(|(name, value)| name == "format" && value == "json") {
            let quoted: Vec<String> = lines.iter().map(|line| format!("{line:?}")).collect();
            lines = vec![format!("[{{\"Plan\": {{\"Lines\": [{}]}}}}]", quoted.join(", "))];
        }
        let rows: Vec<Vec<String>> = lines.into_iter().map(|line| vec![line]).collect();
        self.tell_rows(&[text_column("QUERY PLAN")], &rows, sink)?;
        Ok("EXPLAIN".to_string())
    }

    /// `BEGIN statements; EXCEPTION WHEN duplicate_object THEN null; END`: what clients send to create
    /// types once.
    fn do_block(&mut self, body: &str, sink: &mut dyn Sink) -> Result<String> {
        let plain = body.trim().trim_end_matches(';').trim();
        let lower = plain.to_ascii_lowercase();
        let (Some(_), true) = (lower.strip_prefix("begin"), lower.ends_with("end")) else {
            return Err(SqlError::unsupported("this form of DO block"));
        };
        let inner = &plain[5..plain.len() - 3];
        let split = inner.to_ascii_lowercase().find("exception");
        let (statements, handler) = split.map_or((inner, None), |at| (&inner[..at], Some(&inner[at..])));
        let handled = handler.map(|text| text.to_ascii_lowercase());
        if handled.as_ref().is_some_and(|text| !text.contains("null")) {
            return Err(SqlError::unsupported("this form of DO block"));
        }
        self.ensure_open()?;
        let mark = self.store.mark();
        for parsed in crate::parse::parse(statements)? {
            let text = &statements[parsed.start as usize..parsed.end as usize];
            let Err(error) = self.run_statement(&parsed.statement, text, sink) else { continue };
            let caught = handled.as_ref().is_some_and(|text| {
                let name = crate::error::CONDITIONS.iter().find(|(_, state)| *state == error.state);
                text.contains("others")
                    || name.is_some_and(|(name, _)| text.contains(&name.to_ascii_lowercase()))
            });
            if !caught {
                return Err(error);
            }
            self.store.undo_to(mark)?;
            break;
        }
        Ok("DO".to_string())
    }
}

impl<'p> Exec<'p> {
    /// Runs a planned statement; the number of rows that it changed, if it changes rows.
    pub(crate) fn run(&self, plan: &'p PlannedStatement, emit: super::Emit<'_>) -> Result<Option<u64>> {
        match &plan.statement {
            BoundStatement::Query(query) => self.run_query(query, None, emit).map(|_| None),
            BoundStatement::Change(change) => self.run_change(change, None, emit).map(Some),
        }
    }
}
