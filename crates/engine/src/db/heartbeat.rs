//! Shows that a host's process lives, from the join until the host has nothing left to do in the pod: also
//! while its log is opened or closed, which may take longer than a lease.

use std::sync::{Arc, Once, OnceLock};

use liger_fabric::native::{HostMemory, Service, process};
use liger_pod::membership::Joining;
use liger_pod::plan::Plan;

use super::SERVICE_WORKER;
use crate::row::RowHost;

/// Time between two looks at whether a beat is due, if the lease is long.
const LONGEST_NS: u64 = 200_000_000;

/// The thread that does so; it ends when this is dropped.
pub(super) struct Heartbeat {
    engine: Arc<OnceLock<Arc<RowHost>>>,
    _beats: Service,
}

impl Heartbeat {
    /// Starts to beat for a host that joins.
    pub(super) fn start<M: HostMemory>(memory: &M, plan: &Plan, joining: &Joining, seed: u64) -> Self {
        let engine = Arc::<OnceLock<Arc<RowHost>>>::default();
        assert!(plan.has_log(), "only in pods with logs a silent host is taken for dead");
        let (pulse, beating) = (joining.pulse(), engine.clone());
        let beat_ns = (plan.config().lease_ns / 24).min(LONGEST_NS);
        let first = Once::new();
        let beat = move |cx: &_| {
            first.call_once(process::prefer_this_thread);
            match beating.get() {
                Some(engine) => engine.beat(cx),
                // Whoever joins learns from its next step if the pod has ruled against it.
                None => _ = pulse.beat(cx),
            }
            beat_ns
        };
        Self { engine, _beats: Service::start(memory, SERVICE_WORKER, seed, None, beat) }
    }

    /// The host is a member: from now on it is to learn as well whether the pod still counts it as one.
    pub(super) fn serve(&self, engine: &Arc<RowHost>) {
        assert!(self.engine.set(engine.clone()).is_ok(), "a host begins to serve once");
    }
}
