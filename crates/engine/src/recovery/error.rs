//! What recovery says when it cannot go on: always which file of which host, which byte, and what is wrong
//! there.

use std::fmt;

use liger_fabric::HostId;
use liger_pod::PodError;
use liger_pod::plan::PartitionId;
use liger_store::bwtree::TreeError;

use crate::files::{StoredAt, StoredFile, image_numbers, segment_number};
use crate::log::record::BadRecord;
use crate::log::ship::LogFailure;
use crate::tables::key::Key;
use crate::txn::{TableId, TxnError};

/// A place in a host's files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileByte {
    /// Whose directory.
    pub host: HostId,
    /// Name of the file.
    pub file: String,
    /// Offset in it, in bytes.
    pub byte: u64,
}

impl FileByte {
    /// Byte `byte` of `file` of `host`.
    pub fn new(host: HostId, file: impl Into<String>, byte: u64) -> Self {
        Self { host, file: file.into(), byte }
    }
}

impl fmt::Display for FileByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {}, {}, byte {}", self.host.0, self.file, self.byte)
    }
}

/// A change of the log that does not fit the row it is for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the record at {at} makes version {version:#x} of {key:?} in table {table}, partition {partition}, from \
     version {previous:#x}: {why}"
)]
pub struct BrokenChain {
    /// Where its record starts.
    pub at: FileByte,
    /// The row's table.
    pub table: TableId,
    /// The row's partition.
    pub partition: PartitionId,
    /// The row's key.
    pub key: Key,
    /// The version it makes.
    pub version: u64,
    /// The version it replaces.
    pub previous: u64,
    /// What is there instead.
    pub why: String,
}

/// Why a pod, or a part of it, could not be recovered, or a checkpoint not be taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// Bytes that had been on storage are not what they were.
    #[error("{at}: {why}")]
    Damaged {
        /// Where.
        at: FileByte,
        /// What is wrong.
        why: String,
    },
    /// The bytes are intact, but belong to something else.
    #[error("{at}: its {what} is {found:#x}, expected {expected:#x}")]
    Foreign {
        /// Where.
        at: FileByte,
        /// Which of its properties.
        what: &'static str,
        /// What it says.
        found: u64,
        /// What it should say.
        expected: u64,
    },
    /// Another program wrote it, in a format that this one does not read.
    #[error(
        "{at}: its format is {found}, this program reads {oldest} to {newest}: use the program that wrote it"
    )]
    OtherFormat {
        /// Where.
        at: FileByte,
        /// Its format.
        found: u32,
        /// The oldest format that is read.
        oldest: u32,
        /// The newest, which is written.
        newest: u32,
    },
    /// A newer program wrote it, and counts on something that this one does not know.
    #[error(
        "{at}: it has features that this program does not know ({unknown:#x}): use the program that wrote it"
    )]
    UnknownFeatures {
        /// Where.
        at: FileByte,
        /// Their bits.
        unknown: u64,
    },
    /// A record is lost, doubled, or of another row.
    #[error(transparent)]
    Chain(Box<BrokenChain>),
    /// Of a transaction with several records some are neither in the ring nor in the log.
    #[error(
        "host {}, ring of worker {worker}: records of its last transaction are not found in the log", host.0
    )]
    Fragments {
        /// Whose.
        host: HostId,
        /// Which worker's ring.
        worker: u8,
    },
    /// A file is not there.
    #[error("host {}: {file} is missing", host.0)]
    Missing {
        /// Whose directory.
        host: HostId,
        /// Which file.
        file: String,
    },
    /// The storage failed.
    #[error("{at}: {why}")]
    Storage {
        /// Where.
        at: FileByte,
        /// What it said.
        why: String,
    },
    /// The storage has no room.
    #[error("{at}: {why}")]
    Full {
        /// Where.
        at: FileByte,
        /// What it said.
        why: String,
    },
    /// What hosts share of the pod's memory makes no sense.
    #[error("{0}")]
    Memory(String),
    /// The row engine refused a row.
    #[error("a recovered row cannot be stored: {0}")]
    Row(#[from] TxnError),
    /// A log ended while a checkpoint waited for it.
    #[error(transparent)]
    Log(#[from] LogFailure),
    /// The shared index of a dead host's partition is damaged, or there is no memory for it.
    #[error(transparent)]
    Index(#[from] TreeError),
    /// A partition was to be handed over, and could not be closed for long enough.
    #[error("open transactions, or rows that other hosts hold, keep its partitions in use")]
    StaysInUse,
    /// The host that was to have a partition does not live any more.
    #[error("host {}, which was to have them, is not alive any more", host.0)]
    NextOwnerGone {
        /// The host.
        host: HostId,
    },
    /// A successor died in the middle: what it had made its own lies in memory of those it was the successor
    /// of.
    #[error("host {} died while it took over what lies there, and cannot be taken over itself yet", host.0)]
    Entangled {
        /// The successor.
        host: HostId,
    },
    /// The pod has ruled that this host is not a member any more.
    #[error("this host was taken for dead by the others")]
    Fenced,
    /// A record in a dead host's ring is not what it wrote.
    #[error("the last record in the ring of worker {worker} of host {}: {why}", host.0)]
    Ring {
        /// Whose ring.
        host: HostId,
        /// Which of its rings.
        worker: u8,
        /// What is wrong.
        why: BadRecord,
    },
    /// A row in shared memory is damaged.
    #[error("a row of table {table}, partition {partition}, is damaged at byte {offset:#x} of shared memory")]
    DamagedRow {
        /// The row's table.
        table: TableId,
        /// The row's partition.
        partition: PartitionId,
        /// Where its block is.
        offset: u64,
    },
    /// A row stayed locked.
    #[error("{key:?} of table {table}, partition {partition}, stayed locked for {tries} tries")]
    Held {
        /// The row's table.
        table: TableId,
        /// The row's partition.
        partition: PartitionId,
        /// The row's key.
        key: Box<Key>,
        /// How often it was tried.
        tries: u32,
    },
}

impl From<PodError> for RecoveryError {
    fn from(error: PodError) -> Self {
        Self::Memory(error.to_string())
    }
}

impl RecoveryError {
    /// True if there was no room, and there may be some later.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Log(LogFailure::Full(_)))
    }

    /// Damage at a place.
    pub(crate) fn damaged(at: FileByte, why: impl Into<String>) -> Self {
        Self::Damaged { at, why: why.into() }
    }

    /// What it means to a transaction that wants rows of `table` which this keeps from being made.
    pub(crate) fn of_rows(self, table: TableId) -> TxnError {
        let at = match self {
            Self::Row(error) => return error,
            Self::Damaged { at, .. }
            | Self::Foreign { at, .. }
            | Self::Storage { at, .. }
            | Self::Full { at, .. } => at,
            Self::Chain(broken) => broken.at,
            Self::Missing { host, file } => FileByte::new(host, file, 0),
            other => unreachable!("making rows reads files, and nothing else: {other}"),
        };
        let image = image_numbers(&at.file).map(|(checkpoint, partition)| StoredFile::Image {
            checkpoint: checkpoint.try_into().unwrap_or(u32::MAX),
            partition,
        });
        let log = || StoredFile::Log { segment: segment_number(&at.file).unwrap_or_default() };
        let file = image.unwrap_or_else(log);
        TxnError::NotRestored { table, at: StoredAt { host: at.host.0, file, byte: at.byte } }
    }
}
