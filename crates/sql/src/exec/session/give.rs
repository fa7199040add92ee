//! Rows and bytes for the client, one after the other.

use super::LocalSession;
use crate::error::Result;
use crate::exec::store::Store;
use crate::session::{Sink, WaitEvent};
use crate::types::context::EvalContext;
use crate::types::value::Value;

impl<S: Store> LocalSession<S> {
    /// Tells a row.
    pub(in crate::exec) fn give(
        &self,
        context: &EvalContext<'_>,
        row: &[Value],
        sink: &mut dyn Sink,
    ) -> Result<()> {
        sink.row(context, row)?;
        self.send(sink)
    }

    /// Sends what has gathered, if that is much. While the client takes nothing, the statement has no worker.
    pub(in crate::exec) fn send(&self, sink: &mut dyn Sink) -> Result<()> {
        let mut waited = false;
        let sent = sink.send(&mut || {
            waited = true;
            self.store.rest();
            self.start.interrupt.show(WaitEvent::Client);
        });
        if waited {
            self.start.interrupt.show(WaitEvent::Here);
        }
        sent
    }
}
