//! Removals of nodes that stopped half way on this host, for want of memory.
//!
//! Nothing may lead to such a node any more: it is out of its parent, and the removed node that linked to it
//! is gone. So the host that could not go on remembers it, and every later change of the tree on this host
//! finishes one.
//!
//! Invariants:
//! 1. A node is here with the word that it had when it was removed. Words do not repeat, and nobody changes
//!    the word of a removed node but to claim it: while the word is this one, the removal is the same.
//! 2. What is here belongs to this incarnation of the host: when the host dies, the sweep of its heap finds
//!    the nodes that nothing leads to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use liger_fabric::{Cx, Fabric, Latch};

use super::word::Word;

/// One host's unfinished removals, of all trees.
#[derive(Default)]
pub struct Unfinished {
    /// By the tree's directory word and the node.
    removals: Latch<BTreeMap<(u64, u64), Word>>,
    count: AtomicUsize,
}

impl Unfinished {
    pub(super) fn note<F: Fabric>(&self, cx: &Cx<F>, root: u64, id: u64, word: Word) {
        debug_assert!(word.is_removed(), "node {id:#x} is not removed: {word:?}");
        let mut removals = self.removals.lock(cx);
        removals.insert((root, id), word);
        self.count.store(removals.len(), Ordering::Relaxed);
    }

    /// One of a tree, which is forgotten here.
    pub(super) fn take<F: Fabric>(&self, cx: &Cx<F>, root: u64) -> Option<(u64, Word)> {
        // A hint: whoever misses one comes by again.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut removals = self.removals.lock(cx);
        let (&place, _) = removals.range((root, 0)..=(root, u64::MAX)).next()?;
        let word = removals.remove(&place)?;
        self.count.store(removals.len(), Ordering::Relaxed);
        Some((place.1, word))
    }

    /// All of a tree.
    pub(super) fn of_tree<F: Fabric>(&self, cx: &Cx<F>, root: u64) -> Vec<(u64, Word)> {
        let removals = self.removals.lock(cx);
        removals.range((root, 0)..=(root, u64::MAX)).map(|((_, id), word)| (*id, *word)).collect()
    }
}
