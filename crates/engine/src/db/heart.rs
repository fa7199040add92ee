//! Shows that a host's process lives, from the join until the host has nothing left to do in the pod: also
//! while its log is opened or closed, which may take longer than a lease.

use std::sync::{Arc, OnceLock};

use liger_fabric::native::{HostMemory, Service};
use liger_pod::membership::Joining;
use liger_pod::plan::Plan;

use super::SERVICE_WORKER;
use crate::row::RowHost;

/// The thread that does so; it ends when this is dropped.
pub(super) struct Heart {
    engine: Arc<OnceLock<Arc<RowHost>>>,
    _beats: Service,
}

impl Heart {
    /// Starts to beat for a host that joins.
    pub(super) fn start<M: HostMemory>(memory: &M, plan: &Plan, joining: &Joining, seed: u64) -> Self {
        let engine = Arc::<OnceLock<Arc<RowHost>>>::default();
        let (pulse, beating) = (joining.pulse(), engine.clone());
        let beat_ns = (plan.config().lease_ns / 32).min(5_000_000);
        let beat = move |cx: &_| {
            match beating.get() {
                Some(engine) => engine.beat(cx),
                // Whoever joins learns from its next step if the pod has ruled against it.
                None => _ = pulse.beat(cx),
            }
            beat_ns
        };
        Self { engine, _beats: Service::start(memory, SERVICE_WORKER, seed, beat) }
    }

    /// The host is a member: from now on it is to learn as well whether the pod still counts it as one.
    pub(super) fn serve(&self, engine: &Arc<RowHost>) {
        assert!(self.engine.set(engine.clone()).is_ok(), "a host begins to serve once");
    }
}
