//! The nodes of a [`super::LocalTree`] and the search in one.
//!
//! ```text
//! node n   keys[n * CAPACITY * W ..]   CAPACITY keys of W words, ascending; those that are not used are all ones
//!          slots[n * CAPACITY ..]      CAPACITY numbers: of rows in a leaf, of child nodes in an inner node
//!          heads[n]                    how many slots are used, and a leaf's neighbours
//! ```
//!
//! Invariants:
//! 1. Leaf: slot i belongs to key i.
//! 2. Inner node of c children: key i, for i < c - 1, is at least every key under child i and less than every key under
//!    child i + 1. So both kinds are searched the same way: go to the first place whose key is not less.
//! 3. A key that is not used is never less than anything, so that the search does not look at the count.

/// Most slots in a node.
pub(super) const CAPACITY: usize = 64;

/// Keys that the second step of a search looks at.
const GROUP: usize = 8;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// What is known of a node besides its keys and slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Slots in use.
    pub(super) count: u32,
    /// Where the last insertion was.
    pub(super) last: u32,
    /// The leaf before it; in a free node the next free one.
    pub(super) prev: u32,
    /// The leaf behind it.
    pub(super) next: u32,
}

/// All nodes of a tree.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    /// Words of a key.
    pub(super) words: usize,
    keys: Vec<u64>,
    slots: Vec<u32>,
    heads: Vec<Head>,
    free: u32,
    used: usize,
}

impl Nodes {
    pub(super) fn new(words: usize) -> Nodes {
        Nodes { words, keys: Vec::new(), slots: Vec::new(), heads: Vec::new(), free: NONE, used: 0 }
    }

    /// An empty node.
    pub(super) fn alloc(&mut self) -> u32 {
        let head = Head { count: 0, last: NONE, prev: NONE, next: NONE };
        self.used += 1;
        if self.free != NONE {
            let node = self.free;
            self.free = self.head(node).prev;
            *self.head_mut(node) = head;
            return node;
        }
        let node = self.heads.len() as u32;
        assert!(node < NONE, "a tree has at most 2^32 - 1 nodes");
        self.heads.push(head);
        self.slots.resize(self.slots.len() + CAPACITY, 0);
        self.keys.resize(self.keys.len() + CAPACITY * self.words, u64::MAX);
        node
    }

    /// Gives an empty node back.
    pub(super) fn free(&mut self, node: u32) {
        debug_assert_eq!(self.head(node).count, 0, "a node that is freed is empty");
        *self.head_mut(node) = Head { count: 0, last: NONE, prev: self.free, next: NONE };
        self.free = node;
        self.used -= 1;
    }

    /// Nodes in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Bytes that the nodes take, free ones included.
    pub(super) fn bytes(&self) -> usize {
        8 * self.keys.capacity() + 4 * self.slots.capacity() + size_of::<Head>() * self.heads.capacity()
    }

    #[inline]
    pub(super) fn head(&self, node: u32) -> &Head {
        &self.heads[node as usize]
    }

    #[inline]
    pub(super) fn head_mut(&mut self, node: u32) -> &mut Head {
        &mut self.heads[node as usize]
    }

    #[inline]
    pub(super) fn count(&self, node: u32) -> usize {
        self.head(node).count as usize
    }

    #[inline]
    pub(super) fn slot(&self, node: u32, at: usize) -> u32 {
        debug_assert!(at < CAPACITY);
        self.slots[node as usize * CAPACITY + at]
    }

    #[inline]
    pub(super) fn set_slot(&mut self, node: u32, at: usize, slot: u32) {
        self.slots[node as usize * CAPACITY + at] = slot;
    }

    #[inline]
    fn key_at(&self, node: u32, at: usize) -> usize {
        debug_assert!(at <= CAPACITY);
        (node as usize * CAPACITY + at) * self.words
    }

    #[inline]
    pub(super) fn key(&self, node: u32, at: usize) -> &[u64] {
        let start = self.key_at(node, at);
        &self.keys[start..start + self.words]
    }

    #[inline]
    pub(super) fn set_key(&mut self, node: u32, at: usize, key: &[u64]) {
        let start = self.key_at(node, at);
        self.keys[start..start + self.words].copy_from_slice(key);
    }

    /// How many of the node's keys are less than `key`.
    #[inline(always)]
    pub(super) fn rank<const W: usize>(&self, node: u32, key: &[u64; W]) -> usize {
        let all = self.keys.as_chunks::<W>().0;
        let keys: &[[u64; W]; CAPACITY] =
            all[node as usize * CAPACITY..][..CAPACITY].try_into().expect("CAPACITY keys");
        rank(keys, key)
    }

    /// Whether key `at` of the node is `key`.
    #[inline(always)]
    pub(super) fn is_key<const W: usize>(&self, node: u32, at: usize, key: &[u64; W]) -> bool {
        // A key of all ones equals the places that are not used.
        at < CAPACITY
            && self.keys.as_chunks::<W>().0[node as usize * CAPACITY + at] == *key
            && (*key != [u64::MAX; W] || at < self.count(node))
    }

    /// Makes place `key_at` for `key` and place `slot_at` for `slot`; the node has `count` keys.
    pub(super) fn insert(
        &mut self,
        node: u32,
        (key_at, key): (usize, &[u64]),
        (slot_at, slot): (usize, u32),
    ) {
        let count = self.count(node);
        debug_assert!(count < CAPACITY && slot_at <= count && key_at <= slot_at);
        let (start, end) = (self.key_at(node, key_at), self.key_at(node, count));
        self.keys.copy_within(start..end, start + self.words);
        self.set_key(node, key_at, key);
        let base = node as usize * CAPACITY;
        self.slots.copy_within(base + slot_at..base + count, base + slot_at + 1);
        self.set_slot(node, slot_at, slot);
        let head = self.head_mut(node);
        head.count += 1;
        head.last = slot_at as u32;
    }

    /// Removes key `key_at` and slot `slot_at`.
    pub(super) fn remove(&mut self, node: u32, key_at: usize, slot_at: usize) {
        let count = self.count(node);
        debug_assert!(slot_at < count && key_at < count);
        let (start, end) = (self.key_at(node, key_at), self.key_at(node, count));
        self.keys.copy_within(start + self.words..end, start);
        self.keys[end - self.words..end].fill(u64::MAX);
        let base = node as usize * CAPACITY;
        self.slots.copy_within(base + slot_at + 1..base + count, base + slot_at);
        self.head_mut(node).count -= 1;
    }

    /// Moves what is in `from` from place `at` on to the end of `to`.
    pub(super) fn move_tail(&mut self, from: u32, at: usize, to: u32) {
        let (count, had) = (self.count(from), self.count(to));
        debug_assert!(at <= count && had + count - at <= CAPACITY);
        let (start, end) = (self.key_at(from, at), self.key_at(from, count));
        let there = self.key_at(to, had);
        self.keys.copy_within(start..end, there);
        self.keys[start..end].fill(u64::MAX);
        let (from_base, to_base) = (from as usize * CAPACITY, to as usize * CAPACITY);
        self.slots.copy_within(from_base + at..from_base + count, to_base + had);
        self.head_mut(from).count = at as u32;
        self.head_mut(to).count = (had + count - at) as u32;
    }
}

#[inline(always)]
fn less<const W: usize>(a: &[u64; W], b: &[u64; W]) -> bool {
    // No branches: their outcome is random, and a mispredicted one costs as much as all comparisons of a search.
    let mut less = false;
    for (a, b) in a.iter().zip(b).rev() {
        less = (a < b) | ((a == b) & less);
    }
    less
}

/// How many of `keys` are less than `key`: first among the last keys of the groups, whose cache misses overlap, then in
/// one group.
#[inline(always)]
fn rank<const W: usize>(keys: &[[u64; W]; CAPACITY], key: &[u64; W]) -> usize {
    let (groups, []) = keys.as_chunks::<GROUP>() else { unreachable!("whole groups") };
    let mut group = 0;
    for keys in groups {
        group += less(&keys[GROUP - 1], key) as usize;
    }
    let Some(keys) = groups.get(group) else { return CAPACITY };
    let mut rank = group * GROUP;
    for other in keys {
        rank += less(other, key) as usize;
    }
    rank
}
