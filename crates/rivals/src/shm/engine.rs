//! A host of a pod whose rows are all shared, as an engine.

use liger_engine::engine::{Emit, HostEngine, Rival};
use liger_engine::{Row, TableId, TxnError};
use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::PodError;

use super::{ShmHost, ShmLoader, ShmSession};

impl HostEngine for ShmHost {
    type Session<'h, F: Fabric + 'h> = ShmSession<'h, F>;

    fn id(&self) -> HostId {
        ShmHost::id(self)
    }

    fn partition_count(&self) -> u16 {
        ShmHost::partition_count(self)
    }

    fn session<'h, F: Fabric>(&'h self, cx: &'h Cx<F>) -> ShmSession<'h, F> {
        ShmSession::new(cx, self)
    }

    /// Nobody asks another host for anything.
    fn attend<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.housekeep(cx);
        0
    }

    fn load<F: Fabric>(
        &self,
        cx: &Cx<F>,
        fill: impl FnOnce(Emit<'_>) -> Result<(), TxnError>,
    ) -> Result<(), TxnError> {
        let mut loader = ShmLoader::new(self);
        fill(&mut |table, row| loader.put(cx, table, row))?;
        loader.finish(cx);
        Ok(())
    }

    /// Everything is.
    fn share<F: Fabric>(&self, _cx: &Cx<F>, _tables: &[TableId], _part: f64) -> Result<u64, TxnError> {
        Ok(0)
    }

    fn each_row<F: Fabric>(
        &self,
        cx: &Cx<F>,
        table: TableId,
        mut visit: impl FnMut(Row<'_>),
    ) -> Result<(), TxnError> {
        self.for_each_row(cx, table, |_, row| visit(row))
    }

    fn problems<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, TxnError> {
        let checked = self.check(cx)?;
        let left = checked.dead_entries;
        let left = (left > 0).then(|| format!("{left} entries of removed rows are left"));
        Ok(checked.problems.into_iter().chain(left).collect())
    }

    fn backlog<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        ShmHost::backlog(self, cx)
    }

    fn overrule(&self) {
        ShmHost::overrule(self);
    }
}

impl Rival for ShmHost {
    fn is_overruled(&self) -> bool {
        ShmHost::is_overruled(self)
    }

    fn leave<F: Fabric>(self, cx: &Cx<F>) -> Result<(), PodError> {
        ShmHost::leave(self, cx)
    }
}
