//! What can go wrong with a pod as a whole.

use liger_fabric::native::MemoryError;
use liger_pod::PodError;

use super::storage::StorageError;
use crate::log::ship::LogFailure;
use crate::recovery::RecoveryError;
use crate::tables::schema::SchemaError;
use crate::txn::TxnError;

/// Why a pod could not be made, opened, joined, filled or left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DbError {
    /// The memory could not be made or opened.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The pod in it is not as it should be.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// A table cannot be as it was declared.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The engine failed.
    #[error(transparent)]
    Txn(#[from] TxnError),
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] LogFailure),
    /// The pod's files cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The pod's files cannot be read or written.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The host has no log and no checkpoints.
    #[error("this host has no storage: join with some")]
    NoStorage,
    /// What was asked for is given up: the host leaves the pod.
    #[error("the host leaves the pod")]
    Leaves,
    /// A thread that kept the host in the pod has panicked. To the others it is dead.
    #[error("{0}")]
    Failed(String),
}
