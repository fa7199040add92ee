//! Isolation levels over the engine (docs/protocols/isolation.md).
//!
//! * SERIALIZABLE: what is read is locked to the end.
//! * REPEATABLE READ: what is read is as of the first statement, and a row that others have changed since
//!   then cannot be changed (40001).
//! * READ COMMITTED: what is read is as of when its statement began. A row that a statement is to change is
//!   found so, locked, and looked at again: whether it is still one of those that were asked for.
//!
//! In the last two who reads waits for nobody; who changes a row that somebody holds waits until that one's
//! transaction has ended, for as long as `lock_timeout` permits.
//!
//! Invariants:
//! 1. A statement that reads more than one row has all of it as of one moment. One row alone may be read as
//!    it is now.
//! 2. What constraints are checked by is locked, whatever the level (`Purpose::Hold`).
//! 3. A transaction that has met a lock in vain is as it was before the step, unless it is broken.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::row_waits::{InVain, RowWaits};
use super::{EngineStore, SqlHost};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::store::{Found, IsolationLevel, Purpose};
use crate::session::Interrupt;
use crate::slots::Slot;
use crate::storage::access::{Reads, is_conflict};
use crate::storage::private::is_private;
use crate::types::Oid;

/// What a session's transaction is isolated by.
pub(super) struct Isolation {
    level: Cell<IsolationLevel>,
    /// A statement has begun in the engine.
    begun: Cell<bool>,
    /// The statement locks what it reads, and does not wait: it is all of its transaction, or gives it back.
    locks: Cell<bool>,
    /// What the transaction used before, if it gives it back; and whether it has met somebody.
    passing: RefCell<Option<BTreeSet<Oid>>>,
    in_vain: Cell<bool>,
    waits: Arc<RowWaits>,
}

impl Isolation {
    pub(super) fn new(host: Arc<SqlHost>, process_id: i32, interrupt: Arc<Interrupt>) -> Isolation {
        let waits = Arc::new(RowWaits::new(host, process_id, interrupt));
        let level = Cell::new(IsolationLevel::Serializable);
        let (begun, locks) = (Cell::new(false), Cell::new(false));
        Isolation { level, begun, locks, passing: RefCell::default(), in_vain: Cell::new(false), waits }
    }

    /// The transaction is over. For how long the session had better begin none.
    pub(super) fn end(&self) -> Duration {
        self.level.set(IsolationLevel::Serializable);
        self.begun.set(false);
        self.locks.set(false);
        self.passing.take();
        self.waits.end()
    }

    fn be_patient(&self) {
        self.locks.set(false);
        self.waits.be_impatient(false);
    }

    /// Whether statements have snapshots of their own, or the transaction has one.
    fn is_weak(&self) -> bool {
        self.level.get() != IsolationLevel::Serializable
    }
}

impl EngineStore {
    /// Before a statement, in a transaction that has begun: at which level it is.
    pub(crate) fn set_level(&self, level: IsolationLevel) -> Result<()> {
        let isolation = &self.isolation;
        isolation.in_vain.set(false);
        if level != IsolationLevel::Serializable {
            isolation.waits.begin(self.holding.timeouts_us(), self.holding.clock_us());
        }
        if level == isolation.level.get() || isolation.begun.get() || self.as_of_one.get() {
            return Ok(());
        }
        let slot = self.slot.borrow();
        let slot = slot.as_ref().expect("it has begun");
        let own = (level != IsolationLevel::Serializable).then(|| isolation.waits.clone() as _);
        let has_snapshots = slot.set_wait(own)?;
        isolation.level.set(if has_snapshots { level } else { IsolationLevel::Serializable });
        Ok(())
    }

    /// After a statement: what it has read by is given up, unless the whole transaction reads by it.
    pub(crate) fn end_reading(&self) {
        let isolation = &self.isolation;
        isolation.be_patient();
        if let Some(used) = isolation.passing.take() {
            if let Some(slot) = &*self.slot.borrow() {
                let _ = slot.end_passing();
            }
            self.holding.uses_only(used);
        }
        if isolation.level.get() != IsolationLevel::ReadCommitted || !isolation.begun.replace(false) {
            return;
        }
        if let Some(slot) = &*self.slot.borrow() {
            // A host that ends rolls everything back.
            let _ = slot.end_statement();
        }
    }

    /// What is read from here on is as of now; nothing if that holds already, or the level knows no such
    /// thing.
    pub(super) fn begin_reading(&self) -> Result<()> {
        let isolation = &self.isolation;
        if isolation.begun.get() || !isolation.is_weak() || self.as_of_one.get() {
            return Ok(());
        }
        let slot = self.slot.borrow();
        let Some(slot) = slot.as_ref() else { return Ok(()) };
        let first = isolation.level.get() == IsolationLevel::RepeatableRead;
        let begun = slot.begin_statement(first, &mut || self.holding.interrupt.check());
        if begun.inspect_err(|error| self.broken.set(self.broken.get() || is_conflict(error)))? {
            isolation.begun.set(true);
            return Ok(());
        }
        let message = "a host's log does not go on, and statements cannot read what has committed";
        let hint = "Begin the transaction at ISOLATION LEVEL SERIALIZABLE, which locks what it reads.";
        Err(SqlError::new(SqlState::IO_ERROR, message).hint(hint))
    }

    /// The statement reads little: that is cheaper with locks, which it gives back if it is not all of its
    /// transaction; and if it meets somebody it is run again without. False if it cannot.
    pub(super) fn read_with_locks(&self, is_alone: bool) -> Result<bool> {
        let isolation = &self.isolation;
        let committed = isolation.level.get() == IsolationLevel::ReadCommitted;
        if isolation.begun.get() || !isolation.is_weak() || !is_alone && !committed || self.as_of_one.get() {
            return Ok(false);
        }
        if !is_alone {
            self.slot.borrow().as_ref().map_or(Ok(()), Slot::begin_passing)?;
            isolation.passing.replace(Some(self.holding.used()));
        }
        isolation.locks.set(true);
        isolation.waits.be_impatient(true);
        Ok(true)
    }

    /// Whether the statement has met somebody as it read in passing, and may be run again without locks.
    pub(crate) fn take_in_vain(&self) -> bool {
        self.isolation.in_vain.take()
    }

    /// Whether that is so, and it has not been asked yet.
    pub(crate) fn has_read_in_vain(&self) -> bool {
        self.isolation.in_vain.get()
    }

    pub(super) fn level(&self) -> IsolationLevel {
        self.isolation.level.get()
    }

    /// How rows are read.
    pub(super) fn reads_for(&self, table: Oid, purpose: Purpose, is_point: bool) -> Result<Reads> {
        let isolation = &self.isolation;
        let as_ever = purpose != Purpose::Read || !isolation.is_weak() || self.as_of_one.get();
        if as_ever || is_private(table) || isolation.locks.get() {
            return Ok(Reads::Locked);
        }
        if is_point && !isolation.begun.get() && isolation.level.get() == IsolationLevel::ReadCommitted {
            return Ok(Reads::Glance);
        }
        self.begin_reading().map(|()| Reads::Statement)
    }

    /// Whether rows to be changed are found without locks, and locked then.
    pub(super) fn locks_found(&self, table: Oid, is_point: bool, waits: bool) -> bool {
        if is_private(table) || self.as_of_one.get() {
            return false;
        }
        match self.isolation.level.get() {
            IsolationLevel::Serializable => false,
            IsolationLevel::RepeatableRead => true,
            IsolationLevel::ReadCommitted => !is_point || !waits,
        }
    }

    /// Locks a row that was found so, as it is now; `None`: it is gone.
    pub(super) fn lock_found(&self, table: Oid, row: &Found, waits: bool) -> Result<Option<Found>> {
        let rows = self.rows(table)?;
        let waiting = &self.isolation.waits;
        waiting.be_impatient(!waits);
        let locked = self.step(|tx, _, _| rows.lock(tx, &row.key));
        waiting.be_impatient(false);
        let locked = locked?;
        if locked.is_none() && self.isolation.level.get() == IsolationLevel::RepeatableRead {
            let message = "could not serialize access due to concurrent delete";
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message));
        }
        Ok(locked)
    }

    /// What a step came to. After a conflict the transaction is broken, unless it was no more than a wait
    /// that has ended.
    pub(super) fn note_step<R>(&self, slot: &Slot, result: Result<R>) -> Result<R> {
        let isolation = &self.isolation;
        let Err(error) = result else { return result };
        let in_vain = isolation.waits.take_in_vain().filter(|_| isolation.is_weak());
        let Some(why) = in_vain.filter(|_| is_conflict(&error)) else { return self.note(Err(error)) };
        slot.forgive()?;
        Err(match why {
            InVain::Stopped => self.holding.interrupt.check().err().unwrap_or(error),
            InVain::Timeout => {
                let message = "canceling statement due to lock timeout";
                SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message)
            }
            InVain::Deadlock(told) => told,
            InVain::Impatient => {
                isolation.in_vain.set(isolation.passing.borrow().is_some());
                error
            }
            InVain::Newer => error,
        })
    }
}
