//! One worker's door to the memory servers.

use liger_fabric::{Cx, Fabric, Work};

use super::host::MotorHost;
use super::transaction::MotorTxn;
use liger_engine::{Session, TxnError};

/// Runs one worker's transactions. There is no log: nothing is durable.
pub struct MotorSession<'h, F: Fabric> {
    txn: MotorTxn<'h, F>,
}

impl<'h, F: Fabric> MotorSession<'h, F> {
    /// The session of the caller's worker.
    pub fn new(cx: &'h Cx<F>, host: &'h MotorHost) -> Self {
        assert_eq!(cx.host(), host.me, "a worker uses its own host's engine");
        Self { txn: MotorTxn::new(cx, host) }
    }
}

impl<'h, F: Fabric> Session for MotorSession<'h, F> {
    type Txn = MotorTxn<'h, F>;

    fn attempt<R>(
        &mut self,
        body: impl FnOnce(&mut Self::Txn) -> Result<R, TxnError>,
    ) -> Result<R, TxnError> {
        let txn = &mut self.txn;
        txn.begin();
        txn.cx.spend(Work::Transaction, 1);
        let ended = match body(txn) {
            Ok(result) => txn.commit().map(|()| result),
            Err(error) => Err(error),
        };
        if ended.is_err() {
            txn.abort();
        }
        txn.end();
        ended
    }

    fn back_off(&mut self, conflicts: u32) {
        let turns = self.txn.cx.random_below(1 << conflicts.min(6));
        (0..turns).for_each(|_| self.pause());
    }

    fn pause(&mut self) {
        self.txn.cx.pause();
    }
}
