//! What SQL asks of a transaction, behind a trait object, so that plans and operators are not generic over
//! the memory below.
//!
//! Invariants:
//! 1. A conflict of the engine is the error 40001 (`SERIALIZATION_FAILURE`), and nothing else is: whoever
//!    runs the transaction knows by it that running it again may work.
//! 2. Closures that are given rows do not call the transaction: they may run under a latch.

use std::ops::ControlFlow;

use liger_engine::row::{Census, RowHost, RowSession, RowTxn};
use liger_engine::{
    Announced, Conflict, Key, KeyRange, NewRow, OF_CHANGES, RowMut, SHARED_MEMORY, Session, TableId,
    Transaction, TxnError,
};
use liger_fabric::{Counts, Cx, Fabric};
use liger_pod::membership::members;
use liger_pod::plan::PartitionId;

use crate::error::{Result, Severity, SqlError, SqlState};

/// What a worker has done to shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// By itself.
    pub counts: Counts,
    /// Messages to owners of rows, each of which was answered.
    pub requests: u64,
    /// How often it waited for answers: many may come at once.
    pub waits: u64,
}

impl Traffic {
    /// What has been done since `earlier`.
    pub fn since(&self, earlier: &Traffic) -> Traffic {
        Traffic {
            counts: self.counts.since(&earlier.counts),
            requests: self.requests - earlier.requests,
            waits: self.waits - earlier.waits,
        }
    }

    /// Both together.
    pub fn plus(&self, other: &Traffic) -> Traffic {
        Traffic {
            counts: self.counts.plus(&other.counts),
            requests: self.requests + other.requests,
            waits: self.waits + other.waits,
        }
    }
}

/// How a transaction's reads are protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// What is read is locked to the transaction's end.
    #[default]
    Locked,
    /// As of when the statement began, and what the transaction has changed itself; nothing is locked.
    Statement,
    /// One row as it is now, nothing being locked afterwards; a conflict, at once, if somebody is changing
    /// it, or for whatever is read behind it.
    Glance,
}

/// A running transaction.
pub trait Access {
    /// How it reads from now on, to the end of a step.
    fn set_reads(&mut self, reads: Reads);

    /// Places (partitions) in the pod.
    fn places(&self) -> u16;

    /// Whether rows of a place are in this host's own memory.
    fn is_own(&self, place: u16) -> bool;

    /// This host's number.
    fn host(&self) -> u8;

    /// Whether a host is a member of the pod: one that died is until it has been ruled out.
    fn is_member(&self, host: u8) -> bool;

    /// The transaction takes back what it has done, until this is called with false: that is not refused for
    /// want of memory.
    fn undoes(&mut self, begins: bool);

    /// 64 random bits.
    fn random(&self) -> u64;

    /// Nanoseconds of a clock that only this host has.
    fn now_ns(&self) -> u64;

    /// The worker's number on its host.
    fn worker(&self) -> u8;

    /// How many rows of a range this host has in a place; none where another host has that.
    fn census(&self, table: TableId, place: u16, range: &KeyRange) -> Census;

    /// What its worker has done to shared memory since it began to work.
    fn traffic(&self) -> Traffic;

    /// Whether a step is to be left out (mutation tests).
    fn is_left_out(&self, step: &'static str) -> bool;

    /// The key that the engine makes of a row of this table.
    ///
    /// # Panics
    /// If there is no such table.
    fn key_of(&self, table: TableId, row: &[u8]) -> Key;

    /// Says which rows will be touched soon, and how; a hint.
    fn announce(&mut self, rows: &[Announced]);

    /// Shows the row with this key; false if there is none.
    ///
    /// # Errors
    /// Conflicts, and what is wrong with the engine; so do all that follow.
    fn get(&mut self, table: TableId, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Locks the row with this key for changes, and changes it; false if there is none.
    fn update(&mut self, table: TableId, key: &Key, change: &mut dyn FnMut(&mut RowMut<'_>)) -> Result<bool>;

    /// Locks the row with this key for changes and shows it; false if there is none, or somebody else holds
    /// it.
    fn take_if_free(
        &mut self,
        table: TableId,
        key: &Key,
        see: &mut dyn FnMut(&mut RowMut<'_>),
    ) -> Result<bool>;

    /// Locks the row with this key for reading and shows it; false if there is none, which is not protected,
    /// and `None` if somebody else is changing it.
    fn get_if_free(&mut self, table: TableId, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<Option<bool>>;

    /// Shows the rows of a range in one place that nobody else is changing, in key order until `see` breaks,
    /// and holds none of them.
    fn peek(
        &mut self,
        table: TableId,
        range: &KeyRange,
        see: &mut dyn FnMut(&Key, &[u8]) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Whether the transaction itself has changed, made or removed the row with this key.
    fn changes_row(&mut self, table: TableId, key: &Key) -> bool;

    /// Puts a new row; false if there is one with its key.
    fn insert(&mut self, table: TableId, row: &NewRow) -> Result<bool>;

    /// Removes the row with this key; false if there is none.
    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool>;

    /// Shows the rows of a range in key order until `see` breaks.
    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        see: &mut dyn FnMut(&Key, &[u8]) -> ControlFlow<()>,
    ) -> Result<()>;
}

/// What a transaction over another one, its field `$below`, does not change.
macro_rules! passes_on {
    ($below:ident) => {
        fn set_reads(&mut self, reads: $crate::storage::access::Reads) {
            self.$below.set_reads(reads);
        }

        fn changes_row(&mut self, table: liger_engine::TableId, key: &liger_engine::Key) -> bool {
            self.$below.changes_row(table, key)
        }

        fn places(&self) -> u16 {
            self.$below.places()
        }

        fn is_own(&self, place: u16) -> bool {
            self.$below.is_own(place)
        }

        fn host(&self) -> u8 {
            self.$below.host()
        }

        fn is_member(&self, host: u8) -> bool {
            self.$below.is_member(host)
        }

        fn undoes(&mut self, begins: bool) {
            self.$below.undoes(begins);
        }

        fn random(&self) -> u64 {
            self.$below.random()
        }

        fn now_ns(&self) -> u64 {
            self.$below.now_ns()
        }

        fn worker(&self) -> u8 {
            self.$below.worker()
        }

        fn traffic(&self) -> $crate::storage::access::Traffic {
            self.$below.traffic()
        }

        fn is_left_out(&self, step: &'static str) -> bool {
            self.$below.is_left_out(step)
        }

        fn key_of(&self, table: liger_engine::TableId, row: &[u8]) -> liger_engine::Key {
            self.$below.key_of(table, row)
        }
    };
}
pub(super) use passes_on;

/// A transaction of the row engine.
pub struct RowAccess<'a, 'h, F: Fabric> {
    txn: &'a mut RowTxn<'h, F>,
    host: &'h RowHost,
    cx: &'h Cx<F>,
    /// How many rows it may still glance at.
    glances: Option<u32>,
}

impl<'a, 'h, F: Fabric> RowAccess<'a, 'h, F> {
    /// A transaction of a session of this host and context.
    pub fn new(txn: &'a mut RowTxn<'h, F>, host: &'h RowHost, cx: &'h Cx<F>) -> Self {
        Self { txn, host, cx, glances: None }
    }
}

impl<F: Fabric> Drop for RowAccess<'_, '_, F> {
    fn drop(&mut self) {
        self.txn.set_reads_statement(false);
    }
}

impl<F: Fabric> Access for RowAccess<'_, '_, F> {
    fn set_reads(&mut self, reads: Reads) {
        self.glances = (reads == Reads::Glance).then_some(1);
        self.txn.set_reads_statement(reads == Reads::Statement);
    }

    fn places(&self) -> u16 {
        self.host.partition_count()
    }

    fn is_own(&self, place: u16) -> bool {
        self.host.owner(PartitionId(place)) == self.host.id()
    }

    fn host(&self) -> u8 {
        self.host.id().0
    }

    fn is_member(&self, host: u8) -> bool {
        members(self.cx, self.host.plan()) & 1u16.checked_shl(host.into()).unwrap_or(0) != 0
    }

    fn undoes(&mut self, begins: bool) {
        self.txn.undoes(begins);
    }

    fn random(&self) -> u64 {
        self.cx.random()
    }

    fn now_ns(&self) -> u64 {
        self.cx.now_ns()
    }

    fn worker(&self) -> u8 {
        self.cx.worker().0
    }

    fn census(&self, table: TableId, place: u16, range: &KeyRange) -> Census {
        self.host.rows().census(self.cx, table, PartitionId(place), range)
    }

    fn traffic(&self) -> Traffic {
        let (requests, waits) = self.host.rows().requests_of(self.cx);
        Traffic { counts: self.cx.counts(), requests, waits }
    }

    fn is_left_out(&self, step: &'static str) -> bool {
        self.cx.sabotaged(step)
    }

    fn key_of(&self, table: TableId, row: &[u8]) -> Key {
        let relation = self.host.catalog().relation(table).expect("a table of the pod");
        relation.table().expect("a table of the pod").0.primary.key_of(row)
    }

    fn announce(&mut self, rows: &[Announced]) {
        self.txn.announce(rows);
    }

    fn get(&mut self, table: TableId, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Some(left) = self.glances else {
            return Ok(self.txn.get(table, key, |row| see(row.bytes()))?.is_some());
        };
        self.glances = Some(0);
        let seen = if left > 0 { self.txn.glance(table, key, see)? } else { None };
        seen.ok_or(TxnError::Conflict(Conflict::WriteLocked).into())
    }

    fn update(&mut self, table: TableId, key: &Key, change: &mut dyn FnMut(&mut RowMut<'_>)) -> Result<bool> {
        Ok(self.txn.update(table, key, |row| change(row))?.is_some())
    }

    fn take_if_free(
        &mut self,
        table: TableId,
        key: &Key,
        see: &mut dyn FnMut(&mut RowMut<'_>),
    ) -> Result<bool> {
        Ok(self.txn.take_if_free(table, key, see)?)
    }

    fn get_if_free(&mut self, table: TableId, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<Option<bool>> {
        Ok(self.txn.get_if_free(table, key, see)?)
    }

    fn peek(
        &mut self,
        table: TableId,
        range: &KeyRange,
        see: &mut dyn FnMut(&Key, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        Ok(self.txn.peek_range(table, range, see)?)
    }

    fn changes_row(&mut self, table: TableId, key: &Key) -> bool {
        self.txn.changes_row(table, key)
    }

    fn insert(&mut self, table: TableId, row: &NewRow) -> Result<bool> {
        match self.txn.insert(table, row) {
            Ok(()) => Ok(true),
            Err(TxnError::DuplicateKey { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool> {
        Ok(self.txn.delete(table, key)?)
    }

    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        see: &mut dyn FnMut(&Key, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.glances.is_some() {
            return Err(TxnError::Conflict(Conflict::WriteLocked).into());
        }
        Ok(self.txn.scan(table, range, |key, row| see(key, row.bytes()))?)
    }
}

/// What helps where shared memory is full.
const LESS_SHARED: &str = "A transaction keeps the rows of other hosts that it uses in shared memory until \
                           it ends. Use fewer at once, or give the pod more memory (liger grow).";

impl From<TxnError> for SqlError {
    fn from(error: TxnError) -> SqlError {
        let state = match error {
            TxnError::Conflict(why) => {
                let message = "could not serialize access due to concurrent update";
                let conflict =
                    SqlError::new(SqlState::SERIALIZATION_FAILURE, message).detail(error.to_string());
                return if why == Conflict::Memory { conflict.hint(LESS_SHARED) } else { conflict };
            }
            TxnError::OutOfMemory { what: OF_CHANGES, .. } => {
                let hint = "Commit more often, or give transactions of a host more (liger up \
                            --transaction-memory). What a savepoint takes back counts until the end.";
                return SqlError::new(SqlState::OUT_OF_MEMORY, error.to_string()).hint(hint);
            }
            TxnError::OutOfMemory { what: SHARED_MEMORY, .. } => {
                return SqlError::new(SqlState::OUT_OF_MEMORY, error.to_string()).hint(LESS_SHARED);
            }
            TxnError::OutOfMemory { .. } => SqlState::OUT_OF_MEMORY,
            TxnError::Fenced => {
                return SqlError::notice(Severity::Fatal, SqlState::ADMIN_SHUTDOWN, error.to_string());
            }
            TxnError::Damaged { .. } => SqlState::DATA_CORRUPTED,
            TxnError::TooLarge { .. } => SqlState::PROGRAM_LIMIT_EXCEEDED,
            TxnError::LogFailed => {
                let hint = "Reads go on until the host is ended. Look at liger status for what its storage \
                            says, and start it again on storage that works.";
                return SqlError::new(SqlState::IO_ERROR, error.to_string()).hint(hint);
            }
            TxnError::LogFull { .. } => {
                let hint = "Nothing was changed, reads go on. Make room: writes go on by themselves then. \
                            Transactions that delete more rows than they insert may still have room.";
                return SqlError::new(SqlState::DISK_FULL, error.to_string()).hint(hint);
            }
            TxnError::SnapshotTooOld => {
                let hint = "What it shows is not kept any more: too much was changed since it began, or rows \
                            have come from another host. Run the transaction again.";
                return SqlError::new(SqlState::SNAPSHOT_TOO_OLD, error.to_string()).hint(hint);
            }
            TxnError::InDoubt => {
                let hint = "Look for what it has changed before you run it again, when writes work again.";
                return SqlError::new(SqlState::STATEMENT_COMPLETION_UNKNOWN, error.to_string()).hint(hint);
            }
            _ => SqlState::INTERNAL_ERROR,
        };
        SqlError::new(state, error.to_string())
    }
}

/// Whether what a transaction read as of its beginning is not kept any more.
pub fn is_too_old(error: &SqlError) -> bool {
    error.state == SqlState::SNAPSHOT_TOO_OLD
}

/// Whether running the transaction again may work.
pub fn is_conflict(error: &SqlError) -> bool {
    error.state == SqlState::SERIALIZATION_FAILURE
}

/// Runs a transaction once: commits when `body` returns `Ok`, otherwise undoes everything.
///
/// # Errors
/// Those of `body`, and of the commit.
pub fn attempt<'h, F: Fabric, R>(
    session: &mut RowSession<'h, F>,
    body: impl FnOnce(&mut RowAccess<'_, 'h, F>) -> Result<R>,
) -> Result<R> {
    let (host, cx, mut failed) = (session.host(), session.cx(), None);
    let ended = session.attempt(|txn| {
        body(&mut RowAccess::new(txn, host, cx)).map_err(|error| {
            failed = Some(error);
            TxnError::Rollback
        })
    });
    ended.map_err(|error| failed.unwrap_or_else(|| error.into()))
}

/// Runs a transaction until it meets no conflict, and returns once it is as durable as the session says.
///
/// # Errors
/// Those of `body` other than conflicts, and of the engine.
pub fn transact<'h, F: Fabric, R>(
    session: &mut RowSession<'h, F>,
    mut body: impl FnMut(&mut RowAccess<'_, 'h, F>) -> Result<R>,
) -> Result<R> {
    for conflicts in 1u32.. {
        match attempt(session, &mut body) {
            Err(error) if is_conflict(&error) => session.back_off(conflicts),
            Ok(result) => {
                session.wait_durable()?;
                return Ok(result);
            }
            ended => return ended,
        }
    }
    unreachable!("a transaction met 2^32 conflicts")
}
