//! Runs the lines of figures in virtual time, several at once, and keeps what is done.
//!
//! 1. A line is a function of its place in the plan, the profile, the seed and the size; it is kept in a file
//!    that says all of these, so that an interrupted reproduction goes on where it was.
//! 2. Every line has a pod of its own. Its most remote point runs first and is not measured, which warms all
//!    caches; rows that other hosts may touch are shared before, as in the published runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use liger_fabric::profile::Profile;
use liger_sim::bench::row::RowPod;
use liger_sim::bench::{self, BenchSim, PodEngine, shapes};
use liger_sim::motor::MotorPod;
use liger_sim::partitioned::PartPod;
use liger_workload::benchmark::Benchmark;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::benchmark::Tpcc;
use liger_workload::tpcc::input::{Mix, Remote};
use liger_workload::ycsb::Ycsb;
use serde::{Deserialize, Serialize};

use super::plan::{Curve, Engine, Figure, Work};
use crate::failure::Failure;
use crate::terminal::{Phase, check_interrupted};

/// Workers of Tigon's artifact sleep a random time up to this after a conflict.
const BACK_OFF_NS: u64 = 100_000;

/// How large and how long.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Size {
    /// Divides customers, orders and items of TPC-C.
    pub scale_divisor: i32,
    /// Keys of a host of YCSB.
    pub keys: u32,
    /// Virtual time measured at a point, milliseconds.
    pub virtual_ms: u64,
    /// Hosts.
    pub hosts: u8,
}

/// What all lines have in common.
#[derive(Clone)]
pub struct Common {
    /// The hardware.
    pub profile: Arc<Profile>,
    /// Decides everything.
    pub seed: u64,
    /// How large and how long.
    pub size: Size,
}

/// A point as it was measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// x.
    pub x: String,
    /// Committed transactions in a second of virtual time.
    pub committed_per_s: f64,
    /// Percentage of attempts that aborted.
    pub aborted_percent: f64,
    /// Equal runs have equal hashes.
    pub trace_hash: String,
}

/// A line as it was measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the profile.
    pub profile: String,
    /// The seed.
    pub seed: u64,
    /// How large and how long.
    pub size: Size,
    /// Figure and line.
    pub of: (String, String),
    /// The points, in the figure's order.
    pub points: Vec<Point>,
    /// Everything that was wrong.
    pub problems: Vec<String>,
}

impl Common {
    fn measure<E: PodEngine, B: Benchmark>(
        &self,
        design: &E::Design,
        workers: u8,
        xs: &[&str],
        at: impl Fn(&str) -> B,
    ) -> (Vec<Point>, Vec<String>) {
        let Size { virtual_ms, hosts, .. } = self.size;
        let usual = BenchSim::timed(Arc::clone(&self.profile), at(xs[0]), 1_000_000 * virtual_ms);
        let run = BenchSim { seed: self.seed, hosts, workers, back_off_ns: Some(BACK_OFF_NS), ..usual };
        let loaded = bench::load::<E, B>(&run, design);
        let mut loaded = loaded.expect("a design of the plan suits every profile");
        loaded.measure(at(xs[xs.len() - 1]));
        let mut problems = Vec::new();
        let mut point = |x: &&str| {
            let mut result = loaded.measure(at(x));
            problems.append(&mut result.problems);
            let (committed, aborted) = (result.report.all.committed_per_s, result.report.aborted_per_s);
            Point {
                x: (*x).to_owned(),
                committed_per_s: committed,
                aborted_percent: 100.0 * aborted / (aborted + committed).max(1e-9),
                trace_hash: format!("{:016x}", result.trace_hash),
            }
        };
        (xs.iter().map(&mut point).collect(), problems)
    }

    fn on<B: Benchmark>(
        &self,
        curve: &Curve,
        xs: &[&str],
        at: impl Fn(&str) -> B,
    ) -> (Vec<Point>, Vec<String>) {
        match &curve.engine {
            Engine::Row(policies) => self.measure::<RowPod, B>(policies, curve.workers, xs, at),
            Engine::Motor => self.measure::<MotorPod, B>(&(), curve.workers, xs, at),
            Engine::Partitioned(shape) => self.measure::<PartPod, B>(shape, curve.workers, xs, at),
        }
    }

    fn line(&self, figure: &Figure, name: &str, curve: &Curve) -> Measured {
        let Size { scale_divisor, keys, hosts, .. } = self.size;
        let (points, problems) = match curve.work {
            Work::Tpcc { first_two } => {
                let mix = if first_two { Mix::FirstTwo } else { Mix::Artifact };
                // As many warehouses for each line, whatever its workers.
                let warehouses = 3 * i16::from(hosts);
                let scale = match scale_divisor {
                    1 => Scale::full(warehouses),
                    divisor => Scale::reduced(warehouses, divisor),
                };
                let at = |x: &str| {
                    let remote: Remote = x.parse().expect("percentages of the plan");
                    Tpcc { scale, mix, ..shapes::tpcc(remote) }
                };
                self.on(curve, figure.xs, at)
            }
            Work::Ycsb { reads } => {
                let at = |x: &str| {
                    let cross = x.parse().expect("a percentage of the plan");
                    Ycsb { keys, ..Ycsb::tigon(hosts.into(), reads, cross) }
                };
                self.on(curve, figure.xs, at)
            }
        };
        let of = (figure.id.to_owned(), name.to_owned());
        Measured {
            profile: self.profile.name.clone(),
            seed: self.seed,
            size: self.size,
            of,
            points,
            problems,
        }
    }

    /// What the file holds, if it is of this line and made in the same way.
    fn kept(&self, file: &Path, of: &(String, String), xs: &[&str]) -> Option<Measured> {
        let measured: Measured = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
        let same = (measured.profile == self.profile.name, measured.seed, measured.size, &measured.of)
            == (true, self.seed, self.size, of)
            && measured.points.iter().map(|point| point.x.as_str()).eq(xs.iter().copied());
        same.then_some(measured)
    }
}

/// Measures all lines of the figures, or takes them from `folder` where they are already; `threads` at once.
///
/// # Errors
/// If a line cannot be kept, or somebody interrupts.
pub fn measure_all(
    common: &Common,
    figures: &[Figure],
    folder: &Path,
    threads: usize,
) -> Result<Vec<Measured>, Failure> {
    let unwritable = |path: &Path, error: std::io::Error| {
        Failure::Refused(format!("{}: {error}: name a folder that can be written with --out", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))?;
    let mut jobs: Vec<(&Figure, &str, &Curve, PathBuf)> = Vec::new();
    for figure in figures {
        for line in &figure.lines {
            if let Ok(curve) = &line.curve {
                let file = folder.join(format!("{}-{}.json", figure.id, line.name.replace('+', "-plus")));
                jobs.push((figure, line.name, curve, file));
            }
        }
    }
    let (next, total) = (AtomicUsize::new(0), jobs.len());
    let work = || -> Result<Vec<(usize, Measured)>, Failure> {
        let mut mine = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((figure, name, curve, file)) = jobs.get(at) else { return Ok(mine) };
            check_interrupted()?;
            let of = (figure.id.to_owned(), (*name).to_owned());
            if let Some(measured) = common.kept(file, &of, figure.xs) {
                mine.push((at, measured));
                continue;
            }
            let phase = Phase::start(&format!("{} of {total}: {}, {name}", at + 1, figure.id));
            let measured = common.line(figure, name, curve);
            let text = serde_json::to_string_pretty(&measured).expect("plain values");
            std::fs::write(file, text).map_err(|error| unwritable(file, error))?;
            phase.done(&format!("{} points", measured.points.len()));
            mine.push((at, measured));
        }
    };
    type Part = Result<Vec<(usize, Measured)>, Failure>;
    #[expect(clippy::disallowed_methods, reason = "lines are independent simulations of the command line")]
    let parts: Vec<Part> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        started.into_iter().map(|thread| thread.join().expect("a line of the plan runs")).collect()
    });
    let mut all = Vec::new();
    for part in parts {
        all.extend(part?);
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, measured)| measured).collect())
}
