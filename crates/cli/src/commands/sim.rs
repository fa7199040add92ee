//! `liger sim`: whole pods in one thread, run from a seed.
//!
//! * `sim tpcc`: TPC-C, on truly incoherent memory under hostile schedules, or in the virtual time of a
//!   hardware profile;
//! * `sim rows`: random transactions on incoherent memory, one seed or as many as fit a time;
//! * `sim crash-points`: kills a host before every verb of small operations, and shows which call sites
//!   that were;
//! * `sim mutations`: leaves one protocol step out at a time and shows who notices;
//! * `sim replay`: one run of a scenario again, as it is or as a mutant.
//!
//! Everything but the wall-clock rates follows from the seed: the same command prints the same `trace_hash`.

mod crash_points;
mod curve;

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use clap::{Args, Subcommand};
use liger_fabric::profile::Profile;
use liger_sim::mutation;
use liger_sim::rows::{self, RowsRun};
use liger_sim::scenario;
use liger_sim::tpcc::{self, Kind, TpccSim, TpccSimResult};
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::driver::Length;
use liger_workload::tpcc::input::{Mix, Remote};
use serde_json::{Value, json};

use crate::commands::bench::MixName;
use crate::failure::Failure;

/// What to simulate.
#[derive(Subcommand)]
pub enum Simulation {
    /// TPC-C on a simulated pod: adversarial (the default), or timed with --profile.
    Tpcc(TpccArguments),
    /// Random transactions on incoherent memory, their histories checked.
    Rows(RowsArguments),
    /// Kill a host before every verb of small operations: the others must get over it.
    CrashPoints(crash_points::CrashPointArguments),
    /// Leave one protocol step out at a time: every such mutant must be noticed.
    Mutations(MutationArguments),
    /// Run one scenario on one seed: what `sim mutations` has found, again.
    Replay(ReplayArguments),
}

/// `liger sim tpcc`.
#[derive(Args)]
pub struct TpccArguments {
    /// Decides everything
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Incoherent memory, hostile schedules and caches; database and pod are tiny and follow from the seed
    #[arg(long, conflicts_with = "profile")]
    adversarial: bool,
    /// Virtual time on this hardware: a built-in profile (tigon-osdi25, tigon-osdi25-measured, polar-xconn,
    /// pcc-spr, dram) or a file
    #[arg(long)]
    profile: Option<String>,
    /// Hosts of the timed pod, 1 to 16
    #[arg(long, default_value_t = 8, requires = "profile", value_parser = hosts())]
    hosts: u8,
    /// Workers of each host of the timed pod, 1 to 32
    #[arg(long, default_value_t = 3, requires = "profile", value_parser = workers())]
    workers: u8,
    /// Remote transactions of the timed run: "spec", or percentages of New-Orders and Payments like "60/90"
    #[arg(long, default_value = "60/90", requires = "profile")]
    remote: Remote,
    /// Every point from 0/0 to 60/90 instead of one
    #[arg(long, requires = "profile", conflicts_with = "remote")]
    curve: bool,
    /// How often the curve is run, on one database, each time with other inputs: gives the spread
    #[arg(long, default_value_t = 3, requires = "curve", value_parser = rounds())]
    rounds: u16,
    /// Whose definition of the transactions
    #[arg(long, value_enum, default_value_t = MixName::Artifact, requires = "profile")]
    mix: MixName,
    /// Divides customers, orders and items of the timed run, to fit this machine's memory
    #[arg(long, default_value_t = 10, requires = "profile", value_parser = divisors())]
    scale_divisor: i32,
    /// Virtual milliseconds measured
    #[arg(long, default_value_t = 20, requires = "profile", value_parser = milliseconds())]
    virtual_ms: u64,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

/// `liger sim rows`.
#[derive(Args)]
pub struct RowsArguments {
    /// The first seed, or the only one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Go on with the next seeds for so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Print what every transaction of the (first) seed saw and did
    #[arg(long)]
    history: bool,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

/// `liger sim mutations`.
#[derive(Args)]
pub struct MutationArguments {
    /// Time after which a mutant that nobody noticed has survived
    #[arg(long, default_value_t = 20.0)]
    seconds_per_mutant: f64,
    /// How many mutants are searched side by side [default: the machine's cores]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    threads: Option<u8>,
    /// Only mutants whose names contain this
    #[arg(long)]
    mutants: Option<String>,
    /// Only scenarios whose names contain this
    #[arg(long)]
    scenarios: Option<String>,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

/// `liger sim replay`.
#[derive(Args)]
pub struct ReplayArguments {
    /// The scenario's name
    scenario: String,
    /// The seed
    seed: u64,
    /// What to leave out, as `sim mutations` names it: a step, or "VERB at FILE:LINE:COLUMN"
    mutant: Option<String>,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

fn hosts() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(1..=16)
}

fn workers() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(1..=32)
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

/// Runs a simulation.
pub fn run(simulation: &Simulation) -> Result<ExitCode, Failure> {
    match simulation {
        Simulation::Tpcc(arguments) if arguments.curve => curve::run(arguments),
        Simulation::Tpcc(arguments) => one_tpcc(arguments),
        Simulation::Rows(arguments) => Ok(random_rows(arguments)),
        Simulation::CrashPoints(arguments) => crash_points::run(arguments),
        Simulation::Mutations(arguments) => Ok(mutations(arguments)),
        Simulation::Replay(arguments) => replay(arguments),
    }
}

/// Nanoseconds of real time since the program's first question.
#[expect(clippy::disallowed_methods, reason = "the command line is outside of every simulation")]
fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn profile(name: &str) -> Result<Arc<Profile>, Failure> {
    Profile::named(name).map(Arc::new).map_err(|error| Failure::Refused(error.to_string()))
}

fn timed(arguments: &TpccArguments, profile: &Arc<Profile>, remote: Remote) -> TpccSim {
    let measured_ns = 1_000_000 * arguments.virtual_ms;
    let TpccArguments { seed, hosts, workers, mix, scale_divisor, .. } = *arguments;
    let warehouses = i16::from(hosts) * i16::from(workers);
    let scale =
        if scale_divisor == 1 { Scale::full(warehouses) } else { Scale::reduced(warehouses, scale_divisor) };
    TpccSim {
        seed,
        hosts,
        workers,
        scale,
        mix: Mix::from(mix),
        length: Length::Time { warm_up_ns: measured_ns / 4, measured_ns },
        ..TpccSim::tigon(Arc::clone(profile), scale_divisor, remote, measured_ns)
    }
}

/// A result and how fast it came.
struct Timed {
    result: TpccSimResult,
    wall_s: f64,
    cpu_s: f64,
}

/// Processor time of this thread, seconds: other programs of this machine do not count.
fn cpu_s() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn watched(run: impl FnOnce() -> TpccSimResult) -> Timed {
    let (start_ns, start_cpu_s) = (now_ns(), cpu_s());
    let result = run();
    Timed { result, wall_s: (now_ns() - start_ns) as f64 / 1e9, cpu_s: cpu_s() - start_cpu_s }
}

fn run_timed(run: &TpccSim) -> Timed {
    let loaded = tpcc::load(run);
    watched(|| loaded.run())
}

impl Timed {
    fn verbs_per_s(&self) -> f64 {
        self.result.verbs as f64 / self.wall_s
    }

    fn verbs_per_cpu_s(&self) -> f64 {
        self.result.verbs as f64 / self.cpu_s
    }

    fn json(&self) -> Value {
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

fn one_tpcc(arguments: &TpccArguments) -> Result<ExitCode, Failure> {
    let run = match &arguments.profile {
        None => TpccSim::adversarial(arguments.seed),
        Some(name) => timed(arguments, &profile(name)?, arguments.remote),
    };
    let kind = match &run.kind {
        Kind::Adversarial => "adversarial: incoherent memory, hostile schedules",
        Kind::Timed(_) => "timed: all times are virtual",
    };
    let timed = run_timed(&run);
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
    println!(
        "{}",
        if result.problems.is_empty() { "every check passed".into() } else { result.problems.join("\n") }
    );
    if arguments.json {
        println!("{}", timed.json());
    }
    Ok(exit(result.problems.is_empty()))
}

fn random_rows(arguments: &RowsArguments) -> ExitCode {
    let start_ns = now_ns();
    let until_ns = arguments.seconds.map_or(0, |seconds| start_ns + seconds * 1_000_000_000);
    let (mut seed, mut told_ns) = (arguments.seed, start_ns);
    let (mut runs, mut verbs, mut switches, mut committed, mut moves) = (0u64, 0u64, 0u64, 0u64, 0u64);
    let mut last_hash;
    let problems = loop {
        let result = rows::run(&RowsRun::from_seed(seed));
        runs += 1;
        verbs += result.report.verbs;
        switches += result.report.switches;
        committed += result.committed;
        moves += result.moves.0 + result.moves.1;
        last_hash = result.report.trace_hash;
        if arguments.history && runs == 1 {
            println!("{}", result.history);
        }
        if !result.problems.is_empty() || now_ns() >= until_ns {
            break result.problems;
        }
        if now_ns() - told_ns > 60_000_000_000 {
            told_ns = now_ns();
            let elapsed_s = (told_ns - start_ns) / 1_000_000_000;
            eprintln!("{elapsed_s} s: {runs} runs, {verbs} verbs, {committed} committed, nothing found");
        }
        seed += 1;
    };
    for problem in &problems {
        println!("seed {seed}: {problem}");
    }
    let elapsed_s = (now_ns() - start_ns) as f64 / 1e9;
    println!(
        "{runs} runs, seeds {} to {seed}, in {elapsed_s:.1} s: {verbs} verbs, {switches} switches, \
         {committed} transactions committed, {moves} moves; last trace_hash {last_hash:016x}; {}",
        arguments.seed,
        if problems.is_empty() { "nothing found" } else { "FOUND something" }
    );
    if arguments.json {
        let object = json!({
            "first_seed": arguments.seed, "last_seed": seed, "runs": runs, "verbs": verbs,
            "switches": switches,
            "committed": committed, "moves": moves, "seconds": elapsed_s, "problems": problems,
            "trace_hash": format!("{last_hash:016x}"),
        });
        println!("{object}");
    }
    exit(problems.is_empty())
}

fn mutations(arguments: &MutationArguments) -> ExitCode {
    let mut config = mutation::Config::new(now_ns);
    config.seconds_per_mutant = arguments.seconds_per_mutant;
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    config.threads = arguments.threads.map_or_else(cores, usize::from);
    config.mutants = arguments.mutants.clone();
    config.scenarios = arguments.scenarios.clone();
    let report = mutation::stage(&config, |mutant| {
        println!("[{:6.1} s] {}", now_ns() as f64 / 1e9, mutant.line());
    });
    println!("{}", report.summary());
    if arguments.json {
        println!("{}", report.json());
    }
    exit(report.passed())
}

fn replay(arguments: &ReplayArguments) -> Result<ExitCode, Failure> {
    let ReplayArguments { scenario, seed, mutant, json } = arguments;
    let Some(scenario) = scenario::all().find(|known| known.name == scenario) else {
        let names: Vec<&str> = scenario::all().map(|known| known.name).collect();
        return Err(Failure::Refused(format!("no scenario '{scenario}'; there are {}", names.join(", "))));
    };
    let left_out = mutant.as_ref().map(|name| {
        let unknown = || {
            let run = scenario.name;
            Failure::Refused(format!("'{name}' is no step, and no call site that {run} {seed} reaches"))
        };
        mutation::named(scenario, *seed, name).ok_or_else(unknown)
    });
    let ran = (scenario.run)(*seed, left_out.transpose()?.as_ref());
    let (verbs, trace_hash) = (ran.report.verbs, format!("{:016x}", ran.report.trace_hash));
    println!("{} seed {seed}: {verbs} verbs, trace_hash {trace_hash}", scenario.name);
    println!("{}", ran.problem.as_deref().unwrap_or("nothing found"));
    if *json {
        let object = json!({
            "scenario": scenario.name, "seed": seed, "mutant": mutant, "verbs": verbs,
            "trace_hash": trace_hash, "problem": ran.problem,
        });
        println!("{object}");
    }
    Ok(exit(ran.problem.is_none()))
}

fn exit(right: bool) -> ExitCode {
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
