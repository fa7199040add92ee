//! Statements of a slot's transaction that read as of when they began, and how it waits for rows.

use std::sync::Arc;

use liger_engine::row::policy::WaitPolicy;

use super::Slot;
use crate::error::Result;

impl Slot {
    /// How the transaction waits for rows that others hold; `None`: as the host's others do. False if the pod
    /// keeps no log, or one has failed: then statements have no snapshots of their own, and it waits so.
    ///
    /// # Errors
    /// 57P01 if the host ends.
    pub fn set_wait(&self, wait: Option<Arc<dyn WaitPolicy + Send + Sync>>) -> Result<bool> {
        self.in_room(|room| room.set_wait(wait))
    }

    /// A statement begins: reads that ask for it ([`Reads::Statement`](crate::storage::access::Reads)) are as
    /// of now, to the statement's end. `first`: the transaction changes no row that others change since now.
    /// False if the pod keeps no log, or one has failed. `goes_on` is asked now and then while it waits.
    ///
    /// # Errors
    /// Those of `goes_on`; conflicts, and those of the engine.
    pub fn begin_statement(&self, first: bool, goes_on: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
        self.in_room(|room| room.begin_statement(first, goes_on))
    }

    /// The statement is over; nothing if none has begun.
    ///
    /// # Errors
    /// 57P01 if the host ends.
    pub fn end_statement(&self) -> Result<()> {
        self.in_room(|room| room.end_statement())
    }

    /// What is read from now on is locked together, and given back by [`Slot::end_passing`]. Nothing is
    /// changed meanwhile, and no statement begins.
    ///
    /// # Errors
    /// 57P01 if the host ends.
    pub fn begin_passing(&self) -> Result<()> {
        self.in_room(|room| room.begin_passing())
    }

    /// What was read in passing is given back; nothing if nothing is.
    ///
    /// # Errors
    /// 57P01 if the host ends.
    pub fn end_passing(&self) -> Result<()> {
        self.in_room(|room| room.end_passing())
    }

    /// The transaction goes on after a conflict, which was no more than somebody's lock.
    ///
    /// # Errors
    /// 57P01 if the host ends.
    pub fn forgive(&self) -> Result<()> {
        self.in_room(|room| room.forgive())
    }
}
