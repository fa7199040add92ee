//! Replayable random numbers for generators and loaders.
//!
//! 1. A stream follows from its seed alone. A driver seeds it once from `Cx::random`, so the inputs of a
//!    worker depend on the run's seed and not on how often the engine drew (for back-off, say) in between:
//!    two protocols under the same seed are given the same transactions.
//! 2. [`Rng::keyed`] gives every row of the initial database its own stream, so any row can be computed
//!    alone, in any order and on any host. The consistency check uses that to know what a row held before the
//!    run.
//!
//! Not for secrets.

/// A stream of random numbers (SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const ALPHANUMERIC: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const DIGITS: &[u8; 10] = b"0123456789";
const UPPER: &[u8; 26] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed.wrapping_add(STEP)))
    }

    /// The stream of one thing, named by a list of numbers, under `seed`.
    pub fn keyed(seed: u64, key: &[u64]) -> Self {
        let folded =
            key.iter().fold(mix(seed ^ STEP), |state, part| mix(state.wrapping_add(STEP) ^ mix(*part)));
        Self(folded)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number in `0..bound` (bound > 0), by multiply-shift.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..=high`, both ends included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        debug_assert!(low <= high);
        low + self.below((high - low) as u64 + 1) as i64
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// Fills `out` with characters of `alphabet`, ten or fewer from each draw: the draw is a binary fraction
    /// whose leading digits in base `alphabet.len()` are taken off one by one.
    fn fill(&mut self, alphabet: &[u8], out: &mut [u8]) {
        for piece in out.chunks_mut(10) {
            let mut fraction = self.next_u64();
            for slot in piece {
                let wide = u128::from(fraction) * alphabet.len() as u128;
                *slot = alphabet[(wide >> 64) as usize];
                fraction = wide as u64;
            }
        }
    }

    fn text(&mut self, alphabet: &[u8], low: usize, high: usize) -> String {
        let length = self.between(low as i64, high as i64) as usize;
        let mut bytes = vec![0; length];
        self.fill(alphabet, &mut bytes);
        String::from_utf8(bytes).expect("alphabets are ASCII")
    }

    /// A random a-string (TPC-C 4.3.2.2): letters of both cases and digits, `low..=high` characters.
    pub fn a_string(&mut self, low: usize, high: usize) -> String {
        self.text(ALPHANUMERIC, low, high)
    }

    /// A random n-string (TPC-C 4.3.2.2): digits, `low..=high` of them.
    pub fn n_string(&mut self, low: usize, high: usize) -> String {
        self.text(DIGITS, low, high)
    }

    /// `length` capital letters.
    pub fn letters(&mut self, length: usize) -> String {
        self.text(UPPER, length, length)
    }

    /// Shuffles in place (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// A random permutation of `1..=n`.
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (1..=n).collect();
        self.shuffle(&mut numbers);
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_replay_and_differ_by_key() {
        let draw = |mut rng: Rng| (0..4).map(|_| rng.next_u64()).collect::<Vec<_>>();
        assert_eq!(draw(Rng::new(7)), draw(Rng::new(7)));
        assert_ne!(draw(Rng::new(7)), draw(Rng::new(8)));
        assert_eq!(draw(Rng::keyed(7, &[1, 2])), draw(Rng::keyed(7, &[1, 2])));
        assert_ne!(draw(Rng::keyed(7, &[1, 2])), draw(Rng::keyed(7, &[2, 1])));
        assert_ne!(draw(Rng::keyed(7, &[1])), draw(Rng::keyed(7, &[1, 0])));
    }

    #[test]
    fn bounds_are_reached_and_kept() {
        let mut rng = Rng::new(1);
        let seen: Vec<i64> = (0..10_000).map(|_| rng.between(-3, 3)).collect();
        assert_eq!((seen.iter().min(), seen.iter().max()), (Some(&-3), Some(&3)));
        let lengths: Vec<usize> = (0..2000).map(|_| rng.a_string(8, 16).len()).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&8), Some(&16)));
        assert!(rng.n_string(500, 500).bytes().all(|b| b.is_ascii_digit()));
    }

    #[test]
    fn strings_use_the_whole_alphabet_evenly() {
        let mut count = [0u32; 256];
        let mut rng = Rng::new(2);
        for byte in rng.a_string(620_000, 620_000).bytes() {
            count[usize::from(byte)] += 1;
        }
        let used: Vec<u32> = count.into_iter().filter(|c| *c > 0).collect();
        assert_eq!(used.len(), 62);
        // 10 000 expected of each; six standard deviations are 600.
        assert!(used.iter().all(|c| c.abs_diff(10_000) < 600), "{used:?}");
    }

    #[test]
    fn permutations_hold_every_number_once() {
        let mut numbers = Rng::new(3).permutation(1000);
        assert_ne!(numbers, (1..=1000).collect::<Vec<_>>());
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=1000).collect::<Vec<_>>());
    }
}
