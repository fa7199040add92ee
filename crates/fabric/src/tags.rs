//! Tags of a set-associative cache: which lines a host holds, and which of them are dirty. No contents.
//!
//! Sets are chosen by a hash of the line number (as last-level caches do) and kept in order of use, so the
//! last way is the least recently used one.

/// What an access found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Hit,
    Miss {
        /// A dirty line was pushed out.
        wrote_back: bool,
    },
}

#[derive(Clone, Copy, Default)]
struct Way {
    /// Line number + 1; 0 is empty.
    tag: u32,
    /// Stamp of the line when it was filled (only coherent data lines have one), and the dirty bit.
    stamp: u32,
}

const DIRTY: u32 = 1 << 31;

/// One host's tags.
pub(crate) struct Tags {
    ways: Vec<Way>,
    per_set: usize,
    sets: u64,
}

impl Tags {
    pub fn new(size_bytes: usize, per_set: usize) -> Self {
        assert!(per_set > 0, "a set has ways");
        let sets = (size_bytes / crate::LINE / per_set).max(1);
        Self { ways: vec![Way::default(); sets * per_set], per_set, sets: sets as u64 }
    }

    #[inline]
    fn set_start(&self, line: u64) -> usize {
        let hash = (line as u32).wrapping_mul(0x9e37_79b1);
        let start = ((u64::from(hash) * self.sets) >> 32) as usize * self.per_set;
        debug_assert!(start + self.per_set <= self.ways.len(), "set of line {line} lies behind the last one");
        start
    }

    #[inline]
    fn set(&mut self, line: u64) -> &mut [Way] {
        let start = self.set_start(line);
        &mut self.ways[start..][..self.per_set]
    }

    /// Starts loading the line's set: what the caller does meanwhile hides the miss.
    #[inline]
    pub fn prefetch(&self, line: u64) {
        let start = self.set_start(line);
        crate::prefetch(&self.ways[start..][..self.per_set]);
    }

    /// Touches the line; a copy with another stamp is a miss. `dirties` marks it dirty.
    #[inline]
    pub fn access(&mut self, line: u64, stamp: u32, dirties: bool) -> Access {
        debug_assert!(line < u64::from(u32::MAX), "line {line} has no tag of its own");
        debug_assert_eq!(stamp & DIRTY, 0, "a stamp leaves the dirty bit alone");
        let tag = line as u32 + 1;
        let set = self.set(line);
        let found = set.iter().position(|way| way.tag == tag);
        let at = found.unwrap_or(set.len() - 1);
        let mut way = set[at];
        let access = if found.is_some() && way.stamp & !DIRTY == stamp {
            Access::Hit
        } else {
            let wrote_back = found.is_none() && way.stamp & DIRTY != 0;
            way = Way { tag, stamp };
            Access::Miss { wrote_back }
        };
        way.stamp |= if dirties { DIRTY } else { 0 };
        set.copy_within(..at, 1);
        set[0] = way;
        access
    }

    /// Gives the (present) line a new stamp after this host changed it.
    pub fn restamp(&mut self, line: u64, stamp: u32) {
        debug_assert_eq!(stamp & DIRTY, 0, "a stamp leaves the dirty bit alone");
        let way = &mut self.set(line)[0];
        debug_assert_eq!(way.tag, line as u32 + 1);
        way.stamp = stamp | way.stamp & DIRTY;
    }

    /// Cleans the line; true if it was dirty.
    pub fn clean(&mut self, line: u64) -> bool {
        let way = self.set(line).iter_mut().find(|way| way.tag == line as u32 + 1);
        way.is_some_and(|way| {
            let dirty = way.stamp & DIRTY != 0;
            way.stamp &= !DIRTY;
            dirty
        })
    }

    /// Drops the line; true if it was dirty.
    pub fn forget(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let Some(at) = set.iter().position(|way| way.tag == line as u32 + 1) else { return false };
        let dirty = set[at].stamp & DIRTY != 0;
        set.copy_within(at + 1.., at);
        *set.last_mut().expect("a set has ways") = Way::default();
        debug_assert!(set.iter().all(|way| way.tag != line as u32 + 1), "line {line} was there twice");
        dirty
    }

    pub fn clear(&mut self) {
        self.ways.fill(Way::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_line_goes() {
        let mut tags = Tags::new(4 * crate::LINE, 4);
        for line in 0..4 {
            assert_eq!(tags.access(line, 0, line == 1), Access::Miss { wrote_back: false });
        }
        assert_eq!(tags.access(0, 0, false), Access::Hit);
        assert_eq!(
            tags.access(4, 0, false),
            Access::Miss { wrote_back: true },
            "line 1 was the oldest, and dirty"
        );
        assert_eq!(tags.access(1, 0, false), Access::Miss { wrote_back: false });
    }

    #[test]
    fn cleaning_and_forgetting_say_what_was_dirty() {
        let mut tags = Tags::new(64 * crate::LINE, 8);
        tags.access(7, 0, true);
        assert!(tags.clean(7) && !tags.clean(7));
        tags.access(7, 0, true);
        assert!(tags.forget(7) && !tags.forget(7));
        assert_eq!(tags.access(7, 0, false), Access::Miss { wrote_back: false });
    }

    #[test]
    fn another_stamp_is_a_miss() {
        let mut tags = Tags::new(64 * crate::LINE, 8);
        tags.access(3, 1, false);
        assert_eq!(tags.access(3, 1, false), Access::Hit);
        assert_eq!(tags.access(3, 2, true), Access::Miss { wrote_back: false });
        tags.restamp(3, 5);
        assert_eq!(tags.access(3, 5, false), Access::Hit);
    }
}
