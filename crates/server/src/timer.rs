//! The clock of a statement: `statement_timeout`, as PostgreSQL 15 counts it.
//!
//! ```text
//!   simple query:   from the message; from the end of a statement on for the next one
//!   series:         from the first Parse, Bind, Describe or Execute at which no clock runs,
//!                   to the end of what an Execute runs, or to Sync
//! ```
//!
//! Invariant: when a clock has been stopped, it raises nothing any more, and what it had raised is forgotten.

use std::sync::Arc;
use std::time::Duration;

use liger_sql::session::InterruptReason;

use crate::parking::{DeadlineKey, Parking};
use crate::peer::Peer;

/// The clock of the statement that a connection carries out, if one runs.
pub(crate) struct StatementTimer {
    parking: Arc<Parking>,
    peer: Arc<Peer>,
    deadline: Option<DeadlineKey>,
}

impl StatementTimer {
    pub(crate) fn new(parking: Arc<Parking>, peer: Arc<Peer>) -> Self {
        Self { parking, peer, deadline: None }
    }

    /// Lets a clock run, the one that runs or a new one of so many milliseconds; with 0 none does.
    pub(crate) fn run(&mut self, statement_ms: u64) {
        if statement_ms == 0 {
            self.stop();
        } else if self.deadline.is_none() {
            let after = Duration::from_millis(statement_ms);
            self.deadline =
                Some(self.parking.raise_after(&self.peer, after, InterruptReason::StatementTimeout));
        }
    }

    pub(crate) fn stop(&mut self) {
        if let Some(deadline) = self.deadline.take() {
            self.parking.unset(deadline);
            self.peer.interrupt.forget_timeout();
        }
    }
}

impl Drop for StatementTimer {
    fn drop(&mut self) {
        self.stop();
    }
}
