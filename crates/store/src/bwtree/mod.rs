//! The index of shared tuples: an ordered tree whose nodes are immutable records in SWcc memory, and whose
//! whole mutable state is one sync word per node.
//!
//! After the Bw-tree as converted for partially coherent memory (Wu et al., Guidelines for Building Indexes
//! on Partially Cache-Coherent CXL Shared Memory: mapping words are sync data, nodes are protected data, out
//! of place), with four differences that docs/protocols/shared-index.md argues: no mapping table (a node's id
//! is the address of its word), splits and removals without split, remove or abort deltas, a DRAM copy per
//! host instead of invalidation rounds before reuse, and a fixed key width.
//!
//! Invariants:
//! 1. The set of entries changes in single compare-and-swaps of one leaf's word, conditional on the record
//!    that the change was built from. Whatever else a host does, and wherever it dies, leaves the set alone.
//! 2. The live nodes of a level partition the keys: a node owns from the high fence of the live node before
//!    it to its own. A node's high fence only sinks (splits); when a node is removed its range goes to the
//!    next live node.
//! 3. Routes lead to the owner of a key or left of it, and the way from there is to the right (`descend`).
//! 4. What no route and no link reaches any more is given to the epochs, once (`unlink`).
//! 5. Readers write nothing shared and wait for nobody.
//!
//! It does not know what values mean, it does not merge nodes that are merely underfull, its height never
//! shrinks, and it does not cache routes across operations (every level's word is loaded; they are cached
//! sync words in an HWcc pod).

mod access;
mod cache;
mod change;
mod check;
mod descend;
mod destroy;
mod key;
mod node;
mod scan;
mod unfinished;
mod unlink;
mod word;

use liger_fabric::{Cx, Fabric, SyncAddr};
use liger_pod::epochs::Epochs;
use liger_pod::heap::{Heap, OutOfMemory};

use access::{Op, Stop};
use node::Node;

pub use cache::NodeCache;
pub use check::Census;
pub use key::{Fence, Key, MAX_WIDTH};
pub use node::{MAX_CAPACITY, MAX_CHAIN};
pub use scan::{Entries, Trace};
pub use unfinished::Unfinished;

/// Protocol steps that a test can leave out.
pub const SABOTAGE_STEPS: &[&str] = &[
    "bwtree.first-touch-check",
    "bwtree.fence-check",
    "bwtree.removed-check",
    "bwtree.sibling-before-split",
    "bwtree.retire-without-grace",
    "bwtree.lower-fence",
    "bwtree.lower-bound",
    "bwtree.detach",
    "bwtree.unlink",
    "bwtree.note-unfinished",
    "bwtree.bump",
];

/// Entries in a node: a leaf of one-word keys takes 1 KiB.
const CAPACITY: u16 = 61;
/// Deltas upon a base: each is a line that every reading host fetches.
const CHAIN: u8 = 8;
/// Starts over from the root before an operation gives up: nothing but damage keeps a way from leading
/// anywhere.
const MAX_RESTARTS: u32 = 100_000;

/// An index; a handle that any host makes for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BwTree {
    root: SyncAddr,
    width: u8,
    capacity: u16,
    chain: u8,
}

/// What a host lends to the operations of its workers.
#[derive(Clone, Copy)]
pub struct TreeHost<'a> {
    /// Where words and records come from.
    pub heap: &'a Heap,
    /// Where they go.
    pub epochs: &'a Epochs,
    /// The host's copies of nodes.
    pub cache: &'a NodeCache,
    /// What the host could not finish.
    pub unfinished: &'a Unfinished,
}

/// Why an operation failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// No room; the entries are as before.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A record is not what its mapping word promises.
    #[error("damaged index node at {offset:#x}: {what}")]
    Damaged {
        /// Offset of the record.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The directory word names no tree.
    #[error("no index at directory word {root:#x}")]
    NotFormatted {
        /// Offset of the directory word.
        root: u64,
    },
    /// The directory word names a tree already.
    #[error("an index exists at directory word {root:#x}")]
    Exists {
        /// Offset of the directory word.
        root: u64,
    },
    /// A key of another width than the tree's.
    #[error("a key of {given} words in an index of {width}")]
    KeyWidth {
        /// Words of the key.
        given: usize,
        /// Words of the tree's keys.
        width: usize,
    },
}

impl BwTree {
    /// The tree at a directory word, with keys of `width` words. All hosts must say the same width.
    ///
    /// # Panics
    /// If the width is not 1 to 8.
    pub const fn new(root: SyncAddr, width: usize) -> Self {
        assert!(width >= 1 && width <= MAX_WIDTH, "keys have 1 to 8 words");
        Self { root, width: width as u8, capacity: CAPACITY, chain: CHAIN }
    }

    /// The same tree with other limits: entries in a node (2 to 256) and deltas upon a leaf's base (0 to 63).
    /// They bind the writes through this handle only; tests make trees of tiny nodes with it.
    pub const fn with_limits(self, capacity: usize, chain: usize) -> Self {
        assert!(2 <= capacity && capacity <= MAX_CAPACITY && chain < MAX_CHAIN);
        Self { capacity: capacity as u16, chain: chain as u8, ..self }
    }

    /// The directory word.
    pub const fn root(&self) -> SyncAddr {
        self.root
    }

    /// Words in a key.
    pub const fn width(&self) -> usize {
        self.width as usize
    }

    const fn capacity(&self) -> usize {
        self.capacity as usize
    }

    const fn chain(&self) -> usize {
        self.chain as usize
    }

    fn key(&self, words: &[u64]) -> Result<Key, TreeError> {
        let (given, width) = (words.len(), self.width());
        if given == width { Ok(Key::new(words)) } else { Err(TreeError::KeyWidth { given, width }) }
    }

    /// Runs an operation, pinned, until no removal gets in its way.
    fn run<F: Fabric, T>(
        &self,
        cx: &Cx<F>,
        host: &TreeHost<'_>,
        mut attempt: impl FnMut(&Op<'_, F>) -> Result<T, Stop>,
    ) -> Result<T, TreeError> {
        let _pin = host.epochs.pin(cx);
        let op = Op { cx, host: *host, tree: *self };
        for _ in 0..MAX_RESTARTS {
            match attempt(&op) {
                Ok(done) => return Ok(done),
                Err(Stop::Fail(error)) => return Err(error),
                Err(Stop::Restart) => cx.pause(),
            }
        }
        Err(TreeError::Damaged { offset: self.root.offset(), what: "no way from the root leads to the key" })
    }

    /// Formats an empty tree at the directory word; one host does it.
    pub fn create<F: Fabric>(&self, cx: &Cx<F>, host: &TreeHost<'_>) -> Result<(), TreeError> {
        let op = Op { cx, host: *host, tree: *self };
        let (root, before) = (op.root(), op.word(op.root()));
        if before.is_live() {
            return Err(TreeError::Exists { root });
        }
        let block = op.write(&Node::empty(root, 0, self.width()).encode())?;
        if op.swap(root, before, before.unnamed().installed(block.0)) {
            return Ok(());
        }
        op.discard(block);
        Err(TreeError::Exists { root })
    }

    /// Takes the tree away, with all its entries, which needs no memory: the directory word names none
    /// afterwards, until somebody creates the next one. The caller's host is the only one that changes it;
    /// readers that are in it find no tree. Without one there is nothing to do.
    ///
    /// # Errors
    /// If a node is damaged: nothing has changed.
    pub fn destroy<F: Fabric>(&self, cx: &Cx<F>, host: &TreeHost<'_>) -> Result<(), TreeError> {
        match self.run(cx, host, |op| op.destroy()) {
            Err(TreeError::NotFormatted { .. }) => Ok(()),
            done => done,
        }
    }

    /// The value of a key.
    pub fn get<F: Fabric>(
        &self,
        cx: &Cx<F>,
        host: &TreeHost<'_>,
        key: &[u64],
    ) -> Result<Option<u64>, TreeError> {
        let key = self.key(key)?;
        self.run(cx, host, |op| op.get(&key))
    }

    /// Adds an entry; false, and nothing is changed, if the key is there.
    pub fn insert<F: Fabric>(
        &self,
        cx: &Cx<F>,
        host: &TreeHost<'_>,
        key: &[u64],
        value: u64,
    ) -> Result<bool, TreeError> {
        let key = self.key(key)?;
        self.run(cx, host, |op| op.finish_earlier().and_then(|()| op.insert(&key, value)))
    }

    /// Takes an entry out and returns its value, if it is there. Needs a little memory, as every change does.
    pub fn remove<F: Fabric>(
        &self,
        cx: &Cx<F>,
        host: &TreeHost<'_>,
        key: &[u64],
    ) -> Result<Option<u64>, TreeError> {
        let key = self.key(key)?;
        self.run(cx, host, |op| op.finish_earlier().and_then(|()| op.remove(&key)))
    }

    /// Appends the entries of `[from, upto)` to `out`, ascending, at most `limit`, and the mapping word of
    /// every leaf that was looked at to `trace`. Each leaf is a snapshot; [`BwTree::unchanged`] tells whether
    /// together they are.
    #[expect(clippy::too_many_arguments, reason = "a range, a limit and two buffers that callers reuse")]
    pub fn scan<F: Fabric>(
        &self,
        cx: &Cx<F>,
        host: &TreeHost<'_>,
        from: &[u64],
        upto: Option<&[u64]>,
        limit: usize,
        out: &mut Entries,
        trace: &mut Trace,
    ) -> Result<(), TreeError> {
        let from = self.key(from)?;
        let upto = upto.map(|key| self.key(key)).transpose()?;
        self.run(cx, host, |op| op.scan(&from, upto.as_ref(), limit, out, trace))
    }

    /// True when every leaf of the trace is as it was: then at the moment of this call (and ever since the
    /// read) the keys that the read covered were exactly those that it found.
    pub fn unchanged<F: Fabric>(&self, cx: &Cx<F>, trace: &[(SyncAddr, u64)]) -> bool {
        trace.iter().all(|(word, seen)| cx.load(*word) == *seen)
    }

    /// The first entry at or after a key.
    pub fn first_at_or_after<F: Fabric>(
        &self,
        cx: &Cx<F>,
        host: &TreeHost<'_>,
        key: &[u64],
        trace: &mut Trace,
    ) -> Result<Option<(Key, u64)>, TreeError> {
        let key = self.key(key)?;
        self.run(cx, host, |op| op.first_at_or_after(&key, trace))
    }

    /// The last entry before a key.
    pub fn last_before<F: Fabric>(
        &self,
        cx: &Cx<F>,
        host: &TreeHost<'_>,
        key: &[u64],
        trace: &mut Trace,
    ) -> Result<Option<(Key, u64)>, TreeError> {
        let key = self.key(key)?;
        self.run(cx, host, |op| op.last_before(&key, trace))
    }

    /// Walks the whole tree, checks every invariant, and counts. Nobody may change the tree meanwhile.
    pub fn check<F: Fabric>(&self, cx: &Cx<F>, host: &TreeHost<'_>) -> Result<Census, TreeError> {
        self.run(cx, host, |op| op.census())
    }
}

#[cfg(test)]
mod tests;
