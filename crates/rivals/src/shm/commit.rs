//! The end of a transaction on rows in shared memory.
//!
//! In this order:
//! 1. the time is fixed: the least that all rows allow; then all leases are made to cover it;
//! 2. the transaction has committed: its history is recorded;
//! 3. rows that change are marked, then written and written back, and then a fence completes that;
//! 4. the words of all rows that stay say the new times, and are unlocked in the same store; rows above gaps
//!    that have changed among them;
//! 5. rows that go are dead, all of them, and then their entries are taken out.
//!
//! A transaction that its body gives up for an error of its own goes through 1 too, for its reads, before it
//! undoes everything.
//!
//! 4 comes before 5, and all words before the first entry: who does not find a row's entry any more must find
//! that the gap has changed, or that the row above has gone, too.

use liger_fabric::Fabric;

use super::held::Held;
use super::host::Leftover;
use super::rows::RowAt;
use super::transaction::ShmTxn;
use super::word::{END_OF_TIME, RowWord, State};
use crate::sundial::{Ending, Lease, rests_on_reads};
use liger_engine::{At, Conflict, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "shm.time-above-all",
    "shm.validate",
    "shm.vouch-for-errors",
    "shm.mark-changing",
    "shm.mark-before-write",
    "shm.stamp-gap",
    "shm.stamp-before-removal",
    "shm.all-dead-before-removal",
];

impl<F: Fabric> ShmTxn<'_, F> {
    /// Makes all changes visible and gives everything back.
    ///
    /// # Errors
    /// If it cannot commit: everything is undone then. If an index is damaged.
    pub(super) fn commit(&mut self) -> Result<(), TxnError> {
        match self.validate() {
            Ok(time) => {
                self.record_commit(time);
                self.install(time);
                self.end(Ending::Committed { time })
            }
            Err(error) => {
                self.abort(0);
                Err(error)
            }
        }
    }

    /// Ends a transaction that its body has given up, without its changes; with what it ends. The body's own
    /// error counts only if there is a time at which everything was as the body saw it.
    pub(super) fn give_up(&mut self, why: TxnError) -> TxnError {
        self.core.work.clear();
        let vouched = if !rests_on_reads(why) {
            Err(why)
        } else if self.cx.sabotaged("shm.vouch-for-errors") {
            Ok(1)
        } else {
            self.validate()
        };
        match vouched {
            Ok(time) => {
                self.record_commit(time);
                self.abort(time);
                why
            }
            Err(refused) => {
                self.abort(0);
                refused
            }
        }
    }

    /// Makes all leases cover one time; that time.
    fn validate(&mut self) -> Result<u64, TxnError> {
        self.core.go_on()?;
        let (cx, host) = (self.cx, self.host);
        let time = if cx.sabotaged("shm.time-above-all") { 1 } else { self.floor.max(1) };
        if time >= END_OF_TIME {
            let why =
                "2^42 changes of rows after one another have used up the times that words have room for";
            return Err(TxnError::Unsuited { what: "another commit in this pod", why });
        }
        let covers = |held: &Held| {
            held.locked || held.lease.rts >= time || host.renew(cx, held.at, held.lease.wts, time)
        };
        if !cx.sabotaged("shm.validate") && !self.held.iter().all(covers) {
            return Err(Conflict::Validation.into());
        }
        Ok(time)
    }

    /// Undoes everything; what it has locked was seen as it is at `seen`, if that is not 0.
    fn abort(&mut self, seen: u64) {
        // What is broken shows to whoever uses it next.
        let _ = self.end(Ending::Aborted { seen });
    }

    /// Writes the bytes of all rows that change.
    fn install(&mut self, time: u64) {
        let (cx, host) = (self.cx, self.host);
        let mut marked = false;
        for change in self.core.work.changes.iter() {
            let held = &mut self.held[change.place as usize];
            // A row that was deleted and inserted again does not go.
            held.deleted = change.deleted;
            if !held.deleted && !held.is_new && !cx.sabotaged("shm.mark-changing") {
                set(cx, held.at, State::Changing, Lease { writer: self.who.0, ..held.lease });
                marked = true;
            }
        }
        if marked && !cx.sabotaged("shm.mark-before-write") {
            cx.fence();
        }
        let mut written = false;
        for change in self.core.work.changes.iter().filter(|change| !change.deleted) {
            let held = &self.held[change.place as usize];
            match change.image {
                Some((start, end)) => {
                    let image = &mut self.core.work.images[start as usize..end as usize];
                    self.core.work.patches.apply(change.patches, image);
                    host.write_new(cx, held.at, time, image);
                }
                None => host.write_pieces(cx, held.at, time, self.core.work.patches.iter(change.patches)),
            }
            host.fresh.set(held.at.word, time);
            written = true;
        }
        if written {
            cx.fence(); // Before any word says the new time.
        }
    }

    /// Gives everything back, and takes out what goes.
    fn end(&mut self, ending: Ending) -> Result<(), TxnError> {
        let early = self.cx.sabotaged("shm.stamp-before-removal");
        let mut removed = if early { self.remove_all(ending) } else { Ok(()) };
        for i in 0..self.held.len() {
            if self.held[i].locked && !self.goes(i, ending) {
                self.unlock(i, ending);
            }
        }
        if !early {
            removed = self.remove_all(ending);
        }
        self.held.clear();
        removed
    }

    fn goes(&self, i: usize, ending: Ending) -> bool {
        let Held { is_new, deleted, .. } = self.held[i];
        match ending {
            Ending::Committed { .. } => deleted,
            Ending::Aborted { .. } => is_new,
        }
    }

    fn unlock(&mut self, i: usize, ending: Ending) {
        let (cx, held) = (self.cx, &self.held[i]);
        let is_changed = self.core.work.changes.number(&(i as u32)).is_some();
        let stamps = held.opens_gap && !cx.sabotaged("shm.stamp-gap");
        let lease = match ending {
            Ending::Committed { time } if is_changed || stamps => held.lease.changed(time),
            Ending::Committed { time } | Ending::Aborted { seen: time } => held.lease.seen(cx, time),
        };
        set(cx, held.at, State::Live, Lease { writer: 0, born: true, ..lease });
    }

    fn remove_all(&self, ending: Ending) -> Result<(), TxnError> {
        let (cx, host) = (self.cx, self.host);
        let committed = match ending {
            Ending::Committed { time } => Some(time),
            Ending::Aborted { .. } => None,
        };
        let mut all = Ok(());
        let mut going: Vec<Leftover> = Vec::new();
        for i in (0..self.held.len()).filter(|i| self.held[*i].locked && self.goes(*i, ending)) {
            let Held { table, partition, key, at, lease, .. } = self.held[i];
            let lease = committed.map_or(lease, |time| lease.changed(time));
            if let Some(time) = committed.filter(|_| !host.gaps) {
                host.note_removal(cx, At::new(host.catalog.relation(table)?, partition), time)?;
            }
            set(cx, at, State::Dead, Lease { writer: 0, ..lease });
            going.push(Leftover { table, partition, key, at });
            if cx.sabotaged("shm.all-dead-before-removal") {
                all = all.and(going.pop().map_or(Ok(()), |left| host.take_out(cx, left)));
            }
        }
        going.into_iter().fold(all, |all, left| all.and(host.take_out(cx, left)))
    }

    fn record_commit(&mut self, time: u64) {
        self.core.note_time(time);
        self.core.note_writes(time);
        self.core.show_history(self.host.history(), |sink, record| sink.committed(record));
    }
}

fn set<F: Fabric>(cx: &liger_fabric::Cx<F>, at: RowAt, state: State, lease: Lease) {
    cx.store(at.word, RowWord::new(state, lease).0);
}
