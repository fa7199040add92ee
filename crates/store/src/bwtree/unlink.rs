//! Removing empty nodes: no lock, no abort, every step one compare-and-swap that anybody can do next.
//!
//! 1. *Remove*: set the removed bit in the word of an empty leaf that is not the last of its level. In this
//!    instant its range goes to the next live node. (The same for an inner node whose only child is being
//!    removed.)
//! 2. *Detach*: take it out of its parent ([`Op::detach`]), or change the parent's word if it is not there.
//! 3. *Unlink*: let the live node left of it skip it ([`Op::unlink_before`]).
//! 4. *Claim*: make its word dead. Who succeeds retires the word and the records.
//!
//! Invariant: a node is claimed only when no reachable node names it, and from then on none ever will:
//! entries of parents come from `post` and `detach`, whose swaps fail because step 2 changed the parent's
//! word after step 1; links come from the left neighbour's own word.

use liger_fabric::Fabric;

use super::TreeError;
use super::access::{Op, Seen, Stop, damaged};
use super::key::{Fence, Key, Target};
use super::node::Node;

/// How often a removal starts over before it is left to others.
const MAX_TRIES: u32 = 1000;

/// Two live neighbours and the removed nodes between them.
struct Gap {
    left: Seen,
    removed: Vec<Seen>,
    right: u64,
}

impl<F: Fabric> Op<'_, F> {
    /// Removes a leaf if it is still empty. Without memory the rest is left to whoever comes by next.
    pub fn remove_node(&self, id: u64) -> Result<(), TreeError> {
        let Some(seen) = self.load(id)? else { return Ok(()) };
        let empty = seen.node.level == 0 && seen.node.len() == 0 && seen.node.high != Fence::Max;
        if seen.is_removed() || !empty || !self.swap(id, seen.word, seen.word.removed()) {
            return Ok(());
        }
        self.finish_own_removal(id)
    }

    /// Steps 2 to 4 for a node that we removed: nobody else may know of it, so others in the way are no
    /// excuse.
    fn finish_own_removal(&self, id: u64) -> Result<(), TreeError> {
        debug_assert_ne!(id, self.root(), "the root covers all keys: it is never removed");
        for _ in 0..MAX_TRIES {
            match self.finish_removal(id) {
                Err(Stop::Restart) => self.cx.pause(),
                Err(Stop::Fail(TreeError::OutOfMemory(_))) | Ok(()) => return Ok(()),
                Err(Stop::Fail(error)) => return Err(error),
            }
        }
        if let Some(seen) = self.load(id)?.filter(Seen::is_removed) {
            self.host.unfinished.note(self.cx, self.root(), id, seen.word);
        }
        Ok(())
    }

    /// Goes on with a removal that this host could not finish, if there is one.
    pub fn finish_earlier(&self) -> Result<(), Stop> {
        let Some((id, word)) = self.host.unfinished.take(self.cx, self.root()) else { return Ok(()) };
        // Claimed by somebody else, the id may name another node by now.
        if self.word(id) == word { Ok(self.finish_own_removal(id)?) } else { Ok(()) }
    }

    /// Steps 2 to 4 for a node that may or may not still need them. What memory is missing for is noted.
    pub fn finish_removal(&self, id: u64) -> Result<(), Stop> {
        let Some(seen) = self.load(id)?.filter(Seen::is_removed) else { return Ok(()) };
        let finished = self.finish_seen(&seen);
        let stopped = matches!(finished, Err(Stop::Fail(TreeError::OutOfMemory(_))));
        if stopped && !self.cx.sabotaged("bwtree.note-unfinished") {
            self.host.unfinished.note(self.cx, self.root(), id, seen.word);
        }
        finished
    }

    fn finish_seen(&self, removed: &Seen) -> Result<(), Stop> {
        debug_assert!(removed.is_removed(), "the steps begin with the removed bit");
        if !self.cx.sabotaged("bwtree.detach") {
            self.detach(removed)?;
        }
        if !self.cx.sabotaged("bwtree.unlink") {
            self.unlink_before(removed.node.level, removed.node.low)?;
        }
        self.claim(removed);
        Ok(())
    }

    /// The first live node right of a removed one.
    fn next_live(&self, removed: &Seen) -> Result<Seen, Stop> {
        let mut next = self.right_of(removed)?;
        while next.is_removed() {
            next = self.right_of(&next)?;
        }
        Ok(next)
    }

    /// Takes a removed node out of its parent.
    ///
    /// The order matters: the parent's word, then the state of whom its entry is given to (see `post`).
    fn detach(&self, removed: &Seen) -> Result<(), Stop> {
        let Fence::At(end) = removed.node.high else {
            return Err(damaged(removed.word.record(), "the last node of a level is removed").into());
        };
        loop {
            if self.word(removed.id()) != removed.word {
                return Ok(());
            }
            let place = self.descend(&Target::Before(end), removed.node.level + 1)?;
            let parent = &place.seen;
            let node = &parent.node;
            let at = node.route(&Target::Before(end));
            if node.values[at] != removed.id() {
                if self.cx.sabotaged("bwtree.bump")
                    || self.swap(parent.id(), parent.word, parent.word.bumped())
                {
                    return Ok(());
                }
                continue;
            }
            let next = self.next_live(removed)?;
            let shared = next.node.high <= node.bound(at);
            if !shared && node.len() == 1 {
                // The entry stays where nobody reads it any more: routes lead past removed nodes.
                if self.swap(parent.id(), parent.word, parent.word.removed()) {
                    return Ok(self.finish_own_removal(parent.id())?);
                }
                continue;
            }
            let mut new = Node::clone(node);
            if shared {
                new.values[at] = next.id();
            } else {
                new.take(at);
            }
            if self.install(parent, new)? {
                return Ok(());
            }
            self.cx.pause();
        }
    }

    /// Unlinks and claims the removed nodes between the live nodes on either side of the low fence of a node,
    /// whichever they are, and returns the one on the left, if there is one.
    pub fn unlink_before(&self, level: u8, low: Fence) -> Result<Option<Seen>, Stop> {
        let Fence::At(low) = low else { return Ok(None) };
        loop {
            let Some(gap) = self.gap(level, &low)? else { return Ok(None) };
            if gap.removed.is_empty() {
                return Ok(Some(gap.left));
            }
            debug_assert!(!gap.left.is_removed() && gap.removed.iter().all(Seen::is_removed));
            for removed in &gap.removed {
                self.detach(removed)?;
            }
            if self.install(&gap.left, Node { next: gap.right, ..Node::clone(&gap.left.node) })? {
                gap.removed.iter().for_each(|removed| self.claim(removed));
                return Ok(Some(gap.left));
            }
            self.cx.pause();
        }
    }

    /// The last live node whose low fence is below `low`, and what follows it up to the next live node;
    /// `None` if there is no such node.
    ///
    /// The owner of the key before `low` may be right of it already (ranges go right when nodes are removed),
    /// so the search goes on at the next bound further left until it finds a live node or there is no bound.
    fn gap(&self, level: u8, low: &Key) -> Result<Option<Gap>, Stop> {
        let mut bound = *low;
        'search: loop {
            let place = self.landing(&Target::Before(bound), level)?;
            let mut at = place.seen;
            let mut left: Option<Seen> = None;
            let mut removed = vec![];
            while at.is_removed() || at.node.low < Fence::At(*low) {
                let next = at.node.next;
                if !at.is_removed() {
                    removed.clear();
                    left = Some(at);
                    if next == 0 {
                        // Its low fence has sunk meanwhile, and what we look for is unlinked.
                        break 'search Ok(left.map(|left| Gap { left, removed, right: 0 }));
                    }
                } else if left.is_some() {
                    removed.push(at);
                } else if at.node.low < Fence::At(*low) {
                    // Its parent still names it: with it gone the route leads further left, or right of it
                    // for good.
                    self.finish_removal(at.id())?;
                    continue 'search;
                }
                at = self.load_at(next, level)?;
            }
            match (left, place.floor) {
                (Some(left), _) => break Ok(Some(Gap { left, removed, right: at.id() })),
                (None, Fence::At(floor)) => bound = floor,
                (None, _) => break Ok(None),
            }
        }
    }

    /// Makes the word of an unreachable node dead; who does it retires the node.
    fn claim(&self, removed: &Seen) {
        debug_assert!(removed.is_removed(), "only what was removed is claimed");
        if self.swap(removed.id(), removed.word, removed.word.dead()) {
            self.retire_chain(&removed.node);
            self.retire_id(removed.id());
        }
    }
}
