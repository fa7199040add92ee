//! Sundial in shared memory, each shape aimed at one weak spot (see [`crate::shm`]).

use super::{LeftOut, Ran, Scenario};
use crate::Picker;
use crate::rows::Mix;
use crate::shm::{ShmRun, ShmShape, run};

/// Few rows, gaps, absent rows, rows that come and go with gaps open, mixed.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "shm-points", run: points },
    Scenario { name: "shm-gaps", run: gaps },
    Scenario { name: "shm-absent", run: absent },
    Scenario { name: "shm-open-gaps", run: open_gaps },
    Scenario { name: "shm-given-up", run: given_up },
    Scenario { name: "shm-reuse", run: reuse },
    Scenario { name: "shm-mixed", run: mixed },
];

/// Verbs after which a run counts as stuck: some twenty times what the longest of them needs.
const MAX_VERBS: u64 = 3_000_000;

fn ran(shape: ShmRun, left_out: Option<&LeftOut>) -> Ran {
    let mut result = run(&ShmRun { max_verbs: MAX_VERBS, left_out: left_out.cloned(), ..shape });
    let problem = if result.problems.is_empty() { None } else { Some(result.problems.swap_remove(0)) };
    Ran { report: result.report, problem }
}

/// Everybody on few keys of one partition.
fn few(seed: u64, gaps: bool, mix: Mix, keys: i32) -> ShmRun {
    let run = ShmRun::from_seed(seed);
    let mut pick = Picker::new(seed ^ 0x5348_4d46);
    let (hosts, operations, think) = (2 + pick.below(2) as u8, 1 + pick.below(3), pick.below(3));
    let shape = ShmShape { gaps };
    ShmRun { hosts, shape, keys, parts: 1, operations, think, mix, transactions: 25, ..run }
}

fn points(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(few(seed, true, Mix::POINTS, 3), left_out)
}

fn gaps(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(few(seed, true, Mix::GAPS, 4), left_out)
}

/// Rows come and go while others look for them or make their neighbours, with indexes that are read anew.
fn absent(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let mix = Mix { get: 4, scan: 1, insert: 4, delete: 4, ..Mix::CHURN };
    let run = few(seed, true, mix, 3 + (seed % 3) as i32);
    let (hosts, workers) = (3, 1 + (seed % 2) as u8);
    ran(
        ShmRun { hosts, workers, operations: 4, think: 0, node_entries: 1, transactions: 40, ..run },
        left_out,
    )
}

fn open_gaps(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let mix = Mix { get: 1, update: 1, insert: 6, delete: 1, deliver: 5, ..Mix::NONE };
    ran(few(seed, false, mix, 3), left_out)
}

/// Half of the transactions give up at their end: what they were shown must have been so at one time.
fn given_up(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = few(seed, true, Mix { get: 5, update: 2, ..Mix::NONE }, 4);
    ran(ShmRun { operations: 4, rollback_of: 2, transactions: 40, ..run }, left_out)
}

/// One row a partition, which comes and goes: its word and block are soon another's, whose clock is behind.
fn reuse(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = few(seed, true, Mix { insert: 4, delete: 3, ..Mix::NONE }, 1);
    let (duel, hosts, workers) = (Some(Mix { get: 1, ..Mix::NONE }), 3, 2);
    ran(ShmRun { duel, hosts, workers, parts: 4, operations: 1, think: 0, transactions: 60, ..run }, left_out)
}

fn mixed(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(ShmRun::from_seed(seed), left_out)
}
