//! Rows that this host has given to their owners to remove: the undo of an insert, or a committed delete.
//!
//! Invariants:
//! 1. The giver keeps the row's write lock, and its entry says "leaving", until the owner has removed it.
//! 2. A row is remembered here before its partition's owner is read, and an owner is told under the latch of
//!    the row's shard. So whoever follows a partition to a new owner finds the row here, or the giver has
//!    seen the new owner; and nobody is told twice, which might remove the next row with that key.
//! 3. An insert whose answer never came (the owner died) is remembered without a word: the row may have been
//!    made or not. It is asked about when the partition has its next owner, and forgotten when the shared
//!    index shows that no such row is there, or that somebody here holds it, so that it is another one.

use std::collections::BTreeMap;
use std::ops::Bound;

use liger_fabric::{Cx, Fabric, HostId, LatchGuard, SyncAddr};

use super::host::RowHost;
use super::message::Message;
use super::remote::{Entry, LEAVING, Shard};
use crate::key::Key;
use crate::txn::TableId;

/// Rows that are looked at in one round of housekeeping.
const FORGOTTEN_AT_ONCE: usize = 16;

/// A row that was given away.
#[derive(Clone, Debug)]
struct Given {
    removal: Message,
    /// Who was told last.
    told: Option<HostId>,
}

/// Rows that were given away and may still be there, by hash.
#[derive(Default)]
pub(super) struct Leaving {
    rows: BTreeMap<u64, Given>,
    /// Where the next round goes on.
    next: u64,
}

impl Leaving {
    /// The row with this hash is gone.
    pub fn remove(&mut self, hash: u64) {
        self.rows.remove(&hash);
    }

    /// Some rows, other ones each time.
    fn some(&mut self) -> Vec<(u64, Given)> {
        let from = self.rows.range((Bound::Included(self.next), Bound::Unbounded));
        let some: Vec<(u64, Given)> =
            from.take(FORGOTTEN_AT_ONCE).map(|(&hash, given)| (hash, given.clone())).collect();
        self.next = match some.last() {
            Some((last, _)) if some.len() == FORGOTTEN_AT_ONCE => last.wrapping_add(1),
            _ => 0,
        };
        some
    }
}

/// Table, partition, key and word of a removal.
fn place_of(removal: &Message) -> (TableId, u16, Key, Option<SyncAddr>) {
    match removal {
        Message::Remove { table, partition, key, word, .. } => (*table, *partition, *key, *word),
        _ => unreachable!("only removals are handed over"),
    }
}

impl RowHost {
    /// Tells the owner of a partition, which may be this host by now.
    pub(super) fn post_or_do<F: Fabric>(&self, cx: &Cx<F>, partition: u16, removal: &Message) {
        if !self.holds(partition) {
            return self.post(cx, self.owner(partition), removal);
        }
        let &Message::Remove { table, partition, ref key, word, llsn } = removal else {
            unreachable!("only removals are handed over")
        };
        self.remove_for(cx, self.me, (partition, table), key, word, llsn);
    }

    /// Gives a row whose write lock a worker of this host has to its owner to remove, and remembers it until
    /// that is done. The row's shard is latched.
    pub(super) fn give_away<F: Fabric>(
        &self,
        cx: &Cx<F>,
        mut shard: LatchGuard<'_, Shard>,
        hash: u64,
        word: SyncAddr,
        removal: Message,
    ) {
        let (_, partition, ..) = place_of(&removal);
        self.leaving.lock(cx).rows.insert(hash, Given { removal: removal.clone(), told: None });
        if self.holds(partition) {
            // Since the row was locked, this host has become its owner.
            shard.remove(&hash);
            self.leaving.lock(cx).remove(hash);
            drop(shard);
            return self.post_or_do(cx, partition, &removal);
        }
        shard.insert(hash, Entry { word, readers: 0, writer: LEAVING });
        self.tell(cx, hash, self.owner(partition), &removal);
    }

    /// Remembers an insert whose answer will not come.
    pub(super) fn note_unanswered<F: Fabric>(&self, cx: &Cx<F>, table: TableId, partition: u16, key: Key) {
        let hash = self.remote.hash_of(table, partition, &key);
        let removal = Message::Remove { table, partition, key, word: None, llsn: 0 };
        self.leaving.lock(cx).rows.entry(hash).or_insert(Given { removal, told: None });
    }

    /// Tells an owner of a row that was given away; its shard is latched.
    fn tell<F: Fabric>(&self, cx: &Cx<F>, hash: u64, owner: HostId, removal: &Message) {
        self.post(cx, owner, removal);
        if let Some(given) = self.leaving.lock(cx).rows.get_mut(&hash) {
            given.told = Some(owner);
        }
    }

    /// Tells the new owner of a partition what this host had given to the one before: rows that it knows, or
    /// (`unanswered`) those that may have been made for it.
    pub(super) fn give_away_again<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: u16,
        to: HostId,
        unanswered: bool,
    ) {
        let is_due = |given: &Given| {
            let (_, of, _, word) = place_of(&given.removal);
            of == partition && word.is_none() == unanswered && given.told != Some(to)
        };
        let leaving = self.leaving.lock(cx);
        let due: Vec<u64> = leaving.rows.iter().filter(|(_, g)| is_due(g)).map(|(&hash, _)| hash).collect();
        drop(leaving);
        for hash in due {
            let mut shard = self.remote.shard(cx, hash);
            // It may have gone since, or have been told.
            let Some(given) = self.leaving.lock(cx).rows.get(&hash).filter(|g| is_due(g)).cloned() else {
                continue;
            };
            let entry = shard.get(&hash).copied();
            // Somebody here holds the row: it is another one by now.
            let stands = entry.is_none_or(|entry| entry.is_leaving() || entry.is_unheld());
            if stands && to != self.me {
                self.tell(cx, hash, to, &given.removal);
                continue;
            }
            if stands {
                shard.remove(&hash);
            }
            self.leaving.lock(cx).remove(hash);
            drop(shard);
            if stands {
                self.post_or_do(cx, partition, &given.removal);
            }
        }
    }

    /// Forgets rows whose owners have removed them, a few at a time.
    pub(super) fn forget_removed<F: Fabric>(&self, cx: &Cx<F>) {
        let Some(mut leaving) = self.leaving.try_lock() else { return };
        let some = leaving.some();
        drop(leaving);
        for (hash, given) in some {
            let (table, partition, key, word) = place_of(&given.removal);
            let is_told = given.told == Some(self.owner(partition)) && !self.owners.is_orphan(partition);
            let known = match word {
                Some(word) => Some(word),
                None if is_told => match self.unanswered(cx, table, partition, &key) {
                    Ok(at) => at,
                    Err(()) => continue,
                },
                None => continue,
            };
            let mut shard = self.remote.shard(cx, hash);
            let entry = shard.get(&hash).copied();
            let is_ours = known.is_some_and(|at| self.shared.peek(cx, at).writer() == Some(self.me));
            let stands = entry.is_none_or(|entry| entry.is_leaving() || entry.is_unheld());
            if is_ours && stands {
                continue;
            }
            if entry.is_some_and(|entry| entry.is_leaving()) {
                shard.remove(&hash);
            }
            self.leaving.lock(cx).remove(hash);
        }
    }

    /// The word of a row that may have been made for this host, if the index has one.
    fn unanswered<F: Fabric>(
        &self,
        cx: &Cx<F>,
        table: TableId,
        partition: u16,
        key: &Key,
    ) -> Result<Option<SyncAddr>, ()> {
        let relation = self.catalog.relation(table).expect("a row's table exists");
        let found = self.foreign_index(relation, partition).get(cx, &self.tree_env(), key.words());
        found.map(|word| word.map(SyncAddr::new)).map_err(drop)
    }
}
