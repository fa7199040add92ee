//! A server over a made-up database: to try clients, and to measure the protocol without a database behind
//! it.
//!
//! `cargo run --release -p liger-server --example made_up -- 127.0.0.1:5433 [local socket] [folder for a
//! certificate]` runs until its standard input ends, then prints its counters. `psql -h 127.0.0.1 -p 5433
//! -U trusty -c "rows 3"`.

#![forbid(unsafe_code)]

#[path = "../tests/it/fake.rs"]
mod fake;

use std::sync::Arc;
use std::time::Duration;

use liger_server::auth::hba::Rules;
use liger_server::auth::tls::Certificate;
use liger_server::{Config, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or("127.0.0.1:5433".to_string()).parse()?;
    let config = Config {
        addresses: vec![address],
        local_sockets: arguments.next().map(Into::into).into_iter().collect(),
        certificate: arguments.next().map(|folder| Certificate::Folder(folder.into())),
        rules: Rules::parse("host all alice all scram-sha-256\nhost all all all trust\nlocal all all trust")?,
        connections_max: 5_000,
        ..Config::default()
    };
    let server = Server::start(config, Arc::new(fake::FakeDatabase::default()))?;
    println!("listening at {:?}", server.addresses());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    print!("{}", server.metrics().render());
    server.stop(Duration::from_secs(1));
    Ok(())
}
