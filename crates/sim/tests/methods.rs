//! The door for access methods: plain maps beside rows, in the same transactions.

use liger_fabric::sim::Outcome;
use liger_sim::durable::{DurableRun, run};
use liger_sim::rows::{Mix, PlainTables, RowsRun};
use liger_sim::scenario::{LeftOut, named};

mod passing;

use passing::passes;

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
        let is_noticed = |seed| {
            (named(name).expect("there is one").run)(seed, Some(&LeftOut::Step(step))).problem.is_some()
        };
        assert!((0..2000).any(is_noticed), "{step} is not needed in 2,000 runs");
    }
}

/// Two hosts whose rows and maps change together, checkpoints among that, and then a restart.
fn small(plain: PlainTables) -> DurableRun {
    let shape = DurableRun::with_short_logs(5);
    let mix = Mix { update: 3, insert: 3, delete: 3, ..Mix::CHURN };
    let shape_of_rows =
        RowsRun { hosts: 2, workers: 1, keys: 3, operations: 3, transactions: 12, ..shape.rows };
    let rows = RowsRun { mix, plain, ..shape_of_rows };
    DurableRun { rows, crashes: 1, checkpoints: 1, replay_bytes: 600, faults: 0, ..shape }
}

/// The usual test takes every so many-th verb; `LIGER_STRIDE=1` takes all.
#[test]
fn power_may_be_lost_at_every_verb_of_two_methods() {
    let stride = std::env::var("LIGER_STRIDE").ok().and_then(|s| s.parse().ok()).unwrap_or(97);
    for plain in [PlainTables::Table, PlainTables::Index, PlainTables::Both] {
        let (mut verb, mut crashes, mut acknowledged, mut lost) = (1, 0, 0, 0);
        loop {
            let result = run(&DurableRun { crash_at: Some(verb), ..small(plain) });
            assert!(result.problems.is_empty(), "{plain:?}, verb {verb}:\n{}", result.problems.join("\n"));
            (acknowledged, lost) = (acknowledged + result.acknowledged, lost + result.lost);
            if matches!(result.report.outcome, Outcome::Completed) {
                break;
            }
            (crashes, verb) = (crashes + 1, verb + stride);
        }
        println!(
            "{plain:?}: {crashes} crashes within {verb} verbs: {acknowledged} acknowledged, {lost} lost"
        );
        assert!(crashes > 20 && acknowledged > crashes && lost > 0, "{crashes}, {acknowledged}, {lost}");
    }
}

/// The same where the memory outlives the hosts: what returned is there, of what had not all or nothing.
#[test]
fn all_hosts_may_die_at_every_verb_of_two_methods() {
    let stride = std::env::var("LIGER_STRIDE").ok().and_then(|s| s.parse().ok()).unwrap_or(97);
    let (mut salvages, mut in_doubt) = (0, 0);
    for plain in [PlainTables::Table, PlainTables::Index, PlainTables::Both] {
        for verb in (1..4000).step_by(stride) {
            let shape = DurableRun { keeps_memory: true, ..small(plain) };
            let result = run(&DurableRun { crash_at: Some(verb), ..shape });
            assert!(result.problems.is_empty(), "{plain:?}, verb {verb}:\n{}", result.problems.join("\n"));
            (salvages, in_doubt) = (salvages + result.salvages, in_doubt + result.in_doubt);
        }
    }
    println!("{salvages} salvages, {in_doubt} transactions that had not returned are there");
    assert!(salvages > 60 && in_doubt > 0, "{salvages}, {in_doubt}");
}
