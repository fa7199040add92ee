//! Loading and installing nodes: the only file of the tree that touches shared memory.
//!
//! Invariants:
//! 1. *First touch*: the lines of a record are invalidated, and the invalidation is fenced, before a host
//!    reads them under a mapping word for the first time; afterwards the host uses its DRAM copy under that
//!    word. So neither a recycled block nor a prefetched line is ever taken for the record, and readers need
//!    no promise from other hosts.
//! 2. A record is written, written back and fenced before a compare-and-swap of the mapping word names it.
//! 3. Every operation is pinned from before its first load to its end, so a record that a word named is not
//!    reused while it is read, and neither is an id that a node named.
//! 4. A record is read only where a block may lie, and the ids that a node names are words of the heap: this
//!    is looked at when it is decoded, so whoever follows an id need not. Levels are compared on each step.

use std::sync::Arc;

use liger_fabric::{Cx, DataAddr, Fabric, LINE, SyncAddr};
use liger_pod::heap::{BlockClass, OutOfMemory, WordClass};
use zerocopy::IntoBytes;

use super::node::{Block, Change, Fault, MAX_CHAIN, Node, Record, encode_delta};
use super::word::Word;
use super::{BwTree, TreeError, TreeHost};

/// Readers of records invalidate before they read (invariant 1), so records need not wait until every host
/// has dropped them from its cache, as blocks of class `Node` do.
const RECORDS: BlockClass = BlockClass::Scratch;

/// Why an attempt did not finish.
pub(super) enum Stop {
    /// Somebody removed a node under us: start again at the root.
    Restart,
    /// It cannot be done.
    Fail(TreeError),
}

impl From<TreeError> for Stop {
    fn from(error: TreeError) -> Self {
        Stop::Fail(error)
    }
}

impl From<OutOfMemory> for Stop {
    fn from(error: OutOfMemory) -> Self {
        Stop::Fail(error.into())
    }
}

/// A node under a value of its mapping word.
#[derive(Clone)]
pub(super) struct Seen {
    pub word: Word,
    pub node: Arc<Node>,
}

impl Seen {
    pub fn id(&self) -> u64 {
        self.node.id
    }

    pub fn is_removed(&self) -> bool {
        self.word.is_removed()
    }
}

/// One operation of one worker on one tree.
pub(super) struct Op<'a, F: Fabric> {
    pub cx: &'a Cx<F>,
    pub host: TreeHost<'a>,
    pub tree: BwTree,
}

impl<F: Fabric> Op<'_, F> {
    pub fn root(&self) -> u64 {
        self.tree.root.offset()
    }

    /// The current value of a node's word.
    pub fn word(&self, id: u64) -> Word {
        Word(self.cx.load(SyncAddr::new(id)))
    }

    /// The node now, or `None` if the id is dead. The caller is pinned and came here by a live route.
    pub fn load(&self, id: u64) -> Result<Option<Seen>, TreeError> {
        let word = self.word(id);
        if !word.is_live() {
            return Ok(None);
        }
        let copy = match self.host.cache.get(self.cx, id) {
            Some((seen, node)) if seen == word || self.cx.sabotaged("bwtree.first-touch-check") => {
                return Ok(Some(Seen { word, node }));
            }
            copy => copy,
        };
        let node = Arc::new(self.fetch(id, word, copy)?);
        self.host.cache.put(self.cx, word, node.clone());
        Ok(Some(Seen { word, node }))
    }

    /// The node, whose id the caller knows to be live unless the tree changed since.
    pub fn load_live(&self, id: u64) -> Result<Seen, Stop> {
        self.load(id)?.ok_or(Stop::Restart)
    }

    /// The node of this level that an entry or a link names.
    pub fn load_at(&self, id: u64, level: u8) -> Result<Seen, Stop> {
        if id == 0 {
            return Err(
                TreeError::Damaged { offset: self.root(), what: "a level ends before the last key" }.into()
            );
        }
        let seen = self.load_live(id)?;
        if seen.node.level != level {
            return Err(damaged(seen.word.record(), "node of another level").into());
        }
        Ok(seen)
    }

    /// The node that entry `at` of an inner node names.
    pub fn child(&self, parent: &Seen, at: usize) -> Result<Seen, Stop> {
        debug_assert!(parent.node.level > 0, "a descent ends at leaves: it looks at each node's level");
        self.load_at(parent.node.values[at], parent.node.level - 1)
    }

    /// The node that a node names as the next of its level.
    pub fn right_of(&self, seen: &Seen) -> Result<Seen, Stop> {
        self.load_at(seen.node.next, seen.node.level)
    }

    /// Decodes the chain under `word`; if it ends in the chain of `copy`, only what is new.
    fn fetch(&self, id: u64, word: Word, copy: Option<(Word, Arc<Node>)>) -> Result<Node, TreeError> {
        let mut changes: Vec<(Change, Block)> = Vec::new();
        let mut at = word;
        let mut node = loop {
            if let Some((_, node)) = copy.as_ref().filter(|(seen, _)| *seen == at) {
                break Node::clone(node);
            }
            let place = at.record();
            let record = self.read(id, place)?;
            if !record.kind.is_delta() {
                let node = record.node(place).map_err(|fault| damaged(place, fault))?;
                self.check_ids(&node).map_err(|fault| damaged(place, fault))?;
                break node;
            }
            if changes.len() == MAX_CHAIN {
                return Err(damaged(place, "chain too long"));
            }
            changes.push((record.change(), (place, record.bytes())));
            at = Word(record.head.link);
            if !at.is_live() {
                return Err(damaged(place, "change of no node"));
            }
        };
        if node.level > 0 && !changes.is_empty() {
            return Err(damaged(word.record(), "change of an inner node"));
        }
        for (change, block) in changes.into_iter().rev() {
            node.apply(change).map_err(|fault| damaged(block.0, fault))?;
            node.chain.insert(0, block);
        }
        Ok(node)
    }

    /// Whether all ids that a node names may be read.
    fn check_ids(&self, node: &Node) -> Result<(), Fault> {
        let is_word = |id: &u64| self.host.heap.has_word(*id);
        if node.next != 0 && !is_word(&node.next) {
            return Err("a sibling outside of the heap");
        }
        if node.level > 0 && !node.values.iter().all(is_word) {
            return Err("a child outside of the heap");
        }
        Ok(())
    }

    /// Reads a record for the first time under the current word.
    fn read(&self, id: u64, place: DataAddr) -> Result<Record, TreeError> {
        if !self.host.heap.may_hold(place.offset(), LINE) {
            return Err(damaged(place, "a record outside of the heap"));
        }
        let mut words = vec![0u64; LINE / 8];
        self.cx.invalidate(place, LINE);
        self.cx.fence();
        self.cx.read(place, words.as_mut_bytes());
        let len = Record::words_in(&words, self.tree.width()).map_err(|fault| damaged(place, fault))?;
        if !self.host.heap.may_hold(place.offset(), len * 8) {
            return Err(damaged(place, "a record that is longer than its chunk"));
        }
        let rest = len * 8 - LINE;
        if rest > 0 {
            words.resize(len, 0);
            let behind = place.byte(LINE as u64);
            self.cx.invalidate(behind, rest);
            self.cx.fence();
            self.cx.read(behind, words[LINE / 8..].as_mut_bytes());
        }
        Record::parse(words, id).map_err(|fault| damaged(place, fault))
    }

    /// Writes a record where nobody knows it yet.
    pub fn write(&self, words: &[u64]) -> Result<Block, TreeError> {
        let bytes = words.as_bytes();
        debug_assert!(!bytes.is_empty() && bytes.len().is_multiple_of(LINE), "a record is full lines");
        let place = self.host.heap.alloc(self.cx, RECORDS, bytes.len())?;
        self.cx.write(place, bytes);
        self.cx.write_back(place, bytes.len());
        self.cx.fence();
        Ok((place, bytes.len()))
    }

    /// Gives back a record that no word ever named.
    pub fn discard(&self, block: Block) {
        self.host.heap.free(self.cx, RECORDS, block.0, block.1);
    }

    /// Changes the word of a node that was seen; false if somebody was faster.
    pub fn swap(&self, id: u64, seen: Word, to: Word) -> bool {
        debug_assert!(to.follows(seen), "{seen:?} to {to:?} is no step of a word");
        self.cx.compare_exchange(SyncAddr::new(id), seen.0, to.0).is_ok()
    }

    /// Replaces a node by a new base; false if somebody was faster. The old chain is retired.
    pub fn install(&self, seen: &Seen, mut node: Node) -> Result<bool, TreeError> {
        debug_assert!(seen.id() == node.id && !seen.is_removed());
        debug_assert!(node.high <= seen.node.high && node.low <= seen.node.low, "fences only sink");
        let block = self.write(&node.encode())?;
        let word = seen.word.installed(block.0);
        if !self.swap(node.id, seen.word, word) {
            self.discard(block);
            return Ok(false);
        }
        node.chain = vec![block];
        self.retire_chain(&seen.node);
        self.host.cache.put(self.cx, word, Arc::new(node));
        Ok(true)
    }

    /// Puts a change on top of a leaf's chain; false if somebody was faster.
    pub fn append(&self, seen: &Seen, change: Change) -> Result<bool, TreeError> {
        debug_assert!(!seen.is_removed());
        let block = self.write(&encode_delta(&seen.node, change, seen.word.0))?;
        let word = seen.word.installed(block.0);
        if !self.swap(seen.id(), seen.word, word) {
            self.discard(block);
            return Ok(false);
        }
        let mut node = Node::clone(&seen.node);
        node.apply(change).expect("the caller checked the key");
        node.chain.insert(0, block);
        self.host.cache.put(self.cx, word, Arc::new(node));
        Ok(true)
    }

    /// A new id that no node names yet, with the dead value that its word has now.
    pub fn new_id(&self) -> Result<(u64, Word), TreeError> {
        let at = self.host.heap.alloc_word(self.cx, WordClass::Mapping)?;
        Ok((at.offset(), Word(self.cx.load(at)).unnamed()))
    }

    /// Gives back an id that no reachable node ever named.
    pub fn discard_id(&self, id: u64, word: Word) {
        let at = SyncAddr::new(id);
        self.cx.store(at, word.dead().0);
        self.host.heap.free_word(self.cx, WordClass::Mapping, at);
    }

    /// Hands the records of a node that no word names any more to the epochs.
    pub fn retire_chain(&self, node: &Node) {
        debug_assert!(!node.chain.is_empty(), "node {:#x} was never written", node.id);
        for (place, len) in &node.chain {
            if self.cx.sabotaged("bwtree.retire-without-grace") {
                self.host.heap.free(self.cx, RECORDS, *place, *len);
            } else {
                self.host.epochs.retire(self.cx, RECORDS, *place, *len);
            }
        }
    }

    /// Hands an id that no node names any more to the epochs.
    pub fn retire_id(&self, id: u64) {
        self.host.epochs.retire_word(self.cx, WordClass::Mapping, SyncAddr::new(id));
    }
}

pub(super) fn damaged(place: DataAddr, what: Fault) -> TreeError {
    TreeError::Damaged { offset: place.offset(), what }
}
