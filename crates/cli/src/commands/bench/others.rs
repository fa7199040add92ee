//! `liger bench` of the workloads whose commands follow from their declarations: their arguments.
//!
//! Nothing is durable in these runs, and no host dies: what they measure is the engine.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use liger_workload::declared::{Asked, Offered};
use liger_workload::workloads;

use super::pod::PodArguments;
use super::run_job;
use crate::failure::Failure;
use crate::job::Bench;
use crate::memory::check_config;

/// A run.
#[derive(Args)]
#[command(args_override_self = true)]
pub struct OtherArguments<O: Args> {
    #[command(flatten)]
    pod: PodArguments,
    #[command(flatten)]
    options: O,
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

macro_rules! define_others {
    (own $own:tt offered { $($name:ident $($at:ident)::+)* }) => {
        /// One of these workloads.
        #[derive(Subcommand)]
        #[command(rename_all = "lower")]
        pub enum Others {
            $(
                #[command(about = about::<liger_workload::$($at)::+>())]
                $name(Box<OtherArguments<<liger_workload::$($at)::+ as Offered>::Options>>),
            )*
        }

        /// Runs it.
        pub(super) fn run(workload: &Others) -> Result<ExitCode, Failure> {
            match workload {
                $(Others::$name(arguments) => run_one::<liger_workload::$($at)::+>(arguments),)*
            }
        }
    };
}
workloads!(define_others);

fn about<B: Offered>() -> String {
    format!("{}, then {}", B::TITLE, B::CHECKED)
}

fn run_one<B: Offered + Into<Bench>>(arguments: &OtherArguments<B::Options>) -> Result<ExitCode, Failure> {
    let OtherArguments { pod, options, crossing } = arguments;
    let asked = Asked { hosts: pod.hosts, cross_percent: crossing.cross, seed: pod.seed };
    let workload = B::asked(options, asked).map_err(Failure::Refused)?;
    let job = pod.job(workload.into())?;
    check_config(&job.pod_config(), &job.catalog())?;
    run_job(pod, job, None)
}
