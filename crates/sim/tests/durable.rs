//! Pods that lose power come back with everything that was acknowledged, and go on.

#![forbid(unsafe_code)]

use liger_sim::durable::{DurableRun, run};

#[test]
fn what_was_acknowledged_survives() {
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let (seeds, first) = (number("LIGER_SEEDS").unwrap_or(150), number("LIGER_SEED").unwrap_or(1));
    let mut sums = [0; 5];
    for seed in first..first + seeds {
        let result = run(&DurableRun::from_seed(seed));
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
        let of_run = [result.verbs, result.committed, result.acknowledged, result.lost, result.checkpoints];
        sums.iter_mut().zip(of_run).for_each(|(sum, here)| *sum += here);
    }
    let [verbs, committed, acknowledged, lost, checkpoints] = sums;
    println!(
        "{seeds} seeds, {verbs} verbs: {committed} committed, {acknowledged} acknowledged, {lost} lost, \
         {checkpoints} checkpoints"
    );
    assert!(acknowledged > 5 * seeds && lost > 2 * seeds && checkpoints > 2 * seeds);
}

#[test]
fn a_run_replays_from_its_seed() {
    let trace = |seed| {
        let result = run(&DurableRun::from_seed(seed));
        (result.report.trace_hash, result.verbs, result.acknowledged, result.lost)
    };
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
}
