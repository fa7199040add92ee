//! `liger sim traces`: whether two programs take the same steps in the same runs.

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use liger_sim::scenario;
use liger_sim::traces::{self, Sum};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::terminal;

/// `liger sim traces`.
#[derive(Args)]
pub struct TraceArguments {
    /// Seeds of every scenario, from 1 on
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Only scenarios whose names contain this
    #[arg(long)]
    scenarios: Option<String>,
    /// What another program, or this one before a change, printed with --json: name what differs
    #[arg(long, value_name = "FILE")]
    against: Option<std::path::PathBuf>,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &TraceArguments) -> Result<ExitCode, Failure> {
    let base = arguments.against.as_deref().map(|path| base(path, arguments.seeds)).transpose()?;
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let interrupted = AtomicBool::new(false);
    let goes_on = || {
        if terminal::check_interrupted().is_err() {
            interrupted.store(true, Ordering::Relaxed);
        }
        !interrupted.load(Ordering::Relaxed)
    };
    let (mut sums, mut differ, mut compared) = (Vec::new(), Vec::new(), 0);
    let wanted = |name: &str| arguments.scenarios.as_deref().is_none_or(|part| name.contains(part));
    for scenario in scenario::all().filter(|scenario| wanted(scenario.name)) {
        let Some(sum) = traces::sum(scenario, arguments.seeds, threads, &goes_on) else {
            terminal::check_interrupted()?;
            continue;
        };
        let words = match base.as_ref().map(|base| &base[sum.scenario]) {
            None => "",
            Some(Value::Null) => "  is new",
            Some(before) if *before == object(&sum) => {
                compared += 1;
                "  as before"
            }
            Some(_) => {
                differ.push(sum.scenario.to_owned());
                "  DIFFERS"
            }
        };
        println!("{sum}{words}");
        if let Some((seed, problem)) = &sum.found {
            println!("  seed {seed}: {problem}");
        }
        sums.push(sum);
    }
    if sums.is_empty() {
        return Err(Failure::Refused("no scenario has that in its name".to_owned()));
    }
    if let Some(base) = &base {
        let is_there = |name: &str| scenario::all().any(|scenario| scenario.name == name);
        let gone = base.as_object().into_iter().flat_map(|all| all.keys()).filter(|name| !is_there(name));
        differ.extend(gone.map(|name| format!("{name} (is gone)")));
        println!("{compared} scenarios as before, {} differ: {}", differ.len(), differ.join(", "));
    }
    if arguments.json {
        let all = sums.iter().map(|sum| (sum.scenario.to_owned(), object(sum)));
        println!("{}", Value::Object(all.collect()));
    }
    let right = differ.is_empty() && sums.iter().all(|sum| sum.found.is_none());
    Ok(super::exit(right))
}

fn object(sum: &Sum) -> Value {
    json!({ "seeds": sum.seeds, "verbs": sum.verbs, "hash": format!("{:016x}", sum.hash) })
}

/// The object in the last line of a file, which is to be of so many seeds.
fn base(path: &std::path::Path, seeds: u64) -> Result<Value, Failure> {
    let refused = |why: String| Failure::Refused(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let last = text.lines().last().unwrap_or_default();
    let read: Value = serde_json::from_str(last).map_err(|_| {
        refused("its last line is no JSON object: make it with `liger sim traces --json`".to_owned())
    })?;
    let all = read.as_object().ok_or_else(|| refused("its last line is no JSON object".to_owned()))?;
    match all.values().map(|sum| &sum["seeds"]).find(|of| **of != seeds) {
        Some(of) => Err(refused(format!("it is of {of} seeds, this is of {seeds}: give --seeds {of}"))),
        None => Ok(read),
    }
}
