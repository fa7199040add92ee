//! An heir's work: a dead host's partitions get a new owner while the pod goes on
//! (docs/protocols/takeover.md).
//!
//! Invariants:
//! 1. All of it may be done again: by this host after a failure, or by another heir after this one's death.
//!    What others see changes in single steps, each of which is right whether or not the next one follows.
//! 2. A row that is in the shared index with a live word is what its block says; every other row is what the
//!    logs say.
//! 3. Nobody uses a partition before its owner's word says so; on this host, nobody begins to use it until
//!    everybody who had used it as another host's has ended.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::heap::TupleAddr;
use liger_pod::membership::{HostState, Slot};
use liger_pod::plan::PartitionId;
use liger_pod::watch::{self, Owner};
use liger_store::bwtree::TreeError;

use super::host::{RowHost, count};
use super::keeper::{Keeper, Takeover, Task};
use super::moves::sentinel_key;
use super::partition::{RowId, TablePart};
use super::policy::SharedRow;
use crate::catalog::At;
use crate::instance::events::PodEvent;
use crate::log::HostLog;
use crate::log::record::first_of;
use crate::recovery::{Rebuilding, RecoveryError};
use crate::tables::key::Key;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &[
    "takeover.sweep-orphans",
    "takeover.await-logs",
    "takeover.versions-above-removed",
    "takeover.checkpoint-before-return",
    "takeover.rebuild-after-death",
    "takeover.warm-shared",
    "takeover.entangled-together",
];

impl RowHost {
    /// Takes over from the dead hosts whose heir this one is, if there are any.
    pub(super) fn inherit<F: Fabric>(&self, cx: &Cx<F>, keeper: &mut Keeper, heir_of: &[Slot]) -> usize {
        let Some(takeover) = keeper.takeover.clone() else { return 0 };
        let is_new = |slot: &&Slot| !keeper.inherited.iter().any(|(done, _)| done == *slot);
        let mut dead: Vec<Slot> = heir_of.iter().filter(is_new).copied().collect();
        if dead.is_empty() {
            return 0;
        }
        if let Err(failure) = self.add_entangled(cx, keeper, &mut dead) {
            self.note_failed(cx, keeper, (Task::TakeOver, &dead), &failure);
            return 1;
        }
        let hosts: Vec<HostId> = dead.iter().map(|slot| slot.host).collect();
        self.announce(&PodEvent::TakeoverBegins { dead: hosts.clone() });
        let taken = self.take_over(cx, keeper, &takeover, &dead);
        let failure = taken.as_ref().err().map(ToString::to_string);
        self.announce(&PodEvent::TakeoverEnds { dead: hosts, partitions: keeper.taking.len(), failure });
        match taken {
            Ok(epoch) => {
                keeper.inherited.extend(dead.iter().map(|slot| (*slot, epoch)));
                self.forget_failed(cx, keeper, (Task::TakeOver, &dead));
            }
            Err(_) if self.is_overruled() => {}
            Err(failure) => self.note_failed(cx, keeper, (Task::TakeOver, &dead), &failure),
        }
        keeper.taking.clear();
        1
    }

    /// Lets dead hosts come back whose partitions are safe without their files. What those of a dead heir are
    /// made from may lie in the files of whoever died before it, until a checkpoint has them that begins
    /// after the heir was taken over: the latest takeover counts for all, and none goes while an heir is
    /// left out.
    pub(super) fn release_heirs<F: Fabric>(&self, cx: &Cx<F>, keeper: &mut Keeper) -> usize {
        let (Some(log), Some(latest)) = (&self.log, keeper.inherited.iter().map(|(_, epoch)| *epoch).max())
        else {
            self.waited_for.store(false, Ordering::Relaxed);
            return 0;
        };
        let waits = log.begin_of(cx, self.me) < latest && !cx.sabotaged("takeover.checkpoint-before-return");
        self.waited_for.store(waits, Ordering::Relaxed);
        if waits {
            log.want_checkpoint(cx, latest);
        }
        if waits || self.is_heir_left_out(cx, keeper) {
            return 0;
        }
        let before = keeper.inherited.len();
        keeper.inherited.retain(|(slot, _)| {
            if watch::is_settled(cx, &self.plan, *slot) != Ok(true) {
                return true;
            }
            log.needs_nothing(cx, slot.host);
            watch::release(cx, &self.plan, *slot);
            false
        });
        before - keeper.inherited.len()
    }

    /// The dead hosts that are neither these nor taken over.
    fn left_out<F: Fabric>(&self, cx: &Cx<F>, keeper: &Keeper, dead: &[Slot]) -> Vec<Slot> {
        let mut others = watch::fenced(cx, &self.plan).unwrap_or_default();
        let inherited = |other: &Slot| keeper.inherited.iter().any(|(done, _)| done == other);
        others.retain(|it| it.state == HostState::Fenced && !dead.contains(it) && !inherited(it));
        others
    }

    /// True if a dead host that is not taken over owns partitions that it had taken over itself.
    fn is_heir_left_out<F: Fabric>(&self, cx: &Cx<F>, keeper: &Keeper) -> bool {
        let others = self.left_out(cx, keeper, &[]);
        let is_taken = |partition: &PartitionId| {
            let owner = Owner::load(cx, &self.plan, *partition);
            owner.is_some_and(|owner| owner.host != self.home(*partition))
        };
        !others.is_empty() && self.orphans(cx, &others).iter().any(is_taken)
    }

    /// All of it; returns the epoch from which on this host's checkpoints have the partitions.
    fn take_over<F: Fabric>(
        &self,
        cx: &Cx<F>,
        keeper: &mut Keeper,
        takeover: &Takeover,
        dead: &[Slot],
    ) -> Result<u64, RecoveryError> {
        let log = self.log.as_ref().expect("who takes over keeps a log");
        // What an earlier try has made this host's already.
        self.open_inherited(cx, keeper)?;
        let orphans = self.orphans(cx, dead);
        keeper.taking = orphans.iter().map(|&partition| (partition, false)).collect();
        if !cx.sabotaged("takeover.sweep-orphans") {
            // Also of those who died before: the last owner may not have lived to settle them.
            for slot in watch::fenced(cx, &self.plan).unwrap_or_default() {
                let dead = self.dead(cx, slot)?;
                for &partition in &orphans {
                    self.sweep_orphan(cx, partition, &dead)?;
                }
            }
        }
        loop {
            let settled = keeper.settled_deaths();
            let image_bytes = self.rebuild(cx, keeper, takeover, &orphans)?;
            self.check_still_here()?;
            orphans.iter().for_each(|&partition| self.owners.close(partition));
            self.await_transactions(cx, keeper)?;
            // Who died meanwhile may have deleted rows here after what was read: they are gone from the
            // shared index, and only its log says so.
            if keeper.settled_deaths() == settled || cx.sabotaged("takeover.rebuild-after-death") {
                log.expect_images(cx, image_bytes);
                break;
            }
        }
        for (partition, attached) in &mut keeper.taking {
            self.attach(cx, *partition)?;
            *attached = true;
        }
        for slot in dead {
            self.await_drops(cx, keeper, *slot)?;
        }
        let me = Owner { host: self.me, incarnation: keeper.me().incarnation };
        self.own(cx, me, dead, &orphans)?;
        self.open_inherited(cx, keeper)?;
        // A checkpoint that begins in a later epoch than this one began when they were this host's.
        Ok(log.clock().now(cx) + 1)
    }

    /// Makes partitions anew from images and logs; the bytes of the images.
    fn rebuild<F: Fabric>(
        &self,
        cx: &Cx<F>,
        keeper: &mut Keeper,
        takeover: &Takeover,
        orphans: &BTreeSet<PartitionId>,
    ) -> Result<u64, RecoveryError> {
        if orphans.is_empty() {
            return Ok(0);
        }
        let log = self.log.as_ref().expect("who takes over keeps a log");
        let upto = self.await_logs(cx, keeper, log)?;
        orphans.iter().for_each(|&partition| self.make_partition(cx, partition));
        let (files, identity) = (&takeover.files, &takeover.identity);
        let rebuilding = Rebuilding { host: self, files, identity, partitions: orphans, upto };
        rebuilding.run(cx, || self.turn(cx, keeper))
    }

    /// Opens the partitions that are this host's by now.
    fn open_inherited<F: Fabric>(&self, cx: &Cx<F>, keeper: &Keeper) -> Result<(), TreeError> {
        let me = Owner { host: self.me, incarnation: keeper.me().incarnation };
        for partition in self.plan.partitions().filter(|p| self.holds(*p) && self.owners.is_closed(*p)) {
            self.finish_indexes(cx, partition)?;
            self.owners.set(partition, me);
            for unanswered in [true, false] {
                self.give_away_again(cx, partition, me, unanswered);
            }
            count(&self.moves.taken_over, 1);
        }
        Ok(())
    }

    /// The partitions of dead hosts.
    fn orphans<F: Fabric>(&self, cx: &Cx<F>, dead: &[Slot]) -> BTreeSet<PartitionId> {
        let owned = |partition: &PartitionId| {
            is_left(Owner::load(cx, &self.plan, *partition), self.home(*partition), dead)
        };
        self.plan.partitions().filter(owned).collect()
    }

    /// What goes on while this host takes over.
    fn turn<F: Fabric>(&self, cx: &Cx<F>, keeper: &mut Keeper) {
        self.look_around(cx, keeper);
        self.attend(cx);
    }

    fn check_still_here(&self) -> Result<(), RecoveryError> {
        if self.is_overruled() { Err(RecoveryError::Overruled) } else { Ok(()) }
    }

    /// Ends the epoch, and waits until the logs of all hosts hold it: then they hold every record that
    /// changed a row which was not shared when the host died.
    fn await_logs<F: Fabric>(
        &self,
        cx: &Cx<F>,
        keeper: &mut Keeper,
        log: &HostLog,
    ) -> Result<u64, RecoveryError> {
        let epoch = log.clock().now(cx);
        if cx.sabotaged("takeover.await-logs") {
            return Ok(log.pod_durable(cx, self.members(cx)).min(epoch));
        }
        while !log.is_durable(cx, epoch, || self.members(cx))? {
            self.check_still_here()?;
            self.turn(cx, keeper);
            cx.pause();
        }
        Ok(epoch)
    }

    /// Waits until every transaction of this host that may have begun before the partitions were closed has
    /// ended.
    fn await_transactions<F: Fabric>(&self, cx: &Cx<F>, keeper: &mut Keeper) -> Result<(), RecoveryError> {
        let round = self.transactions.close_round();
        let ended = loop {
            if self.transactions.have_ended(round) {
                break Ok(());
            }
            self.held_up.taking.store(true, Ordering::Relaxed);
            if let Err(gone) = self.check_still_here() {
                break Err(gone);
            }
            self.turn(cx, keeper);
            cx.pause();
        };
        self.held_up.taking.store(false, Ordering::Relaxed);
        ended
    }

    /// Joins the rows of a partition that was rebuilt with those in shared memory.
    fn attach<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) -> Result<(), RecoveryError> {
        let log = self.log.as_ref().expect("who takes over keeps a log");
        // Greater than the version of anything that was ever removed here.
        let removed = first_of(log.clock().now(cx) + 1) - 1;
        for relation in self.catalog.relations().iter().filter(|relation| !relation.replicated) {
            let index = self.foreign_index(At::new(relation, partition));
            if !cx.sabotaged("takeover.versions-above-removed") {
                let mut latched = self.partition(cx, partition);
                let part = latched.table(relation.id);
                (part.max_removed_llsn, part.adopted_llsn) = (removed, removed);
            }
            let mut from = Some(Key::zero(relation.key_words));
            while let Some(key) = from {
                let (found, next) = self.batch(cx, &index, &key)?;
                if !cx.sabotaged("takeover.warm-shared") {
                    // What is in shared memory is newer than what would be made of it later.
                    let place = (partition, relation.id);
                    found.iter().try_for_each(|(key, _)| self.warm_key(cx, place, key))?;
                }
                let mut latched = self.partition(cx, partition);
                let part = latched.table(relation.id);
                for (key, at) in found {
                    // Nothing else begins at a dead cell before its entry is taken out.
                    if !self.shared.adopt(cx, at) {
                        self.shared.reserve(cx, at, true);
                        part.stale.push((key, at));
                        continue;
                    }
                    let row = row_of(part, &key, at)?;
                    part.rows.set_shared(row, at.raw());
                    let shared = SharedRow { partition, table: relation.id, row, at };
                    self.move_out.lock(cx).moved_in(shared);
                    count(&self.moves.shared_rows, 1);
                }
                from = next;
            }
        }
        Ok(())
    }

    /// Waits until all caches are free of the nodes that a dead host was about to free.
    fn await_drops<F: Fabric>(
        &self,
        cx: &Cx<F>,
        keeper: &mut Keeper,
        slot: Slot,
    ) -> Result<(), RecoveryError> {
        while self.epochs.finish_batch(cx, &self.heap, slot.host, |cx| self.readers(cx)).is_none() {
            self.check_still_here()?;
            self.turn(cx, keeper);
            cx.pause();
        }
        Ok(())
    }

    /// Makes partitions this host's, and then the shared memory of their dead owners. In this order, so that
    /// what lies in a dead host's chunks is always reached from partitions of dead hosts. Messages about the
    /// partitions wait, for they might free some of it meanwhile.
    fn own<F: Fabric>(
        &self,
        cx: &Cx<F>,
        me: Owner,
        dead: &[Slot],
        orphans: &BTreeSet<PartitionId>,
    ) -> Result<(), RecoveryError> {
        let mut latched: Vec<_> = orphans.iter().map(|&partition| self.partition(cx, partition)).collect();
        let mut in_use = BTreeSet::new();
        for part in latched.iter_mut().flat_map(|partition| partition.tables.iter_mut().flatten()) {
            self.reach(cx, part, &mut in_use)?;
        }
        for &partition in orphans {
            self.owners.set_closed(partition, me);
            me.publish(cx, &self.plan, partition);
        }
        for slot in dead {
            self.epochs.adopt(cx, &self.heap, slot.host, slot.incarnation, &mut in_use);
        }
        Ok(())
    }

    /// Takes entries of dead words out of a partition's shared indexes, and makes those that their owner did
    /// not come to make.
    fn finish_indexes<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId) -> Result<(), TreeError> {
        let mut latched = self.partition(cx, partition);
        for part in latched.tables.iter_mut().flatten() {
            // What cannot go now goes before the next row moves.
            let _ = self.retract_stale(cx, part);
            match part.index.create(cx, &self.tree_env()) {
                Err(TreeError::Exists { .. }) | Ok(()) => {}
                Err(failed) => return Err(failed),
            }
        }
        Ok(())
    }

    /// Adds the shared memory that a table's share uses.
    fn reach<F: Fabric>(
        &self,
        cx: &Cx<F>,
        part: &TablePart,
        in_use: &mut BTreeSet<u64>,
    ) -> Result<(), TreeError> {
        match part.index.check(cx, &self.tree_env()) {
            Err(TreeError::NotFormatted { .. }) => {}
            Err(broken) => return Err(broken),
            Ok(census) => {
                in_use.extend(census.words.iter().map(|word| word.offset()));
                in_use.extend(census.records.iter().map(|(at, _)| at.offset()));
            }
        }
        for row in part.rows.rows() {
            if let Some(at) = part.address(row) {
                in_use.insert(at.block().offset());
            }
        }
        Ok(())
    }

    /// Adds those dead hosts to `dead` that must be taken over together with them, because partitions of one
    /// lie in memory of another: it was an heir, and died when it had made them its own and not yet that.
    ///
    /// # Errors
    /// If one of them cannot be taken over yet, or an index is damaged.
    fn add_entangled<F: Fabric>(
        &self,
        cx: &Cx<F>,
        keeper: &Keeper,
        dead: &mut Vec<Slot>,
    ) -> Result<(), RecoveryError> {
        let mut others = self.left_out(cx, keeper, dead);
        while !cx.sabotaged("takeover.entangled-together") {
            let mut entangled = None;
            for (index, other) in others.iter().enumerate() {
                if self.lie_in(cx, dead, &[*other])? || self.lie_in(cx, &[*other], dead)? {
                    entangled = Some(index);
                    break;
                }
            }
            let Some(index) = entangled else { break };
            let other = others.swap_remove(index);
            if !keeper.closed.contains(&other) {
                return Err(RecoveryError::Entangled { host: other.host });
            }
            dead.push(other);
        }
        Ok(())
    }

    /// True if something of the partitions that these dead hosts own lies in shared memory of those.
    fn lie_in<F: Fabric>(&self, cx: &Cx<F>, owners: &[Slot], memory: &[Slot]) -> Result<bool, TreeError> {
        let is_theirs = |owner: Option<(HostId, u16)>| {
            owner.is_some_and(|owner| memory.iter().any(|it| (it.host, it.incarnation) == owner))
        };
        for partition in self.orphans(cx, owners) {
            for relation in self.catalog.relations().iter().filter(|relation| !relation.replicated) {
                let index = self.foreign_index(At::new(relation, partition));
                let census = match index.check(cx, &self.tree_env()) {
                    Err(TreeError::NotFormatted { .. }) => continue,
                    census => census?,
                };
                let mut words = census.words.iter();
                let mut records = census.records.iter().map(|(at, _)| *at);
                if words.any(|at| is_theirs(self.heap.owner_of_word(cx, *at)))
                    || records.any(|at| is_theirs(self.heap.owner_of_block(cx, at)))
                {
                    return Ok(true);
                }
                let mut from = Some(Key::zero(relation.key_words));
                while let Some(key) = from {
                    let (found, next) = self.batch(cx, &index, &key)?;
                    if found.iter().any(|(_, at)| is_theirs(self.heap.owner_of_block(cx, at.block()))) {
                        return Ok(true);
                    }
                    from = next;
                }
            }
        }
        Ok(false)
    }
}

/// True if dead hosts leave a partition of this owner to their heir; without one, it is its home's. An owner
/// of an earlier life than the dead one had come back and not lived to say so.
fn is_left(owner: Option<Owner>, home: HostId, dead: &[Slot]) -> bool {
    dead.iter().any(|slot| match owner {
        Some(owner) => owner.host == slot.host && owner.incarnation <= slot.incarnation,
        None => home == slot.host,
    })
}

/// The row of a shared key: the one that was rebuilt, or a new one, whose block has the bytes.
fn row_of(part: &mut TablePart, key: &Key, at: TupleAddr) -> Result<RowId, TreeError> {
    if *key == sentinel_key(part.key_words) {
        return Ok(part.sentinel);
    }
    if let Some(row) = part.tree.get(key.words()) {
        return Ok(row);
    }
    let full = TreeError::Damaged { offset: at.block().offset(), what: "more rows than a partition has" };
    let row = part.rows.alloc().ok_or(full)?;
    part.tree.insert(key.words(), row).expect("it was not there");
    // Its block says which, to whoever holds the row; another host may hold it now.
    part.rows.set_version(row, 0);
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_host_leaves_what_this_or_an_earlier_life_owned() {
        let [home, other] = [HostId(0), HostId(1)];
        let dead = [Slot { state: HostState::Fenced, host: other, incarnation: 5 }];
        let of = |host, incarnation| is_left(Some(Owner { host, incarnation }), home, &dead);
        assert!(
            of(other, 5) && of(other, 4),
            "it died before it had said that the partition is its own again"
        );
        assert!(!of(other, 6), "it lives again");
        assert!(!of(home, 5) && !is_left(None, home, &dead));
        assert!(is_left(None, other, &dead), "nobody has come yet");
    }
}
