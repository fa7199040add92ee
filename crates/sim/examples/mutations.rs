//! Runs the mutation stage: `mutations [--json] [--seconds-per-mutant N] [--scenarios PART] [--mutants
//! PART]`; or replays one run: `mutations --replay SCENARIO SEED [STEP]`.

#![expect(clippy::disallowed_methods, reason = "the outermost shell keeps the time")]

use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Instant;

use liger_sim::mutation::{Config, listed_steps, stage};
use liger_sim::scenario::{LeftOut, all};

fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn replay(args: &[String]) -> ExitCode {
    let scenario = all().find(|s| s.name == args[0]).expect("a scenario's name");
    let seed = args[1].parse().expect("a seed");
    let step = args.get(2).map(|step| listed_steps().find(|s| s == step).expect("a step's name"));
    let ran = (scenario.run)(seed, step.map(LeftOut::Step).as_ref());
    println!("{} verbs, trace {:016x}", ran.report.verbs, ran.report.trace_hash);
    println!("{}", ran.problem.as_deref().unwrap_or("all is well"));
    if ran.problem.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn main() -> ExitCode {
    let all: Vec<String> = std::env::args().skip(1).collect();
    if all.first().is_some_and(|arg| arg == "--replay") {
        return replay(&all[1..]);
    }
    let mut config = Config::new(now_ns);
    let mut json = false;
    let mut args = all.into_iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--json" => json = true,
            "--seconds-per-mutant" => config.seconds_per_mutant = value().parse().expect("a number"),
            "--scenarios" => config.scenarios = Some(value()),
            "--mutants" => config.mutants = Some(value()),
            other => panic!("unknown argument {other}"),
        }
    }
    let report = stage(&config, |mutant| {
        if !json {
            println!("[{:7.1} s] {}", now_ns() as f64 / 1e9, mutant.line());
        }
    });
    if json {
        println!("{}", report.json());
    } else {
        let table = report.table();
        let summary = table.lines().skip_while(|line| !line.contains(" mutants: "));
        summary.for_each(|line| println!("{line}"));
    }
    if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
