//! The words that operations are made of: what a host does in one of its phases.

use std::ops::ControlFlow;

use liger_engine::{Key, KeyRange, Transaction, TxnError};
use liger_fabric::HostId;
use liger_fabric::sim::CrashDomain;
use liger_pod::membership::{HostState, Slot};
use liger_pod::plan::PartitionId;

use super::operations::{OF_B, OF_C};
use super::staged::Actor;
use crate::pod::Kept;
use crate::rows::{BY_GROUP, ITEMS, item_key, new_row, set_value};

/// The words that programs are made of.
impl<M: Kept> Actor<'_, M> {
    /// Changes rows, in one transaction.
    pub(super) fn updates(&mut self, rows: &[(i16, i32)]) {
        self.does(|txn, value| {
            rows.iter().try_for_each(|(part, id)| {
                txn.update(ITEMS, &item_key(*part, *id), |row| set_value(row, value)).map(drop)
            })
        });
    }

    pub(super) fn updates_and_waits(&mut self, rows: &[(i16, i32)]) {
        self.updates(rows);
        self.waits();
    }

    /// Inserts rows, in one transaction.
    pub(super) fn inserts(&mut self, rows: &[(i16, i32)]) {
        self.does(|txn, value| rows.iter().try_for_each(|(part, id)| insert(txn, (*part, *id), value)));
    }

    pub(super) fn inserts_and_waits(&mut self, rows: &[(i16, i32)]) {
        self.inserts(rows);
        self.waits();
    }

    pub(super) fn deletes(&mut self, rows: &[(i16, i32)]) {
        self.does(|txn, _| {
            rows.iter().try_for_each(|(part, id)| txn.delete(ITEMS, &item_key(*part, *id)).map(drop))
        });
    }

    pub(super) fn deletes_and_waits(&mut self, rows: &[(i16, i32)]) {
        self.deletes(rows);
        self.waits();
    }

    /// Changes, inserts and deletes rows, in one transaction.
    pub(super) fn changes(
        &mut self,
        updated: &[(i16, i32)],
        inserted: &[(i16, i32)],
        deleted: &[(i16, i32)],
    ) {
        self.does(|txn, value| change(txn, [updated, inserted, deleted], value));
    }

    /// Does all of that and takes it back.
    pub(super) fn gives_up(
        &mut self,
        updated: &[(i16, i32)],
        inserted: &[(i16, i32)],
        deleted: &[(i16, i32)],
    ) {
        self.does_in_vain(|txn, value| change(txn, [updated, inserted, deleted], value));
    }

    pub(super) fn reads(&mut self, part: i16, ids: &[i32]) {
        self.does(|txn, _| {
            ids.iter().try_for_each(|id| txn.get(ITEMS, &item_key(part, *id), |_| ()).map(drop))
        });
    }

    pub(super) fn reads_one_by_one(&mut self, part: i16, ids: &[i32]) {
        ids.iter().for_each(|id| self.reads(part, &[*id]));
    }

    pub(super) fn reads_upto(&mut self, part: i16, id: i32) {
        let range = KeyRange::between(item_key(part, 0), item_key(part, id));
        self.does(|txn, _| txn.scan(ITEMS, &range, |_, _| ControlFlow::Continue(())));
    }

    /// Reads a whole partition, and its index.
    pub(super) fn scans(&mut self, part: i16) {
        self.does(|txn, _| scan(txn, part));
    }

    pub(super) fn scans_and_updates(&mut self, parts: &[i16], (part, id): (i16, i32)) {
        self.does(|txn, value| {
            parts.iter().try_for_each(|part| scan(txn, *part))?;
            txn.update(ITEMS, &item_key(part, id), |row| set_value(row, value)).map(drop)
        });
    }

    /// Changes everybody's rows; when it is to die, somewhere in the commit of one more such transaction.
    pub(super) fn mixes(&mut self) {
        self.mixes_with(&[], 150);
    }

    /// The same; these rows come and go too, and it dies within so many verbs.
    pub(super) fn mixes_with(&mut self, replaced: &[(i16, i32)], verbs: u64) {
        let (scene, cx) = (self.scene, self.cx);
        let (kind, id, verb) = (cx.random_below(4), cx.random_below(8) as i32, 1 + cx.random_below(verbs));
        let all = [(0, 0), (0, 2), (0, 6), (OF_B, 0), (OF_B, 2), (OF_C, 0), (OF_C, id & !1)];
        self.does(|txn, value| {
            for (part, id) in all {
                txn.update(ITEMS, &item_key(part, id), |row| set_value(row, value))?;
            }
            match kind {
                0 => insert(txn, (OF_B, id | 1), value)?,
                1 => drop(txn.delete(ITEMS, &item_key(OF_C, 4))?),
                _ => {}
            }
            for (part, id) in replaced {
                if !txn.delete(ITEMS, &item_key(*part, *id))? {
                    insert(txn, (*part, *id), value)?;
                }
            }
            // It holds all its locks.
            if let Some(domain) = scene.doom.take() {
                cx.fabric().kill_before(cx.host(), verb, domain);
            }
            Ok(())
        });
    }

    /// Does nothing for anybody.
    pub(super) fn sleeps(&mut self, turns: u64) {
        (0..turns).for_each(|_| self.cx.pause());
    }

    /// Moves so many rows of this host out.
    pub(super) fn moves_out(&mut self, rows: usize) {
        let mut moved = 0;
        for _ in 0..100 {
            moved += self.engine.method().rows().move_out_some(self.cx, rows - moved);
            if moved == rows {
                return;
            }
            self.turn();
        }
    }

    /// Lets this host's checkpointer take a checkpoint, and waits for it.
    pub(super) fn takes_a_checkpoint(&mut self) {
        let log = self.engine.log().expect("the pod keeps a log");
        let epoch = log.clock().now(self.cx) + 1;
        log.want_checkpoint(self.cx, epoch);
        while self.engine.checkpointed() < epoch && !self.engine.is_fenced() {
            self.turn();
        }
    }

    /// Asks a host for one of its partitions, and waits until it has come, or that host is dead.
    pub(super) fn has_handed_over(&mut self, part: i16, of: HostId) {
        let partition = PartitionId(part as u16);
        while !self.engine.owns(partition) && self.state(of) == HostState::Alive && !self.engine.is_fenced() {
            // It may be refused, because somebody uses it.
            self.engine.move_partition(self.cx, partition, self.cx.host());
            self.turn();
        }
    }

    /// Lets a host die in a commit after a while, in some crash domain.
    pub(super) fn kills(&mut self, host: HostId) {
        self.idles(self.cx.random_below(50));
        let domains = [CrashDomain::Process, CrashDomain::Host, CrashDomain::HostPersistent];
        self.scene.doom.set(Some(domains[self.cx.random_below(3) as usize]));
        while self.cx.fabric().incarnation(host) == 1 {
            self.turn();
        }
    }

    pub(super) fn state(&self, host: HostId) -> HostState {
        Slot::load(self.cx, &self.world.plan, host).expect("an intact word").state
    }

    /// Waits until a dead host is suspected, and then under the eyes of the killer until it is recovered.
    pub(super) fn awaits_recovery(&mut self, dead: HostId) {
        while self.state(dead) == HostState::Alive {
            self.turn();
        }
        self.watched();
        self.awaits_end(dead);
        self.learns_successor();
    }

    pub(super) fn awaits_end(&mut self, dead: HostId) {
        while self.state(dead) != HostState::Free {
            self.turn();
        }
    }

    pub(super) fn learns_successor(&mut self) {
        let successor = self.cx.load(self.world.plan.controller().word(1));
        self.scene.found_successor(HostId(successor as u8));
    }

    /// Waits until a dead host has come back and done what it came for, or has died once more.
    pub(super) fn awaits_return(&mut self, dead: HostId) {
        while !self.scene.has_returned() && self.cx.fabric().incarnation(dead) <= 2 {
            self.turn();
        }
    }
}

fn insert<F: Transaction>(txn: &mut F, (part, id): (i16, i32), value: i64) -> Result<(), TxnError> {
    match txn.insert(ITEMS, &new_row(part, id, value)) {
        Err(TxnError::DuplicateKey { .. }) => Ok(()),
        ended => ended,
    }
}

fn change<T: Transaction>(
    txn: &mut T,
    [updated, inserted, deleted]: [&[(i16, i32)]; 3],
    value: i64,
) -> Result<(), TxnError> {
    for (part, id) in updated {
        txn.update(ITEMS, &item_key(*part, *id), |row| set_value(row, value))?;
    }
    inserted.iter().try_for_each(|at| insert(txn, *at, value))?;
    deleted.iter().try_for_each(|(part, id)| txn.delete(ITEMS, &item_key(*part, *id)).map(drop))
}

fn scan<T: Transaction>(txn: &mut T, part: i16) -> Result<(), TxnError> {
    let all = KeyRange::prefix(Key::build().i16(part), 1);
    txn.scan(ITEMS, &all, |_, _| ControlFlow::Continue(()))?;
    let group = KeyRange::prefix(Key::build().i16(part).i16(0), 1);
    txn.scan_index(BY_GROUP, &group, |_| ControlFlow::Continue(()))
}

/// What every host that is left does in the end: changes every row that exists, and makes and removes one,
/// so that a lock that stayed is met.
pub(super) fn prove<M: Kept>(actor: &mut Actor<'_, M>, keys: i32) {
    // Of a partition with many rows, those at both ends.
    let ids = (0..keys).filter(|id| id % 2 == 0 && (*id < 8 || *id >= keys - 8));
    let rows: Vec<(i16, i32)> = (0..4).flat_map(|part| ids.clone().map(move |id| (part, id))).collect();
    rows.chunks(4).for_each(|some| actor.updates(some));
    let mine = 100 * keys + 2 * i32::from(actor.cx.host().0) + 1;
    for part in 0..4 {
        actor.inserts(&[(part, mine)]);
        actor.scans(part);
        actor.deletes(&[(part, mine)]);
    }
    actor.waits();
}
