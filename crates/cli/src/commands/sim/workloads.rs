//! What every simulated workload is told, and how its runs are shown; and `liger sim tpcc`: one run, or a
//! curve of runs on one database.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use liger_engine::TxnError;
use liger_fabric::sim::Profile;
use liger_sim::bench::{self, BenchResult, BenchSim, Kind, PodEngine, shapes};
use liger_workload::benchmark::Benchmark;
use liger_workload::declared::Hostile;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::benchmark::Tpcc;
use liger_workload::tpcc::input::{Mix, Remote};
use serde_json::{Value, json};

use super::{curve, exit, now_ns, profile};
use crate::commands::bench::{HomesName, MixName};
use crate::engines::{EngineArguments, OnEngine};
use crate::failure::Failure;

/// What all simulated workloads are told.
#[derive(Args)]
pub struct PodArguments {
    /// Decides everything
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Incoherent memory, hostile schedules and caches; database and pod are tiny and follow from the seed
    #[arg(long, conflicts_with = "profile")]
    adversarial: bool,
    /// Virtual time on this hardware: a built-in profile (tigon-osdi25, tigon-osdi25-measured, polar-xconn,
    /// pcc-spr, dram) or a file
    #[arg(long)]
    pub profile: Option<String>,
    /// Hosts of the timed pod, 1 to 16
    #[arg(long, default_value_t = 8, requires = "profile", value_parser = hosts())]
    pub hosts: u8,
    /// Workers of each host of the timed pod, 1 to 31
    #[arg(long, default_value_t = 3, requires = "profile", value_parser = workers())]
    pub workers: u8,
    /// Virtual milliseconds measured
    #[arg(long, default_value_t = 20, requires = "profile", value_parser = milliseconds())]
    pub virtual_ms: u64,
    /// After a conflict wait a random time up to so many microseconds, as Tigon's artifact (100) [default: as
    /// the engine thinks right]
    #[arg(long, requires = "profile", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub back_off_us: Option<u64>,
    /// The log of every host of the timed pod, on a simulated disk: "none", or so many virtual milliseconds
    /// an epoch, like 10 or 0.5; transactions are acknowledged at group commit, and latencies run until then
    #[arg(
        long,
        value_name = "none|MS",
        default_value = "none",
        requires = "profile",
        allow_negative_numbers = true,
        value_parser = epochs
    )]
    log: Epochs,
    /// How often the curve is run, on one database, each time with other inputs: gives the spread
    #[arg(long, default_value_t = 3, requires = "curve", value_parser = rounds())]
    pub rounds: u16,
    #[command(flatten)]
    pub engine: EngineArguments,
    /// Print one JSON object as the last line
    #[arg(long)]
    pub json: bool,
}

/// `liger sim tpcc`.
#[derive(Args)]
pub struct TpccArguments {
    #[command(flatten)]
    pod: PodArguments,
    /// Remote transactions of the timed run: "spec", or percentages of New-Orders and Payments like "60/90"
    #[arg(long, default_value = "60/90", requires = "profile")]
    remote: Remote,
    /// Every point from 0/0 to 60/90 instead of one
    #[arg(long, requires = "profile", conflicts_with = "remote")]
    curve: bool,
    /// Whose definition of the transactions
    #[arg(long, value_enum, default_value_t = MixName::Artifact, requires = "profile")]
    mix: MixName,
    /// Where transactions are at home: each worker's own warehouses, or any of its host
    #[arg(long, value_enum, default_value = "any-local", requires = "profile")]
    homes: HomesName,
    /// Divides customers, orders and items of the timed run, to fit this machine's memory
    #[arg(long, default_value_t = 10, requires = "profile", value_parser = divisors())]
    scale_divisor: i32,
}

fn hosts() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(1..=16)
}

fn workers() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(1..=31)
}

fn divisors() -> clap::builder::RangedI64ValueParser<i32> {
    clap::value_parser!(i32).range(1..=1000)
}

fn rounds() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=100)
}

fn milliseconds() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..)
}

/// What hosts keep in their logs: nothing, or epochs of so many nanoseconds.
#[derive(Clone, Copy)]
struct Epochs(Option<u64>);

/// Epochs from ten microseconds to ten seconds.
fn epochs(text: &str) -> Result<Epochs, String> {
    if text == "none" {
        return Ok(Epochs(None));
    }
    let ms: Option<f64> = text.parse().ok().filter(|ms| (0.01..=10_000.0).contains(ms));
    let ns = ms.map(|ms| (1e6 * ms).round() as u64);
    ns.map(|ns| Epochs(Some(ns)))
        .ok_or_else(|| "neither \"none\" nor 0.01 to 10000 milliseconds an epoch, like 10 or 0.5".to_owned())
}

impl PodArguments {
    /// This workload in virtual time.
    pub fn timed<B: Benchmark>(&self, profile: &Arc<Profile>, benchmark: B) -> BenchSim<B> {
        let usual = BenchSim::timed(Arc::clone(profile), benchmark, 1_000_000 * self.virtual_ms);
        let back_off_ns = self.back_off_us.map(|us| 1000 * us);
        let Self { seed, hosts, workers, .. } = *self;
        BenchSim { seed, hosts, workers, back_off_ns, log: self.log.0.map(bench::log_of_epochs), ..usual }
    }

    /// One run: of the hostile shape, or timed with this workload.
    pub(super) fn one<B: Hostile>(&self, timed: B) -> Result<ExitCode, Failure> {
        let run = match &self.profile {
            None => shapes::adversarial(self.seed),
            Some(name) => self.timed(&profile(name)?, timed),
        };
        let adversarial = matches!(run.kind, Kind::Adversarial);
        self.engine.simulate(adversarial, run.workers, Show { run: &run, as_json: self.json })
    }
}

/// `liger sim tpcc`.
pub(super) fn tpcc(arguments: &TpccArguments) -> Result<ExitCode, Failure> {
    let (pod, mix) = (&arguments.pod, Mix::from(arguments.mix));
    let warehouses = i16::from(pod.hosts) * i16::from(pod.workers);
    let scale = match arguments.scale_divisor {
        1 => Scale::full(warehouses),
        divisor => Scale::reduced(warehouses, divisor),
    };
    let homes = arguments.homes.into();
    let timed = |remote| Tpcc { scale, mix, homes, ..shapes::tpcc(remote) };
    if !arguments.curve {
        return pod.one(timed(arguments.remote));
    }
    let points = curve::TPCC.map(|(new_order, payment)| {
        (format!("{new_order}/{payment}"), timed(Remote::Percent { new_order, payment }))
    });
    let what = curve::What {
        title: format!("TPC-C ({} mix)", mix.name()),
        size: format!("scale 1/{}, every CUSTOMER and STOCK row shared", arguments.scale_divisor),
        points: "NO/Pay",
    };
    curve::run(pod, &what, points.into())
}

/// A result and how fast it came.
pub(super) struct Timed {
    pub result: BenchResult,
    wall_s: f64,
    cpu_s: f64,
}

/// Processor time of this thread, seconds: other programs of this machine do not count.
fn cpu_s() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

pub(super) fn watched(run: impl FnOnce() -> BenchResult) -> Timed {
    let (start_ns, start_cpu_s) = (now_ns(), cpu_s());
    let result = run();
    Timed { result, wall_s: (now_ns() - start_ns) as f64 / 1e9, cpu_s: cpu_s() - start_cpu_s }
}

impl Timed {
    fn verbs_per_s(&self) -> f64 {
        self.result.verbs as f64 / self.wall_s
    }

    pub fn verbs_per_cpu_s(&self) -> f64 {
        self.result.verbs as f64 / self.cpu_s
    }

    pub fn json(&self) -> Value {
        let result = &self.result;
        let mut object: Value = serde_json::from_str(&result.report.json()).expect("a report is JSON");
        object["trace_hash"] = json!(format!("{:016x}", result.trace_hash));
        object["verbs"] = json!(result.verbs);
        object["virtual_s"] = json!(result.virtual_ns as f64 / 1e9);
        object["verbs_per_wall_s"] = json!(self.verbs_per_s());
        object["verbs_per_cpu_s"] = json!(self.verbs_per_cpu_s());
        object["time_use"] = curve::time_use(&result.time_use);
        object["problems"] = json!(result.problems);
        object
    }
}

/// Runs it and prints what came out.
struct Show<'r, B> {
    run: &'r BenchSim<B>,
    as_json: bool,
}

impl<B: Benchmark> OnEngine for Show<'_, B> {
    type Out = ExitCode;

    fn run<E: PodEngine>(self, design: &E::Design) -> Result<ExitCode, TxnError> {
        show::<E, B>(self.run, self.as_json, design)
    }
}

fn show<E: PodEngine, B: Benchmark>(
    run: &BenchSim<B>,
    as_json: bool,
    design: &E::Design,
) -> Result<ExitCode, TxnError> {
    let kind = match &run.kind {
        Kind::Adversarial => "adversarial: incoherent memory, hostile schedules",
        Kind::Timed(_) => "timed: all times are virtual",
    };
    let loaded = bench::load::<E, B>(run, design)?;
    let timed = watched(|| loaded.run());
    let result = &timed.result;
    println!("{}", result.report.table());
    println!("simulated ({kind})");
    println!(
        "seed {}, trace_hash {:016x}, {} verbs in {:.1} s of real time ({:.2} million/s; {:.2} million/s of \
         processor time), {:.3} virtual s",
        run.seed,
        result.trace_hash,
        result.verbs,
        timed.wall_s,
        timed.verbs_per_s() / 1e6,
        timed.verbs_per_cpu_s() / 1e6,
        result.virtual_ns as f64 / 1e9
    );
    if matches!(run.kind, Kind::Timed(_)) {
        println!("{}", curve::shares_line(&result.time_use));
    }
    println!(
        "{}",
        if result.problems.is_empty() { "every check passed".into() } else { result.problems.join("\n") }
    );
    if as_json {
        println!("{}", timed.json());
    }
    Ok(exit(result.problems.is_empty()))
}
