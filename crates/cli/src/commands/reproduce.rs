//! `liger reproduce`: a published evaluation, run in virtual time under one profile, set beside its published
//! numbers, judged and drawn.
//!
//! * [`plan`]: figures, lines and claims; [`published`]: the numbers; [`measure`]: runs and keeps lines;
//!   [`judge`]: ratios and claims; [`report`]: the HTML and JSON files; [`native`]: in real time instead.

mod judge;
mod measure;
mod native;
mod plan;
mod published;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use liger_fabric::profile::Profile;

use crate::failure::Failure;
use crate::terminal::note_interrupts;
use judge::{FigureVerdict, judge, median_deviation};
use measure::{Common, Size, measure_all};
use plan::{Axis, Figure};

/// Which evaluation.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Evaluation {
    /// Tigon (OSDI 2025): TPC-C and YCSB against partitioned rivals, and how copies are kept coherent
    Tigon,
    /// Pasha (CIDR 2025): New-Order and Payment
    Pasha,
    /// Tigon's comparison in small, in real time on this machine; and whether the simulator predicts it
    Native,
}

/// What to reproduce.
#[derive(Args)]
pub struct Arguments {
    /// Whose evaluation
    #[arg(value_enum)]
    evaluation: Evaluation,
    /// A small database and short runs: minutes
    #[arg(long)]
    quick: bool,
    /// Folder of the report; lines that are there already are not run again
    #[arg(long, default_value = "reproduction")]
    out: PathBuf,
    /// Hardware profile of what is simulated: a built-in name or a file [default: tigon-osdi25; native: dram]
    #[arg(long)]
    profile: Option<String>,
    /// Only figures whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Decides everything
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulated lines that are run at once [default: 2]; `native` has the machine to itself
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Option<u8>,
    /// How often `native` runs every engine at every point [default: 5; quick: 3]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: Option<u16>,
    /// Print the JSON object instead of the table
    #[arg(long)]
    json: bool,
}

/// The figures that were asked for.
fn chosen<F>(
    arguments: &Arguments,
    name: &str,
    mut figures: Vec<F>,
    id: impl Fn(&F) -> &'static str,
) -> Result<Vec<F>, Failure> {
    if let Some(only) = &arguments.only {
        let known: Vec<&str> = figures.iter().map(&id).collect();
        let known = known.join(", ");
        figures.retain(|figure| id(figure).contains(only.as_str()));
        if figures.is_empty() {
            return Err(Failure::Refused(format!("no figure of {name} is called {only}: there are {known}")));
        }
    }
    Ok(figures)
}

fn profile(arguments: &Arguments, usual: &str) -> Result<Arc<Profile>, Failure> {
    let named = Profile::named(arguments.profile.as_deref().unwrap_or(usual));
    named.map(Arc::new).map_err(|error| Failure::Refused(error.to_string()))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Refused(format!("{}: {error}: name a folder that can be written with --out", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| unwritable(path, &error))
}

/// Reproduces.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match (arguments.evaluation, arguments.threads, arguments.rounds) {
        (Evaluation::Native, None, _) => native::run(arguments),
        (Evaluation::Native, Some(_), _) => {
            let message =
                "--threads: native runs one thing at a time, or nothing could be measured: leave it out";
            Err(Failure::Refused(message.to_owned()))
        }
        (_, _, Some(_)) => {
            let message = "--rounds: simulated runs replay, and one is as good as many: leave it out";
            Err(Failure::Refused(message.to_owned()))
        }
        _ => simulated(arguments),
    }
}

/// Reproduces an evaluation in virtual time.
fn simulated(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (name, title, figures) = match arguments.evaluation {
        Evaluation::Tigon => ("tigon", "The evaluation of Tigon (OSDI 2025), reproduced", plan::tigon()),
        _ => ("pasha", "The evaluation of Pasha (CIDR 2025), reproduced", plan::pasha()),
    };
    let mut figures = chosen(arguments, name, figures, |figure: &Figure| figure.id)?;
    let profile = profile(arguments, "tigon-osdi25")?;
    for line in figures.iter_mut().flat_map(|figure| &mut figure.lines) {
        if let Some(why) = line.curve.ok().and_then(|curve| curve.engine.lacks(&profile)) {
            line.curve = Err(why);
        }
    }
    let size = match arguments.quick {
        true => Size { scale_divisor: 20, keys: 20_000, virtual_ms: 4, hosts: 8 },
        false => Size { scale_divisor: 4, keys: 300_000, virtual_ms: 20, hosts: 8 },
    };
    let common = Common { profile, seed: arguments.seed, size };
    note_interrupts()?;
    let folder = arguments.out.join("lines");
    let measured = measure_all(&common, &figures, &folder, arguments.threads.unwrap_or(2).into())?;
    let verdicts: Vec<FigureVerdict> = figures.iter().map(|figure| judge(figure, &measured)).collect();
    let object = report::json(name, &common, &verdicts, &measured);
    let files = [
        (format!("{name}.html"), report::html(title, &common, &figures, &verdicts)),
        (format!("{name}.json"), format!("{object:#}\n")),
    ];
    for (file, text) in &files {
        write(&arguments.out.join(file), text)?;
    }
    if arguments.json {
        println!("{object}");
    } else {
        print!("{}", summary(&figures, &verdicts));
        println!("report: {}", arguments.out.join(&files[0].0).display());
    }
    for line in &measured {
        let (figure, name) = &line.of;
        line.problems.iter().for_each(|problem| eprintln!("wrong: {figure}, {name}: {problem}"));
    }
    let right = measured.iter().all(|line| line.problems.is_empty());
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Latencies at every point, the published ones in brackets.
fn latencies(verdict: &FigureVerdict) -> String {
    let mut out = format!("  {:<16}{:>8}{:>16}{:>24}{:>24}\n", "", "epoch", "K/s", "p50, ms", "p99, ms");
    for point in &verdict.points {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
        let both = |ours, published| format!("{} ({})", number(ours), number(published));
        let (ours, published) = (point.latency_ms, point.published_latency_ms);
        let (p50, p99) = (both(ours.0, published.0), both(ours.1, published.1));
        let rate = number(point.ours.map(|rate| rate / 1000.0));
        out += &format!("  {:<16}{:>8}{rate:>16}{p50:>24}{p99:>24}\n", point.line, point.x);
    }
    out
}

/// Every line's first and last point, and every claim.
fn summary(figures: &[Figure], verdicts: &[FigureVerdict]) -> String {
    let mut out = String::from("all throughputs are virtual time\n");
    for (figure, verdict) in figures.iter().zip(verdicts) {
        let (from, to) = (figure.xs[0], figure.xs[figure.xs.len() - 1]);
        out += &format!("\n{}: {}\n", figure.id, figure.title);
        out += &format!(
            "  {:<16}{:>16}{:>16}{:>24}\n",
            "",
            format!("{from}, K/s"),
            format!("{to}, K/s"),
            "published ratio there"
        );
        for line in &figure.lines {
            let points: Vec<_> = verdict.points.iter().filter(|point| point.line == line.name).collect();
            let (first, last) = (points[0], points[points.len() - 1]);
            let shown = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{:.1}", v / 1000.0));
            let ratio = |point: &judge::Judged| {
                let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
                format!("{} ({})", number(point.our_ratio), number(point.published_ratio))
            };
            out += &format!(
                "  {:<16}{:>16}{:>16}{:>24}",
                line.name,
                shown(first.ours),
                shown(last.ours),
                ratio(last)
            );
            out += &line.curve.err().map_or("\n".to_owned(), |why| format!("  not run: {why}\n"));
        }
        if figure.axis == Axis::EpochMs {
            out += &latencies(verdict);
        }
        for claim in &verdict.claims {
            let word = if claim.holds { "holds" } else { "DOES NOT HOLD" };
            out += &format!("  {word}: {} (seen: {})\n", claim.claim, claim.seen);
        }
    }
    let median =
        median_deviation(verdicts).map_or("-".to_owned(), |median| format!("{:.1} %", 100.0 * median));
    let failed = verdicts.iter().flat_map(|verdict| &verdict.claims).filter(|claim| !claim.holds).count();
    out + &format!("\nmedian deviation of ratios {median}; {failed} claims do not hold\n")
}
