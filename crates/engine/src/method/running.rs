//! A transaction that runs, as access methods see it: what it holds whatever it works on, and the worker that
//! runs it now.
//!
//! Invariants:
//! 1. A running transaction has a number that no other one of its host has ([`Holder`]), and its locks name
//!    that: touching a row again finds it held by the caller. Its worker may be another one at each step.
//! 2. Versions (log sequence numbers) are a Lamport clock: a commit takes one above everything it touched.
//! 3. While it waits and its worker is from a pool, somebody else has that worker.

use std::ops::ControlFlow;
use std::sync::Arc;

use liger_fabric::{Cx, Fabric, WorkerId};

use super::RowLocation;
use crate::catalog::Relation;
use crate::instance::wait_policy::{NoWait, WaitPolicy};
use crate::instance::{Holder, Instance, WorkerPool, WorkerToken};
use crate::log::record::{RecordWriter, moment_of};
use crate::protocol::core::TxnCore;
use crate::protocol::workspace::{Visitor, Workspace};
use crate::tables::key::{Key, KeyRange};
use crate::txn::{Access, Conflict, TableId, TxnError};

/// Who looks for a worker to go on with rests so long between two looks.
const REST_NS: u64 = 50_000;

/// What a transaction holds whatever it works on, also while no thread runs it.
pub struct TxnState {
    /// The number that its locks name.
    pub me: Holder,
    /// Its changes, its history, and whether it is over.
    pub core: TxnCore<RowLocation>,
    /// Greatest version seen or made.
    pub llsn: u64,
    /// The transactions of this host that were in the way of the last step, a bit each; 0: nobody, or not
    /// known.
    pub in_the_way: u32,
    /// The name of the row that the last step wanted and somebody has, where that is known.
    pub(crate) wanted: Option<u64>,
    /// The round in which it began.
    pub(crate) round: u64,
    /// It has learnt that some row does not exist.
    pub(crate) saw_absence: bool,
    /// It reads as of this moment, and changes nothing.
    pub(crate) as_of: Option<u64>,
    /// The statement that runs reads as of this moment (host/statement.rs).
    pub(crate) statement: Option<u64>,
    /// What is read now is read so.
    pub(crate) reads_statement: bool,
    /// What it reads now is given back soon.
    pub(crate) passing: bool,
    /// It changes no row whose version is of a later moment than this.
    pub(crate) newest: Option<u64>,
    /// It commits, and keeps the versions that it overwrites.
    pub(crate) keeps: bool,
    /// The record for the log, under construction.
    pub(crate) writer: RecordWriter,
    /// How long it waits for locks, unless it has a policy of its own.
    pub(crate) wait: &'static (dyn WaitPolicy + Sync),
    pub(crate) own_wait: Option<Arc<dyn WaitPolicy + Send + Sync>>,
    /// Now it waits for nobody, whatever these say.
    pub(crate) at_once: bool,
    /// A lock that was not free ended this session's last transaction: the next one is as old as that.
    pub(crate) was_refused: bool,
    /// The host needs what this session's transactions do, also on storage that is full.
    pub(crate) is_needed: bool,
    /// It takes back what it has done.
    pub(crate) is_undoing: bool,
}

impl TxnState {
    pub(crate) fn new<F: Fabric>(cx: &Cx<F>, host: &Instance) -> Self {
        Self {
            me: Holder::of(cx.worker()),
            core: TxnCore::new(cx, host.history()),
            llsn: 0,
            in_the_way: 0,
            wanted: None,
            round: 0,
            saw_absence: false,
            as_of: None,
            statement: None,
            reads_statement: false,
            passing: false,
            newest: None,
            keeps: false,
            writer: RecordWriter::default(),
            wait: host.wait,
            own_wait: None,
            at_once: false,
            was_refused: false,
            is_needed: false,
            is_undoing: false,
        }
    }

    /// How long it waits for locks.
    pub(crate) fn patience(&self) -> &dyn WaitPolicy {
        match &self.own_wait {
            _ if self.at_once => &NoWait,
            Some(own) => &**own,
            None => self.wait,
        }
    }

    /// Bytes that are kept for the next transaction, about.
    pub(crate) fn memory(&self) -> usize {
        self.writer.memory() + self.core.work.memory()
    }

    /// Keeps nothing for the next one.
    pub(crate) fn forget_memory(&mut self) {
        debug_assert!(self.core.work.changes.is_empty(), "a transaction is open");
        (self.writer, self.core.work) = (RecordWriter::default(), Workspace::default());
    }

    /// It has read a key; `None`: there is no such row.
    pub fn note_read(&mut self, table: TableId, key: &Key, version: Option<u64>) {
        // An insert that finds its key taken has read the row, too.
        self.llsn = self.llsn.max(version.unwrap_or(0));
        self.saw_absence |= version.is_none();
        self.core.note_read(table, key, version);
    }

    /// It has visited a range, and found these rows of others in it.
    pub fn note_range(&mut self, table: TableId, range: KeyRange, found: Vec<(Key, u64)>) {
        self.saw_absence = true;
        self.core.note_range(table, range, found);
    }

    /// Shows a held row to the visitor, own changes included. `None`: the transaction has deleted it.
    ///
    /// # Errors
    /// If the visitor changes a key.
    pub fn show<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        (relation, place): (&Relation, RowLocation),
        key: &Key,
        (base, version): (&[u8], u64),
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        self.llsn = self.llsn.max(version);
        if self.newest.is_some() && self.core.work.changes.number(&place).is_none() {
            self.check_newest(cx, version, visitor)?;
        }
        self.core.show(cx, (relation, place), key, (base, version), visitor)
    }

    /// Who reads as of one moment and changes rows is the first to do so since then.
    fn check_newest<F: Fabric>(
        &self,
        cx: &Cx<F>,
        version: u64,
        visitor: &Visitor<'_>,
    ) -> Result<(), TxnError> {
        let Some(newest) = self.newest.filter(|_| visitor.access() == Access::Update) else { return Ok(()) };
        if moment_of(version) > newest && !cx.sabotaged("statement.first-updater") {
            return Err(Conflict::Validation.into());
        }
        Ok(())
    }

    /// As [`TxnState::show`], a row that it has not held for changes before.
    ///
    /// # Errors
    /// If the visitor changes a key.
    pub fn show_first<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        row: (&Relation, RowLocation),
        key: &Key,
        (base, version): (&[u8], u64),
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<ControlFlow<()>>, TxnError> {
        self.llsn = self.llsn.max(version);
        self.check_newest(cx, version, visitor)?;
        self.core.show_first(cx, row, key, (base, version), visitor)
    }
}

/// Answers other hosts for a transaction that waits.
pub trait AnswersMail<F: Fabric> {
    /// A turn of a worker that waits in a transaction, or for its next try: mail, and hosts that join.
    /// However long it waits, nobody may wait for it. Returns the number of messages handled.
    fn serve_waiting(&self, cx: &Cx<F>) -> usize;
}

/// Who runs a transaction now.
pub struct Seat<'h, F: Fabric> {
    /// The thread's way to memory and time.
    pub cx: &'h Cx<F>,
    /// The worker that it runs as, with its ring; none while it waits, if that is from a pool.
    pub(crate) token: Option<WorkerToken>,
    pub(crate) pool: Option<&'h WorkerPool>,
    pub(crate) mail: &'h dyn AnswersMail<F>,
}

impl<F: Fabric> Seat<'_, F> {
    /// Answers other hosts, in the middle of a step. Returns the number of messages handled.
    pub fn serve(&self) -> usize {
        debug_assert!(self.token.is_some(), "a worker answers");
        self.mail.serve_waiting(self.cx)
    }

    pub(crate) fn run_as(&self, state: &mut TxnState, worker: WorkerId) {
        self.cx.run_as(worker);
        state.core.run_by(self.cx.host(), worker);
    }

    /// Rests in the middle of a step, without a latch. If its worker is from a pool others have it meanwhile,
    /// and it goes on as any worker of that; `long`: it has waited so long that others may begin in its
    /// place.
    pub(crate) fn rest_without_worker(&mut self, state: &mut TxnState, rest_ns: u64, long: bool) {
        self.without_worker(state, long, |cx| cx.rest(rest_ns));
    }

    /// Does something that takes a while, as [`Seat::rest_without_worker`] rests.
    pub(crate) fn without_worker<R>(
        &mut self,
        state: &mut TxnState,
        long: bool,
        work: impl FnOnce(&Cx<F>) -> R,
    ) -> R {
        let Some(pool) = self.pool else { return work(self.cx) };
        pool.lay_down(self.token.take().expect("a step has a worker"), long);
        let done = work(self.cx);
        debug_assert!(self.token.is_none(), "who rests has no worker");
        let token = pool.pick_up(long, || self.cx.rest(REST_NS));
        self.run_as(state, token.worker());
        self.token = Some(token);
        done
    }
}

/// A transaction that runs.
pub struct Running<'h, F: Fabric> {
    /// What it holds whatever it works on.
    pub state: Box<TxnState>,
    /// Who runs it now.
    pub seat: Seat<'h, F>,
}
