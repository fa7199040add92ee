//! One worker's door to rows in shared memory.

use liger_fabric::{Cx, Fabric, Work};

use super::host::ShmHost;
use super::transaction::ShmTxn;
use liger_engine::protocol::{HostEngine, Rival};
use liger_engine::{Session, TxnError};

/// Names of the steps that a mutation test can leave out of this file.
pub const SABOTAGE_STEPS: &[&str] = &["shm.pin"];

/// Transactions between two rounds of housekeeping.
const TXNS_PER_ROUND: u32 = 64;

/// Runs one worker's transactions. There is no log: nothing is durable.
pub struct ShmSession<'h, F: Fabric> {
    txn: ShmTxn<'h, F>,
    runs: u32,
}

impl<'h, F: Fabric> ShmSession<'h, F> {
    /// The session of the caller's worker.
    pub fn new(cx: &'h Cx<F>, host: &'h ShmHost) -> Self {
        assert_eq!(cx.host(), host.id(), "a worker uses its own host's engine");
        Self { txn: ShmTxn::new(cx, host), runs: 0 }
    }
}

impl<'h, F: Fabric> Session for ShmSession<'h, F> {
    type Txn = ShmTxn<'h, F>;

    fn attempt<R>(
        &mut self,
        body: impl FnOnce(&mut Self::Txn) -> Result<R, TxnError>,
    ) -> Result<R, TxnError> {
        let (cx, host) = (self.txn.cx, self.txn.host);
        self.runs = self.runs.wrapping_add(1);
        if self.runs.is_multiple_of(TXNS_PER_ROUND) {
            host.housekeep(cx);
        }
        if host.is_fenced() {
            return Err(TxnError::Fenced);
        }
        cx.spend(Work::Transaction, 1);
        // What the transaction has found stays what it is until its end.
        let _pin = (!cx.sabotaged("shm.pin")).then(|| host.epochs.pin(cx));
        self.txn.begin();
        match body(&mut self.txn) {
            Ok(result) => self.txn.commit().map(|()| result),
            Err(error) => Err(self.txn.give_up(error)),
        }
    }

    fn back_off(&mut self, conflicts: u32) {
        let turns = self.txn.cx.random_below(1 << conflicts.min(6));
        (0..turns).for_each(|_| self.pause());
    }

    fn pause(&mut self) {
        self.txn.host.pause(self.txn.cx);
    }
}
