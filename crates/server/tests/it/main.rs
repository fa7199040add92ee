//! The server against clients: a raw one that can do everything wrong, tokio-postgres, psql and pgbench.

#![forbid(unsafe_code)]

mod client;
mod copy;
mod drivers;
mod encodings;
mod endings;
mod fake;
mod login;
mod malformed;
mod messages;

use std::net::SocketAddr;
use std::sync::Arc;

use liger_server::auth::hba::Rules;
use liger_server::{Config, Server};

/// A server over the made-up database at a free port of the loopback.
fn start(change: impl FnOnce(&mut Config)) -> (Server, SocketAddr) {
    let rules = "host all alice,expired,stranger all scram-sha-256
                 host clear all all password
                 host closed all all reject
                 host other all 10.0.0.0/8 trust
                 host open,nowhere all all trust";
    let mut config = Config {
        addresses: vec!["127.0.0.1:0".parse().expect("an address")],
        rules: Rules::parse(rules).expect("well formed"),
        ..Config::default()
    };
    change(&mut config);
    let server = Server::start(config, Arc::new(fake::FakeDatabase::default())).expect("starts");
    let address = server.addresses()[0];
    (server, address)
}
