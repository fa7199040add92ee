//! A host's figures in Prometheus' text format.

use std::fmt::{Display, Write as _};

use super::Observed;

/// Names, kinds and meanings of all figures, in the order in which they are written.
pub const NAMES: &[(&str, &str, &str)] = &[
    ("liger_transactions_total", "counter", "Transactions of sessions, by how they ended"),
    ("liger_conflicts_total", "counter", "Conflicts with other transactions, by kind"),
    (
        "liger_turns_total",
        "counter",
        "Transactions that began in their turn, after conflicts of their session",
    ),
    ("liger_rows_visited_total", "counter", "Rows and index entries that statements have looked at"),
    ("liger_temporary_files_total", "counter", "Temporary files of statements that have ended"),
    ("liger_temporary_bytes_total", "counter", "Bytes of those files"),
    (
        "liger_parked_transactions",
        "gauge",
        "Open transactions that rest, beyond those whose locks have a number",
    ),
    ("liger_moves_total", "counter", "Rows moved into shared memory and out of it"),
    ("liger_shared_rows", "gauge", "Rows of this host that are in shared memory"),
    (
        "liger_shared_rows_scrubbed_total",
        "counter",
        "Looks at shared rows, whether they are as they were written",
    ),
    ("liger_shared_rows_damaged_total", "counter", "Shared rows that were found damaged"),
    (
        "liger_shared_rows_healed_total",
        "counter",
        "Those of them that were made good from their owner's copy",
    ),
    ("liger_snapshots_open", "gauge", "Transactions of this host that read as of one moment"),
    ("liger_snapshots_total", "counter", "Transactions of this host that have begun to"),
    (
        "liger_snapshots_too_old_total",
        "counter",
        "Statements that were refused because what they wanted is not kept any more",
    ),
    (
        "liger_old_versions_bytes",
        "gauge",
        "Old versions of rows that this host keeps for those, in its own memory and in shared memory",
    ),
    ("liger_messages_total", "counter", "Messages to other hosts"),
    ("liger_partitions_taken_over_total", "counter", "Partitions of dead hosts that this one took over"),
    ("liger_host_up", "gauge", "Whether a host is a member of the pod, as this one sees it"),
    ("liger_host_partitions", "gauge", "Partitions that a host owns"),
    ("liger_host_silent_seconds", "gauge", "Time since a member's heartbeat was seen to change"),
    ("liger_troubles", "gauge", "Things that this host cannot do at present"),
    ("liger_memory_size_bytes", "gauge", "Shared memory that the pod may use, by region"),
    ("liger_memory_max_bytes", "gauge", "Shared memory that the pod has room for: it may grow so far"),
    ("liger_memory_budget_bytes", "gauge", "Shared memory that rows may use before they move out"),
    ("liger_memory_used_bytes", "gauge", "Shared memory in use in the whole pod"),
    ("liger_memory_claimed_bytes", "gauge", "Shared memory that hosts have claimed, in use or not"),
    ("liger_memory_retired", "gauge", "Pieces of memory that wait until nobody can reach them"),
    ("liger_log_epoch", "gauge", "The pod's epoch"),
    ("liger_log_durable_epoch", "gauge", "The epoch up to which the logs of all members are on storage"),
    ("liger_log_lag_seconds", "gauge", "Age of the first commit that is not on storage yet"),
    ("liger_log_appended_bytes_total", "counter", "Bytes that this host has appended to its log"),
    ("liger_log_held_bytes", "gauge", "Bytes of the segments of this host's log"),
    ("liger_log_failed", "gauge", "Whether this host's log has failed"),
    ("liger_log_full", "gauge", "Whether changes are refused because a host's log has no room"),
    ("liger_checkpoint_age_seconds", "gauge", "Time since this host's checkpoint became valid"),
    ("liger_statement_texts", "gauge", "Texts that pg_stat_statements counts"),
];

struct Text {
    text: String,
    last: &'static str,
}

impl Text {
    /// A figure, behind what it is where its name is a new one.
    fn put(&mut self, name: &'static str, labels: &[(&str, &dyn Display)], value: impl Display) {
        if self.last != name {
            let described = NAMES.iter().find(|(known, ..)| *known == name);
            let (_, kind, help) = described.expect("every figure is described");
            let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            self.last = name;
        }
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }
}

impl Observed {
    /// All figures.
    pub fn render(&self) -> String {
        let snapshot = self.snapshot();
        let mut out = Text { text: String::new(), last: "" };
        out.put("liger_transactions_total", &[("outcome", &"committed")], self.committed());
        out.put("liger_transactions_total", &[("outcome", &"rolled_back")], self.rolled_back());
        for (kind, count) in self.conflicts() {
            out.put("liger_conflicts_total", &[("kind", &kind)], count);
        }
        out.put("liger_turns_total", &[], self.turns());
        out.put("liger_rows_visited_total", &[], self.rows_visited());
        out.put("liger_temporary_files_total", &[], self.temporary.files());
        out.put("liger_temporary_bytes_total", &[], self.temporary.bytes());
        out.put("liger_parked_transactions", &[], snapshot.parked);
        let [moved_in, moved_out, shared] = snapshot.moves;
        out.put("liger_moves_total", &[("direction", &"in")], moved_in);
        out.put("liger_moves_total", &[("direction", &"out")], moved_out);
        out.put("liger_shared_rows", &[], shared);
        let [looks, damaged, healed] = snapshot.scrubbed;
        out.put("liger_shared_rows_scrubbed_total", &[], looks);
        out.put("liger_shared_rows_damaged_total", &[], damaged);
        out.put("liger_shared_rows_healed_total", &[], healed);
        let [open, opened] = snapshot.snapshots;
        out.put("liger_snapshots_open", &[], open);
        out.put("liger_snapshots_total", &[], opened);
        out.put("liger_snapshots_too_old_total", &[], self.too_old());
        let [own, shared] = snapshot.old_versions;
        out.put("liger_old_versions_bytes", &[("memory", &"own")], own);
        out.put("liger_old_versions_bytes", &[("memory", &"shared")], shared);
        out.put("liger_messages_total", &[], snapshot.messages);
        out.put("liger_partitions_taken_over_total", &[], snapshot.taken_over);
        for host in &snapshot.hosts {
            out.put("liger_host_up", &[("host", &host.host)], u8::from(host.silent_ms.is_some()));
        }
        for host in &snapshot.hosts {
            out.put("liger_host_partitions", &[("host", &host.host)], host.partitions);
        }
        for (host, ms) in snapshot.hosts.iter().filter_map(|host| Some((host.host, host.silent_ms?))) {
            out.put("liger_host_silent_seconds", &[("host", &host)], ms / 1e3);
        }
        out.put("liger_troubles", &[], snapshot.troubles.len());
        for memory in &snapshot.memory {
            out.put("liger_memory_size_bytes", &[("region", &memory.region)], memory.size_bytes);
        }
        for memory in &snapshot.memory {
            out.put("liger_memory_max_bytes", &[("region", &memory.region)], memory.max_bytes);
        }
        for memory in &snapshot.memory {
            out.put("liger_memory_budget_bytes", &[("region", &memory.region)], memory.budget_bytes);
        }
        for memory in &snapshot.memory {
            let region = ("region", &memory.region as &dyn Display);
            out.put("liger_memory_used_bytes", &[region, ("for", &"rows")], memory.row_bytes);
            out.put("liger_memory_used_bytes", &[region, ("for", &"index")], memory.index_bytes);
        }
        for memory in &snapshot.memory {
            out.put("liger_memory_claimed_bytes", &[("region", &memory.region)], memory.claimed_bytes);
        }
        out.put("liger_memory_retired", &[], snapshot.retired);
        if let Some(log) = &snapshot.log {
            out.put("liger_log_epoch", &[], log.epoch);
            out.put("liger_log_durable_epoch", &[], log.durable_epoch);
            out.put("liger_log_lag_seconds", &[], log.lag_seconds);
            out.put("liger_log_appended_bytes_total", &[], log.appended_bytes);
            out.put("liger_log_held_bytes", &[], log.held_bytes);
            out.put("liger_log_failed", &[], u8::from(log.failure.is_some()));
            out.put("liger_log_full", &[], u8::from(log.is_full));
            out.put("liger_checkpoint_age_seconds", &[], log.checkpoint_age_seconds);
        }
        out.put("liger_statement_texts", &[], self.statements().figures().len());
        out.text
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::{HostStatus, LogStatus, MemoryStatus, StatusSnapshot};
    use super::*;

    #[test]
    fn every_figure_is_written() {
        let host = HostStatus { silent_ms: Some(1.0), ..HostStatus::default() };
        let memory = MemoryStatus { region: "sync", ..MemoryStatus::default() };
        let (hosts, memory, log) = (vec![host], vec![memory], Some(LogStatus::default()));
        let snapshot =
            Mutex::new(Arc::new(StatusSnapshot { hosts, memory, log, ..StatusSnapshot::default() }));
        let text = Observed { snapshot, ..Observed::default() }.render();
        for (name, ..) in NAMES {
            let begins =
                |line: &str| line.starts_with(&format!("{name} ")) || line.starts_with(&format!("{name}{{"));
            assert!(text.lines().any(begins), "{name} in {text}");
        }
    }
}
