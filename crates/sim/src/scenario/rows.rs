//! Whole pods of row engines, each shape aimed at one weak spot (see [`crate::rows`]).

use liger_engine::Conflict;
use liger_engine::row::policy::{InTheWay, Patient, WaitPolicy};

use super::{LeftOut, Ran, Scenario};
use crate::Picker;
use crate::rows::{Mix, PlainTables, RowsRun, run};

/// The mixed bag, and the shapes that press on one thing each.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "rows-two-keys", run: two_keys },
    Scenario { name: "rows-gaps", run: gaps },
    Scenario { name: "rows-one-host", run: one_host },
    Scenario { name: "rows-scan-duel", run: scan_duel },
    Scenario { name: "rows-stale-hints", run: stale_hints },
    Scenario { name: "rows-moves", run: moves },
    Scenario { name: "rows-mixed", run: mixed },
    Scenario { name: "rows-forgetful", run: forgetful },
    Scenario { name: "rows-hash-clashes", run: hash_clashes },
    Scenario { name: "rows-full-lanes", run: full_lanes },
    Scenario { name: "rows-many-hosts", run: many_hosts },
    Scenario { name: "rows-wide-cells", run: wide_cells },
    Scenario { name: "rows-index-churn", run: index_churn },
    Scenario { name: "rows-patient", run: patient },
    Scenario { name: "rows-queue", run: queue },
    Scenario { name: "rows-detached", run: detached },
    Scenario { name: "rows-plain", run: plain },
];

/// Verbs after which a run counts as stuck: some twenty times what the longest of them needs.
const MAX_VERBS: u64 = 3_000_000;

pub(super) fn ran(shape: RowsRun, left_out: Option<&LeftOut>) -> Ran {
    let mut shape = RowsRun { max_verbs: MAX_VERBS, ..shape };
    match left_out {
        None => {}
        Some(LeftOut::Site(site)) => shape.disabled_site = Some(site.clone()),
        Some(LeftOut::Step(step)) => shape.sabotage = Some(step),
    }
    let mut result = run(&shape);
    let problem = if result.problems.is_empty() { None } else { Some(result.problems.swap_remove(0)) };
    Ran { report: result.report, problem }
}

pub(super) fn between(pick: &mut Picker, least: u64, most: u64) -> u64 {
    least + pick.below(most - least + 1)
}

/// The shape of a run before anything is aimed at, and numbers to aim with.
pub(super) fn base(seed: u64) -> (RowsRun, Picker) {
    (RowsRun::from_seed(seed), Picker::new(seed ^ 0x5348_4150))
}

fn mixed(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    ran(RowsRun::from_seed(seed), left_out)
}

/// Another access method beside rows, in the same transactions: the table is kept in plain maps, or its
/// index, or both; with workers of their own or lent ones.
fn plain(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let plain = PlainTables::some(&mut pick);
    let mix = [Mix::ALL, Mix::GAPS, Mix::QUEUE, Mix::SCANS][pick.below(4) as usize];
    let (hosts, keys) = (between(&mut pick, 1, 3) as u8, between(&mut pick, 2, 8) as i32);
    let operations = between(&mut pick, 1, 4);
    let sessions = (pick.below(3) == 0).then(|| (between(&mut pick, 2, 6) as u8, pick.below(3) as u8));
    let workers = if sessions.is_some() { 2 } else { between(&mut pick, 1, 2) as u8 };
    ran(RowsRun { hosts, workers, keys, operations, mix, plain, sessions, transactions: 12, ..run }, left_out)
}

/// Everybody wants the same few rows: locks, valid bits, copies back.
fn two_keys(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let (hosts, workers) = (between(&mut pick, 2, 3) as u8, between(&mut pick, 1, 2) as u8);
    let operations = between(&mut pick, 1, 3);
    ran(RowsRun { hosts, workers, keys: 2, operations, mix: Mix::POINTS, transactions: 25, ..run }, left_out)
}

/// Few keys that come and go between scans: neighbour bits and gap locks.
fn gaps(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let (hosts, workers) = (between(&mut pick, 2, 3) as u8, between(&mut pick, 1, 2) as u8);
    let (keys, operations) = (between(&mut pick, 3, 6) as i32, between(&mut pick, 1, 3));
    ran(RowsRun { hosts, workers, keys, operations, mix: Mix::GAPS, transactions: 25, ..run }, left_out)
}

/// Transactions that try each step again for a while, what they hold held, as those of SQL do: writers that
/// meet readers, and inserts into gaps that others have read.
fn patient(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    static LITTLE: Patient = Patient { writers_ns: 20_000, readers_ns: 10_000, colleagues_ns: 40_000 };
    static MUCH: Patient = Patient { writers_ns: 400_000, readers_ns: 200_000, colleagues_ns: 2_000_000 };
    let (run, mut pick) = base(seed);
    let (hosts, workers) = (between(&mut pick, 1, 3) as u8, between(&mut pick, 2, 3) as u8);
    let (keys, operations) = (between(&mut pick, 3, 8) as i32, between(&mut pick, 1, 4));
    let mix = [Mix::ALL, Mix::GAPS, Mix::POINTS][pick.below(3) as usize];
    let wait: &'static (dyn WaitPolicy + Sync) = [&LITTLE, &MUCH][pick.below(2) as usize];
    let wait = Some(wait);
    ran(RowsRun { hosts, workers, keys, operations, mix, wait, transactions: 20, ..run }, left_out)
}

/// Rows that nobody holds are looked at and taken, from a few keys, while others put and remove them.
fn queue(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let (hosts, workers) = (between(&mut pick, 1, 3) as u8, between(&mut pick, 1, 3) as u8);
    let (keys, operations) = (between(&mut pick, 4, 14) as i32, between(&mut pick, 1, 4));
    ran(RowsRun { hosts, workers, keys, operations, mix: Mix::QUEUE, transactions: 20, ..run }, left_out)
}

/// Waits until it is known that it does so for nothing, or so long that it might: without a number, soon.
#[derive(Debug)]
struct Lasting;

impl WaitPolicy for Lasting {
    fn wait(&self, conflict: Conflict, _tries: u32, waited_ns: u64, _by: InTheWay) -> bool {
        let is_lock = matches!(conflict, Conflict::WriteLocked | Conflict::ReadLocked | Conflict::Gap);
        is_lock && waited_ns < 400_000
    }

    fn lasts(&self) -> bool {
        true
    }

    fn parks_after_ns(&self) -> Option<u64> {
        Some(4_000)
    }
}

/// More open transactions than workers, and than numbers for their locks: they rest between two operations,
/// go on with another worker, and are parked.
fn detached(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    static SHORT: Patient = Patient { writers_ns: 20_000, readers_ns: 10_000, colleagues_ns: 40_000 };
    let (run, mut pick) = base(seed);
    let (hosts, workers) = (between(&mut pick, 1, 3) as u8, between(&mut pick, 2, 4) as u8);
    let (keys, operations) = (between(&mut pick, 3, 10) as i32, between(&mut pick, 1, 5));
    let sessions = Some((between(&mut pick, 3, 9) as u8, pick.below(3) as u8));
    let mix = [Mix::ALL, Mix::GAPS, Mix::POINTS, Mix::QUEUE][pick.below(4) as usize];
    let waits: Option<&'static (dyn WaitPolicy + Sync)> = match pick.below(4) {
        0 => Some(&SHORT),
        1 => Some(&Lasting),
        _ => None,
    };
    let run =
        RowsRun { hosts, workers, keys, operations, sessions, mix, wait: waits, transactions: 12, ..run };
    ran(RowsRun { think: pick.below(4), ..run }, left_out)
}

/// Workers of one host against each other, in transactions that last.
fn one_host(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let (keys, operations) = (between(&mut pick, 4, 7) as i32, between(&mut pick, 2, 4));
    let shape = RowsRun { hosts: 1, workers: 3, keys, operations, mix: Mix::GAPS, think: 2, ..run };
    ran(RowsRun { duel: Some(Mix::GAPS), transactions: 20, ..shape }, left_out)
}

/// An owner whose rows come and go, and another host that reads ranges of them.
fn scan_duel(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let (keys, operations) = (between(&mut pick, 3, 5) as i32, between(&mut pick, 1, 3));
    let shape = RowsRun { hosts: 2, workers: 1, keys, operations, mix: Mix::SCANS, budget_rows: 40, ..run };
    ran(RowsRun { duel: Some(Mix::CHURN), transactions: 30, think: pick.below(12), ..shape }, left_out)
}

/// Points of one owner under a budget of some of them, wanted by many: words change their rows faster than
/// hints follow.
fn stale_hints(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let (hosts, keys) = (between(&mut pick, 3, 4) as u8, between(&mut pick, 4, 12) as i32);
    let budget_rows = pick.below(24);
    let shape = RowsRun { hosts, workers: 2, keys, operations: 1, mix: Mix::POINTS, budget_rows, ..run };
    ran(RowsRun { duel: Some(Mix::POINTS), transactions: 20, ..shape }, left_out)
}

/// Room for hardly any shared row: everything moves in and out all the time.
fn moves(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let (budget_rows, keys) = (pick.below(2), between(&mut pick, 2, 5) as i32);
    ran(RowsRun { budget_rows, keys, operations: 2, transactions: 30, ..run }, left_out)
}

/// A cache of other hosts' rows that forgets at once.
fn forgetful(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, _) = base(seed);
    ran(RowsRun { remote_entries: 1, keys: 12, operations: 6, workers: 2, transactions: 15, ..run }, left_out)
}

/// A cache of other hosts' rows that takes one for another.
fn hash_clashes(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let (remote_hash_bits, operations) = (between(&mut pick, 1, 4) as u32, between(&mut pick, 1, 4));
    ran(RowsRun { remote_hash_bits, operations, keys: 6, transactions: 25, ..run }, left_out)
}

/// Lanes of four slots and many workers that ask: messages wait in the outbox.
fn full_lanes(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let workers = between(&mut pick, 3, 4) as u8;
    ran(
        RowsRun { hosts: 2, workers, lane_slots: 4, mix: Mix::GAPS, operations: 4, transactions: 20, ..run },
        left_out,
    )
}

/// One worker on each of many hosts.
fn many_hosts(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let (hosts, keys) = (between(&mut pick, 5, 8) as u8, between(&mut pick, 2, 3) as i32);
    ran(RowsRun { hosts, workers: 1, keys, operations: 2, transactions: 10, ..run }, left_out)
}

/// More than eight hosts: one cell in a word.
fn wide_cells(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let mix = [Mix::ALL, Mix::POINTS][pick.below(2) as usize];
    let (hosts, budget_rows) = (between(&mut pick, 9, 10) as u8, pick.below(30));
    ran(
        RowsRun { hosts, workers: 1, keys: 2, operations: 2, transactions: 8, mix, budget_rows, ..run },
        left_out,
    )
}

/// So many shared rows that index nodes split, and batches of one retired node.
fn index_churn(seed: u64, left_out: Option<&LeftOut>) -> Ran {
    let (run, mut pick) = base(seed);
    let (keys, budget_rows) = (between(&mut pick, 80, 160) as i32, between(&mut pick, 60, 600));
    let mix = Mix { scan_rest: 2, ..Mix::GAPS };
    ran(
        RowsRun {
            hosts: 2,
            keys,
            budget_rows,
            mix,
            retire_entries: 2,
            operations: 3,
            transactions: 20,
            ..run
        },
        left_out,
    )
}
