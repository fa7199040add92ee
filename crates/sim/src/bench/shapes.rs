//! The usual shapes of simulated workloads: tiny ones under the adversary, which follow from a seed, and the
//! pod of Tigon's evaluation in virtual time.

use std::sync::Arc;

use liger_engine::row::Budget;
use liger_fabric::sim::Profile;
use liger_workload::benchmark::Benchmark;
use liger_workload::declared::{DATABASE_SEED, Hostile, Tiny};
use liger_workload::driver::Length;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::benchmark::Tpcc;
use liger_workload::tpcc::generate::Homes;
use liger_workload::tpcc::input::{Mix, Remote};

use super::{BenchSim, Kind};
use crate::Picker;

impl<B: Benchmark> BenchSim<B> {
    /// Tigon's pod (OSDI'25, section 6.1): 8 hosts with 3 workers, everything shared that may be.
    pub fn timed(profile: Arc<Profile>, benchmark: B, measured_ns: u64) -> Self {
        Self {
            seed: 1,
            hosts: 8,
            workers: 3,
            kind: Kind::Timed(profile),
            benchmark,
            length: Length::Time { warm_up_ns: measured_ns / 4, measured_ns },
            max_attempts: None,
            back_off_ns: None,
            budget: None,
            log: None,
            share_all: true,
            check: false,
            max_verbs: u64::MAX,
            left_out: None,
        }
    }

    /// This benchmark under the adversary.
    fn hostile(seed: u64, (hosts, workers): (u8, u8), benchmark: B, pick: &mut Picker) -> Self {
        Self {
            seed,
            hosts,
            workers,
            kind: Kind::Adversarial,
            benchmark,
            length: Length::Transactions { warm_up: 0, measured: 6 + pick.below(12) },
            max_attempts: None,
            back_off_ns: None,
            // From much less than one transaction needs to more than all of them.
            budget: Some(Budget { hwcc_bytes: 1 << 20, cxl_bytes: 256 << pick.below(11) }),
            log: None,
            share_all: false,
            check: true,
            max_verbs: 20_000_000,
            left_out: None,
        }
    }
}

/// A workload, tiny, under the adversary; pod, shape and sizes follow from the seed.
pub fn adversarial<B: Hostile>(seed: u64) -> BenchSim<B> {
    let mut pick = Picker::new(seed ^ B::SALT);
    let Tiny { hosts, workers, benchmark } = B::tiny(&mut |bound| pick.below(bound));
    BenchSim::hostile(seed, (hosts, workers), benchmark, &mut pick)
}

/// TPC-C as Tigon ran it (OSDI'25, figure 4): 24 warehouses at full size (some 5 GB of this machine's
/// memory).
pub fn tpcc(remote: Remote) -> Tpcc {
    let (mix, homes) = (Mix::Artifact, Homes::AnyLocal);
    Tpcc { scale: Scale::full(24), seed: DATABASE_SEED, mix, remote, homes }
}
