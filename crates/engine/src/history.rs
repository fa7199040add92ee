//! What committed transactions read and wrote, for checkers of serializability.
//!
//! A record is complete: every row and absent key that was read, every range with what was found in it, and
//! every write with the version before and after. Versions of one key grow (docs/protocols/transactions.md),
//! so a checker knows their order and need not search for one.

use liger_fabric::{HostId, WorkerId};

use crate::tables::key::{Key, KeyRange};
use crate::txn::TableId;

/// A read of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRecord {
    /// The table or index.
    pub table: TableId,
    /// The key.
    pub key: Key,
    /// Version found; `None`: there was no such row.
    pub version: Option<u64>,
}

/// A read of a range, as far as it was visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRecord {
    /// The table or index.
    pub table: TableId,
    /// The keys that were looked at.
    pub range: KeyRange,
    /// Keys found, with their versions. The transaction's own uncommitted rows are not among them.
    pub found: Vec<(Key, u64)>,
}

/// What a write did to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// The key did not exist before.
    Insert,
    /// The key existed and exists.
    Update,
    /// The key does not exist any more.
    Delete,
}

/// A committed write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRecord {
    /// The table or index.
    pub table: TableId,
    /// The key.
    pub key: Key,
    /// Version that was replaced; `None` for an insert.
    pub previous: Option<u64>,
    /// Version that was made.
    pub version: u64,
    /// What it did.
    pub kind: WriteKind,
}

/// One committed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnRecord {
    /// Where it ran.
    pub host: HostId,
    /// Who ran it.
    pub worker: WorkerId,
    /// When it took effect, where the protocol orders transactions by a clock of its own (those of one time
    /// as they are recorded); 0: when it is recorded.
    pub time: u64,
    /// It has read as of this moment ([`crate::log::moments`]), and not as of when it is recorded.
    pub as_of: Option<u64>,
    /// Its reads.
    pub reads: Vec<ReadRecord>,
    /// Its range reads.
    pub ranges: Vec<RangeRecord>,
    /// Its writes.
    pub writes: Vec<WriteRecord>,
}

impl TxnRecord {
    /// An empty record.
    pub fn new(host: HostId, worker: WorkerId) -> Self {
        Self { host, worker, time: 0, as_of: None, reads: Vec::new(), ranges: Vec::new(), writes: Vec::new() }
    }

    /// Forgets everything but who it is.
    pub fn clear(&mut self) {
        self.as_of = None;
        self.reads.clear();
        self.ranges.clear();
        self.writes.clear();
    }
}

/// Receives every committed transaction at its commit point: all its locks are held, nothing is released yet.
/// The order of calls is therefore a serial order of the transactions that conflict, unless they say when
/// they took effect ([`TxnRecord::time`]).
pub trait HistorySink: Send + Sync {
    /// A transaction is about to commit: if its host dies before [`HistorySink::committed`], nobody knows
    /// whether it has.
    fn committing(&self, record: &TxnRecord) {
        let _ = record;
    }

    /// A transaction has committed.
    fn committed(&self, record: &TxnRecord);
}
