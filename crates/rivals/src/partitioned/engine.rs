//! A host of a partitioned pod as an engine.

use liger_engine::engine::{Emit, HostEngine, Rival};
use liger_engine::{Row, TableId, TxnError};
use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::PodError;

use super::{PartHost, PartLoader, PartSession};

impl HostEngine for PartHost {
    type Session<'h, F: Fabric + 'h> = PartSession<'h, F>;

    fn id(&self) -> HostId {
        PartHost::id(self)
    }

    fn partition_count(&self) -> u16 {
        PartHost::partition_count(self)
    }

    fn session<'h, F: Fabric>(&'h self, cx: &'h Cx<F>) -> PartSession<'h, F> {
        PartSession::new(cx, self)
    }

    fn attend<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        PartHost::attend(self, cx)
    }

    fn stand_in<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let handled = self.settle(cx);
        self.housekeep(cx);
        handled
    }

    fn is_helped(&self) -> bool {
        self.is_carried()
    }

    fn help<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.carry(cx)
    }

    fn load<F: Fabric>(
        &self,
        cx: &Cx<F>,
        fill: impl FnOnce(Emit<'_>) -> Result<(), TxnError>,
    ) -> Result<(), TxnError> {
        let mut loader = PartLoader::new(self);
        fill(&mut |table, row| loader.put(cx, table, row))?;
        loader.finish(cx);
        Ok(())
    }

    /// Nothing is shared here.
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
        Ok(self.check(cx))
    }

    fn backlog<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.unsent(cx)
    }

    fn overrule(&self) {
        PartHost::overrule(self);
    }
}

impl Rival for PartHost {
    fn is_overruled(&self) -> bool {
        PartHost::is_overruled(self)
    }

    fn leave<F: Fabric>(self, cx: &Cx<F>) -> Result<(), PodError> {
        PartHost::leave(self, cx)
    }
}
