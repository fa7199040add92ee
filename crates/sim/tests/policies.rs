//! The row engine's policies: every combination is right on adversarial memory, each step that a policy adds
//! is needed, and what each costs in verbs.

use liger_sim::mutation::{Config, stage};
use liger_sim::scenario::named;

#[test]
fn every_combination_is_right() {
    let seeds: u64 = std::env::var("LIGER_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(400);
    let first: u64 = std::env::var("LIGER_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    for (name, seeds) in [("rows-policies", seeds), ("survival-policies", seeds / 20)] {
        let scenario = named(name).expect("a scenario of this name");
        for seed in first..first + seeds {
            let ran = (scenario.run)(seed, None);
            assert!(ran.problem.is_none(), "{name} seed {seed}: {}", ran.problem.unwrap());
        }
    }
}

/// What went wrong once: accounts that were read while others freed added up to less than nothing.
#[test]
fn seeds_that_failed_are_right() {
    let scenario = named("survival-policies").expect("it is there");
    let ran = (scenario.run)(1022, None);
    assert!(ran.problem.is_none(), "{}", ran.problem.unwrap());
}

#[test]
fn every_step_of_a_policy_is_needed() {
    for step in ["row.take-valid-bits-of-others", "row.bypass-own-copy", "partition.copy-back-on-lock"] {
        let config = Config {
            scenarios: Some("rows-policies".to_owned()),
            mutants: Some(step.to_owned()),
            max_seeds: 3000,
            baseline_seeds: 6,
            ..Config::new(|| 0)
        };
        let report = stage(&config, |_| ());
        println!("{}", report.table());
        assert!(report.passed() && report.mutants.len() == 1, "{}", report.table());
    }
}
