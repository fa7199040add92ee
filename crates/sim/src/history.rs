//! Recorded histories: what each transaction of a run saw and did.
//!
//! A recorder (the simulator, or a driver of real processes) appends one [`Transaction`] per attempt, with
//! its operations in program order, and states the rows that were loaded before the run.
//!
//! Invariants that the recorder keeps:
//! 1. The versions of one key are ordered by their number: a later version has a greater number. They need
//!    not be contiguous; one counter for the whole run is as good as one per key.
//! 2. A delete installs a version too (its `new`): it is the dead state between the row's death and its next
//!    insert.
//! 3. `order` is taken while the transaction holds all its locks, so it is the order in which transactions
//!    take effect.
//! 4. An aborted transaction's version numbers are not used again. Where they are, the number is taken to
//!    belong to the committed transaction, and a read of the aborted version cannot be told apart.
//!
//! Operations are one list, not separate lists of reads and writes, because only the order between them says
//! whether a read had to see the transaction's own write.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of one state of one key; greater is later.
pub type Version = u64;

/// A row's identity: its table and the words of its key, compared lexicographically.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Key {
    /// Number of the table.
    pub table: u16,
    /// The key's words, most significant first.
    pub words: Vec<u64>,
}

impl Key {
    /// The key `words` of `table`.
    pub fn new(table: u16, words: &[u64]) -> Self {
        Self { table, words: words.to_vec() }
    }
}

/// What a write did to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The row was absent and is now `new`.
    Insert {
        /// Version installed.
        new: Version,
    },
    /// The row was `previous` and is now `new`.
    Update {
        /// Version replaced.
        previous: Version,
        /// Version installed.
        new: Version,
    },
    /// The row was `previous` and is now absent.
    Delete {
        /// Version replaced.
        previous: Version,
        /// Number of the dead state.
        new: Version,
    },
}

impl Change {
    /// The version replaced; `None` where there was no row.
    pub fn previous(self) -> Option<Version> {
        match self {
            Change::Insert { .. } => None,
            Change::Update { previous, .. } | Change::Delete { previous, .. } => Some(previous),
        }
    }

    /// The version installed.
    pub fn installed(self) -> Version {
        match self {
            Change::Insert { new } | Change::Update { new, .. } | Change::Delete { new, .. } => new,
        }
    }

    /// True when a row exists afterwards.
    pub fn leaves_a_row(self) -> bool {
        !matches!(self, Change::Delete { .. })
    }
}

/// One operation of a transaction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Looked one key up.
    Read {
        /// The key.
        key: Key,
        /// The version found; `None` where there was no row.
        seen: Option<Version>,
    },
    /// Read every row of `table` from `low` to before `high`. A scan that stopped early records the range it
    /// covered.
    Range {
        /// Number of the table.
        table: u16,
        /// First key of the range.
        low: Vec<u64>,
        /// First key after the range; `None` for the end of the table.
        high: Option<Vec<u64>>,
        /// Every row found: key words and version, in any order.
        seen: Vec<(Vec<u64>, Version)>,
    },
    /// Changed one row.
    Write {
        /// The key.
        key: Key,
        /// What happened to it.
        change: Change,
    },
}

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The client was told that it committed.
    Committed,
    /// It was rolled back.
    Aborted,
    /// Its host died before anyone was told. It counts as committed if a committed transaction saw one of its
    /// versions (or a dead row that only it can have deleted), else as aborted.
    Unknown,
}

/// One attempt at one transaction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transaction {
    /// Unique in the history.
    pub id: u64,
    /// Host that executed it.
    pub host: u8,
    /// Worker of that host.
    pub worker: u8,
    /// How it ended.
    pub outcome: Outcome,
    /// Place in the commit order, unique among transactions that committed; `None` where the recorder cannot
    /// know.
    pub order: Option<u64>,
    /// Operations in program order.
    pub operations: Vec<Operation>,
}

impl Transaction {
    /// A transaction without operations, to be filled by `read`, `range` and `write`.
    pub fn new(id: u64, host: u8, worker: u8) -> Self {
        Self { id, host, worker, outcome: Outcome::Unknown, order: None, operations: Vec::new() }
    }

    /// Appends a lookup.
    pub fn read(&mut self, key: Key, seen: Option<Version>) {
        self.operations.push(Operation::Read { key, seen });
    }

    /// Appends a range read.
    pub fn range(&mut self, low: Key, high: Option<Vec<u64>>, seen: Vec<(Vec<u64>, Version)>) {
        self.operations.push(Operation::Range { table: low.table, low: low.words, high, seen });
    }

    /// Appends a write.
    pub fn write(&mut self, key: Key, change: Change) {
        self.operations.push(Operation::Write { key, change });
    }

    /// Ends it as committed, at place `order` of the commit order if known.
    pub fn commit(&mut self, order: Option<u64>) {
        self.outcome = Outcome::Committed;
        self.order = order;
    }

    /// Ends it as rolled back.
    pub fn abort(&mut self) {
        self.outcome = Outcome::Aborted;
    }
}

/// A run: the rows loaded before it and the transactions of it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// Every row that existed before the first transaction, with its version.
    pub initial: Vec<(Key, Version)>,
    /// The transactions, in any order.
    pub transactions: Vec<Transaction>,
}

impl History {
    /// The history as JSON, for a bug report.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a history has string keys only and no failing serializer")
    }

    /// What is left to check where gaps are not protected: the rows that were found, but not that others were
    /// not there.
    #[must_use]
    pub fn without_gaps(mut self) -> Self {
        for transaction in &mut self.transactions {
            let all = std::mem::take(&mut transaction.operations);
            let found = all.into_iter().flat_map(|operation| match operation {
                Operation::Read { seen: None, .. } => Vec::new(),
                Operation::Range { table, seen, .. } => {
                    let read = |(key, version): (Vec<u64>, Version)| Operation::Read {
                        key: Key::new(table, &key),
                        seen: Some(version),
                    };
                    seen.into_iter().map(read).collect()
                }
                other => vec![other],
            });
            transaction.operations = found.collect();
        }
        self
    }

    /// Reads what `to_json` wrote.
    ///
    /// # Errors
    /// Where the text is not JSON of this shape, with the line and column.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

pub(crate) fn version_text(version: Option<Version>) -> String {
    version.map_or_else(|| "absent".to_string(), |v| format!("v{v}"))
}

fn words_text(words: &[u64]) -> String {
    let words: Vec<String> = words.iter().map(u64::to_string).collect();
    format!("[{}]", words.join(", "))
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}{}", self.table, words_text(&self.words))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Read { key, seen } => write!(f, "read   {key} = {}", version_text(*seen)),
            Operation::Range { table, low, high, seen } => {
                let high = high.as_ref().map_or_else(|| "end".to_string(), |h| words_text(h));
                write!(f, "range  t{table}{}..{high} = {{", words_text(low))?;
                for (i, (words, version)) in seen.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma} {} v{version}", words_text(words))?;
                }
                write!(f, " }}")
            }
            Operation::Write { key, change: Change::Insert { new } } => write!(f, "insert {key} v{new}"),
            Operation::Write { key, change: Change::Update { previous, new } } => {
                write!(f, "update {key} v{previous} -> v{new}")
            }
            Operation::Write { key, change: Change::Delete { previous, new } } => {
                write!(f, "delete {key} v{previous} (dead as v{new})")
            }
        }
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            Outcome::Committed => "committed",
            Outcome::Aborted => "aborted",
            Outcome::Unknown => "outcome unknown",
        };
        write!(f, "T{} (host {}, worker {}) {outcome}", self.id, self.host, self.worker)?;
        if let Some(order) = self.order {
            write!(f, " as number {order}")?;
        }
        writeln!(f)?;
        for operation in &self.operations {
            writeln!(f, "    {operation}")?;
        }
        Ok(())
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} rows loaded, {} transactions", self.initial.len(), self.transactions.len())?;
        for transaction in &self.transactions {
            write!(f, "{transaction}")?;
        }
        Ok(())
    }
}
