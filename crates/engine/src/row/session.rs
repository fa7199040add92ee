//! One worker's door to the row engine.

use liger_fabric::{Cx, Fabric, Work};

use super::host::RowHost;
use super::transaction::RowTxn;
use crate::txn::{Session, TxnError};

/// Transactions between two rounds of housekeeping.
const TXNS_PER_ROUND: u32 = 64;

/// Runs one worker's transactions, and serves other hosts between them.
pub struct RowSession<'h, F: Fabric> {
    txn: RowTxn<'h, F>,
    runs: u32,
}

impl<'h, F: Fabric> RowSession<'h, F> {
    /// The session of the caller's worker.
    pub fn new(cx: &'h Cx<F>, host: &'h RowHost) -> Self {
        assert_eq!(cx.host(), host.id(), "a worker uses its own host's engine");
        Self { txn: RowTxn::new(cx, host), runs: 0 }
    }

    /// Serves other hosts once; for workers that have nothing to run. Returns the number of messages handled.
    pub fn serve(&mut self) -> usize {
        self.txn.host.attend(self.txn.cx)
    }

    /// The host's engine.
    pub fn host(&self) -> &'h RowHost {
        self.txn.host
    }

    /// The worker's context.
    pub fn cx(&self) -> &'h Cx<F> {
        self.txn.cx
    }
}

impl<'h, F: Fabric> Session for RowSession<'h, F> {
    type Txn = RowTxn<'h, F>;

    fn attempt<R>(
        &mut self,
        body: impl FnOnce(&mut Self::Txn) -> Result<R, TxnError>,
    ) -> Result<R, TxnError> {
        let (cx, host) = (self.txn.cx, self.txn.host);
        host.serve(cx);
        self.runs = self.runs.wrapping_add(1);
        if self.runs.is_multiple_of(TXNS_PER_ROUND) {
            host.housekeep(cx);
        }
        if host.is_overruled() {
            return Err(TxnError::Fenced);
        }
        cx.spend(Work::Transaction, 1);
        let result = body(&mut self.txn);
        match result {
            Ok(_) => self.txn.commit(),
            Err(_) => self.txn.abort(),
        }
        result
    }

    fn back_off(&mut self, conflicts: u32) {
        let (cx, host) = (self.txn.cx, self.txn.host);
        let turns = cx.random_below(1 << conflicts.min(6));
        for _ in 0..turns {
            host.serve(cx);
            cx.pause();
        }
    }
}
