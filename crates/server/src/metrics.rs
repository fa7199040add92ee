//! What the server counts, and its text for a Prometheus scraper.
//!
//! Invariants:
//! 1. Counters only rise. A connection adds its counts when it answers, not at every message.
//! 2. Nothing here takes a lock on the path of a statement that succeeds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use liger_sql::error::{SqlError, SqlState};

/// Counters since the server started.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections that ended.
    pub connections_closed: AtomicU64,
    /// Connections turned away because there were too many.
    pub connections_refused: AtomicU64,
    /// Log-ins that failed.
    pub logins_failed: AtomicU64,
    /// Cancel requests, for whomever.
    pub cancel_requests: AtomicU64,
    /// Messages of clients after their start-up.
    pub messages: AtomicU64,
    /// Times a client was told that the server waits for it: statements or series of them.
    pub ready: AtomicU64,
    /// Bytes of clients, without TLS's own.
    pub bytes_in: AtomicU64,
    /// Bytes to clients, without TLS's own.
    pub bytes_out: AtomicU64,
    /// Times that a connection gave its thread back because its client was silent.
    pub rests: AtomicU64,
    /// Threads started.
    pub threads: AtomicU64,
    /// Sessions that ended by a panic: bugs.
    pub panics: AtomicU64,
    errors: Mutex<BTreeMap<SqlState, u64>>,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Metrics {
    /// Counts an error that a client was told of.
    pub fn count_error(&self, error: &SqlError) {
        let mut errors = self.errors.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *errors.entry(error.state).or_insert(0) += 1;
    }

    /// Errors that clients were told of, by code.
    pub fn errors(&self) -> BTreeMap<SqlState, u64> {
        self.errors.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// All counters in Prometheus' text format.
    pub fn render(&self) -> String {
        let counters = [
            ("connections_total", "Connections accepted", &self.connections),
            ("connections_closed_total", "Connections that ended", &self.connections_closed),
            ("connections_refused_total", "Connections turned away: too many", &self.connections_refused),
            ("logins_failed_total", "Log-ins that failed", &self.logins_failed),
            ("cancel_requests_total", "Cancel requests", &self.cancel_requests),
            ("messages_total", "Messages of clients after their start-up", &self.messages),
            ("ready_total", "Times a client was told that the server waits for it", &self.ready),
            ("received_bytes_total", "Bytes of clients", &self.bytes_in),
            ("sent_bytes_total", "Bytes to clients", &self.bytes_out),
            ("rests_total", "Times a silent connection gave its thread back", &self.rests),
            ("threads_total", "Threads started for connections", &self.threads),
            ("panics_total", "Sessions that ended by a panic", &self.panics),
        ];
        let mut text = String::new();
        let mut line = |name: &str, help: &str, value: u64| {
            let _ = write!(text, "# HELP liger_sql_{name} {help}\n# TYPE liger_sql_{name} counter\n");
            let _ = writeln!(text, "liger_sql_{name} {value}");
        };
        for (name, help, counter) in counters {
            line(name, help, counter.load(Ordering::Relaxed));
        }
        text.push_str("# HELP liger_sql_errors_total Errors that clients were told of\n");
        text.push_str("# TYPE liger_sql_errors_total counter\n");
        for (state, count) in self.errors() {
            let _ = writeln!(text, "liger_sql_errors_total{{sqlstate=\"{state}\"}} {count}");
        }
        text
    }
}
