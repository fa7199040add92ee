//! A host of a partitioned pod in real memory.

use liger_engine::Catalog;
use liger_engine::db::{DbError, Pod, PodConfig, WorkerGroup};
use liger_fabric::HostId;
use liger_fabric::native::{HostMemory, NativeHost};
use liger_pod::selftest::Effort;

use super::{Options, PartHost, Route};

/// How a host joins a partitioned pod.
pub struct PartitionedOptions {
    /// How the engine works: the same on all hosts.
    pub engine: Options,
    /// How thoroughly the memory is tested.
    pub self_test: Effort,
    /// Decides the random numbers of the host's workers, together with host, worker and run.
    pub seed: u64,
}

/// What `config` becomes for partitioned hosts: it has room for the threads that carry mail, and messages
/// with rows of these tables fit into its lanes.
pub fn config_for(config: &PodConfig, catalog: &Catalog, route: Route) -> PodConfig {
    let slots = PartHost::least_lane_slots(catalog, config.lane_slot_bytes);
    PodConfig {
        workers: config.workers + u8::from(route.has_thread()),
        lane_slots: config.lane_slots.max(slots),
        ..config.clone()
    }
}

/// Joins `pod` as host `host`, through what `over` puts before the pod's memory.
///
/// # Errors
/// As [`Pod::join_with`]; and if a row of the tables does not fit into a message.
pub fn join<M: HostMemory>(
    pod: &Pod,
    host: HostId,
    options: PartitionedOptions,
    over: impl FnOnce(NativeHost) -> M,
) -> Result<WorkerGroup<PartHost, M>, DbError> {
    let PartitionedOptions { engine, self_test, seed } = options;
    pod.join_engine(host, &self_test, seed, over, |cx, plan, catalog, member| {
        PartHost::new(cx, plan, catalog, member, engine)
    })
}
