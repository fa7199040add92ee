//! The whole tree, walked and checked. For tests, audits and `liger check`; the tree must be at rest.

use std::collections::BTreeMap;

use liger_fabric::{DataAddr, Fabric, SyncAddr};

use super::TreeError;
use super::access::{Op, Seen, Stop, damaged};
use super::key::Fence;

/// What a tree consists of.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Census {
    /// Entries in leaves.
    pub entries: u64,
    /// Levels, 1 for a tree that is one leaf.
    pub levels: u32,
    /// Live leaves.
    pub leaves: u64,
    /// Live inner nodes.
    pub inner_nodes: u64,
    /// Live leaves without entries.
    pub empty_leaves: u64,
    /// Removed nodes that are still linked, or whose removal this host has to finish.
    pub removed_nodes: u64,
    /// Live nodes that no parent names (reached through their left neighbour).
    pub unposted_nodes: u64,
    /// Mapping words, the directory word first.
    pub words: Vec<SyncAddr>,
    /// Records: place and bytes.
    pub records: Vec<(DataAddr, usize)>,
}

impl Census {
    /// Bytes of all records.
    pub fn record_bytes(&self) -> u64 {
        self.records.iter().map(|(_, len)| *len as u64).sum()
    }

    fn count(&mut self, seen: &Seen, root: u64) {
        if seen.id() != root {
            self.words.push(SyncAddr::new(seen.id()));
        }
        self.records.extend_from_slice(&seen.node.chain);
        if seen.is_removed() {
            self.removed_nodes += 1;
        } else if seen.node.level > 0 {
            self.inner_nodes += 1;
        } else {
            self.leaves += 1;
            self.entries += seen.node.len() as u64;
            self.empty_leaves += u64::from(seen.node.len() == 0);
        }
    }
}

impl<F: Fabric> Op<'_, F> {
    /// See `BwTree::check`.
    pub fn census(&self) -> Result<Census, Stop> {
        let mut census = Census::default();
        let mut seen = vec![];
        (census.levels, census.unposted_nodes) = self.linked(&mut |node| seen.push(node.clone()))?;
        census.words.push(self.tree.root());
        seen.iter().for_each(|seen| census.count(seen, self.root()));
        // Most of them are linked as well; some can be found only through the host's notes.
        for (id, word) in self.host.unfinished.of_tree(self.cx, self.root()) {
            let seen = self.load(id)?.filter(|seen| seen.word == word);
            if let Some(seen) = seen.filter(|_| !census.words.contains(&SyncAddr::new(id))) {
                census.count(&seen, self.root());
            }
        }
        Ok(census)
    }

    /// Shows every node that the root leads to, the root first; how many levels there are, and how many nodes
    /// that no parent names.
    pub(super) fn linked(&self, show: &mut dyn FnMut(&Seen)) -> Result<(u32, u64), Stop> {
        let root = self.load(self.root())?.ok_or(TreeError::NotFormatted { root: self.root() })?;
        if root.node.low != Fence::Min || root.node.high != Fence::Max || root.is_removed() {
            return Err(damaged(root.word.record(), "the root does not cover all keys").into());
        }
        let (levels, mut unposted) = (u32::from(root.node.level) + 1, 0);
        let mut level = vec![root];
        loop {
            level.iter().for_each(&mut *show);
            if level[0].node.level == 0 {
                return Ok((levels, unposted));
            }
            level = self.level_below(&level, &mut unposted)?;
        }
    }

    /// The list of the level below, checked against itself and against its parents.
    fn level_below(&self, parents: &[Seen], unposted: &mut u64) -> Result<Vec<Seen>, Stop> {
        let entries = parents.iter().filter(|p| !p.is_removed());
        let entries = entries.flat_map(|p| (0..p.node.len()).map(|at| (p.node.bound(at), p.node.values[at])));
        let entries: Vec<(Fence, u64)> = entries.collect();
        let mut list: Vec<Seen> = vec![];
        let mut id = entries[0].1;
        while id != 0 {
            let seen = self.load_live(id)?;
            self.check_neighbours(list.last(), &seen, &parents[0])?;
            id = seen.node.next;
            list.push(seen);
        }
        let last = list.last().filter(|s| !s.is_removed() && s.node.high == Fence::Max);
        let last =
            last.ok_or_else(|| damaged(parents[0].word.record(), "a level ends before the last key"))?;
        debug_assert!(last.node.next == 0);
        self.check_routes(&entries, &list)?;
        let named: BTreeMap<u64, Fence> = entries.iter().map(|(bound, id)| (*id, *bound)).collect();
        if named.len() != entries.len() {
            return Err(damaged(parents[0].word.record(), "two entries name one child").into());
        }
        let live = list.iter().filter(|s| !s.is_removed());
        *unposted += live.filter(|s| !named.contains_key(&s.id())).count() as u64;
        Ok(list)
    }

    fn check_neighbours(&self, left: Option<&Seen>, seen: &Seen, parent: &Seen) -> Result<(), TreeError> {
        let fault = |what| Err(damaged(seen.word.record(), what));
        if seen.node.level + 1 != parent.node.level {
            return fault("sibling of another level");
        }
        if let Err(what) = seen.node.verify() {
            return fault(what);
        }
        if seen.is_removed() && seen.node.level == 0 && seen.node.len() > 0 {
            return fault("a removed leaf has entries");
        }
        match left {
            Some(left) if left.node.high > seen.node.low => fault("ranges of neighbours overlap"),
            _ => Ok(()),
        }
    }

    /// Each child is the owner of the first key of its range, or left of the owner.
    fn check_routes(&self, entries: &[(Fence, u64)], list: &[Seen]) -> Result<(), TreeError> {
        let place: BTreeMap<u64, usize> = list.iter().enumerate().map(|(at, s)| (s.id(), at)).collect();
        let mut low = Fence::Min;
        for (bound, id) in entries {
            let owner = list.iter().position(|s| !s.is_removed() && s.node.high > low);
            let (Some(child), Some(owner)) = (place.get(id), owner) else {
                return Err(TreeError::Damaged { offset: *id, what: "child that is not in the list" });
            };
            if *child > owner {
                return Err(damaged(list[*child].word.record(), "a route misses the owner"));
            }
            if low >= *bound {
                return Err(damaged(list[*child].word.record(), "bounds of parents do not ascend"));
            }
            low = *bound;
        }
        Ok(())
    }
}
