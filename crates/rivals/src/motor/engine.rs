//! A host whose rows are in memory servers, as an engine.

use liger_engine::engine::{Emit, HostEngine};
use liger_engine::{Row, TableId, TxnError};
use liger_fabric::{Cx, Fabric, HostId};

use super::{MotorHost, MotorLoader, MotorSession};

impl HostEngine for MotorHost {
    type Session<'h, F: Fabric + 'h> = MotorSession<'h, F>;

    fn id(&self) -> HostId {
        MotorHost::id(self)
    }

    fn partition_count(&self) -> u16 {
        MotorHost::partition_count(self)
    }

    fn session<'h, F: Fabric>(&'h self, cx: &'h Cx<F>) -> MotorSession<'h, F> {
        MotorSession::new(cx, self)
    }

    /// Nobody asks a compute server for anything.
    fn attend<F: Fabric>(&self, _cx: &Cx<F>) -> usize {
        0
    }

    fn load<F: Fabric>(
        &self,
        cx: &Cx<F>,
        fill: impl FnOnce(Emit<'_>) -> Result<(), TxnError>,
    ) -> Result<(), TxnError> {
        let mut loader = MotorLoader::new(self);
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
        Ok(self.check(cx))
    }

    fn backlog<F: Fabric>(&self, _cx: &Cx<F>) -> usize {
        0
    }

    /// It is no member of any pod, and has no heart.
    fn overrule(&self) {}
}
