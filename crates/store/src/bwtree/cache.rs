//! A host's copies of nodes in DRAM, shared by its workers.
//!
//! Invariants:
//! 1. An entry is a node exactly as it was under one value of its mapping word. Word values do not repeat, so the entry
//!    may be used whenever the word has that value, however old it is: nothing ever needs to be dropped from here.
//! 2. The cache is bounded: a set has four places, and a new entry takes the place of the one not used for longest.
//!
//! It does not touch shared memory, and it is no authority: an empty cache only makes the next lookups slow.

use std::sync::Arc;

use liger_fabric::{Cx, Fabric, Latch};

use super::node::Node;
use super::word::Word;

const WAYS: usize = 4;

#[derive(Clone)]
struct Entry {
    word: Word,
    node: Arc<Node>,
}

/// The entries of one set, most recently used first.
type Set = Vec<Entry>;

/// Copies of index nodes in one host's DRAM, for all trees of the pod. A node of 60 entries of one-word keys takes
/// about 1.2 KiB.
pub struct NodeCache {
    sets: Box<[Latch<Set>]>,
}

impl NodeCache {
    /// A cache of about `nodes` nodes (rounded up to a power of two, at least 16).
    pub fn new(nodes: usize) -> Self {
        let sets = (nodes.div_ceil(WAYS)).next_power_of_two().max(4);
        Self { sets: (0..sets).map(|_| Latch::new(Set::new())).collect() }
    }

    fn set(&self, id: u64) -> &Latch<Set> {
        let mixed = (id >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.sets[(mixed >> 32) as usize & (self.sets.len() - 1)]
    }

    /// The newest copy of node `id` and the word value it was made under.
    pub(super) fn get<F: Fabric>(&self, cx: &Cx<F>, id: u64) -> Option<(Word, Arc<Node>)> {
        let mut set = self.set(id).lock(cx);
        let at = set.iter().position(|e| e.node.id == id)?;
        set[..=at].rotate_right(1);
        Some((set[0].word, set[0].node.clone()))
    }

    /// Remembers a node as it was under `word`.
    pub(super) fn put<F: Fabric>(&self, cx: &Cx<F>, word: Word, node: Arc<Node>) {
        let mut set = self.set(node.id).lock(cx);
        let old = set.iter().position(|e| e.node.id == node.id);
        let out = old.or((set.len() == WAYS).then_some(WAYS - 1)).map(|at| set.remove(at));
        set.insert(0, Entry { word, node });
        drop(set);
        drop(out);
    }

    /// Copies in the cache.
    pub fn len<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.sets.iter().map(|set| set.lock(cx).len()).sum()
    }

    /// True when it holds nothing.
    pub fn is_empty<F: Fabric>(&self, cx: &Cx<F>) -> bool {
        self.len(cx) == 0
    }
}
