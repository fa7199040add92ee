//! A pod inside one process, for the unit tests of this crate.

use std::sync::Arc;

use liger_fabric::native::{Mapping, Native};
use liger_fabric::{Cx, HostId, WorkerId};

use crate::plan::{Plan, PodConfig};

/// Memory of one pod, and its plan.
pub struct TestPod {
    /// Where things lie.
    pub plan: Plan,
    mapping: Arc<Mapping>,
}

impl TestPod {
    /// A pod of zeroed memory.
    pub fn new(config: &PodConfig) -> Self {
        let plan = Plan::new(config).unwrap();
        let mapping = Mapping::anonymous(plan.len() as usize).unwrap();
        Self { plan, mapping }
    }

    /// The context of one worker.
    pub fn cx(&self, host: u8, worker: u8) -> Cx<Native> {
        Cx::new(Native::new(self.mapping.clone()), HostId(host), WorkerId(worker), 1)
    }
}
