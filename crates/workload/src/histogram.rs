//! A latency histogram: log-linear buckets, mergeable, small when written down.
//!
//! 1. Values below 64 have a bucket each; above, every power of two is cut into 32 buckets, so a reported
//!    value is at most 1/32 (3.2 %) above the true one, and never below it, except that no value above the
//!    recorded maximum is ever reported.
//! 2. Merging is exact: the histogram of two workers is the sum of theirs.
//!
//! It does not correct for coordinated omission: the driver is a closed loop and says so.

use serde::{Deserialize, Serialize};

const SUB_BITS: u32 = 5;
const LINEAR: u64 = 2 << SUB_BITS;

/// Counts of values by size. Values have the unit the caller gives them; Liger records nanoseconds.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Sparse", into = "Sparse")]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: u64,
}

/// The written form: only the buckets that hold something.
#[derive(Serialize, Deserialize)]
struct Sparse {
    buckets: Vec<(u32, u64)>,
    sum_low: u64,
    sum_high: u64,
    max: u64,
}

impl From<Histogram> for Sparse {
    fn from(full: Histogram) -> Self {
        let numbered = full.counts.into_iter().enumerate();
        Self {
            buckets: numbered.filter(|(_, n)| *n > 0).map(|(at, n)| (at as u32, n)).collect(),
            sum_low: full.sum as u64,
            sum_high: (full.sum >> 64) as u64,
            max: full.max,
        }
    }
}

impl From<Sparse> for Histogram {
    fn from(sparse: Sparse) -> Self {
        let mut full = Histogram {
            sum: u128::from(sparse.sum_high) << 64 | u128::from(sparse.sum_low),
            max: sparse.max,
            ..Histogram::default()
        };
        // Whatever was read, no bucket lies above the last one that a u64 can fall into.
        let last = bucket_of(u64::MAX);
        for (at, n) in sparse.buckets {
            full.add((at as usize).min(last), n);
        }
        full
    }
}

fn bucket_of(value: u64) -> usize {
    if value < LINEAR {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    ((u64::from(shift) << SUB_BITS) + (value >> shift)) as usize
}

/// The largest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < LINEAR {
        return bucket;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    let mantissa = bucket - (shift << SUB_BITS);
    (mantissa << shift) | ((1 << shift) - 1)
}

impl Histogram {
    fn add(&mut self, bucket: usize, n: u64) {
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += n;
        self.total += n;
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.add(bucket_of(value), 1);
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// Adds everything another histogram counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (bucket, n) in other.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            self.add(bucket, *n);
        }
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// How many values were recorded.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// True when nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The largest value recorded (0 when empty).
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean (0 when empty).
    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum as f64 / self.total as f64 }
    }

    /// The value that a share `quantile` (0 to 1) of all values does not exceed, rounded up to its bucket; 0
    /// when empty.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let rank = ((quantile * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (bucket, n) in self.counts.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return top_of(bucket).min(self.max);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_tight() {
        let mut expected = 0;
        for bucket in 0..=bucket_of(u64::MAX) {
            assert_eq!(bucket_of(expected), bucket, "lowest value of bucket {bucket}");
            let top = top_of(bucket);
            assert_eq!(bucket_of(top), bucket);
            assert!(top - expected <= expected / 32);
            expected = top.wrapping_add(1);
        }
        assert_eq!(expected, 0, "the last bucket ends at u64::MAX");
    }

    #[test]
    fn quantiles_of_a_ramp() {
        let mut h = Histogram::default();
        assert_eq!((h.quantile(0.5), h.max(), h.is_empty()), (0, 0, true));
        (1..=10_000).for_each(|v| h.record(v));
        assert_eq!(h.len(), 10_000);
        for (q, exact) in [(0.5, 5000), (0.99, 9900), (1.0, 10_000), (0.0, 1)] {
            let got = h.quantile(q);
            assert!(got >= exact && got <= exact + exact / 32, "{q}: {got}");
        }
        assert_eq!(h.mean(), 5000.5);
    }

    #[test]
    fn merge_equals_recording_together_and_survives_json() {
        let (mut a, mut b, mut both) = Default::default();
        fn fill(h: &mut Histogram, from: u64) {
            (0..500).for_each(|n| h.record(from + n * n * 977));
        }
        fill(&mut a, 3);
        fill(&mut b, 1 << 40);
        fill(&mut both, 3);
        fill(&mut both, 1 << 40);
        a.merge(&b);
        assert_eq!(a, both);
        let text = serde_json::to_string(&a).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), a);
    }
}
