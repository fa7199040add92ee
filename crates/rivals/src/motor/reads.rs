//! Reading and locking rows: tuples in one round trip, those to be changed with a swap of their locks; the
//! rows' bytes in the next.
//!
//! The compute server knows where the tuple of every key is that has one; to see that a key has none it reads
//! the key's bucket.

use liger_fabric::{Fabric, Remote};
use liger_pod::plan::PartitionId;

use super::servers::{BUCKET_BYTES, Shown, TUPLE_BYTES};
use super::transaction::{Held, MotorTxn};
use liger_engine::{Access, Conflict, Key, TableId, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["motor.lock", "motor.read-newest"];

/// Bytes of a request beside what it brings.
const REQUEST_BYTES: u64 = 32;
/// Bytes beside a row's own, before and behind it: they tell torn reads.
const ANCHOR_BYTES: u64 = 2;

/// A row that the transaction wants to see.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) at: (PartitionId, TableId),
    pub(super) key: Key,
    pub(super) access: Access,
}

impl<F: Fabric> MotorTxn<'_, F> {
    /// Reads rows that are not held yet, and locks those that are to be changed.
    ///
    /// # Errors
    /// If the transaction is over.
    pub(super) fn fetch(&mut self, wanted: &[Wanted]) -> Result<(), TxnError> {
        self.core.go_on()?;
        self.writes |= wanted.iter().any(|w| w.access == Access::Update);
        let mut missing: Vec<Wanted> = Vec::new();
        for w in wanted {
            let suits = |held: &Held| w.access == Access::Read || held.locked || held.version.is_none();
            let known = self.held(w.at, &w.key).is_some_and(|i| suits(&self.held[i]));
            if !known && !missing.iter().any(|m| (m.at, m.key, m.access) == (w.at, w.key, w.access)) {
                missing.push(*w);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let swaps = missing.iter().filter(|w| w.access == Access::Update).count();
        self.send(missing.len(), swaps, REQUEST_BYTES * (missing.len() + swaps) as u64);
        let (mut back, mut seen, mut refused) = (0, Vec::new(), None);
        for w in &missing {
            self.cx.remote(Remote::Between);
            match self.look(w, &mut back) {
                Ok(i) => seen.extend(i),
                Err(conflict) => refused = Some(conflict),
            }
        }
        self.receive(back);
        match refused {
            Some(conflict) => self.refuse(conflict),
            None => self.read_bytes(&seen),
        }
    }

    /// At the servers: reads the tuple, and locks it if the row is to be changed. The row if its bytes are
    /// wanted now.
    fn look(&mut self, w: &Wanted, back: &mut u64) -> Result<Option<usize>, Conflict> {
        let (cx, host, start) = (self.cx, self.host, self.start);
        let known = self.held(w.at, &w.key);
        let mut share = host.servers.share(cx, w.at);
        let Some(place) = share.find(&w.key) else {
            *back += BUCKET_BYTES;
            drop(share);
            if known.is_none() {
                self.hold(w, None, None, 0);
            }
            return Ok(None);
        };
        *back += TUPLE_BYTES;
        let tuple = &mut share.tuples[place as usize];
        let newest = tuple.newest();
        let locks = w.access == Access::Update;
        if locks {
            if tuple.lock != 0 && tuple.lock != self.me && !cx.sabotaged("motor.lock") {
                return Err(Conflict::WriteLocked);
            }
            tuple.lock = self.me;
        }
        if newest > Some(start) && !cx.sabotaged("motor.read-newest") {
            self.stale = true;
        }
        let (version, deltas) = match tuple.shown_at(start) {
            Shown::Version(version, deltas) => (version.live.then_some(version.at), deltas),
            Shown::Nothing => (None, 0),
            Shown::Gone => (None, u64::MAX),
        };
        drop(share);
        let is_new = known.is_none();
        let i = known.unwrap_or_else(|| self.hold(w, newest, version, deltas));
        self.held[i].locked |= locks;
        if deltas == u64::MAX || (self.stale && self.writes) || self.held[i].newest != newest {
            return Err(Conflict::Validation);
        }
        Ok((is_new && version.is_some()).then_some(i))
    }

    fn hold(&mut self, w: &Wanted, newest: Option<u64>, version: Option<u64>, deltas: u64) -> usize {
        let Wanted { at, key, .. } = *w;
        self.core.note_read(at.1, &key, version);
        self.held.push(Held { at, key, newest, version, locked: false, deltas, image: (0, 0) });
        self.held.len() - 1
    }

    /// Reads the bytes of rows whose tuples have been read.
    fn read_bytes(&mut self, rows: &[usize]) -> Result<(), TxnError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.send(rows.len(), 0, REQUEST_BYTES * rows.len() as u64);
        let (mut back, mut torn) = (0, false);
        for i in rows {
            self.cx.remote(Remote::Between);
            let held = &mut self.held[*i];
            let share = self.host.servers.share(self.cx, held.at);
            let place = share.find(&held.key).expect("tuples stay");
            let tuple = &share.tuples[place as usize];
            // The anchors of the newest version's bytes are those that the tuple had.
            torn |= tuple.newest() != held.newest;
            let Shown::Version(version, _) = tuple.shown_at(self.start) else {
                torn = true;
                continue;
            };
            let from = self.bytes.len();
            self.bytes.extend_from_slice(&version.bytes);
            held.image = (from, self.bytes.len());
            back += version.bytes.len() as u64 + ANCHOR_BYTES + held.deltas;
        }
        self.receive(back);
        if torn { self.refuse(Conflict::Validation) } else { Ok(()) }
    }

    /// Takes the place of a row that is to be inserted: its number among the held; none if there is a row.
    /// Inserts one after another travel together: only the first is waited for, first for its bucket, then
    /// for its lock.
    pub(super) fn take_place(
        &mut self,
        at: (PartitionId, TableId),
        key: &Key,
    ) -> Result<Option<usize>, TxnError> {
        self.writes = true;
        if self.inserting {
            self.cx.remote(Remote::Along { operations: 3, bytes: 3 * REQUEST_BYTES });
        } else {
            self.send(1, 0, REQUEST_BYTES);
            self.receive(BUCKET_BYTES);
            self.send(1, 1, 2 * REQUEST_BYTES);
        }
        let taken = self.take_place_now(at, key);
        if !self.inserting {
            self.receive(TUPLE_BYTES);
            self.inserting = true;
        }
        taken.or_else(|conflict| self.refuse(conflict))
    }

    /// At the servers.
    fn take_place_now(&mut self, at: (PartitionId, TableId), key: &Key) -> Result<Option<usize>, Conflict> {
        let (cx, host) = (self.cx, self.host);
        let known = self.held(at, key);
        let mut share = host.servers.share(cx, at);
        let place = share.place(key);
        let tuple = &mut share.tuples[place as usize];
        if tuple.lock != 0 && tuple.lock != self.me && !cx.sabotaged("motor.lock") {
            return Err(Conflict::WriteLocked);
        }
        let newest = tuple.newest();
        if newest > Some(self.start) || known.is_some_and(|i| self.held[i].newest != newest) || self.stale {
            return Err(Conflict::Validation);
        }
        if tuple.is_live() {
            return Ok(None);
        }
        tuple.lock = self.me;
        drop(share);
        let i = known.unwrap_or_else(|| {
            let (version, image) = (None, (0, 0));
            self.held.push(Held { at, key: *key, newest, version, locked: false, deltas: 0, image });
            self.held.len() - 1
        });
        self.held[i].locked = true;
        Ok(Some(i))
    }
}
