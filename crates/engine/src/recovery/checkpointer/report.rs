//! What a checkpointer has done.

/// A checkpoint that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Every transaction of an earlier epoch is in it.
    pub begin_epoch: u64,
    /// Bytes of its images.
    pub bytes: u64,
    /// From its first step to its last.
    pub took_ns: u64,
}

/// What a checkpointer has done in this incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CheckpointCounts {
    /// Checkpoints that count.
    pub checkpoints: u64,
    /// Given up because a row stayed locked, or there was no room.
    pub given_up: u64,
    /// Bytes of all their images.
    pub bytes: u64,
    /// Begin of the last one.
    pub last_begin_epoch: u64,
    /// Segments removed.
    pub segments_removed: u64,
    /// Bytes of them.
    pub bytes_removed: u64,
    /// Most bytes that the log had when somebody looked.
    pub log_bytes_most: u64,
}
