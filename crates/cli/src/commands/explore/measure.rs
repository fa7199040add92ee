//! Simulates the pods of an exploration, and keeps what is done.
//!
//! 1. A point is a function of what its file says: engine, workload, every number of the pod, size and seed.
//!    So an interrupted exploration goes on where it was, and another one takes what it has in common.
//! 2. Every point has a pod of its own. What other hosts may touch is shared and known to all hosts before
//!    (with little hardware-coherent memory: as much of it as fits), and the workload runs once unmeasured.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use liger_engine::TxnError;
use liger_engine::row::Budget;
use liger_fabric::profile::Profile;
use liger_pod::plan::cells_per_word;
use liger_sim::bench::{self, BenchSim, PodEngine, shapes};
use liger_workload::benchmark::Benchmark;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::benchmark::Tpcc;
use liger_workload::tpcc::input::Remote;
use liger_workload::ycsb::Ycsb;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::WorkloadName;
use super::vary::{Pod, Vary};
use crate::engines::{EngineArguments, EngineName, OnEngine};
use crate::failure::Failure;
use crate::side_by_side::side_by_side;
use crate::terminal::Phase;

/// How large and how long.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Size {
    /// YCSB's rows of each host.
    pub keys: u32,
    /// Divides customers, orders and items of TPC-C.
    pub scale_divisor: i32,
    /// Hosts, where they are not varied.
    pub hosts: u8,
    /// Workers of each, where they are not varied.
    pub workers: u8,
    /// Virtual milliseconds measured.
    pub virtual_ms: u64,
    /// Decides everything.
    pub seed: u64,
}

/// An exploration.
#[derive(Clone, Debug)]
pub struct Explored {
    /// x.
    pub x: Vary,
    /// What gives lines beside the engines.
    pub lines: Option<Vary>,
    /// The engines.
    pub engines: Vec<EngineName>,
    /// What runs.
    pub workload: WorkloadName,
    /// TPC-C's remote percentages.
    pub remote: Remote,
    /// YCSB's percentage of crossing transactions.
    pub cross: u32,
    /// YCSB's percentage of reads.
    pub reads: u32,
    /// The pod that parameters change.
    pub profile: Arc<Profile>,
    /// How large and how long.
    pub size: Size,
}

/// A simulated pod.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// All that decides it.
    made_of: String,
    /// Its line's name.
    pub line: String,
    /// The value of x.
    pub x: f64,
    /// Committed transactions in a second of virtual time.
    pub committed_per_s: f64,
    /// Half of the transactions took at most so long, virtual microseconds.
    pub p50_us: f64,
    /// 99 of 100 took at most so long.
    pub p99_us: f64,
    /// Percentage of attempts that aborted.
    pub aborted_percent: f64,
    /// Rows moved into shared memory for each committed transaction.
    pub moves_in: f64,
    /// Equal runs have equal hashes.
    pub trace_hash: String,
    /// Everything that was wrong.
    pub problems: Vec<String>,
}

impl Point {
    /// For programs: all but what its file is known by.
    pub fn json(&self) -> Value {
        let mut object = serde_json::to_value(self).expect("plain values");
        object.as_object_mut().expect("an object").remove("made_of");
        object
    }
}

/// One pod that is to be simulated.
struct Job {
    engine: EngineName,
    line: String,
    x: f64,
    pod: Pod,
}

impl Explored {
    /// The name of a line.
    fn line(&self, engine: EngineName, second: Option<f64>) -> String {
        let engine = engine.to_possible_value().expect("every engine has a name");
        let second = self.lines.as_ref().zip(second);
        let second = second.map(|(vary, value)| format!("{} {value}", vary.parameter.name()));
        match (second, self.engines.len()) {
            (None, _) => engine.get_name().to_owned(),
            (Some(second), 1) => second,
            (Some(second), _) => format!("{}, {second}", engine.get_name()),
        }
    }

    fn jobs(&self) -> Vec<Job> {
        let Size { hosts, workers, .. } = self.size;
        let seconds: Vec<Option<f64>> = match &self.lines {
            None => vec![None],
            Some(vary) => vary.values.iter().copied().map(Some).collect(),
        };
        let mut jobs = Vec::new();
        for &engine in &self.engines {
            for &second in &seconds {
                for &x in &self.x.values {
                    let pod = Pod { profile: (*self.profile).clone(), hosts, workers, hwcc_bytes: None };
                    let pod = pod.with(self.x.parameter, x);
                    let pod = match self.lines.as_ref().zip(second) {
                        Some((vary, value)) => pod.with(vary.parameter, value),
                        None => pod,
                    };
                    jobs.push(Job { engine, line: self.line(engine, second), x, pod });
                }
            }
        }
        jobs
    }

    /// Everything that decides a point.
    fn made_of(&self, job: &Job) -> String {
        let engine = self.line(job.engine, None);
        let Self { workload, remote, cross, reads, size, .. } = self;
        let Pod { profile, hosts, workers, hwcc_bytes } = &job.pod;
        format!(
            "{engine} {workload:?} {remote} {cross} {reads} {size:?} {hosts} {workers} {hwcc_bytes:?}\n{}",
            profile.to_toml()
        )
    }

    fn simulate(&self, job: &Job) -> Result<Point, Failure> {
        let hosts = job.pod.hosts;
        match self.workload {
            WorkloadName::Tpcc => {
                let scale = Scale::reduced(3 * i16::from(hosts), self.size.scale_divisor);
                self.run(job, Tpcc { scale, ..shapes::tpcc(self.remote) })
            }
            WorkloadName::Ycsb => self
                .run(job, Ycsb { keys: self.size.keys, ..Ycsb::tigon(hosts.into(), self.reads, self.cross) }),
        }
    }

    fn run<B: Benchmark>(&self, job: &Job, benchmark: B) -> Result<Point, Failure> {
        let Pod { profile, hosts, workers, hwcc_bytes } = &job.pod;
        let Size { virtual_ms, seed, .. } = self.size;
        let usual = BenchSim::timed(Arc::new(profile.clone()), benchmark, 1_000_000 * virtual_ms);
        let budget = hwcc_bytes.map(|hwcc_bytes| Budget { hwcc_bytes, cxl_bytes: u64::MAX });
        let run = BenchSim { seed, hosts: *hosts, workers: *workers, budget, share_all: false, ..usual };
        let result = EngineArguments::from(job.engine).simulate(false, *workers, Once(run))?;
        let all = &result.report.all;
        let (committed, aborted) = (all.committed_per_s, result.report.aborted_per_s);
        let moves_in = result.report.engine.moves_in as f64 / (all.committed as f64).max(1.0);
        Ok(Point {
            made_of: self.made_of(job),
            line: job.line.clone(),
            x: job.x,
            committed_per_s: committed,
            p50_us: all.p50_us,
            p99_us: all.p99_us,
            aborted_percent: 100.0 * aborted / (aborted + committed).max(1e-9),
            moves_in,
            trace_hash: format!("{:016x}", result.trace_hash),
            problems: result.problems,
        })
    }
}

/// Bytes of hardware-coherent memory that a shared row takes at most beside its cell: its share of a leaf's
/// word.
const LEAF_BYTES: f64 = 1.0;

/// A pod, warm, measured once.
struct Once<B>(BenchSim<B>);

impl<B: Benchmark> OnEngine for Once<B> {
    type Out = bench::BenchResult;

    fn run<E: PodEngine>(self, design: &E::Design) -> Result<Self::Out, TxnError> {
        let benchmark = self.0.benchmark.clone();
        let mut loaded = bench::load::<E, B>(&self.0, design)?;
        let rows = benchmark.shareable().rows as f64;
        let row_bytes = 8.0 / cells_per_word(self.0.hosts) as f64 + LEAF_BYTES;
        let fits = self.0.budget.map_or(1.0, |budget| budget.hwcc_bytes as f64 / (row_bytes * rows));
        loaded.share(fits.min(1.0));
        loaded.measure(benchmark.clone());
        Ok(loaded.measure(benchmark))
    }
}

/// What is said of a file that cannot be written.
pub fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Refused(format!("{}: {error}: name a folder that can be written with --out", path.display()))
}

/// All points, line by line; from `out`/points where they are already.
///
/// # Errors
/// If an engine cannot run on such a pod, a point cannot be kept, or somebody interrupts.
pub fn all(explored: &Explored, out: &Path, threads: usize) -> Result<Vec<Point>, Failure> {
    let folder = out.join("points");
    std::fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
    let jobs = explored.jobs();
    side_by_side(threads, jobs.len(), |at| {
        let job = &jobs[at];
        let made_of = explored.made_of(job);
        let mut hasher = DefaultHasher::new();
        made_of.hash(&mut hasher);
        let file = folder.join(format!("{:016x}.json", hasher.finish()));
        let kept = std::fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str(&text).ok());
        if let Some(point) = kept.filter(|point: &Point| point.made_of == made_of) {
            return Ok(Point { line: job.line.clone(), x: job.x, ..point });
        }
        let name = explored.x.parameter.name();
        let phase = Phase::start(&format!("{} of {}: {}, {name} {}", at + 1, jobs.len(), job.line, job.x));
        let point = explored.simulate(job)?;
        let text = serde_json::to_string_pretty(&point).expect("plain values");
        std::fs::write(&file, text).map_err(|error| unwritable(&file, &error))?;
        phase.done(&format!("{:.0} K/s of virtual time", point.committed_per_s / 1000.0));
        Ok(point)
    })
}
