//! Partitions go from one living host to another: what was committed is there, whoever dies when.

#![forbid(unsafe_code)]

use liger_sim::scenario::{LeftOut, named};
use liger_sim::survival::{Moving, SurvivalRun, run};

mod passing;

use passing::passes;

#[test]
fn partitions_move_while_transactions_run() {
    let (mut moved, mut committed) = (0, 0);
    for seed in 1..=60 {
        let calm = SurvivalRun { moves: Moving::Any, deaths: Vec::new(), ..SurvivalRun::from_seed(seed) };
        let result = run(&calm);
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
        (moved, committed) = (moved + result.handed_over, committed + result.committed);
    }
    println!("60 seeds: {moved} partitions moved, {committed} transactions committed");
    assert!(moved > 60 && committed > 1500, "{moved} partitions moved, {committed} committed");
}

#[test]
fn a_host_that_is_back_gets_its_share() {
    let (mut moved, mut returns) = (0, 0);
    for seed in 1..=60 {
        let run_of = SurvivalRun::from_seed(seed);
        let result = run(&SurvivalRun { moves: Moving::Home, ..run_of });
        assert!(result.problems.is_empty(), "seed {seed}:\n{}", result.problems.join("\n"));
        (moved, returns) = (moved + result.handed_over, returns + result.returns);
    }
    println!("60 seeds: {moved} partitions went to {returns} hosts that were back");
    assert!(moved > returns / 8 && returns > 20, "{moved} partitions moved, {returns} hosts were back");
}

#[test]
fn hosts_that_come_later_get_their_share() {
    passes("handover-growing", 60);
}

#[test]
fn hosts_die_while_partitions_move() {
    passes("handover-deaths", 60);
    passes("handover-churn", 60);
    passes("handover-last-will", 60);
    passes("handover-plain", 40);
}

#[test]
fn partitions_move_where_there_is_no_room() {
    passes("handover-full-memory", 60);
    passes("handover-full-disks", 40);
}

#[test]
fn what_is_left_out_of_a_hand_over_is_noticed() {
    let where_it_matters =
        [("handover.withdraw", "handover-churn"), ("handover.await-logs", "handover-churn")];
    for (step, name) in where_it_matters {
        let is_noticed = |seed| {
            (named(name).expect("there is one").run)(seed, Some(&LeftOut::Step(step))).problem.is_some()
        };
        assert!((0..300).any(is_noticed), "{step} is not needed in 300 runs");
    }
}
