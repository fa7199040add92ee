//! What a run has left on storage: checkpoints taken, logs shortened.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// A checkpoint of one host.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct CheckpointFigures {
    /// Bytes of its images.
    pub bytes: u64,
    /// From its begin until it counted.
    pub seconds: f64,
}

/// What hosts with logs have written and removed during a run. Sums over hosts with
/// [`StorageFigures::merge`], where nothing else is said.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct StorageFigures {
    /// The bound on a host's log.
    pub replay_limit_bytes: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Given up because a row stayed locked.
    pub checkpoints_given_up: u64,
    /// Median of their images' bytes.
    pub checkpoint_bytes_median: u64,
    /// Median of the time that one took.
    pub checkpoint_s_median: f64,
    /// Bytes of the logs at the end.
    pub log_bytes: u64,
    /// Most bytes that the log of any one host had.
    pub log_bytes_most: u64,
    /// Bytes removed from logs.
    pub log_bytes_removed: u64,
    /// Segments removed.
    pub log_segments_removed: u64,
    /// The last checkpoints, of all hosts.
    pub taken: Vec<CheckpointFigures>,
    /// Why a host takes no more checkpoints.
    pub failures: Vec<String>,
}

impl StorageFigures {
    /// Adds another host's figures.
    pub fn merge(&mut self, other: &Self) {
        self.replay_limit_bytes = self.replay_limit_bytes.max(other.replay_limit_bytes);
        self.checkpoints += other.checkpoints;
        self.checkpoints_given_up += other.checkpoints_given_up;
        self.log_bytes += other.log_bytes;
        self.log_bytes_most = self.log_bytes_most.max(other.log_bytes_most);
        self.log_bytes_removed += other.log_bytes_removed;
        self.log_segments_removed += other.log_segments_removed;
        self.taken.extend_from_slice(&other.taken);
        self.failures.extend_from_slice(&other.failures);
        let mut bytes: Vec<u64> = self.taken.iter().map(|taken| taken.bytes).collect();
        let mut seconds: Vec<f64> = self.taken.iter().map(|taken| taken.seconds).collect();
        bytes.sort_unstable();
        seconds.sort_by(f64::total_cmp);
        let middle = self.taken.len() / 2;
        self.checkpoint_bytes_median = bytes.get(middle).copied().unwrap_or(0);
        self.checkpoint_s_median = seconds.get(middle).copied().unwrap_or(0.0);
    }

    /// Lines of the table for people.
    pub(crate) fn write_table(&self, out: &mut String) -> std::fmt::Result {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let Self { checkpoints, checkpoints_given_up: given_up, checkpoint_s_median: seconds, .. } = self;
        let image_mb = mb(self.checkpoint_bytes_median);
        writeln!(
            out,
            "checkpoints: {checkpoints} taken, {given_up} given up, median {image_mb:.1} MB in {seconds:.2} s"
        )?;
        let (now, removed) = (mb(self.log_bytes), mb(self.log_bytes_removed));
        let segments = self.log_segments_removed;
        writeln!(out, "logs: {now:.1} MB now, {removed:.1} MB removed in {segments} segments")?;
        let (most, limit) = (mb(self.log_bytes_most), mb(self.replay_limit_bytes));
        writeln!(out, "longest log of a host: {most:.1} MB, its bound is {limit:.1} MB")?;
        self.failures.iter().try_for_each(|failure| writeln!(out, "no more checkpoints: {failure}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_add_up() {
        let host = |bytes: u64, most: u64| StorageFigures {
            checkpoints: 1,
            log_bytes_most: most,
            taken: vec![CheckpointFigures { bytes, seconds: bytes as f64 / 10.0 }],
            ..StorageFigures::default()
        };
        let mut all = StorageFigures::default();
        [host(30, 7), host(10, 9), host(20, 8)].iter().for_each(|host| all.merge(host));
        assert_eq!((all.checkpoints, all.log_bytes_most, all.checkpoint_bytes_median), (3, 9, 20));
        assert_eq!(all.checkpoint_s_median, 2.0);
        let mut text = String::new();
        all.write_table(&mut text).expect("writing to a string cannot fail");
        assert!(text.starts_with("checkpoints: 3 taken"), "{text}");
    }
}
