//! How a host keeps its log: epochs, segments, frames, space.

use super::room::RoomOptions;
use super::segment::FRAME_HEAD_BYTES;

/// How a host keeps its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// The pod, as its segments name it.
    pub pod: u64,
    /// The epoch that a new pod starts with.
    pub first_epoch: u64,
    /// The pod's generation: how often its memory was made anew.
    pub generation: u64,
    /// Least time between two epochs.
    pub epoch_ns: u64,
    /// How many times as long the epoch behind a busy one lasts, which brought 16 KiB of records or more:
    /// each epoch costs a host a sync, and under load more transactions share it.
    pub busy_factor: u64,
    /// Length at which a segment ends (a longer one holds a single turn).
    pub segment_bytes: u64,
    /// Most bytes of a ring in one frame, a multiple of 8. A frame passes through the processor's cache
    /// twice, to the buffer and to the file: a small one stays in it, and pushes less of the workers' out.
    pub frame_bytes: usize,
    /// How space is taken.
    pub room: RoomOptions,
}

impl LogOptions {
    /// Makes sure that a log can be kept like this.
    ///
    /// # Panics
    /// If it cannot.
    pub(super) fn check(&self) {
        let Self { first_epoch, generation, frame_bytes, room, .. } = *self;
        assert!(first_epoch > 0 && generation > 0, "epochs and generations count from 1: {self:?}");
        assert!(frame_bytes > 0 && frame_bytes.is_multiple_of(8), "a frame has whole words: {self:?}");
        assert!(self.segment_bytes > 0 && self.busy_factor > 0, "a segment ends, and so does an epoch");
        assert!(room.chunk_bytes > 0, "space is taken some bytes at a time");
        assert!(room.marks_bytes >= FRAME_HEAD_BYTES as u64, "what is kept for marks has room for one");
    }
}

impl Default for LogOptions {
    fn default() -> Self {
        let (epoch_ns, busy_factor, segment_bytes, frame_bytes) = (1_000_000, 4, 64 << 20, 64 << 10);
        let (pod, first_epoch, generation, room) = (0, 1, 1, RoomOptions::default());
        Self { pod, first_epoch, generation, epoch_ns, busy_factor, segment_bytes, frame_bytes, room }
    }
}
