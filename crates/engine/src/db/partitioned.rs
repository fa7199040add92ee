//! A host of a partitioned pod in real memory: the engine of `crate::partitioned` with its workers.
//!
//! There is no log and no takeover: what such a host has is gone with it.

use std::sync::Arc;

use liger_fabric::HostId;
use liger_fabric::native::{HostMemory, NativeHost};
use liger_pod::plan::PodConfig;
use liger_pod::selftest::Effort;

use super::{Crew, DbError, Pod, SERVICE_WORKER};
use crate::catalog::Catalog;
use crate::partitioned::{Options, PartHost, Route};

/// How a host joins a partitioned pod.
pub struct PartitionedOptions {
    /// How the engine works: the same on all hosts.
    pub engine: Options,
    /// How thoroughly the memory is tested.
    pub self_test: Effort,
    /// Decides the random numbers of the host's workers, together with host, worker and run.
    pub seed: u64,
}

impl Pod {
    /// What `config` becomes for partitioned hosts: it has room for the threads that carry mail, and messages
    /// with rows of these tables fit into its lanes.
    pub fn config_partitioned(config: &PodConfig, catalog: &Catalog, route: Route) -> PodConfig {
        let slots = PartHost::least_lane_slots(catalog, config.lane_slot_bytes);
        PodConfig {
            workers: config.workers + u8::from(route.has_thread()),
            lane_slots: config.lane_slots.max(slots),
            ..config.clone()
        }
    }

    /// Joins as host `host` of a partitioned pod, through what `over` puts before the pod's memory.
    ///
    /// # Errors
    /// As [`Pod::join_with`]; and if a row of the tables does not fit into a message.
    pub fn join_partitioned<M: HostMemory>(
        &self,
        host: HostId,
        options: PartitionedOptions,
        over: impl FnOnce(NativeHost) -> M,
    ) -> Result<Crew<PartHost, M>, DbError> {
        let memory = over(NativeHost::new(self.mapping.clone(), self.plan.config().sync_mode, host));
        assert_eq!(memory.host(), host, "the memory is another host's");
        let cx = memory.cx(SERVICE_WORKER, options.seed);
        let member = self.admit(&cx, &options.self_test)?;
        let engine = PartHost::new(&cx, &self.plan, self.catalog.clone(), member, options.engine)?;
        Ok(Crew::start(self.clone(), memory, Arc::new(engine), options.seed))
    }
}
