//! What those who run a pod may know of a host: counts of transactions, a snapshot of the pod, statements.
//!
//! ```text
//!   workers ----> counts (each its own line)      \
//!   worker 0 ---> the snapshot, four times a second  >---- system tables, /metrics, `liger status`
//!   sessions ---> counts of statements            /
//! ```
//!
//! Invariants:
//! 1. Who works takes no lock for this and allocates nothing: a counter has one writer, or is for what is
//!    rare.
//! 2. Nobody decides anything by what is here: it may be a moment old, and torn between two counters.

mod render;
mod statements;
mod status;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use liger_engine::Conflict;
use liger_engine::instance::{Wait, Waits};

pub use render::NAMES;
pub use statements::{Counted, StatementFigures, Statements};
pub use status::{HostStatus, LogStatus, MemoryStatus, StatusSnapshot, StatusWriter};

use crate::error::SqlError;
use crate::temporary::TemporaryTotals;

/// Most workers of a host.
const WORKERS_MAX: usize = 32;

/// Counts of one worker; it alone writes them.
#[derive(Debug, Default)]
#[repr(align(64))]
struct WorkerCounts {
    committed: AtomicU64,
    rolled_back: AtomicU64,
    rows: AtomicU64,
}

/// Adds to a counter that has one writer.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// What is known of a host. All of it counts from the host's start.
#[derive(Debug)]
pub struct Observed {
    workers: [WorkerCounts; WORKERS_MAX],
    conflicts: [AtomicU64; Conflict::ALL.len()],
    turns: AtomicU64,
    too_old: AtomicU64,
    calls: AtomicU64,
    snapshot: Mutex<Arc<StatusSnapshot>>,
    waits: OnceLock<Waits>,
    first_port: OnceLock<u16>,
    statements: Statements,
    temporary: Arc<TemporaryTotals>,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            workers: std::array::from_fn(|_| WorkerCounts::default()),
            conflicts: Default::default(),
            turns: AtomicU64::new(0),
            too_old: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            snapshot: Mutex::default(),
            waits: OnceLock::new(),
            first_port: OnceLock::new(),
            statements: Statements::default(),
            temporary: Arc::default(),
        }
    }
}

impl Observed {
    /// Counts a transaction of a session that has ended on this worker.
    pub(crate) fn count(&self, worker: u8, committed: bool) {
        let own = &self.workers[usize::from(worker)];
        add(if committed { &own.committed } else { &own.rolled_back }, 1);
    }

    /// Counts rows and index entries that a statement on this worker has visited.
    pub(crate) fn count_rows(&self, worker: u8, rows: u64) {
        add(&self.workers[usize::from(worker)].rows, rows);
    }

    /// Counts a conflict that an error tells of.
    pub(crate) fn count_conflict(&self, error: &SqlError) {
        let told = error.detail.as_deref().unwrap_or_default();
        if let Some(kind) = Conflict::ALL.iter().find(|kind| told.ends_with(kind.name())) {
            self.conflicts[kind.index()].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a statement that came too late for what its snapshot shows.
    pub(crate) fn count_too_old(&self) {
        self.too_old.fetch_add(1, Ordering::Relaxed);
    }

    /// Such statements.
    pub fn too_old(&self) -> u64 {
        self.too_old.load(Ordering::Relaxed)
    }

    /// Counts a transaction that begins in its turn.
    pub(crate) fn count_turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Transactions that began in their turn, after conflicts of their session.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Transactions of sessions that were committed.
    pub fn committed(&self) -> u64 {
        self.workers.iter().map(|own| own.committed.load(Ordering::Relaxed)).sum()
    }

    /// Transactions of sessions that were rolled back, for whatever reason.
    pub fn rolled_back(&self) -> u64 {
        self.workers.iter().map(|own| own.rolled_back.load(Ordering::Relaxed)).sum()
    }

    /// Counts what a statement that has ended has called.
    pub(crate) fn called(&self, calls: u64) {
        self.calls.fetch_add(calls, Ordering::Relaxed);
    }

    /// Functions that statements have called, operators among them, and conditions that they have checked.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Rows and index entries that statements have visited, wanted or not.
    pub fn rows_visited(&self) -> u64 {
        self.workers.iter().map(|own| own.rows.load(Ordering::Relaxed)).sum()
    }

    /// Conflicts by kind; a transaction that was tried again counts for each time.
    pub fn conflicts(&self) -> impl Iterator<Item = (Conflict, u64)> + '_ {
        Conflict::ALL.iter().map(|kind| (*kind, self.conflicts[kind.index()].load(Ordering::Relaxed)))
    }

    /// What the host saw of the pod last.
    pub fn snapshot(&self) -> Arc<StatusSnapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, snapshot: StatusSnapshot) {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
    }

    /// What the transaction with this number waits for in the engine.
    pub fn waits_of(&self, number: u8) -> Wait {
        self.waits.get().map_or(Wait::None, |waits| waits.of(number))
    }

    /// Says at which port host 0 serves SQL; host 1 is behind it, and so on.
    pub fn set_first_port(&self, port: u16) {
        // It is told once, when the host starts.
        let _ = self.first_port.set(port);
    }

    /// Temporary files that have ended.
    pub fn temporary(&self) -> &Arc<TemporaryTotals> {
        &self.temporary
    }

    /// Counts of statements.
    pub fn statements(&self) -> &Statements {
        &self.statements
    }
}

#[cfg(test)]
mod tests {
    use liger_engine::TxnError;

    use super::*;

    #[test]
    fn conflicts_are_counted_by_kind() {
        let observed = Observed::default();
        for kind in Conflict::ALL {
            observed.count_conflict(&TxnError::Conflict(kind).into());
        }
        observed.count_conflict(&SqlError::unsupported("nothing", "Do something."));
        assert!(observed.conflicts().all(|(_, count)| count == 1));
        observed.count(3, true);
        observed.count(31, true);
        observed.count(3, false);
        assert_eq!((observed.committed(), observed.rolled_back()), (2, 1));
    }
}
