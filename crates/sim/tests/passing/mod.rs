//! Scenarios on some seeds, for tests.

use liger_sim::scenario::named;

/// Runs a scenario on so many seeds, or on `LIGER_SEEDS`.
pub fn passes(name: &str, seeds: u64) {
    let seeds = std::env::var("LIGER_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(seeds);
    let scenario = named(name).expect("there is one");
    for seed in 0..seeds {
        let ran = (scenario.run)(seed, None);
        assert!(ran.problem.is_none(), "{name} seed {seed}: {}", ran.problem.unwrap_or_default());
    }
}
