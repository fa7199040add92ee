//! The usual shapes of simulated workloads: tiny ones under the adversary, which follow from a seed, and the
//! pod of Tigon's evaluation in virtual time.

use std::sync::Arc;

use liger_engine::row::Budget;
use liger_fabric::sim::Profile;
use liger_workload::benchmark::Benchmark;
use liger_workload::driver::Length;
use liger_workload::smallbank::SmallBank;
use liger_workload::tatp::Tatp;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::benchmark::Tpcc;
use liger_workload::tpcc::generate::Homes;
use liger_workload::tpcc::input::{Mix, Remote};
use liger_workload::ycsb::{Mode, Placement, Ycsb};

use super::{BenchSim, Kind};
use crate::Picker;

/// Seed of every simulated database.
const DATABASE_SEED: u64 = 0x7063_6374;

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

/// TPC-C, tiny, under the adversary; shape and sizes follow from the seed.
pub fn adversarial_tpcc(seed: u64) -> BenchSim<Tpcc> {
    let mut pick = Picker::new(seed ^ 0x5450_4343);
    let hosts = 2 + pick.below(2) as u8;
    let warehouses = i16::from(hosts) + pick.below(2) as i16;
    let remote = [Remote::Spec, Remote::Percent { new_order: 60, payment: 90 }][pick.below(2) as usize];
    let workers = 1 + pick.below(2) as u8;
    let scale = Scale { warehouses, items: 20, customers: 10 };
    let mix = [Mix::Spec, Mix::Artifact][pick.below(2) as usize];
    let benchmark = Tpcc { scale, seed: DATABASE_SEED, mix, remote, homes: Homes::AnyLocal };
    BenchSim::hostile(seed, (hosts, workers), benchmark, &mut pick)
}

/// TPC-C as Tigon ran it (OSDI'25, figure 4): 24 warehouses at full size (some 5 GB of this machine's
/// memory).
pub fn tpcc(remote: Remote) -> Tpcc {
    let (mix, homes) = (Mix::Artifact, Homes::AnyLocal);
    Tpcc { scale: Scale::full(24), seed: DATABASE_SEED, mix, remote, homes }
}

/// A pod for the adversary: hosts and workers.
fn small_pod(pick: &mut Picker) -> (u8, u8) {
    (2 + pick.below(2) as u8, 1 + pick.below(2) as u8)
}

/// YCSB, tiny, under the adversary: few rows that everybody wants, every row that is read checked.
pub fn adversarial_ycsb(seed: u64) -> BenchSim<Ycsb> {
    let mut pick = Picker::new(seed ^ 0x5943_5342);
    let pod = small_pod(&mut pick);
    let (reads, cross) = ([20, 50, 80][pick.below(3) as usize], [50, 100][pick.below(2) as usize]);
    let benchmark = Ycsb {
        keys: 16 + pick.below(25) as u32,
        mode: [Mode::Rmw, Mode::Rmw, Mode::InsertDelete, Mode::Mixed][pick.below(4) as usize],
        theta: [0.0, 0.7, 0.99][pick.below(3) as usize],
        change_bytes: [1000, 250][pick.below(2) as usize],
        placement: [Placement::Paper, Placement::Clean][pick.below(2) as usize],
        check_reads: true,
        pieces: 1 + pick.below(2) as u16,
        ..Ycsb::tigon(pod.0.into(), reads, cross)
    };
    BenchSim::hostile(seed, pod, benchmark, &mut pick)
}

/// SmallBank, tiny, under the adversary.
pub fn adversarial_smallbank(seed: u64) -> BenchSim<SmallBank> {
    let mut pick = Picker::new(seed ^ 0x534d_4c42);
    let pod = small_pod(&mut pick);
    let benchmark = SmallBank {
        partitions: pod.0.into(),
        customers: 4 + pick.below(8) as u32,
        hot: 2,
        hot_percent: 50,
        cross_percent: [50, 100][pick.below(2) as usize],
    };
    BenchSim::hostile(seed, pod, benchmark, &mut pick)
}

/// TATP, tiny, under the adversary.
pub fn adversarial_tatp(seed: u64) -> BenchSim<Tatp> {
    let mut pick = Picker::new(seed ^ 0x5441_5450);
    let pod = small_pod(&mut pick);
    let (subscribers, cross_percent) = (2 + pick.below(6) as u32, [50, 100][pick.below(2) as usize]);
    let benchmark = Tatp { partitions: pod.0.into(), subscribers, cross_percent, seed: DATABASE_SEED };
    BenchSim::hostile(seed, pod, benchmark, &mut pick)
}
