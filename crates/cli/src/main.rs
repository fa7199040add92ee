//! `liger`, the one binary: benchmarks that check their answers, simulated pods, and a look into a pod.
//!
//! Exit codes: 0 done, 1 it ran and something is wrong (an answer, a host that died), 2 it could not start as
//! asked, 130 and 143 interrupted.

#![forbid(unsafe_code)]

mod commands;
mod control;
mod failure;
mod fleet;
mod host;
mod job;
mod memory;
mod sizes;
mod terminal;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{bench, inspect, sim};

/// A database for CXL pods: a few hosts around one shared memory.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a workload on a pod of real processes, then check the whole database.
    #[command(subcommand)]
    Bench(bench::Workload),
    /// Run a whole pod from a seed: on truly incoherent memory, or in the virtual time of a hardware profile.
    #[command(subcommand)]
    Sim(sim::Simulation),
    /// Show what a pod's memory holds; changes nothing.
    Inspect(inspect::Arguments),
    /// One host of a benchmark; started by `liger bench`, which tells it over its standard input what to do.
    #[command(hide = true)]
    Host,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Bench(workload) => bench::run(&workload),
        Command::Sim(simulation) => sim::run(&simulation),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Host => host::run(),
    };
    done.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        ExitCode::from(failure.code())
    })
}
