//! What tests of this crate and of those above it share: a pod inside one process, and a sequence of numbers.
//! Only with the feature `testing`, which nothing but tests asks for.

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
    ///
    /// # Panics
    /// If the configuration is not valid, or this machine has no memory for it.
    pub fn new(config: &PodConfig) -> Self {
        let plan = Plan::new(config).expect("a valid configuration");
        let mapping = Mapping::anonymous(plan.len() as usize).expect("memory for a test");
        Self { plan, mapping }
    }

    /// The context of one worker.
    pub fn cx(&self, host: u8, worker: u8) -> Cx<Native> {
        Cx::new(Native::new(self.mapping.clone()), HostId(host), WorkerId(worker), 1)
    }
}

/// A fixed sequence of numbers (SplitMix64), for tests that have no worker's context to draw from.
#[derive(Clone, Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }
}
