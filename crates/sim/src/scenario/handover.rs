//! Pods whose partitions go from one living host to another (docs/protocols/handover.md), some of whose hosts
//! die.

use liger_fabric::sim::CrashDomain;
use liger_pod::plan::all_hosts;

use super::survival::ran;
use super::{LeftOut, Ran, Scenario};
use crate::Picker;
use crate::rows::{Mix, PlainTables, RowsRun};
use crate::survival::{Death, Moving, SurvivalRun};

/// Nobody dies; hosts that are back get their share; hosts for which no partitions were made get some; all at
/// once; few rows that come and go; a host dies that has released a partition; checkpoints all the time; no
/// room in memory, or on disks; another access method beside rows.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "handover", run: calm },
    Scenario { name: "handover-home", run: home },
    Scenario { name: "handover-deaths", run: deaths },
    Scenario { name: "handover-churn", run: churn },
    Scenario { name: "handover-growing", run: growing },
    Scenario { name: "handover-last-will", run: last_will },
    Scenario { name: "handover-checkpoints", run: checkpoints },
    Scenario { name: "handover-full-memory", run: full_memory },
    Scenario { name: "handover-full-disks", run: full_disks },
    Scenario { name: "handover-plain", run: plain },
];

fn calm(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    ran(SurvivalRun { moves: Moving::Any, deaths: Vec::new(), ..run }, left_out)
}

fn home(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    let rows = RowsRun { transactions: 3 * run.rows.transactions, ..run.rows };
    ran(SurvivalRun { moves: Moving::Home, rows, ..run }, left_out)
}

/// Some hosts have come later than the others, and any may die.
fn growing(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = (SurvivalRun::from_seed(seed), Picker::new(seed ^ 0x686f_6772));
    let hosts = run.rows.hosts.max(3);
    let initial_hosts = 1 + pick.below(u64::from(hosts) - 1) as u8;
    let newcomers = all_hosts(hosts) & !all_hosts(initial_hosts);
    let rows = RowsRun { hosts, transactions: 3 * run.rows.transactions, ..run.rows };
    ran(SurvivalRun { moves: Moving::Home, rows, newcomers, ..run }, left_out)
}

fn deaths(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(SurvivalRun { moves: Moving::Any, ..SurvivalRun::from_seed(seed) }, left_out)
}

/// Few rows that several hosts insert and delete, with checkpoints all the time.
fn churn(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    let mix = Mix { get: 2, update: 3, insert: 4, delete: 4, ..Mix::ALL };
    let rows = RowsRun { keys: 3, operations: 2, transactions: 40, mix, budget_rows: 40, ..run.rows };
    let replay_bytes = if seed.is_multiple_of(2) { 2 << 10 } else { run.replay_bytes };
    ran(SurvivalRun { moves: Moving::Any, rows, replay_bytes, ..run }, left_out)
}

/// A host dies when it has released a partition, while the next owner makes its rows and somebody else is the
/// dead host's successor.
fn last_will(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = (SurvivalRun::from_seed(seed), Picker::new(seed ^ 0x686f_6c77));
    let domains = [CrashDomain::Process, CrashDomain::Host, CrashDomain::HostPersistent];
    let dies_released = Some(domains[pick.below(3) as usize]);
    let rows = RowsRun { hosts: 3 + pick.below(2) as u8, transactions: 25, ..run.rows };
    ran(SurvivalRun { moves: Moving::Any, rows, deaths: Vec::new(), dies_released, ..run }, left_out)
}

/// Checkpoints of many rows all the time, and a host that dies soon after a partition has come to it: what
/// that is made from then is the image of the host before.
fn checkpoints(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    let mix = Mix { get: 1, update: 6, insert: 2, delete: 2, ..Mix::NONE };
    let rows = RowsRun { keys: 40, operations: 2, transactions: 60, mix, budget_rows: 40, ..run.rows };
    let mut pick = Picker::new(seed ^ 0x686f_6370);
    let died = |(death, reach): (Death, u64)| Death { verbs: 1 + pick.below(2000 << reach), ..death };
    let deaths = run.deaths.into_iter().zip([5, 6, 6]).map(died).collect();
    ran(SurvivalRun { moves: Moving::Any, rows, deaths, replay_bytes: 2 << 10, ..run }, left_out)
}

fn full_memory(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    let mix = Mix { insert: 5, delete: 5, ..Mix::ALL };
    let rows = RowsRun { mix, transactions: 40, budget_rows: 1000, spare_chunks: Some(seed % 8), ..run.rows };
    ran(SurvivalRun { moves: Moving::Any, rows, ..run }, left_out)
}

fn full_disks(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(SurvivalRun { moves: Moving::Any, ..SurvivalRun::with_full_disks(seed) }, left_out)
}

/// The table is kept in plain maps, or its index, or both.
fn plain(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = (SurvivalRun::from_seed(seed), Picker::new(seed ^ 0x686f_706c));
    let mix = [Mix::ALL, Mix { insert: 4, delete: 4, update: 3, ..Mix::NONE }][pick.below(2) as usize];
    let rows = RowsRun { plain: PlainTables::some(&mut pick), mix, ..run.rows };
    ran(SurvivalRun { moves: Moving::Any, rows, ..run }, left_out)
}
