//! Exact check that a history is serializable.
//!
//! The order of the versions of every key is known (they are numbered), so nothing has to be guessed or
//! searched: the dependencies between transactions follow from the history, and it is serializable if and
//! only if they have no cycle. The definitions are those of Adya, "Weak Consistency: A Generalized Theory and
//! Optimistic Implementations for Distributed Transactions" (MIT, 1999), chapters 3 and 4.
//!
//! Three parts, in the order in which they run:
//! 1. **structure** (`index`): every version read or replaced exists, was committed and is its writer's last;
//!    no version has two writers or two successors; a transaction sees its own writes.
//! 2. **replay** (`replay`), where the commit order of all transactions is known: applied in that order,
//!    every lookup and every range read equals the state at its transaction's commit. Strict two-phase
//!    locking promises this, and it is stronger than serializability.
//! 3. **graph** (`graph`): the dependency graph has no cycle. A history that passes the first two has none
//!    (every dependency points forward in the commit order), so then this part is left out; for one that
//!    fails it names the shortest cycle.
//!
//! Not checked: what aborted transactions saw (they may see anything), and real-time order between
//! transactions beyond what the commit order states.

use std::fmt;

use crate::history::{History, Key, Version, version_text};

mod graph;
mod in_doubt;
mod index;
mod replay;
#[cfg(test)]
mod tests;

use index::Index;

/// Anomalies kept in a report; more are only counted.
pub const ANOMALIES_MAX: usize = 64;

/// Kind of a dependency between two transactions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dependency {
    /// `to` replaced the version that `from` installed.
    WriteWrite,
    /// `to` saw the version that `from` installed.
    WriteRead,
    /// `to` replaced the version that `from` saw (anti-dependency).
    ReadWrite,
}

/// One dependency, with the versions it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Id of the transaction that must come first.
    pub from: u64,
    /// Id of the transaction that must come second.
    pub to: u64,
    /// Kind of the dependency.
    pub kind: Dependency,
    /// Key that both touched.
    pub key: Key,
    /// WriteWrite: what `from` installed. WriteRead, ReadWrite: what the reader saw. `None` is "no row".
    pub before: Option<Version>,
    /// WriteWrite, ReadWrite: what `to` installed. WriteRead: same as `before`. `None` is "no row".
    pub after: Option<Version>,
    /// True where the read was part of a range read.
    pub by_range: bool,
}

/// Class of a cycle, weakest isolation level first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CycleClass {
    /// Write dependencies only: not even read uncommitted.
    G0,
    /// Write and read dependencies only: not read committed.
    G1c,
    /// Exactly one anti-dependency: not snapshot isolation (lost update, read skew, phantom between two).
    GSingle,
    /// Several anti-dependencies: not serializable (write skew).
    G2,
}

/// One thing wrong with a history.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Anomaly {
    /// Two committed transactions (or a transaction and the load: `None`) installed the same version, or a
    /// row was loaded twice.
    DuplicateVersion {
        /// Key.
        key: Key,
        /// Version, or the later one of a row loaded twice.
        version: Version,
        /// One writer.
        first: Option<u64>,
        /// The other writer.
        second: Option<u64>,
    },
    /// Two transactions have the same place in the commit order.
    DuplicateOrder {
        /// The place.
        order: u64,
        /// One transaction.
        first: u64,
        /// The other.
        second: u64,
    },
    /// A write's version is not greater than the one it replaced.
    VersionNotIncreasing {
        /// Writer.
        transaction: u64,
        /// Key.
        key: Key,
        /// Version replaced.
        previous: Version,
        /// Version installed.
        new: Version,
    },
    /// A range read lists a key outside its bounds, or one key twice.
    MalformedRange {
        /// Reader.
        transaction: u64,
        /// The key.
        key: Key,
    },
    /// A version was read or replaced that nobody installed; `None`: a row was missing that was never
    /// deleted.
    UnknownVersion {
        /// Who saw it.
        transaction: u64,
        /// Key.
        key: Key,
        /// What it saw.
        seen: Option<Version>,
    },
    /// G1a: a version of an aborted transaction was read or replaced.
    AbortedRead {
        /// Who saw it.
        reader: u64,
        /// The aborted transaction.
        writer: u64,
        /// Key.
        key: Key,
        /// Version seen.
        version: Version,
    },
    /// G1b: a version was read or replaced that its writer itself replaced.
    IntermediateRead {
        /// Who saw it.
        reader: u64,
        /// The writer.
        writer: u64,
        /// Key.
        key: Key,
        /// Version seen.
        version: Version,
    },
    /// A transaction did not see, or did not build on, its own earlier write.
    OwnWriteMissed {
        /// The transaction.
        transaction: u64,
        /// Key.
        key: Key,
        /// Its own latest state of the key.
        expected: Option<Version>,
        /// What it saw.
        seen: Option<Version>,
    },
    /// Two transactions replaced the same version: the first one's change is lost.
    LostUpdate {
        /// Key.
        key: Key,
        /// Version that both replaced.
        previous: Option<Version>,
        /// The writer of the older of the two new versions.
        first: u64,
        /// The writer of the newer one.
        second: u64,
    },
    /// A write replaced something else than the latest older version.
    WrongPrevious {
        /// Writer.
        transaction: u64,
        /// Key.
        key: Key,
        /// What it should have replaced.
        expected: Option<Version>,
        /// What it replaced.
        previous: Option<Version>,
    },
    /// Replay: a transaction saw something else than the state at its commit.
    StaleAtCommit {
        /// The transaction.
        transaction: u64,
        /// Its place in the commit order.
        order: u64,
        /// Key.
        key: Key,
        /// State of the key at the commit.
        expected: Option<Version>,
        /// What the transaction saw.
        seen: Option<Version>,
        /// True where it was a range read.
        by_range: bool,
        /// True where it was the version replaced by a write.
        by_write: bool,
    },
    /// Dependencies that no serial order satisfies.
    Cycle {
        /// Class of the cycle.
        class: CycleClass,
        /// Its dependencies: the `to` of each is the `from` of the next, and of the last is the `from` of the
        /// first.
        edges: Vec<Edge>,
    },
}

/// Result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Transactions checked: the committed ones, and those of unknown outcome that turned out to have
    /// committed.
    pub transactions: usize,
    /// True where the commit order was known and replayed.
    pub replayed: bool,
    /// Absent rows whose death could not be told among several, so that they gave no dependency.
    pub ambiguous_absences: u64,
    /// What is wrong: at most [`ANOMALIES_MAX`] of them, then the cycles.
    pub anomalies: Vec<Anomaly>,
    /// How many anomalies there were.
    pub anomalies_total: u64,
}

impl Report {
    /// True where nothing is wrong.
    pub fn passed(&self) -> bool {
        self.anomalies_total == 0
    }

    fn add(&mut self, anomaly: Anomaly) {
        self.anomalies_total += 1;
        let is_cycle = matches!(anomaly, Anomaly::Cycle { .. });
        if is_cycle || self.anomalies.len() < ANOMALIES_MAX {
            self.anomalies.push(anomaly);
        }
    }
}

/// Checks a history: structure, then replay if the commit order is known, then the dependency graph unless
/// the replay has already proved that it has no cycle.
pub fn check(history: &History) -> Report {
    let mut report = Report::default();
    let index = Index::build(history, &mut report);
    if index.ordered {
        replay::replay(&index, &mut report);
        report.replayed = true;
    }
    if !(report.replayed && report.passed()) {
        graph::find_cycles(&index, &mut report);
    }
    report
}

/// Checks structure and dependency graph only: serializable in some order, whatever commit order is stated.
pub fn check_graph(history: &History) -> Report {
    let mut report = Report::default();
    let index = Index::build(history, &mut report);
    graph::find_cycles(&index, &mut report);
    report
}

impl Dependency {
    /// Short name: `ww`, `wr` or `rw`.
    pub fn name(self) -> &'static str {
        match self {
            Dependency::WriteWrite => "ww",
            Dependency::WriteRead => "wr",
            Dependency::ReadWrite => "rw",
        }
    }
}

impl CycleClass {
    /// The class's name in the literature.
    pub fn name(self) -> &'static str {
        match self {
            CycleClass::G0 => "G0",
            CycleClass::G1c => "G1c",
            CycleClass::GSingle => "G-single",
            CycleClass::G2 => "G2",
        }
    }

    /// The class of a cycle with these kinds of dependencies.
    fn of(kinds: impl Iterator<Item = Dependency> + Clone) -> Self {
        let anti = kinds.clone().filter(|&k| k == Dependency::ReadWrite).count();
        match anti {
            0 if kinds.clone().all(|k| k == Dependency::WriteWrite) => CycleClass::G0,
            0 => CycleClass::G1c,
            1 => CycleClass::GSingle,
            _ => CycleClass::G2,
        }
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Edge { from, to, key, .. } = self;
        let (before, after) = (version_text(self.before), version_text(self.after));
        let saw = if self.by_range { "in a range saw" } else { "saw" };
        write!(f, "T{from} --{}--> T{to}   {key}: ", self.kind.name())?;
        match self.kind {
            Dependency::WriteWrite => write!(f, "T{from} installed {before}, T{to} replaced it by {after}"),
            Dependency::WriteRead => write!(f, "T{from} installed {before}, T{to} {saw} it"),
            Dependency::ReadWrite => write!(f, "T{from} {saw} {before}, T{to} replaced it by {after}"),
        }
    }
}

fn writer_text(writer: Option<u64>) -> String {
    writer.map_or_else(|| "the load".to_string(), |id| format!("T{id}"))
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Anomaly::DuplicateVersion { key, version, first, second } => {
                let (first, second) = (writer_text(*first), writer_text(*second));
                write!(f, "duplicate version: {key} v{version} was installed by {first} and by {second}")
            }
            Anomaly::DuplicateOrder { order, first, second } => {
                write!(f, "duplicate order: T{first} and T{second} both committed as number {order}")
            }
            Anomaly::VersionNotIncreasing { transaction: t, key, previous, new } => {
                write!(f, "version not increasing: T{t} replaced {key} v{previous} by v{new}")
            }
            Anomaly::MalformedRange { transaction: t, key } => {
                write!(f, "malformed range: T{t} lists {key} twice, or it lies outside the bounds")
            }
            Anomaly::UnknownVersion { transaction: t, key, seen: Some(v) } => {
                write!(f, "unknown version: T{t} saw {key} v{v}, which nobody installed")
            }
            Anomaly::UnknownVersion { transaction: t, key, seen: None } => {
                write!(f, "unknown version: T{t} saw no row {key}, which was never deleted")
            }
            Anomaly::AbortedRead { reader, writer, key, version } => {
                write!(f, "G1a aborted read: T{reader} saw {key} v{version} of T{writer}, which aborted")
            }
            Anomaly::IntermediateRead { reader, writer, key, version } => {
                write!(
                    f,
                    "G1b intermediate read: T{reader} saw {key} v{version}, which its writer T{writer} "
                )?;
                write!(f, "replaced before it committed")
            }
            Anomaly::OwnWriteMissed { transaction: t, key, expected, seen } => {
                let (expected, seen) = (version_text(*expected), version_text(*seen));
                write!(f, "own write missed: T{t} made {key} {expected}, then saw {seen}")
            }
            Anomaly::LostUpdate { key, previous, first, second } => {
                let previous = version_text(*previous);
                write!(f, "lost update: T{first} and T{second} both replaced {key} {previous}")
            }
            Anomaly::WrongPrevious { transaction: t, key, expected, previous } => {
                let (expected, previous) = (version_text(*expected), version_text(*previous));
                write!(
                    f,
                    "wrong previous version: T{t} replaced {key} {previous}, but {expected} was the latest"
                )
            }
            Anomaly::StaleAtCommit { transaction: t, order, key, expected, seen, by_range, by_write } => {
                let (expected, seen) = (version_text(*expected), version_text(*seen));
                let how = match (by_range, by_write) {
                    (true, _) => "in a range saw",
                    (false, true) => "replaced",
                    (false, false) => "saw",
                };
                write!(f, "stale at commit: T{t} (number {order}) {how} {key} {seen}, but it was {expected}")
            }
            Anomaly::Cycle { class, edges } => {
                write!(f, "{} cycle of {} transactions:", class.name(), edges.len())?;
                for edge in edges {
                    write!(f, "\n    {edge}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.replayed { "replayed in commit order" } else { "commit order unknown" };
        writeln!(f, "{} transactions, {order}, {} anomalies", self.transactions, self.anomalies_total)?;
        for anomaly in &self.anomalies {
            writeln!(f, "  {anomaly}")?;
        }
        Ok(())
    }
}
