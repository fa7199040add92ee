//! How a host's log is: what its own workers are told, what other hosts see, and what it has done.

use liger_fabric::disk::{DiskError, DiskErrorKind, DiskOp};

use super::binding::BadBinding;

/// Why a host's log has ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogFailure {
    /// Its device has failed.
    #[error("the log's device has failed, and nothing is shipped any more: {0}")]
    Device(#[source] DiskError),
    /// Its device is full, and had promised no room: what is in the rings waits until there is some.
    #[error("the log's device is full; what was committed waits for room: {0}")]
    Full(#[source] DiskError),
    /// What the host's last incarnation had made sure of is not what it was.
    #[error("{file} is damaged at byte {byte}: {why}")]
    Damaged {
        /// Name of the segment.
        file: String,
        /// Where.
        byte: u64,
        /// What is wrong.
        why: String,
    },
    /// The memory holds rings of another pod, or of another generation of this one.
    #[error(transparent)]
    OtherMemory(#[from] BadBinding),
    /// Another member's log has ended, so the pod's durable epoch stands still.
    #[error("the log of host {host} has ended")]
    OtherHost {
        /// Which.
        host: u8,
    },
}

impl From<DiskError> for LogFailure {
    fn from(error: DiskError) -> Self {
        // After a sync nobody knows what is there, whatever it said.
        let is_full = error.kind == DiskErrorKind::Full && error.op != DiskOp::Sync;
        if is_full { Self::Full(error) } else { Self::Device(error) }
    }
}

/// What other hosts are to know of a host's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum LogState {
    /// It goes on.
    Good = 0,
    /// It has ended.
    Ended = 1,
    /// Nothing may be committed that it would have to hold: its storage is full.
    Full = 2,
    /// The same, and a checkpoint uses what was kept for that: nobody else is to take space.
    Cleaning = 3,
}

impl LogState {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Ended => "failed",
            Self::Full => "full",
            Self::Cleaning => "full, cleaning",
        }
    }

    pub(super) const fn of(word: u64) -> Self {
        match word {
            0 => Self::Good,
            2 => Self::Full,
            3 => Self::Cleaning,
            _ => Self::Ended,
        }
    }
}

// Each state is read as it is written.
const _: () = assert!(LogState::of(LogState::Good as u64) as u64 == LogState::Good as u64);
const _: () = assert!(LogState::of(LogState::Ended as u64) as u64 == LogState::Ended as u64);
const _: () = assert!(LogState::of(LogState::Full as u64) as u64 == LogState::Full as u64);
const _: () = assert!(LogState::of(LogState::Cleaning as u64) as u64 == LogState::Cleaning as u64);

/// What a shipper has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShipCounts {
    /// Bytes appended to segments.
    pub bytes: u64,
    /// Frames, marks included.
    pub frames: u64,
    /// Syncs.
    pub syncs: u64,
    /// Time in syncs, in nanoseconds.
    pub sync_ns: u64,
    /// Epochs that this host has ended.
    pub ticks: u64,
    /// Turns that workers without room have asked for.
    pub room_turns: u64,
}
