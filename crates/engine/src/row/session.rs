//! One worker's door to the row engine.

use std::sync::atomic::Ordering;

use liger_fabric::{Cx, Fabric, Work};

use super::host::RowHost;
use super::transaction::RowTxn;
use crate::log::Durability;
use crate::txn::{Session, Ticket, TxnError};

/// Transactions between two rounds of housekeeping.
const TXNS_PER_ROUND: u32 = 64;

/// Runs one worker's transactions, and serves other hosts between them.
pub struct RowSession<'h, F: Fabric> {
    txn: RowTxn<'h, F>,
    runs: u32,
    last: Ticket,
    durability: Durability,
}

impl<'h, F: Fabric> RowSession<'h, F> {
    /// The session of the caller's worker.
    pub fn new(cx: &'h Cx<F>, host: &'h RowHost) -> Self {
        assert_eq!(cx.host(), host.id(), "a worker uses its own host's engine");
        let (last, durability) = (Ticket::default(), Durability::default());
        Self { txn: RowTxn::new(cx, host), runs: 0, last, durability }
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
        let turns = &host.turns[usize::from(cx.worker().0)].0;
        // Before the first look at who owns what: who takes a partition over waits for this transaction.
        turns.fetch_add(1, Ordering::SeqCst);
        let ended = match body(&mut self.txn) {
            Ok(result) => self.txn.commit().map(|epoch| {
                self.last = Ticket(epoch);
                result
            }),
            Err(error) => {
                self.txn.abort();
                Err(error)
            }
        };
        turns.fetch_add(1, Ordering::SeqCst);
        ended
    }

    fn ticket(&self) -> Ticket {
        self.last
    }

    fn is_durable(&mut self, ticket: Ticket) -> Result<bool, TxnError> {
        let (cx, host) = (self.txn.cx, self.txn.host);
        match &host.log {
            Some(log) => log.is_durable(cx, ticket.0, || host.members(cx)).map_err(|_| TxnError::LogFailed),
            None => Ok(true),
        }
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    fn back_off(&mut self, conflicts: u32) {
        let turns = self.txn.cx.random_below(1 << conflicts.min(6));
        for _ in 0..turns {
            self.wait_a_turn();
        }
    }

    fn wait_a_turn(&mut self) {
        self.txn.host.serve_waiting(self.txn.cx);
        self.txn.cx.pause();
    }
}
