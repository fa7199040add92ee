//! Partitioned pods, each shape aimed at one weak spot (see [`crate::partitioned`]).

use liger_rivals::partitioned::{Protocol, Route};

use super::{LeftOut, Ran, Scenario};
use crate::Picker;
use crate::partitioned::{PartRun, Shape, run};
use crate::rows::Mix;

/// Both protocols on few rows, on gaps, and mixed; lanes that are full; logs.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "partitioned-sundial-points", run: sundial_points },
    Scenario { name: "partitioned-sundial-gaps", run: sundial_gaps },
    Scenario { name: "partitioned-sundial-open-gaps", run: sundial_open_gaps },
    Scenario { name: "partitioned-given-up", run: given_up },
    Scenario { name: "partitioned-ds2pl-points", run: ds2pl_points },
    Scenario { name: "partitioned-ds2pl-gaps", run: ds2pl_gaps },
    Scenario { name: "partitioned-full-lanes", run: full_lanes },
    Scenario { name: "partitioned-side-by-side", run: side_by_side },
    Scenario { name: "partitioned-records", run: with_logs },
    Scenario { name: "partitioned-mixed", run: mixed },
];

/// Verbs after which a run counts as stuck: some twenty times what the longest of them needs.
const MAX_VERBS: u64 = 3_000_000;

fn ran(shape: PartRun, left_out: Option<&LeftOut>) -> Ran {
    let shape = PartRun { max_verbs: MAX_VERBS, left_out: left_out.cloned(), ..shape };
    let mut result = run(&shape);
    let problem = if result.problems.is_empty() { None } else { Some(result.problems.swap_remove(0)) };
    Ran { report: result.report, problem }
}

fn mixed(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(PartRun::from_seed(seed), left_out)
}

/// Everybody on few keys of each partition.
fn few(seed: u64, protocol: Protocol, mix: Mix, keys: i32) -> PartRun {
    let run = PartRun::from_seed(seed);
    let mut pick = Picker::new(seed ^ 0x5348_4150);
    let shape = Shape { protocol, gaps: true, ..run.shape };
    let hosts = 2 + pick.below(2) as u8;
    let (operations, think) = (1 + pick.below(3), pick.below(3));
    PartRun { hosts, shape, keys, operations, think, mix, transactions: 25, ..run }
}

fn sundial_points(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(few(seed, Protocol::Sundial, Mix::POINTS, 2), left_out)
}

fn sundial_gaps(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(few(seed, Protocol::Sundial, Mix::GAPS, 4), left_out)
}

/// Rows come and go where gaps are not protected: whoever was shown one deletes it, or has met a conflict.
fn sundial_open_gaps(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let mix = Mix { get: 1, update: 1, insert: 6, delete: 1, deliver: 5, ..Mix::NONE };
    let run = few(seed, Protocol::Sundial, mix, 4);
    let shape = Shape { gaps: false, ..run.shape };
    ran(PartRun { shape, operations: 3, ..run }, left_out)
}

/// Half of the transactions give up at their end: what they were shown must have been so at one time.
fn given_up(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = few(seed, Protocol::Sundial, Mix { get: 5, update: 2, ..Mix::NONE }, 1);
    ran(PartRun { operations: 4, rollback_of: 2, transactions: 40, ..run }, left_out)
}

fn ds2pl_points(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(few(seed, Protocol::Ds2pl, Mix::POINTS, 2), left_out)
}

fn ds2pl_gaps(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(few(seed, Protocol::Ds2pl, Mix::GAPS, 4), left_out)
}

/// Every host keeps a log.
fn with_logs(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let protocol = [Protocol::Sundial, Protocol::Ds2pl][(seed % 2) as usize];
    let run = few(seed, protocol, Mix::ALL, 4);
    ran(PartRun { epoch_ns: Some(500 << (seed % 8)), operations: 4, ..run }, left_out)
}

/// Transactions of many rows over lanes that hold little: answers in parts, changes in parts, mail that
/// waits.
fn full_lanes(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = PartRun::from_seed(seed);
    let shape = Shape { gaps: true, ..run.shape };
    let route = [Route::Workers, Route::Receiver, Route::Thread][(seed % 3) as usize];
    let shape = Shape { route, ..shape };
    ran(PartRun { shape, workers: 2, keys: 12, operations: 8, lane_slots: 8, mix: Mix::ALL, ..run }, left_out)
}

/// Many workers of two hosts that do not wait for the ends of their short transactions: what belongs to the
/// next one comes early.
fn side_by_side(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let protocol = [Protocol::Sundial, Protocol::Ds2pl][(seed % 2) as usize];
    let run = few(seed, protocol, Mix::POINTS, 2);
    let shape = Shape { await_writes: false, route: Route::Workers, ..run.shape };
    ran(PartRun { shape, hosts: 2, workers: 4, think: 0, operations: 2, ..run }, left_out)
}
