//! `liger bench tpcc-sql`: TPC-C through SQL, by a plain client of PostgreSQL, against any server that speaks
//! its protocol.
//!
//! The same statements, in the same order, go to Liger and to PostgreSQL, so that the two can be measured by
//! turns. Clients are a thread each, with a runtime of its own, and wait for every answer: a closed loop
//! without think times.

#![expect(clippy::disallowed_methods, reason = "clients are threads, and time passes")]

mod clients;
mod columns;
mod conditions;
mod decimal;
mod load;
mod report;
mod statements;
mod transactions;
mod trouble;

use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Args;
use liger_workload::random::Rng;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::generate::{Generator, Homes};
use liger_workload::tpcc::input::{Mix, Remote};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::Config;

use super::{seconds, seconds_or_none};
use crate::failure::Failure;
use crate::terminal::Phase;
use clients::{Brought, OneClient, World, connect};
use report::{About, Report};
use trouble::Trouble;

/// After a run with failures, hosts may need so long until all rows can be asked for.
const CHECK_WITHIN: Duration = Duration::from_secs(60);

/// TPC-C through SQL.
#[derive(Args)]
#[command(args_override_self = true)]
pub struct SqlArguments {
    /// Where servers listen, like 127.0.0.1:5432; connections are dealt out in turn
    #[arg(required = true, value_delimiter = ',')]
    addresses: Vec<String>,
    /// Further settings of the connections, as in `user=postgres password=x`
    #[arg(long, default_value = "user=postgres dbname=postgres")]
    connection: String,
    /// Connections, each of which runs one transaction at a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: u16,
    /// Warehouses
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(i16).range(1..))]
    warehouses: i16,
    /// Divides customers, orders and items, for a quick look
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=1000))]
    scale_divisor: i32,
    /// Remote transactions: "spec", or percentages of New-Orders and Payments like "60/90"
    #[arg(long, default_value = "spec")]
    remote: Remote,
    /// Measured time
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// Time before it, in seconds
    #[arg(long, default_value_t = 2.0, value_parser = seconds_or_none)]
    warm_up: f64,
    /// Isolation of the transactions, like "serializable" [default: the server's]
    #[arg(long)]
    isolation: Option<String>,
    /// Declare the specification's foreign keys
    #[arg(long)]
    foreign_keys: bool,
    /// The tables are there, from a run with the same scale and seed that was only loaded
    #[arg(long)]
    loaded: bool,
    /// Only load
    #[arg(long, conflicts_with = "loaded")]
    load_only: bool,
    /// Do not look for what is wrong afterwards
    #[arg(long)]
    no_check: bool,
    /// Connect again, to any of the addresses, when a connection is lost: hosts may fail
    #[arg(long)]
    reconnect: bool,
    /// Decides the database and the transactions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Failure {
        Failure::Broken(match trouble {
            Trouble::Again(code) => format!("conflicts while nobody else should be there: {code}"),
            Trouble::Lost { why, .. } => format!("the connection was lost: {why}"),
            Trouble::Wrong(what) => what,
        })
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime needs a few descriptors")
}

impl SqlArguments {
    fn scale(&self) -> Result<Scale, Failure> {
        let scale = Scale::reduced(self.warehouses, self.scale_divisor);
        scale.validate().map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(scale)
    }

    fn hosts(&self) -> Result<Vec<Config>, Failure> {
        let config = |address: &String| {
            let (host, port) = address.rsplit_once(':').unwrap_or((address, "5432"));
            let whole = format!("host={host} port={port} connect_timeout=2 {}", self.connection);
            Config::from_str(&whole).map_err(|error| Failure::Refused(format!("{address}: {error}")))
        };
        self.addresses.iter().map(config).collect()
    }

    fn begin(&self) -> String {
        self.isolation.as_ref().map_or_else(|| "begin".to_owned(), |it| format!("begin isolation level {it}"))
    }

    /// Loads the tables, as many warehouses at once as there are connections and addresses, four at most.
    fn load(&self, hosts: &[Config], scale: Scale) -> Result<(), Failure> {
        let phase = Phase::start("load");
        let on_first = |foreign_keys: Option<bool>| {
            runtime().block_on(async {
                let client = connect(&hosts[0]).await?;
                match foreign_keys {
                    None => load::create(&client).await.map_err(Trouble::from),
                    Some(wanted) => load::finish(&client, wanted).await.map_err(Trouble::from),
                }
            })
        };
        on_first(None)?;
        let threads = self.connections.clamp(1, 4);
        let one = |first: u16| {
            runtime().block_on(async {
                let client = connect(&hosts[usize::from(first) % hosts.len()]).await?;
                for w in (0..=scale.warehouses).skip(usize::from(first)).step_by(usize::from(threads)) {
                    load::load(&client, scale, self.seed, w).await?;
                }
                Ok::<_, Trouble>(())
            })
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|first| scope.spawn(move || one(first))).collect();
            all.into_iter().try_for_each(|thread| thread.join().expect("a loader does not panic"))
        })?;
        on_first(Some(self.foreign_keys))?;
        phase.done("loaded");
        Ok(())
    }

    /// Runs the clients.
    fn run_clients(&self, hosts: &[Config], scale: Scale) -> Brought {
        let measured_from = Instant::now() + Duration::from_secs_f64(self.warm_up);
        let world = World {
            hosts: hosts.to_vec(),
            begin: self.begin(),
            measured_from,
            ends: measured_from + Duration::from_secs_f64(self.seconds),
            reconnects: self.reconnect,
        };
        let warehouses: Vec<i16> = (1..=scale.warehouses).collect();
        let count = usize::from(self.connections);
        let client = |number: usize| {
            let key = |what| Rng::keyed(self.seed, &[what, number as u64]);
            let homes = Homes::Own.pick(&warehouses, number, count);
            let generator = Generator::new(scale, self.seed, Mix::Spec, self.remote, homes, key(1));
            let client = OneClient::new(world.clone(), number % hosts.len(), generator, key(2));
            move || runtime().block_on(client.work())
        };
        let mut whole = Brought::default();
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..count).map(|number| scope.spawn(client(number))).collect();
            all.into_iter().for_each(|thread| whole.add(thread.join().expect("a client does not panic")));
        });
        whole
    }

    /// Looks for what is wrong; as hosts may be about to serve again, for some time.
    fn check(&self, hosts: &[Config], scale: &Scale, brought: &Brought) -> Result<Vec<String>, Failure> {
        let phase = Phase::start("check");
        let begun = Instant::now();
        let look = |config: &Config| {
            runtime().block_on(async {
                let client = connect(config).await?;
                let mut findings = conditions::check(&client, scale, self.seed).await?;
                findings.extend(conditions::look_for(&client, scale, brought).await?);
                Ok::<_, Trouble>(findings)
            })
        };
        for turn in 0.. {
            match look(&hosts[turn % hosts.len()]) {
                Ok(findings) => {
                    phase.done("checked");
                    return Ok(findings);
                }
                Err(Trouble::Again(_) | Trouble::Lost { .. }) if begun.elapsed() < CHECK_WITHIN => {
                    std::thread::sleep(Duration::from_millis(200));
                }
                Err(trouble) => return Err(trouble.into()),
            }
        }
        unreachable!("it is not looked for ever")
    }
}

/// Loads, runs, checks and reports.
pub fn run(arguments: &SqlArguments) -> Result<ExitCode, Failure> {
    let (scale, hosts) = (arguments.scale()?, arguments.hosts()?);
    if !arguments.loaded {
        arguments.load(&hosts, scale)?;
    }
    if arguments.load_only {
        return Ok(ExitCode::SUCCESS);
    }
    let server = runtime().block_on(async {
        let client = connect(&hosts[0]).await?;
        Ok::<_, Trouble>(client.query_one("select version()", &[]).await?.try_get::<_, String>(0)?)
    })?;
    let brought = arguments.run_clients(&hosts, scale);
    let findings = match arguments.no_check {
        true => None,
        false => Some(arguments.check(&hosts, &scale, &brought)?),
    };
    let about = About {
        server,
        addresses: arguments.addresses.clone(),
        scale,
        connections: arguments.connections.into(),
        isolation: arguments.isolation.clone().unwrap_or_else(|| "of the server".to_owned()),
        seconds: arguments.seconds,
    };
    let report = Report::new(about, &brought, findings);
    println!("{}", if arguments.json { report.json() } else { report.table() });
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
