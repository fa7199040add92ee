//! A host's copies of nodes in DRAM, shared by its workers.
//!
//! Invariants:
//! 1. An entry is a node exactly as it was under one value of its mapping word. Word values do not repeat, so
//!    the entry may be used whenever the word has that value, however old it is: nothing ever needs to be
//!    dropped from here.
//! 2. The cache is bounded: a set has four places, and a new entry takes the place of the one not used for
//!    longest.
//!
//! It does not touch shared memory, and it is no authority: an empty cache only makes the next lookups slow.

use std::sync::Arc;

use liger_fabric::{Cx, Fabric, Latch};

use super::node::Node;
use super::word::Word;

const WAYS: usize = 4;

/// The copies of one set. What a look-up compares lies together, and the nodes are not touched by it.
#[derive(Default)]
struct Set {
    /// 0: no entry.
    ids: [u64; WAYS],
    words: [u64; WAYS],
    nodes: [Option<Arc<Node>>; WAYS],
    /// When each entry was last used, by the set's own count of uses.
    used: [u32; WAYS],
    uses: u32,
}

impl Set {
    fn find(&mut self, id: u64) -> Option<usize> {
        let way = self.ids.iter().position(|i| *i == id)?;
        self.touch(way);
        Some(way)
    }

    fn touch(&mut self, way: usize) {
        debug_assert!(self.ids[way] != 0, "what is used is an entry");
        self.uses = self.uses.wrapping_add(1);
        self.used[way] = self.uses;
    }

    /// The place of `id`, else an empty one, else the one not used for longest.
    fn place(&self, id: u64) -> usize {
        debug_assert!(id != 0, "0 marks an empty place");
        debug_assert!(self.ids.iter().filter(|i| **i == id).count() <= 1, "a node has one entry");
        let own = self.ids.iter().position(|i| *i == id);
        let age = |way: &usize| (self.ids[*way] != 0, u32::MAX - self.uses.wrapping_sub(self.used[*way]));
        own.or_else(|| (0..WAYS).min_by_key(age)).expect("a set has places")
    }
}

/// Copies of index nodes in one host's DRAM, for all trees of the pod. A node of 60 entries of one-word keys
/// takes about 1.2 KiB.
pub struct NodeCache {
    sets: Box<[Latch<Set>]>,
}

impl NodeCache {
    /// A cache of about `nodes` nodes (rounded up to a power of two, at least 16).
    pub fn new(nodes: usize) -> Self {
        let sets = (nodes.div_ceil(WAYS)).next_power_of_two().max(4);
        Self { sets: (0..sets).map(|_| Latch::default()).collect() }
    }

    fn set(&self, id: u64) -> &Latch<Set> {
        let mixed = (id >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.sets[(mixed >> 32) as usize & (self.sets.len() - 1)]
    }

    /// The newest copy of node `id` and the word value it was made under.
    #[inline]
    pub(super) fn get<F: Fabric>(&self, cx: &Cx<F>, id: u64) -> Option<(Word, Arc<Node>)> {
        let mut set = self.set(id).lock(cx);
        let way = set.find(id)?;
        let node = set.nodes[way].clone().expect("an entry has a node");
        debug_assert!(node.id == id && Word(set.words[way]).is_live(), "an entry of node {id:#x}");
        Some((Word(set.words[way]), node))
    }

    /// Remembers a node as it was under `word`.
    pub(super) fn put<F: Fabric>(&self, cx: &Cx<F>, word: Word, node: Arc<Node>) {
        debug_assert!(word.is_live(), "a dead word has no node");
        let newest = node.chain.first().map(|(place, _)| *place);
        debug_assert_eq!(newest, Some(word.record()), "the node is of another word");
        let mut set = self.set(node.id).lock(cx);
        let way = set.place(node.id);
        set.ids[way] = node.id;
        set.words[way] = word.0;
        set.touch(way);
        let old = set.nodes[way].replace(node);
        drop(set);
        drop(old);
    }

    /// Copies in the cache.
    pub fn len<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.sets.iter().map(|set| set.lock(cx).nodes.iter().flatten().count()).sum()
    }

    /// True when it holds nothing.
    pub fn is_empty<F: Fabric>(&self, cx: &Cx<F>) -> bool {
        self.len(cx) == 0
    }
}
