//! Versions of rows that were overwritten or removed, in the DRAM of the host that owns them, for readers of
//! snapshots (docs/protocols/snapshots.md).
//!
//! Invariants:
//! 1. What is said of a row stays true: from one version to before another it had these bytes.
//! 2. Between two versions of one moment there is no snapshot, and the first of them is not kept.
//! 3. What goes is what no snapshot wants, or the oldest, where there is too much: then it is told since when
//!    everything is here.
//!
//! Not here: versions that other hosts have overwritten (chain.rs), and who reads (as_of.rs).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use crate::log::record::moment_of;
use crate::tables::key::Key;

/// What a kept version takes beside its row, in bytes, about.
const OVERHEAD: usize = 2 * size_of::<Key>() + 96;

/// A version of a row that was overwritten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Old {
    /// The version.
    pub from: u64,
    /// The version that replaced it.
    pub until: u64,
    /// The row.
    pub bytes: Box<[u8]>,
}

impl Old {
    /// True if this is what a snapshot of that moment shows.
    pub fn is_of(&self, moment: u64) -> bool {
        moment_of(self.from) <= moment && moment < moment_of(self.until)
    }

    fn size(&self) -> usize {
        self.bytes.len() + OVERHEAD
    }
}

/// Those of a table's share of a partition.
#[derive(Default, Debug)]
pub struct Kept {
    /// By key, in the order of versions.
    rows: BTreeMap<Key, Vec<Old>>,
    /// The moments in which they were overwritten, and of which row, in the order in which they came.
    order: VecDeque<(u64, Key)>,
    bytes: usize,
}

impl Kept {
    /// Keeps a version. Returns how many bytes that takes.
    pub fn keep(&mut self, key: &Key, old: Old) -> usize {
        debug_assert!(old.from < old.until, "a version is replaced by a later one: {old:?}");
        if moment_of(old.from) == moment_of(old.until) {
            return 0;
        }
        let versions = self.rows.entry(*key).or_default();
        let at = versions.partition_point(|other| other.from < old.from);
        if versions.get(at).is_some_and(|other| other.from == old.from) {
            debug_assert_eq!(versions[at].bytes, old.bytes, "version {:#x} of {key:?}", old.from);
            return 0;
        }
        let size = old.size();
        self.order.push_back((moment_of(old.until), *key));
        versions.insert(at, old);
        self.bytes += size;
        size
    }

    /// The version of a row that a snapshot of this moment shows, if it is here.
    pub fn as_of(&self, key: &Key, moment: u64) -> Option<&Old> {
        if self.rows.is_empty() {
            return None;
        }
        self.rows.get(key)?.iter().rev().find(|old| old.is_of(moment))
    }

    /// The first key from `from` on that has old versions.
    pub fn first_key(&self, from: &Key) -> Option<Key> {
        self.rows.range((Bound::Included(*from), Bound::Unbounded)).next().map(|(key, _)| *key)
    }

    /// True if nothing is kept.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets some of the versions that were overwritten in moments up to this one: no snapshot wants them.
    /// Returns how many bytes that gives.
    pub fn forget_up_to(&mut self, moment: u64, most: usize) -> usize {
        let before = self.bytes;
        for _ in 0..most {
            let Some(&(until, _)) = self.order.front() else { break };
            if until > moment {
                break;
            }
            self.forget_first();
        }
        before - self.bytes
    }

    /// Forgets the oldest, until so many bytes are given: how many are, and since which moment everything is
    /// here.
    pub fn forget_bytes(&mut self, bytes: usize) -> (usize, u64) {
        let (before, mut since) = (self.bytes, 0);
        while before - self.bytes < bytes {
            let Some(&(until, _)) = self.order.front() else { break };
            since = since.max(until);
            self.forget_first();
        }
        (before - self.bytes, since)
    }

    /// Forgets the version that came first.
    fn forget_first(&mut self) {
        let Some((until, key)) = self.order.pop_front() else { return };
        let versions = self.rows.get_mut(&key).expect("what is in the order is here");
        let at =
            versions.iter().position(|old| moment_of(old.until) == until).expect("each is in the order once");
        self.bytes -= versions.remove(at).size();
        if versions.is_empty() {
            self.rows.remove(&key);
        }
        debug_assert_eq!(self.order.is_empty(), self.rows.is_empty(), "each is in the order once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::first_of_moment;

    fn old(from: u64, until: u64) -> Old {
        Old { from: first_of_moment(from), until: first_of_moment(until), bytes: Box::new([from as u8]) }
    }

    #[test]
    fn a_moment_has_the_version_that_it_began_with() {
        let (mut kept, key) = (Kept::default(), Key::from_words(&[5]));
        // The row was removed in moment 7, and came back in moment 9.
        for (from, until) in [(3, 7), (9, 12), (12, 13), (1, 3)] {
            assert!(kept.keep(&key, old(from, until)) > 0);
        }
        let seen = |kept: &Kept, moment| kept.as_of(&key, moment).map(|old| old.bytes[0]);
        let of = |kept: &Kept| (0..14).map(|moment| seen(kept, moment)).collect::<Vec<_>>();
        let (a, b, c) = (Some(1), Some(3), Some(9));
        assert_eq!(of(&kept), [None, a, a, b, b, b, b, None, None, c, c, c, Some(12), None]);
        assert_eq!(kept.keep(&key, old(9, 12)), 0, "it is here");
        assert_eq!(kept.as_of(&Key::from_words(&[6]), 4), None);
        // What came first goes first; what somebody may want stays.
        assert_eq!(kept.forget_up_to(6, 9), 0);
        assert!(kept.forget_up_to(12, 9) > 0);
        assert_eq!((seen(&kept, 4), seen(&kept, 9), seen(&kept, 12)), (None, None, Some(12)));
        let all = kept.bytes();
        assert_eq!(kept.forget_bytes(1), (all / 2, 13));
        assert_eq!(kept.forget_bytes(1), (all / 2, 3));
        assert!(kept.is_empty() && kept.bytes() == 0 && kept.first_key(&key).is_none());
    }

    #[test]
    fn there_is_no_snapshot_within_a_moment() {
        let (mut kept, key) = (Kept::default(), Key::from_words(&[5]));
        let (from, until) = (first_of_moment(3), first_of_moment(3) + 1);
        assert_eq!(kept.keep(&key, Old { from, until, bytes: Box::new([1]) }), 0);
        assert!(kept.is_empty());
        // Changed twice in moment 5: of moment 4 is the version before.
        let (from, until) = (first_of_moment(3) + 1, first_of_moment(5));
        kept.keep(&key, Old { from, until, bytes: Box::new([2]) });
        assert_eq!(kept.as_of(&key, 4).map(|old| old.bytes[0]), Some(2));
    }
}
