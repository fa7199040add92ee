//! TPC-C under the adversary: serializable, consistent, nothing lost; and a small timed run that replays.

use std::sync::Arc;

use liger_engine::row::Budget;
use liger_fabric::sim::Profile;
use liger_sim::bench::shapes::{adversarial, tpcc};
use liger_sim::bench::{BenchSim, run};
use liger_workload::driver::Length;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::benchmark::Tpcc;
use liger_workload::tpcc::input::Remote;

#[test]
fn adversarial_seeds() {
    let seeds: u64 = std::env::var("LIGER_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(25);
    let first: u64 = std::env::var("LIGER_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    for seed in first..first + seeds {
        let result = run(&adversarial::<Tpcc>(seed));
        if std::env::var("LIGER_VERBOSE").is_ok() {
            println!("seed {seed}: {} committed, {} verbs", result.report.all.committed, result.verbs);
        }
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
        assert_eq!(result.report.consistent, Some(true), "seed {seed}");
    }
}

/// A budget bounds what stays shared between transactions, not what one of them may hold: every transaction
/// ends even where nothing may stay.
#[test]
fn no_budget_at_all() {
    let remote = Remote::Percent { new_order: 60, payment: 90 };
    let budget = Some(Budget { hwcc_bytes: 0, cxl_bytes: 0 });
    for seed in 1..=10 {
        let mut shape = adversarial::<Tpcc>(seed);
        (shape.budget, shape.benchmark.remote) = (budget, remote);
        let result = run(&shape);
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
        let (moved, committed) = (result.report.engine.moves_out, result.report.all.committed);
        assert!(moved > 0 && committed > 0, "seed {seed}: {moved} moved out, {committed} committed");
    }
}

#[test]
fn a_timed_run_is_consistent_and_replays() {
    let profile = Arc::new(Profile::built_in("tigon-osdi25").expect("a built-in profile"));
    let remote = Remote::Percent { new_order: 60, payment: 90 };
    let benchmark = Tpcc { scale: Scale::reduced(24, 500), ..tpcc(remote) };
    let full = BenchSim::timed(profile, benchmark, 0);
    let length = Length::Time { warm_up_ns: 100_000, measured_ns: 400_000 };
    let small = BenchSim { hosts: 3, workers: 2, length, check: true, ..full };
    let first = run(&small);
    assert_eq!(first.problems, Vec::<String>::new());
    assert_eq!(first.report.consistent, Some(true));
    assert!(first.report.all.committed > 50, "{}", first.report.table());
    assert!(first.report.backend.contains("virtual time"));
    assert_eq!(run(&small).trace_hash, first.trace_hash);
}
