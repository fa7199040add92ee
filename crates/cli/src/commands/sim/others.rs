//! `liger sim` of the workloads whose commands follow from their declarations: one run, or a curve of runs on
//! one database.

use std::process::ExitCode;

use clap::{Args, Command, Subcommand};
use liger_workload::declared::{Asked, Offered};
use liger_workload::workloads;

use super::curve;
use super::workloads::PodArguments;
use crate::failure::Failure;

/// A run, or a curve.
#[derive(Args)]
pub struct OtherArguments<O: Args> {
    #[command(flatten)]
    pod: PodArguments,
    #[command(flatten)]
    crossing: Crossing,
    #[command(flatten)]
    options: O,
}

/// How much of a workload crosses partitions.
#[derive(Args)]
struct Crossing {
    /// Percentage of the timed run's transactions that touch another host's partition
    #[arg(long, default_value_t = 10, requires = "profile", value_parser = percent())]
    cross: u32,
    /// Every share from 0 to 100 instead of one
    #[arg(long, requires = "profile", conflicts_with = "cross")]
    curve: bool,
}

fn percent() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=100)
}

macro_rules! define_others {
    (own $own:tt offered { $($name:ident $($at:ident)::+)* }) => {
        /// One of these workloads.
        #[derive(Subcommand)]
        #[command(rename_all = "lower")]
        pub enum Others {
            $(
                #[command(about = about::<liger_workload::$($at)::+>())]
                $name(OtherArguments<<liger_workload::$($at)::+ as Offered>::Options>),
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

/// What is more than a name is set off by a comma.
fn about<B: Offered>() -> String {
    let comma = if B::TITLE.contains(' ') { "," } else { "" };
    format!("{}{comma} on a simulated pod: adversarial (the default), or timed with --profile", B::TITLE)
}

/// Refuses options of the workload that an adversarial run would not heed.
fn heeds<O: Args + PartialEq>(pod: &PodArguments, options: &O) -> Result<(), Failure> {
    let none = O::augment_args(Command::new("")).no_binary_name(true).get_matches_from([""; 0]);
    if pod.profile.is_some() || O::from_arg_matches(&none).is_ok_and(|usual| usual == *options) {
        return Ok(());
    }
    Err(Failure::Refused(
        "the workload's parameters are for timed runs, and under the adversary all follows from the seed: \
         add --profile, or leave them out"
            .to_owned(),
    ))
}

fn run_one<B: Offered>(arguments: &OtherArguments<B::Options>) -> Result<ExitCode, Failure> {
    let OtherArguments { pod, crossing, options } = arguments;
    heeds(pod, options)?;
    let timed = |cross_percent| {
        let asked = Asked { hosts: pod.hosts, cross_percent, seed: pod.seed };
        B::asked(options, asked).map_err(Failure::Refused)
    };
    let one = timed(crossing.cross)?;
    if !crossing.curve {
        return pod.one(one);
    }
    let point = |cross: u32| Ok((cross.to_string(), timed(cross)?));
    let points = curve::CROSS.into_iter().map(point).collect::<Result<Vec<_>, Failure>>()?;
    let settings = one.settings().into_iter().filter(|(name, _)| name != "cross_percent");
    let size: Vec<String> = settings.map(|(name, value)| format!("{name} {value}")).collect();
    let what = curve::What { title: one.name().to_owned(), size: size.join(", "), points: "cross" };
    curve::run(pod, &what, points)
}
