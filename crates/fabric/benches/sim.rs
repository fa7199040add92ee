//! How fast the simulator is: verbs per second of processor time, in both modes, coroutine switches included.
//!
//! `cargo bench -p liger-fabric --bench sim`; with `--test` (as `cargo test --benches` passes) a tiny run
//! that only checks that the programs complete.

use std::sync::Arc;

use liger_fabric::sim::{Profile, Report, SimConfig, Simulation};
use liger_fabric::{Cx, DataAddr, Fabric, HostId, SyncAddr, Work, WorkerId};

const LEN: usize = 64 << 20;
const SLOTS: u64 = 16 << 10;
const SLOT_BYTES: usize = 192;

/// A lock word and a record per slot: lock, refresh, change, publish, unlock, with a shared counter now and
/// then.
fn transactions<F: Fabric>(cx: &Cx<F>, times: u64) {
    let mut record = [0; SLOT_BYTES];
    for turn in 0..times {
        cx.spend(Work::Transaction, 1);
        let slot = cx.random_below(SLOTS);
        let lock = SyncAddr::new(64).line(slot);
        let data = DataAddr::new((SLOTS + 1) * 64 + slot * 256);
        while cx.compare_exchange(lock, 0, 1).is_err() {
            cx.pause();
        }
        cx.refresh(data, &mut record);
        record[0] += 1;
        cx.publish(data, &record);
        cx.store(lock, 0);
        if turn % 16 == 0 {
            cx.fetch_add(SyncAddr::new(0), 1);
        }
    }
}

/// Processor time of this thread: the figure does not depend on who else uses the machine.
fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn measure(name: &str, config: SimConfig, workers: u8, times: u64) {
    let hosts = config.hosts as u8;
    let mut sim = Simulation::new(config);
    for host in 0..hosts {
        for worker in 0..workers {
            sim.spawn(HostId(host), WorkerId(worker), move |cx| transactions(cx, times));
        }
    }
    let start = cpu_seconds();
    let report: Report = sim.run().expect_completed();
    let seconds = cpu_seconds() - start;
    println!(
        "{name}: {:.2} million verbs/s ({} verbs, {} switches, {:.3} s; {:.3} virtual ms)",
        report.verbs as f64 / seconds / 1e6,
        report.verbs,
        report.switches,
        seconds,
        report.virtual_ns as f64 / 1e6,
    );
}

fn main() {
    let times = if std::env::args().any(|arg| arg == "--test") { 10 } else { 20_000 };
    for name in Profile::built_in_names() {
        let profile = Arc::new(Profile::built_in(name).expect("built in"));
        measure(&format!("timed, {name}, 8 hosts x 3"), SimConfig::timed(8, LEN, 1, profile), 3, times);
    }
    measure("adversarial, 3 hosts x 2", SimConfig::adversarial(3, LEN, 1), 2, times);
    let tiny = 4 * times;
    let start = cpu_seconds();
    for seed in 0..tiny {
        let mut sim = Simulation::new(SimConfig::swarm(2, 4096, seed));
        for host in 0..2 {
            sim.spawn(HostId(host), WorkerId(0), |cx| cx.store(SyncAddr::new(0), 1));
        }
        sim.run().expect_completed();
    }
    println!("runs of two tiny workers: {:.0} per second", tiny as f64 / (cpu_seconds() - start));
}
