//! Random ranks by Zipf's law, exactly: rank k of n with probability proportional to k^-theta.
//!
//! Rejection-inversion (W. Hoermann and G. Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", ACM TOMACS 6(3), 1996): x is drawn by inverting the integral of the
//! density, rounded to a rank, and the rank is kept if x lies under the histogram. No table, constant time, a
//! few redraws in a hundred, and exact up to rounding for every theta >= 0. The generator of YCSB (Gray and
//! others, SIGMOD 1994), which Tigon's artifact uses, approximates the ranks from the third on.

use crate::random::Rng;

/// Ranks below `n`, 0 being the most frequent.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: u64,
    theta: f64,
    /// Integrals from 1 to the ends: where the first rank's histogram begins, and where the last one's ends.
    low: f64,
    high: f64,
    /// Whoever is not further than this left of its rank lies under the histogram for sure.
    sure: f64,
}

/// (e^x - 1) / x.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x.
fn ln1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

/// The integral of t^-theta from 1 to x.
fn integral(theta: f64, x: f64) -> f64 {
    let ln = x.ln();
    expm1_over((1.0 - theta) * ln) * ln
}

/// The x that has this integral.
fn inverse(theta: f64, integral: f64) -> f64 {
    let t = ((1.0 - theta) * integral).max(-1.0);
    (ln1p_over(t) * integral).exp()
}

impl Zipf {
    /// Ranks of `n` things under the exponent `theta`; 0 is the uniform distribution.
    ///
    /// # Panics
    /// When there is nothing to rank, or `theta` is negative or no number.
    pub fn new(n: u64, theta: f64) -> Self {
        assert!(n > 0 && theta >= 0.0 && theta.is_finite(), "{n} ranks under the exponent {theta}");
        let low = integral(theta, 1.5) - 1.0;
        let high = integral(theta, n as f64 + 0.5);
        let sure = 2.0 - inverse(theta, integral(theta, 2.5) - 2f64.powf(-theta));
        Self { n, theta, low, high, sure }
    }

    /// How many things are ranked.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The next rank, from 0.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        if self.theta == 0.0 {
            return rng.below(self.n);
        }
        loop {
            // 53 bits are what a double can hold.
            let unit = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let drawn = self.high + unit * (self.low - self.high);
            let x = inverse(self.theta, drawn);
            let rank = (x + 0.5).floor().clamp(1.0, self.n as f64);
            let under = || drawn >= integral(self.theta, rank + 0.5) - rank.powf(-self.theta);
            if rank - x <= self.sure || under() {
                return rank as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pearson's statistic of a million draws against the law, with the tail in one cell, over its number of
    /// degrees of freedom.
    fn deviation(n: u64, theta: f64, cells: usize) -> f64 {
        let zipf = Zipf::new(n, theta);
        let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-theta)).collect();
        let all: f64 = weights.iter().sum();
        let mut rng = Rng::new(17);
        let mut seen = vec![0u64; cells + 1];
        const DRAWS: u64 = 1_000_000;
        for _ in 0..DRAWS {
            let rank = zipf.draw(&mut rng) as usize;
            assert!(rank < n as usize);
            seen[rank.min(cells)] += 1;
        }
        let mut expected: Vec<f64> = weights[..cells].to_vec();
        expected.push(weights[cells..].iter().sum());
        let pairs = seen.iter().zip(expected).filter(|(_, weight)| *weight > 0.0);
        let squares = pairs.map(|(seen, weight)| {
            let due = weight / all * DRAWS as f64;
            (*seen as f64 - due).powi(2) / due
        });
        squares.sum::<f64>() / cells as f64
    }

    #[test]
    fn ranks_follow_the_law() {
        // Of 200 degrees of freedom, the statistic over their number is 1 with a standard deviation of 0.1.
        for theta in [0.0, 0.5, 0.7, 0.99, 1.0, 1.3] {
            for n in [201, 1000, 300_000] {
                let deviation = deviation(n, theta, 200);
                assert!((0.6..1.45).contains(&deviation), "theta {theta}, n {n}: {deviation}");
            }
        }
        // A law that is a little different is told apart.
        let zipf = Zipf::new(1000, 0.72);
        let mut rng = Rng::new(3);
        let first = (0..1_000_000).filter(|_| zipf.draw(&mut rng) == 0).count() as f64 / 1e6;
        let all = |theta: f64| (1..=1000).map(|k| f64::from(k).powf(-theta)).sum::<f64>();
        assert!((first * all(0.72) - 1.0).abs() < 0.02 && (first * all(0.7) - 1.0).abs() > 0.05, "{first}");
    }

    #[test]
    fn one_and_two_things_can_be_ranked() {
        let mut rng = Rng::new(1);
        assert!((0..1000).all(|_| Zipf::new(1, 0.99).draw(&mut rng) == 0));
        let first = (0..30_000).filter(|_| Zipf::new(2, 1.0).draw(&mut rng) == 0).count();
        assert!(first.abs_diff(20_000) < 500, "{first}");
    }
}
