//! Pods that lose power, or all their hosts at once, and come back from their disks (see [`crate::durable`]).

use super::{LeftOut, Ran, Scenario};
use crate::Picker;
use crate::durable::{DurableRun, run};
use crate::rows::{Mix, PlainTables, RowsRun};

/// The mixed bag; readers of rows that come and go; checkpoints of rows that change all the time; logs that
/// are shortened all the time; memory that outlives all hosts; disks that are full; another access method
/// beside rows; transactions that are too long for one record.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "durable", run: mixed },
    Scenario { name: "durable-churn", run: churn },
    Scenario { name: "durable-copies", run: copies },
    Scenario { name: "durable-short-logs", run: short_logs },
    Scenario { name: "durable-memory-kept", run: memory_kept },
    Scenario { name: "durable-full", run: full },
    Scenario { name: "durable-plain", run: plain },
    Scenario { name: "durable-fragments", run: fragments },
];

/// Verbs after which a life counts as stuck.
const MAX_VERBS: u64 = 2_000_000;

fn ran(shape: DurableRun, left_out: Option<&LeftOut>) -> Ran {
    let mut rows = RowsRun { max_verbs: MAX_VERBS, ..shape.rows };
    match left_out {
        None => {}
        Some(LeftOut::Site(site)) => rows.disabled_site = Some(site.clone()),
        Some(LeftOut::Step(step)) => rows.sabotage = Some(step),
    }
    let mut result = run(&DurableRun { rows, ..shape });
    let problem = if result.problems.is_empty() { None } else { Some(result.problems.swap_remove(0)) };
    Ran { report: result.report, problem }
}

fn mixed(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(DurableRun::from_seed(seed), left_out)
}

fn short_logs(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(DurableRun::with_short_logs(seed), left_out)
}

fn memory_kept(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(DurableRun::with_memory_kept(seed), left_out)
}

fn full(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(DurableRun::with_full_disks(seed), left_out)
}

/// The table is kept in plain maps, or its index, or both; now and then memory outlives all hosts.
fn plain(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let mut pick = Picker::new(seed ^ 0x706c_6169);
    let run = if pick.chance(25) { DurableRun::with_memory_kept(seed) } else { DurableRun::from_seed(seed) };
    let rows = RowsRun { plain: PlainTables::some(&mut pick), ..run.rows };
    ran(DurableRun { rows, ..run }, left_out)
}

/// Transactions of several records, on any kind of disk.
fn fragments(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let mut pick = Picker::new(seed ^ 0x6672_6167);
    let of_kind = match pick.below(5) {
        0 | 4 => DurableRun::with_short_logs,
        1 => DurableRun::with_memory_kept,
        2 => DurableRun::with_full_disks,
        _ => DurableRun::from_seed,
    };
    let run = of_kind(seed);
    let (hosts, transactions) = (run.rows.hosts.min(1 + pick.below(2) as u8), run.rows.transactions.min(30));
    let rows = RowsRun { hosts, transactions, ..run.rows.with_fragments() };
    ran(DurableRun { rows, ..run }, left_out)
}

/// Few rows that are inserted and deleted while others look for them.
fn churn(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = DurableRun::from_seed(seed);
    let mix = Mix { get: 4, insert: 2, delete: 3, ..Mix::ALL };
    let rows = RowsRun { keys: 3, operations: 2, transactions: 30, workers: 2, mix, ..run.rows };
    ran(DurableRun { rows, ..run }, left_out)
}

/// Few rows of one host that change while checkpoints are taken, one after the other.
fn copies(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = DurableRun::from_seed(seed);
    let shape = RowsRun { hosts: 1, workers: 3, keys: 6, operations: 4, transactions: 40, ..run.rows };
    let rows = RowsRun { mix: Mix::POINTS, ..shape };
    ran(DurableRun { rows, crash_verbs: 8000, checkpoints: 12, ..run }, left_out)
}
