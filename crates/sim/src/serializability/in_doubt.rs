//! Which transactions count as committed.
//!
//! A transaction whose host died before anyone was told its outcome committed if something of it was seen: a
//! version that only it can have installed, the absence of a loaded row that only it can have deleted, or
//! that a version which only it can have deleted is gone: an insert in its place, or a transaction between it
//! and the next one that did not see it. It may in turn have seen another such transaction, so the rules are
//! applied until nothing changes.
//!
//! Not recognised: which of several deleted a version, where all of them died; and a delete, seen by readers
//! only, of what a transaction of unknown outcome made.

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
    while let Some(visited) = to_visit.pop().or_else(|| deleted(history, &mut live)) {
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

/// What committed transactions did with one key.
#[derive(Default)]
struct Known {
    /// What was installed, with the number of who did it.
    installed: BTreeMap<Version, (Change, Option<u64>)>,
    /// Numbers of those who did not find it.
    missed: Vec<u64>,
}

impl Known {
    /// True if something shows that a version was deleted by somebody else, who installed `dead`.
    fn is_gone(&self, loaded: bool, previous: Version, dead: Version) -> bool {
        let next = self.installed.range(previous + 1..).next();
        if matches!(next, Some((new, (Change::Insert { .. }, _))) if dead < *new) {
            return true;
        }
        // It was there for whoever comes behind the one who made it and before the next one.
        let first = match self.installed.get(&previous) {
            Some((_, order)) => order.map(|order| order + 1),
            None => loaded.then_some(0),
        };
        let end = next.map_or(Some(u64::MAX), |(_, (_, order))| *order);
        let (Some(first), Some(end)) = (first, end) else { return false };
        self.missed.iter().any(|order| (first..end).contains(order))
    }
}

/// Marks as live, and returns, a transaction whose delete alone explains that a version is gone.
fn deleted(history: &History, live: &mut [bool]) -> Option<usize> {
    let unknown = |i: &usize| !live[*i] && history.transactions[*i].outcome == Outcome::Unknown;
    // By the version that is gone: who may have deleted it.
    let mut deletes: BTreeMap<(&Key, Version), Vec<(usize, Version)>> = BTreeMap::new();
    for i in (0..live.len()).filter(unknown) {
        for operation in &history.transactions[i].operations {
            if let Operation::Write { key, change: Change::Delete { previous, new } } = operation {
                deletes.entry((key, *previous)).or_default().push((i, *new));
            }
        }
    }
    let mut known: BTreeMap<&Key, Known> = deletes.keys().map(|(key, _)| (*key, Known::default())).collect();
    for transaction in (0..live.len()).filter(|i| live[*i]).map(|i| &history.transactions[i]) {
        for operation in &transaction.operations {
            match (operation, transaction.order) {
                (Operation::Write { key, change }, order) => {
                    if let Some(known) = known.get_mut(key) {
                        known.installed.insert(change.installed(), (*change, order));
                    }
                }
                (_, None) => {}
                (look, Some(order)) => {
                    let missed = known.iter_mut().filter(|(key, _)| is_absent(look, key));
                    missed.for_each(|(_, known)| known.missed.push(order));
                }
            }
        }
    }
    let found = deletes.into_iter().find_map(|((key, previous), by)| {
        let &[(suspect, dead)] = &by[..] else { return None };
        let loaded = history.initial.iter().any(|(at, version)| at == key && *version == previous);
        known[key].is_gone(loaded, previous, dead).then_some(suspect)
    })?;
    live[found] = true;
    Some(found)
}

/// True if the operation looked for a row and found none.
fn is_absent(operation: &Operation, key: &Key) -> bool {
    match operation {
        Operation::Read { key: at, seen } => at == key && seen.is_none(),
        Operation::Write { .. } => false,
        Operation::Range { table, low, high, seen } => {
            let words = key.words.as_slice();
            let within = *table == key.table && words >= low.as_slice();
            let below = high.as_ref().is_none_or(|high| words < high.as_slice());
            within && below && !seen.iter().any(|(present, _)| present.as_slice() == words)
        }
    }
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
