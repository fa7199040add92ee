//! Runs the mutation stage: `mutations [--json] [--seconds-per-mutant N] [--scenarios PART] [--mutants PART]`.

#![expect(clippy::disallowed_methods, reason = "the outermost shell keeps the time")]

use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Instant;

use liger_sim::mutation::{Config, stage};

fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn main() -> ExitCode {
    let mut config = Config::new(now_ns);
    let mut json = false;
    let mut args = std::env::args().skip(1);
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
