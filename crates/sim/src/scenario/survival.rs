//! Pods some of whose hosts die while others live (see [`crate::survival`]).

use super::{LeftOut, Ran, Scenario};
use liger_engine::row::KeepLimits;
use liger_fabric::HostId;

use crate::Picker;
use crate::crash_points::{CrashAt, CrashRun, DOMAINS, Operation, run as run_to_crash};
use crate::rows::{Mix, PlainTables, RowsRun};
use crate::survival::{Death, Moving, Room, SurvivalResult, SurvivalRun, run};

/// The mixed bag; few rows that come and go; one row of each host that everybody replaces; rows that another
/// host replaces when their owner dies; logs that checkpoints make short all the time; shared memory that is
/// full; a host that has changed a dead one's rows and dies while these are taken over; a row that its next
/// owner hears of again ([`super::again`]); disks that are full; the same when successors die one after the
/// other; another access method beside rows; transactions that are too long for one record; one such commit,
/// in the middle of which its host dies.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "survival", run: mixed },
    Scenario { name: "survival-churn", run: churn },
    Scenario { name: "survival-replace", run: replace },
    Scenario { name: "survival-owner", run: owner },
    Scenario { name: "survival-short-logs", run: short_logs },
    Scenario { name: "survival-full-memory", run: full_memory },
    Scenario { name: "survival-follow", run: follow },
    Scenario { name: "survival-again", run: super::again::again },
    Scenario { name: "survival-full-disks", run: full_disks },
    Scenario { name: "survival-full-heirs", run: full_successors },
    Scenario { name: "survival-plain", run: plain },
    Scenario { name: "survival-fragments", run: fragments },
    Scenario { name: "survival-long-commit", run: long_commit },
    Scenario { name: "snapshots", run: snapshots },
    Scenario { name: "snapshots-survival", run: snapshots_of_mortals },
    Scenario { name: "snapshots-moving", run: snapshots_of_movers },
    Scenario { name: "snapshots-few", run: snapshots_of_few },
];

/// Verbs after which a run counts as stuck; and one with long transactions, or in which dead hosts have to
/// wait for room.
const MAX_VERBS: u64 = 5_000_000;
const MAX_VERBS_OF_WAITING: u64 = 20_000_000;

pub(super) fn ran(shape: SurvivalRun, left_out: Option<&LeftOut>) -> Ran {
    ran_by(run, shape, left_out)
}

/// The same by another script than random transactions.
pub(super) fn ran_by(
    run: impl FnOnce(&SurvivalRun) -> SurvivalResult,
    shape: SurvivalRun,
    left_out: Option<&LeftOut>,
) -> Ran {
    let is_long = shape.room == Room::Late || shape.rows.ring_bytes < 4 << 10;
    let max_verbs = if is_long { MAX_VERBS_OF_WAITING } else { MAX_VERBS };
    let mut rows = RowsRun { max_verbs, ..shape.rows };
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

/// The table is kept in plain maps, or its index, or both, when hosts die.
fn plain(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = (SurvivalRun::from_seed(seed), Picker::new(seed ^ 0x706c_6169));
    let mix = [Mix::ALL, Mix { insert: 4, delete: 4, update: 3, ..Mix::NONE }][pick.below(2) as usize];
    let rows = RowsRun { plain: PlainTables::some(&mut pick), mix, ..run.rows };
    ran(SurvivalRun { rows, ..run }, left_out)
}

/// Transactions of several records, of which a dead host may have written all or some.
fn fragments(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let mut pick = Picker::new(seed ^ 0x6672_6167);
    let run = if pick.chance(20) { SurvivalRun::with_full_disks(seed) } else { SurvivalRun::from_seed(seed) };
    let rows = RowsRun { transactions: run.rows.transactions.min(25), ..run.rows.with_fragments() };
    let replay_bytes = if pick.chance(50) { 2 << 10 } else { run.replay_bytes };
    ran(SurvivalRun { rows, replay_bytes, ..run }, left_out)
}

/// A host dies before some verb of a commit of several records, as [`crate::crash_points`] has it: when it is
/// nearly done.
fn long_commit(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let operation = Operation::named("long-commit").expect("it is in the list");
    let ran = |crash| run_to_crash(&CrashRun { operation, seed, crash, left_out }).survival;
    let calm = ran(None);
    let host = HostId(0);
    let verbs = calm.report.listed.iter().filter(|listed| listed.host == host).count() as u64;
    let mut result = calm;
    if result.problems.is_empty() {
        let mut pick = Picker::new(seed ^ 0x6c6f_6e67);
        let (_, domain) = DOMAINS[pick.below(DOMAINS.len() as u64) as usize];
        result = ran(Some(CrashAt { host, verb: verbs - pick.below(verbs / 8), domain }));
    }
    let problem = if result.problems.is_empty() { None } else { Some(result.problems.swap_remove(0)) };
    Ran { report: result.report, problem }
}

/// Snapshots of rows that change all the time, a few of which stay in shared memory; nobody dies.
fn snapshots(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(SurvivalRun { deaths: Vec::new(), ..with_snapshots(seed) }, left_out)
}

/// The same when hosts die.
fn snapshots_of_mortals(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(with_snapshots(seed), left_out)
}

/// The same when partitions go from host to host.
fn snapshots_of_movers(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let deaths = if seed.is_multiple_of(2) { Vec::new() } else { with_snapshots(seed).deaths };
    ran(SurvivalRun { moves: Moving::Any, deaths, ..with_snapshots(seed) }, left_out)
}

pub(super) fn with_snapshots(seed: u64) -> SurvivalRun {
    let (run, mut pick) = (SurvivalRun::from_seed(seed), Picker::new(seed ^ 0x736e_6170));
    let churn = Mix { update: 3, insert: 4, delete: 4, ..Mix::NONE };
    let mix = [Mix::ALL, Mix { update: 6, get: 1, ..Mix::NONE }, churn][pick.below(3) as usize];
    let (keys, operations) = (2 + pick.below(6) as i32, 1 + pick.below(3));
    let rows =
        RowsRun { keys, operations, transactions: 40, mix, budget_rows: 2 + pick.below(60), ..run.rows };
    let snapshots = 20 + pick.below(40);
    // Room for a few versions, or a rest now and then from keeping any.
    let plenty = KeepLimits { dram_bytes: 1 << 20, cxl_bytes: 1 << 20, idle_ns: u64::MAX };
    let keep = match pick.below(4) {
        0 => KeepLimits { dram_bytes: 1 + pick.below(2000), cxl_bytes: pick.below(2000), ..plenty },
        1 => KeepLimits { idle_ns: 1 + pick.below(200_000), ..plenty },
        _ => plenty,
    };
    SurvivalRun { rows: RowsRun { keep: Some(keep), ..rows }, snapshots, ..run }
}

/// A row or two of host 0 that the others change all the time, and whose snapshots it reads.
fn snapshots_of_few(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = with_snapshots(seed);
    let mix = Mix { update: 1, ..Mix::NONE };
    let rows = RowsRun {
        keys: 1 + (seed % 3) as i32,
        operations: 2,
        transactions: 80,
        mix,
        duel: Some(mix),
        ..run.rows
    };
    let deaths = run
        .deaths
        .into_iter()
        .filter(|death| death.host != 0)
        .take(usize::from(seed.is_multiple_of(4)))
        .collect();
    ran(SurvivalRun { rows, deaths, snapshots: 15, ..run }, left_out)
}

/// Few rows that several hosts insert and delete when one of them dies.
fn churn(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    let mix = Mix { get: 2, update: 3, insert: 4, delete: 4, ..Mix::ALL };
    let rows = RowsRun { keys: 3, operations: 2, transactions: 20, mix, budget_rows: 40, ..run.rows };
    ran(SurvivalRun { rows, ..run }, left_out)
}

/// One row of each partition that everybody deletes and inserts again when one host dies: who deleted it is
/// often the one that inserts it next, and its owner dies in between.
fn replace(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    let mix = Mix { insert: 4, delete: 4, ..Mix::NONE };
    let rows = RowsRun { hosts: 2, keys: 1, operations: 1, transactions: 40, mix, ..run.rows };
    let deaths =
        run.deaths.into_iter().take(1).map(|death| Death { host: death.host % 2, ..death }).collect();
    ran(SurvivalRun { rows, deaths, ..run }, left_out)
}

/// Few rows of host 0 that host 1 deletes and inserts, in one another's places, when host 0 dies: it may have
/// removed a row and made the next one, and not lived to say so.
fn owner(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    let domain = run.deaths[0].domain;
    let duel = Some(Mix { get: 1, ..Mix::NONE });
    let mix = Mix { insert: 4, delete: 4, ..Mix::NONE };
    let rows = RowsRun { hosts: 2, keys: 3, operations: 2, transactions: 40, duel, mix, ..run.rows };
    let verbs = 1 + Picker::new(seed ^ 0x6f77_6e72).below(8000);
    ran(SurvivalRun { rows, deaths: vec![Death { host: 0, verbs, domain }], ..run }, left_out)
}

/// As [`churn`], with checkpoints all the time: what a log loses too early is missing at the next takeover.
fn short_logs(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    let mix = Mix { update: 6, insert: 2, delete: 2, ..Mix::NONE };
    let rows = RowsRun { keys: 3, operations: 2, transactions: 60, mix, budget_rows: 40, ..run.rows };
    ran(SurvivalRun { rows, replay_bytes: 2 << 10, ..run }, left_out)
}

/// As the mixed bag, with rows that come and go in memory that has no room for all sizes of records at once.
fn full_memory(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    let mix = Mix { insert: 5, delete: 5, ..Mix::ALL };
    let rows = RowsRun { mix, transactions: 40, budget_rows: 1000, spare_chunks: Some(seed % 8), ..run.rows };
    ran(SurvivalRun { rows, ..run }, left_out)
}

/// One row of each partition that everybody deletes and inserts, until one host dies and then another one.
fn follow(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::from_seed(seed);
    let mut pick = Picker::new(seed ^ 0x666f_6c6c);
    let mix = Mix { update: 2, insert: 2, delete: 4, ..Mix::NONE };
    let hosts = 3 + pick.below(2) as u8;
    let rows = RowsRun { hosts, keys: 3, operations: 2, transactions: 60, mix, budget_rows: 40, ..run.rows };
    let domain = run.deaths[0].domain;
    let first = Death { host: pick.below(hosts.into()) as u8, verbs: 1 + pick.below(8000), domain };
    ran(SurvivalRun { rows, deaths: vec![first], follows: Some(domain), ..run }, left_out)
}

fn full_disks(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(SurvivalRun::with_full_disks(seed), left_out)
}

/// One host of four dies, then one that may be its successor, before its rows are safe, and later the next,
/// when the first may be back.
fn full_successors(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let run = SurvivalRun::with_full_disks(seed);
    let mut pick = Picker::new(seed ^ 0x6865_6972);
    let domain = run.deaths[0].domain;
    let first = pick.below(4);
    let mut within = |most: u64, doublings: u64| {
        let reach = most << pick.below(1 + doublings);
        1 + pick.below(reach)
    };
    let begun = within(4000, 0);
    let successors = begun + within(20_000, 3);
    let third = successors + within(100_000, 3);
    let deaths = [begun, successors, third].into_iter().zip(first..);
    let deaths = deaths.map(|(verbs, host)| Death { host: (host % 4) as u8, verbs, domain });
    let (deaths, rows) = (deaths.collect(), RowsRun { hosts: 4, keys: 3, ..run.rows });
    ran(SurvivalRun { rows, deaths, room: Room::Late, ..run }, left_out)
}
