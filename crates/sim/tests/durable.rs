//! Pods that lose power come back with everything that was acknowledged, and go on.

#![forbid(unsafe_code)]

use liger_sim::durable::{DurableRun, run};

/// Verbs, checkpoints, segments removed; transactions committed, acknowledged, lost.
fn sums_of(shape: fn(u64) -> DurableRun, usual_seeds: u64) -> (u64, [u64; 6]) {
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let (seeds, first) = (number("LIGER_SEEDS").unwrap_or(usual_seeds), number("LIGER_SEED").unwrap_or(1));
    let mut sums = [0; 6];
    for seed in first..first + seeds {
        let result = run(&shape(seed));
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
        let of_pod = [result.verbs, result.checkpoints, result.removed];
        let of_run = [result.committed, result.acknowledged, result.lost];
        sums.iter_mut().zip(of_pod.into_iter().chain(of_run)).for_each(|(sum, here)| *sum += here);
    }
    let [verbs, checkpoints, removed, committed, acknowledged, lost] = sums;
    println!(
        "{seeds} seeds, {verbs} verbs: {committed} committed, {acknowledged} acknowledged, {lost} lost, \
         {checkpoints} checkpoints, {removed} segments removed"
    );
    (seeds, sums)
}

#[test]
fn what_was_acknowledged_survives() {
    let (seeds, [_, checkpoints, _, _, acknowledged, lost]) = sums_of(DurableRun::from_seed, 150);
    assert!(acknowledged > 5 * seeds && lost > 2 * seeds && checkpoints > 2 * seeds);
}

#[test]
fn what_was_acknowledged_survives_logs_that_are_shortened() {
    let (seeds, [_, checkpoints, removed, _, acknowledged, lost]) = sums_of(DurableRun::with_short_logs, 60);
    assert!(acknowledged > 50 * seeds && lost > seeds && checkpoints > 5 * seeds && removed > 20 * seeds);
}

#[test]
fn what_returned_survives_when_the_memory_does() {
    let (seeds, [_, checkpoints, _, committed, acknowledged, lost]) =
        sums_of(DurableRun::with_memory_kept, 150);
    // Many were not on storage when the hosts died.
    assert!(committed > acknowledged + 5 * seeds && checkpoints > seeds && lost == 0);
}

#[test]
fn what_is_refused_on_a_full_disk_leaves_no_trace_and_the_rest_survives() {
    let (seeds, [_, checkpoints, removed, _, acknowledged, _]) = sums_of(DurableRun::with_full_disks, 100);
    let refused: u64 = (1..=seeds).map(|seed| run(&DurableRun::with_full_disks(seed)).refused).sum();
    assert!(refused > seeds && acknowledged > 10 * seeds && checkpoints > seeds && removed > seeds);
}

#[test]
fn of_what_had_not_returned_all_is_there_or_nothing() {
    let in_doubt = |seed| run(&DurableRun::with_memory_kept(seed)).in_doubt;
    assert!((1..=600).any(|seed| in_doubt(seed) > 0), "some had left a record");
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
