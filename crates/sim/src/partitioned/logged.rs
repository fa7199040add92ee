//! What the logs of a partitioned pod hold, when it is at rest, beside what its transactions did.
//!
//! Checked:
//! 1. Each worker's commits that changed something are in its ring in the order of the history, with exactly
//!    what they changed: the coordinator's record and those that other hosts have prepared for it together.
//! 2. All hosts that a coordinator's record names have prepared, at the same time and in no later epoch: when
//!    its epoch is durable, theirs is.
//! 3. The rows that were loaded, changed by all committed records in the order of versions, each of which
//!    replaces the version that is there, are the rows of the pod.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use liger_engine::files::segment_number;
use liger_engine::log::branch::BranchHead;
use liger_engine::log::record::{Op, Record, epoch_of};
use liger_engine::log::scan::{End, Scanner};
use liger_engine::protocol::HostEngine;
use liger_engine::{Catalog, TableId};

use super::PartPod;
use crate::history::{Change, History, Key as HistoryKey, Operation};

/// All rows, index entries included: by table and key, version and bytes.
pub(super) type Rows = BTreeMap<HistoryKey, (u64, Vec<u8>)>;

/// A transaction, by host and worker that ran it, and its number.
type Id = (u8, u8, u64);

/// A change of a record.
struct Logged {
    key: HistoryKey,
    op: Op,
    previous: u64,
    pieces: Vec<(u16, Vec<u8>)>,
}

/// A record of a branch.
struct Branch {
    epoch: u64,
    head: BranchHead,
    changes: Vec<Logged>,
}

/// The rows of the whole pod, of which none has changed since it was loaded or all are at rest.
pub(super) fn rows(pod: &mut PartPod, catalog: &Arc<Catalog>) -> Result<Rows, String> {
    let catalog = Arc::clone(catalog);
    let all = pod.on_every_host(move |cx, host| {
        let mut rows = Rows::new();
        for relation in catalog.relations().iter().filter(|relation| !relation.replicated) {
            let TableId(table) = relation.id;
            let put = |key: &liger_engine::Key, row: liger_engine::Row<'_>| {
                rows.insert(HistoryKey::new(table, key.words()), (0, row.bytes().to_vec()));
            };
            host.each_row(cx, relation.id, put).expect("a table of the catalog");
        }
        rows
    });
    all.map(|all| all.into_iter().flatten().collect()).map_err(|failure| failure.to_string())
}

/// What is wrong with the logs.
pub(super) fn check(
    pod: &mut PartPod,
    catalog: &Arc<Catalog>,
    loaded: Result<Rows, String>,
    history: &History,
) -> Vec<String> {
    let found = (|| {
        let (committed, prepared) = read_all(pod)?;
        let whole = assembled(&committed, &prepared)?;
        against_history(&whole, history)?;
        let mut replayed = loaded?;
        replay(&mut replayed, &whole)?;
        let mut rows = rows(pod, catalog)?;
        // Versions are checked by the chains.
        replayed.values_mut().chain(rows.values_mut()).for_each(|(version, _)| *version = 0);
        let differs = |key: &&HistoryKey| replayed.get(key) != rows.get(key);
        match replayed.keys().chain(rows.keys()).find(differs) {
            Some(key) => {
                let (logged, there) = (replayed.get(key), rows.get(key));
                Err(format!("the logs give {logged:?} for {key:?}, and {there:?} is there"))
            }
            None => Ok(()),
        }
    })();
    found.err().into_iter().map(|problem| format!("logs: {problem}")).collect()
}

type Committed = BTreeMap<Id, Branch>;
type Prepared = BTreeMap<(Id, u8), Branch>;
type Whole<'a> = BTreeMap<Id, Vec<&'a Branch>>;

fn read_all(pod: &PartPod) -> Result<(Committed, Prepared), String> {
    let (mut committed, mut prepared) = (Committed::new(), Prepared::new());
    for host in pod.hosts.iter().map(|host| host.id()) {
        let mut scanner = Scanner::new(0, host);
        let mut wrong = None;
        let mut take = |record: &Record<'_>| {
            let Some(head) = record.branch() else {
                wrong = Some(format!("host {} has a record of another kind", host.0));
                return;
            };
            let id = (head.host.0, head.worker.0, head.transaction);
            let branch = Branch { epoch: epoch_of(record.llsn()), head, changes: changes(record) };
            let known = match head.committed {
                Some(_) => committed.insert(id, branch).is_some(),
                None => prepared.insert((id, host.0), branch).is_some(),
            };
            if known {
                wrong = Some(format!("{id:?} has two records of a kind at host {}", host.0));
            }
        };
        for (name, bytes) in pod.sim.disks().files(host) {
            let Some(number) = segment_number(&name) else { continue };
            scanner.segment(number, &bytes, |record, _| take(record));
        }
        let End::Clean { .. } = scanner.finish().end else {
            return Err(format!("the log of host {} does not end cleanly", host.0));
        };
        wrong.map_or(Ok(()), Err)?;
    }
    Ok((committed, prepared))
}

fn changes(record: &Record<'_>) -> Vec<Logged> {
    let logged = |change: liger_engine::log::record::Change<'_>| Logged {
        key: HistoryKey::new(change.table.0, change.key().words()),
        op: change.op,
        previous: change.previous,
        pieces: change.pieces.iter().map(|(at, bytes)| (at, bytes.to_vec())).collect(),
    };
    record.changes().map(|change| logged(change.expect("what we wrote makes sense"))).collect()
}

/// All records of each committed transaction, its own host's first.
fn assembled<'a>(committed: &'a Committed, prepared: &'a Prepared) -> Result<Whole<'a>, String> {
    let mut whole = Whole::new();
    for (id, branch) in committed {
        let mut all = vec![branch];
        let hosts = branch.head.committed.unwrap_or(0);
        for host in (0..16u8).filter(|host| hosts >> host & 1 != 0) {
            let there = prepared.get(&(*id, host));
            let there =
                there.ok_or_else(|| format!("{id:?} has committed without a record of host {host}"))?;
            if there.head.time != branch.head.time || there.epoch > branch.epoch {
                let (own, other) = (branch.epoch, there.epoch);
                return Err(format!("{id:?}: epoch {own}, but {other} at host {host}, or another time"));
            }
            all.push(there);
        }
        whole.insert(*id, all);
    }
    Ok(whole)
}

/// What a transaction has made of a key: of which kind, which version, from which.
type Made = BTreeMap<HistoryKey, (Op, u64, u64)>;

fn against_history(whole: &Whole<'_>, history: &History) -> Result<(), String> {
    let mut logged: BTreeMap<(u8, u8), VecDeque<(Id, Made)>> = BTreeMap::new();
    for (id, branches) in whole {
        let changes = branches.iter().flat_map(|branch| branch.changes.iter().map(|c| (branch.head.time, c)));
        let made = changes.map(|(time, c)| (c.key.clone(), (c.op, time, c.previous))).collect();
        logged.entry((id.0, id.1)).or_default().push_back((*id, made));
    }
    for transaction in &history.transactions {
        let mut expected = Made::new();
        for operation in &transaction.operations {
            let Operation::Write { key, change } = operation else { continue };
            let made = match *change {
                Change::Insert { new } => (Op::Insert, new, 0),
                Change::Update { previous, new } => (Op::Update, new, previous),
                Change::Delete { previous, new } => (Op::Delete, new, previous),
            };
            expected.insert(key.clone(), made);
        }
        if expected.is_empty() {
            continue;
        }
        let next = logged.get_mut(&(transaction.host, transaction.worker)).and_then(VecDeque::pop_front);
        match next {
            Some((_, made)) if made == expected => {}
            other => return Err(format!("{expected:?} has committed, and the next in the log is {other:?}")),
        }
    }
    match logged.values().flatten().next() {
        Some((id, made)) => Err(format!("{id:?} is in the log with {made:?}, and has not committed")),
        None => Ok(()),
    }
}

/// Changes the rows as the records say, in the order of versions.
fn replay(rows: &mut Rows, whole: &Whole<'_>) -> Result<(), String> {
    let branches = whole.values().flatten();
    let mut all: Vec<(u64, &Logged)> =
        branches.flat_map(|branch| branch.changes.iter().map(|change| (branch.head.time, change))).collect();
    all.sort_by_key(|(time, _)| *time);
    for (time, Logged { key, op, previous, pieces }) in all {
        let there = rows.remove(key);
        let fits = match op {
            Op::Insert => there.is_none(),
            Op::Update | Op::Delete => there.as_ref().is_some_and(|(version, _)| version == previous),
        };
        if !fits {
            return Err(format!("{op:?} of {key:?} replaces {previous}, and there is {there:?}"));
        }
        if *op == Op::Delete {
            continue;
        }
        let mut bytes = there.map_or_else(Vec::new, |(_, bytes)| bytes);
        for (at, piece) in pieces {
            let at = usize::from(*at);
            bytes.resize(bytes.len().max(at + piece.len()), 0);
            bytes[at..at + piece.len()].copy_from_slice(piece);
        }
        rows.insert(key.clone(), (time, bytes));
    }
    Ok(())
}
