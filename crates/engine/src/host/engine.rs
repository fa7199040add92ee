//! A host, as an engine, and as what recovery asks for rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::plan::PartitionId;

use super::{Host, HostSession};
use crate::catalog::{At, Catalog, Relation};
use crate::instance::Instance;
use crate::method::{Checked, Method};
use crate::protocol::engine::{HostEngine, Show};
use crate::protocol::replicas::Replicas;
use crate::recovery::directory::PodFiles;
use crate::recovery::{CopiedUpTo, CopiesRows, RecoveryError, RestoreStep, RestoresRows, Stored};
use crate::tables::key::Key;
use crate::txn::{TableId, TxnError};

impl<M: Method> HostEngine for Host<M> {
    type Session<'h, F: Fabric + 'h> = HostSession<'h, F, M>;

    fn id(&self) -> HostId {
        self.instance.id()
    }

    fn catalog(&self) -> &Catalog {
        self.instance.catalog()
    }

    fn partition_count(&self) -> u16 {
        self.instance.partition_count()
    }

    fn replicas(&self) -> &Replicas {
        Host::replicas(self)
    }

    fn session<'h, F: Fabric>(&'h self, cx: &'h Cx<F>) -> HostSession<'h, F, M> {
        HostSession::new(cx, self)
    }

    fn attend<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        Host::attend(self, cx)
    }

    fn idle_ns<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        self.instance.idle_ns(cx)
    }

    fn fills(&self, partition: PartitionId) -> bool {
        self.owns(partition)
    }

    fn put<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<(), TxnError> {
        self.method.put(cx, at, key, bytes)
    }

    fn share<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId], part: f64) -> Result<u64, TxnError> {
        tables.iter().try_for_each(|&table| self.restore_for(cx, table))?;
        self.method.share(cx, tables, part)
    }

    fn warm_up<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId]) -> Result<(), TxnError> {
        self.method.warm_up(cx, tables)
    }

    fn each_own<F: Fabric>(&self, cx: &Cx<F>, of: &Relation, show: Show<'_>) -> Result<(), TxnError> {
        self.restore_for(cx, of.id)?;
        self.own_partitions().try_for_each(|partition| self.method.each(cx, of, partition, show))
    }

    fn problems<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, TxnError> {
        let mut problems = self.check(cx).problems;
        problems.extend(self.check_entries(cx)?);
        Ok(problems)
    }

    fn backlog<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.instance.backlog(cx)
    }

    fn mark_fenced(&self) {
        Instance::mark_fenced(&self.instance);
    }
}

impl<M: Method> CopiesRows for Host<M> {
    fn copy_rows<F: Fabric>(
        &self,
        cx: &Cx<F>,
        place: (PartitionId, TableId),
        from: &Key,
        most: usize,
        copy: impl FnMut(&Key, u64, &[u8]),
    ) -> CopiedUpTo {
        self.method.copy_rows(cx, place, from, most, copy)
    }

    fn files(&self) -> Option<&PodFiles> {
        self.files.as_ref()
    }
}

impl<M: Method> RestoresRows for Host<M> {
    fn mark_unrestored<F: Fabric>(&self, cx: &Cx<F>, partition: PartitionId, stored: &Arc<Stored>) {
        self.method.mark_unrestored(cx, partition, stored);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        self.method.is_whole()
    }

    fn restore_some<F: Fabric>(&self, cx: &Cx<F>) -> Result<RestoreStep, RecoveryError> {
        self.method.restore_some(cx)
    }
}

impl<M: Method> Host<M> {
    /// Makes everything that is left of this host's partitions; `poll` is called in between.
    ///
    /// # Errors
    /// What cannot be made, when everything else is.
    pub fn restore_all<F: Fabric>(&self, cx: &Cx<F>, mut poll: impl FnMut()) -> Result<(), RecoveryError> {
        self.method.restore_all(cx, &mut poll)
    }

    /// Makes all rows that are not here yet, for somebody who wants those of a table.
    pub(crate) fn restore_for<F: Fabric>(&self, cx: &Cx<F>, table: TableId) -> Result<(), TxnError> {
        self.restore_all(cx, || _ = self.attend(cx)).map_err(|why| why.of_rows(table))
    }

    /// Checks this host's partitions and its part of the shared memory. Reclamation should have caught up;
    /// what is still waiting for a grace period is reported as a leak.
    pub fn check<F: Fabric>(&self, cx: &Cx<F>) -> Checked {
        let (mut checked, mut in_use) = (Checked::default(), BTreeSet::new());
        checked.problems.extend(self.damage().map(ToString::to_string));
        if self.restore_all(cx, || _ = self.attend(cx)).is_err() {
            checked.problems.extend(self.method.faults(cx));
        }
        self.method.check(cx, &mut checked, &mut in_use);
        for class in self.heap.audit(cx, &in_use).classes {
            if !class.leaked.is_empty() || !class.dangling.is_empty() {
                let (leaked, dangling) = (class.leaked.len(), class.dangling.len());
                let first = class.leaked.first().or(class.dangling.first()).copied().unwrap_or(0);
                let class = class.class;
                checked
                    .problems
                    .push(format!("{class}: {leaked} leaked, {dangling} dangling, the first at {first:#x}"));
            }
        }
        checked
    }
}
