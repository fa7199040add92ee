//! Keys and fences: fixed-width tuples of unsigned words, compared word by word.
//!
//! It does not know nodes. A tree has one width; keys of different widths are never compared.

use std::fmt;

/// Most words in a key.
pub const MAX_WIDTH: usize = 8;

/// A key by value; the words behind the tree's width are 0, so that comparison needs no width.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key([u64; MAX_WIDTH]);

impl Key {
    /// The key with these words (1 to 8).
    pub fn new(words: &[u64]) -> Self {
        debug_assert!((1..=MAX_WIDTH).contains(&words.len()), "a key of {} words", words.len());
        let mut key = [0; MAX_WIDTH];
        key[..words.len()].copy_from_slice(words);
        Self(key)
    }

    /// The first `width` words.
    pub fn words(&self, width: usize) -> &[u64] {
        debug_assert!(self.0[width..].iter().all(|word| *word == 0), "a key of a wider tree");
        &self.0[..width]
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.0.iter().rposition(|w| *w != 0).map_or(1, |i| i + 1);
        write!(f, "{:?}", &self.0[..used])
    }
}

/// A bound of a node's key range: a key, or beyond all keys on either side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fence {
    /// Below every key.
    Min,
    /// At a key.
    At(Key),
    /// Above every key.
    Max,
}

/// What a descent looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// The node whose range holds the key.
    At(Key),
    /// The node whose range holds what comes immediately before the key.
    Before(Key),
}

impl Target {
    /// True when the target lies right of a node with this high fence.
    #[inline]
    pub fn is_beyond(&self, high: &Fence) -> bool {
        match (self, high) {
            (_, Fence::Max) => false,
            (_, Fence::Min) => true,
            (Target::At(key), Fence::At(high)) => key >= high,
            (Target::Before(key), Fence::At(high)) => key > high,
        }
    }
}

/// Index of the first of the keys (flat, `width` words each) that is not below `key`.
#[inline]
pub(super) fn lower_bound(keys: &[u64], width: usize, key: &[u64]) -> usize {
    debug_assert!(key.len() == width && keys.len().is_multiple_of(width), "keys of one width");
    if width == 1 {
        let wanted = key[0];
        return keys.partition_point(|k| *k < wanted);
    }
    partition(keys, width, |k| k < key)
}

/// Index of the first of the keys that is above `key`.
#[inline]
pub(super) fn upper_bound(keys: &[u64], width: usize, key: &[u64]) -> usize {
    debug_assert!(key.len() == width && keys.len().is_multiple_of(width), "keys of one width");
    if width == 1 {
        let wanted = key[0];
        return keys.partition_point(|k| *k <= wanted);
    }
    partition(keys, width, |k| k <= key)
}

fn partition(keys: &[u64], width: usize, left: impl Fn(&[u64]) -> bool) -> usize {
    let (mut low, mut high) = (0, keys.len() / width);
    while low < high {
        let middle = low + (high - low) / 2;
        if left(&keys[middle * width..][..width]) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_agree_with_a_linear_search() {
        for width in 1..=3 {
            let keys: Vec<u64> = (0..20u64).flat_map(|i| vec![i * 2; width]).collect();
            for wanted in 0..42u64 {
                let key = vec![wanted; width];
                let below = keys.chunks(width).filter(|k| *k < &key[..]).count();
                let upto = keys.chunks(width).filter(|k| *k <= &key[..]).count();
                assert_eq!(lower_bound(&keys, width, &key), below);
                assert_eq!(upper_bound(&keys, width, &key), upto);
            }
        }
    }

    #[test]
    fn fences_enclose_every_key() {
        let key = Key::new(&[u64::MAX; 3]);
        assert!(Fence::Min < Fence::At(Key::new(&[0])) && Fence::At(key) < Fence::Max);
        assert!(
            Target::At(key).is_beyond(&Fence::At(key)) && !Target::Before(key).is_beyond(&Fence::At(key))
        );
    }
}
