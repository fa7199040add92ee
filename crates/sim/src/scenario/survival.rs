//! Pods some of whose hosts die while others live (see [`crate::survival`]).

use super::{LeftOut, Ran, Scenario};
use crate::rows::{Mix, RowsRun};
use crate::survival::{SurvivalRun, run};

/// The mixed bag; few rows that come and go.
pub const SCENARIOS: &[Scenario] =
    &[Scenario { name: "survival", run: mixed }, Scenario { name: "survival-churn", run: churn }];

/// Verbs after which a run counts as stuck.
const MAX_VERBS: u64 = 3_000_000;

fn ran(shape: SurvivalRun, left_out: Option<&LeftOut>) -> Ran {
    let mut rows = RowsRun { max_verbs: MAX_VERBS, ..shape.rows };
    match left_out {
        None => {}
        Some(LeftOut::Site(site)) => rows.disabled_site = Some(site.clone()),
        Some(LeftOut::Step(step)) => rows.sabotage = Some(step),
    }
    let mut result = run(&SurvivalRun { rows, ..shape });
    let problem = if result.problems.is_empty() { None } else { Some(result.problems.swap_remove(0)) };
    Ran { report: result.report, problem }
}

fn mixed(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(SurvivalRun::from_seed(seed), left_out)
}

/// Few rows that several hosts insert and delete when one of them dies.
fn churn(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    let mix = Mix { get: 2, update: 3, insert: 4, delete: 4, ..Mix::ALL };
    let rows = RowsRun { keys: 3, operations: 2, transactions: 20, mix, budget_rows: 40, ..run.rows };
    ran(SurvivalRun { rows, ..run }, left_out)
}
