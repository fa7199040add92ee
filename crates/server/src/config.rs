//! What a server is told when it starts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::auth::hba::Rules;
use crate::auth::tls::Certificate;
use crate::log::Logger;

/// Says where the SQL port of another host of the pod is, for cancel requests that are its to carry out.
pub type Route = Arc<dyn Fn(u8) -> Option<SocketAddr> + Send + Sync>;

/// The configuration of a server.
#[derive(Clone)]
pub struct Config {
    /// TCP addresses to listen at.
    pub addresses: Vec<SocketAddr>,
    /// Local sockets to listen at; clients of PostgreSQL look for `.s.PGSQL.<port>` in a folder.
    pub local_sockets: Vec<PathBuf>,
    /// Number of this host in its pod, at most 126: part of every process id, so that these are unique in
    /// the pod.
    pub host: u8,
    /// Where other hosts are; without it cancel requests for them are dropped.
    pub route: Option<Route>,
    /// Who may come in.
    pub rules: Rules,
    /// The certificate; without one there is no encryption.
    pub certificate: Option<Certificate>,
    /// Connections at most.
    pub connections_max: usize,
    /// How many of these are kept for superusers.
    pub connections_reserved: usize,
    /// Largest message without its head, bytes: a query's text, a row of parameters, a piece of a COPY.
    pub message_bytes_max: usize,
    /// How long a log-in may take.
    pub login_timeout: Duration,
    /// How long a thread waits for the next message of its client before it serves another one.
    pub linger: Duration,
    /// Told of log-ins, refusals and slow statements.
    pub log: Option<Logger>,
    /// Statements, or series of them, that take at least so long are told to `log`.
    pub log_slower_than: Option<Duration>,
    /// Stack of a thread, bytes. Pages that are never touched cost nothing.
    pub stack_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            local_sockets: Vec::new(),
            host: 0,
            route: None,
            rules: Rules::standard(false),
            certificate: None,
            connections_max: 4_000,
            connections_reserved: 3,
            // PostgreSQL's limit: a gigabyte, with the length in front.
            message_bytes_max: (1 << 30) - 6,
            login_timeout: Duration::from_secs(60),
            linger: Duration::from_millis(50),
            log: None,
            log_slower_than: None,
            stack_bytes: 64 << 20,
        }
    }
}
