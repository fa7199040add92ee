//! Inserting and removing entries, and splitting nodes.
//!
//! A leaf takes a delta until its chain is long or it is full; then it gets a new base that holds the change
//! as well. A split is one compare-and-swap: the right half is a complete node under a fresh id before the
//! left half, whose sibling it is, replaces the old node. The parent learns of it in a second step, which
//! anybody may do ([`Op::post`]). Inner nodes have no deltas: they change once in half a leaf of inserts, and
//! a base is read in one go.
//!
//! The root keeps its id. When it overflows, both halves get fresh ids and the root becomes their parent in
//! one swap.

use std::sync::Arc;

use liger_fabric::{Fabric, SyncAddr};

use super::TreeError;
use super::access::{Op, Seen, Stop};
use super::key::{Fence, Key, Target};
use super::node::{Change, Node};
use super::word::Word;

/// What an attempt to change a node came to.
enum Attempt<T> {
    Done(T),
    Lost,
}

/// A node that was written under a fresh id, not yet named by anybody.
struct Fresh {
    id: u64,
    word: Word,
    node: Node,
}

impl<F: Fabric> Op<'_, F> {
    /// Inserts unless the key is there. See `BwTree::insert`.
    pub fn insert(&self, key: &Key, value: u64) -> Result<bool, Stop> {
        loop {
            let place = self.descend(&Target::At(*key), 0)?;
            let done = match place.seen.node.find(key.words(self.tree.width())) {
                Ok(_) => Attempt::Done(false),
                Err(at) => self.insert_at(&place.seen, at, key, value)?,
            };
            if let Attempt::Done(inserted) = done {
                self.mend(&place.strays, &place.leftovers);
                return Ok(inserted);
            }
            self.cx.pause();
        }
    }

    fn insert_at(&self, seen: &Seen, at: usize, key: &Key, value: u64) -> Result<Attempt<bool>, Stop> {
        let node = &seen.node;
        let low = self.low_for(seen, key)?;
        let fits = node.len() < self.tree.capacity() && node.chain.len() <= self.tree.chain();
        if fits && low == node.low {
            let done = self.append(seen, Change::Insert(*key, value))?;
            return Ok(if done { Attempt::Done(true) } else { Attempt::Lost });
        }
        let mut new = Node { low, ..Node::clone(node) };
        new.put(at, key.words(node.width), value);
        let done = if new.len() > self.tree.capacity() {
            self.split(seen, new, at)?
        } else {
            self.install(seen, new)?
        };
        Ok(if done { Attempt::Done(true) } else { Attempt::Lost })
    }

    /// Removes a key. See `BwTree::remove`.
    pub fn remove(&self, key: &Key) -> Result<Option<u64>, Stop> {
        loop {
            let place = self.descend(&Target::At(*key), 0)?;
            let seen = &place.seen;
            let done = match seen.node.find(key.words(self.tree.width())) {
                Err(_) => Attempt::Done(None),
                Ok(at) => self.remove_at(seen, at, key)?,
            };
            if let Attempt::Done(value) = done {
                let emptied = seen.node.len() == usize::from(value.is_some());
                if emptied && seen.node.high != Fence::Max {
                    self.remove_node(seen.id())?;
                }
                self.mend(&place.strays, &place.leftovers);
                return Ok(value);
            }
            self.cx.pause();
        }
    }

    fn remove_at(&self, seen: &Seen, at: usize, key: &Key) -> Result<Attempt<Option<u64>>, Stop> {
        debug_assert!(seen.node.level == 0 && seen.node.key(at) == key.words(seen.node.width));
        let value = seen.node.values[at];
        let done = if seen.node.chain.len() <= self.tree.chain() {
            self.append(seen, Change::Delete(*key))?
        } else {
            let mut new = Node::clone(&seen.node);
            new.take(at);
            self.install(seen, new)?
        };
        Ok(if done { Attempt::Done(Some(value)) } else { Attempt::Lost })
    }

    /// The low fence that a node needs so that it may hold `key`. It owns the key, but its fence may be above
    /// it if nodes left of it were removed. Before the fence may sink,
    /// 1. these are unlinked, so that fences keep telling the order of nodes, and
    /// 2. the parents' bound before the node sinks as far. A bound that outlived its node lies at or below
    ///    the low fence of the next live one: so a node belongs to a bound's group exactly if it ends at or
    ///    below the bound.
    fn low_for(&self, seen: &Seen, key: &Key) -> Result<Fence, Stop> {
        let node = &seen.node;
        let inside = if node.level > 0 { Fence::At(*key) > node.low } else { Fence::At(*key) >= node.low };
        if inside || self.cx.sabotaged("bwtree.lower-fence") {
            return Ok(node.low);
        }
        let low = loop {
            let Some(left) = self.unlink_before(node.level, node.low)? else { break Fence::Min };
            if !self.cx.sabotaged("bwtree.lower-bound") {
                self.post(node.level + 1, left.id())?;
            }
            let now = self.load_live(left.id())?;
            if !now.is_removed() && now.node.high == left.node.high {
                break left.node.high;
            }
        };
        if low > Fence::At(*key) || (node.level > 0 && low == Fence::At(*key)) {
            return Err(Stop::Restart);
        }
        Ok(low)
    }

    /// Replaces a node by the two halves of `new`, which is too large; `at` is where the last entry came in.
    /// False if somebody was faster.
    fn split(&self, seen: &Seen, mut new: Node, at: usize) -> Result<bool, Stop> {
        // Entries that arrive in ascending order leave full nodes behind.
        debug_assert!(new.len() == seen.node.len() + 1 && at < new.len(), "one entry came in at {at}");
        let last = new.len() - 1;
        let rising = if new.level > 0 { at + 1 >= last } else { at == last };
        let middle = if rising { last } else { new.len() / 2 };
        if seen.id() == self.root() {
            return self.split_root(seen, new, middle);
        }
        let (right_id, dead) = self.new_id()?;
        let right = new.split_off(middle, right_id);
        let right = self.write_fresh(right, dead)?;
        let early = self.cx.sabotaged("bwtree.sibling-before-split");
        if !early {
            self.announce(&right);
        }
        match self.install(seen, new) {
            Ok(true) => {
                if early {
                    self.announce(&right);
                }
                self.remember(right);
                self.post_quietly(seen.node.level + 1, seen.id());
                Ok(true)
            }
            lost => {
                self.discard_fresh(right);
                Ok(lost?)
            }
        }
    }

    fn split_root(&self, seen: &Seen, mut new: Node, middle: usize) -> Result<bool, Stop> {
        debug_assert!(new.low == Fence::Min && new.high == Fence::Max, "the root covers all keys");
        let (left_id, left_dead) = self.new_id()?;
        let (right_id, right_dead) = match self.new_id() {
            Ok(new) => new,
            Err(error) => {
                self.discard_id(left_id, left_dead);
                return Err(error.into());
            }
        };
        new.id = left_id;
        let right = new.split_off(middle, right_id);
        let Fence::At(bound) = new.high else { unreachable!("the left half ends at a key") };
        let mut root = Node::empty(seen.id(), new.level + 1, new.width);
        root.put(0, bound.words(new.width), left_id);
        root.put(1, &vec![0; new.width], right_id);
        let left = match self.write_fresh(new, left_dead) {
            Ok(left) => left,
            Err(error) => {
                self.discard_id(right_id, right_dead);
                return Err(error.into());
            }
        };
        let right = match self.write_fresh(right, right_dead) {
            Ok(right) => right,
            Err(error) => {
                self.discard_fresh(left);
                return Err(error.into());
            }
        };
        self.announce(&left);
        self.announce(&right);
        match self.install(seen, root) {
            Ok(true) => {
                self.remember(left);
                self.remember(right);
                Ok(true)
            }
            lost => {
                self.discard_fresh(left);
                self.discard_fresh(right);
                Ok(lost?)
            }
        }
    }

    /// Writes a node under a fresh id; gives the id back if there is no room.
    fn write_fresh(&self, mut node: Node, dead: Word) -> Result<Fresh, TreeError> {
        match self.write(&node.encode()) {
            Ok(block) => {
                node.chain = vec![block];
                Ok(Fresh { id: node.id, word: dead.installed(block.0), node })
            }
            Err(error) => {
                self.discard_id(node.id, dead);
                Err(error)
            }
        }
    }

    /// Sets the fresh id's word. The swap that makes the id reachable completes this store.
    fn announce(&self, fresh: &Fresh) {
        debug_assert!(fresh.word.is_live() && !fresh.node.chain.is_empty(), "written before it is named");
        self.cx.store(SyncAddr::new(fresh.id), fresh.word.0);
    }

    fn remember(&self, fresh: Fresh) {
        self.host.cache.put(self.cx, fresh.word, Arc::new(fresh.node));
    }

    fn discard_fresh(&self, fresh: Fresh) {
        self.discard_id(fresh.id, fresh.word);
        for block in fresh.node.chain {
            self.discard(block);
        }
    }

    /// Finishes what others (or crashes) left half done on our way. Whatever stops it, the tree is whole
    /// without.
    fn mend(&self, strays: &[(u8, u64)], leftovers: &[(u8, u64)]) {
        for (_, id) in leftovers {
            let _ = self.finish_removal(*id);
        }
        for (level, id) in strays {
            self.post_quietly(level + 1, *id);
        }
    }

    fn post_quietly(&self, level: u8, left: u64) {
        let _ = self.post(level, left);
    }

    /// Tells the parent level where node `left` ends, and who follows. Does nothing if it knows.
    ///
    /// The parent's word is loaded before the sibling's is seen not removed. Who removes the sibling
    /// afterwards must change the parent's word, even if it finds no entry there, so our swap cannot bring a
    /// dead child in.
    pub fn post(&self, level: u8, left: u64) -> Result<(), Stop> {
        loop {
            let Some(a) = self.load(left)?.filter(|a| !a.is_removed()) else { return Ok(()) };
            let Fence::At(end) = a.node.high else { return Ok(()) };
            let place = self.descend(&Target::Before(end), level)?;
            let b = self.right_of(&a)?;
            if b.is_removed() {
                self.finish_removal(b.id())?;
                continue;
            }
            if self.word(left) != a.word {
                continue;
            }
            let parent = &place.seen;
            let Some((new, at)) = self.posted(parent, &b, &end)? else { return Ok(()) };
            let done = if new.len() > self.tree.capacity() {
                self.split(parent, new, at)?
            } else {
                self.install(parent, new)?
            };
            if done {
                return Ok(());
            }
            self.cx.pause();
        }
    }

    /// The parent with the bound `end` before sibling `b`, or `None` if it has it.
    fn posted(&self, parent: &Seen, b: &Seen, end: &Key) -> Result<Option<(Node, usize)>, Stop> {
        let node = &parent.node;
        let at = node.route(&Target::Before(*end));
        let bound = node.bound(at);
        debug_assert!(bound >= Fence::At(*end));
        if bound == Fence::At(*end) || node.values[at] == b.id() {
            return Ok(None);
        }
        let low = self.low_for(parent, end)?;
        let mut new = Node { low, ..Node::clone(node) };
        if b.node.high <= bound {
            new.put(at, end.words(node.width), node.values[at]);
            new.values[at + 1] = b.id();
        } else {
            // The node that ended at `bound` is gone and its range went right: so does the bound's.
            new.set_bound(at, *end);
        }
        Ok(Some((new, at)))
    }
}
