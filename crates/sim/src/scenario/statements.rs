//! Transactions of statements that each read as of a moment of their own, beside others (see
//! [`crate::survival`]).

use liger_engine::row::policy::{WaitDie, WaitPolicy};

use super::survival::{ran, with_snapshots};
use super::{LeftOut, Ran, Scenario};
use crate::Picker;
use crate::rows::{Mix, RowsRun};
use crate::survival::{Moving, SurvivalRun};

/// Nobody dies; hosts die; partitions go from host to host; a row or two that all of them change.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "statements", run: calm },
    Scenario { name: "statements-survival", run: of_mortals },
    Scenario { name: "statements-moving", run: of_movers },
    Scenario { name: "statements-few", run: of_few },
];

fn calm(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(calm_run(seed), left_out)
}

/// Statements beside snapshots and other transactions, on which some wait.
fn calm_run(seed: u64) -> SurvivalRun {
    SurvivalRun { deaths: Vec::new(), ..with_statements(seed) }
}

fn of_mortals(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(with_statements(seed), left_out)
}

fn of_movers(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = with_statements(seed);
    let deaths = if seed.is_multiple_of(2) { Vec::new() } else { run.deaths };
    ran(SurvivalRun { moves: Moving::Any, deaths, ..run }, left_out)
}

fn of_few(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = calm_run(seed);
    let mix = [Mix { update: 1, ..Mix::NONE }, Mix { update: 2, ..Mix::CHURN }][(seed / 3 % 2) as usize];
    let rows = RowsRun { keys: 1 + (seed % 3) as i32, operations: 2, mix, ..run.rows };
    ran(SurvivalRun { rows, ..run }, left_out)
}

fn with_statements(seed: u64) -> SurvivalRun {
    let (run, mut pick) = (with_snapshots(seed), Picker::new(seed ^ 0x7374_6d74));
    let wait: Option<&(dyn WaitPolicy + Sync)> = if pick.chance(30) { Some(&WaitDie::USUAL) } else { None };
    let (snapshots, statements) = (pick.below(20), 30 + pick.below(50));
    let rows = RowsRun { wait, transactions: 30, ..run.rows };
    SurvivalRun { rows, snapshots, statements, ..run }
}
