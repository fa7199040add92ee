//! What recovery asks of whoever keeps a host's rows: to show them for an image, and to take what images and
//! logs hold of them.
//!
//! Rows that come back are made when somebody wants them, or, when nobody does, by
//! [`RestoresRows::restore_some`]; until then a partition is *unrestored*. Recovery itself knows no access
//! method.

use std::ops::Deref;
use std::sync::Arc;

use liger_fabric::{Cx, Fabric};
use liger_pod::plan::PartitionId;

use super::directory::PodFiles;
use super::error::RecoveryError;
use super::stored::Stored;
use crate::instance::Instance;
use crate::protocol::engine::HostEngine;
use crate::tables::key::Key;
use crate::txn::TableId;

/// How far a copy of a table's share of a partition has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopiedUpTo {
    /// To the end.
    End,
    /// It goes on with this key.
    Before(Key),
    /// The row with this key is locked: serve other hosts, and try again from it.
    Locked(Key),
}

/// A step of making what nobody asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreStep {
    /// Something was made, or there is more to look at.
    Worked,
    /// All others are made; some could not be.
    Stuck,
    /// Everything is in its partition.
    Whole,
}

/// Shows rows for an image.
pub trait CopiesRows: HostEngine + Deref<Target = Instance> {
    /// Shows up to `most` rows of a table's share of a partition of this host, from the key `from` on, with
    /// their versions. Each is some committed version, and has everything that committed before this call.
    fn copy_rows<F: Fabric>(
        &self,
        cx: &Cx<F>,
        place: (PartitionId, TableId),
        from: &Key,
        most: usize,
        copy: impl FnMut(&Key, u64, &[u8]),
    ) -> CopiedUpTo;

    /// Where the files of all hosts are; `None`: partitions of this pod stay with the hosts that they were
    /// made for.
    fn files(&self) -> Option<&PodFiles>;
}

/// Takes rows from images and logs.
pub trait RestoresRows: HostEngine + Deref<Target = Instance> {
    /// Marks a partition of this host as unrestored: it is empty, and nobody uses it.
    ///
    /// # Panics
    /// If it is not empty.
    fn mark_unrestored<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, stored: &Arc<Stored>);

    /// True if every row of this host's partitions is in them.
    fn is_whole(&self) -> bool;

    /// Makes something of what is left, in order; what could not be made is tried again after all else.
    ///
    /// # Errors
    /// If it cannot be made: the next call goes on behind it.
    fn restore_some<F: Fabric>(&self, cx: &Cx<F>) -> Result<RestoreStep, RecoveryError>;
}

/// Both.
pub trait Recoverable: CopiesRows + RestoresRows {}

impl<T: CopiesRows + RestoresRows> Recoverable for T {}
