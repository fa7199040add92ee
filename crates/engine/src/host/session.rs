//! One worker's door to its host.

use std::sync::Arc;

use liger_fabric::{Cx, Fabric, HostId, Work};
use liger_pod::bells::Bell;

use super::Host;
use super::transaction::Txn;
use crate::instance::Instance;
use crate::instance::wait_policy::WaitPolicy;
use crate::method::{AnswersMail, Method};
use crate::txn::{Durability, Session, Ticket, TxnError};

/// Spins of a wait for the log that are awake.
const LOG_SPINS: u32 = 16;
/// Who waits for the log looks after it so often even if nobody rings: it may have ended.
const LOG_REST_NS: u64 = 10_000_000;
/// Spins of a wait between two transactions that are awake, and how long the others are.
const AWAKE_SPINS: u32 = 16;
const BETWEEN_NS: u64 = 100_000;
/// Transactions between two rounds of housekeeping.
const TXNS_PER_ROUND: u32 = 64;

/// Runs one worker's transactions, and serves other hosts between them.
pub struct HostSession<'h, F: Fabric, M: Method> {
    pub(super) txn: Txn<'h, F, M>,
    pub(super) course: Course,
}

/// How far a session has come, from one transaction to the next.
#[derive(Clone, Copy, Default)]
pub(super) struct Course {
    /// A transaction has begun and not ended.
    pub(super) open: bool,
    runs: u32,
    pub(super) last: Ticket,
    /// The last transaction has changed something.
    wrote: bool,
    pub(super) durability: Durability,
}

impl Course {
    /// See [`Session::is_durable`].
    pub(super) fn is_durable<F: Fabric>(
        &self,
        cx: &Cx<F>,
        host: &Instance,
        ticket: Ticket,
    ) -> Result<bool, TxnError> {
        let refused = |error| if self.wrote { TxnError::InDoubt } else { error };
        host.is_durable(cx, ticket).map_err(refused)
    }
}

/// See [`HostSession::sleep_for`].
pub(super) fn sleep_for<F: Fabric>(cx: &Cx<F>, host: &Instance, ticket: Ticket) {
    let look = || if host.is_durable(cx, ticket) == Ok(false) { LOG_REST_NS } else { 0 };
    cx.doze(host.bell(Bell::Durable), look);
}

impl<'h, F: Fabric, M: Method> HostSession<'h, F, M> {
    /// The session of the caller's worker.
    pub fn new(cx: &'h Cx<F>, host: &'h Host<M>) -> Self {
        assert_eq!(cx.host(), host.instance.id(), "a worker uses its own host");
        Self { txn: Txn::new(cx, host), course: Course::default() }
    }

    /// Begins a transaction, for callers that cannot be a body of [`Session::attempt`].
    ///
    /// # Errors
    /// [`TxnError::Fenced`] if the host has been ruled out.
    ///
    /// # Panics
    /// If one is open.
    pub fn begin(&mut self) -> Result<(), TxnError> {
        assert!(!self.course.open, "a session runs one transaction at a time");
        let (cx, host) = (self.txn.cx(), self.txn.host);
        host.serve(cx);
        self.course.runs = self.course.runs.wrapping_add(1);
        if self.course.runs.is_multiple_of(TXNS_PER_ROUND) {
            host.housekeep(cx);
        }
        if host.is_fenced() {
            return Err(TxnError::Fenced);
        }
        cx.spend(Work::Transaction, 1);
        self.txn.note_age();
        // Before the first look at who owns what: who takes a partition over waits for this transaction.
        self.txn.running.state.round = host.transactions.begin(self.txn.running.state.me);
        self.course.open = true;
        Ok(())
    }

    /// Begins a transaction that reads what has committed by now, as of one moment, and changes nothing: it
    /// takes no lock, and nobody is in its way or waits for it. While it is open, what it may want to read is
    /// kept; if there is too much of that, or rows come from another host, it may be told that it is too old
    /// ([`TxnError::SnapshotTooOld`]).
    ///
    /// # Errors
    /// [`TxnError::Fenced`] if the host has been ruled out, [`TxnError::Unsuited`] if the pod keeps no log, a
    /// conflict ([`Conflict::Partition`](crate::txn::Conflict::Partition)) while locks of a host that died as
    /// it committed are being resolved, [`TxnError::LogFailed`] or [`TxnError::LogFull`] if a host's log
    /// does not go on, and nobody has read a snapshot for long.
    ///
    /// # Panics
    /// If a transaction is open.
    pub fn begin_snapshot(&mut self) -> Result<(), TxnError> {
        self.begin_snapshot_while(|| true)
    }

    /// As [`HostSession::begin_snapshot`]; `goes_on` is asked while it waits, for other hosts to end their
    /// commits.
    ///
    /// # Errors
    /// The same, and [`TxnError::Rollback`] if it does not go on.
    ///
    /// # Panics
    /// The same.
    pub fn begin_snapshot_while(&mut self, goes_on: impl FnMut() -> bool) -> Result<(), TxnError> {
        assert!(!self.course.open, "a session runs one transaction at a time");
        self.txn.host.serve(self.txn.cx());
        let moment = self.open_moment(goes_on)?;
        self.read_as_of(moment);
        Ok(())
    }

    /// Opens a snapshot, and serves other hosts while it waits.
    pub(super) fn open_moment(&self, mut goes_on: impl FnMut() -> bool) -> Result<u64, TxnError> {
        let (cx, mail) = (self.txn.cx(), self.txn.running.seat.mail);
        self.txn.host.open_snapshot(cx, || {
            mail.serve_waiting(cx);
            cx.pause();
            goes_on()
        })
    }

    /// As [`HostSession::begin_snapshot`], as of the moment that an open transaction of `host` reads as of
    /// ([`Txn::as_of`]): both see the same. False if no transaction of that host reads as of that moment, or
    /// an older one, any more.
    ///
    /// # Errors
    /// [`TxnError::Fenced`] if this host has been ruled out.
    ///
    /// # Panics
    /// If a transaction is open.
    pub fn begin_snapshot_of(&mut self, (host, moment): (HostId, u64)) -> Result<bool, TxnError> {
        assert!(!self.course.open, "a session runs one transaction at a time");
        let (cx, own) = (self.txn.cx(), self.txn.host);
        own.serve(cx);
        let is_there = own.share_snapshot(cx, (host, moment))?;
        if is_there {
            self.read_as_of(moment);
        }
        Ok(is_there)
    }

    fn read_as_of(&mut self, moment: u64) {
        let (cx, host, state) = (self.txn.cx(), self.txn.host, &mut self.txn.running.state);
        cx.spend(Work::Transaction, 1);
        debug_assert!(state.as_of.is_none() && state.core.work.changes.is_empty(), "nothing is open");
        state.as_of = Some(moment);
        state.core.note_as_of(moment);
        state.round = host.transactions.begin_free(state.me);
        self.course.open = true;
    }

    /// Runs a transaction that reads as of one moment, as [`HostSession::begin_snapshot`] has it.
    ///
    /// # Errors
    /// Those of that, and of `body`.
    pub fn read_snapshot<R>(
        &mut self,
        body: impl FnOnce(&mut Txn<'h, F, M>) -> Result<R, TxnError>,
    ) -> Result<R, TxnError> {
        self.begin_snapshot()?;
        self.run(body)
    }

    /// Runs the body of the transaction that has begun, and ends it.
    fn run<R>(
        &mut self,
        body: impl FnOnce(&mut Txn<'h, F, M>) -> Result<R, TxnError>,
    ) -> Result<R, TxnError> {
        match body(&mut self.txn) {
            Ok(result) => self.commit().map(|()| result),
            Err(error) => {
                self.roll_back();
                Err(error)
            }
        }
    }

    fn end(&mut self) {
        self.end_statement();
        self.end_passing(false);
        self.course.open = false;
        let (cx, host, state) = (self.txn.cx(), self.txn.host, &mut self.txn.running.state);
        state.newest = None;
        if let Some(moment) = state.as_of.take() {
            host.close_snapshot(cx, moment);
        }
        host.transactions.end(state.me);
    }

    /// The transaction that is open.
    ///
    /// # Panics
    /// If none is.
    pub fn opened(&mut self) -> &mut Txn<'h, F, M> {
        assert!(self.course.open, "no transaction is open");
        &mut self.txn
    }

    /// Commits the open transaction; as [`Session::attempt`], that is not yet durable on storage.
    ///
    /// # Errors
    /// Those of the engine: nothing has happened then.
    pub fn commit(&mut self) -> Result<(), TxnError> {
        let wrote = self.opened().has_changed();
        let ended = self
            .opened()
            .commit()
            .map(|epoch| (self.course.last, self.course.wrote) = (Ticket(epoch), wrote));
        self.end();
        ended
    }

    /// Undoes the open transaction.
    pub fn roll_back(&mut self) {
        self.opened().abort();
        self.end();
    }

    /// Serves other hosts once; for workers that have nothing to run. Returns the number of messages handled.
    pub fn serve(&mut self) -> usize {
        self.txn.host.attend(self.txn.cx())
    }

    /// Sleeps until a ticket may be durable, but not for long: for workers that no other host waits for,
    /// since others of this host answer.
    pub fn sleep_for(&self, ticket: Ticket) {
        sleep_for(self.txn.cx(), self.txn.host, ticket);
    }

    /// Looks for something to do, and sleeps if there is nothing, until there is mail for this host, somebody
    /// wakes it, or for as long as the look says, in nanoseconds; 0: there is something. See
    /// [`Fabric::doze`].
    pub fn doze(&mut self, mut look: impl FnMut(&mut Self) -> u64) {
        let (cx, bell) = (self.txn.cx(), self.txn.host.bell(Bell::Work));
        cx.doze(bell, || look(self));
    }

    /// For how long nobody misses this host's next turn, if there is no mail, in nanoseconds.
    pub fn idle_ns(&self) -> u64 {
        self.txn.host.idle_ns(self.txn.cx())
    }

    /// How long this transaction and the next ones wait for locks; `None`: as the host's others do.
    pub fn set_wait(&mut self, wait: Option<&'static (dyn WaitPolicy + Sync)>) {
        let state = &mut self.txn.running.state;
        state.wait = wait.unwrap_or(self.txn.host.wait);
        if wait.is_none() {
            state.own_wait = None;
        }
    }

    /// As [`HostSession::set_wait`], by a policy that knows who waits, and before what that says, up to
    /// `set_wait(None)`; `None`: as that says.
    pub fn set_own_wait(&mut self, wait: Option<Arc<dyn WaitPolicy + Send + Sync>>) {
        self.txn.running.state.own_wait = wait;
    }

    /// Rests between two transactions: awake in the first spins of a wait, then really. If its worker is
    /// lent, others have it meanwhile: who waits for what they do must not keep them from it.
    pub fn rest(&mut self, spins: u32) {
        debug_assert!(!self.course.open, "what it holds would keep others waiting");
        match spins < AWAKE_SPINS {
            true => self.pause(),
            false => {
                let running = &mut self.txn.running;
                running.seat.rest_without_worker(&mut running.state, BETWEEN_NS, true);
            }
        }
    }

    /// Says that the host needs what this transaction and the next ones do: on storage that is full they may
    /// use what is kept for such.
    pub fn set_needed(&mut self, is_needed: bool) {
        self.txn.running.state.is_needed = is_needed;
    }

    /// The host's engine.
    pub fn host(&self) -> &'h Host<M> {
        self.txn.host
    }

    /// The number of its transaction, by which others see what it waits for ([`Waits::of`]).
    pub fn number(&self) -> u8 {
        self.txn.running.state.me.index() as u8
    }

    /// The worker's context.
    pub fn cx(&self) -> &'h Cx<F> {
        self.txn.cx()
    }
}

impl<'h, F: Fabric, M: Method> Session for HostSession<'h, F, M> {
    type Txn = Txn<'h, F, M>;

    fn attempt<R>(
        &mut self,
        body: impl FnOnce(&mut Self::Txn) -> Result<R, TxnError>,
    ) -> Result<R, TxnError> {
        self.begin()?;
        self.run(body)
    }

    fn ticket(&self) -> Ticket {
        self.course.last
    }

    fn is_durable(&mut self, ticket: Ticket) -> Result<bool, TxnError> {
        self.course.is_durable(self.txn.cx(), self.txn.host, ticket)
    }

    fn want_durable(&mut self, ticket: Ticket) {
        if let Some(log) = &self.txn.host.log {
            log.want(self.txn.cx(), ticket.0);
        }
    }

    fn durability(&self) -> Durability {
        self.course.durability
    }

    fn set_durability(&mut self, durability: Durability) {
        self.course.durability = durability;
    }

    fn back_off(&mut self, conflicts: u32) {
        let turns = self.txn.cx().random_below(1 << conflicts.min(6));
        for _ in 0..turns {
            self.pause();
        }
    }

    fn pause(&mut self) {
        self.txn.host.serve_waiting(self.txn.cx());
        self.txn.cx().pause();
    }

    fn wait_for(&mut self, ticket: Ticket, spins: u32) {
        let (cx, host) = (self.txn.cx(), self.txn.host);
        host.serve_waiting(cx);
        // Storage takes longer than a processor takes to wake.
        let spins = if spins < LOG_SPINS { spins } else { u32::MAX };
        host.pass(cx, spins, || host.serve_waiting(cx) > 0 || host.is_durable(cx, ticket) != Ok(false));
    }
}
