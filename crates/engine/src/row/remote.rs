//! What this host knows about rows of other hosts: where their tuple cells are, and which of its
//! transactions hold them.
//!
//! Invariants:
//! 1. An entry is a *hint* as long as none of this host's transactions hold its row: the cell may belong to
//!    another row by now, so whoever locks it compares the row's full key before using it.
//! 2. An entry with holders is the truth: this host's bit in the cell was set by it, and is cleared by it.
//!    Should the same cell hang on two entries (one of them stale), the second sees a bit that it did not set
//!    and is forgotten.
//! 3. Entries are found by a 64-bit hash of (table, partition, key). Two keys with one hash share an entry;
//!    the key comparison tells them apart, at the price of a conflict that comes back as long as one
//!    transaction wants both.
//! 4. The cache is bounded: a shard that is full drops entries without holders.
//!
//! This is the DRAM shortcut of the shared index, and the lock table of one host's transactions in one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use liger_fabric::{Cx, Fabric, Latch, LatchGuard};
use liger_pod::heap::TupleAddr;
use liger_pod::plan::PartitionId;

use crate::instance::Holder;
use crate::tables::key::Key;
use crate::txn::TableId;

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["remote.forget-only-unheld"];

/// Shards of the cache; a power of two.
const SHARDS: usize = 64;

/// The writer of a row that this host has given to its owner to remove: nobody here may use it.
pub const LEAVING: u8 = u8::MAX;

/// What is known of one row.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Where it is.
    pub at: TupleAddr,
    /// Transactions of this host that read it, a bit each ([`Holder`]).
    pub readers: u32,
    /// The transaction of this host that writes it, plus one; or [`LEAVING`].
    pub writer: u8,
    /// How many parked transactions read it (parking.rs).
    pub parked: u16,
}

impl Entry {
    /// True if no transaction of this host holds the row.
    pub fn is_unheld(&self) -> bool {
        self.readers == 0 && self.writer == 0
    }

    /// True if a transaction of this host holds the row.
    pub fn is_held(&self) -> bool {
        !self.is_unheld() && !self.is_leaving()
    }

    /// True if the row was given to its owner to remove, and this host keeps its write lock until then.
    pub fn is_leaving(&self) -> bool {
        self.writer == LEAVING
    }

    /// The transactions of this host that hold the row, but this one.
    pub fn others(&self, me: Holder) -> u32 {
        debug_assert!(!self.is_leaving(), "nobody holds it any more");
        let writer = self.writer.checked_sub(1).map_or(0, |writer| 1 << writer);
        (self.readers | writer) & !me.bit()
    }

    /// True if nobody but `me` holds the row, and `me` does.
    pub fn is_held_only_by(&self, me: Holder) -> bool {
        let others = self.readers & !me.bit();
        !self.is_unheld() && others == 0 && (self.writer == 0 || self.writer == me.writer())
    }
}

/// The keys are hashes already.
#[derive(Default)]
pub struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64");
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// Entries of one shard, by hash.
pub type Shard = HashMap<u64, Entry, BuildHasherDefault<Identity>>;

/// The cache.
pub struct RemoteRows {
    shards: Vec<Latch<Shard>>,
    max_per_shard: usize,
    /// The bits of a hash that count.
    mask: u64,
}

/// Hash of a row's identity. The partition follows from the key, but for the sentinel: every partition has
/// one. Table and partition are mixed before the key comes: tables often have the same keys, and small
/// numbers laid over one another would meet.
pub(super) fn full_hash(table: TableId, partition: PartitionId, key: &Key) -> u64 {
    let mix = |state: u64| {
        let wide = u128::from(state) * u128::from(0xa076_1d64_78bd_642f_u64);
        (wide >> 64) as u64 ^ wide as u64
    };
    let place = u64::from(table.0) | u64::from(partition.0) << 16;
    let state = key.words().iter().fold(mix(0x9e37_79b9_7f4a_7c15 ^ place), |state, word| mix(state ^ word));
    state ^ state >> 32
}

impl RemoteRows {
    /// A cache of at most about `max_entries` rows, which are told apart by `hash_bits` of their hashes.
    pub fn new(max_entries: usize, hash_bits: u32) -> Self {
        assert!((1..=64).contains(&hash_bits), "{hash_bits} bits of a hash");
        let shards = (0..SHARDS).map(|_| Latch::new(Shard::default())).collect();
        let mask = u64::MAX.checked_shr(64 - hash_bits).unwrap_or(0);
        Self { shards, max_per_shard: max_entries.div_ceil(SHARDS).max(1), mask }
    }

    /// Hash of a row's identity, by which its entry is found.
    pub fn hash_of(&self, table: TableId, partition: PartitionId, key: &Key) -> u64 {
        full_hash(table, partition, key) & self.mask
    }

    /// The shard of a hash, latched.
    pub fn shard<F: Fabric>(&self, cx: &Cx<F>, hash: u64) -> LatchGuard<'_, Shard> {
        self.shards[(hash >> 58) as usize % SHARDS].lock(cx)
    }

    /// Remembers where a row is. An entry with holders stays as it is.
    pub fn learn<F: Fabric>(&self, cx: &Cx<F>, hash: u64, at: TupleAddr) {
        let mut shard = self.shard(cx, hash);
        if shard.len() >= self.max_per_shard && !shard.contains_key(&hash) {
            let any = cx.sabotaged("remote.forget-only-unheld");
            make_room(&mut shard, self.max_per_shard, any);
        }
        let entry = shard.entry(hash).or_insert(Entry { at, readers: 0, writer: 0, parked: 0 });
        if entry.is_unheld() {
            entry.at = at;
        }
    }
}

/// Drops a quarter of the shard: of the entries without holders (or of all), those with the lowest hashes.
fn make_room(shard: &mut Shard, max: usize, all: bool) {
    let may_go = |entry: &Entry| all || entry.is_unheld();
    let mut idle: Vec<u64> = shard.iter().filter(|(_, e)| may_go(e)).map(|(hash, _)| *hash).collect();
    idle.sort_unstable();
    for hash in idle.iter().take(max.div_ceil(4)) {
        shard.remove(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Orders and what belongs to them have the same keys in several tables: (warehouse, district, number).
    #[test]
    fn rows_of_tables_with_the_same_keys_have_hashes_of_their_own() {
        let mut seen = std::collections::BTreeSet::new();
        for table in 0..16 {
            for partition in 0..4 {
                for number in 0..1000 {
                    let key = Key::build().i16(2).i16(1).i32(number).finish();
                    let hash = full_hash(TableId(table), PartitionId(partition), &key);
                    assert!(seen.insert(hash), "table {table}, partition {partition}, number {number}");
                }
            }
        }
    }
}
