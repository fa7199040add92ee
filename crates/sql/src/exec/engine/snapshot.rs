//! Transactions that read a snapshot: what has committed when they begin, as of one moment
//! (docs/protocols/snapshots.md).
//!
//! Invariants:
//! 1. The picture of the catalog is that of the moment, and stays: nothing that the transaction uses is held
//!    or waited for, whoever changes it meanwhile.
//! 2. It changes no row of the pod: what others are to hear of it goes in a transaction of its own.

use super::EngineStore;
use crate::error::{Result, SqlError, SqlState};
use crate::exec::store::{IsolationLevel, Snapshots};
use crate::slots::{Bell, Exported};
use crate::storage::notices::{self, Notice};

impl Snapshots for EngineStore {
    fn usual_isolation(&self) -> IsolationLevel {
        self.host.isolation
    }

    fn isolation(&self) -> IsolationLevel {
        self.level()
    }

    fn begin_reading(&self) -> Result<()> {
        EngineStore::begin_reading(self)
    }

    fn read_with_locks(&self, is_alone: bool) -> Result<bool> {
        EngineStore::read_with_locks(self, is_alone)
    }

    fn read_snapshot(&self) -> Result<()> {
        if self.as_of_one.get() || !self.has_begun() || self.has_done() {
            return Ok(());
        }
        self.begin_snapshot(None)
    }

    fn reads_snapshot(&self) -> bool {
        self.as_of_one.get()
    }

    fn export_snapshot(&self) -> Result<Option<String>> {
        let slot = self.slot.borrow();
        let exported = slot.as_ref().map_or(Ok(None), |slot| {
            slot.go_on(&mut || self.holding.interrupt.check())?;
            slot.exported()
        })?;
        Ok(exported.map(|it| format!("{:016X}-{:X}", it.moment, it.host)))
    }

    fn import_snapshot(&self, name: &str) -> Result<()> {
        let parts = name.split_once('-').filter(|(moment, host)| moment.len() == 16 && host.len() <= 2);
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let read = parts.and_then(|(at, host)| Some((number(at)?, u8::try_from(number(host)?).ok()?)));
        let Some((moment, host)) = read else {
            let message = format!("invalid snapshot identifier: \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        };
        if self.has_done() {
            let message = "SET TRANSACTION SNAPSHOT must be called before LOCK TABLE";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        self.begin_snapshot(Some(Exported { host, moment }))?;
        if self.as_of_one.get() {
            return Ok(());
        }
        let hint = "Snapshots need logs that work: see liger status.";
        Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT in a pod whose logs do not go on", hint))
    }
}

impl EngineStore {
    fn begin_snapshot(&self, of: Option<Exported>) -> Result<()> {
        let slot = self.slot.borrow();
        let slot = slot.as_ref().expect("it has begun");
        let goes_on = &mut || self.holding.interrupt.check();
        let reads = slot.read_snapshot(of, goes_on).inspect_err(|_| self.broken.set(true))?;
        if reads {
            self.holding.uses_nothing();
        }
        self.as_of_one.set(reads);
        Ok(())
    }

    /// The transaction has changed the catalog, or locked a table.
    fn has_done(&self) -> bool {
        self.changes.get() > 0 || self.holding.has_locks()
    }

    /// Refuses what a transaction that reads a snapshot cannot do.
    pub(super) fn refuse_in_snapshot(&self, what: &str) -> Result<()> {
        if !self.as_of_one.get() {
            return Ok(());
        }
        let message = format!("cannot {what} in a read-only transaction behind its first query");
        let hint = "Say LOCK TABLE before the first query, or begin the transaction with READ WRITE.";
        Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message).hint(hint))
    }

    /// Leaves notifications for all who listen; whether there is anybody.
    pub(super) fn put_notices(&self, notices: &[Notice]) -> Result<bool> {
        if self.as_of_one.get() {
            // The commit that follows cannot fail.
            let notices = notices.to_vec();
            return self.host.slots.beside(Some(Bell::Notices), move |running| {
                notices::put(running.tx, running.host.classes(), running.host.numbers(), &notices)
            });
        }
        let put = self.step(|tx, _, host| notices::put(tx, host.classes(), host.numbers(), notices))?;
        self.rings.set(put.then_some(Bell::Notices));
        Ok(put)
    }
}
