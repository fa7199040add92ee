//! What a server counts. Counters only grow; they say what happened since the server started.
//!
//! Invariants:
//! 1. A connection counts for itself and adds up here when it answers, or rests; not at every message.
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
    /// Texts of the simple protocol and portals that were executed.
    pub statements: AtomicU64,
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
    /// How long clients waited for statements, or series of them.
    pub latency: Histogram,
    errors: Mutex<BTreeMap<SqlState, u64>>,
}

/// Upper ends of the steps of a histogram, microseconds; one more step is behind the last.
pub const STEPS_US: [u64; 16] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    5_000_000, 30_000_000,
];

/// How often something took how long.
#[derive(Debug, Default)]
pub struct Histogram {
    steps: [AtomicU64; STEPS_US.len() + 1],
    sum_us: AtomicU64,
}

/// The same of one connection, until it adds up.
#[derive(Debug, Default)]
pub(crate) struct OwnHistogram {
    steps: [u32; STEPS_US.len() + 1],
    sum_us: u64,
}

impl OwnHistogram {
    pub(crate) fn take(&mut self, us: u64) {
        self.steps[STEPS_US.partition_point(|end| *end < us)] += 1;
        self.sum_us += us;
    }
}

impl Histogram {
    pub(crate) fn add(&self, own: &mut OwnHistogram) {
        if own.steps.iter().all(|count| *count == 0) {
            return;
        }
        for (all, own) in self.steps.iter().zip(own.steps) {
            if own > 0 {
                add(all, own.into());
            }
        }
        add(&self.sum_us, own.sum_us);
        *own = OwnHistogram::default();
    }

    fn render(&self, name: &str, text: &mut String) {
        let mut count = 0;
        for (step, end) in self.steps.iter().zip(STEPS_US) {
            count += step.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}_bucket{{le=\"{}\"}} {count}", end as f64 / 1e6);
        }
        count += self.steps[STEPS_US.len()].load(Ordering::Relaxed);
        let sum = self.sum_us.load(Ordering::Relaxed) as f64 / 1e6;
        let _ =
            write!(text, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}\n");
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// Writes what a figure is, before its values.
pub fn describe(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
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
            ("statements_total", "Texts and portals that were executed", &self.statements),
            ("received_bytes_total", "Bytes of clients", &self.bytes_in),
            ("sent_bytes_total", "Bytes to clients", &self.bytes_out),
            ("rests_total", "Times a silent connection gave its thread back", &self.rests),
            ("threads_total", "Threads started for connections", &self.threads),
            ("panics_total", "Sessions that ended by a panic", &self.panics),
        ];
        let mut text = String::new();
        for (name, help, counter) in counters {
            let name = format!("liger_sql_{name}");
            describe(&mut text, &name, "counter", help);
            let _ = writeln!(text, "{name} {}", counter.load(Ordering::Relaxed));
        }
        let closed = self.connections_closed.load(Ordering::Relaxed);
        let open = self.connections.load(Ordering::Relaxed).saturating_sub(closed);
        describe(&mut text, "liger_sql_connections", "gauge", "Connections that are open");
        let _ = writeln!(text, "liger_sql_connections {open}");
        let help = "How long clients waited for statements, or series of them";
        describe(&mut text, "liger_sql_statement_seconds", "histogram", help);
        self.latency.render("liger_sql_statement_seconds", &mut text);
        describe(&mut text, "liger_sql_errors_total", "counter", "Errors that clients were told of");
        for (state, count) in self.errors() {
            let _ = writeln!(text, "liger_sql_errors_total{{sqlstate=\"{state}\"}} {count}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_what_is_below() {
        let (all, mut own) = (Histogram::default(), OwnHistogram::default());
        [50, 51, 40_000_000].into_iter().for_each(|us| own.take(us));
        all.add(&mut own);
        all.add(&mut own);
        let mut text = String::new();
        all.render("x", &mut text);
        for line in [
            "x_bucket{le=\"0.00005\"} 1",
            "x_bucket{le=\"0.0001\"} 2",
            "x_bucket{le=\"+Inf\"} 3",
            "x_count 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
