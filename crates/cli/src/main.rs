//! `liger`, the one binary: pods in directories, benchmarks that check their answers, simulated pods, and a
//! look into a pod.
//!
//! Exit codes: 0 done, 1 it ran and something is wrong (an answer, a host that died), 2 it could not start as
//! asked, 3 the pod that was asked for is down (`liger status`), 130 and 143 interrupted. A command whose
//! output nobody reads any more ends by SIGPIPE, as other programs do.

#![forbid(unsafe_code)]

mod access;
mod backup;
mod commands;
mod connections;
mod control;
mod engines;
mod failure;
mod fleet;
mod host;
mod interrupt;
mod job;
mod leftovers;
mod memory;
mod orders;
mod outside;
mod pace;
mod plot;
mod pod;
mod shell;
mod side_by_side;
mod sizes;
mod telling;
mod terminal;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{
    backup as back_up, bench, clean, explore, grow, hosts, inspect, probe, rebalance, reproduce, restart,
    restore, sim, status, up, verify as audit,
};

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
    /// Run a published evaluation in the virtual time of a profile, and set its numbers beside ours.
    Reproduce(reproduce::Arguments),
    /// Simulate pods that differ in one or two hardware parameters: what is which pod worth?
    Explore(explore::Arguments),
    /// Measure this machine's memory, and write a hardware profile.
    Probe(probe::Arguments),
    /// Show what a pod's memory holds; changes nothing.
    Inspect(inspect::Arguments),
    /// Make a pod in a directory: one process for each host, supervised until an interrupt.
    Up(Box<up::UpArguments>),
    /// Start the pod of a directory again, from its logs and checkpoints, and from its memory if that is
    /// there.
    Recover(up::RecoverArguments),
    /// Give back the memory of pods that have ended.
    Clean(clean::Arguments),
    /// Show the hosts of a pod directory; changes nothing. Ends with 3 if the pod is down.
    Status(status::Arguments),
    /// Read every file of a pod that is down, or of a backup, and replay it; of a pod that is up, check who
    /// owns what.
    Verify(audit::Arguments),
    /// Kill a host's process at once, as a crash would.
    Kill(hosts::OneHost),
    /// Stop a host's process: it is there and does nothing, as a host that hangs.
    Hang(hosts::OneHost),
    /// Let a host go on that hangs.
    Resume(hosts::OneHost),
    /// Start a host again that has ended; it joins under its number.
    Add(hosts::OneHost),
    /// Let a host leave that owns no partitions.
    Remove(hosts::OneHost),
    /// Let a host leave once its clients have ended their transactions; it takes no new ones.
    Drain(hosts::Drain),
    /// Restart the hosts of a pod one after the other, while the others serve.
    Restart(restart::Arguments),
    /// Let partitions go to other hosts while all serve: an even share for each, or one partition.
    Rebalance(rebalance::Arguments),
    /// Let a pod use more of its memory, while it serves.
    Grow(grow::Arguments),
    /// Take a checkpoint on every host, while they serve others.
    Checkpoint(hosts::OnePod),
    /// Copy a pod, as it is at one point of time, while its clients work.
    Backup(back_up::Arguments),
    /// Make the directory of a pod from a backup.
    Restore(restore::Arguments),
    /// Ask a pod, or any server of PostgreSQL: a small shell for SQL.
    Sql(shell::Arguments),
    /// One host of a pod directory; started by `liger up`.
    #[command(hide = true)]
    Serve(hosts::OneHost),
    /// Be a host of a pod that is up, in the foreground, as those are that `liger up` starts.
    Host(hosts::ByHand),
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    if !matches!(command, Command::Serve(_) | Command::Host(_)) {
        interrupt::end_with_readers();
    }
    let done = match command {
        Command::Bench(workload) => bench::run(&workload),
        Command::Sim(simulation) => sim::run(&simulation),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Explore(arguments) => explore::run(&arguments),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Up(arguments) => up::up(&arguments),
        Command::Recover(arguments) => up::recover(&arguments),
        Command::Clean(arguments) => clean::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Verify(arguments) => audit::run(&arguments),
        Command::Kill(host) => hosts::kill(&host),
        Command::Hang(host) => hosts::hang(&host),
        Command::Resume(host) => hosts::resume(&host),
        Command::Add(host) => hosts::add(&host),
        Command::Remove(host) => hosts::remove(&host),
        Command::Drain(host) => hosts::drain(&host),
        Command::Restart(arguments) => restart::run(&arguments),
        Command::Rebalance(arguments) => rebalance::run(&arguments),
        Command::Grow(arguments) => grow::run(&arguments),
        Command::Checkpoint(pod) => hosts::checkpoint(&pod),
        Command::Backup(arguments) => back_up::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Sql(arguments) => shell::run(&arguments),
        Command::Serve(host) => hosts::serve(&host),
        Command::Host(host) => hosts::by_hand(&host),
    };
    done.unwrap_or_else(|failure| {
        terminal::say(format_args!("error: {failure}"));
        ExitCode::from(failure.code())
    })
}
