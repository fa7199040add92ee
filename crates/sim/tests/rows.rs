//! Adversarial seeds of the row engine: serializable, nothing leaked, every lock free.

use liger_sim::rows::{RowsRun, run};

#[test]
fn adversarial_seeds() {
    let seeds: u64 = std::env::var("LIGER_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(200);
    let first: u64 = std::env::var("LIGER_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    for seed in first..first + seeds {
        let result = run(&RowsRun::from_seed(seed));
        if std::env::var("LIGER_VERBOSE").is_ok() {
            println!(
                "seed {seed}: {} committed, {} conflicts, moves {:?}, {} verbs",
                result.committed, result.conflicts, result.moves, result.report.verbs
            );
        }
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
    }
}
