//! tokio-postgres on two hosts: binary formats everywhere, pipelines of futures, portals, COPY both ways.
//!
//! Arguments: the ports of two hosts. Every check has a connection of its own to the first; a line for each
//! that failed, and one in the end that counts them. The exit status is 0 if none failed.

#![forbid(unsafe_code)]

mod rows;
mod transactions;

use std::error::Error;
use std::fmt::Debug;
use std::process::ExitCode;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};

/// What a check ends with.
pub type Checked = Result<(), Box<dyn Error>>;

/// A connection to a host by its number, driven beside the check.
pub async fn connect(host: usize) -> Result<Client, Box<dyn Error>> {
    let port = std::env::args().nth(host + 1).ok_or("usage: drivers PORT0 PORT1")?;
    let settings = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
    let (client, connection) = tokio_postgres::connect(&settings, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Fails unless both are the same, and says what there is.
pub fn same<T: PartialEq + Debug>(seen: T, expected: T) -> Checked {
    if seen == expected {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, but there is {seen:?}").into())
    }
}

/// The SQLSTATE that something ended with.
pub fn state<T>(result: Result<T, tokio_postgres::Error>) -> String {
    match result {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.code().map_or(error.to_string(), |code| code.code().to_owned()),
    }
}

/// An error with what the server said.
fn explained(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text.replace('\n', " ")
}

macro_rules! run {
    ($($title:literal: $body:path,)*) => {{
        let mut failures: Vec<(&str, String)> = Vec::new();
        let mut checks = 0;
        $(
            checks += 1;
            let limited = async {
                let mut client = connect(0).await?;
                tokio::time::timeout(Duration::from_secs(30), $body(&mut client)).await?
            };
            if let Err(error) = limited.await {
                failures.push(($title, explained(&*error)));
            }
        )*
        (checks, failures)
    }};
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (checks, failures) = run! {
        "setup": rows::setup,
        "types round trip": rows::types,
        "types it has to look up": rows::looked_up,
        "prepared statements": rows::prepared,
        "parameters of given types": rows::given_types,
        "rows as they come": rows::streams,
        "pipelined futures": rows::pipelines,
        "copy both ways": rows::copy,
        "simple queries": rows::simple,
        "transactions and savepoints": transactions::blocks,
        "portals with limits": transactions::portals,
        "conflicts are retried on two hosts": transactions::conflicts,
        "errors with states and places": transactions::errors,
        "cancel and time-out": transactions::cancel,
        "a table changes under a prepared statement": transactions::altered,
        "notices": transactions::notices,
    };
    for (title, text) in &failures {
        println!("  FAILED tokio-postgres: {title}: {text}");
    }
    let lock = include_str!("../Cargo.lock");
    let of_driver = lock.split("name = \"tokio-postgres\"\nversion = \"").nth(1).unwrap_or("?\"");
    let version = of_driver.split('"').next().unwrap_or("?");
    println!("tokio-postgres {version}: {} passed, {} failed", checks - failures.len(), failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
