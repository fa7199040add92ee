//! A hash table from keys of one word to row numbers: what a [`super::LocalTree`] of such keys asks when only
//! one key is of interest. A look-up reads one cache line, where a search in a leaf reads twelve.
//!
//! ```text
//! bucket, 64 B: | 5 keys, u64 | their rows, 5 u32 | passed u16 | count u8 | unused u8 |
//! ```
//!
//! Invariants:
//! 1. A key is in its home bucket (the hash's top bits) or, if that was full, in the first one behind it
//!    that was not, around the end. Entries 0 to `count` - 1 of a bucket are in use.
//! 2. `passed` is how many keys went past the bucket because it was full; at [`MANY`] it stays there. A
//!    search ends at the first bucket that none has passed, or where it began: in a table of few buckets,
//!    keys that came and went can have passed all of them. So a removal moves nothing between buckets.
//! 3. At most four of five places are in use; the table doubles before more are, which takes the time of as
//!    many insertions at once. It never shrinks: a table that was so large is likely to be so again.
//! 4. The hash is fixed: the same operations make the same table.
//!
//! The counters of keys that passed a full bucket are those of Bronson and Shi, "Open-sourcing F14" (2019).

/// Entries of a bucket.
const WAYS: usize = 5;

/// Where [`Bucket::passed`] stops counting: searches go past such a bucket until the table doubles.
const MANY: u16 = u16::MAX;

/// A cache line of entries.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Bucket {
    keys: [u64; WAYS],
    rows: [u32; WAYS],
    passed: u16,
    count: u8,
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// The place of `key`, at least `count` if it is not here. No branches: the place is random.
    #[inline(always)]
    fn at(&self, key: u64) -> usize {
        let mut at = WAYS;
        for i in (0..WAYS).rev() {
            at = if self.keys[i] == key { i } else { at };
        }
        at
    }

    #[inline]
    fn used(&self) -> usize {
        usize::from(self.count)
    }
}

/// The table.
#[derive(Clone, Debug)]
pub(super) struct Points {
    /// A power of 2 of them.
    buckets: Vec<Bucket>,
    len: usize,
}

impl Points {
    /// An empty table.
    pub(super) fn new() -> Points {
        Points { buckets: vec![Bucket::default()], len: 0 }
    }

    /// Bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Bucket>() * self.buckets.capacity()
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        // splitmix64's finaliser without its last steps, and the product's top bits.
        let mixed = (key ^ (key >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // As if the hash were a fraction: a single bucket needs no shift by 64.
        ((u128::from(mixed) * self.buckets.len() as u128) >> 64) as usize
    }

    #[inline]
    fn behind(&self, bucket: usize) -> usize {
        debug_assert!(self.buckets.len().is_power_of_two(), "the end is found by a mask");
        (bucket + 1) & (self.buckets.len() - 1)
    }

    /// The row of `key`.
    #[inline]
    pub(super) fn get(&self, key: u64) -> Option<u32> {
        let home = self.home(key);
        let mut at = home;
        loop {
            let bucket = &self.buckets[at];
            let i = bucket.at(key);
            if i < bucket.used() {
                return Some(bucket.rows[i]);
            }
            at = self.behind(at);
            if bucket.passed == 0 || at == home {
                return None;
            }
        }
    }

    /// Starts loading what [`Points::get`] of this key will most likely read.
    #[inline]
    pub(super) fn prefetch(&self, key: u64) {
        liger_fabric::prefetch(std::slice::from_ref(&self.buckets[self.home(key)]));
    }

    /// Adds a key that is not there.
    pub(super) fn insert(&mut self, key: u64, row: u32) {
        debug_assert!(self.get(key).is_none(), "key {key:#x} is there");
        if 5 * self.len >= 4 * WAYS * self.buckets.len() {
            self.double();
        }
        self.add(key, row);
        self.len += 1;
    }

    fn add(&mut self, key: u64, row: u32) {
        debug_assert!(self.len < WAYS * self.buckets.len(), "a full table has no place");
        let mut at = self.home(key);
        while self.buckets[at].used() == WAYS {
            self.buckets[at].passed = self.buckets[at].passed.saturating_add(1);
            at = self.behind(at);
        }
        let bucket = &mut self.buckets[at];
        bucket.keys[bucket.used()] = key;
        bucket.rows[bucket.used()] = row;
        bucket.count += 1;
    }

    fn double(&mut self) {
        let buckets = vec![Bucket::default(); 2 * self.buckets.len()];
        for bucket in std::mem::replace(&mut self.buckets, buckets) {
            for i in 0..bucket.used() {
                self.add(bucket.keys[i], bucket.rows[i]);
            }
        }
    }

    /// Removes a key that is there.
    pub(super) fn remove(&mut self, key: u64) {
        let mut at = self.home(key);
        let place = loop {
            let bucket = &mut self.buckets[at];
            let i = bucket.at(key);
            if i < bucket.used() {
                break i;
            }
            assert!(bucket.passed > 0, "key {key:#x} is not there");
            if bucket.passed < MANY {
                bucket.passed -= 1;
            }
            at = self.behind(at);
        };
        let bucket = &mut self.buckets[at];
        bucket.count -= 1;
        bucket.keys[place] = bucket.keys[bucket.used()];
        bucket.rows[place] = bucket.rows[bucket.used()];
        self.len -= 1;
        debug_assert!(self.get(key).is_none(), "key {key:#x} was there twice");
    }

    /// Checks that this is a table of `len` keys, and its counters.
    ///
    /// # Panics
    /// If an invariant is broken.
    pub(super) fn check(&self, len: usize) {
        assert_eq!(self.len, len, "keys in the hash table");
        assert!(self.buckets.len().is_power_of_two() && 5 * len <= 4 * WAYS * self.buckets.len());
        let mut passed = vec![0usize; self.buckets.len()];
        let mut found = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            found += bucket.used();
            for &key in &bucket.keys[..bucket.used()] {
                let mut home = self.home(key);
                while home != at {
                    passed[home] += 1;
                    home = self.behind(home);
                }
            }
        }
        assert_eq!(found, len, "entries in the hash table");
        for (at, (bucket, passed)) in self.buckets.iter().zip(passed).enumerate() {
            let right = usize::from(bucket.passed) == passed || bucket.passed == MANY;
            assert!(right, "bucket {at} says that {} keys passed, not {passed}", bucket.passed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Points;

    /// Keys come and go in tables of 1 to 4 buckets until each bucket was passed; who asks for a key that is
    /// not there is told so, wherever the search began.
    #[test]
    fn a_search_ends_in_a_table_whose_buckets_have_all_been_passed() {
        let (mut random, mut all_passed) = (1u64, 0);
        for most in [3, 7, 15] {
            let (mut points, mut keys) = (Points::new(), Vec::new());
            for turn in 0..100_000u64 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let pick = (random >> 33) as usize;
                if keys.len() == most || (!keys.is_empty() && pick.is_multiple_of(3)) {
                    points.remove(keys.swap_remove(pick % keys.len()));
                } else {
                    points.insert(turn, turn as u32);
                    keys.push(turn);
                }
                all_passed += usize::from(points.buckets.iter().all(|bucket| bucket.passed > 0));
                assert_eq!(points.get(turn + 1), None);
                assert!(keys.iter().all(|&key| points.get(key) == Some(key as u32)));
            }
            points.check(keys.len());
        }
        assert!(all_passed > 0, "not the case that this is about");
    }
}
