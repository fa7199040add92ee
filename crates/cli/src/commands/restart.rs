//! `liger restart --rolling`: the hosts of a pod are started again one after the other, while the others
//! serve.
//!
//! For each host in turn: its clients go (57P01 where they are in no transaction; those that are have some
//! time to end theirs), its partitions go to the others, it leaves, and the supervisor starts it again, with
//! the program that is at its place by then. Only when it takes clients the next one follows.
//!
//! Invariants:
//! 1. At most one host is away, and only while all others serve.
//! 2. Whatever does not come about stops it there: no other host is touched.

#![expect(clippy::disallowed_methods, reason = "processes that end and come back are waited for")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::hosts::{LOOK, SOON, leave, let_clients_go};
use super::rebalance;
use super::supervise::{Asked, ask_within};
use super::up::duration;
use crate::failure::Failure;
use crate::pod::process::Doing;
use crate::pod::{PodDir, Process, ask_host};
use crate::terminal::{self, Phase};

/// A process that has said that it leaves has ended after this time.
const ENDS: Duration = Duration::from_secs(10);

/// A pod whose hosts are to start again.
#[derive(Args)]
pub struct Arguments {
    /// The pod's directory
    dir: PathBuf,
    /// One host after the other, while the others serve
    #[arg(long)]
    rolling: bool,
    /// Transactions of a host's clients have so long to end, like 30s; then they are rolled back (57P01)
    #[arg(long, default_value = "60s", value_parser = duration)]
    within: Duration,
    /// A host has to take clients again after this time, like 300s
    #[arg(long, default_value = "300s", value_parser = duration)]
    back_within: Duration,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

/// A host that was started again.
#[derive(Serialize)]
struct Restarted {
    host: usize,
    process_before: u32,
    process: u32,
    /// Clients that were still in a transaction when their time was over.
    clients_ended: usize,
    /// From when it took no new clients until its process had ended and others had what it owned.
    leaving_seconds: f64,
    /// From then until it took clients again.
    coming_seconds: f64,
}

/// What came of it.
#[derive(Serialize)]
struct Report {
    dir: String,
    restarted: Vec<Restarted>,
    /// The host that it stopped at, if it did not come to its end.
    stopped_at: Option<usize>,
    why: Option<String>,
}

/// Restarts the hosts of a pod.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let dir = PodDir::open(&arguments.dir)?;
    let path = dir.path().display().to_string();
    if !arguments.rolling {
        return Err(Failure::Refused(format!(
            "say --rolling to restart the hosts of {path} one after the other; all at once are restarted by \
             an interrupt of `liger up` and `liger recover {path}`"
        )));
    }
    // As they are now: each of them leaves, and comes back.
    let members = dir.members();
    if members.len() < 2 {
        return Err(Failure::Refused(format!(
            "{path} has one host, and nobody who could serve meanwhile: interrupt `liger up`, and `liger \
             recover {path}`"
        )));
    }
    let mut report = Report { dir: path, restarted: Vec::new(), stopped_at: None, why: None };
    let mut stopped = None;
    for host in members {
        match restart(&dir, host, arguments) {
            Ok(restarted) => report.restarted.push(restarted),
            Err(failure) => {
                stopped = Some((host, failure));
                break;
            }
        }
    }
    (report.stopped_at, report.why) = match &stopped {
        Some((host, why)) => (Some(*host), Some(why.to_string())),
        None => (None, None),
    };
    if arguments.json {
        println!("{}", serde_json::to_string(&report).expect("every key is a string"));
    } else {
        print(&report);
    }
    stopped.map_or(Ok(ExitCode::SUCCESS), |(_, failure)| Err(failure))
}

fn print(report: &Report) {
    for restarted in &report.restarted {
        let Restarted { host, process_before, process, leaving_seconds, coming_seconds, .. } = restarted;
        println!(
            "host {host}: process {process_before} left in {leaving_seconds:.1} s, process {process} serves \
             after {coming_seconds:.1} s"
        );
    }
    if report.stopped_at.is_none() {
        println!("all {} hosts were restarted", report.restarted.len());
    }
}

/// Restarts one host.
fn restart(dir: &PodDir, host: usize, arguments: &Arguments) -> Result<Restarted, Failure> {
    terminal::check_interrupted()?;
    check_all_serve(dir, host)?;
    let before = Process::read(&dir.process(host));
    let process = before.ok_or_else(|| Failure::Broken(format!("host {host} has no process")))?;
    let started = Instant::now();
    let clients_ended = let_clients_go(dir, host, arguments.within)?;
    rebalance::empty(dir, host, arguments.within)?;
    leave(dir, host)?;
    await_end(&process, host)?;
    let leaving = started.elapsed();
    let phase = Phase::start(&format!("host {host} comes back"));
    let started = Instant::now();
    ask_within(dir, Asked::Add(host), arguments.back_within).map_err(|why| {
        let (path, said) = (dir.path().display(), dir.said(host));
        Failure::Broken(format!(
            "host {host} does not come back: {why}. Its partitions are served by others, and the hosts \
             behind it were not restarted. See {} and `liger status {path}`; `liger add {path} {host}` \
             starts it, and then this command all hosts again",
            said.display()
        ))
    })?;
    phase.done("it takes clients");
    let coming = started.elapsed();
    let process_now = Process::read(&dir.process(host)).map_or(0, Process::number);
    assert_ne!(process_now, process.number(), "host {host} is another process");
    Ok(Restarted {
        host,
        process_before: process.number(),
        process: process_now,
        clients_ended,
        leaving_seconds: leaving.as_secs_f64(),
        coming_seconds: coming.as_secs_f64(),
    })
}

/// Refuses to take a host away while another one does not serve.
fn check_all_serve(dir: &PodDir, host: usize) -> Result<(), Failure> {
    for other in dir.members() {
        if let Err(why) = ask_host(dir, other, SOON) {
            let path = dir.path().display();
            return Err(Failure::Refused(format!(
                "host {host} stays as it is, because host {other} does not serve ({why}): start that with \
                 `liger add {path} {other}` first"
            )));
        }
    }
    Ok(())
}

/// Waits until a process that leaves has ended.
fn await_end(process: &Process, host: usize) -> Result<(), Failure> {
    let started = Instant::now();
    while process.doing() != Doing::Gone {
        terminal::check_interrupted()?;
        if started.elapsed() > ENDS {
            return Err(Failure::Broken(format!(
                "host {host} has left, but its process {} does not end: end it with `liger kill`, and start \
                 the host with `liger add`",
                process.number()
            )));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
