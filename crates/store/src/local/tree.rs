//! A B+-tree in DRAM: keys of a fixed number of words to row numbers, and for keys of one word a hash table
//! beside it.
//!
//! Invariants:
//! 1. All leaves are equally deep. No leaf is empty, except the root of an empty tree; an inner node has at
//!    least one child, the root at least two. Leaves are linked both ways, in key order.
//! 2. A leaf that is full splits in the middle; if the new key goes to its end or its start, the new key
//!    begins a leaf of its own; if the new key goes right behind or before the one that was inserted last,
//!    the split is there. So every ascending or descending sequence of insertions, also beside others, leaves
//!    full leaves behind.
//! 3. A removal takes away a leaf that it empties, and joins one that has become nearly empty with its
//!    neighbour under the same parent, so that memory follows the number of keys.
//! 4. The same operations make the same tree, node numbers included.
//! 5. The hash table holds what the leaves hold. It answers what asks for one key; order, neighbours and the
//!    places of changes come from the tree. Wider keys have none: too few would fit in a line.
//!
//! It does NOT lock, allocate per operation, or know what a row is.

use super::node::{CAPACITY, NONE, Nodes};
use super::points::Points;

/// Most inner levels. With half-full nodes 2^32 keys need 6; more are only made by inserting beside inner
/// nodes that removals have left nearly empty.
const MAX_HEIGHT: usize = 24;

/// Leaves with fewer keys are joined with a neighbour, if both together have at most half of what fits.
const FEW: usize = CAPACITY / 4;

/// Runs `$body` with the constant `$W` of the tree's key width.
macro_rules! with_width {
    ($words:expr, $W:ident => $body:expr) => {
        with_width!(@arms $words, $W => $body, 1 2 3 4 5 6 7 8)
    };
    (@arms $words:expr, $W:ident => $body:expr, $($width:literal)+) => {
        match $words {
            $($width => { const $W: usize = $width; $body })+
            words => unreachable!("a key has 1 to 8 words, not {words}"),
        }
    };
}

/// A B+-tree from keys of 1 to 8 words, compared as big-endian numbers, to `u32` row numbers.
///
/// Every method that takes a key panics if it has not the tree's width.
#[derive(Clone, Debug)]
pub struct LocalTree {
    nodes: Nodes,
    points: Option<Points>,
    root: u32,
    /// Inner levels above the leaves.
    height: usize,
    len: usize,
    /// Counts changes, to find cursors that outlived one.
    changes: u32,
}

/// An entry's place in a tree, until the tree changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    leaf: u32,
    at: u32,
    changes: u32,
}

/// The rows around a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbors {
    /// The row with the largest key less than it.
    pub prev: Option<u32>,
    /// The row with this key.
    pub found: Option<u32>,
    /// The row with the smallest key greater than it.
    pub next: Option<u32>,
    /// Where the key is or belongs.
    leaf: u32,
    at: u32,
    changes: u32,
}

/// Where a search has ended: the first place in the leaf whose key is not less, and the row if it is equal.
#[derive(Clone, Copy)]
struct Position {
    leaf: u32,
    at: usize,
    row: Option<u32>,
}

/// The inner nodes of a search, root first, and which child was taken.
struct Path {
    steps: [(u32, u32); MAX_HEIGHT],
    len: usize,
}

impl Path {
    fn new() -> Path {
        Path { steps: [(NONE, 0); MAX_HEIGHT], len: 0 }
    }

    #[inline]
    fn push(&mut self, node: u32, child: usize) {
        self.steps[self.len] = (node, child as u32);
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<(u32, usize)> {
        self.len = self.len.checked_sub(1)?;
        let (node, child) = self.steps[self.len];
        Some((node, child as usize))
    }
}

impl LocalTree {
    /// An empty tree for keys of `words` words.
    ///
    /// # Panics
    /// Unless `words` is 1 to 8.
    pub fn new(words: usize) -> LocalTree {
        assert!((1..=8).contains(&words), "a key has 1 to 8 words, not {words}");
        let mut nodes = Nodes::new(words);
        let root = nodes.alloc();
        let points = (words == 1).then(Points::new);
        LocalTree { nodes, points, root, height: 0, len: 0, changes: 0 }
    }

    /// Inner levels above the leaves.
    #[inline]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Words of a key.
    #[inline]
    pub fn words(&self) -> usize {
        self.nodes.words
    }

    /// How many keys there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.nodes.bytes() + self.points.as_ref().map_or(0, Points::bytes)
    }

    /// Nodes in use, leaves and inner ones.
    pub fn nodes(&self) -> usize {
        self.nodes.used()
    }

    #[inline(always)]
    fn descend<const W: usize>(&self, key: &[u64], mut step: impl FnMut(u32, usize)) -> Position {
        let key: &[u64; W] = key.try_into().expect("a key of the tree's width");
        let mut node = self.root;
        for _ in 0..self.height {
            let (child, slot, _) = self.nodes.find(node, key);
            step(node, child);
            node = slot;
        }
        let (at, row, found) = self.nodes.find(node, key);
        Position { leaf: node, at, row: found.then_some(row) }
    }

    #[inline]
    fn place(&self, key: &[u64]) -> Position {
        with_width!(self.nodes.words, W => self.descend::<W>(key, |_, _| ()))
    }

    fn place_and_path(&self, key: &[u64]) -> (Position, Path) {
        let mut path = Path::new();
        let place =
            with_width!(self.nodes.words, W => self.descend::<W>(key, |node, child| path.push(node, child)));
        (place, path)
    }

    /// Starts loading what [`LocalTree::get`] of this key will look at last: its bucket or its leaf. The
    /// levels above a leaf are walked, and are usually in the cache.
    #[inline]
    pub fn prefetch(&self, key: &[u64]) {
        match (&self.points, key) {
            (Some(points), &[word]) => points.prefetch(word),
            _ => with_width!(self.nodes.words, W => self.prefetch_leaf::<W>(key)),
        }
    }

    #[inline(always)]
    fn prefetch_leaf<const W: usize>(&self, key: &[u64]) {
        let key: &[u64; W] = key.try_into().expect("a key of the tree's width");
        let mut node = self.root;
        for _ in 0..self.height {
            node = self.nodes.find(node, key).1;
        }
        self.nodes.prefetch(node);
    }

    /// The row with this key.
    #[inline]
    pub fn get(&self, key: &[u64]) -> Option<u32> {
        match (&self.points, key) {
            (Some(points), &[word]) => points.get(word),
            _ => self.place(key).row,
        }
    }

    /// The rows around `key`, with one search.
    pub fn neighbors(&self, key: &[u64]) -> Neighbors {
        let Position { leaf, at, row: found } = self.place(key);
        let row = |cursor: Cursor| self.nodes.slot(cursor.leaf, cursor.at as usize);
        Neighbors {
            prev: self.before(leaf, at).map(row),
            found,
            next: self.normal(leaf, at + found.is_some() as usize).map(row),
            leaf,
            at: at as u32,
            changes: self.changes,
        }
    }

    /// The first entry whose key is not less than `key`.
    pub fn lower_bound(&self, key: &[u64]) -> Option<Cursor> {
        let place = self.place(key);
        self.normal(place.leaf, place.at)
    }

    /// The last entry whose key is less than `key`.
    pub fn last_below(&self, key: &[u64]) -> Option<Cursor> {
        let place = self.place(key);
        self.before(place.leaf, place.at)
    }

    /// The entry with the smallest key.
    pub fn first(&self) -> Option<Cursor> {
        let leaf = self.edge(|_| 0);
        self.normal(leaf, 0)
    }

    /// The entry with the largest key.
    pub fn last(&self) -> Option<Cursor> {
        let leaf = self.edge(|count| count - 1);
        self.before(leaf, self.nodes.count(leaf))
    }

    fn edge(&self, child: impl Fn(usize) -> usize) -> u32 {
        let mut node = self.root;
        for _ in 0..self.height {
            node = self.nodes.slot(node, child(self.nodes.count(node)));
        }
        node
    }

    /// The entry behind this one.
    ///
    /// # Panics
    /// Like all methods that take a cursor, in debug builds if the tree has changed since the cursor was
    /// made.
    #[inline]
    pub fn next(&self, cursor: Cursor) -> Option<Cursor> {
        self.check_cursor(cursor);
        self.normal(cursor.leaf, cursor.at as usize + 1)
    }

    /// The entry before this one.
    #[inline]
    pub fn prev(&self, cursor: Cursor) -> Option<Cursor> {
        self.check_cursor(cursor);
        self.before(cursor.leaf, cursor.at as usize)
    }

    /// The key and row of an entry.
    #[inline]
    pub fn entry(&self, cursor: Cursor) -> (&[u64], u32) {
        self.check_cursor(cursor);
        let (leaf, at) = (cursor.leaf, cursor.at as usize);
        (self.nodes.key(leaf, at), self.nodes.slot(leaf, at))
    }

    #[inline]
    fn check_cursor(&self, cursor: Cursor) {
        debug_assert_eq!(cursor.changes, self.changes, "the tree has changed since this cursor was made");
    }

    /// The entry at this place or at the start of the next leaf.
    #[inline]
    fn normal(&self, mut leaf: u32, mut at: usize) -> Option<Cursor> {
        let head = self.nodes.head(leaf);
        if at >= head.count as usize {
            if head.next == NONE {
                return None;
            }
            (leaf, at) = (head.next, 0);
        }
        Some(Cursor { leaf, at: at as u32, changes: self.changes })
    }

    /// The entry before this place.
    #[inline]
    fn before(&self, mut leaf: u32, mut at: usize) -> Option<Cursor> {
        if at == 0 {
            leaf = self.nodes.head(leaf).prev;
            if leaf == NONE {
                return None;
            }
            at = self.nodes.count(leaf);
        }
        Some(Cursor { leaf, at: at as u32 - 1, changes: self.changes })
    }

    /// Adds a key; if it is there, changes nothing and returns its row as the error.
    pub fn insert(&mut self, key: &[u64], row: u32) -> Result<(), u32> {
        let near = self.neighbors(key);
        match near.found {
            Some(there) => Err(there),
            None => {
                self.insert_near(&near, key, row);
                Ok(())
            }
        }
    }

    /// Adds a key that is not there, to the place that [`LocalTree::neighbors`] of this key has just found.
    ///
    /// # Panics
    /// In debug builds, if the tree has changed in between or the key is there.
    pub fn insert_near(&mut self, near: &Neighbors, key: &[u64], row: u32) {
        debug_assert!(near.changes == self.changes && near.found.is_none(), "a place of another tree");
        let (leaf, at) = (near.leaf, near.at as usize);
        self.len += 1;
        self.changes = self.changes.wrapping_add(1);
        if let (Some(points), &[word]) = (&mut self.points, key) {
            points.insert(word, row);
        }
        if self.nodes.count(leaf) < CAPACITY {
            self.nodes.insert(leaf, (at, key), (at, row));
        } else {
            let (_, path) = self.place_and_path(key);
            self.split_leaf(leaf, at, key, row, path);
        }
    }

    /// Splits the full `leaf` and inserts `key` at its place `at`.
    fn split_leaf(&mut self, leaf: u32, at: usize, key: &[u64], row: u32, path: Path) {
        debug_assert!(self.nodes.count(leaf) == CAPACITY && at <= CAPACITY);
        let last = self.nodes.head(leaf).last as usize;
        let ascending = at == last.wrapping_add(1) && at < CAPACITY;
        let stay = match at {
            0 | CAPACITY => at,
            _ if ascending || at == last => at,
            _ => CAPACITY / 2,
        };
        let right = self.nodes.alloc();
        self.nodes.move_tail(leaf, stay, right);
        self.link(leaf, right);
        // With stay = 0 the new key begins the left leaf, with stay = CAPACITY the right one.
        let goes_left = at < stay || stay == 0 || ascending;
        let (node, place) = if goes_left { (leaf, at) } else { (right, at - stay) };
        self.nodes.insert(node, (place, key), (place, row));
        let mut separator = [0; 8];
        let separator = &mut separator[..self.nodes.words];
        if ascending || stay == 0 {
            // The largest one possible, so that the keys that follow this one go to its leaf. (Were the new
            // key itself the separator, an ascending run in front of a full leaf would get a leaf for each.)
            separator.copy_from_slice(self.nodes.key(right, 0));
            step_down(separator);
        } else {
            separator.copy_from_slice(self.nodes.key(leaf, self.nodes.count(leaf) - 1));
        }
        self.add_child(path, leaf, separator, right);
    }

    /// Links `right` behind `leaf`.
    fn link(&mut self, leaf: u32, right: u32) {
        let next = self.nodes.head(leaf).next;
        debug_assert!(next == NONE || self.nodes.head(next).prev == leaf, "leaf {leaf} and its next");
        self.nodes.head_mut(leaf).next = right;
        self.nodes.head_mut(right).prev = leaf;
        self.nodes.head_mut(right).next = next;
        if next != NONE {
            self.nodes.head_mut(next).prev = right;
        }
    }

    /// Puts `right` behind its left sibling `left`, the last node of `path`, splitting inner nodes that are
    /// full.
    fn add_child(&mut self, mut path: Path, mut left: u32, separator: &mut [u64], mut right: u32) {
        while let Some((node, child)) = path.pop() {
            if self.nodes.count(node) < CAPACITY {
                return self.nodes.insert(node, (child, separator), (child + 1, right));
            }
            let stay = match child {
                0 => 1,
                child if child == CAPACITY - 1 => CAPACITY - 1,
                _ => CAPACITY / 2,
            };
            let sibling = self.nodes.alloc();
            let mut middle = [0; 8];
            let middle = &mut middle[..separator.len()];
            middle.copy_from_slice(self.nodes.key(node, stay - 1));
            self.nodes.move_tail(node, stay, sibling);
            // The key between the halves belongs to the parent now.
            self.nodes.set_key(node, stay - 1, &[u64::MAX; 8][..separator.len()]);
            if child < stay {
                self.nodes.insert(node, (child, separator), (child + 1, right));
            } else {
                self.nodes.insert(sibling, (child - stay, separator), (child - stay + 1, right));
            }
            separator.copy_from_slice(middle);
            (left, right) = (node, sibling);
        }
        let root = self.nodes.alloc();
        self.nodes.insert(root, (0, &[u64::MAX; 8][..separator.len()]), (0, left));
        self.nodes.insert(root, (0, separator), (1, right));
        self.root = root;
        self.height += 1;
        assert!(self.height < MAX_HEIGHT, "a tree has at most {MAX_HEIGHT} levels");
    }

    /// Removes a key and returns its row.
    pub fn remove(&mut self, key: &[u64]) -> Option<u32> {
        self.remove_between(key).map(|(_, row, _)| row)
    }

    /// Removes a key; its row, between the one before and the one behind it.
    pub fn remove_between(&mut self, key: &[u64]) -> Option<(Option<u32>, u32, Option<u32>)> {
        let (place, path) = self.place_and_path(key);
        let Position { leaf, at, row } = place;
        let row = row?;
        let of = |cursor: Cursor| self.nodes.slot(cursor.leaf, cursor.at as usize);
        let (before, behind) = (self.before(leaf, at).map(of), self.normal(leaf, at + 1).map(of));
        self.nodes.remove(leaf, at, at);
        if let (Some(points), &[word]) = (&mut self.points, key) {
            points.remove(word);
        }
        self.len -= 1;
        self.changes = self.changes.wrapping_add(1);
        if self.nodes.count(leaf) < FEW && self.height > 0 {
            self.shrink(leaf, path);
        }
        Some((before, row, behind))
    }

    /// Takes `leaf` away if it is empty, or joins it with a neighbour if both have few keys.
    fn shrink(&mut self, leaf: u32, path: Path) {
        let (parent, child) = path.steps[path.len - 1];
        let (parent, child) = (parent, child as usize);
        if self.nodes.count(leaf) == 0 {
            self.unlink(leaf);
            return self.remove_child(path);
        }
        let fits = |a: u32, b: u32| self.nodes.count(a) + self.nodes.count(b) <= CAPACITY / 2;
        let (left, right, left_child) = if child + 1 < self.nodes.count(parent) {
            (leaf, self.nodes.slot(parent, child + 1), child)
        } else if child > 0 {
            (self.nodes.slot(parent, child - 1), leaf, child - 1)
        } else {
            return;
        };
        if fits(left, right) {
            self.nodes.move_tail(right, 0, left);
            self.unlink(right);
            // The left child takes over the right one's place and with it the upper bound.
            self.nodes.set_slot(parent, left_child + 1, left);
            self.remove_child_of(parent, left_child);
            self.lower_root();
            self.nodes.free(right);
        }
    }

    /// Takes an empty leaf, and the inner nodes that lose their only child by it, out of the tree.
    fn remove_child(&mut self, mut path: Path) {
        while let Some((node, child)) = path.pop() {
            let gone = self.nodes.slot(node, child);
            self.remove_child_of(node, child);
            self.nodes.free(gone);
            if self.nodes.count(node) > 0 {
                break;
            }
        }
        self.lower_root();
    }

    /// Removes a child and the key that separated it from the next one, or from the one before if it was the
    /// last.
    fn remove_child_of(&mut self, node: u32, child: usize) {
        let last = self.nodes.count(node) - 1;
        debug_assert!(child <= last, "node {node} has no child {child}");
        self.nodes.remove(node, child.min(last.saturating_sub(1)), child);
    }

    /// Makes a root's only child the root.
    fn lower_root(&mut self) {
        while self.height > 0 && self.nodes.count(self.root) == 1 {
            let root = self.root;
            self.root = self.nodes.slot(root, 0);
            self.nodes.head_mut(root).count = 0;
            self.nodes.free(root);
            self.height -= 1;
        }
        assert!(self.nodes.count(self.root) > 0 || self.height == 0, "a root has lost all its children");
    }

    /// Takes a leaf out of the list of leaves.
    fn unlink(&mut self, leaf: u32) {
        let (prev, next) = (self.nodes.head(leaf).prev, self.nodes.head(leaf).next);
        debug_assert!(prev == NONE || self.nodes.head(prev).next == leaf, "leaf {leaf} and its prev");
        debug_assert!(next == NONE || self.nodes.head(next).prev == leaf, "leaf {leaf} and its next");
        if prev != NONE {
            self.nodes.head_mut(prev).next = next;
        }
        if next != NONE {
            self.nodes.head_mut(next).prev = prev;
        }
    }

    /// Checks the whole structure.
    ///
    /// # Panics
    /// If an invariant is broken.
    pub fn check(&self) {
        let mut walk = Walk { leaf: NONE, keys: 0, nodes: 0 };
        self.check_node(self.root, self.height, None, None, &mut walk);
        assert_eq!(walk.keys, self.len, "keys");
        assert_eq!(walk.nodes, self.nodes.used(), "nodes in use");
        if let Some(points) = &self.points {
            points.check(self.len);
        }
        assert_eq!(self.nodes.head(walk.leaf).next, NONE, "the last leaf's next");
        assert!(self.height == 0 || self.nodes.count(self.root) >= 2, "a root of one child");
    }

    fn check_node(
        &self,
        node: u32,
        level: usize,
        above: Option<&[u64]>,
        upto: Option<&[u64]>,
        walk: &mut Walk,
    ) {
        walk.nodes += 1;
        let (nodes, count) = (&self.nodes, self.nodes.count(node));
        assert!(count > 0 || (node == self.root && level == 0), "node {node} is empty");
        let keys = if level == 0 { count } else { count - 1 };
        for at in 0..CAPACITY {
            let key = nodes.key(node, at);
            if at >= keys {
                assert!(key.iter().all(|&word| word == u64::MAX), "node {node} has a key behind its last");
                continue;
            }
            let before = if at == 0 { above } else { Some(nodes.key(node, at - 1)) };
            assert!(before.is_none_or(|before| before < key), "node {node}: key {at} is too small");
            assert!(upto.is_none_or(|upto| key <= upto), "node {node}: key {at} is too large");
        }
        if level == 0 {
            assert_eq!(nodes.head(node).prev, walk.leaf, "leaf {node}'s prev");
            assert!(walk.leaf == NONE || nodes.head(walk.leaf).next == node, "leaf {}'s next", walk.leaf);
            (walk.leaf, walk.keys) = (node, walk.keys + count);
            for at in 0..count {
                assert_eq!(
                    self.get(nodes.key(node, at)),
                    Some(nodes.slot(node, at)),
                    "leaf {node}, key {at}"
                );
            }
            return;
        }
        for at in 0..count {
            let above = if at == 0 { above } else { Some(nodes.key(node, at - 1)) };
            let upto = if at + 1 == count { upto } else { Some(nodes.key(node, at)) };
            self.check_node(nodes.slot(node, at), level - 1, above, upto, walk);
        }
    }
}

/// The key before this one, which is not zero.
fn step_down(key: &mut [u64]) {
    for word in key.iter_mut().rev() {
        let borrow = *word == 0;
        *word = word.wrapping_sub(1);
        if !borrow {
            return;
        }
    }
    unreachable!("no key is less than zero");
}

/// What a check has seen so far.
struct Walk {
    leaf: u32,
    keys: usize,
    nodes: usize,
}
