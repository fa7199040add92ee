//! A transaction: strict two-phase locking over what any host keeps, executed and committed by one worker.
//!
//! Invariants:
//! 1. Every row that was read or written, and every gap that was read, is held to the end.
//! 2. Changes are private until the commit: patches and images in this transaction's buffers. Only an
//!    inserted row's place exists before, held alone.
//!
//! How a row is found and held is the method's; commit.rs ends the transaction.

use std::ops::ControlFlow;

use liger_fabric::{Cx, Fabric};

use super::Host;
use crate::catalog::At;
use crate::instance::{WorkerPool, WorkerToken};
use crate::method::{Holds, Method, RowLocation, Running, Seat, TxnState, View};
use crate::protocol::core::TxnCore;
use crate::protocol::relational::{Flow, Relational};
use crate::protocol::workspace::Visitor;
use crate::tables::key::{Key, KeyRange};
use crate::tables::record::{Row, RowMut};
use crate::txn::{Access, Announced, Conflict, MethodId, OF_CHANGES, TableId, TxnError};

/// A running transaction: what it holds, and the worker that runs it now.
pub struct Txn<'h, F: Fabric, M: Method> {
    pub(super) host: &'h Host<M>,
    pub(super) running: Running<'h, F>,
    pub(super) held: Box<M::Held>,
}

impl<'h, F: Fabric, M: Method> Txn<'h, F, M> {
    pub(super) fn new(cx: &'h Cx<F>, host: &'h Host<M>) -> Self {
        let token = Some(WorkerToken::new(cx, &host.instance, cx.worker()));
        let state = Box::new(TxnState::new(cx, &host.instance));
        Self::on(cx, host, (state, Box::default()), (token, None))
    }

    /// A transaction that this worker takes up.
    pub(super) fn on(
        cx: &'h Cx<F>,
        host: &'h Host<M>,
        (state, held): (Box<TxnState>, Box<M::Held>),
        (token, pool): (Option<WorkerToken>, Option<&'h WorkerPool>),
    ) -> Self {
        debug_assert_eq!(cx.host(), host.instance.id(), "a transaction runs on its own host");
        Self { host, running: Running { state, seat: Seat { cx, token, pool, mail: host } }, held }
    }

    #[inline]
    pub(super) fn cx(&self) -> &'h Cx<F> {
        self.running.seat.cx
    }

    /// What the host's method works with.
    #[inline]
    pub(super) fn parts(&mut self) -> (&'h M, (&mut Running<'h, F>, &mut M::Held)) {
        (&self.host.method, (&mut self.running, &mut self.held))
    }

    /// A transaction begins. One that is tried again is as old as it was.
    pub(super) fn note_age(&mut self) {
        let (now_ns, state) = (self.cx(), &mut self.running.state);
        if state.patience().by_age() && !state.was_refused {
            self.host.transactions.ages.begin(state.me, now_ns.now_ns());
        }
        state.was_refused = false;
    }

    /// The transaction takes back what it has done, until this is called with false: that is not refused for
    /// want of memory.
    pub fn undoes(&mut self, begins: bool) {
        debug_assert_ne!(self.running.state.is_undoing, begins, "it begins, and it ends");
        self.running.state.is_undoing = begins;
    }

    /// Whether there may be more changes.
    ///
    /// # Errors
    /// If what is held is about to be given back; those of [`Txn::check_memory`].
    fn check_change(&self) -> Result<(), TxnError> {
        if self.running.state.passing {
            let why = "what is read in passing is given back";
            return Err(TxnError::Unsuited { what: "changes", why });
        }
        self.check_memory()
    }

    /// Makes sure that there is memory for more changes.
    ///
    /// # Errors
    /// If there is none: the transaction can only be ended, or undone.
    fn check_memory(&self) -> Result<(), TxnError> {
        let (state, most) = (&self.running.state, self.host.instance.transaction_bytes);
        let bytes = state.core.work.bytes();
        if bytes <= most || state.is_undoing {
            return Ok(());
        }
        Err(TxnError::OutOfMemory { what: OF_CHANGES, needed_bytes: bytes })
    }

    /// Shows the rows of a range, which lies in one partition, that nobody else is changing.
    ///
    /// # Errors
    /// Of the engine; conflicts only with hosts that come or go, and for want of memory.
    pub fn peek_range(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: &mut dyn FnMut(&Key, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        let relation = self.host.catalog.relation(table)?;
        let Some(at) = relation.at_range(range, self.host.partition_count()) else {
            return Err(TxnError::Conflict(Conflict::Partition));
        };
        let mut see = |key: &Key, row: Row<'_>| visit(key, row.bytes());
        let visitor = &mut Visitor::Read(&mut see);
        let view = self.view_or(View::Free, at, visitor)?;
        let (method, txn) = self.parts();
        method.range(txn, at, range, view, visitor).map(|_| ())
    }

    /// Locks a row for changes and shows it; false if there is none, or somebody else holds it.
    ///
    /// # Errors
    /// As [`Txn::peek_range`].
    pub fn take_if_free(
        &mut self,
        table: TableId,
        key: &Key,
        see: &mut dyn FnMut(&mut RowMut<'_>),
    ) -> Result<bool, TxnError> {
        let mut once = |_: &Key, row: &mut RowMut<'_>| {
            see(row);
            ControlFlow::Break(())
        };
        Ok(self.if_free(table, key, View::Free, &mut Visitor::Write(&mut once))?.unwrap_or(false))
    }

    /// Locks a row for reading and shows it; false if there is none (that is not protected), `None` if
    /// somebody else is changing it.
    ///
    /// # Errors
    /// As [`Txn::peek_range`].
    pub fn get_if_free(
        &mut self,
        table: TableId,
        key: &Key,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>, TxnError> {
        self.see_if_free(table, key, View::Free, see)
    }

    /// Shows the row with this key in this way to who reads; `None` instead of a conflict.
    pub(super) fn see_if_free(
        &mut self,
        table: TableId,
        key: &Key,
        view: View,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>, TxnError> {
        let mut once = |_: &Key, row: Row<'_>| {
            see(row.bytes());
            ControlFlow::Break(())
        };
        self.if_free(table, key, view, &mut Visitor::Read(&mut once))
    }

    /// The moment as of which this transaction reads, if it reads a snapshot.
    pub fn as_of(&self) -> Option<u64> {
        self.running.state.as_of
    }

    /// How this transaction looks at rows.
    #[inline]
    fn view(&self, at: At<'_>, visitor: &Visitor<'_>) -> Result<View, TxnError> {
        self.view_or(View::Locked, at, visitor)
    }

    /// The same, if it does not read as of a moment like this.
    #[inline]
    fn view_or(&self, view: View, at: At<'_>, visitor: &Visitor<'_>) -> Result<View, TxnError> {
        let state = &self.running.state;
        let reads = visitor.access() == Access::Read && view == View::Locked && state.reads_statement;
        match state.as_of.or(state.statement.filter(|_| reads)) {
            None => Ok(view),
            Some(_) if visitor.access() == Access::Update => Err(TxnError::ReadOnly { table: at.table() }),
            Some(_) if at.relation.method != MethodId::ROWS => {
                let why = "a table of another access method than rows keeps no old versions";
                Err(TxnError::Unsuited { what: "snapshots", why })
            }
            Some(moment) => Ok(View::AsOf(moment)),
        }
    }

    /// True if a row with this key is in that partition.
    fn is_its_place(&self, at: At<'_>, key: &Key) -> bool {
        at.relation.partition_of(key, self.host.partition_count()) == at.partition
    }

    /// `None` instead of a conflict with somebody who holds the row.
    fn if_free(
        &mut self,
        table: TableId,
        key: &Key,
        view: View,
        visitor: &mut Visitor<'_>,
    ) -> Result<Option<bool>, TxnError> {
        use Conflict::{Gap, Moved, ReadLocked, WriteLocked};
        let at = self.host.catalog.relation(table)?.at(key, self.host.partition_count());
        let view = self.view_or(view, at, visitor)?;
        let (method, txn) = self.parts();
        match method.point(txn, at, key, view, visitor) {
            Err(TxnError::Conflict(WriteLocked | ReadLocked | Gap | Moved)) => Ok(None),
            shown => {
                let holds = view == View::Free;
                debug_assert!(!holds || shown != Ok(true) || self.held.count() > 0, "what is taken is held");
                shown.map(Some)
            }
        }
    }
}

impl<'h, F: Fabric, M: Method> Relational for Txn<'h, F, M> {
    type Fabric = F;
    type Host = Host<M>;
    type Location = RowLocation;

    fn host<'a>(&self) -> &'a Host<M>
    where
        Self: 'a,
    {
        self.host
    }

    fn core(&mut self) -> (&Cx<F>, &mut TxnCore<RowLocation>) {
        (self.running.seat.cx, &mut self.running.state.core)
    }

    fn announce_rows(&mut self, rows: &[Announced]) {
        let copied = |row: &&Announced| {
            let relation = self.host.catalog.relation(row.table);
            relation.is_ok_and(|relation| relation.replicated && relation.check_key(&row.key).is_ok())
        };
        for row in rows.iter().filter(copied) {
            self.copied(row.table).tree.prefetch(row.key.words());
        }
        let others = self.host.method.load_ahead(self.cx(), rows);
        for row in rows.iter().filter(copied) {
            self.copied(row.table).prefetch_row(&row.key);
        }
        // Who reads as of a moment holds nothing.
        let state = &self.running.state;
        let holds = state.as_of.is_none() && !state.reads_statement;
        if others && holds && self.check_memory().is_ok() {
            let (method, txn) = self.parts();
            method.fetch_ahead(txn, rows);
        }
    }

    fn point_in(&mut self, at: At<'_>, key: &Key, visitor: &mut Visitor<'_>) -> Result<bool, TxnError> {
        debug_assert!(self.is_its_place(at, key), "a key of that partition");
        if visitor.access() == Access::Update {
            self.check_change()?;
        }
        let view = self.view(at, visitor)?;
        if view != View::Locked && self.running.state.as_of.is_none() {
            return self.point_of_statement(at, key, view, visitor);
        }
        let (method, txn) = self.parts();
        method.point(txn, at, key, view, visitor)
    }

    fn range_in(&mut self, at: At<'_>, range: &KeyRange, visitor: &mut Visitor<'_>) -> Flow {
        if visitor.access() == Access::Update {
            self.check_change()?;
        }
        let view = self.view(at, visitor)?;
        if view != View::Locked && self.running.state.as_of.is_none() {
            return self.range_of_statement(at, range, view, visitor);
        }
        let (method, txn) = self.parts();
        method.range(txn, at, range, view, visitor)
    }

    fn insert_in(&mut self, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<bool, TxnError> {
        debug_assert!(self.is_its_place(at, key), "a key of that partition");
        self.check_change()?;
        if self.running.state.as_of.is_some() {
            return Err(TxnError::ReadOnly { table: at.table() });
        }
        let (method, txn) = self.parts();
        method.insert(txn, at, key, bytes)
    }

    fn delete_visited(&mut self, at: At<'_>, key: &Key) -> Result<(), TxnError> {
        let work = &mut self.running.state.core.work;
        let change = &mut work.changes[work.visited];
        assert!(change.table == at.table() && change.key == *key && !change.deleted, "visited last");
        change.deleted = true;
        let place = change.place;
        let (method, txn) = self.parts();
        method.mark_deleted(txn, place);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use liger_fabric::HostId;
    use liger_fabric::native::MemorySpec;
    use liger_pod::plan::PartitionId;

    use super::*;
    use crate::db::{JoinOptions, Pod, PodConfig};
    use crate::tables::record::NewRow;
    use crate::txn::{Session, Transaction};

    crate::table! {
        /// Something to delete.
        pub mod notes: "notes" {
            ID: Int,
        }
        primary key (ID);
    }

    /// Its partition is closed when it was locked, and stays this host's.
    #[test]
    fn a_row_that_is_deleted_in_a_partition_that_was_closed_goes() {
        let config = PodConfig { partitions: 1, ..PodConfig::new(1, 1, 4 << 20, 64 << 20) };
        let pod = Pod::create(&MemorySpec::Memfd, &config, &[notes::schema()]).expect("memory");
        let mut host = pod.join_with(HostId(0), JoinOptions::new(pod.plan())).expect("a sound memory");
        let table = pod.catalog().table_named(notes::NAME).expect("declared above");
        let (key, partition) = (Key::build().i32(7).finish(), PartitionId(0));
        host.alone(|session| {
            let mut row = NewRow::new(notes::ROW_LEN);
            row.set(notes::ID, 7);
            session.transact(|txn| txn.insert(table, &row)).expect("the only one");
            session.begin().expect("a member");
            let txn = session.opened();
            let owners = &txn.host.instance.owners;
            let at = txn.catalog().relation(table).expect("it exists").at(&key, 1);
            let mut see = |_: &Key, _: &mut RowMut<'_>| ControlFlow::Break(());
            assert_eq!(txn.point_in(at, &key, &mut Visitor::Write(&mut see)), Ok(true));
            owners.give(partition);
            txn.delete_visited(at, &key).expect("it was locked");
            owners.reopen(partition);
            session.commit().expect("nobody is in the way");
            let there = session.transact(|txn| txn.get(table, &key, |_| ())).expect("nobody is in the way");
            assert!(there.is_none(), "it was deleted");
        });
    }
}
