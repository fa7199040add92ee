//! Adversarial seeds of Sundial in shared memory: serializable, every lock given back, nothing leaked.

use liger_sim::shm::{ShmRun, run};

#[test]
fn adversarial_seeds() {
    let seeds: u64 = std::env::var("LIGER_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(300);
    let first: u64 = std::env::var("LIGER_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut committed = 0;
    for seed in first..first + seeds {
        let shape = ShmRun::from_seed(seed);
        let result = run(&shape);
        assert!(result.problems.is_empty(), "seed {seed} ({:?}):\n{}", shape, result.problems.join("\n"));
        committed += result.committed;
    }
    println!("{committed} committed");
    assert!(committed > 10 * seeds, "{committed} committed");
}
