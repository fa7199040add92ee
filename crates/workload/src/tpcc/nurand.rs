//! The specification's non-uniform numbers and customers' last names (TPC-C 2.1.6, 4.3.2.3).
//!
//! 1. The constants `C` are chosen once per database (load) and once per run, from the database's seed: every
//!    worker of every host has the same ones.
//! 2. The run's constant for last names differs from the loader's by 65 to 119, but not by 96 or 112
//!    (2.1.6.1), so that the customers who are hot in the run are not those whom the loader made frequent.

use crate::random::Rng;
use crate::tpcc::Scale;

const A_LAST: i64 = 255;
const A_CUSTOMER: i64 = 1023;
const A_ITEM: i64 = 8191;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The last name of number 0 to 999 (4.3.2.3): a syllable for each of its three digits.
pub fn last_name(number: u32) -> String {
    assert!(number < 1000, "last-name number {number} is not below 1000");
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

/// The constants `C` of the three non-uniform distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NuRand {
    /// For last names, 0 to 255.
    pub last: i64,
    /// For customer numbers, 0 to 1023.
    pub customer: i64,
    /// For item numbers, 0 to 8191.
    pub item: i64,
}

fn delta_allowed(load: i64, run: i64) -> bool {
    let delta = (load - run).abs();
    (65..=119).contains(&delta) && delta != 96 && delta != 112
}

impl NuRand {
    /// What the loader of the database with this seed uses.
    pub fn load(seed: u64) -> Self {
        let mut rng = Rng::keyed(seed, &[0x4c4f_4144]);
        Self {
            last: rng.between(0, A_LAST),
            customer: rng.between(0, A_CUSTOMER),
            item: rng.between(0, A_ITEM),
        }
    }

    /// What a run against the database with this seed uses.
    pub fn run(seed: u64) -> Self {
        let load = Self::load(seed).last;
        let mut rng = Rng::keyed(seed, &[0x52_554e]);
        // For every load constant at least 53 of the 256 run constants qualify, so this ends.
        let last = loop {
            let candidate = rng.between(0, A_LAST);
            if delta_allowed(load, candidate) {
                break candidate;
            }
        };
        Self { last, customer: rng.between(0, A_CUSTOMER), item: rng.between(0, A_ITEM) }
    }

    /// The number of a last name that the scale has.
    pub fn last_number(&self, rng: &mut Rng, scale: &Scale) -> u32 {
        nurand(rng, A_LAST, self.last, 0, i64::from(scale.last_names()) - 1) as u32
    }

    /// A customer number.
    pub fn customer(&self, rng: &mut Rng, scale: &Scale) -> i32 {
        nurand(rng, A_CUSTOMER, self.customer, 1, i64::from(scale.customers)) as i32
    }

    /// An item number.
    pub fn item(&self, rng: &mut Rng, scale: &Scale) -> i32 {
        nurand(rng, A_ITEM, self.item, 1, i64::from(scale.items)) as i32
    }
}

/// `NURand(A, x, y)` of 2.1.6 with constant `c`.
fn nurand(rng: &mut Rng, a: i64, c: i64, x: i64, y: i64) -> i64 {
    (((rng.between(0, a) | rng.between(x, y)) + c) % (y - x + 1)) + x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_three_syllables() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
        assert!((0..1000).all(|n| (9..=16).contains(&last_name(n).len())));
    }

    #[test]
    fn run_constant_keeps_its_distance() {
        for seed in 0..2000 {
            let (load, run) = (NuRand::load(seed), NuRand::run(seed));
            assert!(delta_allowed(load.last, run.last), "{seed}: {load:?} {run:?}");
            assert_eq!(run, NuRand::run(seed));
        }
        for load in 0..=A_LAST {
            assert!((0..=A_LAST).filter(|run| delta_allowed(load, *run)).count() >= 53);
        }
    }

    /// The exact probability of every value, by counting all pairs, against a sample.
    fn check_distribution(a: i64, c: i64, x: i64, y: i64, draws: u32) {
        let width = (y - x + 1) as usize;
        let mut weight = vec![0u64; width];
        for p in 0..=a {
            for q in x..=y {
                weight[(((p | q) + c) % width as i64) as usize] += 1;
            }
        }
        let all: u64 = weight.iter().sum();
        let mut seen = vec![0u64; width];
        let mut rng = Rng::new(11);
        for _ in 0..draws {
            seen[(nurand(&mut rng, a, c, x, y) - x) as usize] += 1;
        }
        // Pearson's statistic over the values expected at least five times; its mean is the number of classes
        // and its standard deviation the root of twice that.
        let (mut statistic, mut classes) = (0.0, 0);
        for (n, w) in seen.iter().zip(&weight) {
            let expected = f64::from(draws) * *w as f64 / all as f64;
            if expected >= 5.0 {
                statistic += (*n as f64 - expected).powi(2) / expected;
                classes += 1;
            } else if *w == 0 {
                assert_eq!(*n, 0);
            }
        }
        let classes = f64::from(classes);
        assert!(classes > 50.0);
        assert!((statistic - classes).abs() < 5.0 * (2.0 * classes).sqrt(), "{statistic} over {classes}");
    }

    #[test]
    fn distributions_match_their_definition() {
        check_distribution(A_LAST, 123, 0, 999, 400_000);
        check_distribution(A_CUSTOMER, 259, 1, 3000, 400_000);
        check_distribution(A_ITEM, 7911, 1, 1000, 400_000);
        check_distribution(A_CUSTOMER, 5, 1, 60, 400_000);
    }
}
