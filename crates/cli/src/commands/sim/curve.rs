//! `liger sim tpcc --curve`, and other workloads': throughput over the share of remote transactions, in
//! virtual time.
//!
//! The database is loaded once, and the most remote point runs unmeasured, which warms all caches. Then every
//! round runs all points, each time with other inputs. The figures of a point are means over the rounds, with
//! the least and the greatest beside them; the loss compares means.

use std::process::ExitCode;

use liger_engine::TxnError;
use liger_fabric::Work;
use liger_fabric::sim::TimeUse;
use liger_sim::bench::{self, BenchSim, PodEngine};
use liger_workload::benchmark::Benchmark;
use serde_json::{Map, Value, json};

use super::workloads::{PodArguments, Timed, watched};
use super::{exit, profile};
use crate::engines::OnEngine;
use crate::failure::Failure;

/// The points of Tigon's figures 4a to 4c: percentages of New-Orders and Payments.
pub(super) const TPCC: [(u32, u32); 7] = [(0, 0), (10, 15), (20, 30), (30, 45), (40, 60), (50, 75), (60, 90)];

/// The points of the other workloads: percentages of transactions that cross partitions, as in figure 5.
pub(super) const CROSS: [u32; 7] = [0, 10, 20, 40, 60, 80, 100];

/// What a curve is of, in words.
pub(super) struct What {
    /// The workload.
    pub title: String,
    /// Its database.
    pub size: String,
    /// What the points' names are shares of.
    pub points: &'static str,
}

/// One point, all rounds.
struct Point {
    remote: String,
    rounds: Vec<Timed>,
}

impl Point {
    fn mean(&self, figure: impl Fn(&Timed) -> f64) -> f64 {
        self.rounds.iter().map(figure).sum::<f64>() / self.rounds.len() as f64
    }

    fn committed_per_s(&self) -> f64 {
        self.mean(committed_per_s)
    }

    /// The least and the greatest throughput.
    fn range(&self) -> (f64, f64) {
        let all = || self.rounds.iter().map(committed_per_s);
        (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max))
    }

    /// Percentage of attempts that aborted.
    fn aborted(&self) -> f64 {
        let aborted = self.mean(|timed| timed.result.report.aborted_per_s);
        100.0 * aborted / (aborted + self.committed_per_s())
    }

    fn verbs_per_commit(&self) -> f64 {
        let commits: u64 = self.rounds.iter().map(|timed| timed.result.report.all.committed).sum();
        let verbs: f64 = self.rounds.iter().map(verbs_measured).sum();
        verbs / commits.max(1) as f64
    }

    /// Percentages of the workers' time: computation, sync words, data, waiting.
    fn shares(&self) -> [f64; 4] {
        shares(self.rounds.iter().map(|timed| &timed.result.time_use))
    }

    fn loss(&self, base: f64) -> f64 {
        100.0 * (1.0 - self.committed_per_s() / base)
    }

    fn json(&self, base: f64) -> Value {
        let (least, greatest) = self.range();
        let [compute, sync, data, waiting] = self.shares();
        json!({
            "remote": self.remote,
            "committed_per_s": self.committed_per_s(),
            "committed_per_s_min": least, "committed_per_s_max": greatest,
            "loss_percent": self.loss(base), "aborted_percent": self.aborted(),
            "verbs_per_commit": self.verbs_per_commit(),
            "compute_percent": compute, "sync_percent": sync, "data_percent": data,
            "waiting_percent": waiting,
            "trace_hashes": self.rounds.iter().map(hash).collect::<Vec<_>>(),
        })
    }

    fn line(&self, base: f64) -> String {
        let (least, greatest) = self.range();
        let [compute, sync, data, waiting] = self.shares();
        format!(
            "{:>8} {:>10.0} {least:>8.0}-{greatest:<8.0} {:>5.1} {:>10.1} {:>12.1} \
             {compute:>8.1} {sync:>6.1} {data:>6.1} {waiting:>6.1} {:>13.2}",
            self.remote,
            self.committed_per_s(),
            self.loss(base),
            self.aborted(),
            self.verbs_per_commit(),
            self.mean(Timed::verbs_per_cpu_s) / 1e6,
        )
    }
}

fn committed_per_s(timed: &Timed) -> f64 {
    timed.result.report.all.committed_per_s
}

fn hash(timed: &Timed) -> String {
    format!("{:016x}", timed.result.trace_hash)
}

/// Verbs of the measured time: those of the run, without the share of its warm-up.
fn verbs_measured(timed: &Timed) -> f64 {
    let share = timed.result.report.measured_s * 1e9 / timed.result.virtual_ns.max(1) as f64;
    timed.result.verbs as f64 * share.min(1.0)
}

/// Percentages of the workers' time: computation, sync words, data, waiting.
fn shares<'a>(all: impl Iterator<Item = &'a TimeUse>) -> [f64; 4] {
    let mut sums = [0.0; 4];
    for used in all {
        let parts = [used.compute_ps(), used.sync_ps, used.data_ps, used.waiting_ps];
        sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part as f64);
    }
    let all: f64 = sums.iter().sum();
    sums.map(|sum| 100.0 * sum / all.max(1.0))
}

/// Where one run's time went, in words.
pub(super) fn shares_line(used: &TimeUse) -> String {
    let [compute, sync, data, waiting] = shares([used].into_iter());
    format!(
        "workers' virtual time: {compute:.1} % computation, {sync:.1} % sync words, {data:.1} % data, \
         {waiting:.1} % waiting"
    )
}

/// Where the workers' time went: nanoseconds, and units of computation by name.
pub(super) fn time_use(used: &TimeUse) -> Value {
    let kinds = Work::ALL.iter().zip(&used.units);
    let work: Map<String, Value> = kinds
        .map(|(work, (units, ps))| (work.name().to_owned(), json!({ "units": units, "ns": ps / 1000 })))
        .collect();
    let (sync, data, waiting) = (used.sync_ps / 1000, used.data_ps / 1000, used.waiting_ps / 1000);
    json!({
        "compute_ns": used.compute_ps() / 1000, "sync_ns": sync, "data_ns": data, "waiting_ns": waiting,
        "compute": work,
    })
}

/// All points in all rounds, on one database.
struct Measure<'a, B> {
    first: &'a BenchSim<B>,
    benchmarks: &'a [B],
    rounds: u16,
    points: &'a mut [Point],
}

impl<B: Benchmark> OnEngine for Measure<'_, B> {
    type Out = ();

    fn run<E: PodEngine>(self, design: &E::Design) -> Result<(), TxnError> {
        let Self { first, benchmarks, rounds, points } = self;
        let mut loaded = bench::load::<E, B>(first, design)?;
        loaded.measure(benchmarks[benchmarks.len() - 1].clone());
        for _ in 0..rounds {
            for (point, benchmark) in points.iter_mut().zip(benchmarks) {
                point.rounds.push(watched(|| loaded.measure(benchmark.clone())));
            }
        }
        Ok(())
    }
}

/// Runs all points in all rounds; the first is the least remote, the last the most.
pub(super) fn run<B: Benchmark>(
    pod: &PodArguments,
    what: &What,
    benchmarks: Vec<(String, B)>,
) -> Result<ExitCode, Failure> {
    let name = pod.profile.as_deref().unwrap_or_default();
    let profile = profile(name)?;
    let PodArguments { hosts, workers, virtual_ms, seed, rounds, .. } = *pod;
    println!("{} in the virtual time of {name}: everything is simulated", what.title);
    println!("{}", profile.description);
    println!(
        "{hosts} hosts x {workers} workers, {}; {rounds} rounds of {virtual_ms} virtual ms a point, seed \
         {seed}\n",
        what.size
    );
    let (mut points, benchmarks): (Vec<Point>, Vec<B>) =
        benchmarks.into_iter().map(|(remote, b)| (Point { remote, rounds: Vec::new() }, b)).unzip();
    let first: BenchSim<B> = pod.timed(&profile, benchmarks[0].clone());
    let measure = Measure { first: &first, benchmarks: &benchmarks, rounds, points: &mut points };
    pod.engine.simulate(false, workers, measure)?;
    table(&points, what.points);
    let base = points[0].committed_per_s();
    if pod.json {
        let first: Vec<Value> = points.iter().map(|point| point.rounds[0].json()).collect();
        let curve: Vec<Value> = points.iter().map(|point| point.json(base)).collect();
        let loss = points[points.len() - 1].loss(base);
        let object = json!({
            "profile": name, "seed": seed, "points": first, "rounds": rounds, "curve": curve,
            "loss_percent": loss,
        });
        println!("{object}");
    }
    let right = points.iter().flat_map(|point| &point.rounds).all(|timed| timed.result.problems.is_empty());
    Ok(exit(right))
}

fn table(points: &[Point], kinds: &str) {
    let time = "workers' virtual time, %";
    println!("remote %  committed transactions/s    loss  attempts    verbs per  {time:<33} simulator,");
    let parts = "compute   sync   data   wait";
    println!(
        "{kinds:>8}       mean     min-max          %  aborted %    committed  {parts:<33} Mverbs/cpu s"
    );
    let (first, last) = (&points[0], &points[points.len() - 1]);
    let base = first.committed_per_s();
    for point in points {
        println!("{}", point.line(base));
        let problems = point.rounds.iter().flat_map(|timed| &timed.result.problems);
        problems.for_each(|problem| println!("  {problem}"));
    }
    println!(
        "\nloss from {} to {}: {:.1} % ({:.0} to {:.0} committed transactions/s of virtual time)",
        first.remote,
        last.remote,
        last.loss(base),
        base,
        last.committed_per_s()
    );
    let last_run = last.rounds.last().expect("at least one round");
    println!("trace_hash {}", hash(last_run));
}
