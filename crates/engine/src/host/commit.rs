//! The end of a transaction.
//!
//! Commit, in this order (`docs/protocols/transactions.md` and `log.md` say what a crash after each step
//! means):
//! 0. every method agrees; and if the pod keeps a log, put the record of all changes together (recording.rs:
//!    of a long transaction all but the end goes to the ring now), and have room promised for it on storage:
//!    who is refused has changed nothing;
//! 1. take a version above everything touched, in the epoch that is read now that all locks are held;
//! 2. the commit point, if the pod keeps a log: append the record of all changes, or of what is left of them,
//!    to this worker's ring;
//! 3. every method makes its changes and starts to write back what is in shared memory; one fence;
//! 4. record the history;
//! 5. every method releases what is held, and removes what is deleted on the way.
//!
//! Until step 5 no other transaction can see anything of it. Step 2 comes before step 3 because rows have no
//! undo: a changed row in shared memory without a record could not be told from a good one.

use liger_fabric::{Cx, Fabric};

use super::transaction::Txn;
use crate::history::{HistorySink, TxnRecord};
use crate::log::epoch::Commit;
use crate::log::record::epoch_of;
use crate::method::{Holds, Method};
use crate::txn::TxnError;

/// Names of the steps that a mutation test can leave out of this file.
pub(super) const SABOTAGE_STEPS: &[&str] = &["commit.version-above-all-touched", "commit.await-removals"];

impl<F: Fabric, M: Method> Txn<'_, F, M> {
    /// Makes all changes visible and gives everything back; says up to which epoch the log must hold
    /// everything for this transaction, what it has read included, to survive.
    ///
    /// # Errors
    /// If a change can never fit into the log, or nothing may be committed: everything is undone then.
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
            log.clock().end_commit(self.cx(), self.cx().worker());
        }
        Ok(epoch)
    }

    /// True if there is something to commit.
    pub fn has_changed(&self) -> bool {
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
        let promise = self.record_changes()?;
        // A host that the others may take for dead commits nothing.
        if host.is_fenced() || host.member.confirm(cx).is_err() {
            host.instance.mark_fenced();
            promise.into_iter().for_each(|promise| log.take_back(promise));
            self.give_record_up();
            return Err(TxnError::Fenced);
        }
        let Commit { llsn, keeps } = log.clock().begin_commit(cx, cx.worker(), above + 1);
        if keeps {
            host.instance.snapshots.note_kept();
        }
        let state = &mut self.running.state;
        (state.llsn, state.keeps) = (llsn, keeps);
        debug_assert!(llsn > above, "a version above everything touched");
        state.core.note_writes(state.llsn);
        self.show_history(|sink, record| sink.committing(record));
        let state = &mut self.running.state;
        if state.core.work.changes.iter().any(|change| change.deleted) {
            log.clock().note_removal(cx, epoch_of(llsn));
        }
        let Some(promise) = promise else { return Ok(()) };
        let seat = &mut self.running.seat;
        let mail = seat.mail;
        let ring = seat.token.as_mut().and_then(|token| token.log.as_mut());
        let ring = ring.expect("a worker of a host with a log has a ring");
        let serve = |cx: &Cx<F>| _ = mail.serve_waiting(cx);
        let appended = ring.append(cx, log, &mut state.writer, promise, state.llsn, serve);
        appended.map(drop).map_err(|error| {
            log.clock().end_commit(cx, cx.worker());
            self.give_record_up();
            error.into()
        })
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
