//! What hosts with SQL tell whoever runs them: figures at a port, and lines of events.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use liger_server::log::{Format, Logger, line};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// key=value
    #[default]
    Text,
    /// JSON objects
    Json,
}

/// What hosts tell.
#[derive(Args, Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Telling {
    /// Where Prometheus finds the figures of host 0, at /metrics; host 1 is behind it, and so on
    #[arg(long, value_name = "PORT")]
    pub metrics_port: Option<u16>,
    /// How lines of the hosts' logs are written (DIR/host-N/said)
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// Log statements that take at least so many milliseconds
    #[arg(long, value_name = "MILLISECONDS")]
    pub log_min_duration: Option<u64>,
}

impl Telling {
    /// Refuses ports that there are not, or that SQL is served at.
    pub fn check(&self, sql_port: u16, hosts: u8) -> Result<(), Failure> {
        let Some(port) = self.metrics_port else { return Ok(()) };
        let hosts = u16::from(hosts);
        if port.checked_add(hosts).is_none() {
            return Err(Failure::Refused(format!("--metrics-port {port} leaves no ports for {hosts} hosts")));
        }
        if port < sql_port + hosts && sql_port < port + hosts {
            return Err(Failure::Refused(format!(
                "--metrics-port {port} and --port {sql_port} meet: {hosts} hosts take {hosts} ports from each"
            )));
        }
        Ok(())
    }

    /// Where a host's figures are, beside the address of its SQL.
    pub fn address(&self, sql: SocketAddr, host: u8) -> Option<SocketAddr> {
        Some(SocketAddr::new(sql.ip(), self.metrics_port? + u16::from(host)))
    }

    /// Writes events to the standard error output.
    pub fn logger(&self) -> Logger {
        let format = match self.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        };
        Arc::new(move |entry| {
            // Nobody may be there to read.
            let _ = std::io::stderr().lock().write_all((line(entry, format) + "\n").as_bytes());
        })
    }

    /// Statements that are told of.
    pub fn slower_than(&self) -> Option<Duration> {
        self.log_min_duration.map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// All names of figures in a text.
    fn names(text: &str) -> BTreeSet<String> {
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = text.split(|c: char| !part(c)).filter(|word| word.starts_with("liger_"));
        words.map(str::to_owned).collect()
    }

    #[test]
    fn the_dashboard_shows_what_there_is() {
        let dashboard = include_str!("../../../docs/grafana/liger.json");
        let served = liger_server::Metrics::default().render();
        let mut known: BTreeSet<String> = names(&served);
        known.extend(liger_sql::observe::NAMES.iter().map(|(name, ..)| (*name).to_owned()));
        let shown = names(dashboard);
        assert!(shown.len() > 20, "{shown:?}");
        for name in shown {
            assert!(known.contains(&name), "{name} is in the dashboard and nowhere else");
        }
    }

    #[test]
    fn ports_do_not_meet() {
        let telling = |port| Telling { metrics_port: Some(port), ..Telling::default() };
        assert!(telling(5432).check(5432, 2).is_err());
        assert!(telling(5433).check(5432, 2).is_err());
        assert!(telling(5431).check(5432, 2).is_err());
        assert!(telling(5434).check(5432, 2).is_ok());
        assert!(telling(5430).check(5432, 2).is_ok());
        assert!(telling(65_535).check(5432, 2).is_err());
    }
}
