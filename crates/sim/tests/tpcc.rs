//! TPC-C under the adversary: serializable, consistent, nothing lost; and a small timed run that replays.

use std::sync::Arc;

use liger_fabric::sim::Profile;
use liger_sim::tpcc::{TpccSim, run};
use liger_workload::tpcc::driver::Length;
use liger_workload::tpcc::input::Remote;

#[test]
fn adversarial_seeds() {
    let seeds: u64 = std::env::var("LIGER_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(25);
    let first: u64 = std::env::var("LIGER_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    for seed in first..first + seeds {
        let result = run(&TpccSim::adversarial(seed));
        if std::env::var("LIGER_VERBOSE").is_ok() {
            println!("seed {seed}: {} committed, {} verbs", result.report.all.committed, result.verbs);
        }
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
        assert_eq!(result.report.consistent, Some(true), "seed {seed}");
    }
}

#[test]
fn a_timed_run_is_consistent_and_replays() {
    let profile = Arc::new(Profile::built_in("tigon-osdi25").expect("a built-in profile"));
    let remote = Remote::Percent { new_order: 60, payment: 90 };
    let full = TpccSim::tigon(profile, 500, remote, 0);
    let length = Length::Time { warm_up_ns: 100_000, measured_ns: 400_000 };
    let small = TpccSim { hosts: 3, workers: 2, length, check: true, ..full };
    let first = run(&small);
    assert_eq!(first.problems, Vec::<String>::new());
    assert_eq!(first.report.consistent, Some(true));
    assert!(first.report.all.committed > 50, "{}", first.report.table());
    assert!(first.report.backend.contains("virtual time"));
    assert_eq!(run(&small).trace_hash, first.trace_hash);
}
