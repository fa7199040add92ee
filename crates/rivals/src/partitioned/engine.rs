//! A host of a partitioned pod as an engine.

use std::sync::atomic::Ordering;

use liger_engine::protocol::{HostEngine, Replicas, Rival, Show, each_key};
use liger_engine::{At, Catalog, Key, Relation, Row, TxnError};
use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::PodError;
use liger_pod::plan::PartitionId;
use liger_store::local::RowFlags;

use super::{PartHost, PartSession};

impl HostEngine for PartHost {
    type Session<'h, F: Fabric + 'h> = PartSession<'h, F>;

    fn id(&self) -> HostId {
        self.me
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    #[inline]
    fn partition_count(&self) -> u16 {
        self.plan.config().partitions
    }

    fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    fn session<'h, F: Fabric>(&'h self, cx: &'h Cx<F>) -> PartSession<'h, F> {
        PartSession::new(cx, self)
    }

    fn attend<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let handled = self.serve(cx);
        self.housekeep(cx);
        handled
    }

    fn stand_in<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let handled = self.drain_mail(cx);
        self.housekeep(cx);
        handled
    }

    fn is_helped(&self) -> bool {
        self.is_carried()
    }

    fn help<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.carry(cx)
    }

    fn fills(&self, partition: PartitionId) -> bool {
        self.owner(partition) == self.me
    }

    fn put<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<(), TxnError> {
        let full = TxnError::OutOfMemory { what: "rows of a partition", needed_bytes: bytes.len() as u64 };
        let mut latched = self.partition(cx, at.partition);
        let part = latched.table(at.table());
        let row = part.rows.alloc().ok_or(full)?;
        if part.tree.insert(key.words(), row).is_err() {
            part.rows.free(row);
            return Err(TxnError::DuplicateKey { index: at.table() });
        }
        part.rows.bytes_mut(row).copy_from_slice(bytes);
        part.rows.set_flags(row, RowFlags::LIVE);
        Ok(())
    }

    fn each_own<F: Fabric>(&self, cx: &Cx<F>, of: &Relation, show: Show<'_>) -> Result<(), TxnError> {
        for partition in self.own_partitions() {
            let mut latched = self.partition(cx, partition);
            let part = latched.table(of.id);
            each_key(&part.tree, |key, row| show(&key, Row::new(part.rows.bytes(row))));
        }
        Ok(())
    }

    fn problems<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, TxnError> {
        Ok(self.check(cx))
    }

    fn backlog<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.unsent(cx)
    }

    fn mark_fenced(&self) {
        self.fenced.store(true, Ordering::Relaxed);
    }
}

impl Rival for PartHost {
    fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Relaxed)
    }

    /// Its rows go with it: call it when the pod comes to rest.
    fn leave<F: Fabric>(self, cx: &Cx<F>) -> Result<(), PodError> {
        self.member.leave(cx)?.finish(cx)
    }
}
