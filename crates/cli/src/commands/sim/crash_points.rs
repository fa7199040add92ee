//! `liger sim crash-points`: a host dies before every verb of small operations (see
//! `liger_sim::crash_points`), and which call sites of the engine were crash points.

use std::process::ExitCode;

use clap::Args;
use liger_sim::crash_points::{Coverage, DOMAINS, Failure as Found, OPERATIONS, Series, Survey, survey};
use serde_json::json;

use super::{exit, now_ns};
use crate::failure::Failure;

/// `liger sim crash-points`.
#[derive(Args)]
pub struct CrashPointArguments {
    /// Only this operation, or those whose names contain this
    #[arg(long)]
    operation: Option<String>,
    /// Only this crash domain: process, host or host-persistent
    #[arg(long)]
    domain: Option<String>,
    /// Only every so many-th verb
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Only this verb of each window
    #[arg(long, conflicts_with = "every")]
    verb: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 9)]
    seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Seeds of every other scenario that are run to learn which call sites there are
    #[arg(long, default_value_t = 20)]
    others: u64,
    /// List the call sites that are in no window
    #[arg(long)]
    list: bool,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &CrashPointArguments) -> Result<ExitCode, Failure> {
    let refused = |what: String| Failure::Refused(what);
    let domain = arguments.domain.as_ref().map(|asked| {
        let known = DOMAINS.into_iter().find(|(name, _)| name == asked);
        let names = DOMAINS.map(|(name, _)| name).join(", ");
        known
            .map(|(_, domain)| domain)
            .ok_or_else(|| refused(format!("no domain '{asked}'; there are {names}")))
    });
    let asked = arguments.operation.as_deref().unwrap_or_default();
    if !OPERATIONS.iter().any(|operation| operation.name.contains(asked)) {
        let names: Vec<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
        return Err(refused(format!("no operation '{asked}'; there are {}", names.join(", "))));
    }
    let config = Survey {
        operation: arguments.operation.clone(),
        domain: domain.transpose()?,
        every: arguments.every,
        verb: arguments.verb,
        seeds: arguments.seed..arguments.seed + arguments.seeds,
    };
    println!("  time s  operation           domain           seed  host  verbs   runs  others died  wrong");
    let mut surveyed = survey(&config, tell);
    surveyed.coverage.look_elsewhere(if arguments.verb.is_some() { 0 } else { arguments.others });
    show(&surveyed.coverage, arguments.list);
    let runs: u64 = surveyed.series.iter().map(|series| series.runs).sum();
    let failed = surveyed.failures.len();
    println!(
        "{runs} runs, {:.1} million verbs, {:.1} s: {}",
        surveyed.verbs as f64 / 1e6,
        now_ns() as f64 / 1e9,
        if failed == 0 { "nothing found".to_owned() } else { format!("FOUND {failed} problems") }
    );
    for failure in surveyed.failures.iter().filter(|failure| failure.verb.is_none()) {
        show_failure(failure);
    }
    if arguments.json {
        let points = surveyed.coverage.points();
        let mut object = serde_json::to_value(&surveyed).expect("a survey is JSON");
        object["runs"] = json!(runs);
        object["call_sites"] = json!({ "reached": points.0, "killed": points.1 });
        println!("{object}");
    }
    Ok(exit(failed == 0))
}

fn tell(series: &Series, failures: &[Found]) {
    let Series { operation, domain, seed, host, window, runs, others_died, failed } = series;
    println!(
        "{:8.1}  {operation:18}  {domain:15}  {seed:4}  {host:4}  {window:5}  {runs:5}  {others_died:11}  \
         {failed:5}",
        now_ns() as f64 / 1e9
    );
    failures.iter().for_each(show_failure);
}

fn show_failure(failure: &Found) {
    println!("{}\n    {}", failure.command(), failure.problem.replace('\n', "\n    "));
}

fn show(coverage: &Coverage, list: bool) {
    println!("\ncall sites       known  staged  in a window  killed at");
    let mut sum = [0; 4];
    for file in coverage.by_file() {
        let counts = [file.known, file.staged, file.windowed, file.killed];
        (0..4).for_each(|i| sum[i] += counts[i]);
        let [known, staged, windowed, killed] = counts;
        println!("{:44}  {known:5}  {staged:6}  {windowed:11}  {killed:9}", file.file);
        if list {
            file.outside.iter().for_each(|site| println!("    outside: {site}"));
        }
    }
    let [known, staged, windowed, killed] = sum;
    println!("{:44}  {known:5}  {staged:6}  {windowed:11}  {killed:9}", "these files");
    let (reached, killed) = coverage.points();
    println!("of the whole engine: {reached} call sites in windows, killed at {killed}");
    let steps = coverage.steps.len();
    let behind = coverage.steps.values().filter(|point| point.killed > 0).count();
    println!("named steps: {steps} in windows, killed right behind {behind}");
}
