//! What is left of a pod some of whose hosts died: right, or what is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use liger_engine::log::epoch::epoch_in;
use liger_engine::row::Moves;
use liger_fabric::sim::{Report, Sim};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::membership::{self, HostState, Slot};
use liger_pod::owner::Ownership;
use liger_pod::plan::Plan;
use liger_pod::watch::Accusation;

use super::SurvivalResult;
use super::world::World;
use crate::history::{Change, History, Operation, Outcome};
use crate::pod::{Kept, SimPod};
use crate::rows::{self, BY_GROUP, Found, ITEMS, RowsRun};
use crate::serializability;

/// Judges what is left.
pub(crate) fn judge<M: Kept>(
    run: &RowsRun,
    mut pod: SimPod<M>,
    world: &World<M>,
    report: Report,
) -> SurvivalResult {
    let mut problems: Vec<String> = BTreeSet::from_iter(world.failures.take()).into_iter().collect();
    let mut extinct = world.extinct.get();
    if !report.completed() {
        let plan = pod.plan.clone();
        pod.sim.end_after(10_000);
        let (told, survivors) = pod.sim.alone(HostId(0), WorkerId(0), move |cx| state(cx, &plan));
        extinct |= survivors == 0;
        if !extinct {
            let faults = world.faults.iter().zip(pod.plan.hosts()).flat_map(|(faults, host)| {
                let tell = move |fault| format!("\nhost {} {fault}", host.0);
                faults.take().into_iter().map(tell)
            });
            problems.push(format!("{}\n{told}{}", report.outcome, faults.collect::<String>()));
        }
    }
    let mut deaths = 0;
    for host in 0..run.hosts {
        let lives = report.hosts[usize::from(host)].killed.len() as u64;
        deaths += lives;
        if lives > 0 {
            world.bury(HostId(host));
        }
    }
    problems.extend(world.empty_segments(deaths));
    let engines = world.engines.take();
    let sum = |of: fn(&Moves) -> &AtomicU64| -> u64 {
        engines.iter().map(|engine| of(engine.method().rows().moves()).load(Ordering::Relaxed)).sum()
    };
    let handed_over = sum(|m| &m.handed_over);
    let (taken_over, resolved) =
        (sum(|m| &m.taken_over), (sum(|m| &m.locks_resolved), sum(|m| &m.rows_redone)));
    if problems.is_empty() && !extinct {
        let plan = pod.plan.clone();
        let alive: Vec<bool> = pod.sim.alone(HostId(0), WorkerId(0), move |cx| {
            plan.hosts().map(|host| lives(cx, &plan, host)).collect()
        });
        pod.hosts =
            engines.into_iter().zip(alive).filter(|(_, alive)| *alive).map(|(host, _)| host).collect();
        problems.extend(pod.check());
    }
    let mut found = Vec::new();
    let before = world.recorder.len();
    if problems.is_empty() && !extinct {
        let looked = pod.on_every_host(|cx, host| {
            let (mut problems, mut found) = (host.check_entries(cx).expect("nobody holds a row"), Vec::new());
            let looked = rows::look_at_everything(cx, host, |row| found.push(row));
            problems.extend(looked.err().map(|error| error.to_string()));
            (problems, found)
        });
        for (wrong, rows) in looked {
            problems.extend(wrong);
            found.extend(rows);
        }
    }
    let initial = run.everywhere().initial_keys();
    let history = world.recorder.history(initial);
    problems.extend(wrong_values(&history, before, &found, &world.values.borrow()));
    let mut history = run.promised(history);
    name_entries_by_changes(&mut history);
    let verdict = serializability::check(&history);
    problems.extend(verdict.anomalies.iter().map(ToString::to_string));
    let committed = history.transactions.len() as u64;
    let (returns, refused, snapshots) = (world.returns.get(), world.refused.get(), world.snapshots.get());
    let statements = world.statements.get();
    SurvivalResult {
        report,
        committed,
        deaths,
        returns,
        snapshots,
        statements,
        refused,
        taken_over,
        handed_over,
        resolved,
        extinct,
        problems,
    }
}

/// Rows that are not what the writers of their versions wrote; `looks` is the number of the first transaction
/// that looked at all of them in the end.
fn wrong_values(
    history: &History,
    looks: usize,
    found: &[Found],
    values: &BTreeMap<u64, i64>,
) -> Vec<String> {
    let mut writers: BTreeMap<(&[u64], u64), u64> = BTreeMap::new();
    let is_row = |table: u16| table == ITEMS.0;
    // Of an attempt that failed and one that did not, with one version, the latter counts.
    let by_outcome = |committed: bool| {
        history.transactions.iter().filter(move |txn| (txn.outcome == Outcome::Committed) == committed)
    };
    for txn in by_outcome(false).chain(by_outcome(true)) {
        for operation in &txn.operations {
            match operation {
                Operation::Write { key, change } if is_row(key.table) => {
                    writers.insert((&key.words, change.installed()), txn.id);
                }
                _ => {}
            }
        }
    }
    let mut versions: BTreeMap<&[u64], u64> = BTreeMap::new();
    for operation in history.transactions.iter().skip(looks).flat_map(|txn| &txn.operations) {
        match operation {
            Operation::Range { table, seen, .. } if is_row(*table) => {
                versions.extend(seen.iter().map(|(words, version)| (words.as_slice(), *version)));
            }
            _ => {}
        }
    }
    let due = |words: &[u64]| match versions.get(words) {
        Some(0) => Some(100),
        Some(version) => writers.get(&(words, *version)).and_then(|id| values.get(id)).copied(),
        None => None,
    };
    let wrong = |row: &&Found| due(row.key.words()) != Some(row.value) || !row.whole;
    let tell = |row: &Found| {
        let (key, due) = (row.key.words(), due(row.key.words()));
        format!("row {key:x?} is {} (whole: {}), due is {due:?}", row.value, row.whole)
    };
    found.iter().filter(wrong).map(tell).collect()
}

/// An entry of an index that was made anew has the version of its row, which is that of the entry's last
/// change or a later one, and earlier than that of the next. Gives all of them the version of the change.
fn name_entries_by_changes(history: &mut History) {
    let mut changes: BTreeMap<Vec<u64>, Vec<u64>> = BTreeMap::new();
    for (key, version) in history.initial.iter().filter(|(key, _)| key.table == BY_GROUP.0.0) {
        changes.entry(key.words.clone()).or_default().push(*version);
    }
    for operation in history.transactions.iter().flat_map(|txn| &txn.operations) {
        if let Operation::Write { key, change: Change::Insert { new } | Change::Update { new, .. } } =
            operation
            && key.table == BY_GROUP.0.0
        {
            changes.entry(key.words.clone()).or_default().push(*new);
        }
    }
    changes.values_mut().for_each(|versions| versions.sort_unstable());
    let named = |words: &Vec<u64>, version: &mut u64| {
        let versions = changes.get(words).map_or(&[][..], Vec::as_slice);
        let upto = versions.partition_point(|insert| insert <= version);
        if let Some(at) = upto.checked_sub(1) {
            *version = versions[at];
        }
    };
    for operation in history.transactions.iter_mut().flat_map(|txn| &mut txn.operations) {
        match operation {
            Operation::Read { key, seen: Some(version) } if key.table == BY_GROUP.0.0 => {
                named(&key.words, version);
            }
            Operation::Range { table, seen, .. } if *table == BY_GROUP.0.0 => {
                seen.iter_mut().for_each(|(words, version)| named(words, version));
            }
            Operation::Write { key, change } if key.table == BY_GROUP.0.0 => match change {
                Change::Update { previous, .. } | Change::Delete { previous, .. } => {
                    named(&key.words, previous);
                }
                Change::Insert { .. } => {}
            },
            _ => {}
        }
    }
}

/// What the pod says of its hosts, for whoever looks at a run that did not end; and how many of them live.
fn state(cx: &Cx<Sim>, plan: &Plan) -> (String, usize) {
    let host = |host| {
        let slot = Slot::load(cx, plan, host).expect("an intact word");
        let durable = cx.load(plan.log_line(host));
        let resolved: Vec<u64> = plan.hosts().map(|by| cx.load(plan.resolved(host, by))).collect();
        format!(
            "host {}: {:?} {}, durable {durable}, resolved {resolved:?}",
            host.0, slot.state, slot.incarnation
        )
    };
    let mut lines: Vec<String> = plan.hosts().map(host).collect();
    for partition in plan.partitions() {
        lines.push(format!("{partition}: {:?}", Ownership::load(cx, plan, partition)));
    }
    lines.push(format!("{:?}", Accusation::load(cx, plan)));
    lines.push(format!("epoch {}", epoch_in(cx.load(plan.epoch_word()))));
    (lines.join("\n"), plan.hosts().filter(|host| lives(cx, plan, *host)).count())
}

/// True if a host serves, as the simulator knows.
fn lives(cx: &Cx<Sim>, plan: &Plan, host: HostId) -> bool {
    let slot = Slot::load(cx, plan, host).expect("an intact word");
    slot.state == HostState::Alive && cx.fabric().incarnation(host) == membership::process_of(cx, plan, host)
}
