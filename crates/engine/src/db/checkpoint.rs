//! Checkpoints that somebody orders while the host goes on.
//!
//! The checkpointer takes them, in turns of its own thread, as it takes those that the log needs; whoever
//! orders one only waits. No worker stops, and no transaction ends because of it.

use std::sync::Arc;

use liger_fabric::native::HostMemory;
use liger_fabric::{Latch, SyncAddr};
use liger_pod::bells::{Bell, bell};

use super::{DbError, Host, SERVICE_WORKER};
use crate::recovery::checkpointer::Checkpointer;

/// A host's checkpointer; none when the host has begun to leave.
pub(super) type SharedCheckpointer = Arc<Latch<Option<Checkpointer>>>;

/// Time between two looks of somebody who waits.
const LOOK_NS: u64 = 500_000;

/// Where checkpoints of a host are ordered, by anybody, on any thread.
pub struct CheckpointHandle<M: HostMemory> {
    memory: M,
    checkpointer: SharedCheckpointer,
    /// Where the checkpointer sleeps.
    bell: SyncAddr,
    seed: u64,
}

impl<M: HostMemory> Host<M> {
    /// Where checkpoints of this host are ordered.
    ///
    /// # Errors
    /// If the host has no storage.
    pub fn checkpoint_handle(&self) -> Result<CheckpointHandle<M>, DbError> {
        let checkpointer = self.storing.as_ref().ok_or(DbError::NoStorage)?.checkpointer.clone();
        let bell = bell(self.group.pod.plan(), self.id(), Bell::Checkpoint);
        Ok(CheckpointHandle { memory: self.group.memory.clone(), checkpointer, bell, seed: self.group.seed })
    }

    /// Puts an image of all rows of this host next to its log, while its workers and other hosts go on;
    /// returns once it counts. What was loaded is durable from then on, and the log before it is not needed
    /// any more. The pod's hosts have to serve meanwhile.
    ///
    /// From the first one on, or from [`Host::recover`] on, the host takes more by itself, as often as the
    /// bound on its log needs ([`super::HostStorage::set_replay_bytes`]): call it when the host's rows are
    /// loaded.
    ///
    /// # Errors
    /// If the host has no storage, or that fails, or the pod takes it for dead: the checkpoint before it
    /// counts then.
    pub fn checkpoint(&self) -> Result<(), DbError> {
        let goes_on = || self.failure().map_or(Ok(()), |failure| Err(DbError::Failed(failure)));
        self.checkpoint_handle()?.take_while(goes_on)
    }

    /// The host's checkpointer, for what it has done; between two of its turns.
    ///
    /// # Errors
    /// If the host has no storage.
    pub fn checkpoints<T>(&self, look: impl FnOnce(&Checkpointer) -> T) -> Result<T, DbError> {
        self.checkpoint_handle()?.with(|checkpointer| look(checkpointer))
    }

    /// The host's partitions hold all their rows, or know what is missing: checkpoints may be taken.
    pub(super) fn rows_are_whole(&self) {
        // Without storage there are none.
        let _ = self.checkpoint_handle().and_then(|handle| handle.with(Checkpointer::whole));
    }
}

impl<M: HostMemory> CheckpointHandle<M> {
    /// As [`Host::checkpoint`]. Several at once are carried out together, or one after the other.
    ///
    /// # Errors
    /// As there; and if the host leaves.
    pub fn take(&self) -> Result<(), DbError> {
        self.take_while(|| Ok(()))
    }

    fn take_while(&self, goes_on: impl Fn() -> Result<(), DbError>) -> Result<(), DbError> {
        let cx = self.memory.cx(SERVICE_WORKER, self.seed);
        let order = self.with(Checkpointer::order)?;
        assert!(order > 0, "orders are numbered from 1");
        cx.fence();
        cx.ring(self.bell);
        loop {
            if let Some(ended) = self.with(|checkpointer| checkpointer.ended(order))? {
                return Ok(ended?);
            }
            goes_on()?;
            cx.rest(LOOK_NS);
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Checkpointer) -> T) -> Result<T, DbError> {
        let cx = self.memory.cx(SERVICE_WORKER, self.seed);
        self.checkpointer.lock(&cx).as_mut().map(work).ok_or(DbError::Leaves)
    }
}
