//! The names of a simulated disk: what they are now, and which of their changes a loss of power may undo.
//!
//! Invariants:
//! 1. A change is durable for certain when a sync of the names that began after it has succeeded.
//! 2. A loss of power keeps any of the other changes, except that of two that concern one name the later one
//!    is kept only with the earlier one. (POSIX promises less, file systems with a journal more.)
//! 3. A rename is one change: both of its names, or none.

use std::collections::{BTreeMap, BTreeSet};

use crate::sim::Random;

/// A disk's names.
#[derive(Default)]
pub(super) struct Names {
    pub now: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    pending: Vec<Change>,
    /// Changes so far.
    made: u64,
}

struct Change {
    number: u64,
    unlinks: Option<String>,
    links: Option<(String, u64)>,
}

impl Change {
    fn names(&self) -> impl Iterator<Item = &String> {
        self.unlinks.iter().chain(self.links.iter().map(|(name, _)| name))
    }

    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        if let Some(name) = &self.unlinks {
            names.remove(name);
        }
        if let Some((name, file)) = &self.links {
            names.insert(name.clone(), *file);
        }
    }
}

impl Names {
    pub fn link(&mut self, name: &str, file: u64) {
        self.change(None, Some((name.to_owned(), file)));
    }

    pub fn unlink(&mut self, name: &str) {
        debug_assert!(self.now.contains_key(name), "{name} is no name");
        self.change(Some(name.to_owned()), None);
    }

    pub fn rename(&mut self, from: &str, to: &str) {
        let file = self.now[from];
        if from != to {
            self.change(Some(from.to_owned()), Some((to.to_owned(), file)));
        }
    }

    fn change(&mut self, unlinks: Option<String>, links: Option<(String, u64)>) {
        self.made += 1;
        let change = Change { number: self.made, unlinks, links };
        debug_assert!(self.pending.last().is_none_or(|last| last.number < change.number), "in their order");
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    /// The changes so far, for a sync that begins now.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// The first changes up to number `began` are durable.
    pub fn sync(&mut self, began: u64) {
        debug_assert!(began <= self.made, "a sync began before changes that are not made yet");
        let durable = &mut self.durable;
        self.pending.retain(|change| {
            let covered = change.number <= began;
            if covered {
                change.apply(durable);
            }
            !covered
        });
    }

    /// The sync failed: some changes are durable, the others never will be.
    pub fn fail_sync(&mut self, random: &mut Random) {
        self.keep_or_undo(random);
    }

    pub fn lose_power(&mut self, random: &mut Random) {
        self.keep_or_undo(random);
        debug_assert!(self.pending.is_empty(), "without power, each change is kept or undone");
        self.now = self.durable.clone();
    }

    fn keep_or_undo(&mut self, random: &mut Random) {
        let mood = random.below(4);
        let mut undone = BTreeSet::new();
        for change in std::mem::take(&mut self.pending) {
            let kept = mood == 0 || (mood != 1 && random.next() & 1 == 0);
            if kept && !change.names().any(|name| undone.contains(name)) {
                change.apply(&mut self.durable);
            } else {
                undone.extend(change.names().cloned());
            }
        }
    }

    /// True if a file has a name, or may have one again.
    pub fn refer_to(&self, file: u64) -> bool {
        let pending = self.pending.iter().filter_map(|change| change.links.as_ref().map(|(_, file)| file));
        self.now.values().chain(self.durable.values()).chain(pending).any(|&named| named == file)
    }
}
