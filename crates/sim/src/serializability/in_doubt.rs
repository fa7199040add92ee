//! Which transactions count as committed.
//!
//! A transaction whose host died before anyone was told its outcome committed if something of it was seen: a
//! version that only it can have installed, the absence of a loaded row that only it can have deleted, or an
//! insert in the place of a version that only it can have deleted. It may in turn have seen another such
//! transaction, so the rules are applied until nothing changes.
//!
//! Not recognised: a transaction of unknown outcome that deleted a row which a committed transaction also
//! deleted once, where nobody but readers saw it gone; and which of several deleted a version, where all of
//! them died.

use std::collections::BTreeMap;

use crate::history::{Change, History, Key, Operation, Outcome, Version};

/// A state of a key: `None` is "no row".
type State<'h> = (u16, &'h [u64], Option<Version>);

fn after(key: &Key, change: Change) -> State<'_> {
    (key.table, &key.words, change.leaves_a_row().then_some(change.installed()))
}

/// For each transaction of the history, whether it counts as committed.
pub(super) fn live(history: &History) -> Vec<bool> {
    let mut live: Vec<bool> = history.transactions.iter().map(|t| t.outcome == Outcome::Committed).collect();
    if !history.transactions.iter().any(|t| t.outcome == Outcome::Unknown) {
        return live;
    }
    let suspects = suspects(history);
    let mut to_visit: Vec<usize> = (0..live.len()).filter(|&i| live[i]).collect();
    while let Some(visited) = to_visit.pop().or_else(|| made_room(history, &mut live)) {
        for operation in &history.transactions[visited].operations {
            for_each_sighting(operation, &suspects, |suspect| {
                if !live[suspect] {
                    live[suspect] = true;
                    to_visit.push(suspect);
                }
            });
        }
    }
    live
}

/// Marks as live, and returns, a transaction whose delete alone explains that the next write of its key was
/// an insert.
fn made_room(history: &History, live: &mut [bool]) -> Option<usize> {
    let writes = |i: usize| {
        history.transactions[i].operations.iter().filter_map(|operation| match operation {
            Operation::Write { key, change } => Some((key, *change)),
            _ => None,
        })
    };
    let unknown = |i: &usize| !live[*i] && history.transactions[*i].outcome == Outcome::Unknown;
    // By the version that is gone: who may have deleted it.
    let mut deletes: BTreeMap<(&Key, Version), Vec<(usize, Version)>> = BTreeMap::new();
    for i in (0..live.len()).filter(unknown) {
        for (key, change) in writes(i) {
            if let Change::Delete { previous, new } = change {
                deletes.entry((key, previous)).or_default().push((i, new));
            }
        }
    }
    let next = |at: &Key, previous: Version| {
        let live = (0..live.len()).filter(|i| live[*i]);
        let later = live.flat_map(writes).filter(|(key, change)| *key == at && change.installed() > previous);
        later.map(|(_, change)| change).min_by_key(|change| change.installed())
    };
    let found =
        deletes.into_iter().find_map(|((key, previous), by)| match (next(key, previous), &by[..]) {
            (Some(Change::Insert { new }), &[(suspect, dead)]) if dead < new => Some(suspect),
            _ => None,
        })?;
    live[found] = true;
    Some(found)
}

/// The states that only a transaction of unknown outcome can have made, and which one.
fn suspects(history: &History) -> BTreeMap<State<'_>, usize> {
    let mut suspects = BTreeMap::new();
    for (i, transaction) in history.transactions.iter().enumerate() {
        for operation in &transaction.operations {
            if let (Outcome::Unknown, Operation::Write { key, change }) = (transaction.outcome, operation) {
                suspects.insert(after(key, *change), i);
            }
        }
    }
    if suspects.is_empty() {
        return suspects;
    }
    let mut loaded = std::collections::BTreeSet::new();
    for (key, version) in &history.initial {
        suspects.remove(&(key.table, key.words.as_slice(), Some(*version)));
        loaded.insert((key.table, key.words.as_slice()));
    }
    suspects.retain(|&(table, words, version), _| version.is_some() || loaded.contains(&(table, words)));
    for transaction in history.transactions.iter().filter(|t| t.outcome == Outcome::Committed) {
        for operation in &transaction.operations {
            if let Operation::Write { key, change } = operation {
                suspects.remove(&after(key, *change));
            }
        }
    }
    suspects
}

/// Calls `found` with each suspect of whose making `operation` saw something.
fn for_each_sighting(
    operation: &Operation,
    suspects: &BTreeMap<State<'_>, usize>,
    mut found: impl FnMut(usize),
) {
    let mut look = |table: u16, words: &[u64], seen: Option<Version>| {
        if let Some(&suspect) = suspects.get(&(table, words, seen)) {
            found(suspect);
        }
    };
    match operation {
        Operation::Read { key, seen } => look(key.table, &key.words, *seen),
        Operation::Write { key, change } => look(key.table, &key.words, change.previous()),
        Operation::Range { table, low, high, seen } => {
            for (words, version) in seen {
                look(*table, words, Some(*version));
            }
            let low: State<'_> = (*table, low, None);
            for (&(at, words, version), &suspect) in suspects.range(low..) {
                if at != *table || high.as_ref().is_some_and(|high| words >= high.as_slice()) {
                    break;
                }
                if version.is_none() && !seen.iter().any(|(present, _)| present.as_slice() == words) {
                    found(suspect);
                }
            }
        }
    }
}
