//! The end of a transaction.
//!
//! In this order:
//! 1. who has only read is done: what it saw is one moment of the past;
//! 2. a commit takes its time, while everything that it changes is locked;
//! 3. one round trip validates what was only read: nobody has locked it, and it has the version that was
//!    seen; ranges have no row more;
//! 4. the transaction has committed; one round trip writes each change to the primary and the backups, and
//!    unlocks it there. The commit is over when that is answered;
//! 5. from then on others may begin at its time.
//!
//! As any who validates before has an earlier time, and any who locks behind its validation a later one, the
//! order of times is a serial order.

use liger_fabric::{Fabric, Remote};

use super::servers::{TUPLE_BYTES, Version};
use super::transaction::MotorTxn;
use liger_engine::{Conflict, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["motor.validate", "motor.validate-locks", "motor.validate-ranges"];

/// Copies of a row beside the primary.
const BACKUPS: u64 = 2;
/// Bytes of a new version's cell, of its row's anchors and of an unlocked lock, with their requests.
const WRITE_BYTES: u64 = 24 + 2 + 8 + 3 * 32;

impl<F: Fabric> MotorTxn<'_, F> {
    /// Makes all changes visible and gives everything back.
    ///
    /// # Errors
    /// If it cannot commit; then it is to be aborted.
    pub(super) fn commit(&mut self) -> Result<(), TxnError> {
        self.core.go_on()?;
        if self.core.work.changes.is_empty() {
            self.abort();
            self.record_commit(0);
            return Ok(());
        }
        if self.stale {
            return self.refuse(Conflict::Validation);
        }
        let time = self.host.servers.begin_commit(self.cx);
        let valid = self.validate();
        if valid.is_ok() {
            self.write(time);
        }
        self.host.servers.end_commit(self.cx, time);
        valid
    }

    fn validate(&mut self) -> Result<(), TxnError> {
        let rows = self.held.iter().filter(|held| !held.locked).count();
        let tuples = rows + self.ranges.iter().map(|visited| visited.found.len()).sum::<usize>();
        if tuples == 0 && self.ranges.is_empty() || self.cx.sabotaged("motor.validate") {
            return Ok(());
        }
        self.send(tuples.max(1), 0, 32 * tuples.max(1) as u64);
        let mut valid = true;
        for i in 0..self.held.len() {
            if !self.held[i].locked {
                self.cx.remote(Remote::Between);
                valid &= self.is_valid(i);
            }
        }
        for i in 0..self.ranges.len() {
            self.cx.remote(Remote::Between);
            valid &= self.cx.sabotaged("motor.validate-ranges") || self.is_range_valid(i);
        }
        self.receive(TUPLE_BYTES * tuples.max(1) as u64);
        if valid { Ok(()) } else { self.refuse(Conflict::Validation) }
    }

    fn is_free(&self, lock: u32) -> bool {
        lock == 0 || lock == self.me || self.cx.sabotaged("motor.validate-locks")
    }

    fn is_valid(&self, held: usize) -> bool {
        let held = &self.held[held];
        let share = self.host.servers.share(self.cx, held.at);
        let Some(place) = share.find(&held.key) else { return true };
        let tuple = &share.tuples[place as usize];
        tuple.newest() == held.newest && self.is_free(tuple.lock)
    }

    /// Nobody has added a row or is about to. (Rows that were found are held, and looked at by themselves.)
    fn is_range_valid(&self, range: usize) -> bool {
        let visited = &self.ranges[range];
        let mut valid = true;
        self.host.servers.share(self.cx, visited.at).each(&visited.range, |key, tuple| {
            let found = visited.found.binary_search_by_key(&key, |found| found.0).is_ok();
            valid &= self.is_free(tuple.lock) && (found || !tuple.is_live());
            valid
        });
        valid
    }

    /// Writes the changes.
    fn write(&mut self, time: u64) {
        let mut new = Vec::new();
        let mut bytes = 0;
        for change in self.core.work.changes.iter().filter(|change| !(change.is_new && change.deleted)) {
            let held = &self.held[change.place as usize];
            let mut image = match change.image {
                Some((start, end)) => self.core.work.images[start as usize..end as usize].to_vec(),
                None => self.bytes[held.image.0..held.image.1].to_vec(),
            };
            self.core.work.patches.apply(change.patches, &mut image);
            // What the last version loses: the columns that were set, or all of a row that goes.
            let patched: usize =
                self.core.work.patches.iter(change.patches).map(|(_, piece)| piece.len()).sum();
            let whole = change.deleted || (change.image.is_some() && !change.is_new);
            let delta = if whole { image.len() } else { patched } as u64;
            let row = if change.deleted { 0 } else { image.len() as u64 };
            bytes += (1 + BACKUPS) * (row + delta + WRITE_BYTES);
            new.push((change.place as usize, !change.deleted, image, delta));
        }
        self.record_commit(time);
        self.send((1 + BACKUPS as usize) * new.len(), 0, bytes);
        for (i, live, image, delta) in new {
            self.cx.remote(Remote::Between);
            let held = &mut self.held[i];
            let mut share = self.host.servers.share(self.cx, held.at);
            let place = share.find(&held.key).expect("locked");
            let tuple = &mut share.tuples[place as usize];
            tuple.add(Version { at: time, live, bytes: image.into(), delta: 0 }, delta);
            tuple.lock = 0;
            held.locked = false;
        }
        self.unlock();
        self.receive(0);
    }

    /// Gives back all locks that are left, with one message to each that nobody waits for.
    pub(super) fn abort(&mut self) {
        let locks = self.held.iter().filter(|held| held.locked).count();
        if locks > 0 {
            self.send(locks, 0, 40 * locks as u64);
            self.unlock();
        }
    }

    /// At the servers.
    fn unlock(&mut self) {
        for held in self.held.iter_mut().filter(|held| held.locked) {
            held.locked = false;
            let mut share = self.host.servers.share(self.cx, held.at);
            let place = share.find(&held.key).expect("locked");
            share.tuples[place as usize].lock = 0;
        }
    }

    fn record_commit(&mut self, time: u64) {
        self.core.note_writes(time);
        self.core.show_history(self.host.history(), |sink, record| sink.committed(record));
    }
}
