//! What the reports of runs with failures share: times after a kill, and throughput as lines of a picture.

use std::fmt::Write;

use serde::Serialize;

use crate::outside::timeline::{BUCKET_NS, Kill, median_max};
use crate::plot::{Moment, What};

/// Buckets that a point of a picture puts together: 50 ms.
const PUT_TOGETHER: usize = 10;
/// Seconds of a point.
pub const STEP_S: f64 = PUT_TOGETHER as f64 * BUCKET_NS as f64 / 1e9;

/// The middle and the longest of some times.
#[derive(Clone, Copy, Serialize)]
pub struct Times {
    median_ms: f64,
    max_ms: f64,
}

impl Times {
    /// Of some times in nanoseconds; none of none.
    pub fn of(values_ns: &[u64]) -> Option<Self> {
        let (median, max) = median_max(values_ns)?;
        Some(Self { median_ms: median as f64 / 1e6, max_ms: max as f64 / 1e6 })
    }

    /// From each kill until the host was a member again.
    pub fn back(kills: &[Kill]) -> Option<Self> {
        let times: Vec<u64> = kills.iter().filter_map(|kill| Some(kill.back_ns? - kill.at_ns)).collect();
        Self::of(&times)
    }
}

/// The head of a table of times.
pub fn write_head(text: &mut String) {
    let _ = writeln!(text, "\n{:<40}{:>12}{:>12}", "after a kill, ms", "median", "longest");
}

/// A line of it.
pub fn write_times(text: &mut String, name: &str, times: Option<Times>) {
    let _ = match times {
        Some(Times { median_ms, max_ms }) => writeln!(text, "{name:<40}{median_ms:>12.1}{max_ms:>12.1}"),
        None => writeln!(text, "{name:<40}{:>12}{:>12}", "-", "-"),
    };
}

/// Counts of buckets as points per second.
pub fn per_second(counts: &[u64]) -> Vec<f64> {
    counts.chunks_exact(PUT_TOGETHER).map(|step| step.iter().sum::<u64>() as f64 / STEP_S).collect()
}

/// Things that happen to several hosts within this time are one moment.
const TOGETHER_S: f64 = 0.025;

/// Kills and returns as moments of a picture.
pub fn moments(kills: &[Kill]) -> Vec<Moment> {
    let mut all: Vec<(f64, What, usize)> = Vec::new();
    for kill in kills {
        let what = if kill.hangs { What::Hung } else { What::Killed };
        all.push((kill.at_ns as f64 / 1e9, what, kill.host));
        all.extend(kill.back_ns.map(|back_ns| (back_ns as f64 / 1e9, What::Back, kill.host)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut moments: Vec<Moment> = Vec::new();
    for (at_s, what, host) in all {
        match moments.last_mut() {
            Some(last) if last.what == what && at_s - last.at_s < TOGETHER_S => last.hosts.push(host),
            _ => moments.push(Moment { at_s, what, hosts: vec![host] }),
        }
    }
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_killed_together_are_one_moment() {
        let kill = |host: usize, back_ns| {
            let at_ns = 1_000_000_000 + host as u64;
            Kill { at_ns, host, hangs: false, partitions: Vec::new(), back_ns }
        };
        let moments = moments(&[kill(0, Some(3_000_000_000)), kill(1, None)]);
        let shown: Vec<_> = moments.iter().map(|moment| (moment.what, &moment.hosts[..])).collect();
        assert_eq!(shown, [(What::Killed, &[0, 1][..]), (What::Back, &[0][..])]);
    }
}
