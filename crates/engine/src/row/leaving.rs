//! Rows that this host has given to their owners to remove: the undo of an insert, or a committed delete.
//!
//! Invariants:
//! 1. The giver keeps the row's write lock, and its entry says "leaving", until the owner has removed it.
//! 2. A row is remembered here before its partition's owner is read, and an owner is told under the latch of
//!    the row's shard. So whoever follows a partition to a new owner finds the row here, or the giver has
//!    seen the new owner; and nobody is told twice, which might remove the next row with that key.
//! 3. An insert whose answer never came (the owner died) is remembered as *unanswered*: the row may have been
//!    made or not. It is asked about when the partition has its next owner, and forgotten when the shared
//!    index shows that no such row is there, or that somebody here holds it, so that it is another one.
//! 4. What the owner before was told of may have gone, and the next row with that key be in the same place,
//!    used by this host. So a next owner is told that it is told *again*, and looks which one it is.
//! 5. Both may be so of one key: a row was given away, the owner removed it, made the next one, and died with
//!    its answer. That is one entry and one message, for whichever of the two rows is there.

use std::collections::BTreeMap;
use std::ops::Bound;

use liger_fabric::{Cx, Fabric, LatchGuard};
use liger_pod::heap::TupleAddr;
use liger_pod::owner::Owner;
use liger_pod::plan::PartitionId;

use super::message::{Message, Removal};
use super::remote::{Entry, LEAVING, Shard};
use super::rows::Rows;
use crate::catalog::At;
use crate::tables::key::Key;
use crate::txn::TableId;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["leaving.note-unanswered-too"];

/// Rows that are looked at in one round of housekeeping.
const FORGOTTEN_AT_ONCE: usize = 16;

/// Which row: its hash, by which entries of this host are found, table, partition and key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Name {
    pub hash: u64,
    pub table: TableId,
    pub partition: PartitionId,
    pub key: Key,
}

/// What was given away under a name.
#[derive(Clone, Copy, Debug)]
struct Given {
    /// Where the row is, if it is known, and the version of the removal.
    at: Option<TupleAddr>,
    llsn: u64,
    /// The owner may have made (another) one before it died.
    unanswered: bool,
    /// Who was told last.
    told: Option<Owner>,
}

/// Rows that were given away and may still be there.
#[derive(Default)]
pub(super) struct Leaving {
    rows: BTreeMap<Name, Given>,
    /// Where the next round begins: behind this one.
    last: Option<Name>,
}

impl Leaving {
    /// All rows of this name are gone.
    pub fn remove(&mut self, name: &Name) {
        self.rows.remove(name);
    }

    /// All rows of this partition are gone: its owner has handed it over.
    pub fn forget(&mut self, partition: PartitionId) {
        self.rows.retain(|name, _| name.partition != partition);
    }

    /// The row that was given away and was here is gone.
    pub fn has_gone(&mut self, name: &Name, at: TupleAddr) {
        match self.rows.get_mut(name).filter(|given| given.at == Some(at)) {
            Some(given) if given.unanswered => given.at = None,
            Some(_) => self.remove(name),
            None => {}
        }
    }

    /// Some rows, other ones each time.
    fn some(&mut self) -> Vec<(Name, Given)> {
        let from = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.rows.range((from, Bound::Unbounded)).take(FORGOTTEN_AT_ONCE);
        let some: Vec<(Name, Given)> = next.map(|(&name, &given)| (name, given)).collect();
        self.last = some.last().map(|(name, _)| *name).filter(|_| some.len() == FORGOTTEN_AT_ONCE);
        some
    }
}

impl Given {
    fn which(&self, again: bool) -> Removal {
        Removal { at: self.at, uncommitted: self.unanswered, again, llsn: self.llsn }
    }
}

impl Rows {
    /// Removes a row that this host had given away; it owns the partition by now.
    fn remove_given<F: Fabric>(&self, cx: &Cx<F>, name: &Name, which: Removal) {
        let Name { table, partition, ref key, .. } = *name;
        self.remove_for(cx, self.me, (partition, table), key, which);
    }

    /// Gives a row whose write lock a worker of this host has to its owner to remove, in version `llsn`, and
    /// remembers it until that is done. The row's shard is latched; another row with its hash that is held
    /// keeps the entry.
    pub(super) fn give_away<F: Fabric>(
        &self,
        cx: &Cx<F>,
        mut shard: LatchGuard<'_, Shard>,
        name: &Name,
        at: TupleAddr,
        llsn: u64,
    ) {
        debug_assert_eq!(
            name.hash,
            self.remote.hash_of(name.table, name.partition, &name.key),
            "its own name"
        );
        let given = Given { at: Some(at), llsn, unanswered: false, told: None };
        self.leaving.lock(cx).rows.insert(*name, given);
        let is_its = shard.get(&name.hash).is_none_or(|entry| entry.at == at || !entry.is_held());
        if self.holds(name.partition) {
            // Since the row was locked, this host has become its owner.
            if is_its {
                shard.remove(&name.hash);
            }
            self.leaving.lock(cx).remove(name);
            drop(shard);
            return self.remove_given(cx, name, given.which(false));
        }
        if is_its {
            shard.insert(name.hash, Entry { at, readers: 0, writer: LEAVING, parked: 0 });
        }
        let owner = self.owners.now(cx, &self.plan, name.partition);
        self.tell(cx, name, owner.expect("a row that was locked has an owner"), false);
    }

    /// Remembers an insert whose answer will not come.
    pub(super) fn note_unanswered<F: Fabric>(
        &self,
        cx: &Cx<F>,
        table: TableId,
        partition: PartitionId,
        key: Key,
    ) {
        debug_assert!(!self.owns(partition), "who takes a partition over waits for who asked its owner");
        let name = Name { hash: self.remote.hash_of(table, partition, &key), table, partition, key };
        let given = Given { at: None, llsn: 0, unanswered: true, told: None };
        let mut leaving = self.leaving.lock(cx);
        let known = leaving.rows.entry(name).or_insert(given);
        if !cx.sabotaged("leaving.note-unanswered-too") {
            (known.unanswered, known.told) = (true, None);
        }
    }

    /// Tells an owner of a row that was given away; its shard is latched.
    fn tell<F: Fabric>(&self, cx: &Cx<F>, name: &Name, owner: Owner, again: bool) {
        let mut leaving = self.leaving.lock(cx);
        let Some(given) = leaving.rows.get_mut(name) else { return };
        debug_assert_ne!(given.told, Some(owner), "nobody is told twice: it might remove the next row");
        given.told = Some(owner);
        let which = given.which(again);
        drop(leaving);
        let &Name { table, partition, key, .. } = name;
        self.send(cx, owner, &Message::Remove { table, partition, key, which });
    }

    /// Tells the new owner of a partition what this host had given to the one before: rows that it knows, or
    /// those that may have been made for it (`unanswered`).
    pub(super) fn give_away_again<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        to: Owner,
        unanswered: bool,
    ) {
        let is_due = |name: &Name, given: &Given| {
            name.partition == partition && given.unanswered == unanswered && given.told != Some(to)
        };
        let leaving = self.leaving.lock(cx);
        let due: Vec<Name> = leaving.rows.iter().filter(|(n, g)| is_due(n, g)).map(|(&n, _)| n).collect();
        drop(leaving);
        for name in due {
            let mut shard = self.remote.shard(cx, name.hash);
            // It may have gone since, or have been told.
            let Some(given) = self.leaving.lock(cx).rows.get(&name).filter(|g| is_due(&name, g)).copied()
            else {
                continue;
            };
            let held = shard.get(&name.hash).filter(|entry| entry.is_held()).map(|entry| entry.at);
            if held.is_some() && held == given.at {
                // It is another one by now.
                self.leaving.lock(cx).remove(&name);
            } else if to.host != self.me {
                self.tell(cx, &name, to, true);
            } else {
                debug_assert!(self.holds(partition), "its next owner is this host");
                if held.is_none() {
                    shard.remove(&name.hash);
                }
                self.leaving.lock(cx).remove(&name);
                drop(shard);
                self.remove_given(cx, &name, given.which(true));
            }
        }
    }

    /// Forgets rows whose owners have removed them, a few at a time.
    pub(super) fn forget_removed<F: Fabric>(&self, cx: &Cx<F>) {
        let Some(mut leaving) = self.leaving.try_lock() else { return };
        let some = leaving.some();
        drop(leaving);
        for (name, given) in some {
            let known = if given.unanswered {
                let owner = self.owners.of(name.partition);
                if given.told != Some(owner) || self.owners.is_orphan(name.partition) {
                    continue;
                }
                match self.unanswered(cx, &name) {
                    Ok(at) => at,
                    Err(()) => continue,
                }
            } else {
                given.at
            };
            let mut shard = self.remote.shard(cx, name.hash);
            let entry = shard.get(&name.hash).copied();
            let held = entry.filter(Entry::is_held).map(|entry| entry.at);
            let is_ours = |at| self.shared.peek(cx, at).writer() == Some(self.me);
            if known.is_some_and(|at| held != Some(at) && is_ours(at)) {
                continue;
            }
            if entry.is_some_and(|entry| entry.is_leaving()) {
                shard.remove(&name.hash);
            }
            self.leaving.lock(cx).remove(&name);
        }
    }

    /// Where a row is that may have been made for this host, if the index has one.
    fn unanswered<F: Fabric>(&self, cx: &Cx<F>, name: &Name) -> Result<Option<TupleAddr>, ()> {
        let relation = self.catalog.relation(name.table).expect("a row's table exists");
        let index = self.foreign_index(At::new(relation, name.partition));
        let found = index.get(cx, &self.tree_env(), name.key.words());
        found.and_then(|raw| raw.map(|raw| self.row_at(raw)).transpose()).map_err(drop)
    }
}
