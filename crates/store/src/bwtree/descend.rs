//! Finding the way from the root to a node.
//!
//! Invariants of the shape of the tree that make it safe without locks (see the module's head for the whole
//! argument):
//! 1. The nodes of a level form a list by their right siblings. A *live* node owns the keys from the high
//!    fence of the live node before it up to its own; a *removed* node in the list owns nothing.
//! 2. The child that an inner node names for a key is the owner of the key or stands left of it (removed or
//!    not). So from wherever a route leads, going right past removed nodes and past high fences at or below
//!    the key arrives.
//! 3. Of two nodes in a list the left one has the smaller low fence.

use liger_fabric::{Fabric, Work};

use super::TreeError;
use super::access::{Op, Seen, Stop, damaged};
use super::key::{Fence, Key, Target};

/// Where a descent arrived.
pub(super) struct Descent {
    /// The owner of the target at the level asked for.
    pub seen: Seen,
    /// The greatest bound left of the target that the descent passed: all keys between it and the target
    /// belong to `seen`. `Min`: nothing is left of it.
    pub floor: Fence,
    /// Live nodes that were passed to the right, with their levels: their parents do not know their siblings
    /// yet.
    pub strays: Vec<(u8, u64)>,
    /// Removed nodes that were met, with their levels: somebody has not finished removing them.
    pub leftovers: Vec<(u8, u64)>,
}

impl<F: Fabric> Op<'_, F> {
    /// The owner of the target at `level`.
    pub fn descend(&self, target: &Target, level: u8) -> Result<Descent, Stop> {
        let root = self.load(self.root())?.ok_or(TreeError::NotFormatted { root: self.root() })?;
        if root.node.level < level {
            return Err(damaged(root.word.record(), "the root is below other nodes").into());
        }
        let mut place = Descent { seen: root, floor: Fence::Min, strays: vec![], leftovers: vec![] };
        loop {
            self.go_right(target, &mut place)?;
            if place.seen.node.level == level {
                return Ok(place);
            }
            self.go_down(target, &mut place)?;
        }
    }

    /// The node at `level` that the routes lead to: the owner of the target or a node left of it. The level
    /// is not the root's.
    pub fn landing(&self, target: &Target, level: u8) -> Result<Descent, Stop> {
        let mut place = self.descend(target, level + 1)?;
        self.go_down(target, &mut place)?;
        Ok(place)
    }

    fn go_down(&self, target: &Target, place: &mut Descent) -> Result<(), Stop> {
        let node = &place.seen.node;
        let at = node.route(target);
        if at > 0 {
            place.floor = place.floor.max(node.bound(at - 1));
        }
        place.seen = self.child(&place.seen, at)?;
        Ok(())
    }

    fn go_right(&self, target: &Target, place: &mut Descent) -> Result<(), Stop> {
        loop {
            let node = &place.seen.node;
            match self.way(target, &place.seen) {
                Way::Here => return Ok(()),
                Way::PastRemoved => place.leftovers.push((node.level, node.id)),
                Way::PastLive => {
                    place.strays.push((node.level, node.id));
                    place.floor = place.floor.max(node.high);
                }
            }
            place.seen = self.right_of(&place.seen)?;
        }
    }

    /// Whether the target is at this node or further right.
    #[inline]
    fn way(&self, target: &Target, seen: &Seen) -> Way {
        self.cx.spend(Work::IndexNode, 1);
        if seen.is_removed() && !self.cx.sabotaged("bwtree.removed-check") {
            Way::PastRemoved
        } else if target.is_beyond(&seen.node.high) && !self.cx.sabotaged("bwtree.fence-check") {
            Way::PastLive
        } else {
            Way::Here
        }
    }

    /// The value of a key: a descent that notes nothing on its way.
    pub fn get(&self, key: &Key) -> Result<Option<u64>, Stop> {
        let target = Target::At(*key);
        let mut seen = self.load(self.root())?.ok_or(TreeError::NotFormatted { root: self.root() })?;
        loop {
            let node = &seen.node;
            seen = match self.way(&target, &seen) {
                Way::Here if node.level == 0 => {
                    return Ok(node.find(key.words(node.width)).ok().map(|at| node.values[at]));
                }
                Way::Here => self.child(&seen, node.route(&target))?,
                Way::PastRemoved | Way::PastLive => self.right_of(&seen)?,
            };
        }
    }
}

/// Where a target is, seen from a node at or left of it.
enum Way {
    Here,
    PastRemoved,
    PastLive,
}
