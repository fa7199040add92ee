//! One host's way to real memory: what its workers' views are made from.
//!
//! Whatever starts workers or opens a pod is generic over [`HostMemory`], so that a backend over real memory
//! is one more implementation and no second copy of them.

use std::sync::Arc;

use super::{Mapping, Native};
use crate::cx::{Cx, HostId, WorkerId};
use crate::fabric::Fabric;
use crate::sync_mode::SyncMode;

/// One host's way to a pod's real memory. Cheap to clone; clones are the same host.
pub trait HostMemory: Clone + Send + Sync + 'static {
    /// A worker's view; it may move between threads.
    type View: Fabric + Send + 'static;

    /// The host.
    fn host(&self) -> HostId;

    /// A view for one more worker.
    fn view(&self) -> Self::View;

    /// The context of a worker; see [`Cx::new`] for its random numbers.
    fn cx(&self, worker: WorkerId, seed: u64) -> Cx<Self::View> {
        Cx::new(self.view(), self.host(), worker, seed)
    }

    /// Counts of what the memory did without being asked, by name; empty where nobody can know.
    fn tally(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What the memory saw its host do wrong, in words; nothing where it cannot see.
    fn complaint(&self) -> Option<String> {
        None
    }
}

/// The host's processor caches, and nothing else, stand between its workers and the memory.
#[derive(Clone)]
pub struct NativeHost {
    mapping: Arc<Mapping>,
    sync_mode: SyncMode,
    host: HostId,
}

impl NativeHost {
    /// Host `host` on `mapping`, whose sync words work as `sync_mode` says.
    pub fn new(mapping: Arc<Mapping>, sync_mode: SyncMode, host: HostId) -> Self {
        Self { mapping, sync_mode, host }
    }

    /// How its sync words work.
    pub fn sync_mode(&self) -> SyncMode {
        self.sync_mode
    }
}

impl HostMemory for NativeHost {
    type View = Native;

    fn host(&self) -> HostId {
        self.host
    }

    fn view(&self) -> Native {
        Native::with_sync_mode(self.mapping.clone(), self.sync_mode)
    }
}
