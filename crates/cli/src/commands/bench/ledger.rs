//! `liger bench ledger`: clients outside the hosts of a pod, and hosts that are killed while they ask.
//!
//! Everything that a client was told is checked against the database at the end: each acknowledged transfer
//! is there exactly once, and the money is right.

mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use liger_workload::ledger::Book;
use liger_workload::ledger::check::{Findings, check};
use liger_workload::ledger::client::Told;
use liger_workload::ledger::schema::Tables;

use super::chaos::{Chaos, KillMode, Plan, Pod};
use super::temporary::Temporary;
use crate::commands::up::{LedgerSize, PodShape, duration};
use crate::failure::Failure;
use crate::job::{Durable, Holds};
use crate::memory::Found;
use crate::outside::{Clients, Experience, Manners};
use crate::plot::text;
use crate::pod::running::{PATIENCE, join_again};
use crate::pod::{PodDir, Running};
use crate::terminal::{self, Phase};
use crate::verify::check_at_rest;
use report::Report;

/// Clients wait so long for what is under way when the time is over.
const DRAIN: Duration = Duration::from_secs(60);

/// What a pod that is there has decided already.
const OF_THE_POD: [&str; 9] =
    ["hosts", "workers", "accounts", "partitions", "memory", "durability", "lease", "data", "crash_after"];

/// A ledger, its clients, and failures.
#[derive(Args)]
#[command(args_override_self = true)]
pub struct LedgerArguments {
    /// Use the pod of this directory instead of one that is made for the run and removed after it
    #[arg(long, conflicts_with_all = OF_THE_POD)]
    pod: Option<PathBuf>,
    /// Hosts, each a process, 1 to 16
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    hosts: u8,
    /// Workers of each host, 1 to 32
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=32))]
    workers: u8,
    #[command(flatten)]
    ledger: LedgerSize,
    #[command(flatten)]
    shape: PodShape,
    /// Transfers, of 100, that touch an account of another partition
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100))]
    remote: u32,
    /// Requests that each client has under way; there is a client for each partition
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=2048))]
    window: u32,
    /// How long clients ask
    #[arg(long, default_value = "10s", value_parser = duration)]
    time: Duration,
    /// Keep the pod's directory here and leave it
    #[arg(long)]
    data: Option<PathBuf>,
    /// Let a random host fail about so often, like 2s; it joins again
    #[arg(long, value_parser = duration)]
    kill_every: Option<Duration>,
    /// How it fails
    #[arg(long, value_enum, default_value = "kill", requires = "kill_every")]
    kill_mode: KillMode,
    /// Failures after which no more are caused
    #[arg(long, requires = "kill_every")]
    kills: Option<u32>,
    /// Kill all hosts after this time and start the pod again
    #[arg(long, value_parser = duration, conflicts_with = "kill_every")]
    crash_after: Option<Duration>,
    /// With --crash-after: the shared memory outlives the hosts
    #[arg(long, requires = "crash_after")]
    keep_memory: bool,
    /// A host that says nothing for so long is given up by its clients [default: two leases]
    #[arg(long, value_parser = duration)]
    silence: Option<Duration>,
    /// Draw what happened into this SVG file
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Print one JSON object instead of the table and the plot
    #[arg(long)]
    json: bool,
}

/// What clients brought home, put together.
struct Homecoming {
    told: Vec<Told>,
    findings: Findings,
    problems: Vec<String>,
    /// Hosts that the others took for dead, or the user ended.
    killed_by_others: u32,
    /// What the pod has found that was started again.
    found: Option<Found>,
}

impl LedgerArguments {
    /// Makes the pod, or attaches to one.
    fn pod(&self) -> Result<(Pod, Temporary), Failure> {
        if let Some(path) = &self.pod {
            return Ok((Pod::Attached(PodDir::open(path)?), Temporary::none()));
        }
        if self.crash_after.is_some() && self.shape.durability != Durable::Storage && !self.keep_memory {
            return Err(Failure::Refused(super::LOST_WITH_MEMORY.to_owned()));
        }
        if self.kill_every.is_some() && self.hosts < 2 {
            let message = "--kill-every needs a host that survives: give --hosts 2 or more";
            return Err(Failure::Refused(message.to_owned()));
        }
        let (path, to_remove) = Temporary::unless(self.data.as_ref());
        let book = self.ledger.book(self.hosts, self.workers, self.shape.seed)?;
        let dir = self.shape.make(&path, (self.hosts, self.hosts, self.workers), Holds::Ledger(book))?;
        Ok((Pod::Own(Box::new(Running::start(dir)?)), to_remove))
    }

    fn plan(&self) -> Plan {
        Plan {
            time: self.time,
            kill_every: self.kill_every,
            mode: self.kill_mode,
            kills: self.kills.unwrap_or(u32::MAX),
            crash_after: self.crash_after,
            keep_memory: self.keep_memory,
            seed: self.shape.seed,
        }
    }
}

/// Runs the clients, and checks what they were told.
pub fn run(arguments: &LedgerArguments) -> Result<ExitCode, Failure> {
    terminal::note_interrupts()?;
    let (pod, _temporary) = arguments.pod()?;
    let mut dir = pod.dir().clone();
    let Some(book) = dir.file.job.book else {
        let path = dir.path().display();
        return Err(Failure::Refused(format!(
            "{path} holds TPC-C: make a ledger with `liger up --tables ledger`"
        )));
    };
    let book = Book { remote_percent: arguments.remote, seed: arguments.shape.seed, ..book };
    let first_client = dir.file.clients;
    dir.file.clients += u32::from(book.partitions);
    dir.save()?;
    let silence = arguments.silence.unwrap_or(Duration::from_millis(2 * dir.file.lease_ms));
    let manners = Manners { window: arguments.window as usize, silence, first_client };
    let phase = Phase::start(&format!("{} clients ask for {:?}", book.partitions, arguments.time));
    let clients = Clients::start(&dir, book, manners);
    let mut chaos = Chaos::new(pod, arguments.plan(), Arc::new(join_again));
    let caused = chaos.run(clients.history());
    let (experiences, kills) = clients.stop(if caused.is_ok() { DRAIN } else { Duration::ZERO });
    caused?;
    phase.done(&format!("{} kills", kills.len()));
    let (killed_by_others, found) = (chaos.killed_by_others(), chaos.found());
    let pod = chaos.into_pod();
    let (told, experiences): (Vec<Told>, Vec<Experience>) =
        experiences.into_iter().map(|mut home| (std::mem::take(&mut home.told), home)).unzip();
    let (findings, problems) = verify(&dir, &book, first_client, &told)?;
    let home = Homecoming { told, findings, problems, killed_by_others, found };
    if let Pod::Own(running) = pod {
        running.end()?;
    }
    let report = Report::new(arguments, &dir, &home, &experiences, &kills);
    let figure = report.figure(&experiences, &kills, dir.hosts());
    if let Some(path) = &arguments.svg {
        super::write_svg(path, &figure)?;
    }
    match arguments.json {
        true => println!("{}", report.json()),
        false => println!("{}\n{}", text::render(&figure), report.table()),
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Lets the pod come to rest and checks everything.
fn verify(
    dir: &PodDir,
    book: &Book,
    first_client: u32,
    told: &[Told],
) -> Result<(Findings, Vec<String>), Failure> {
    let phase = Phase::start("checking every row");
    let tables = Tables::of(&dir.file.job.catalog()).expect("the ledger's tables");
    let (findings, problems) =
        check_at_rest(dir, PATIENCE, |rows| check(rows, &tables, book, first_client, told))?;
    let good = findings.is_right() && problems.is_empty();
    phase.done(if good { "nothing is lost, doubled or wrong" } else { "NOT right" });
    Ok((findings, problems))
}
