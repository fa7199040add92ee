//! The end of a transaction.
//!
//! Commit, in this order (`docs/protocols/transactions.md` and `log.md` say what a crash after each step
//! means):
//! 0. every method agrees; and if the pod keeps a log, have room promised for the record on storage: who is
//!    refused has changed nothing;
//! 1. take a version above everything touched, in the epoch that is read now that all locks are held;
//! 2. the commit point, if the pod keeps a log: append the record of all changes to this worker's ring;
//! 3. every method makes its changes and starts to write back what is in shared memory; one fence;
//! 4. record the history;
//! 5. every method releases what is held, and removes what is deleted on the way.
//!
//! Until step 5 no other transaction can see anything of it. Step 2 comes before step 3 because rows have no
//! undo: a changed row in shared memory without a record could not be told from a good one.

use liger_fabric::{Cx, Fabric};

use super::transaction::Txn;
use crate::history::{HistorySink, TxnRecord};
use crate::log::record::{MAX_CHANGES, Op, RecordWriter, epoch_of, first_of};
use crate::log::room::Promise;
use crate::method::{Holds, Method, TxnState};
use crate::txn::TxnError;

/// Names of the steps that a mutation test can leave out of this file.
pub(super) const SABOTAGE_STEPS: &[&str] = &["commit.version-above-all-touched", "commit.await-removals"];

impl<F: Fabric, M: Method> Txn<'_, F, M> {
    /// Makes all changes visible and gives everything back; says up to which epoch the log must hold
    /// everything for this transaction, what it has read included, to survive.
    ///
    /// # Errors
    /// If the record of its changes can never fit into the log: everything is undone then.
    pub(super) fn commit(&mut self) -> Result<u64, TxnError> {
        let wrote = self.has_changed();
        if wrote {
            let (method, txn) = self.parts();
            if let Err(error) = method.prepare(txn).and_then(|()| self.take_version_and_log()) {
                self.abort();
                return Err(error);
            }
            debug_assert!(self.running.state.llsn > 0, "changes have a version");
            let (method, txn) = self.parts();
            if method.apply(txn) {
                self.cx().fence();
            }
        }
        self.show_history(|sink, record| sink.committed(record));
        let epoch = self.epoch_to_await();
        self.release_all(true);
        if let (Some(log), true) = (&self.host.log, wrote) {
            log.clock().end_commit(self.cx().worker());
        }
        Ok(epoch)
    }

    /// True if there is something to commit.
    pub(super) fn has_changed(&self) -> bool {
        !self.running.state.core.work.changes.is_empty()
    }

    /// The newest epoch of what this transaction saw and made. That a row is missing may be the work of a
    /// removal, whose version no row shows.
    fn epoch_to_await(&self) -> u64 {
        let (cx, state) = (self.cx(), &self.running.state);
        let epoch = epoch_of(state.llsn);
        match &self.host.log {
            Some(log) if state.saw_absence && !cx.sabotaged("commit.await-removals") => {
                epoch.max(log.clock().newest_removal(cx))
            }
            _ => epoch,
        }
    }

    /// Takes the version of all changes and, if the pod keeps a log, appends their record: from then on the
    /// transaction is committed.
    fn take_version_and_log(&mut self) -> Result<(), TxnError> {
        let (cx, host) = (self.cx(), self.host);
        let state = &mut self.running.state;
        let above = if cx.sabotaged("commit.version-above-all-touched") { 0 } else { state.llsn };
        let Some(log) = &host.log else {
            state.llsn = above + 1;
            state.core.note_writes(state.llsn);
            return Ok(());
        };
        let changes = &state.core.work.changes;
        let recorded = || changes.iter().filter(|change| !(change.is_new && change.deleted)).count();
        check_changes(changes.len(), recorded, MAX_CHANGES)?;
        let mut writer = std::mem::take(&mut state.writer);
        let shrinks = write_record(state, &mut writer) || state.is_needed;
        let promised = self.promise_room(&writer, shrinks);
        self.running.state.writer = writer;
        let promise = promised?;
        // A host that the others may take for dead commits nothing.
        if host.is_fenced() || host.member.confirm(cx).is_err() {
            host.instance.mark_fenced();
            promise.into_iter().for_each(|promise| log.take_back(promise));
            return Err(TxnError::Fenced);
        }
        let epoch = log.clock().begin_commit(cx, cx.worker(), epoch_of(above + 1));
        let state = &mut self.running.state;
        state.llsn = (above + 1).max(first_of(epoch));
        // In another epoch, it would be told durable while it is not.
        assert_eq!(epoch_of(state.llsn), epoch, "a version of the epoch that is shown");
        state.core.note_writes(state.llsn);
        self.show_history(|sink, record| sink.committing(record));
        let state = &mut self.running.state;
        if state.core.work.changes.iter().any(|change| change.deleted) {
            log.clock().note_removal(cx, epoch);
        }
        let Some(promise) = promise else { return Ok(()) };
        let seat = &mut self.running.seat;
        let mail = seat.mail;
        let ring = seat.token.as_mut().and_then(|token| token.log.as_mut());
        let ring = ring.expect("a worker of a host with a log has a ring");
        let serve = |cx: &Cx<F>| _ = mail.serve_waiting(cx);
        let appended = ring.append(cx, log, &mut state.writer, promise, state.llsn, serve);
        appended.map(drop).map_err(|error| {
            log.clock().end_commit(cx.worker());
            error.into()
        })
    }

    /// Has room promised for the record of this transaction, which has changed nothing yet that others can
    /// see; none for an empty one.
    fn promise_room(&self, writer: &RecordWriter, shrinks: bool) -> Result<Option<Promise>, TxnError> {
        let (cx, seat) = (self.cx(), &self.running.seat);
        let ring = seat.token.as_ref().and_then(|token| token.log.as_ref());
        let (Some(log), Some(ring), false) = (&self.host.log, ring, writer.is_empty()) else {
            return Ok(None);
        };
        Ok(Some(ring.promise(cx, log, writer, shrinks, |_| _ = seat.serve())?))
    }

    /// Undoes everything.
    pub(super) fn abort(&mut self) {
        self.release_all(false);
    }

    fn show_history(&self, show: impl FnOnce(&dyn HistorySink, &TxnRecord)) {
        self.running.state.core.show_history(self.host.history(), show);
    }

    fn release_all(&mut self, committed: bool) {
        let (method, txn) = self.parts();
        method.release(txn, committed);
        debug_assert_eq!(self.held.count(), 0, "nothing is held when it has ended");
        self.running.state.core.clear();
    }
}

/// Puts together what the log keeps of the changes. An index is a table like others: it has images of its
/// own, and who resolves this host's locks must know what became of its entries. True if more rows go than
/// come.
fn write_record(state: &mut TxnState, writer: &mut RecordWriter) -> bool {
    let work = &mut state.core.work;
    let mut more = 0i64;
    writer.begin();
    for change in work.changes.iter() {
        let op = match (change.is_new, change.deleted) {
            (true, true) => continue,
            (true, false) => Op::Insert,
            (false, true) => Op::Delete,
            (false, false) => Op::Update,
        };
        more += match op {
            Op::Insert => 1,
            Op::Update => 0,
            Op::Delete => -1,
        };
        let previous = if change.is_new { 0 } else { change.previous };
        writer.change((change.table, change.place.partition), op, &change.key, previous);
        match change.image {
            _ if change.deleted => {}
            Some((start, end)) => {
                let image = &mut work.images[start as usize..end as usize];
                work.patches.apply(change.patches, image);
                writer.piece(0, image);
            }
            None => {
                for (offset, bytes) in work.patches.iter(change.patches) {
                    writer.piece(offset, bytes);
                }
            }
        }
    }
    more < 0
}

/// A record has at most `limit` changes: those of `all` that are no row which came and went again.
fn check_changes(all: usize, recorded: impl FnOnce() -> usize, limit: usize) -> Result<(), TxnError> {
    let changes = if all <= limit { all } else { recorded() };
    if changes <= limit { Ok(()) } else { Err(TxnError::TooMany { changes, limit }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_has_as_many_changes_as_a_record() {
        let check = |all, recorded| check_changes(all, || recorded, 10);
        assert_eq!(check(10, 10), Ok(()));
        assert_eq!(check(11, 10), Ok(()), "one came and went");
        assert_eq!(check(12, 11), Err(TxnError::TooMany { changes: 11, limit: 10 }));
    }
}
