//! The history in the form that replay and graph work on, and the checks of its structure.
//!
//! Keys become ranks (their place among all keys of the history, so that a range of keys is a range of
//! ranks), each key's versions become a chain, and a transaction becomes what it saw of others and what it
//! left behind: reads of its own writes are checked here and dropped.
//!
//! Invariants:
//! 1. Nodes are numbered in commit order where that is known, else in the history's order.
//! 2. A chain starts with the loaded row, or with the unborn state (`version` `None`) where no row was
//!    loaded, and is sorted by version.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ops::Range;

use super::{Anomaly, Report, in_doubt};
use crate::history::{Change, History, Key, Operation, Outcome, Version};

/// A hash map whose order is the same in every run.
type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

type KeyRef<'h> = (u16, &'h [u64]);

/// One state of one key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Entry {
    pub rank: u32,
    /// `None` only for the state before the first insert.
    pub version: Option<Version>,
    /// Node that installed it; `None` for the load.
    pub writer: Option<u32>,
    /// True where a row exists.
    pub alive: bool,
}

impl Entry {
    /// What a reader of this state sees.
    pub fn visible(&self) -> Option<Version> {
        if self.alive { self.version } else { None }
    }
}

/// A range read: ranks `low..high`, the rows seen in rank order, and the ranks that the reader itself had
/// written.
#[derive(Debug)]
pub(super) struct Scan {
    pub low: u32,
    pub high: u32,
    pub seen: Vec<(u32, Version)>,
    pub own: Vec<u32>,
}

/// What a transaction left of one key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Install {
    pub rank: u32,
    pub previous: Option<Version>,
    pub new: Version,
    pub alive: bool,
}

impl Install {
    /// What the next reader sees.
    pub fn visible(&self) -> Option<Version> {
        self.alive.then_some(self.new)
    }
}

/// A committed transaction without its dealings with itself.
#[derive(Debug)]
pub(super) struct Node {
    pub id: u64,
    pub order: u64,
    pub reads: Vec<(u32, Option<Version>)>,
    pub scans: Vec<Scan>,
    pub installs: Vec<Install>,
}

/// Where a seen state comes from.
pub(super) enum Source {
    /// This entry.
    Entry(usize),
    /// One of several deaths of the row, no telling which.
    Ambiguous,
    /// No committed final state.
    Nowhere,
}

#[derive(Clone, Copy)]
enum Deaths {
    Never,
    Once(usize),
    Several,
}

#[derive(Clone, Copy)]
enum Stray {
    Aborted(u64),
    Intermediate(u64),
}

/// The whole history, indexed.
pub(super) struct Index<'h> {
    pub keys: Vec<KeyRef<'h>>,
    pub nodes: Vec<Node>,
    pub entries: Vec<Entry>,
    /// True where the commit order of all nodes is known.
    pub ordered: bool,
    ranks: FixedMap<KeyRef<'h>, u32>,
    chains: Vec<Range<usize>>,
    deaths: Vec<Deaths>,
    strays: BTreeMap<(u32, Version), Stray>,
}

impl<'h> Index<'h> {
    /// Indexes `history` and adds what is wrong with its structure to `report`.
    pub fn build(history: &'h History, report: &mut Report) -> Self {
        let mut index = Self::of_keys(history);
        let live = in_doubt::live(history);
        let mut chosen: Vec<_> =
            history.transactions.iter().zip(&live).filter(|(_, live)| **live).map(|(t, _)| t).collect();
        index.ordered = chosen.iter().all(|t| t.order.is_some());
        if index.ordered {
            chosen.sort_by_key(|t| t.order);
            for pair in chosen.windows(2).filter(|pair| pair[0].order == pair[1].order) {
                let order = pair[0].order.expect("all are ordered");
                report.add(Anomaly::DuplicateOrder { order, first: pair[0].id, second: pair[1].id });
            }
        }
        for transaction in chosen {
            let mut resolver =
                Resolver { index: &mut index, report, id: transaction.id, own: BTreeMap::new() };
            let node = resolver.resolve(&transaction.operations, transaction.order.unwrap_or(0));
            index.nodes.push(node);
        }
        index.build_chains(history, report);
        index.note_aborted(history);
        index.check_installs(report);
        index.check_sightings(report);
        report.transactions = index.nodes.len();
        index
    }

    fn of_keys(history: &'h History) -> Self {
        let mut ranks: FixedMap<KeyRef<'h>, u32> = FixedMap::default();
        for (key, _) in &history.initial {
            ranks.insert((key.table, &key.words), 0);
        }
        for operation in history.transactions.iter().flat_map(|t| &t.operations) {
            match operation {
                Operation::Read { key, .. } | Operation::Write { key, .. } => {
                    ranks.insert((key.table, &key.words), 0);
                }
                Operation::Range { table, seen, .. } => {
                    for (words, _) in seen {
                        ranks.insert((*table, words), 0);
                    }
                }
            }
        }
        let mut keys: Vec<KeyRef<'h>> = ranks.keys().copied().collect();
        keys.sort_unstable();
        for (rank, key) in keys.iter().enumerate() {
            *ranks.get_mut(key).expect("collected from it") = rank as u32;
        }
        Self {
            keys,
            ranks,
            nodes: Vec::new(),
            entries: Vec::new(),
            ordered: false,
            chains: Vec::new(),
            deaths: Vec::new(),
            strays: BTreeMap::new(),
        }
    }

    /// The key of a rank, for a message.
    pub fn key(&self, rank: u32) -> Key {
        let (table, words) = self.keys[rank as usize];
        Key::new(table, words)
    }

    /// Indexes of the states of a key, oldest first.
    pub fn chain(&self, rank: u32) -> Range<usize> {
        self.chains[rank as usize].clone()
    }

    /// The state that `seen` names.
    pub fn source(&self, rank: u32, seen: Option<Version>) -> Source {
        let Some(version) = seen else {
            return match self.deaths[rank as usize] {
                Deaths::Never => Source::Nowhere,
                Deaths::Once(entry) => Source::Entry(entry),
                Deaths::Several => Source::Ambiguous,
            };
        };
        match self.entry_of(rank, version) {
            Some(entry) if self.entries[entry].alive => Source::Entry(entry),
            _ => Source::Nowhere,
        }
    }

    /// The state of a key with this version, alive or dead.
    pub fn entry_of(&self, rank: u32, version: Version) -> Option<usize> {
        let chain = self.chain(rank);
        let found = self.entries[chain.clone()].binary_search_by_key(&Some(version), |e| e.version);
        found.ok().map(|i| chain.start + i)
    }

    fn build_chains(&mut self, history: &History, report: &mut Report) {
        let mut entries = Vec::new();
        let mut loaded = vec![false; self.keys.len()];
        for (key, version) in &history.initial {
            let rank = self.ranks[&(key.table, key.words.as_slice())];
            if std::mem::replace(&mut loaded[rank as usize], true) {
                let (key, version) = (key.clone(), *version);
                report.add(Anomaly::DuplicateVersion { key, version, first: None, second: None });
                continue;
            }
            entries.push(Entry { rank, version: Some(*version), writer: None, alive: true });
        }
        let unborn = (0..self.keys.len() as u32).filter(|&rank| !loaded[rank as usize]);
        entries.extend(unborn.map(|rank| Entry { rank, version: None, writer: None, alive: false }));
        for (writer, node) in self.nodes.iter().enumerate() {
            entries.extend(node.installs.iter().map(|install| Entry {
                rank: install.rank,
                version: Some(install.new),
                writer: Some(writer as u32),
                alive: install.alive,
            }));
        }
        entries.sort_unstable();
        entries.dedup_by(|second, first| {
            let same = second.rank == first.rank && second.version == first.version;
            if same {
                report.add(Anomaly::DuplicateVersion {
                    key: self.key(first.rank),
                    version: first.version.expect("a key is unborn once"),
                    first: first.writer.map(|w| self.nodes[w as usize].id),
                    second: second.writer.map(|w| self.nodes[w as usize].id),
                });
            }
            same
        });
        self.entries = entries;
        self.index_chains();
    }

    fn index_chains(&mut self) {
        let mut start = 0;
        for chain in self.entries.chunk_by(|a, b| a.rank == b.rank) {
            let mut deaths = Deaths::Never;
            for (i, _) in chain.iter().enumerate().filter(|(_, e)| !e.alive) {
                deaths = match deaths {
                    Deaths::Never => Deaths::Once(start + i),
                    _ => Deaths::Several,
                };
            }
            self.chains.push(start..start + chain.len());
            self.deaths.push(deaths);
            start += chain.len();
        }
        assert_eq!(self.chains.len(), self.keys.len(), "every key has a first state");
    }

    fn note_aborted(&mut self, history: &History) {
        for transaction in history.transactions.iter().filter(|t| t.outcome == Outcome::Aborted) {
            for operation in &transaction.operations {
                if let Operation::Write { key, change } = operation {
                    let rank = self.ranks[&(key.table, key.words.as_slice())];
                    self.strays.entry((rank, change.installed())).or_insert(Stray::Aborted(transaction.id));
                }
            }
        }
    }

    /// Every install replaces the state before it in the chain.
    fn check_installs(&self, report: &mut Report) {
        for (chain, at) in self.chains.iter().flat_map(|chain| chain.clone().map(move |at| (chain, at))) {
            let Some((id, install)) = self.install_of(at) else { continue };
            let expected = if at == chain.start { None } else { self.entries[at - 1].visible() };
            let previous = install.previous;
            if previous == expected || self.report_nowhere(id, install.rank, previous, report) {
                continue;
            }
            let mut older = (chain.start..at).filter_map(|earlier| self.install_of(earlier));
            let key = self.key(install.rank);
            report.add(match older.find(|(_, earlier)| earlier.previous == previous) {
                Some((first, _)) => Anomaly::LostUpdate { key, previous, first, second: id },
                None => Anomaly::WrongPrevious { transaction: id, key, expected, previous },
            });
        }
    }

    /// The transaction id and the install that made an entry; `None` for the load.
    fn install_of(&self, entry: usize) -> Option<(u64, Install)> {
        let Entry { rank, writer, .. } = self.entries[entry];
        let node = &self.nodes[writer? as usize];
        let at =
            node.installs.binary_search_by_key(&rank, |i| i.rank).expect("chains are built from installs");
        Some((node.id, node.installs[at]))
    }

    /// Every state seen is a committed final one.
    fn check_sightings(&self, report: &mut Report) {
        let immortal: Vec<u32> = (0..self.keys.len() as u32)
            .filter(|&r| matches!(self.deaths[r as usize], Deaths::Never))
            .collect();
        for node in &self.nodes {
            for &(rank, seen) in &node.reads {
                self.report_nowhere(node.id, rank, seen, report);
            }
            for scan in &node.scans {
                for &(rank, version) in &scan.seen {
                    self.report_nowhere(node.id, rank, Some(version), report);
                }
                let first = immortal.partition_point(|&rank| rank < scan.low);
                for &rank in immortal[first..].iter().take_while(|&&rank| rank < scan.high) {
                    let seen = scan.seen.binary_search_by_key(&rank, |&(r, _)| r).is_ok();
                    if !seen && scan.own.binary_search(&rank).is_err() {
                        self.report_nowhere(node.id, rank, None, report);
                    }
                }
            }
        }
    }

    /// Reports a state that does not come from a committed final write; true where it did.
    fn report_nowhere(&self, reader: u64, rank: u32, seen: Option<Version>, report: &mut Report) -> bool {
        if !matches!(self.source(rank, seen), Source::Nowhere) {
            return false;
        }
        let key = self.key(rank);
        let stray = seen.and_then(|version| Some((version, *self.strays.get(&(rank, version))?)));
        report.add(match stray {
            Some((version, Stray::Aborted(writer))) => Anomaly::AbortedRead { reader, writer, key, version },
            Some((version, Stray::Intermediate(writer))) => {
                Anomaly::IntermediateRead { reader, writer, key, version }
            }
            None => Anomaly::UnknownVersion { transaction: reader, key, seen },
        });
        true
    }
}

impl Scan {
    /// Calls `f` for every rank in the range that the reader had not written itself, with what it saw there.
    pub fn for_each(&self, mut f: impl FnMut(u32, Option<Version>)) {
        let (mut seen, mut own) = (self.seen.iter().peekable(), self.own.iter().peekable());
        for rank in self.low..self.high {
            if own.next_if(|&&r| r == rank).is_none() {
                f(rank, seen.next_if(|(r, _)| *r == rank).map(|&(_, version)| version));
            }
        }
    }
}

/// Turns one transaction's operations into a node.
struct Resolver<'a, 'h> {
    index: &'a mut Index<'h>,
    report: &'a mut Report,
    id: u64,
    own: BTreeMap<u32, Install>,
}

impl Resolver<'_, '_> {
    fn resolve(&mut self, operations: &[Operation], order: u64) -> Node {
        let mut node =
            Node { id: self.id, order, reads: Vec::new(), scans: Vec::new(), installs: Vec::new() };
        for operation in operations {
            match operation {
                Operation::Read { key, seen } => {
                    let rank = self.index.ranks[&(key.table, key.words.as_slice())];
                    match self.own.get(&rank).map(Install::visible) {
                        Some(expected) => self.check_own(rank, expected, *seen),
                        None => node.reads.push((rank, *seen)),
                    }
                }
                Operation::Range { table, low, high, seen } => {
                    let scan = self.scan(*table, low, high.as_deref(), seen);
                    node.scans.push(scan);
                }
                Operation::Write { key, change } => self.write(key, *change),
            }
        }
        node.installs = std::mem::take(&mut self.own).into_values().collect();
        node
    }

    fn check_own(&mut self, rank: u32, expected: Option<Version>, seen: Option<Version>) {
        if seen != expected {
            let key = self.index.key(rank);
            self.report.add(Anomaly::OwnWriteMissed { transaction: self.id, key, expected, seen });
        }
    }

    fn scan(&mut self, table: u16, low: &[u64], high: Option<&[u64]>, rows: &[(Vec<u64>, Version)]) -> Scan {
        let keys = &self.index.keys;
        let start = keys.partition_point(|&key| key < (table, low)) as u32;
        let end = match high {
            Some(high) => keys.partition_point(|&key| key < (table, high)),
            None => keys.partition_point(|&(t, _)| t <= table),
        };
        let bounds = start..(end as u32).max(start);
        let mut seen: Vec<(u32, Version)> = rows
            .iter()
            .map(|(words, version)| (self.index.ranks[&(table, words.as_slice())], *version))
            .collect();
        seen.sort_unstable();
        let mut last = None;
        seen.retain(|&(rank, _)| {
            let sound = bounds.contains(&rank) && last != Some(rank);
            if !sound {
                let key = self.index.key(rank);
                self.report.add(Anomaly::MalformedRange { transaction: self.id, key });
            }
            last = Some(rank);
            sound
        });
        let own: Vec<(u32, Option<Version>)> =
            self.own.range(bounds.clone()).map(|(&rank, install)| (rank, install.visible())).collect();
        for &(rank, expected) in &own {
            let at = seen.binary_search_by_key(&rank, |&(r, _)| r);
            let found = at.ok().map(|at| seen.remove(at).1);
            self.check_own(rank, expected, found);
        }
        let own = own.into_iter().map(|(rank, _)| rank).collect();
        Scan { low: bounds.start, high: bounds.end, seen, own }
    }

    fn write(&mut self, key: &Key, change: Change) {
        let rank = self.index.ranks[&(key.table, key.words.as_slice())];
        let (new, alive) = (change.installed(), change.leaves_a_row());
        let earlier = self.own.get(&rank).copied();
        let mut install = Install { rank, previous: change.previous(), new, alive };
        if let Some(earlier) = earlier {
            self.check_own(rank, earlier.visible(), change.previous());
            self.index.strays.insert((rank, earlier.new), Stray::Intermediate(self.id));
            install.previous = earlier.previous;
        }
        if let Some(previous) =
            earlier.map(|e| e.new).or(change.previous()).filter(|&previous| previous >= new)
        {
            let key = key.clone();
            self.report.add(Anomaly::VersionNotIncreasing { transaction: self.id, key, previous, new });
        }
        self.own.insert(rank, install);
    }
}
