//! The nodes of a [`super::LocalTree`] and the search in one.
//!
//! ```text
//! blocks[n]  | CAPACITY keys of W words, ascending; those that are not used are all ones |
//!            | CAPACITY slots, u32: numbers of rows in a leaf, of child nodes in an inner node |
//! heads[n]   how many slots are used, and a leaf's neighbours
//! ```
//!
//! Invariants:
//! 1. Leaf: slot i belongs to key i.
//! 2. Inner node of c children: key i, for i < c - 1, is at least every key under child i and less than every
//!    key under child i + 1. So both kinds are searched the same way: go to the first place whose key is not
//!    less.
//! 3. A key that is not used is never less than anything, so that the search does not look at the count.

use zerocopy::{FromBytes, IntoBytes};

/// Most slots in a node.
pub(super) const CAPACITY: usize = 64;

/// Keys that the second step of a search looks at.
const GROUP: usize = 8;

/// Words of a node's slots.
const SLOT_WORDS: usize = CAPACITY / 2;

const _: () = assert!(CAPACITY.is_multiple_of(GROUP) && SLOT_WORDS * 2 == CAPACITY);

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
    blocks: Vec<u64>,
    heads: Vec<Head>,
    free: u32,
    used: usize,
}

impl Nodes {
    pub(super) fn new(words: usize) -> Nodes {
        Nodes { words, blocks: Vec::new(), heads: Vec::new(), free: NONE, used: 0 }
    }

    /// An empty node.
    pub(super) fn alloc(&mut self) -> u32 {
        let head = Head { count: 0, last: NONE, prev: NONE, next: NONE };
        self.used += 1;
        if self.free != NONE {
            let node = self.free;
            debug_assert_eq!(self.head(node).count, 0, "a free node is empty");
            self.free = self.head(node).prev;
            *self.head_mut(node) = head;
            return node;
        }
        let node = self.heads.len() as u32;
        assert!(node < NONE, "a tree has at most 2^32 - 1 nodes");
        self.heads.push(head);
        self.blocks.resize(self.blocks.len() + CAPACITY * self.words, u64::MAX);
        self.blocks.resize(self.blocks.len() + SLOT_WORDS, 0);
        debug_assert_eq!(self.blocks.len(), self.heads.len() * (CAPACITY * self.words + SLOT_WORDS));
        node
    }

    /// Gives an empty node back.
    pub(super) fn free(&mut self, node: u32) {
        debug_assert_eq!(self.head(node).count, 0, "a node that is freed is empty");
        debug_assert!(node != self.free && self.used > 0, "node {node} is free already");
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
        8 * self.blocks.capacity() + size_of::<Head>() * self.heads.capacity()
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
    fn block(&self, node: u32) -> &[u64] {
        let size = CAPACITY * self.words + SLOT_WORDS;
        &self.blocks[node as usize * size..][..size]
    }

    /// The keys' words and the slots.
    #[inline]
    fn parts(&mut self, node: u32) -> (&mut [u64], &mut [u32]) {
        let keys = CAPACITY * self.words;
        let size = keys + SLOT_WORDS;
        let (keys, slots) = self.blocks[node as usize * size..][..size].split_at_mut(keys);
        (keys, <[u32]>::mut_from_bytes(slots.as_mut_bytes()).expect("whole slots"))
    }

    #[inline]
    pub(super) fn slot(&self, node: u32, at: usize) -> u32 {
        debug_assert!(at < self.count(node), "node {node} has no slot {at}");
        let slots = &self.block(node)[CAPACITY * self.words..];
        <[u32]>::ref_from_bytes(slots.as_bytes()).expect("whole slots")[at]
    }

    #[inline]
    pub(super) fn set_slot(&mut self, node: u32, at: usize, slot: u32) {
        self.parts(node).1[at] = slot;
    }

    #[inline]
    pub(super) fn key(&self, node: u32, at: usize) -> &[u64] {
        &self.block(node)[..CAPACITY * self.words][at * self.words..][..self.words]
    }

    #[inline]
    pub(super) fn set_key(&mut self, node: u32, at: usize, key: &[u64]) {
        let words = self.words;
        self.parts(node).0[at * words..][..words].copy_from_slice(key);
    }

    /// The place of the first key that is not less than `key`, its slot, and whether it is `key`. If all are
    /// less, the place is [`CAPACITY`], and the slot some slot.
    #[inline(always)]
    pub(super) fn find<const W: usize>(&self, node: u32, key: &[u64; W]) -> (usize, u32, bool) {
        let size = CAPACITY * W + SLOT_WORDS;
        let (keys, slots) = self.blocks[node as usize * size..][..size].split_at(CAPACITY * W);
        let keys: &[[u64; W]; CAPACITY] = keys.as_chunks().0.try_into().expect("CAPACITY keys");
        let slots: &[u64; SLOT_WORDS] = slots.try_into().expect("CAPACITY slots");
        // Load the slots' lines now, so that their cache misses overlap with those of the keys.
        liger_fabric::prefetch(slots);
        let at = rank(keys, key);
        let kept = at % CAPACITY;
        let slot = (slots[kept / 2] >> (32 * (kept % 2))) as u32;
        // A key of all ones equals the places that are not used.
        let found = at < CAPACITY && keys[kept] == *key && (*key != [u64::MAX; W] || at < self.count(node));
        (at, slot, found)
    }

    /// Starts loading a node's keys and slots.
    #[inline]
    pub(super) fn prefetch(&self, node: u32) {
        liger_fabric::prefetch(self.block(node));
    }

    /// Makes place `key_at` for `key` and place `slot_at` for `slot`; the node has `count` keys.
    pub(super) fn insert(
        &mut self,
        node: u32,
        (key_at, key): (usize, &[u64]),
        (slot_at, slot): (usize, u32),
    ) {
        let (count, words) = (self.count(node), self.words);
        debug_assert!(count < CAPACITY && slot_at <= count && key_at <= slot_at);
        debug_assert!(key_at == 0 || self.key(node, key_at - 1) < key, "keys ascend");
        debug_assert!(key <= self.key(node, key_at), "keys ascend, and unused ones are all ones");
        let (keys, slots) = self.parts(node);
        keys.copy_within(key_at * words..count * words, (key_at + 1) * words);
        keys[key_at * words..][..words].copy_from_slice(key);
        slots.copy_within(slot_at..count, slot_at + 1);
        slots[slot_at] = slot;
        let head = self.head_mut(node);
        head.count += 1;
        head.last = slot_at as u32;
    }

    /// Removes key `key_at` and slot `slot_at`.
    pub(super) fn remove(&mut self, node: u32, key_at: usize, slot_at: usize) {
        let (count, words) = (self.count(node), self.words);
        debug_assert!(slot_at < count && key_at < count);
        let (keys, slots) = self.parts(node);
        keys.copy_within((key_at + 1) * words..count * words, key_at * words);
        keys[(count - 1) * words..count * words].fill(u64::MAX);
        slots.copy_within(slot_at + 1..count, slot_at);
        self.head_mut(node).count -= 1;
    }

    /// Moves what is in `from` from place `at` on to the end of `to`.
    pub(super) fn move_tail(&mut self, from: u32, at: usize, to: u32) {
        let (count, had, words) = (self.count(from), self.count(to), self.words);
        debug_assert!(from != to && at <= count && had + count - at <= CAPACITY);
        let size = CAPACITY * words + SLOT_WORDS;
        let (from_block, to_block) = (from as usize * size, to as usize * size);
        let source = from_block + at * words..from_block + count * words;
        self.blocks.copy_within(source.clone(), to_block + had * words);
        self.blocks[source].fill(u64::MAX);
        for i in at..count {
            let slot = self.slot(from, i);
            self.set_slot(to, had + i - at, slot);
        }
        self.head_mut(from).count = at as u32;
        self.head_mut(to).count = (had + count - at) as u32;
    }
}

#[inline(always)]
fn less<const W: usize>(a: &[u64; W], b: &[u64; W]) -> bool {
    // The borrow of a - b. No branches: their outcome is random, and a mispredicted one costs as much as all
    // comparisons of a search.
    let mut borrow = false;
    for (a, b) in a.iter().zip(b).rev() {
        let (difference, below) = a.overflowing_sub(*b);
        borrow = below | difference.overflowing_sub(borrow as u64).1;
    }
    borrow
}

/// How many of `keys` are less than `key`: first among the last keys of the groups, whose cache misses
/// overlap, then in one group.
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
