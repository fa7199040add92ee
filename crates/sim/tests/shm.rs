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

/// Where memory is full, transactions fail and everything else goes on: what could not be taken out is known,
/// to be taken out later.
#[test]
fn adversarial_seeds_in_full_memory() {
    let (mut committed, mut full) = (0, 0);
    for seed in 1..=300 {
        let shape = ShmRun { spare_chunks: Some(seed % 3), ..ShmRun::from_seed(seed) };
        let result = run(&shape);
        assert!(result.problems.is_empty(), "seed {seed} ({:?}):\n{}", shape, result.problems.join("\n"));
        committed += result.committed;
        full += result.full;
    }
    println!("{committed} committed, {full} found memory full");
    assert!(committed > 1000 && full > 1000, "{committed} committed, {full} found memory full");
}
