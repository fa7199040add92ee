//! What the log keeps of a transaction: a record, or several if one would be too long (log/fragments.rs).
//!
//! Invariants:
//! 1. All records but the last one are appended before the transaction has a version: while they are written
//!    nobody waits for an epoch to end, and whoever fails in between has committed nothing.
//! 2. A transaction that fails says that its fragments are not needed.

use liger_fabric::Fabric;

use super::transaction::Txn;
use crate::log::record::{Op, RecordWriter};
use crate::log::room::Promise;
use crate::method::{Method, RowLocation, TxnState};
use crate::protocol::workspace::{Change, Workspace};
use crate::txn::TxnError;

/// Names of the steps that a mutation test can leave out of this file.
pub(super) const SABOTAGE_STEPS: &[&str] =
    &["recording.merge-patches", "recording.pass-over-what-came-and-went"];

impl<F: Fabric, M: Method> Txn<'_, F, M> {
    /// Puts the record of all changes together; what is too long goes to the ring in fragments. Has room
    /// promised for the rest on storage: none for an empty one.
    ///
    /// # Errors
    /// If a change can never fit into the ring, or nothing may be committed.
    pub(super) fn record_changes(&mut self) -> Result<Option<Promise>, TxnError> {
        let mut writer = std::mem::take(&mut self.running.state.writer);
        let shrinks = leaves_less(&self.running.state);
        let recorded = self.put_changes(&mut writer, shrinks);
        let promise = recorded.and_then(|()| self.promise_room(&writer, shrinks));
        self.running.state.writer = writer;
        if promise.is_err() {
            self.give_record_up();
        }
        promise
    }

    /// The transaction does not commit: fragments that were appended are not kept for it.
    pub(super) fn give_record_up(&self) {
        let token = self.running.seat.token.as_ref();
        if let (Some(log), Some(ring)) = (&self.host.log, token.and_then(|token| token.log.as_ref())) {
            ring.give_up(self.cx(), log);
        }
    }

    /// Adds all changes to a record. An index is a table like others: it has images of its own, and who
    /// resolves this host's locks must know what became of its entries.
    fn put_changes(&mut self, writer: &mut RecordWriter, shrinks: bool) -> Result<(), TxnError> {
        let (cx, host) = (self.cx(), self.host);
        writer.begin();
        let seat = &mut self.running.seat;
        let mail = seat.mail;
        let ring = seat.token.as_mut().and_then(|token| token.log.as_mut());
        let (Some(log), Some(ring)) = (&host.log, ring) else { return Ok(()) };
        let Workspace { changes, patches, images, .. } = &mut self.running.state.core.work;
        for change in changes.iter() {
            let op = match op_of(change) {
                Some(op) => op,
                None if cx.sabotaged("recording.pass-over-what-came-and-went") => Op::Insert,
                None => continue,
            };
            let previous = if change.is_new { 0 } else { change.previous };
            writer.change((change.table, change.place.partition), op, &change.key, previous);
            match change.image {
                _ if change.deleted => {}
                Some((start, end)) => {
                    let image = &mut images[start as usize..end as usize];
                    if !cx.sabotaged("recording.merge-patches") {
                        patches.apply(change.patches, image);
                    }
                    writer.whole_row(image);
                }
                None => {
                    for (offset, bytes) in patches.iter(change.patches) {
                        writer.piece(offset, bytes);
                    }
                }
            }
            if ring.make_fit(cx, log, writer, shrinks, |cx| _ = mail.serve_waiting(cx))?
                && (host.is_fenced() || host.member.confirm(cx).is_err())
            {
                // Nothing of it counts, and more need not be written.
                host.instance.mark_fenced();
                return Err(TxnError::Fenced);
            }
        }
        Ok(())
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
}

/// What happens to the row of a change; nothing if it came and went.
fn op_of(change: &Change<RowLocation>) -> Option<Op> {
    match (change.is_new, change.deleted) {
        (true, true) => None,
        (true, false) => Some(Op::Insert),
        (false, true) => Some(Op::Delete),
        (false, false) => Some(Op::Update),
    }
}

/// True if more rows go than come, or the host needs what the transaction does: it may take of the room that
/// is kept on a full disk.
fn leaves_less(state: &TxnState) -> bool {
    let more = |change: &Change<RowLocation>| match op_of(change) {
        Some(Op::Insert) => 1i64,
        Some(Op::Delete) => -1,
        Some(Op::Update) | None => 0,
    };
    state.is_needed || state.core.work.changes.iter().map(more).sum::<i64>() < 0
}
