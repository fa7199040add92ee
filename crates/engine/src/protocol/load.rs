//! Filling a host before it is used. Nobody else works on it meanwhile.

use liger_fabric::{Cx, Fabric};

use crate::protocol::engine::HostEngine;
use crate::protocol::relational::each_of;
use crate::protocol::replicas::ReplicasToBe;
use crate::tables::record::NewRow;
use crate::txn::{TableId, TxnError};

/// Puts rows into the partitions of one host, without locks or transactions.
///
/// Rows of other hosts' partitions are passed over, so that every host can be given the same rows. Replicated
/// tables become visible with [`Loader::finish`].
pub struct Loader<'h, E> {
    host: &'h E,
    replicas: ReplicasToBe,
}

impl<'h, E: HostEngine> Loader<'h, E> {
    /// A loader for this host.
    pub fn new(host: &'h E) -> Self {
        Self { host, replicas: ReplicasToBe::default() }
    }

    /// Adds a row and its index entries where they belong to this host.
    ///
    /// # Errors
    /// If the row is not the table's, is there already, or there is no room.
    pub fn put<F: Fabric>(&mut self, cx: &Cx<F>, table: TableId, row: &NewRow) -> Result<(), TxnError> {
        let Self { host, replicas } = self;
        each_of(host.catalog(), table, row, |relation, key, bytes| {
            if relation.replicated {
                return replicas.add(relation, key, 0, bytes);
            }
            let at = relation.at(key, host.partition_count());
            if host.fills(at.partition) { host.put(cx, at, key, bytes) } else { Ok(()) }
        })
    }

    /// Makes the replicated tables visible.
    pub fn finish<F: Fabric>(self, cx: &Cx<F>) {
        self.replicas.finish(cx, self.host.replicas());
    }
}
