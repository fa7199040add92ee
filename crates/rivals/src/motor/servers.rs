//! The memory servers: rows with their versions, and the clock that numbers versions.
//!
//! A row's *tuple of versions* (CVT) has a lock and [`VERSIONS`] cells; the newest version's bytes stand as
//! they are, and of older ones what later versions have changed. Here every version has its bytes whole, and
//! the layout is what is charged.
//!
//! Invariants:
//! 1. Versions of a row grow; who adds one has the lock.
//! 2. A tuple stays where it is, also when its row is deleted (its newest version then says so) or its insert
//!    was given up (it has no version).
//! 3. Nothing is latched across a moment of the simulator: one access is one step.

use std::collections::BTreeSet;

use liger_fabric::{Cx, Fabric, Latch, LatchGuard};
use liger_pod::plan::PartitionId;
use liger_store::local::LocalTree;

use liger_engine::{Catalog, Key, KeyRange, TableId};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["motor.start-behind-commits"];

/// Versions that a tuple holds.
const VERSIONS: usize = 4;
/// Bytes of a tuple: its head, and 24 for each version.
pub(super) const TUPLE_BYTES: u64 = 64 + 24 * VERSIONS as u64;
/// Bytes of a bucket of the hash table, which is read to find a place for a key or to see that it has none.
pub(super) const BUCKET_BYTES: u64 = 15 * TUPLE_BYTES;

/// Who holds a tuple's lock; 0 is nobody.
pub(super) type Who = u32;

/// A version of a row.
pub(super) struct Version {
    pub(super) at: u64,
    /// The row exists.
    pub(super) live: bool,
    pub(super) bytes: Box<[u8]>,
    /// Bytes that the next version has changed.
    pub(super) delta: u64,
}

/// A row's versions.
#[derive(Default)]
pub(super) struct Tuple {
    pub(super) lock: Who,
    /// Oldest first.
    versions: Vec<Version>,
    /// A version has made room for a newer one.
    forgot: bool,
}

/// What a snapshot shows of a tuple.
pub(super) enum Shown<'t> {
    /// This version, and the bytes of changes between it and the newest.
    Version(&'t Version, u64),
    /// No version is that old, and none ever was.
    Nothing,
    /// The version that it would show is gone.
    Gone,
}

impl Tuple {
    /// The number of the newest version.
    pub(super) fn newest(&self) -> Option<u64> {
        self.versions.last().map(|version| version.at)
    }

    /// True if the row exists now.
    pub(super) fn is_live(&self) -> bool {
        self.versions.last().is_some_and(|version| version.live)
    }

    /// What there was at a time.
    pub(super) fn shown_at(&self, time: u64) -> Shown<'_> {
        match self.versions.iter().rposition(|version| version.at <= time) {
            Some(i) => Shown::Version(&self.versions[i], self.versions[i..].iter().map(|v| v.delta).sum()),
            None if self.forgot => Shown::Gone,
            None => Shown::Nothing,
        }
    }

    /// Adds a version that changes `delta` bytes of the last one; if there is no room, the oldest goes (who
    /// adds one has seen the newest, and who still reads the oldest must begin again).
    pub(super) fn add(&mut self, version: Version, delta: u64) {
        debug_assert!(self.newest().is_none_or(|newest| newest < version.at), "versions grow");
        if self.versions.len() == VERSIONS {
            self.versions.remove(0);
            self.forgot = true;
        }
        if let Some(last) = self.versions.last_mut() {
            last.delta = delta;
        }
        self.versions.push(version);
    }
}

/// The rows of one relation in one partition.
pub(super) struct Share {
    tree: LocalTree,
    pub(super) tuples: Vec<Tuple>,
}

impl Share {
    /// The tuple with this key.
    pub(super) fn find(&self, key: &Key) -> Option<u32> {
        self.tree.get(key.words())
    }

    /// The tuple with this key, made if there is none.
    pub(super) fn place(&mut self, key: &Key) -> u32 {
        self.find(key).unwrap_or_else(|| {
            let tuple = self.tuples.len() as u32;
            self.tuples.push(Tuple::default());
            self.tree.insert(key.words(), tuple).expect("just not found");
            tuple
        })
    }

    /// Visits the tuples of a range in key order while `visit` says so.
    pub(super) fn each(&self, range: &KeyRange, mut visit: impl FnMut(Key, &Tuple) -> bool) {
        let mut at = self.tree.lower_bound(range.low.words());
        while let Some(cursor) = at {
            let (words, tuple) = self.tree.entry(cursor);
            let key = Key::from_words(words);
            if range.ends_before(&key) || !visit(key, &self.tuples[tuple as usize]) {
                return;
            }
            at = self.tree.next(cursor);
        }
    }

    /// All rows that exist.
    pub(super) fn each_live(&self, mut visit: impl FnMut(&Key, &Version)) {
        liger_engine::protocol::each_key(&self.tree, |key, tuple| {
            let newest = self.tuples[tuple as usize].versions.last();
            newest.filter(|version| version.live).into_iter().for_each(|version| visit(&key, version));
        });
    }
}

/// The numbers of versions.
#[derive(Default)]
struct Times {
    last: u64,
    /// Commits that are being written.
    unfinished: BTreeSet<u64>,
}

/// All memory servers, and the clock of the compute server.
pub struct MemoryServers {
    /// By relation and partition.
    shares: Vec<Vec<Latch<Share>>>,
    times: Latch<Times>,
}

impl MemoryServers {
    /// Empty tables.
    pub fn new(catalog: &Catalog, partitions: u16) -> Self {
        let share = |words| Latch::new(Share { tree: LocalTree::new(words), tuples: Vec::new() });
        let shares = catalog.relations().iter();
        let shares = shares.map(|r| (0..partitions).map(|_| share(r.key_words)).collect()).collect();
        Self { shares, times: Latch::default() }
    }

    /// The rows of a relation in a partition.
    pub(super) fn share<F: Fabric>(&self, cx: &Cx<F>, at: (PartitionId, TableId)) -> LatchGuard<'_, Share> {
        self.shares[at.1.index()][at.0.index()].lock(cx)
    }

    /// The time as of which a transaction reads that begins now: all that has committed by then is whole.
    ///
    /// Without that a transaction that only reads, which nobody validates, might see one row of a commit
    /// that is being written, and another as it was before.
    pub(super) fn start<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        let times = self.times.lock(cx);
        let first = times.unfinished.first().filter(|_| !cx.sabotaged("motor.start-behind-commits"));
        first.map_or(times.last, |first| first - 1)
    }

    /// A time for a commit, which is to be ended.
    pub(super) fn begin_commit<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        let mut times = self.times.lock(cx);
        times.last += 1;
        let time = times.last;
        times.unfinished.insert(time);
        time
    }

    /// The commit is written whole, or not at all.
    pub(super) fn end_commit<F: Fabric>(&self, cx: &Cx<F>, time: u64) {
        self.times.lock(cx).unfinished.remove(&time);
    }
}
