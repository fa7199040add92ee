//! A host of the row engine, as an engine.

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::plan::PartitionId;

use super::host::RowHost;
use super::load::add;
use super::partition::Mode;
use super::session::RowSession;
use crate::catalog::{At, Catalog, Relation};
use crate::instance::{Holder, Instance};
use crate::protocol::engine::{HostEngine, Show};
use crate::protocol::replicas::Replicas;
use crate::tables::key::Key;
use crate::tables::record::Row;
use crate::txn::{TableId, TxnError};

impl HostEngine for RowHost {
    type Session<'h, F: Fabric + 'h> = RowSession<'h, F>;

    fn id(&self) -> HostId {
        Instance::id(self)
    }

    fn catalog(&self) -> &Catalog {
        Instance::catalog(self)
    }

    fn partition_count(&self) -> u16 {
        Instance::partition_count(self)
    }

    fn replicas(&self) -> &Replicas {
        RowHost::replicas(self)
    }

    fn session<'h, F: Fabric>(&'h self, cx: &'h Cx<F>) -> RowSession<'h, F> {
        RowSession::new(cx, self)
    }

    fn attend<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        RowHost::attend(self, cx)
    }

    fn idle_ns<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        RowHost::idle_ns(self, cx)
    }

    fn fills(&self, partition: PartitionId) -> bool {
        self.owns(partition)
    }

    fn put<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<(), TxnError> {
        add(self.partition(cx, at.partition).table(at.table()), at.relation, key, 0, bytes)
    }

    fn share<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId], part: f64) -> Result<u64, TxnError> {
        self.share_first(cx, tables, part)
    }

    fn warm_up<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId]) -> Result<(), TxnError> {
        RowHost::warm_up(self, cx, tables)
    }

    fn each_own<F: Fabric>(&self, cx: &Cx<F>, of: &Relation, show: Show<'_>) -> Result<(), TxnError> {
        self.restore_for(cx, of.id)?;
        for partition in self.own_partitions() {
            let mut latched = self.partition(cx, partition);
            let part = latched.table(of.id);
            let mut at = part.tree.first();
            while let Some(cursor) = at {
                let (words, row) = part.tree.entry(cursor);
                let key = Key::from_words(words);
                part.lock(cx, self.shared, row, Holder::of(cx.worker()), Mode::Read, false)?;
                show(&key, Row::new(part.rows.bytes(row)));
                part.unlock(cx, self.shared, row, Holder::of(cx.worker()));
                at = part.tree.next(cursor);
            }
        }
        Ok(())
    }

    fn problems<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, TxnError> {
        let mut problems = self.check(cx).problems;
        problems.extend(self.check_entries(cx)?);
        Ok(problems)
    }

    fn backlog<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        RowHost::backlog(self, cx)
    }

    fn overrule(&self) {
        Instance::overrule(self);
    }
}
