//! Motor's multi-version transactions, each shape aimed at one weak spot (see [`crate::motor`]).

use super::{LeftOut, Ran, Scenario};
use crate::motor::{MotorRun, run};
use crate::rows::Mix;

/// Few rows, ranges, mixed.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "motor-points", run: points },
    Scenario { name: "motor-gaps", run: gaps },
    Scenario { name: "motor-mixed", run: mixed },
];

fn ran(shape: MotorRun, left_out: Option<&LeftOut>) -> Ran {
    let mut result = run(&MotorRun { left_out: left_out.cloned(), ..shape });
    let problem = if result.problems.is_empty() { None } else { Some(result.problems.swap_remove(0)) };
    Ran { report: result.report, problem }
}

/// Everybody on few keys, and some who only read.
fn points(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = MotorRun::from_seed(seed);
    ran(MotorRun { hosts: 2, keys: 2, operations: 3, transactions: 25, mix: Mix::POINTS, ..run }, left_out)
}

fn gaps(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = MotorRun::from_seed(seed);
    ran(MotorRun { hosts: 2, keys: 4, operations: 3, transactions: 25, mix: Mix::GAPS, ..run }, left_out)
}

fn mixed(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(MotorRun::from_seed(seed), left_out)
}
