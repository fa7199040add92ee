//! Runs the lines of figures in virtual time, several at once, and keeps what is done.
//!
//! 1. A line is a function of its place in the plan, the profile, the seed and the size; it is kept in a file
//!    that says all of these, so that an interrupted reproduction goes on where it was.
//! 2. Every line has a pod of its own. Rows that other hosts may touch are shared before the first point that
//!    crosses hosts, and each host has used all of them once, as after the published runs' warm-up; then its
//!    most remote point runs without being measured. A point that crosses nothing runs before, unshared.
//!    Figures of cold starts begin with nothing shared instead, and measure from the first transaction on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use liger_engine::row::Budget;
use liger_engine::row::policy::{Coherence, Steps};
use liger_fabric::profile::Profile;
use liger_sim::bench::row::RowPod;
use liger_sim::bench::{self, BenchResult, BenchSim, PodEngine, shapes};
use liger_sim::motor::MotorPod;
use liger_sim::partitioned::PartPod;
use liger_sim::shm::ShmPod;
use liger_workload::benchmark::Benchmark;
use liger_workload::driver::Length;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::benchmark::Tpcc;
use liger_workload::tpcc::input::{Mix, Remote};
use liger_workload::ycsb::Ycsb;
use serde::{Deserialize, Serialize};

use super::plan::{Axis, Curve, Engine, Figure, Work};
use crate::failure::Failure;
use crate::side_by_side::side_by_side;
use crate::terminal::Phase;

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
    /// Median and 99th percentile of latency until transactions were durable, milliseconds; without a log,
    /// until they had committed.
    pub p50_ms: f64,
    /// See there.
    pub p99_ms: f64,
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

/// Whether transactions cross hosts at this x: not at "0" or "0/0".
pub fn crosses(x: &str) -> bool {
    x.contains(|letter: char| !matches!(letter, '0' | '/'))
}

/// Shared rows of the published databases, of so many hosts.
fn published_rows(work: Work, hosts: u8) -> f64 {
    f64::from(hosts)
        * match work {
            // Customers and stock of three warehouses.
            Work::Tpcc { .. } => 3.0 * 130_000.0,
            Work::Ycsb { .. } => 300_000.0,
        }
}

/// One line's pods.
struct Runner<'a> {
    common: &'a Common,
    curve: &'a Curve,
    hosts: u8,
}

impl Runner<'_> {
    /// Runs of this benchmark; nothing is shared yet.
    fn usual<B: Benchmark>(&self, benchmark: B) -> BenchSim<B> {
        let Common { profile, seed, size } = self.common;
        let mut profile = Arc::clone(profile);
        if matches!(self.curve.engine, Engine::Row(policies) if policies.coherence == Coherence::AllHwcc) {
            Arc::make_mut(&mut profile).coherent_data = true;
        }
        let usual = BenchSim::timed(profile, benchmark, 1_000_000 * size.virtual_ms);
        let (back_off_ns, workers) = (Some(BACK_OFF_NS), self.curve.workers);
        BenchSim { seed: *seed, hosts: self.hosts, workers, back_off_ns, share_all: false, ..usual }
    }

    /// The line's points, each with this benchmark of its x.
    fn points<E: PodEngine, B: Benchmark>(
        &self,
        design: &E::Design,
        xs: &[&str],
        at: impl Fn(&str) -> B,
    ) -> (Vec<Point>, Vec<String>) {
        let fits = "a design of the plan suits every profile";
        let mut loaded = bench::load::<E, B>(&self.usual(at(xs[0])), design).expect(fits);
        let (mut problems, mut is_shared) = (Vec::new(), false);
        let point = |x: &&str| {
            if !crosses(x) {
                loaded.measure(at(x));
            } else if !std::mem::replace(&mut is_shared, true) {
                loaded.share(1.0);
                loaded.measure(at(xs[xs.len() - 1]));
            }
            measured(x, loaded.measure(at(x)), &mut problems)
        };
        (xs.iter().map(point).collect(), problems)
    }

    /// One measured time after the other, from the start on.
    fn course<E: PodEngine, B: Benchmark>(
        &self,
        design: &E::Design,
        xs: &[&str],
        benchmark: &B,
    ) -> (Vec<Point>, Vec<String>) {
        let mut loaded = bench::load::<E, B>(&self.usual(benchmark.clone()), design).expect("as above");
        if !self.curve.cold {
            loaded.share(1.0);
            loaded.measure(benchmark.clone());
        }
        let mut problems = Vec::new();
        let points = xs.iter().map(|x| measured(x, loaded.measure(benchmark.clone()), &mut problems));
        (points.collect(), problems)
    }

    /// A point on a pod of its own, whose hosts keep logs with such epochs. It takes several of them.
    fn epochs<E: PodEngine, B: Benchmark>(
        &self,
        design: &E::Design,
        x: &str,
        benchmark: B,
    ) -> (Point, Vec<String>) {
        let epoch_ms: Option<u64> = x.parse().ok();
        let usual = self.usual(benchmark.clone());
        let ms = epoch_ms.unwrap_or(0).max(10);
        // Ten times as long as other points, and whole epochs.
        let measured_ms = (4 * ms).max((10 * self.common.size.virtual_ms).next_multiple_of(ms));
        let warm_up_ns = 1_250_000 * ms;
        let length = Length::Time { warm_up_ns, measured_ns: 1_000_000 * measured_ms };
        let log = epoch_ms.map(|ms| bench::log_of_epochs(1_000_000 * ms));
        let mut loaded = bench::load::<E, B>(&BenchSim { length, log, ..usual }, design).expect("as above");
        if crosses(self.curve.remote) {
            loaded.share(1.0);
        }
        let mut problems = Vec::new();
        let point = measured(x, loaded.measure(benchmark), &mut problems);
        (point, problems)
    }

    /// A point on a pod of its own, with so much hardware-coherent memory.
    fn point<E: PodEngine, B: Benchmark>(
        &self,
        design: &E::Design,
        (x, mb): (&str, Option<f64>),
        benchmark: B,
    ) -> (Point, Vec<String>) {
        let usual = self.usual(benchmark.clone());
        let rows = benchmark.shareable().rows as f64;
        // As much for each row as there was for each of the published ones.
        let for_row = mb.map(|mb| 1e6 * mb / published_rows(self.curve.work, self.hosts));
        let for_row = for_row.map(|bytes| match self.curve.published_tuple_bytes() {
            Some(published) => bytes / published * ARTIFACT_BYTES,
            None => bytes,
        });
        let budget = for_row.map(|bytes| Budget { hwcc_bytes: (bytes * rows) as u64, cxl_bytes: u64::MAX });
        let mut loaded = bench::load::<E, B>(&BenchSim { budget, ..usual }, design).expect("as above");
        let of_row = match self.curve.engine {
            Engine::Row(policies) if policies.coherence == Coherence::AllHwcc => {
                benchmark.shareable().bytes as f64 / rows
            }
            Engine::Row(policies) if policies.steps == Steps::Artifact => ARTIFACT_BYTES,
            _ => TUPLE_BYTES,
        };
        loaded.share(for_row.map_or(1.0, |bytes| (bytes / of_row).min(1.0)));
        loaded.measure(benchmark.clone());
        let mut problems = Vec::new();
        let point = measured(x, loaded.measure(benchmark), &mut problems);
        (point, problems)
    }
}

/// What a shared row takes of hardware-coherent memory here: its cell (a third of a word), and its share of a
/// leaf's word.
const TUPLE_BYTES: f64 = 8.0 / 3.0 + 0.2;
/// The same with a word for each row, as `steps=artifact` counts it.
const ARTIFACT_BYTES: f64 = 8.5;

fn measured(x: &str, mut result: BenchResult, problems: &mut Vec<String>) -> Point {
    problems.append(&mut result.problems);
    let all = &result.report.all;
    let (committed, aborted) = (all.committed_per_s, result.report.aborted_per_s);
    Point {
        x: x.to_owned(),
        committed_per_s: committed,
        aborted_percent: 100.0 * aborted / (aborted + committed).max(1e-9),
        p50_ms: all.p50_us / 1000.0,
        p99_ms: all.p99_us / 1000.0,
        trace_hash: format!("{:016x}", result.trace_hash),
    }
}

impl Common {
    fn on<E: PodEngine, B: Benchmark>(
        &self,
        design: &E::Design,
        (axis, curve, xs): (Axis, &Curve, &[&str]),
        at: impl Fn(&str, u8) -> B,
    ) -> (Vec<Point>, Vec<String>) {
        let usual = Runner { common: self, curve, hosts: self.size.hosts };
        match axis {
            Axis::Remote if curve.hwcc_mb.is_none() => {
                return usual.points::<E, B>(design, xs, |x| at(x, usual.hosts));
            }
            Axis::Elapsed => return usual.course::<E, B>(design, xs, &at(curve.remote, usual.hosts)),
            _ => {}
        }
        let (mut points, mut problems) = (Vec::new(), Vec::new());
        for x in xs {
            let number = || x.parse().expect("a number of the plan");
            let bounded = curve.hwcc_mb.map(f64::from);
            if axis == Axis::EpochMs {
                let (point, mut wrong) = usual.epochs::<E, B>(design, x, at(curve.remote, usual.hosts));
                points.push(point);
                problems.append(&mut wrong);
                continue;
            }
            let (remote, hosts, mb) = match axis {
                Axis::Remote => (*x, usual.hosts, bounded),
                Axis::Hosts => (curve.remote, number(), bounded),
                Axis::Elapsed | Axis::EpochMs => unreachable!("measured otherwise"),
                Axis::HwccMb => (curve.remote, usual.hosts, Some(f64::from(number()))),
            };
            let runner = Runner { hosts, ..usual };
            let (point, mut wrong) = runner.point::<E, B>(design, (x, mb), at(remote, hosts));
            points.push(point);
            problems.append(&mut wrong);
        }
        (points, problems)
    }

    fn run<B: Benchmark>(
        &self,
        figure: &Figure,
        curve: &Curve,
        at: impl Fn(&str, u8) -> B,
    ) -> (Vec<Point>, Vec<String>) {
        let what = (figure.axis, curve, figure.xs);
        match &curve.engine {
            Engine::Row(policies) => self.on::<RowPod, B>(policies, what, at),
            Engine::Motor => self.on::<MotorPod, B>(&(), what, at),
            Engine::Partitioned(shape) => self.on::<PartPod, B>(shape, what, at),
            Engine::Shm(shape) => self.on::<ShmPod, B>(shape, what, at),
        }
    }

    fn line(&self, figure: &Figure, name: &str, curve: &Curve) -> Measured {
        let Size { scale_divisor, keys, .. } = self.size;
        let (points, problems) = match curve.work {
            Work::Tpcc { first_two } => {
                let mix = if first_two { Mix::FirstTwo } else { Mix::Artifact };
                let at = |x: &str, hosts: u8| {
                    let remote: Remote = x.parse().expect("percentages of the plan");
                    // As many warehouses for each line, whatever its workers.
                    let warehouses = 3 * i16::from(hosts);
                    let scale = match scale_divisor {
                        1 => Scale::full(warehouses),
                        divisor => Scale::reduced(warehouses, divisor),
                    };
                    Tpcc { scale, mix, homes: curve.homes, ..shapes::tpcc(remote) }
                };
                self.run(figure, curve, at)
            }
            Work::Ycsb { reads, theta } => {
                let at = |x: &str, hosts: u8| {
                    let cross = x.parse().expect("a percentage of the plan");
                    Ycsb { keys, theta, ..Ycsb::tigon(hosts.into(), reads, cross) }
                };
                self.run(figure, curve, at)
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
                let file = folder.join(format!(
                    "{}-{}.json",
                    figure.id,
                    line.name.replace('+', "-plus").replace([' ', '/'], "-")
                ));
                jobs.push((figure, line.name, curve, file));
            }
        }
    }
    side_by_side(threads, jobs.len(), |at| {
        let (figure, name, curve, file) = &jobs[at];
        let of = (figure.id.to_owned(), (*name).to_owned());
        if let Some(measured) = common.kept(file, &of, figure.xs) {
            return Ok(measured);
        }
        let phase = Phase::start(&format!("{} of {}: {}, {name}", at + 1, jobs.len(), figure.id));
        let measured = common.line(figure, name, curve);
        let text = serde_json::to_string_pretty(&measured).expect("plain values");
        std::fs::write(file, text).map_err(|error| unwritable(file, error))?;
        phase.done(&format!("{} points", measured.points.len()));
        Ok(measured)
    })
}
