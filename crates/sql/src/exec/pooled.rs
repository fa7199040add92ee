//! Sessions of a pod: statements run on the workers of their host.
//!
//! ```text
//!   the client's thread                         a worker of the host
//!   a statement: the session is parked -------> takes the session, runs the statement in its transaction,
//!   waits, gives answers to the client <------- parks it again; commits or rolls back if that ended it
//! ```
//!
//! A whole statement runs on the worker, with the engine's transaction at hand, because a message for each
//! row would cost more than the row. A statement outside of a transaction block costs one message there and
//! one back, its commit included.
//!
//! Invariants:
//! 1. The session is parked whenever no worker runs it, whatever happens there: also after a panic, and when
//!    the job never ran.
//! 2. A slot is borrowed for the first statement that needs rows, and given back with the transaction's end.
//!    So a block without statements, or whose transaction was rolled back after a conflict, occupies nobody.
//! 3. A statement that is a transaction by itself is run again after a conflict, for [`RETRY_US`] or
//!    [`RETRIES`] times at most, if nothing of it was told to the client.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::engine::{EngineStore, Nowhere, OnWorker, SqlHost};
use super::relay::{Answer, BATCHES, Copied, Relay, Said, deliver, fetch};
use super::session::{LocalSession, in_characters};
use super::system::{SessionSystem, Shared, Surroundings};
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::func::EvalContext;
use crate::panics::caught;
use crate::parse::ast::{Statement, Transaction};
use crate::parse::{Parsed, parse};
use crate::session::{
    ColumnDescription, CopyInput, CopyShape, Database, Described, Formats, Interrupt, LoginRole, Parameters,
    Place as Shown, Progress, Session, SessionStart, Sink, Timeouts, TransactionState,
};
use crate::storage::access::is_conflict;
use crate::storage::slots::{After, Running, Slot};
use crate::types::Oid;
use crate::types::value::Value;

type Parked = LocalSession<EngineStore<Nowhere>>;
type Place = Arc<Mutex<Option<Box<Parked>>>>;

/// How often a waiting session looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);
/// How long a conflict is retried, and how often at least: a long statement has a second chance, too.
const RETRY_US: i64 = 5_000_000;
const RETRIES: u32 = 3;
/// Seconds from 1970 to 2000, in microseconds.
const EPOCH_US: i64 = 946_684_800_000_000;

/// Makes what a session sees of the world besides its database.
type MakeSurroundings = Arc<dyn Fn() -> Box<dyn Surroundings> + Send + Sync>;

/// A host's database.
pub struct EngineDatabase {
    host: Arc<SqlHost>,
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
}

impl Database for EngineDatabase {
    fn login_role(&self, user: &str) -> Result<Option<LoginRole>> {
        let user = user.to_owned();
        self.host.slots.once(false, move |running| {
            Ok(running.catalog.catalog().role(&user).map(|role| LoginRole {
                verifier: role.verifier.clone(),
                can_login: role.login,
                superuser: role.superuser,
                valid_until_us: role.valid_until.map(|us| us.saturating_add(EPOCH_US)),
                connection_limit: role.connections,
            }))
        })
    }

    fn open(&self, start: SessionStart) -> Result<Box<dyn Session + Send>> {
        let replies = Shared::new(&start, (self.surroundings)());
        let interrupt = start.interrupt.clone();
        let store = EngineStore::new(self.host.clone());
        let own = Some(Box::new(LocalSession::new(store, start, (self.surroundings)())?));
        Ok(Box::new(PooledSession { host: self.host.clone(), own, slot: None, replies, interrupt }))
    }
}

fn lock(place: &Place) -> MutexGuard<'_, Option<Box<Parked>>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rests without a task.
fn nap(rest: Duration) {
    // Nobody ever sends.
    let (_sender, nothing) = channel::<()>();
    let _ = nothing.recv_timeout(rest);
}

/// For what has nothing to say.
struct Silent;

impl Sink for Silent {
    fn columns(&mut self, _columns: &[ColumnDescription], _formats: Formats<'_>) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _context: &EvalContext<'_>, _values: &[Value]) -> Result<()> {
        Ok(())
    }

    fn command_complete(&mut self, _tag: &str) -> Result<()> {
        Ok(())
    }

    fn empty(&mut self) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, _notice: &SqlError) -> Result<()> {
        Ok(())
    }

    fn copy_in(&mut self, _shape: &CopyShape) -> Result<()> {
        Ok(())
    }

    fn copy_read(&mut self) -> Result<CopyInput<'_>> {
        Ok(CopyInput::Done)
    }

    fn copy_out(&mut self, _shape: &CopyShape) -> Result<()> {
        Ok(())
    }

    fn copy_bytes(&mut self, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    fn copy_out_done(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A session whose statements run on a host's workers.
struct PooledSession {
    host: Arc<SqlHost>,
    /// The session while no worker runs it.
    own: Option<Box<Parked>>,
    slot: Option<Slot>,
    /// For the output of values.
    replies: Shared,
    interrupt: Arc<Interrupt>,
}

/// Whether a statement needs no rows: it is run without a worker.
fn needs_no_worker(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Transaction(Transaction::Begin { .. })
            | Statement::Set { .. }
            | Statement::SetTransaction { .. }
            | Statement::Show(_)
            | Statement::Reset(_)
            | Statement::Discard(_)
            | Statement::Deallocate(_)
            | Statement::Fetch { .. }
            | Statement::Close(_)
            | Statement::Listen(_)
            | Statement::Unlisten(_)
            | Statement::Notify(..)
            | Statement::Lock { .. }
            | Statement::Unsupported(_)
    )
}

fn ends(statement: &Statement) -> bool {
    matches!(statement, Statement::Transaction(Transaction::Commit { .. } | Transaction::Rollback { .. }))
}

/// Whether a statement changes the catalog.
fn defines(statement: &Statement) -> bool {
    !needs_no_worker(statement)
        && !matches!(
            statement,
            Statement::Query(_)
                | Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Transaction(_)
                | Statement::SetConstraints { .. }
                | Statement::Prepare { .. }
                | Statement::Execute { .. }
                | Statement::Declare { .. }
                | Statement::Copy(_)
                | Statement::Explain { .. }
                | Statement::Maintenance { .. }
                | Statement::Do(_)
        )
}

fn lost() -> SqlError {
    let message = "the session has been lost by an internal error";
    SqlError::notice(Severity::Fatal, SqlState::INTERNAL_ERROR, message)
}

impl PooledSession {
    fn own(&mut self) -> Result<&mut Parked> {
        let own = self.own.as_deref_mut().ok_or_else(lost)?;
        if self.slot.is_none() && own.state == TransactionState::Idle {
            own.store.refresh();
        }
        Ok(own)
    }

    /// Runs a part of the session here, without a worker: it must not need rows.
    fn here<R>(&mut self, body: impl FnOnce(&mut Parked) -> Result<R>) -> Result<R> {
        let own = self.own()?;
        let result = body(own);
        let settled = match own.store.take_after() {
            After::Stay => Ok(()),
            After::Commit => self.slot.take().map_or(Ok(()), Slot::commit),
            After::RollBack => {
                self.slot = None;
                Ok(())
            }
        };
        result.and_then(|made| settled.map(|()| made))
    }

    /// Takes note of an error.
    fn give_up(&mut self) {
        // It only fails for a session that is lost.
        let _ = self.here(|own| {
            own.failed();
            Ok(())
        });
    }

    /// Runs a part of the session on a worker, and again after conflicts if nobody has been told anything.
    fn away<R: Send + 'static>(
        &mut self,
        sink: &mut dyn Sink,
        defines: bool,
        body: impl for<'s> Fn(&mut LocalSession<EngineStore<OnWorker<'s>>>, &mut dyn Sink) -> Result<R>
        + Clone
        + Send
        + 'static,
    ) -> Result<R> {
        let begun = self.replies.surroundings.clock_us();
        for conflicts in 0u32.. {
            let alone = self.slot.is_none() && self.own()?.state == TransactionState::Idle;
            let statements = self.own()?.statements.len();
            let mut told = false;
            let error = match self.once(sink, &mut told, defines, body.clone()) {
                Err(error) if is_conflict(&error) && alone && !told => error,
                result => return result,
            };
            let unchanged = self.own()?.statements.len() == statements;
            let is_over = self.replies.surroundings.clock_us() - begun > RETRY_US;
            if !unchanged || is_over && conflicts >= RETRIES {
                return Err(error);
            }
            self.interrupt.check()?;
            let random = self.replies.surroundings.random_u64() % 1000;
            let most = Duration::from_micros(20) * (1 << conflicts.min(8));
            nap(most.mul_f64(random as f64 / 1000.0));
        }
        unreachable!("a statement met 2^32 conflicts")
    }

    /// Runs a part of the session on a worker once.
    fn once<R: Send + 'static>(
        &mut self,
        sink: &mut dyn Sink,
        told: &mut bool,
        defines: bool,
        body: impl for<'s> FnOnce(&mut LocalSession<EngineStore<OnWorker<'s>>>, &mut dyn Sink) -> Result<R>
        + Send
        + 'static,
    ) -> Result<R> {
        let own = self.own()?;
        let (look, catalog) = (own.look(), own.store.catalog());
        self.interrupt.show(Shown::Queue);
        let mut slot = self.slot.take().map_or_else(|| self.host.slots.begin(defines), Ok)?;
        let place: Place = Arc::new(Mutex::new(self.own.take()));
        let (to, said) = sync_channel::<Said<R>>(BATCHES);
        let (copy_to, copied) = channel();
        let taken = place.clone();
        if let Err(error) = slot.turn(move |running| work(running, &taken, Relay::new(to, copied), body)) {
            self.own = lock(&place).take();
            self.note_failure()?;
            return Err(error);
        }
        let view = EngineStore::of(self.host.clone(), catalog);
        let path = &look.search_path;
        let (statements, portals) = (BTreeMap::new(), BTreeMap::new());
        let system = SessionSystem {
            store: &view,
            shared: &self.replies,
            search_path: path,
            statements: &statements,
            portals: &portals,
        };
        let ctx = EvalContext::new(&look.settings, &system, 0);
        let mut listener = Listener { ctx, sink, copy_to, told, failed: None };
        let heard = match listener.listen(&said, &place, &self.interrupt) {
            Heard::GivenUp(parked, error) => {
                self.own = Some(parked);
                Err(error)
            }
            Heard::NotRun => {
                let error = slot.turned().err().unwrap_or_else(lost);
                self.own = lock(&place).take();
                Err(error)
            }
            Heard::Ended(answers, result, after) => {
                self.interrupt.show(Shown::Log);
                let turned = slot.turned();
                self.own = lock(&place).take();
                if after == After::Stay {
                    self.slot = Some(slot);
                }
                // The answers of a statement whose commit failed are not true.
                turned.and_then(|()| {
                    if !result.as_ref().is_err_and(is_conflict) {
                        listener.give(answers);
                    }
                    listener.failed.map_or(result, Err)
                })
            }
        };
        self.interrupt.show(Shown::Here);
        if let Err(error) = &heard
            && self.slot.is_none()
        {
            if is_conflict(error) {
                self.host.slots.observed().count_conflict(error);
            }
            self.note_failure()?;
        }
        heard
    }

    /// Where no worker has run a statement, or its commit has failed, the session does not know it yet.
    fn note_failure(&mut self) -> Result<()> {
        let own = self.own.as_deref_mut().ok_or_else(lost)?;
        if own.state == TransactionState::Active {
            own.state = TransactionState::Failed;
            own.store.give_up();
        } else if own.state == TransactionState::Idle && own.open {
            own.failed();
            own.store.take_after();
        }
        Ok(())
    }

    fn run_one(&mut self, one: Parsed, sql: &Arc<str>, last: bool, sink: &mut dyn Sink) -> Result<()> {
        let ends_here = last && self.own()?.state == TransactionState::Idle;
        let none = self.slot.is_none();
        if needs_no_worker(&one.statement) && (none || !ends_here) || none && ends(&one.statement) {
            return self.here(|own| own.simple_one(&one, sql, last, sink));
        }
        let (defines, sql) = (defines(&one.statement), sql.clone());
        self.away(sink, defines, move |session, sink| session.simple_one(&one, &sql, last, sink))
    }
}

/// What a worker does with a session.
fn work<R>(
    running: &mut Running<'_>,
    place: &Place,
    mut relay: Relay<R>,
    body: impl for<'s> FnOnce(&mut LocalSession<EngineStore<OnWorker<'s>>>, &mut dyn Sink) -> Result<R>,
) -> After {
    // Its client may have stopped waiting.
    let Some(session) = lock(place).take() else { return After::RollBack };
    let Running { tx, catalog, undo, host } = running;
    session.start.interrupt.show(Shown::Worker(tx.worker()));
    let running = Running { tx: &mut **tx, catalog, undo, host };
    let mut session = (*session).with_store(|store| store.run(running));
    let result = caught(|| body(&mut session, &mut relay));
    let result = result.unwrap_or_else(|_| {
        session.store.give_up();
        session.failed();
        Err(SqlError::new(SqlState::INTERNAL_ERROR, "internal error: see what the server has printed"))
    });
    let after = session.store.after();
    *lock(place) = Some(Box::new(session.with_store(EngineStore::park)));
    relay.end(result, after);
    after
}

/// The client's thread while a worker runs its statement.
struct Listener<'l> {
    ctx: EvalContext<'l>,
    sink: &'l mut dyn Sink,
    copy_to: Sender<Copied>,
    told: &'l mut bool,
    failed: Option<SqlError>,
}

/// What came of a job.
enum Heard<R> {
    Ended(Vec<Answer>, Result<R>, After),
    /// Its transaction has not begun.
    NotRun,
    /// No worker was free until the session was told to stop.
    GivenUp(Box<Parked>, SqlError),
}

impl Listener<'_> {
    fn give(&mut self, answers: Vec<Answer>) {
        *self.told |= !answers.is_empty();
        if self.failed.is_none() {
            self.failed = deliver(answers, &self.ctx, self.sink).err();
        }
    }

    /// Listens to the end.
    fn listen<R>(&mut self, said: &Receiver<Said<R>>, place: &Place, interrupt: &Interrupt) -> Heard<R> {
        loop {
            match said.recv_timeout(LOOK) {
                Ok(Said::Ended(answers, result, after)) => return Heard::Ended(answers, result, after),
                Ok(Said::Answers(answers)) => self.give(answers),
                Ok(Said::Wanted(answers)) => {
                    self.give(answers);
                    *self.told = true;
                    match &self.failed {
                        Some(error) => _ = self.copy_to.send(Copied::Lost(error.clone())),
                        None => self.failed = fetch(self.sink, &self.copy_to).err(),
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Heard::NotRun,
                Err(RecvTimeoutError::Timeout) => {
                    // A statement that runs looks by itself.
                    let Some(reason) = interrupt.raised() else { continue };
                    if let Some(parked) = lock(place).take() {
                        return Heard::GivenUp(parked, reason.error());
                    }
                }
            }
        }
    }
}

impl Session for PooledSession {
    fn simple(&mut self, sql: &str, sink: &mut dyn Sink) -> Result<()> {
        let parsed = match parse(sql) {
            Ok(parsed) => parsed,
            Err(error) => {
                self.give_up();
                return Err(in_characters(error, sql));
            }
        };
        if parsed.is_empty() {
            sink.empty()?;
        }
        let (text, count): (Arc<str>, usize) = (sql.into(), parsed.len());
        let mut all = parsed.into_iter().enumerate();
        all.try_for_each(|(at, one)| self.run_one(one, &text, at + 1 == count, sink))
    }

    fn parse(&mut self, name: &str, sql: &str, parameter_types: &[Oid]) -> Result<()> {
        let state = self.own()?.state;
        let free = self.slot.is_none() && state != TransactionState::Failed;
        let first = self.here(|own| own.parse(name, sql, parameter_types));
        if first.is_ok() || !free {
            return first;
        }
        // The host's catalog may be an old one. A block that has asked for no row yet goes on.
        self.own()?.state = state;
        let (name, sql, types) = (name.to_owned(), sql.to_owned(), parameter_types.to_vec());
        self.away(&mut Silent, false, move |session, _| session.parse(&name, &sql, &types))
    }

    fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: Parameters<'_>,
        result_formats: Formats<'_>,
    ) -> Result<()> {
        self.here(|own| own.bind(portal, statement, parameters, result_formats))
    }

    fn describe_statement(&mut self, name: &str) -> Result<Described<'_>> {
        if let Err(error) = self.own()?.prepared(name) {
            self.give_up();
            return Err(error);
        }
        self.own()?.describe_statement(name)
    }

    fn describe_portal(&mut self, name: &str) -> Result<Option<(&[ColumnDescription], Formats<'_>)>> {
        if !self.own()?.portals.contains_key(name) {
            return self.here(|own| own.describe_portal(name).map(|_| None));
        }
        self.own()?.describe_portal(name)
    }

    fn execute(&mut self, portal: &str, max_rows: u32, last: bool, sink: &mut dyn Sink) -> Result<Progress> {
        let none = self.slot.is_none();
        let own = self.own()?;
        let statement = own.portals.get(portal).and_then(|portal| portal.prepared.statement.as_ref());
        let here = statement.is_none_or(|statement| needs_no_worker(statement) || none && ends(statement));
        if here {
            return self.here(|own| own.execute(portal, max_rows, false, sink));
        }
        let defines = statement.is_some_and(defines);
        let (portals, name) = (own.portals.clone(), portal.to_owned());
        self.away(sink, defines, move |session, sink| {
            // A conflict has closed them.
            session.portals = portals.clone();
            session.execute(&name, max_rows, last, sink)
        })
    }

    fn close_statement(&mut self, name: &str) -> Result<()> {
        self.here(|own| own.close_statement(name))
    }

    fn close_portal(&mut self, name: &str) -> Result<()> {
        self.here(|own| own.close_portal(name))
    }

    fn sync(&mut self) -> Result<()> {
        if self.slot.is_some() && self.own()?.state == TransactionState::Idle {
            return self.away(&mut Silent, false, |session, _| session.sync());
        }
        self.here(|own| own.sync())
    }

    fn statement_text(&self, name: &str) -> Option<Arc<str>> {
        self.own.as_ref()?.statement_text(name)
    }

    fn fail(&mut self) {
        self.give_up();
    }

    fn transaction_state(&self) -> TransactionState {
        self.own.as_ref().map_or(TransactionState::Idle, |own| own.transaction_state())
    }

    fn changed_parameters(&mut self) -> Vec<(&'static str, String)> {
        self.own.as_mut().map_or_else(Vec::new, |own| own.changed_parameters())
    }

    fn timeouts(&self) -> Timeouts {
        self.own.as_ref().map_or_else(Timeouts::default, |own| own.timeouts())
    }
}
