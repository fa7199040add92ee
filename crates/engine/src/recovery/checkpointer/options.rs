//! When a host takes checkpoints, and how.

use crate::recovery::checkpoint::Pace;

/// When checkpoints are taken, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointOptions {
    /// Bytes of a host's log that a recovery may have to read. Half of it is for what is written while a
    /// checkpoint is taken; nobody is held up when that does not suffice.
    pub replay_bytes: u64,
    /// How a checkpoint copies and writes.
    pub pace: Pace,
    /// Share of the time for it, in percent; all of it when the log has three quarters of its bound, or a
    /// dead host can come back only when this one has its partitions on storage.
    pub busy_percent: u64,
    /// Share of the time for making rows that nobody asks for after a restart, in percent.
    pub restore_percent: u64,
    /// Time between two looks at how long the log is, while it grows.
    pub look_ns: u64,
}

/// Bytes of log a host, by default.
pub const REPLAY_BYTES: u64 = 256 << 20;
/// Share of the time for making rows, in percent, by default.
pub const RESTORE_PERCENT: u8 = 50;

impl Default for CheckpointOptions {
    fn default() -> Self {
        let (replay_bytes, pace) = (REPLAY_BYTES, Pace::default());
        Self {
            replay_bytes,
            pace,
            busy_percent: 25,
            restore_percent: RESTORE_PERCENT.into(),
            look_ns: 2_000_000,
        }
    }
}

impl CheckpointOptions {
    /// Makes sure that checkpoints can be taken like this.
    ///
    /// # Panics
    /// If they cannot.
    pub(super) fn check(&self) {
        for percent in [self.busy_percent, self.restore_percent] {
            assert!((1..=100).contains(&percent), "{percent} percent of the time");
        }
        assert!(self.replay_bytes > 0, "a log without a byte is always too long");
        self.pace.check();
    }

    /// Bytes of a segment that are a small part of the bound: whole segments go.
    pub fn segment_bytes(&self) -> u64 {
        (self.replay_bytes / 16).clamp(1, 64 << 20)
    }
}
