//! PostgreSQL's wire protocol over sessions of SQL: what any client of PostgreSQL connects to.
//!
//! ```text
//!   Server  -- watch thread: listeners, silent connections (epoll), deadlines   (parking)
//!          \-- a thread for each busy connection                                (pool)
//!   Connection: startup (auth/) -> messages (wire/) -> Session of liger_sql -> answers (sink)
//! ```
//!
//! Invariants:
//! 1. A client that does not keep to the protocol harms its own connection only, and its bytes cost no more
//!    memory than it has sent.
//! 2. Nothing is planned, executed or stored here: it goes to the
//!    [`Database`](liger_sql::session::Database) that the server was started with.
//!
//! This crate is part of the outermost shell: it starts threads, reads the clock and draws secrets, since
//! its clients are not simulated. What has to be simulated is below the session.
//!
//! It does not speak protocol 2, GSSAPI, replication or the function call protocol; `docs/server.md` has
//! the list.

#![forbid(unsafe_code)]

pub mod auth;
pub mod client;
mod clock;
mod config;
mod connection;
pub mod log;
mod metrics;
mod parking;
mod peer;
mod pool;
mod scrape;
mod server;
mod sink;
mod socket;
mod startup;
mod timer;
pub mod wire;

pub use config::{Config, Route};
pub use metrics::{Metrics, describe};
pub use scrape::{Render, Scrape};
pub use server::{Server, StartError};
