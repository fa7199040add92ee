//! Pods of row engines whose policies the seed draws: every combination is as right as the default.
//!
//! Where gaps are not locked, only rows that were found are held against the history (see
//! [`crate::history::History::without_gaps`]).

use liger_engine::row::policy::{
    Coherence, Marks, MoveOut, MoveOutWhen, Patient, Policies, Steps, WaitDie, WaitPolicy,
};

use super::rows::{base, between};
use super::{LeftOut, Ran, Scenario};
use crate::Picker;
use crate::rows::{Mix, RowsRun};
use crate::survival::SurvivalRun;

/// Hosts that live, and hosts some of which die.
pub const SCENARIOS: &[Scenario] =
    &[Scenario { name: "rows-policies", run: rows }, Scenario { name: "survival-policies", run: survival }];

/// Coherence policies that need no coherent data; hosts with any of them may share a pod.
const BY_SOFTWARE: [Coherence; 3] =
    [Coherence::WriteThrough, Coherence::NoSharedReader, Coherence::AlwaysBypass];

/// The policies of a pod's hosts. The seed itself decides how they keep rows coherent, so that a few seeds
/// have all.
fn policies(seed: u64, pick: &mut Picker, by_software: bool) -> Vec<Policies> {
    let coherence = match seed % 5 {
        3 if !by_software => Coherence::AllHwcc,
        choice => BY_SOFTWARE[choice as usize % 3],
    };
    let common = Policies {
        coherence,
        move_out: MoveOut::ALL[pick.below(MoveOut::ALL.len() as u64) as usize].1,
        move_out_when: MoveOutWhen::ALL[pick.below(2) as usize].1,
        marks: Marks { high_percent: 60, low_percent: 30 },
        next_key_locking: pick.below(4) != 0,
        shortcuts: pick.below(2) == 0,
        dirty_tracking: pick.below(2) == 0,
        steps: Steps::ALL[usize::from(pick.below(4) == 0)].1,
        row_checksums: pick.below(4) != 0,
    };
    if seed % 5 != 4 {
        return vec![common];
    }
    // Every host has ways of its own, but for what all must agree on.
    let own = |_| Policies {
        coherence: BY_SOFTWARE[pick.below(3) as usize],
        shortcuts: pick.below(2) == 0,
        dirty_tracking: pick.below(2) == 0,
        steps: Steps::ALL[pick.below(2) as usize].1,
        ..common
    };
    (0..4).map(own).collect()
}

fn wait(pick: &mut Picker) -> Option<&'static (dyn WaitPolicy + Sync)> {
    static LITTLE: WaitDie = WaitDie { younger_ns: 20_000, hosts_ns: 5_000 };
    static PATIENT: Patient = Patient { writers_ns: 20_000, readers_ns: 10_000, colleagues_ns: 40_000 };
    match pick.below(4) {
        0 => None,
        1 => Some(&LITTLE),
        2 => Some(&WaitDie::USUAL),
        _ => Some(&PATIENT),
    }
}

fn rows(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let (policies, wait) = (policies(seed, &mut pick, false), wait(&mut pick));
    let mix = [Mix::ALL, Mix::GAPS, Mix::POINTS, Mix::QUEUE][pick.below(4) as usize];
    let run = RowsRun { policies, wait, mix, budget_rows: pick.below(12), ..run };
    let (keys, operations) = (between(&mut pick, 2, 8) as i32, between(&mut pick, 1, 4));
    let shape = match pick.below(8) {
        0 => RowsRun { hosts: 9, workers: 1, keys: 2, operations: 2, transactions: 8, ..run },
        _ => {
            let (hosts, workers) = (between(&mut pick, 2, 3) as u8, between(&mut pick, 1, 3) as u8);
            RowsRun { hosts, workers, keys, operations, transactions: 20, ..run }
        }
    };
    super::rows::ran(shape, left_out)
}

fn survival(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = (SurvivalRun::from_seed(seed), Picker::new(seed ^ 0x706f_6c69));
    let (policies, wait) = (policies(seed, &mut pick, true), wait(&mut pick));
    let rows = RowsRun { policies, wait, budget_rows: pick.below(12), ..run.rows };
    super::survival::ran(SurvivalRun { rows, ..run }, left_out)
}
