//! What each host of a test pod keeps in its DRAM, and what tests of the index ask of it.

use liger_fabric::{Cx, Fabric};
use liger_pod::epochs::Epochs;
use liger_pod::heap::Heap;
use liger_pod::plan::Plan;
use liger_store::bwtree::{BwTree, Census, NodeCache, TreeHost, Unfinished};

/// One host's DRAM.
pub struct Host {
    pub heap: Heap,
    pub epochs: Epochs,
    pub cache: NodeCache,
    pub unfinished: Unfinished,
}

impl Host {
    pub fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan, cached_nodes: usize) -> Self {
        Self {
            heap: Heap::new(plan, cx.host(), 1),
            epochs: Epochs::new(cx, plan),
            cache: NodeCache::new(cached_nodes),
            unfinished: Unfinished::default(),
        }
    }

    pub fn tree(&self) -> TreeHost<'_> {
        TreeHost { heap: &self.heap, epochs: &self.epochs, cache: &self.cache, unfinished: &self.unfinished }
    }

    /// Does this host's share of reclamation in a pod whose members are `members`.
    pub fn collect<F: Fabric>(&self, cx: &Cx<F>, members: u16) -> usize {
        self.epochs.collect(cx, &self.heap, |_| members)
    }
}

/// A key of `width` words whose order is that of `number`; the distinguishing word is not always the last.
pub fn key(width: usize, number: u64) -> Vec<u64> {
    let mut words = vec![7; width];
    if width > 1 {
        words[0] = number / 10;
    }
    words[width - 1] = if width > 1 { number % 10 } else { number };
    words
}

/// Checks the tree, and that its memory is all that is in use in this host's chunks.
pub fn audit<F: Fabric>(cx: &Cx<F>, host: &Host, tree: &BwTree) -> Census {
    let census = tree.check(cx, &host.tree()).unwrap();
    let usage = host.heap.usage(cx);
    assert_eq!(usage.mapping_bytes, 8 * (census.words.len() as u64 - 1), "{census:?}");
    let words = census.words[1..].iter().map(|word| word.offset());
    let reachable = words.chain(census.records.iter().map(|(at, _)| at.offset())).collect();
    let audit = host.heap.audit(cx, &reachable);
    assert!(audit.is_clean(), "{audit:?}");
    census
}
