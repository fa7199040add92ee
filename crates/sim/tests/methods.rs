//! The door for access methods: plain maps beside rows, in the same transactions.

use liger_sim::scenario::{LeftOut, Scenario, all};

fn scenario(name: &str) -> &'static Scenario {
    all().find(|scenario| scenario.name == name).expect("there is one")
}

fn passes(name: &str, seeds: u64) {
    let seeds = std::env::var("LIGER_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(seeds);
    for seed in 0..seeds {
        let ran = (scenario(name).run)(seed, None);
        assert!(ran.problem.is_none(), "{name} seed {seed}: {}", ran.problem.unwrap_or_default());
    }
}

#[test]
fn two_methods_in_one_transaction_are_serializable() {
    passes("rows-plain", 300);
}

#[test]
fn two_methods_come_back_when_all_is_lost() {
    passes("durable-plain", 120);
}

#[test]
fn two_methods_survive_their_hosts() {
    passes("survival-plain", 120);
}

#[test]
fn a_step_of_the_second_method_that_is_left_out_is_noticed() {
    let where_it_matters = [
        ("plain.invalidate", "rows-plain"),
        ("plain.write-back", "rows-plain"),
        ("plain.turn-after-fence", "rows-plain"),
        ("plain.redo", "survival-plain"),
        ("plain.only-newer", "survival-plain"),
    ];
    for (step, name) in where_it_matters {
        let is_noticed = |seed| (scenario(name).run)(seed, Some(&LeftOut::Step(step))).problem.is_some();
        assert!((0..2000).any(is_noticed), "{step} is not needed in 2,000 runs");
    }
}
