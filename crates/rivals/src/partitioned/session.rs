//! One worker's door to a partitioned pod.

use liger_fabric::{Cx, Fabric, Work};

use super::host::PartHost;
use super::transaction::PartTxn;
use liger_engine::protocol::{HostEngine, Rival};
use liger_engine::{Session, Ticket, TxnError};

/// Transactions between two rounds of housekeeping.
const TXNS_PER_ROUND: u32 = 64;

/// Runs one worker's transactions, and serves other hosts between them. Without a log nothing is durable.
pub struct PartSession<'h, F: Fabric> {
    txn: PartTxn<'h, F>,
    runs: u32,
    last: Ticket,
}

impl<'h, F: Fabric> PartSession<'h, F> {
    /// The session of the caller's worker.
    pub fn new(cx: &'h Cx<F>, host: &'h PartHost) -> Self {
        assert_eq!(cx.host(), host.id(), "a worker uses its own host's engine");
        Self { txn: PartTxn::new(cx, host), runs: 0, last: Ticket::default() }
    }

    /// Serves other hosts once; for workers that have nothing to run. Returns the number of messages handled.
    pub fn serve(&mut self) -> usize {
        self.txn.host.attend(self.txn.cx)
    }
}

impl<'h, F: Fabric> Session for PartSession<'h, F> {
    type Txn = PartTxn<'h, F>;

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
        if host.is_fenced() {
            return Err(TxnError::Fenced);
        }
        cx.spend(Work::Transaction, 1);
        self.txn.begin();
        match body(&mut self.txn) {
            Ok(result) => {
                self.txn.commit()?;
                self.last = Ticket::of_epoch(self.txn.epoch);
                Ok(result)
            }
            Err(error) => Err(self.txn.give_up(error)),
        }
    }

    fn ticket(&self) -> Ticket {
        self.last
    }

    fn is_durable(&mut self, ticket: Ticket) -> Result<bool, TxnError> {
        let cx = self.txn.cx;
        let Some(log) = &self.txn.host.log else { return Ok(true) };
        log.log.is_durable(cx, ticket.epoch(), || log.members(cx)).map_err(|_| TxnError::LogFailed)
    }

    fn want_durable(&mut self, ticket: Ticket) {
        if let Some(log) = &self.txn.host.log {
            log.log.want(self.txn.cx, ticket.epoch());
        }
    }

    fn back_off(&mut self, conflicts: u32) {
        let turns = self.txn.cx.random_below(1 << conflicts.min(6));
        (0..turns).for_each(|_| self.pause());
    }

    fn pause(&mut self) {
        self.txn.host.serve(self.txn.cx);
        self.txn.cx.pause();
    }
}
