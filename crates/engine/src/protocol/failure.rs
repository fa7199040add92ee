//! What keeps the owner of a partition from doing what was asked for, as it travels, and as a transaction
//! hears of it.

use liger_store::bwtree::TreeError;

use crate::files::StoredAt;
use crate::txn::{SHARED_MEMORY, TableId, TxnError};

/// What keeps an owner from doing what was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Shared memory is exhausted and nothing can be moved out.
    SharedMemory {
        /// Bytes that were needed.
        needed_bytes: u64,
    },
    /// The partition cannot hold another row.
    Rows {
        /// Bytes that were needed.
        needed_bytes: u64,
    },
    /// A record of the partition's shared index is damaged.
    IndexNode {
        /// Offset of the record.
        offset: u64,
    },
    /// The directory word of the partition's shared index is damaged.
    IndexDirectory {
        /// Offset of the word.
        root: u64,
    },
    /// The block of a shared row is damaged.
    Row {
        /// Offset of the block.
        offset: u64,
    },
    /// Rows of the partition are not there yet, and cannot be made.
    NotRestored {
        /// What they are made from.
        at: StoredAt,
    },
}

impl From<TxnError> for Failure {
    /// Why the owner cannot make rows.
    fn from(error: TxnError) -> Self {
        match error {
            TxnError::NotRestored { at, .. } => Self::NotRestored { at },
            TxnError::OutOfMemory { needed_bytes, .. } => Self::Rows { needed_bytes },
            other => unreachable!("rows that cannot be made: {other}"),
        }
    }
}

impl From<TreeError> for Failure {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::OutOfMemory(full) => Self::SharedMemory { needed_bytes: full.bytes },
            TreeError::Damaged { offset, .. } => Self::IndexNode { offset },
            TreeError::NotFormatted { root } | TreeError::Exists { root } => Self::IndexDirectory { root },
            other => unreachable!("a shared index used as none of its operations allows: {other}"),
        }
    }
}

impl Failure {
    /// What it means to a transaction that needed it of `table`.
    pub fn error(self, table: TableId) -> TxnError {
        match self {
            Self::SharedMemory { needed_bytes } => {
                TxnError::OutOfMemory { what: SHARED_MEMORY, needed_bytes }
            }
            Self::Rows { needed_bytes } => {
                TxnError::OutOfMemory { what: "rows of a partition", needed_bytes }
            }
            Self::NotRestored { at } => TxnError::NotRestored { table, at },
            Self::Row { offset } => TxnError::Damaged { table, what: "row in shared memory", found: offset },
            Self::IndexNode { offset } => TxnError::Damaged { table, what: "shared index", found: offset },
            Self::IndexDirectory { root } => {
                TxnError::Damaged { table, what: "index directory", found: root }
            }
        }
    }
}

/// What a failure of a shared index means to a transaction.
pub fn tree_error(table: TableId, error: TreeError) -> TxnError {
    Failure::from(error).error(table)
}
