//! The end of a transaction of a partitioned pod: two-phase commit where other hosts take part.
//!
//! In this order:
//! 1. the time is fixed: the least that all rows allow;
//! 2. this host's leases are made to cover it;
//! 3. first phase: hosts where something changes are given the changes and asked whether they can; Sundial
//!    also asks those whose leases may end before. All must say yes;
//! 4. the transaction has committed: with a log, a record says so; its history is recorded, its changes are
//!    put in place here;
//! 5. second phase: hosts with locks are told. Their rows stay locked until they hear it, so nobody sees a
//!    part of the transaction; whether this worker waits for that is an option;
//! 6. this host's locks are given back.
//!
//! A transaction that its body gives up for an error of its own goes through 1 to 3 without changes, for its
//! reads alone, and then undoes everything.
//!
//! With a log, a host that is asked in the first phase has a record of its changes before it says yes, and 4
//! is the record of this host (logged.rs). A host that dies leaves the others waiting: see host.rs.

use liger_fabric::{Fabric, HostId, Work};

use super::message::{Action, Effect, MESSAGE_OVERHEAD};
use super::rules::Protocol;
use super::transaction::{PartTxn, RowLocation};
use crate::sundial::{Ending, rests_on_reads};
use liger_engine::TxnError;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] =
    &["partitioned.await-votes", "partitioned.time-above-all", "partitioned.vouch-for-errors"];

/// Bytes that a piece of a change takes in a message beside its own.
const PIECE_OVERHEAD: usize = 16;

impl<F: Fabric> PartTxn<'_, F> {
    /// Makes all changes visible and gives everything back.
    ///
    /// # Errors
    /// If it cannot commit: everything is undone then.
    pub(super) fn commit(&mut self) -> Result<(), TxnError> {
        let time = self.time();
        let early = self.early_epoch();
        if let Err(error) = self.prepare(time).and_then(|()| self.log_commit(time, early)) {
            self.abort(0);
            return Err(error);
        }
        self.record_commit(time);
        self.install_own(time);
        self.tell_outcome(time);
        self.own.end(self.cx, self.host, Ending::Committed { time });
        if !self.fetched.is_empty() {
            super::host::count(&self.host.traffic.distributed, 1);
        }
        Ok(())
    }

    /// Ends a transaction that its body has given up, without its changes; with what it ends. The body's own
    /// error counts only if there is a time at which everything was as the body saw it: leases let it see
    /// rows of different times, and what follows from these has never been so.
    pub(super) fn give_up(&mut self, why: TxnError) -> TxnError {
        self.core.work.clear();
        let time = self.time();
        let vouched = if !rests_on_reads(why) {
            Err(why)
        } else if self.cx.sabotaged("partitioned.vouch-for-errors") {
            Ok(())
        } else {
            self.prepare(time)
        };
        if let Err(refused) = vouched {
            self.abort(0);
            return refused;
        }
        self.record_commit(time);
        self.abort(time);
        why
    }

    /// The least time that all rows allow.
    fn time(&self) -> u64 {
        if self.cx.sabotaged("partitioned.time-above-all") {
            return 1;
        }
        self.floor.max(self.own.floor).max(1)
    }

    /// Undoes everything; what it has locked was seen as it is at `seen`, if that is not 0.
    fn abort(&mut self, seen: u64) {
        for to in self.hosts_with_locks() {
            self.tell(to, Action::Abort { seen });
        }
        self.far.iter_mut().for_each(|far| far.locks = false);
        self.own.end(self.cx, self.host, Ending::Aborted { seen });
    }

    fn hosts_with_locks(&self) -> Vec<HostId> {
        let hosts = (0u8..).zip(&self.far);
        hosts.filter(|(_, far)| far.locks).map(|(host, _)| HostId(host)).collect()
    }

    fn prepare(&mut self, time: u64) -> Result<(), TxnError> {
        self.core.go_on()?;
        if !self.own.validate(self.cx, self.host, time) {
            return Err(liger_engine::Conflict::Validation.into());
        }
        let mut actions = Vec::new();
        for host in 0..self.far.len() {
            let to = HostId(host as u8);
            if let Some(mut parts) = self.effects_at(to) {
                let effects = parts.pop().unwrap_or_default();
                for part in parts {
                    self.ask(vec![(to, Action::Changes(part))])?;
                }
                actions.push((to, Action::Prepare { time, effects }));
            } else if self.far[host].until < time {
                actions.push((to, Action::Prepare { time, effects: Vec::new() }));
            }
        }
        if actions.is_empty() {
            return Ok(());
        }
        if self.cx.sabotaged("partitioned.await-votes") {
            actions.into_iter().for_each(|(to, action)| self.tell(to, action));
            return Ok(());
        }
        self.ask(actions).map(drop)
    }

    /// What the transaction has changed at a host, in as many messages as that takes; none if it has changed
    /// nothing there.
    fn effects_at(&mut self, host: HostId) -> Option<Vec<Vec<Effect>>> {
        let most = self.host.lanes.max_message() - MESSAGE_OVERHEAD;
        let mut parts: Vec<Vec<Effect>> = vec![Vec::new()];
        let (mut room, mut any) = (most, false);
        let work = &mut self.core.work;
        for change in work.changes.iter() {
            let RowLocation::Far(i) = change.place else { continue };
            let row = &self.fetched[i as usize];
            if row.host != host {
                continue;
            }
            any = true;
            if change.deleted {
                continue;
            }
            let mut add = |offset: u16, bytes: &[u8]| {
                let needed = bytes.len() + PIECE_OVERHEAD;
                if needed > room {
                    parts.push(Vec::new());
                    room = most;
                }
                room -= needed.min(room);
                let part = parts.last_mut().expect("never empty");
                let piece = (offset, bytes.to_vec());
                match part.last_mut().filter(|effect| effect.held == row.held) {
                    Some(effect) => effect.pieces.push(piece),
                    None => part.push(Effect { held: row.held, pieces: vec![piece] }),
                }
            };
            match change.image {
                Some((start, end)) => {
                    let image = &mut work.images[start as usize..end as usize];
                    work.patches.apply(change.patches, image);
                    add(0, image);
                }
                None => work.patches.iter(change.patches).for_each(|(offset, bytes)| add(offset, bytes)),
            }
        }
        any.then_some(parts)
    }

    /// Puts the changes of this host's rows in place.
    fn install_own(&mut self, time: u64) {
        let (cx, host) = (self.cx, self.host);
        let mut latched = None;
        for change in self.core.work.changes.iter() {
            let RowLocation::Own(i) = change.place else { continue };
            let held = &mut self.own.held[i as usize];
            // A row that was deleted and inserted again does not go.
            held.deleted = change.deleted;
            let (partition, table) = (held.partition, held.table);
            if change.deleted {
                continue;
            }
            let part = host.reach(cx, &mut latched, partition).table(table);
            let (images, patches) = (&self.core.work.images, &self.core.work.patches);
            self.own.install(part, i as usize, time, |bytes| {
                if let Some((start, end)) = change.image {
                    bytes.copy_from_slice(&images[start as usize..end as usize]);
                }
                patches.apply(change.patches, bytes);
            });
            cx.spend(Work::DramLine, 2);
        }
    }

    /// Tells the hosts that hold locks for it that the transaction has committed.
    fn tell_outcome(&mut self, time: u64) {
        let hosts = self.hosts_with_locks();
        self.far.iter_mut().for_each(|far| far.locks = false);
        let changed = |to: &HostId| {
            let at = |place| matches!(place, RowLocation::Far(i) if self.fetched[i as usize].host == *to);
            self.core.work.changes.iter().any(|change| at(change.place))
        };
        let (awaited, others): (Vec<HostId>, Vec<HostId>) =
            hosts.into_iter().partition(|to| self.host.await_writes && changed(to));
        others.into_iter().for_each(|to| self.tell(to, Action::Commit { time, answer: false }));
        if !awaited.is_empty() {
            let actions = awaited.into_iter().map(|to| (to, Action::Commit { time, answer: true })).collect();
            // Nobody refuses a commit.
            let _ = self.ask(actions);
        }
    }

    fn record_commit(&mut self, time: u64) {
        self.core.note_time(if self.host.rules.protocol == Protocol::Sundial { time } else { 0 });
        self.core.note_writes(time);
        self.core.show_history(self.host.history(), |sink, record| sink.committed(record));
    }
}
