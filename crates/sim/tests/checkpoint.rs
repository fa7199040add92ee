//! The steps of a checkpoint that copying rows depends on: each left out is noticed.

#![forbid(unsafe_code)]

use liger_sim::scenario::LeftOut;
use liger_sim::scenario::checkpoint::SCENARIOS;

#[test]
fn what_had_committed_is_in_it() {
    for seed in 0..200 {
        let ran = (SCENARIOS[0].run)(seed, None);
        assert_eq!(ran.problem, None, "seed {seed}");
    }
}

#[test]
fn a_step_left_out_is_noticed() {
    for step in ["copy.wait-for-foreign-writer", "copy.freshen-modified"] {
        let noticed =
            (0..200).any(|seed| (SCENARIOS[0].run)(seed, Some(&LeftOut::Step(step))).problem.is_some());
        assert!(noticed, "{step}");
    }
}
