//! Sessions of a pod: statements run in transactions of their host's workers.
//!
//! A session runs a statement on its own thread. The first one that needs rows begins a transaction
//! ([`Slots`](crate::slots::Slots)), which has a worker of the host for each statement, waits for it
//! if all are busy, and gives it back at the statement's end, or while the statement waits.
//!
//! Invariants:
//! 1. A panic of a statement ends the statement, and its transaction is rolled back.
//! 2. A transaction whose client thinks, or that waits for a lock, for its log, or sleeps, has no worker.
//! 3. A statement that is a transaction by itself is run again after a conflict, for [`RETRY_US`] or
//!    [`RETRIES`] times at most, if nothing of it has been sent to the client.
//! 4. The client is told that a statement is complete after its commit.
//! 5. A session whose client was told of a conflict takes turns with other such sessions of its host
//!    ([`TakesTurns`](crate::slots::TakesTurns)) until some transactions of it have gone well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::advisory::{self, Kept};
use super::engine::{EngineStore, SqlHost};
use super::notify::Point;
use super::session::{LocalSession, Portal};
use super::store::{Snapshots, Store};
use super::system::Surroundings;
use crate::catalog::view::CatalogView;
use crate::error::{Result, SqlError, SqlState, in_characters};
use crate::panics::caught;
use crate::parse::Parsed;
use crate::parse::ast::{Body, Query, Statement, Transaction};
use crate::session::{
    ColumnDescription, Database, Described, Formats, Interrupt, LoginRole, Parameters, Progress, Session,
    SessionStart, Sink, Timeouts, TransactionState, WaitEvent,
};
use crate::slots::Turn;
use crate::storage::access::{is_conflict, is_too_old};
use crate::storage::advisory::{Lock, Mode};
use crate::types::Oid;

/// How long a conflict is retried, and how often at least: a long statement has a second chance, too.
const RETRY_US: i64 = 5_000_000;
const RETRIES: u32 = 3;
/// How many transactions after a conflict take turns, at most: twice as many, and one, after each.
const MAX_PENALTY: u32 = 16;
/// Seconds from 1970 to 2000, in microseconds.
const EPOCH_US: i64 = 946_684_800_000_000;

/// Makes what a session sees of the world besides its database.
type MakeSurroundings = Arc<dyn Fn() -> Box<dyn Surroundings> + Send + Sync>;

/// A host's database.
pub struct EngineDatabase {
    pub(super) host: Arc<SqlHost>,
    surroundings: MakeSurroundings,
}

impl EngineDatabase {
    /// The database of a host whose workers are at work (`Slots::work`); `surroundings` makes what a session
    /// sees of the world besides.
    pub fn new(
        host: Arc<SqlHost>,
        surroundings: impl Fn() -> Box<dyn Surroundings> + Send + Sync + 'static,
    ) -> EngineDatabase {
        EngineDatabase { host, surroundings: Arc::new(surroundings) }
    }

    /// A session that no directory knows.
    pub(super) fn pooled(&self, start: SessionStart) -> Result<PooledSession> {
        let interrupt = start.interrupt.clone();
        let surroundings = (self.surroundings)();
        let store = EngineStore::new(self.host.clone(), start.process_id, interrupt.clone(), surroundings);
        let own = LocalSession::new(store, start, (self.surroundings)())?;
        Ok(PooledSession { host: self.host.clone(), own, interrupt, penalty: 0, turn: None })
    }
}

impl Database for EngineDatabase {
    fn login_role(&self, user: &str) -> Result<Option<LoginRole>> {
        // Whoever has the workers, or is changing the catalog, keeps nobody from logging in.
        self.host.slots.look()?;
        Ok(self.host.catalog.cached().role(user).map(|role| LoginRole {
            verifier: role.verifier.clone(),
            can_login: role.login,
            superuser: role.superuser,
            valid_until_us: role.valid_until.map(|us| us.saturating_add(EPOCH_US)),
            connection_limit: role.connections,
        }))
    }

    fn open(&self, start: SessionStart) -> Result<Box<dyn Session + Send>> {
        let (process_id, server) = (start.process_id, start.server.clone());
        let session = self.pooled(start)?;
        self.host.slots.directory().enter(process_id, &server);
        Ok(Box::new(session))
    }
}

/// A session whose statements run in its host's workers' transactions.
pub(super) struct PooledSession {
    host: Arc<SqlHost>,
    own: LocalSession<EngineStore>,
    interrupt: Arc<Interrupt>,
    /// So many transactions of it, from now on, take turns.
    penalty: u32,
    turn: Option<Turn>,
}

/// Whether a statement needs no rows: it is run without a worker.
fn needs_no_worker(statement: &Statement, portals: &BTreeMap<String, Portal>) -> bool {
    if let Statement::Fetch { name, .. } = statement {
        // A portal of the protocol may have no rows yet.
        return portals.get(&name.text).is_none_or(|portal| portal.rows.is_some());
    }
    if let Statement::Set { name, .. } = statement {
        // What roles there are only a transaction sees for certain.
        return !matches!(&*name.to_ascii_lowercase(), "role" | "session_authorization");
    }
    matches!(
        statement,
        Statement::Transaction(Transaction::Begin { .. })
            | Statement::SetTransaction { .. }
            | Statement::Show(_)
            | Statement::Reset(_)
            | Statement::Deallocate(_)
            | Statement::Close(_)
            | Statement::Unsupported(_)
    ) || matches!(statement, Statement::Discard(what) if !matches!(&**what, "temp" | "temporary"))
}

fn ends(statement: &Statement) -> bool {
    matches!(statement, Statement::Transaction(Transaction::Commit { .. } | Transaction::Rollback { .. }))
}

/// Whether a statement changes the pod's catalog.
fn defines(own: &LocalSession<EngineStore>, statement: &Statement) -> bool {
    if let Statement::Query(Query { body: Body::Select(select), .. }) = statement
        && let Some(into) = &select.into
    {
        return !into.temporary;
    }
    !needs_no_worker(statement, &BTreeMap::new())
        && !own.defines_temporary(statement)
        && !matches!(
            statement,
            Statement::Query(_)
                | Statement::Set { .. }
                | Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Merge(_)
                | Statement::Transaction(_)
                | Statement::SetConstraints { .. }
                | Statement::SetSnapshot(_)
                | Statement::Prepare { .. }
                | Statement::Execute { .. }
                | Statement::Declare { .. }
                | Statement::Copy(_)
                | Statement::Explain { .. }
                | Statement::Listen(_)
                | Statement::Unlisten(_)
                | Statement::Notify(..)
                | Statement::Load(_)
                | Statement::Maintenance(_)
                | Statement::Rebuild(_)
                | Statement::Lock { .. }
                | Statement::Discard(_)
        )
}

impl PooledSession {
    /// The session, with the catalog of its transaction or of its host.
    fn own(&mut self) -> &mut LocalSession<EngineStore> {
        if self.own.state == TransactionState::Idle && !self.own.store.has_begun() {
            self.own.store.refresh();
        }
        &mut self.own
    }

    /// Runs a part of the session that needs rows, and again after conflicts if nobody has been told
    /// anything.
    pub(super) fn with_worker<R>(
        &mut self,
        sink: &mut dyn Sink,
        defines: bool,
        mut body: impl FnMut(&mut LocalSession<EngineStore>, &mut dyn Sink) -> Result<R>,
    ) -> Result<R> {
        let alone = !self.own.store.has_begun() && self.own.state == TransactionState::Idle;
        let (statements, told, state) = (self.own.statements.len(), sink.told(), self.own.state);
        let is_first = !self.own.store.has_begun() && state != TransactionState::Failed;
        // With nothing done before it, and nothing but reads behind it, it can be run again.
        let alone = alone || is_first && self.own.shared.variables.borrow().is_read_only();
        let mut begun = None;
        for conflicts in 0u32.. {
            let before = (self.own.shared.advisory.keep(), self.own.shared.notify.point());
            self.own.is_again = begun.is_some();
            self.own.shared.advisory.may_start_over.set(is_first);
            self.own.store.begin_statement(advisory::timeouts_us(&self.own.shared), is_first);
            let result = self.once(defines, |own| body(own, &mut *sink));
            self.own.shared.advisory.may_start_over.set(false);
            self.own.store.end_statement();
            // What was told of a statement whose commit failed is not true.
            let Err(error) = result else { return result };
            if is_conflict(&error) {
                self.host.slots.observed().count_conflict(&error);
            }
            if is_too_old(&error) {
                self.host.slots.observed().count_too_old();
            }
            if let Some(wanted) = self.own.shared.advisory.wanted.take()
                && sink.unsay(told)
            {
                self.start_over(state, &before);
                self.await_lock(wanted)?;
                continue;
            }
            if let Some(wanted) = self.own.store.take_wanted()
                && sink.unsay(told)
            {
                self.start_over(state, &before);
                self.own.store.wait(wanted).inspect_err(|_| self.own.failed())?;
                continue;
            }
            if self.own.store.take_in_vain() {
                if sink.unsay(told) {
                    begun.get_or_insert(self.own.shared.surroundings.clock_us());
                    self.own.state = state;
                    self.own.shared.advisory.restore(&before.0);
                    self.own.shared.notify.back_to(before.1);
                    continue;
                }
                self.own.store.give_up();
                self.own.store.after_statement();
            }
            let begins_anew = is_conflict(&error) || is_too_old(&error);
            if self.own.store.take_uncommitted() || begins_anew {
                let unsaid = sink.unsay(told);
                let unchanged = self.own.statements.len() == statements;
                let now = self.own.shared.surroundings.clock_us();
                let is_over = now - *begun.get_or_insert(now) > RETRY_US && conflicts >= RETRIES;
                if begins_anew && alone && unsaid && unchanged && !is_over {
                    self.interrupt.check()?;
                    self.back_off(conflicts);
                    self.start_over(state, &before);
                    continue;
                }
            }
            if is_conflict(&error) {
                self.turn = None;
                self.penalty = (2 * self.penalty + 1).min(MAX_PENALTY);
            }
            return Err(error);
        }
        unreachable!("a statement met 2^32 conflicts")
    }

    /// After a statement that has undone itself, all is as before it.
    fn start_over(&mut self, state: TransactionState, (locks, told): &(Kept, Point)) {
        if state == TransactionState::Idle {
            // Its end has closed them.
            self.own.portals.append(&mut self.own.closed);
        } else {
            self.own.store.let_go();
            self.own.state = state;
            self.own.has_asked = false;
        }
        self.own.shared.advisory.restore(locks);
        self.own.shared.notify.back_to(*told);
    }

    /// Waits for an advisory lock, without a worker.
    fn await_lock(&mut self, wanted: (Lock, Mode)) -> Result<()> {
        self.interrupt.show(WaitEvent::Lock);
        let waited = advisory::wait(&self.host, &self.own.shared, wanted);
        self.interrupt.show(WaitEvent::Here);
        waited.inspect_err(|_| self.own.failed())
    }

    /// Gives back its turn, if its transaction is over, and the advisory locks that the session has no more.
    pub(super) fn give_turn_back(&mut self) {
        if !self.own.store.has_begun() {
            self.own.store.give_back();
            if self.turn.take().is_some() {
                self.penalty = self.penalty.saturating_sub(1);
            }
        }
        self.own.shared.advisory.release_uncounted(&self.host, self.own.shared.process_id);
    }

    fn back_off(&self, conflicts: u32) {
        let random = self.own.shared.surroundings.random_u64() % 1000;
        let most = Duration::from_micros(20) * (1 << conflicts.min(8));
        super::sleep::nap(most.mul_f64(random as f64 / 1000.0));
    }

    /// Runs a part of the session that needs rows once.
    fn once<R>(
        &mut self,
        defines: bool,
        body: impl FnOnce(&mut LocalSession<EngineStore>) -> Result<R>,
    ) -> Result<R> {
        let (own, interrupt) = (&mut self.own, &self.interrupt);
        if !own.store.has_begun() {
            let mut goes_on = || interrupt.check();
            let in_turn = match self.penalty > 0 && self.turn.is_none() {
                true => {
                    interrupt.show(WaitEvent::Turn);
                    self.host.slots.observed().count_turn();
                    self.host.slots.turns().take(&mut goes_on).map(|turn| self.turn = Some(turn))
                }
                false => Ok(()),
            };
            interrupt.show(WaitEvent::Queue);
            if let Err(error) = in_turn.and_then(|()| own.store.begin_transaction(defines, &mut goes_on)) {
                interrupt.show(WaitEvent::Here);
                own.failed();
                own.store.give_back();
                return Err(error);
            }
            // Also of a statement that is refused before it asks for rows: the end gives the worker back.
            own.ensure_open()?;
        } else {
            interrupt.show(WaitEvent::Queue);
            let locks = defines && !own.store.reads_snapshot();
            let locked = if locks { own.store.lock_catalog() } else { Ok(()) };
            let begun = locked.and_then(|()| own.store.look_again()).and_then(|()| own.store.go_on());
            begun.inspect_err(|_| {
                interrupt.show(WaitEvent::Here);
                own.failed();
            })?;
        }
        interrupt.show(own.store.number().map_or(WaitEvent::Here, WaitEvent::Running));
        let level = own.shared.variables.borrow().level();
        let ran = caught(|| own.store.set_level(level).and_then(|()| body(own)));
        let result = ran.unwrap_or_else(|_| {
            own.store.give_up();
            own.failed();
            let message = "internal error: see what the server has printed";
            Err(SqlError::new(SqlState::INTERNAL_ERROR, message))
        });
        let is_over = !own.store.has_read_in_vain();
        if own.state == TransactionState::Failed && own.savepoints.is_empty() && is_over {
            // It can only be rolled back: nobody is to wait for its locks.
            own.store.give_up();
        }
        own.store.end_reading();
        own.store.after_statement();
        interrupt.show(WaitEvent::Here);
        result
    }

    fn run_one(&mut self, one: &Parsed, sql: &str, last: bool, sink: &mut dyn Sink) -> Result<()> {
        let own = self.own();
        let free = needs_no_worker(&one.statement, &own.portals);
        let ran = if free || !own.store.has_begun() && ends(&one.statement) {
            own.simple_one(one, sql, last, sink)
        } else {
            let defines = defines(own, &one.statement);
            self.with_worker(sink, defines, |own, sink| own.simple_one(one, sql, last, sink))
        };
        self.give_turn_back();
        ran
    }
}

impl Drop for PooledSession {
    fn drop(&mut self) {
        self.own.store.rollback();
        self.own.shared.advisory.leave(&self.host, self.own.shared.process_id);
        self.own.shared.notify.leave(&self.host, self.own.shared.process_id);
        self.host.slots.directory().leave(self.own.shared.process_id);
    }
}

impl Session for PooledSession {
    fn simple(&mut self, sql: &str, sink: &mut dyn Sink) -> Result<()> {
        let (sql, parsed) = match self.own().parsed(sql) {
            Ok(read) => read,
            Err(error) => {
                self.own().failed();
                return Err(in_characters(error, sql));
            }
        };
        if parsed.is_empty() {
            sink.empty()?;
        }
        let last = parsed.len();
        (1..).zip(&parsed).try_for_each(|(at, one)| {
            if at > 1 {
                sink.next_statement(self.own.timeouts().statement_ms);
            }
            self.run_one(one, &sql, at == last, sink)
        })
    }

    fn parse(&mut self, name: &str, sql: &str, parameter_types: &[Oid]) -> Result<()> {
        let state = self.own.state;
        let free = !self.own.store.has_begun() && state != TransactionState::Failed;
        let first = self.own().parse(name, sql, parameter_types);
        let planned =
            first.is_err() || self.own.statements.get(name).is_some_and(|made| made.kept().is_some());
        if !free || !planned {
            return first;
        }
        // The host's catalog may be older than what another host has committed.
        let before = self.own.store.version();
        if let Err(error) = self.host.slots.look() {
            // What was not prepared has no name: its client will use it again.
            if first.is_ok() {
                self.own.statements.remove(name);
            }
            self.own.failed();
            return Err(error);
        }
        self.own.store.refresh();
        if self.own.store.version() == before {
            return first;
        }
        // A block that has asked for no row yet goes on.
        self.own.state = state;
        if first.is_ok() {
            self.own.statements.remove(name);
        }
        self.own.parse(name, sql, parameter_types)
    }

    fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: Parameters<'_>,
        result_formats: Formats<'_>,
    ) -> Result<()> {
        self.own().bind(portal, statement, parameters, result_formats)
    }

    fn describe_statement(&mut self, name: &str) -> Result<Described<'_>> {
        self.own().describe_statement(name)
    }

    fn describe_portal(&mut self, name: &str) -> Result<Option<(&[ColumnDescription], Formats<'_>)>> {
        self.own().describe_portal(name)
    }

    fn execute(&mut self, portal: &str, max_rows: u32, last: bool, sink: &mut dyn Sink) -> Result<Progress> {
        let own = self.own();
        let none = !own.store.has_begun();
        let statement = own.portals.get(portal).and_then(|portal| portal.prepared.statement.as_ref());
        let free =
            |statement: &Statement| needs_no_worker(statement, &own.portals) || none && ends(statement);
        let ran = if statement.is_none_or(free) {
            own.execute(portal, max_rows, false, sink)
        } else {
            let defines = statement.is_some_and(|statement| defines(own, statement));
            self.with_worker(sink, defines, |own, sink| own.execute(portal, max_rows, last, sink))
        };
        self.give_turn_back();
        ran
    }

    fn close_statement(&mut self, name: &str) -> Result<()> {
        self.own().close_statement(name)
    }

    fn close_portal(&mut self, name: &str) -> Result<()> {
        self.own().close_portal(name)
    }

    fn sync(&mut self) -> Result<()> {
        let ended = self.own().sync();
        self.give_turn_back();
        ended
    }

    fn statement_text(&self, name: &str) -> Option<Arc<str>> {
        self.own.statement_text(name)
    }

    fn fail(&mut self) {
        self.own().failed();
        self.give_turn_back();
    }

    fn transaction_state(&self) -> TransactionState {
        self.own.transaction_state()
    }

    fn changed_parameters(&mut self) -> Vec<(&'static str, String)> {
        self.own.changed_parameters()
    }

    fn timeouts(&self) -> Timeouts {
        self.own.timeouts()
    }
}
