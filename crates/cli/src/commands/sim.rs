//! `liger sim`: whole pods in one thread, run from a seed.
//!
//! * `sim tpcc`, `ycsb` and so on: a workload, on truly incoherent memory under hostile schedules,
//!   or in the virtual time of a hardware profile;
//! * `sim rows`: random transactions on incoherent memory, one seed or as many as fit a time;
//! * `sim crash-points`: kills a host before every verb of small operations, and shows which call sites
//!   that were;
//! * `sim mutations`: leaves one protocol step out at a time and shows who notices;
//! * `sim replay`: one run of a scenario again, as it is or as a mutant;
//! * `sim traces`: what all scenarios did, as one hash each, compared with another program's.
//!
//! Everything but the wall-clock rates follows from the seed: the same command prints the same `trace_hash`.

mod crash_points;
mod curve;
mod others;
mod traces;
mod workloads;

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use clap::{Args, Subcommand};
use liger_fabric::profile::Profile;
use liger_sim::mutation;
use liger_sim::rows::{self, RowsRun};
use liger_sim::scenario;
use serde_json::json;

use crate::failure::Failure;
use crate::terminal;

/// What to simulate.
#[derive(Subcommand)]
pub enum Simulation {
    /// TPC-C on a simulated pod: adversarial (the default), or timed with --profile.
    Tpcc(workloads::TpccArguments),
    #[command(flatten)]
    Others(others::Others),
    /// Random transactions on incoherent memory, their histories checked.
    Rows(RowsArguments),
    /// Kill a host before every verb of small operations: the others must get over it.
    CrashPoints(crash_points::CrashPointArguments),
    /// Leave one protocol step out at a time: every such mutant must be noticed.
    Mutations(MutationArguments),
    /// Run one scenario on one seed, or on many: what `sim mutations` has found, again.
    Replay(ReplayArguments),
    /// What every scenario does on its first seeds, as one hash each: moving code keeps them.
    Traces(traces::TraceArguments),
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
    /// So many seeds, from this one on, up to the first that finds something
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

/// Runs a simulation.
pub fn run(simulation: &Simulation) -> Result<ExitCode, Failure> {
    match simulation {
        Simulation::Tpcc(arguments) => workloads::tpcc(arguments),
        Simulation::Others(workload) => others::run(workload),
        Simulation::Rows(arguments) => Ok(random_rows(arguments)),
        Simulation::CrashPoints(arguments) => crash_points::run(arguments),
        Simulation::Mutations(arguments) => Ok(mutations(arguments)),
        Simulation::Replay(arguments) => replay(arguments),
        Simulation::Traces(arguments) => traces::run(arguments),
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
    let ReplayArguments { scenario, seed, mutant, seeds, json } = arguments;
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
    let left_out = left_out.transpose()?;
    let (mut verbs, mut last, start_ns) = (0, *seed, now_ns());
    let ran = loop {
        let ran = (scenario.run)(last, left_out.as_ref());
        verbs += ran.report.verbs;
        if ran.problem.is_some() || last + 1 >= seed.saturating_add(*seeds) {
            break ran;
        }
        terminal::check_interrupted()?;
        last += 1;
        if (last - seed).is_multiple_of(1000) {
            let seconds = (now_ns() - start_ns) as f64 / 1e9;
            terminal::say(format_args!("{} of {seeds} seeds in {seconds:.0} s", last - seed));
        }
    };
    let (name, trace_hash) = (scenario.name, format!("{:016x}", ran.report.trace_hash));
    match last - seed {
        0 => println!("{name} seed {last}: {verbs} verbs, trace_hash {trace_hash}"),
        _ => println!("{name} seeds {seed} to {last}: {verbs} verbs, trace_hash of the last {trace_hash}"),
    }
    println!("{}", ran.problem.as_deref().unwrap_or("nothing found"));
    if *json {
        let object = json!({
            "scenario": name, "seed": last, "seeds": last - seed + 1, "mutant": mutant, "verbs": verbs,
            "trace_hash": trace_hash, "problem": ran.problem,
        });
        println!("{object}");
    }
    Ok(exit(ran.problem.is_none()))
}

fn exit(right: bool) -> ExitCode {
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
