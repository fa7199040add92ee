//! Statements of a transaction that each read as of a moment of their own: what had committed when they
//! began, and what the transaction itself has changed (docs/protocols/isolation.md).
//!
//! While a statement runs, reads that ask for it ([`Txn::set_reads_statement`]) lock nothing and wait for
//! nobody. Whatever changes rows locks them as ever, waits for who holds them, and is shown their newest
//! version; so is what reads and does not ask. READ COMMITTED is a statement for each statement. Who keeps
//! one for the whole transaction and changes no row that is newer (`first_updater_wins`) has snapshot
//! isolation.
//!
//! Who reads little may do so *in passing* instead: all of it is locked while it reads, and given back then.
//!
//! Invariants:
//! 1. A statement's moment is over when it begins to read, and told to those that drop old versions until it
//!    ends, also if the transaction ends first.
//! 2. What a transaction has changed it holds for writing; so its own version of a row is found by a locked
//!    read, which meets nobody. Rows that it has locked and not changed are read as others'.
//! 3. The statement's record has what is read as of its moment, and nothing else; what is locked meanwhile is
//!    in the transaction's.

use std::ops::ControlFlow;

use liger_fabric::Fabric;

use super::session::HostSession;
use super::transaction::Txn;
use crate::catalog::At;
use crate::method::{Holds, Method, View};
use crate::protocol::relational::Flow;
use crate::protocol::workspace::Visitor;
use crate::tables::key::{Key, KeyRange};
use crate::tables::record::Row;
use crate::txn::{TableId, TxnError};

/// Names of the steps that a mutation test can leave out of statements.
pub(super) const SABOTAGE_STEPS: &[&str] = &[
    "statement.see-own-changes",
    "statement.skip-own-removed",
    "statement.first-updater",
    "statement.tell-to-its-end",
];

/// Changed rows that are looked up before the others between them are read.
const OWN_AT_ONCE: usize = 128;

/// A changed row as its transaction sees it; `None`: it has removed it.
type Own = (Key, Option<Vec<u8>>);

impl<F: Fabric, M: Method> HostSession<'_, F, M> {
    /// A statement of the open transaction begins: what asks for it reads what has committed by now, from
    /// here to [`HostSession::end_statement`]. `goes_on` is asked while it waits for others to end their
    /// commits.
    ///
    /// # Errors
    /// As [`HostSession::begin_snapshot_while`]; the transaction is as it was.
    ///
    /// # Panics
    /// If a statement has begun, or the transaction reads a snapshot.
    pub fn begin_statement_while(&mut self, goes_on: impl FnMut() -> bool) -> Result<(), TxnError> {
        assert!(self.opened().running.state.as_of.is_none(), "it reads a snapshot");
        assert!(self.txn.running.state.statement.is_none(), "one statement at a time");
        let moment = self.open_moment(goes_on)?;
        let (cx, host) = (self.txn.cx(), self.txn.host);
        let state = &mut self.txn.running.state;
        debug_assert!(!state.reads_statement && !state.core.is_apart(), "what is read is locked at first");
        state.statement = Some(moment);
        state.core.begin_apart(Some(moment));
        if cx.sabotaged("statement.tell-to-its-end") {
            host.close_snapshot(cx, moment);
        }
        Ok(())
    }

    /// The statement is over; nothing if none has begun.
    pub fn end_statement(&mut self) {
        let (cx, host, state) = (self.txn.cx(), self.txn.host, &mut self.txn.running.state);
        let Some(moment) = state.statement.take() else { return };
        state.reads_statement = false;
        if let (Some(record), Some(history)) = (state.core.end_apart(), host.history()) {
            history.committed(&record);
        }
        if !cx.sabotaged("statement.tell-to-its-end") {
            host.close_snapshot(cx, moment);
        }
    }

    /// The open transaction reads in passing, up to [`HostSession::end_passing`]: all that it reads meanwhile
    /// is locked, and so of one moment, and is given back then. Meanwhile it changes nothing
    /// ([`TxnError::Unsuited`]). It is cheaper than a statement for who reads little, and meets the locks of
    /// others.
    ///
    /// # Panics
    /// If a statement has begun, or it reads in passing already.
    pub fn begin_passing(&mut self) {
        let txn = self.opened();
        assert!(!txn.running.state.passing && !txn.has_statement(), "one at a time");
        txn.held.begin_passing();
        let state = &mut txn.running.state;
        state.passing = true;
        state.core.begin_apart(None);
        state.core.set_apart(true);
    }

    /// What was read in passing is given back; nothing if nothing is. `counts`: the caller uses what it has
    /// read.
    pub fn end_passing(&mut self, counts: bool) {
        let (history, state) = (self.txn.host.history(), &mut self.txn.running.state);
        if !std::mem::take(&mut state.passing) {
            return;
        }
        if let (Some(record), Some(history), true) = (state.core.end_apart(), history, counts) {
            history.committed(&record);
        }
        let (method, txn) = self.txn.parts();
        method.end_passing(txn);
    }

    /// From now on the transaction changes no row that others have changed since its statement began: whoever
    /// tries meets a conflict ([`Conflict::Validation`](crate::txn::Conflict::Validation)).
    ///
    /// # Panics
    /// If no statement has begun.
    pub fn first_updater_wins(&mut self) {
        let state = &mut self.txn.running.state;
        assert!(state.statement.is_some(), "since when, a statement says");
        state.newest = state.statement;
    }
}

impl<F: Fabric, M: Method> Txn<'_, F, M> {
    /// Whether a statement has begun.
    pub fn has_statement(&self) -> bool {
        self.running.state.statement.is_some()
    }

    /// From now on what is read is read as of the statement's moment, or locked again.
    ///
    /// # Panics
    /// If it is to be, and no statement has begun.
    pub fn set_reads_statement(&mut self, reads: bool) {
        let state = &mut self.running.state;
        assert!(!reads || state.statement.is_some(), "a statement has begun");
        state.reads_statement = reads;
    }

    /// Shows the row with this key to who looks at nothing else: as it is now, or as this transaction has it;
    /// nothing is locked for it afterwards. False if there is none, `None` if somebody else is changing it.
    ///
    /// # Errors
    /// As [`Txn::peek_range`].
    pub fn glance(
        &mut self,
        table: TableId,
        key: &Key,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>, TxnError> {
        self.see_if_free(table, key, View::Glance, see)
    }

    /// Whether its row with this key is another for this transaction than for the rest of the pod.
    pub fn changes_row(&mut self, table: TableId, key: &Key) -> bool {
        !self.running.state.core.work.changed_keys(table, &KeyRange::point(*key), 1).0.is_empty()
    }

    /// Goes on after a conflict. What a step that met one had locked by then stays locked, and of what it
    /// was to change the caller undoes the part that has been.
    pub fn forgive(&mut self) {
        self.running.state.core.forgive();
    }

    /// Shows the row with this key to a visitor who reads: as this transaction has it, or as of the
    /// statement.
    pub(super) fn point_of_statement(
        &mut self,
        at: At<'_>,
        key: &Key,
        view: View,
        visitor: &mut Visitor<'_>,
    ) -> Result<bool, TxnError> {
        let changed = !self.changed_within(at, &KeyRange::point(*key)).0.is_empty();
        let view = if changed { View::Locked } else { view };
        self.running.state.core.set_apart(!changed);
        let (method, txn) = self.parts();
        let shown = method.point(txn, at, key, view, visitor);
        self.running.state.core.set_apart(false);
        shown
    }

    /// The same with the rows of a range.
    pub(super) fn range_of_statement(
        &mut self,
        at: At<'_>,
        range: &KeyRange,
        view: View,
        visitor: &mut Visitor<'_>,
    ) -> Flow {
        let Visitor::Read(visit) = visitor else { unreachable!("who changes rows locks them") };
        let mut rest = *range;
        loop {
            let (keys, next) = self.changed_within(at, &rest);
            let part = KeyRange { low: rest.low, high: next.or(rest.high) };
            let mut own = self.own_rows(at, &keys)?.into_iter().peekable();
            let mut merged = |key: &Key, row: Row<'_>| {
                while let Some((mine, bytes)) = own.next_if(|(mine, _)| mine <= key) {
                    let flow = show(visit, &mine, bytes.as_deref());
                    if mine == *key || flow.is_break() {
                        return flow;
                    }
                }
                visit(key, row)
            };
            self.running.state.core.set_apart(true);
            let (method, txn) = self.parts();
            let flow = method.range(txn, at, &part, view, &mut Visitor::Read(&mut merged));
            self.running.state.core.set_apart(false);
            if flow?.is_break() {
                return flow;
            }
            for (key, bytes) in own {
                if show(visit, &key, bytes.as_deref()).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            let Some(low) = next else { return Ok(ControlFlow::Continue(())) };
            debug_assert!(low >= rest.low && !rest.ends_before(&low), "it goes on behind what it has seen");
            rest.low = low;
        }
    }

    /// The next keys of a range whose rows this transaction has changed, and where it goes on then
    /// ([`Workspace::changed_keys`](crate::protocol::workspace::Workspace::changed_keys)).
    fn changed_within(&mut self, at: At<'_>, range: &KeyRange) -> (Vec<Key>, Option<Key>) {
        let work = &mut self.running.state.core.work;
        if work.changes.is_empty() || self.running.seat.cx.sabotaged("statement.see-own-changes") {
            return (Vec::new(), None);
        }
        work.changed_keys(at.table(), range, OWN_AT_ONCE)
    }

    /// These rows as this transaction has them; those of other partitions are left out.
    fn own_rows(&mut self, at: At<'_>, keys: &[Key]) -> Result<Vec<Own>, TxnError> {
        let mut rows = Vec::with_capacity(keys.len());
        for key in keys {
            if at.relation.partition_of(key, self.host.partition_count()) != at.partition {
                continue;
            }
            let mut bytes = None;
            let mut see = |_: &Key, row: Row<'_>| {
                bytes = Some(row.bytes().to_vec());
                ControlFlow::Break(())
            };
            let (method, txn) = self.parts();
            method.point(txn, at, key, View::Locked, &mut Visitor::Read(&mut see))?;
            let removed = bytes.is_none() && self.cx().sabotaged("statement.skip-own-removed");
            rows.extend((!removed).then_some((*key, bytes)));
        }
        Ok(rows)
    }
}

type Visit<'v> = &'v mut dyn FnMut(&Key, Row<'_>) -> ControlFlow<()>;

fn show(visit: Visit<'_>, key: &Key, bytes: Option<&[u8]>) -> ControlFlow<()> {
    bytes.map_or(ControlFlow::Continue(()), |bytes| visit(key, Row::new(bytes)))
}
