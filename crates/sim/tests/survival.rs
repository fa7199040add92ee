//! Pods some of whose hosts die: what was committed is there, and the others go on.

#![forbid(unsafe_code)]

use liger_sim::rows::{Mix, RowsRun};
use liger_sim::survival::{SurvivalRun, run};

#[test]
fn hosts_die_and_the_others_go_on() {
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let (seeds, first) = (number("LIGER_SEEDS").unwrap_or(100), number("LIGER_SEED").unwrap_or(1));
    let (mut committed, mut deaths, mut returns, mut taken) = (0, 0, 0, 0);
    let (mut resolved, mut redone, mut verbs) = (0, 0, 0);
    for seed in first..first + seeds {
        let result = run(&SurvivalRun::from_seed(seed));
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
        committed += result.committed;
        (deaths, returns) = (deaths + result.deaths, returns + result.returns);
        taken += result.taken_over;
        (resolved, redone) = (resolved + result.resolved.0, redone + result.resolved.1);
        verbs += result.report.verbs;
    }
    println!(
        "{seeds} seeds, {verbs} verbs: {committed} committed, {deaths} deaths, {returns} returns, {taken} \
         partitions taken over, {resolved} locks resolved, {redone} rows redone"
    );
    assert!(deaths >= seeds / 2 && taken >= seeds / 2, "too few deaths");
}

#[test]
fn hosts_die_beside_disks_that_are_full() {
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let (seeds, first) = (number("LIGER_SEEDS").unwrap_or(60), number("LIGER_SEED").unwrap_or(1));
    let (mut committed, mut refused, mut taken, mut extinct) = (0, 0, 0, 0);
    for seed in first..first + seeds {
        let result = run(&SurvivalRun::with_full_disks(seed));
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
        committed += result.committed;
        refused += result.refused;
        (taken, extinct) = (taken + result.taken_over, extinct + u64::from(result.extinct));
    }
    println!(
        "{seeds} seeds: {committed} committed, {refused} refused, {taken} partitions taken over, {extinct} \
         times nobody was left"
    );
    assert!(refused >= 5 * seeds && taken >= seeds / 2, "{refused} refused, {taken} taken over");
}

/// More than eight hosts: valid bits are in words of their own.
#[test]
fn one_of_nine_hosts_dies() {
    for seed in 1..=3 {
        let run_of = SurvivalRun::from_seed(seed);
        let rows = RowsRun { hosts: 9, workers: 1, keys: 2, transactions: 6, ..run_of.rows };
        let rows = RowsRun { mix: Mix::POINTS, max_verbs: 40_000_000, ..rows };
        let deaths = run_of.deaths.into_iter().take(1).collect();
        let result = run(&SurvivalRun { rows, deaths, lease_ns: 1_000_000, ..run_of });
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
    }
}

#[test]
fn a_run_replays_from_its_seed() {
    let trace = |seed| run(&SurvivalRun::from_seed(seed)).report.trace_hash;
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
}
