//! Adversarial seeds of partitioned pods: serializable, every lock given back.

use liger_rivals::partitioned::Route;
use liger_sim::partitioned::{PartRun, Shape, run};

#[test]
fn adversarial_seeds() {
    every_seed(PartRun::from_seed);
}

#[test]
fn adversarial_seeds_over_a_network() {
    every_seed(|seed| {
        let run = PartRun::from_seed(seed);
        PartRun { shape: Shape { route: Route::Network, ..run.shape }, ..run }
    });
}

/// What was committed is in the logs, and nothing else is: they give the rows.
#[test]
fn adversarial_seeds_with_logs() {
    every_seed(|seed| {
        let run = PartRun::from_seed(seed);
        PartRun { epoch_ns: Some(500 << (seed % 8)), ..run }
    });
}

fn every_seed(shape: impl Fn(u64) -> PartRun) {
    let seeds: u64 = std::env::var("LIGER_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(200);
    let first: u64 = std::env::var("LIGER_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let (mut committed, mut distributed) = (0, 0);
    for seed in first..first + seeds {
        let shape = shape(seed);
        let result = run(&shape);
        assert!(result.problems.is_empty(), "seed {seed} ({:?}):\n{}", shape, result.problems.join("\n"));
        committed += result.committed;
        distributed += result.distributed;
    }
    println!("{committed} committed, {distributed} of them on several hosts");
    assert!(distributed * 4 > committed, "{distributed} of {committed} were distributed");
}
