//! Running one statement of a session: over rows, or one that controls the session.
use std::rc::Rc;

use crate::bind::Scope;
use crate::catalog::object::Object;
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::exec::measure::Meter;
use crate::exec::session::LocalSession;
use crate::exec::spill::{Space, TupleStore};
use crate::exec::store::{IsolationLevel, Store};
use crate::exec::{Emit, Env, Exec, Row};
use crate::func::CastContext;
use crate::missing;
use crate::parse::ast::{self, Path, Statement};
use crate::plan::PlannedStatement;
use crate::session::{ColumnDescription, Formats, Sink, TransactionState};
use crate::tree::{BoundStatement, Cte, CteKind, Expr, OutColumn};
use crate::types::value::Value;
use crate::types::{Oid, Type};

impl PlannedStatement {
    /// The columns of its rows, if it returns any.
    pub(crate) fn columns(&self) -> Option<&[OutColumn]> {
        match &self.statement {
            BoundStatement::Query(query) => Some(&query.columns),
            BoundStatement::Change(change) if change.columns().is_empty() => None,
            BoundStatement::Change(change) => Some(change.columns()),
        }
    }

    /// Whether it, or a part of its WITH, changes rows.
    fn changes_rows(&self) -> bool {
        let changes = |cte: &Cte| matches!(cte.kind, CteKind::Change(_));
        matches!(self.statement, BoundStatement::Change(_)) || self.statement.ctes().iter().any(changes)
    }

    pub(super) fn tag(&self, count: u64) -> String {
        use crate::tree::Change;
        match &self.statement {
            BoundStatement::Query(_) => format!("SELECT {count}"),
            BoundStatement::Change(Change::Insert(_)) => format!("INSERT 0 {count}"),
            BoundStatement::Change(Change::Update(_)) => format!("UPDATE {count}"),
            BoundStatement::Change(Change::Delete(_)) => format!("DELETE {count}"),
            BoundStatement::Change(Change::Merge(_)) => format!("MERGE {count}"),
        }
    }
}

/// What runs in no transaction block, by the name that PostgreSQL gives it.
fn alone(statement: &Statement) -> Option<&'static str> {
    use ast::ObjectKind::{Database, Schema};
    match statement {
        Statement::Maintenance(it) if it.tag == "VACUUM" => Some("VACUUM"),
        Statement::CreateIndex(index) if index.concurrently => Some("CREATE INDEX CONCURRENTLY"),
        Statement::Drop { concurrently: true, .. } => Some("DROP INDEX CONCURRENTLY"),
        Statement::Rebuild(it) if it.tag == "CLUSTER" => it.name.is_none().then_some("CLUSTER"),
        Statement::Rebuild(it) => match it.kind {
            _ if it.system => Some("REINDEX SYSTEM"),
            Schema => Some("REINDEX SCHEMA"),
            Database => Some("REINDEX DATABASE"),
            _ => it.concurrently.then_some("REINDEX CONCURRENTLY"),
        },
        _ => None,
    }
}

pub(crate) fn warning(state: SqlState, message: &str) -> SqlError {
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
        self.refuse_writing(statement)?;
        self.begins_reading(statement)?;
        if let Some(what) = alone(statement).filter(|_| self.state != TransactionState::Idle) {
            let message = format!("{what} cannot run inside a transaction block");
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let tag = |tag: &str| Ok(Some(tag.to_string()));
        match statement {
            Statement::Query(query) => {
                if let ast::Body::Select(select) = &query.body
                    && select.into.is_some()
                {
                    return self.select_into(query).map(Some);
                }
                self.run_rows(statement, sink).map(Some)
            }
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => {
                self.run_rows(statement, sink).map(Some)
            }
            Statement::Transaction(transaction) => {
                self.transaction(transaction).map(|tag| Some(tag.to_string()))
            }
            Statement::Set { local, name, value } => {
                self.set(name, value, *local)?;
                tag("SET")
            }
            Statement::SetTransaction { session, modes } => self.set_modes(modes, *session).and(tag("SET")),
            Statement::SetSnapshot(name) => self.set_snapshot(name).and(tag("SET")),
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
            Statement::Prepare { name, types, statement, .. } => {
                self.prepare_named(name, types, statement, text)?;
                tag("PREPARE")
            }
            Statement::Execute { name, args } => self.execute_named(name, args, sink).map(Some),
            Statement::Deallocate(name) => self.deallocate(name.as_ref()).map(Some),
            Statement::Declare { .. } => {
                self.declare(statement, text)?;
                tag("DECLARE CURSOR")
            }
            Statement::Fetch { name, count, moved } => self.fetch(name, count, *moved, sink).map(Some),
            Statement::Close(name) => self.close(name.as_ref()).map(Some),
            Statement::Explain { options, statement } => self.explain(options, statement, sink).map(Some),
            Statement::Copy(copy) => {
                self.ensure_open()?;
                self.copy(copy, sink).map(Some)
            }
            Statement::Listen(_) | Statement::Notify(..) | Statement::Unlisten(_) => {
                self.ensure_open()?;
                self.listen_or_notify(statement).map(Some)
            }
            Statement::Lock { .. } if self.state == TransactionState::Idle => {
                let message = "LOCK TABLE can only be used in transaction blocks";
                Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message))
            }
            Statement::Lock { tables, mode, nowait } => {
                self.lock_tables(tables, mode, *nowait)?;
                tag("LOCK TABLE")
            }
            Statement::Rebuild(rebuild) => {
                self.rebuild(rebuild)?;
                tag(rebuild.tag)
            }
            Statement::Maintenance(maintenance) => {
                self.maintain(maintenance)?;
                tag(maintenance.tag)
            }
            Statement::Refresh { name, concurrently, with_data } => {
                self.ensure_open()?;
                self.refresh_materialized(name, *concurrently, *with_data)?;
                tag("REFRESH MATERIALIZED VIEW")
            }
            Statement::Load(library) => self.load(library).map(Some),
            Statement::Do(body) => self.do_block(body, sink).map(Some),
            Statement::Unsupported(refusal) => Err(refusal.clone()),
            other => {
                self.ensure_open()?;
                self.define(other).map(Some)
            }
        }
    }

    /// A statement over rows that was not prepared.
    pub(crate) fn run_rows(&mut self, statement: &Statement, sink: &mut dyn Sink) -> Result<String> {
        self.ensure_open()?;
        let (plan, _) = self.plan(statement, Vec::new())?;
        let columns = plan.columns().map(|columns| self.described(columns));
        self.run_plan(&plan, columns.as_deref(), (&[], &[]), sink)
    }

    /// Tells the error that a plan has in its constants, or refuses what the role may not do.
    pub(crate) fn may_run(&self, plan: &PlannedStatement) -> Result<()> {
        plan.failing.clone().map_or(Ok(()), Err)?;
        self.allow(&plan.needs)
    }

    /// Before a statement is planned: a transaction that only reads does so as of one moment, which knows of
    /// nobody who changes what the statement is to use.
    pub(crate) fn begins_reading(&self, statement: &Statement) -> Result<()> {
        let asks_nothing = matches!(
            statement,
            Statement::Lock { .. } | Statement::Transaction(_) | Statement::SetSnapshot(_)
        );
        let reads = !asks_nothing && self.shared.variables.borrow().is_read_only();
        let anew = self.store.isolation() == IsolationLevel::ReadCommitted;
        if reads && !anew { self.store.read_snapshot() } else { Ok(()) }
    }

    /// Before a plan is run: whether it may be. If it is all of its transaction and only reads, it reads as
    /// of one moment where it reads much, or has met somebody's lock: otherwise locks cost less.
    pub(crate) fn asks(&mut self, plan: &PlannedStatement) -> Result<()> {
        self.asks_rows(plan, false).map(|_| ())
    }

    /// The same of a plan whose rows can be kept until all are there (`keeps`); whether they have to be.
    fn asks_rows(&mut self, plan: &PlannedStatement, keeps: bool) -> Result<bool> {
        self.may_run(plan)?;
        let is_alone = !std::mem::replace(&mut self.has_asked, true) && self.is_last;
        if is_alone && (plan.reads_much || plan.only_reads && self.is_again) {
            return self.store.read_snapshot().map(|()| false);
        }
        if self.store.isolation() == IsolationLevel::ReadCommitted && !plan.reads_several {
            return Ok(false);
        }
        let may = plan.only_reads && !plan.reads_much && !self.is_again && (is_alone || keeps);
        if may && self.store.read_with_locks(is_alone)? {
            return Ok(!is_alone);
        }
        self.store.begin_reading().map(|()| false)
    }

    /// Runs a plan; rows and columns go to the sink.
    pub(crate) fn run_plan(
        &mut self,
        plan: &PlannedStatement,
        columns: Option<&[ColumnDescription]>,
        (parameters, formats): (&[Value], &[u8]),
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let passes = self.asks_rows(plan, true)?;
        if let Some(columns) = columns {
            sink.columns(columns, Formats(formats))?;
        }
        let watch = self.watch();
        let (count, waiting) = self.with_context(|ctx, path| {
            let sizes = (plan.caches, plan.ctes);
            let mut exec = Exec::new(&self.store, ctx, parameters, &self.start.interrupt, path, sizes);
            exec.meter = watch.as_ref().and_then(|watch| watch.meter.clone());
            // What changes rows, or may be run again, gives its own when all that it does is done.
            let (mut rows, mut kept, keeps) =
                (0, TupleStore::new(Space::of(&ctx)), passes || plan.changes_rows());
            let mut give = |row: Row| {
                self.shared.advisory.may_start_over.set(false);
                self.give(&ctx, &row, sink)
            };
            let changed = exec.run(plan, &mut |row| {
                rows += 1;
                if keeps { kept.push(row) } else { give(row) }.map(|()| true)
            })?;
            self.start.interrupt.check()?; // a session may have ended itself
            let waiting = exec.check_constraints(&|constraint| self.is_deferred(constraint))?;
            kept.each_owned(|row| give(row).map(|()| true))?;
            Ok((changed.unwrap_or(rows), waiting))
        })?;
        watch.map_or(Ok(()), |watch| self.watched(watch, plan))?;
        self.waiting.extend(waiting);
        self.rows_ran = count;
        Ok(plan.tag(count))
    }

    /// Runs a plan and keeps its rows.
    pub(crate) fn rows_of(
        &mut self,
        plan: &PlannedStatement,
        parameters: &[Value],
    ) -> Result<(TupleStore, u64)> {
        let mut rows = self.with_context(|ctx, _| Ok(TupleStore::new(Space::of(&ctx))))?;
        let watch = self.watch();
        let meter = watch.as_ref().and_then(|watch| watch.meter.clone());
        let changed = self.run_into(plan, parameters, meter, &mut |row| rows.push(row).map(|()| true))?;
        watch.map_or(Ok(()), |watch| self.watched(watch, plan))?;
        let count = changed.unwrap_or(rows.len() as u64);
        Ok((rows, count))
    }

    /// Runs a plan, whose rows do not go to the client; how many rows it changed, if it changes rows.
    pub(crate) fn run_into(
        &mut self,
        plan: &PlannedStatement,
        parameters: &[Value],
        meter: Option<Rc<Meter>>,
        take: Emit<'_>,
    ) -> Result<Option<u64>> {
        self.asks(plan)?;
        let (changed, waiting) = self.with_context(|ctx, path| {
            let sizes = (plan.caches, plan.ctes);
            let mut exec = Exec::new(&self.store, ctx, parameters, &self.start.interrupt, path, sizes);
            exec.meter = meter;
            let changed = exec.run(plan, take)?;
            self.start.interrupt.check()?;
            Ok((changed, exec.check_constraints(&|constraint| self.is_deferred(constraint))?))
        })?;
        self.waiting.extend(waiting);
        Ok(changed)
    }

    pub(super) fn tell(&self, notice: SqlError) {
        self.shared.notices.borrow_mut().push(notice);
    }

    /// The value of an expression without columns.
    pub(crate) fn constant(&self, expr: &ast::Expr, ty: Type) -> Result<Value> {
        self.with_context(|ctx, path| {
            let binder = crate::bind::Binder::new(ctx, &self.store, path, Vec::new());
            let typed = binder.expr(&mut Scope::root(), expr)?;
            let (from, pos) = (typed.ty.oid, typed.pos);
            let Some(typed) = binder.coerce(typed, ty, CastContext::Assignment)? else {
                return Err(binder.cannot_cast(from, ty.oid, pos));
            };
            let mut expr: Expr = typed.expr;
            let caches = crate::plan::Planner::plan_expr(&self.store, ctx, &mut expr);
            let exec = Exec::new(
                &self.store,
                ctx,
                &[],
                &self.start.interrupt,
                path,
                (caches, binder.next_cte.get()),
            );
            exec.eval(&expr, &Env::EMPTY)
        })
    }

    fn listen_or_notify(&self, statement: &Statement) -> Result<String> {
        let notify = &self.shared.notify;
        let tag = match statement {
            Statement::Listen(channel) => {
                notify.listen(&channel.text);
                "LISTEN"
            }
            Statement::Unlisten(channel) => {
                notify.unlisten(channel.as_ref().map(|channel| channel.text.as_str()));
                "UNLISTEN"
            }
            Statement::Notify(channel, payload) => {
                let payload = payload.as_deref().unwrap_or_default();
                notify.notify(self.shared.process_id, &channel.text, payload)?;
                "NOTIFY"
            }
            _ => return Err(SqlError::unsupported("this statement", missing::STATEMENTS)),
        };
        Ok(tag.to_string())
    }

    /// LOCK TABLE: the weaker modes use tables and views, the others keep everybody else out.
    fn lock_tables(&self, paths: &[Path], mode: &str, nowait: bool) -> Result<()> {
        for path in paths {
            while let Some(oid) = self.lockable(path)? {
                if matches!(mode, "access share" | "row share" | "row exclusive") {
                    match self.store.hold(&[oid])? {
                        true => continue,
                        false => break,
                    }
                }
                match self.store.lock(&[oid], nowait) {
                    Err(error) if nowait && error.state == SqlState::LOCK_NOT_AVAILABLE => {
                        let message = format!("could not obtain lock on relation \"{}\"", path.last());
                        return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
                    }
                    locked => locked?,
                }
                break;
            }
        }
        Ok(())
    }

    /// What LOCK TABLE names: a table or view; nothing for a system table.
    fn lockable(&self, path: &Path) -> Result<Option<Oid>> {
        match self.find(path)?.as_deref() {
            Some(Object::Table(table)) if table.materialized.is_none() => Ok(Some(table.oid)),
            Some(Object::View(view)) => Ok(Some(view.oid)),
            Some(other) => {
                let message = format!("cannot lock relation \"{}\"", path.last());
                let kinds = match other {
                    Object::Index(_) => "indexes".to_string(),
                    other => format!("{}s", other.kind()),
                };
                let detail = format!("This operation is not supported for {kinds}.");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail(detail))
            }
            None => {
                self.with_binder(|binder| binder.target_table(path)).map(|_| None).map_err(SqlError::nowhere)
            }
        }
    }

    /// `BEGIN statements; EXCEPTION WHEN duplicate_object THEN null; END`: what clients send to create
    /// types once.
    fn do_block(&mut self, body: &str, sink: &mut dyn Sink) -> Result<String> {
        let plain = body.trim().trim_end_matches(';').trim();
        let lower = plain.to_ascii_lowercase();
        let (Some(_), true) = (lower.strip_prefix("begin"), lower.ends_with("end")) else {
            return Err(unknown_block());
        };
        let inner = &plain[5..plain.len() - 3];
        let split = inner.to_ascii_lowercase().find("exception");
        let (statements, handler) = split.map_or((inner, None), |at| (&inner[..at], Some(&inner[at..])));
        let handled = handler.map(|text| text.to_ascii_lowercase());
        if handled.as_ref().is_some_and(|text| !text.contains("null")) {
            return Err(unknown_block());
        }
        self.ensure_open()?;
        self.shared.advisory.may_start_over.set(false);
        let mark = self.store.mark();
        // What is no SQL is PL/pgSQL, which is not there.
        let unknown = |_| unknown_block();
        for parsed in crate::parse::parse(statements).map_err(unknown)? {
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
    pub(crate) fn run(&self, plan: &'p PlannedStatement, emit: Emit<'_>) -> Result<Option<u64>> {
        if plan.remembers {
            self.own.remember();
        }
        let count = match &plan.statement {
            BoundStatement::Query(query) => {
                self.run_query(query, None, emit)?;
                None
            }
            BoundStatement::Change(change) => Some(self.run_change(change, None, emit)?),
        };
        self.finish_with(plan.statement.ctes())?;
        Ok(count)
    }
}

/// PL/pgSQL beyond a block that catches an error.
fn unknown_block() -> SqlError {
    let hint =
        "Send the statements by themselves; of PL/pgSQL there is BEGIN .. EXCEPTION WHEN .. THEN NULL; END.";
    SqlError::unsupported("this form of DO block", hint)
}
