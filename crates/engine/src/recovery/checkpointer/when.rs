//! When a checkpoint is wanted for the sake of the disk: before a small one is full, and again and again on
//! one that is.

use liger_fabric::{Cx, Fabric};

use crate::log::HostLog;
use crate::recovery::directory::Directory;
use crate::recovery::error::RecoveryError;

/// The first pause between two tries on a disk that is full, and the longest.
const FIRST_PAUSE_NS: u64 = 10_000_000;
const LONGEST_PAUSE_NS: u64 = 30_000_000_000;
/// A checkpoint is wanted when the log has grown by such a part of what the disk has free, if that is sooner.
const FREE_PARTS: u64 = 8;

/// By how much the log may grow until a checkpoint is wanted.
pub(super) struct Bound {
    usual: u64,
    bytes: u64,
    /// What the log had seen when that was decided.
    decided_at: Option<u64>,
}

impl Bound {
    /// So many bytes on a disk that has enough.
    pub(super) fn new(usual: u64) -> Self {
        Self { usual, bytes: usual, decided_at: None }
    }

    /// The bound, by what the disk has free now and then.
    ///
    /// # Errors
    /// Whatever the storage says.
    pub(super) fn bytes<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        directory: &Directory,
        log: &HostLog,
    ) -> Result<u64, RecoveryError> {
        let (appended, chunk) = (log.appended_bytes(), log.chunk_bytes());
        debug_assert!(self.decided_at.is_none_or(|at| at <= appended), "a log only grows, to {appended}");
        let is_known = self.decided_at.is_some_and(|at| appended < at + chunk);
        if !is_known {
            let part = (directory.free_bytes(cx)? / FREE_PARTS).max(chunk);
            (self.bytes, self.decided_at) = (part.min(self.usual), Some(appended));
        }
        Ok(self.bytes)
    }

    /// True if the disk is small.
    pub(super) fn is_tight(&self) -> bool {
        self.bytes < self.usual
    }
}

/// Pauses between checkpoints on a disk that is full.
pub(super) struct Pauses {
    until_ns: u64,
    next_ns: u64,
}

impl Pauses {
    /// None yet.
    pub(super) fn new() -> Self {
        Self { until_ns: 0, next_ns: FIRST_PAUSE_NS }
    }

    /// There is room.
    pub(super) fn end(&mut self) {
        *self = Self::new();
    }

    /// One has made no room: the next one comes after a pause, which is twice as long each time.
    pub(super) fn begin<F: Fabric>(&mut self, cx: &Cx<F>) {
        self.until_ns = cx.now_ns() + self.next_ns;
        self.next_ns = (2 * self.next_ns).min(LONGEST_PAUSE_NS);
    }

    /// True during a pause.
    pub(super) fn last<F: Fabric>(&self, cx: &Cx<F>) -> bool {
        cx.now_ns() < self.until_ns
    }
}
