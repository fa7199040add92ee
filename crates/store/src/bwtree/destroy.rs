//! Taking a whole tree away: its owner hands its part of the keys to somebody who makes a tree of its own.
//!
//! ```text
//! directory word := dead      whoever comes from now on finds no tree
//! word of each node := dead   whoever is on its way starts over, and finds no tree
//! records, then words, to the epochs
//! ```
//!
//! A host that dies in between leaves nodes that nothing leads to, as after any other removal.

use liger_fabric::Fabric;

use super::access::{Op, Stop};

impl<F: Fabric> Op<'_, F> {
    /// See `BwTree::destroy`.
    pub fn destroy(&self) -> Result<(), Stop> {
        let mut nodes = vec![];
        self.linked(&mut |seen| nodes.push(seen.clone()))?;
        while let Some((id, word)) = self.host.unfinished.take(self.cx, self.root()) {
            let seen = self.load(id)?.filter(|seen| seen.word == word);
            nodes.extend(seen.filter(|seen| nodes.iter().all(|node| node.id() != seen.id())));
        }
        debug_assert_eq!(nodes[0].id(), self.root(), "the root is the first one");
        for seen in &nodes {
            let is_first = self.swap(seen.id(), seen.word, seen.word.dead());
            assert!(is_first, "nobody else changes the tree, and node {:#x} has changed", seen.id());
            self.retire_chain(&seen.node);
            if seen.id() != self.root() {
                self.retire_id(seen.id());
            }
        }
        Ok(())
    }
}
