//! Ordered reads: each leaf is a consistent snapshot, and a scan can be checked afterwards.

use liger_fabric::{Fabric, SyncAddr};

use super::access::{Op, Stop};
use super::key::{Fence, Key, Target};

/// Entries of a tree, in ascending order.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Entries {
    /// Keys, flat: as many words per entry as the tree's keys have.
    pub keys: Vec<u64>,
    /// Values.
    pub values: Vec<u64>,
}

/// The mapping words of the leaves that a read covered, with the values they had. They stay meaningful after
/// the read: word values do not repeat (`BwTree::unchanged`).
pub type Trace = Vec<(SyncAddr, u64)>;

impl Entries {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Key and value of entry `index`.
    pub fn get(&self, index: usize) -> (&[u64], u64) {
        debug_assert!(index < self.len() && self.keys.len().is_multiple_of(self.len()));
        let width = self.keys.len() / self.values.len();
        (&self.keys[index * width..][..width], self.values[index])
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u64], u64)> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    fn truncate(&mut self, len: usize) {
        debug_assert!(len <= self.len(), "what was there before stays");
        let width = if self.is_empty() { 0 } else { self.keys.len() / self.values.len() };
        self.keys.truncate(len * width);
        self.values.truncate(len);
    }
}

impl<F: Fabric> Op<'_, F> {
    /// Appends up to `limit` entries of `[from, upto)` to `out`. See `BwTree::scan`.
    pub fn scan(
        &self,
        from: &Key,
        upto: Option<&Key>,
        limit: usize,
        out: &mut Entries,
        trace: &mut Trace,
    ) -> Result<(), Stop> {
        let (entries, traced) = (out.len(), trace.len());
        let done = self.scan_leaves(from, upto, limit, out, trace);
        if done.is_err() {
            out.truncate(entries);
            trace.truncate(traced);
        }
        debug_assert!(out.len() - entries <= limit, "{} entries of {limit}", out.len() - entries);
        debug_assert_eq!(out.keys.len(), out.len() * self.tree.width(), "keys of one width");
        done
    }

    fn scan_leaves(
        &self,
        from: &Key,
        upto: Option<&Key>,
        limit: usize,
        out: &mut Entries,
        trace: &mut Trace,
    ) -> Result<(), Stop> {
        let width = self.tree.width();
        let full = out.len() + limit;
        let mut leaf = self.descend(&Target::At(*from), 0)?.seen;
        let mut from = *from;
        loop {
            trace.push((SyncAddr::new(leaf.id()), leaf.word.0));
            let node = &leaf.node;
            let first = node.find(from.words(width)).unwrap_or_else(|at| at);
            let end = upto.map_or(node.len(), |key| node.find(key.words(width)).unwrap_or_else(|at| at));
            let end = end.min(first + (full - out.len()));
            // A removed leaf has no entries; the range it had is the next one's.
            if first < end {
                out.keys.extend_from_slice(&node.keys[first * width..end * width]);
                out.values.extend_from_slice(&node.values[first..end]);
            }
            let Fence::At(high) = node.high else { return Ok(()) };
            if !leaf.is_removed() {
                from = from.max(high);
            }
            if out.len() == full || upto.is_some_and(|key| *key <= from) {
                return Ok(());
            }
            leaf = self.right_of(&leaf)?;
        }
    }

    /// The first entry at or after `key`, traced. See `BwTree::first_at_or_after`.
    pub fn first_at_or_after(&self, key: &Key, trace: &mut Trace) -> Result<Option<(Key, u64)>, Stop> {
        let mut out = Entries::default();
        self.scan(key, None, 1, &mut out, trace)?;
        Ok((!out.is_empty()).then(|| (Key::new(&out.keys), out.values[0])))
    }

    /// The last entry before `key`, traced. See `BwTree::last_before`.
    pub fn last_before(&self, key: &Key, trace: &mut Trace) -> Result<Option<(Key, u64)>, Stop> {
        let traced = trace.len();
        let mut bound = *key;
        loop {
            let place = match self.descend(&Target::Before(bound), 0) {
                Ok(place) => place,
                Err(stop) => {
                    trace.truncate(traced);
                    return Err(stop);
                }
            };
            let (seen, node) = (&place.seen, &place.seen.node);
            trace.push((SyncAddr::new(seen.id()), seen.word.0));
            let below = node.find(bound.words(node.width)).unwrap_or_else(|at| at);
            if below > 0 {
                return Ok(Some((Key::new(node.key(below - 1)), node.values[below - 1])));
            }
            // Everything from the floor on belongs to this leaf, which has nothing there.
            match place.floor {
                Fence::At(floor) => bound = floor,
                _ => return Ok(None),
            }
        }
    }
}
