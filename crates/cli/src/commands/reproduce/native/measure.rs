//! Runs every engine at every point, in turns, round after round; then the simulator, once for each line.
//! What is done is kept in a file that says how it was done, so that an interrupted reproduction goes on.

#![expect(clippy::disallowed_methods, reason = "a measurement waits until the machine is quiet")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use liger_engine::TxnError;
use liger_fabric::probe::Machine;
use liger_fabric::profile::Profile;
use liger_sim::bench::{self, BenchResult, BenchSim, PodEngine};
use liger_workload::Report;
use liger_workload::benchmark::Benchmark;
use serde::{Deserialize, Serialize};

use super::plan::{ENGINES, Figure, Point};
use crate::commands::bench::{PodArguments, run_once};
use crate::engines::{EngineArguments, EngineName, OnEngine};
use crate::failure::Failure;
use crate::host::bench::PROCESSOR_NS;
use crate::job::on_bench;
use crate::terminal::{Phase, check_interrupted};

/// Workers that had their processors for less than this part of the time were measured against the system's
/// scheduler: such a run is tried again, and the least disturbed counts.
const UNDISTURBED: f64 = 0.97;
/// How long a run waits for the machine to be quiet, for each attempt that it may take.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
const QUIET_LOOKS: u32 = 10;

/// How large, how long, and how often.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Size {
    /// Divides customers, orders and items of TPC-C.
    pub scale_divisor: i32,
    /// Keys of a host of YCSB.
    pub keys: u32,
    /// Measured time of a run.
    pub seconds: f64,
    /// Time before it.
    pub warm_up_s: f64,
    /// Runs of each engine at each point.
    pub rounds: u16,
    /// How often a run is tried that lost its processors.
    pub attempts: u32,
    /// Virtual time that the simulator measures at a point, milliseconds.
    pub virtual_ms: u64,
}

/// What was run where.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Figure, point, engine.
    pub of: (String, String, String),
    /// Round, from 0; none: the simulator.
    pub round: Option<u16>,
    /// The processor, or the simulated profile.
    pub machine: String,
    /// Decides the inputs.
    pub seed: u64,
    /// How large and how long.
    pub size: Size,
    /// Committed transactions in a second, of real or of virtual time.
    pub committed_per_s: f64,
    /// Percentage of attempts that aborted.
    pub aborted_percent: f64,
    /// Median latency of a transaction, in the same time.
    pub p50_us: f64,
    /// Part of the measured time in which the workers had their processors; of the simulator 1.
    pub processor_share: f64,
    /// Everything that was wrong.
    pub problems: Vec<String>,
}

/// Everything that was measured.
pub struct Measured {
    /// The runs, in the order of the plan.
    pub runs: Vec<Run>,
}

impl Measured {
    /// Throughputs of an engine at a point: of all rounds, and the simulated one.
    pub fn at(&self, figure: &Figure, point: &Point, engine: &str) -> (Vec<f64>, Option<f64>) {
        let here = |run: &&Run| {
            let (f, p, e) = &run.of;
            (f.as_str(), p.as_str(), e.as_str()) == (figure.id, point.name, engine)
        };
        let (real, simulated): (Vec<_>, Vec<_>) =
            self.runs.iter().filter(here).partition(|run| run.round.is_some());
        let per_s = |runs: Vec<&Run>| runs.into_iter().map(|run| run.committed_per_s).collect::<Vec<_>>();
        (per_s(real), per_s(simulated).first().copied())
    }

    /// The middle of something of the rounds.
    pub fn middle(&self, figure: &Figure, point: &Point, engine: &str, what: fn(&Run) -> f64) -> f64 {
        let here = |run: &&Run| {
            let (f, p, e) = &run.of;
            run.round.is_some() && (f.as_str(), p.as_str(), e.as_str()) == (figure.id, point.name, engine)
        };
        let mut all: Vec<f64> = self.runs.iter().filter(here).map(what).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// A reproduction under way.
pub struct Measuring {
    folder: PathBuf,
    /// The simulated hardware.
    pub profile: Arc<Profile>,
    /// The real one.
    pub machine: String,
    /// Decides databases and inputs.
    pub seed: u64,
    /// How large and how long.
    pub size: Size,
}

/// One run of the plan.
#[derive(Clone, Copy)]
struct Planned<'a> {
    figure: &'a Figure,
    point: &'a Point,
    engine: (EngineName, &'static str),
    round: Option<u16>,
}

/// Waits for a moment in which nothing else of this machine wants a processor; not for ever.
fn await_quiet(patience: u32) {
    for _ in 0..QUIET_LOOKS * patience {
        let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let running = text.split([' ', '/']).nth(3).and_then(|running| running.parse::<u32>().ok());
        // This thread runs.
        if running.is_none_or(|running| running <= 1) {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Committed transactions a second, percentage of attempts that aborted, middle latency.
fn figures_of(report: &Report) -> (f64, f64, f64) {
    let (committed, aborted) = (report.all.committed_per_s, report.aborted_per_s);
    (committed, 100.0 * aborted / (aborted + committed).max(1e-9), report.all.p50_us)
}

impl Measuring {
    /// In this folder.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(out: &Path, profile: Arc<Profile>, seed: u64, size: Size) -> Result<Self, Failure> {
        let folder = out.join("runs");
        std::fs::create_dir_all(&folder).map_err(|error| super::super::unwritable(&folder, &error))?;
        let Machine { processor, processors, .. } = Machine::found();
        let machine = format!("{processor}, {processors} processors");
        Ok(Self { folder, profile, machine, seed, size })
    }

    /// Runs what is not kept, round by round; then the simulator.
    ///
    /// # Errors
    /// If a run cannot start or be kept, or somebody interrupts.
    pub fn all(&self, figures: &[Figure]) -> Result<Measured, Failure> {
        let mut planned = Vec::new();
        for round in (0..self.size.rounds).map(Some).chain([None]) {
            for figure in figures {
                for point in &figure.points {
                    let first = usize::from(round.unwrap_or(0));
                    planned.extend((first..first + ENGINES.len()).map(|at| {
                        let (engine, name, _) = ENGINES[at % ENGINES.len()];
                        Planned { figure, point, engine: (engine, name), round }
                    }));
                }
            }
        }
        let total = planned.len();
        let run = |(at, planned): (usize, &Planned<'_>)| self.one(planned, (at + 1, total));
        let runs = planned.iter().enumerate().map(run).collect::<Result<Vec<_>, Failure>>()?;
        Ok(Measured { runs })
    }

    fn one(&self, planned: &Planned<'_>, (number, total): (usize, usize)) -> Result<Run, Failure> {
        check_interrupted()?;
        let Planned { figure, point, engine: (engine, name), round } = *planned;
        let of = (figure.id.to_owned(), point.name.to_owned(), name.to_owned());
        let shown = round.map_or("simulated".to_owned(), |round| format!("round {}", round + 1));
        let file = format!("{}-{}-{name}-{shown}.json", figure.id, point.name);
        let file = self.folder.join(file.replace(['/', ' '], "_").replace('+', "-plus"));
        let machine = if round.is_some() { &self.machine } else { &self.profile.name };
        let template = Run {
            of,
            round,
            machine: machine.clone(),
            seed: self.seed + u64::from(round.unwrap_or(0)),
            size: self.size,
            committed_per_s: 0.0,
            aborted_percent: 0.0,
            p50_us: 0.0,
            processor_share: 1.0,
            problems: Vec::new(),
        };
        if let Some(kept) = template.kept(&file) {
            return Ok(kept);
        }
        let what = format!("{number} of {total}: {} {}, {name}, {shown}", figure.id, point.name);
        let phase = Phase::over(&what);
        let run = match round {
            Some(_) => self.real(figure, point, engine, template)?,
            None => self.simulated(figure, point, engine, template)?,
        };
        let text = serde_json::to_string_pretty(&run).expect("plain values");
        super::super::write(&file, &text)?;
        phase.done(&format!("{:.1} K/s", run.committed_per_s / 1000.0));
        Ok(run)
    }

    /// On real processes.
    fn real(&self, figure: &Figure, point: &Point, engine: EngineName, run: Run) -> Result<Run, Failure> {
        let Size { seconds, warm_up_s, .. } = self.size;
        let pod = PodArguments {
            hosts: point.hosts,
            seconds,
            warm_up: warm_up_s,
            seed: run.seed,
            share_all: engine == EngineName::Row && point.is_shared(),
            engine: engine.into(),
            ..PodArguments::default()
        };
        let mut best: Option<Run> = None;
        for _ in 0..self.size.attempts {
            check_interrupted()?;
            await_quiet(self.size.attempts);
            let report = run_once(&pod, figure.work.at(point, &self.size))?;
            let (committed_per_s, aborted_percent, p50_us) = figures_of(&report);
            let worked_s = report.engine.more.get(PROCESSOR_NS).map_or(f64::NAN, |ns| *ns as f64 / 1e9);
            let processor_share = worked_s / (report.measured_s * f64::from(report.workers));
            let problems: Vec<String> = report.failures.into_iter().chain(report.stopped).collect();
            let is_wrong = !problems.is_empty();
            let run =
                Run { committed_per_s, aborted_percent, p50_us, processor_share, problems, ..run.clone() };
            if is_wrong || processor_share >= UNDISTURBED {
                return Ok(run);
            }
            if best.as_ref().is_none_or(|best| best.processor_share < processor_share) {
                best = Some(run);
            }
        }
        Ok(best.expect("it was tried"))
    }

    /// In virtual time.
    fn simulated(
        &self,
        figure: &Figure,
        point: &Point,
        engine: EngineName,
        run: Run,
    ) -> Result<Run, Failure> {
        let bench = figure.work.at(point, &self.size);
        let engine = EngineArguments::from(engine).engine(false, 1)?;
        let result = on_bench!(bench, it => engine.simulate(Simulated { all: self, point, it }));
        let result = result.expect("the engines of the plan suit every profile");
        let (committed_per_s, aborted_percent, p50_us) = figures_of(&result.report);
        Ok(Run { committed_per_s, aborted_percent, p50_us, problems: result.problems, ..run })
    }
}

/// A point that the simulator measures.
struct Simulated<'a, B> {
    all: &'a Measuring,
    point: &'a Point,
    it: B,
}

impl<B: Benchmark> OnEngine for Simulated<'_, B> {
    type Out = BenchResult;

    fn run<E: PodEngine>(self, design: &E::Design) -> Result<BenchResult, TxnError> {
        let Self { all, point, it } = self;
        let usual = BenchSim::timed(all.profile.clone(), it.clone(), 1_000_000 * all.size.virtual_ms);
        let (hosts, share_all) = (point.hosts, point.is_shared());
        let run = BenchSim { seed: all.seed, hosts, workers: 1, share_all, ..usual };
        let mut loaded = bench::load::<E, B>(&run, design)?;
        // What comes first warms all caches.
        loaded.measure(it.clone());
        Ok(loaded.measure(it))
    }
}

impl Run {
    /// What the file holds, if it is this run, made in the same way.
    fn kept(&self, file: &Path) -> Option<Run> {
        let kept: Run = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
        // More rounds leave those that are there as they are.
        let size = Size { rounds: self.size.rounds, ..kept.size };
        let same = (&kept.of, kept.round, &kept.machine, kept.seed, size)
            == (&self.of, self.round, &self.machine, self.seed, self.size);
        same.then_some(kept)
    }
}
