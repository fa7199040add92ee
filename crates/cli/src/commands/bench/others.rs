//! `liger bench ycsb`, `smallbank` and `tatp`: their arguments.
//!
//! Nothing is durable in these runs, and no host dies: what they measure is the engine.

use std::process::ExitCode;

use clap::Args;

use super::pod::PodArguments;
use super::run_job;
use crate::commands::parameters::{SmallBankParameters, TatpParameters, YcsbParameters};
use crate::failure::Failure;
use crate::job::Bench;
use crate::memory::check_config;

/// A YCSB run.
#[derive(Args)]
#[command(args_override_self = true)]
pub struct YcsbArguments {
    #[command(flatten)]
    pod: PodArguments,
    #[command(flatten)]
    parameters: YcsbParameters,
    #[command(flatten)]
    crossing: Crossing,
}

/// A SmallBank run.
#[derive(Args)]
#[command(args_override_self = true)]
pub struct SmallBankArguments {
    #[command(flatten)]
    pod: PodArguments,
    #[command(flatten)]
    parameters: SmallBankParameters,
    #[command(flatten)]
    crossing: Crossing,
}

/// A TATP run.
#[derive(Args)]
#[command(args_override_self = true)]
pub struct TatpArguments {
    #[command(flatten)]
    pod: PodArguments,
    #[command(flatten)]
    parameters: TatpParameters,
    #[command(flatten)]
    crossing: Crossing,
}

/// How much of a workload crosses partitions.
#[derive(Args)]
struct Crossing {
    /// Percentage of transactions that touch another host's partition
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=100))]
    cross: u32,
}

fn run(pod: &PodArguments, bench: Bench) -> Result<ExitCode, Failure> {
    let job = pod.job(bench)?;
    check_config(&job.pod_config(), &job.catalog())?;
    run_job(pod, job, None)
}

/// Runs YCSB.
pub(super) fn ycsb(arguments: &YcsbArguments) -> Result<ExitCode, Failure> {
    let YcsbArguments { pod, parameters, crossing } = arguments;
    run(pod, Bench::Ycsb(parameters.benchmark(pod.hosts, crossing.cross)?))
}

/// Runs SmallBank.
pub(super) fn smallbank(arguments: &SmallBankArguments) -> Result<ExitCode, Failure> {
    let SmallBankArguments { pod, parameters, crossing } = arguments;
    run(pod, Bench::SmallBank(parameters.benchmark(pod.hosts, crossing.cross)?))
}

/// Runs TATP.
pub(super) fn tatp(arguments: &TatpArguments) -> Result<ExitCode, Failure> {
    let TatpArguments { pod, parameters, crossing } = arguments;
    run(pod, Bench::Tatp(parameters.benchmark(pod.hosts, crossing.cross, pod.seed)?))
}
