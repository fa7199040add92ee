//! Statements of transactions, as a run's recorder checks them.

use liger_engine::TxnError;
use liger_engine::host::HostSession;
use liger_fabric::sim::Sim;

use super::World;
use crate::pod::Kept;
use crate::rows::ITEMS;

/// A statement that has begun.
#[derive(Clone, Copy)]
pub(crate) struct Statement {
    /// Transactions that had committed before.
    before: usize,
    /// Its transaction changes no row that is newer.
    pub is_first_updater: bool,
}

impl<M: Kept> World<M> {
    /// A transaction begins that commits no other value than this.
    ///
    /// # Errors
    /// As [`HostSession::begin`].
    pub fn begin_for(&self, session: &mut HostSession<'_, Sim, M>, value: i64) -> Result<(), TxnError> {
        self.writing.borrow_mut().insert(who(session), value);
        session.begin()
    }

    /// A statement of the open transaction begins.
    ///
    /// # Errors
    /// As [`HostSession::begin_statement_while`].
    pub fn begin_statement(
        &self,
        session: &mut HostSession<'_, Sim, M>,
        goes_on: impl FnMut() -> bool,
    ) -> Result<Statement, TxnError> {
        let before = self.recorder.len();
        session.begin_statement_while(goes_on)?;
        Ok(Statement { before, is_first_updater: false })
    }

    /// The statement is over.
    pub fn end_statement(&self, session: &mut HostSession<'_, Sim, M>, statement: Statement) {
        session.end_statement();
        self.check_statement(session, statement);
    }

    /// The transaction ends, and with it the statement that is open: it commits, if `body` says so.
    ///
    /// # Errors
    /// That of the commit, or what `body` says.
    pub fn end_with_statement(
        &self,
        session: &mut HostSession<'_, Sim, M>,
        (open, value): (Option<Statement>, i64),
        body: Result<(), TxnError>,
    ) -> Result<(), TxnError> {
        let ended = match body {
            Ok(()) => session.commit(),
            Err(error) => {
                session.roll_back();
                Err(error)
            }
        };
        let (host, worker) = who(session);
        if let Some(statement) = open {
            self.check_statement(session, statement);
        }
        if ended.is_ok() {
            let id = self.recorder.last_locked_of(host, worker).expect("it has just committed");
            self.values.borrow_mut().insert(id, value);
            if let Some(statement) = open.filter(|statement| statement.is_first_updater) {
                let read = self.recorder.last_of(host, worker).expect("it has just ended");
                debug_assert!(statement.before as u64 <= read, "what it has read is recorded behind that");
                self.failures.borrow_mut().extend(self.recorder.lost_update((id, read), ITEMS.0));
                self.count((0, 1));
            }
        }
        ended
    }

    /// A statement has ended, whose record is the last one of its worker.
    fn check_statement(&self, session: &HostSession<'_, Sim, M>, statement: Statement) {
        let (host, worker) = who(session);
        let id = self.recorder.last_of(host, worker).expect("it has just ended");
        self.failures.borrow_mut().extend(self.recorder.misses(id, statement.before));
        self.count((1, 0));
    }

    fn count(&self, more: (u64, u64)) {
        let (statements, first_updates) = self.statements.get();
        self.statements.set((statements + more.0, first_updates + more.1));
    }

    /// Something is not as a transaction had made it, or seen it.
    pub fn object(&self, what: String) {
        self.failures.borrow_mut().push(what);
    }
}

/// A session's host and worker.
fn who<M: Kept>(session: &HostSession<'_, Sim, M>) -> (u8, u8) {
    (session.cx().host().0, session.cx().worker().0)
}
