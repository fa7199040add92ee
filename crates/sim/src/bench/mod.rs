//! Workloads on a simulated pod.
//!
//! Two uses of one program. *Adversarial*: a tiny database under hostile schedules and caches; its history
//! must be serializable, the workload's own conditions must hold over the whole database, every invariant of
//! the engine too. *Timed*: a large database on the hardware of a profile; the figures are virtual time, and
//! say so.
//!
//! Any workload ([`Benchmark`]; [`shapes`] has the usual ones) on any engine ([`PodEngine`]; [`row`] is the
//! row engine, [`partitioned`], Motor ([`crate::motor`]) and Sundial in shared memory ([`crate::shm`]) its
//! rivals). What is specific to an engine is behind that trait, and nothing else is.
//!
//! Invariants:
//! 1. A run is a function of its [`BenchSim`] and its engine.
//! 2. Loading, sharing and checking take no virtual time.
//!
//! Not here: how long a run takes on the machine that simulates (the caller has the clock).

mod load;
mod motor;
pub mod partitioned;
pub mod row;
pub mod shapes;
mod shm;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use liger_engine::Durability;
use liger_engine::log::ship::LogOptions;
use liger_engine::protocol::HostEngine;
use liger_engine::row::Budget;
use liger_engine::row::policy::Policies;
use liger_engine::{Catalog, Row, TableId, TxnError};
use liger_fabric::sim::{
    Adversary, Mode, Outcome, Profile, Report as SimReport, Sim, SimConfig, Simulation, TimeUse,
};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{Plan, PodConfig, SUPERBLOCK_BYTES};
use liger_workload::benchmark::{Benchmark, Shareable, WorkerInfo, catalog_of};
use liger_workload::driver::{Length, RunConfig, run_worker};
use liger_workload::report::{About, EngineFigures, Report};
use liger_workload::snapshot::{Acknowledged, Snapshot};
use liger_workload::stats::WorkerStats;

use crate::history::Key as HistoryKey;
use crate::recorder::Recorder;
use crate::scenario::LeftOut;
use crate::serializability;

/// Bytes of each worker's ring, in runs that keep a log: as the buffers of Tigon's artifact.
const RING_BYTES: u64 = 4 << 20;

/// The memory and the schedules of a run.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Truly incoherent memory, hostile schedules; the history is recorded and checked.
    Adversarial,
    /// This hardware, in virtual time.
    Timed(Arc<Profile>),
}

/// What to run.
#[derive(Clone, Debug)]
pub struct BenchSim<B> {
    /// Decides everything.
    pub seed: u64,
    /// Hosts of the pod.
    pub hosts: u8,
    /// Workers of each host.
    pub workers: u8,
    /// Memory and schedules.
    pub kind: Kind,
    /// The workload and its database; partition p lives on host p modulo the number of hosts.
    pub benchmark: B,
    /// How long; times are virtual.
    pub length: Length,
    /// Attempts after which a transaction is given up; `None`: only the end of the time ends it.
    pub max_attempts: Option<u32>,
    /// How long a worker waits after a conflict: see [`RunConfig::back_off_ns`].
    pub back_off_ns: Option<u64>,
    /// Shared memory that rows and their index may use; `None`: all that was laid out, which is enough.
    pub budget: Option<Budget>,
    /// The log that every host keeps on its simulated disk, if any. Workers do not wait for it: they go on
    /// with the next transaction, and each is acknowledged when it is durable.
    pub log: Option<LogOptions>,
    /// Share all rows before the run that other hosts may touch: the state that Tigon's evaluation starts
    /// from (OSDI'25, section 6.1).
    pub share_all: bool,
    /// Check the whole database afterwards.
    pub check: bool,
    /// Verbs after which an adversarial run counts as stuck.
    pub max_verbs: u64,
    /// What a mutated run leaves out.
    pub left_out: Option<LeftOut>,
}

/// What an engine is told about the pod that it is to make.
pub struct Setup<'a, D> {
    /// How the engine is to work, where it can work in more than one way.
    pub design: &'a D,
    /// The layout: room for sharing every row that the workload shares.
    pub config: PodConfig,
    /// Bytes that all rows take where they live in shared memory.
    pub whole: Budget,
    /// The tables.
    pub catalog: Arc<Catalog>,
    /// As [`BenchSim::budget`].
    pub budget: Option<Budget>,
    /// As [`BenchSim::log`].
    pub log: Option<LogOptions>,
    /// Record committed transactions, and keep caches small.
    pub records: bool,
    /// The simulation's configuration for this plan.
    pub configure: &'a dyn Fn(&Plan) -> SimConfig,
}

/// A simulated pod whose hosts run one engine. Everything that the engines differ in, as far as running a
/// workload on them goes.
pub trait PodEngine: Sized + 'static {
    /// One host's engine.
    type Host: HostEngine;
    /// How the engine works, where it can work in more than one way.
    type Design: Clone + 'static;

    /// The name in reports of an engine of this design.
    fn protocol(design: &Self::Design) -> String;

    /// Makes the pod and starts the engines of all hosts.
    ///
    /// # Errors
    /// If the pod has no room for them, or the design does not suit its memory or tables.
    fn start(setup: &Setup<'_, Self::Design>) -> Result<Self, TxnError>;

    /// The simulation underneath.
    fn simulation(&mut self) -> &mut Simulation;

    /// The hosts, by number.
    fn hosts(&self) -> &[Rc<Self::Host>];

    /// What committed, if that is recorded.
    fn recorder(&self) -> Option<&Recorder>;

    /// What is wrong with the engines' own structures after a run.
    fn check(&mut self) -> Vec<String>;

    /// Transactions that a worker runs at once, each as a worker of the simulation.
    fn at_once(&self) -> u8 {
        1
    }

    /// Starts whatever works beside the workers; it ends when `is_over` says so.
    fn start_helpers(&mut self, is_over: impl Fn() -> bool + Clone + 'static) {
        let _ = is_over;
    }

    /// What only the engine knows; `completed` says that the pod is at rest.
    fn figures(&mut self, completed: bool) -> EngineFigures;
}

impl<B: Benchmark> BenchSim<B> {
    fn records(&self) -> bool {
        matches!(self.kind, Kind::Adversarial)
    }

    /// The layout of a pod with room for sharing every row that the workload shares.
    fn pod(&self) -> PodConfig {
        let Budget { hwcc_bytes, cxl_bytes } = room_for(&self.benchmark.shareable());
        let mut pod = if self.records() {
            PodConfig::small(self.hosts, self.workers)
        } else {
            PodConfig::new(self.hosts, self.workers, hwcc_bytes, cxl_bytes)
        };
        pod.partitions = self.benchmark.partitions();
        if self.log.is_some() {
            pod.log_ring_bytes = RING_BYTES;
            pod.cxl_bytes += u64::from(self.hosts) * u64::from(self.workers + 1) * RING_BYTES;
        }
        pod
    }

    /// What the whole database takes, where all of it is in shared memory.
    fn whole(&self) -> Budget {
        if self.records() {
            return Budget { hwcc_bytes: 0, cxl_bytes: 0 };
        }
        let whole = self.benchmark.whole();
        room_for(&Shareable { rows: whole.rows + whole.entries, ..whole })
    }

    /// The partitions of a host, ascending.
    fn partitions_of(&self, host: u8) -> Vec<u16> {
        (0..self.benchmark.partitions()).filter(|p| p % u16::from(self.hosts) == u16::from(host)).collect()
    }

    fn sim_config(&self, len: usize, sync_end: u64) -> SimConfig {
        let hosts = usize::from(self.hosts);
        let mut config = match &self.kind {
            Kind::Adversarial => SimConfig {
                mode: Mode::Adversarial(Adversary::swarm(self.seed)),
                max_verbs: self.max_verbs,
                ..SimConfig::adversarial(hosts, len, self.seed)
            },
            Kind::Timed(profile) => SimConfig::timed(hosts, len, self.seed, Arc::clone(profile)),
        };
        config.sync = Some(SUPERBLOCK_BYTES..sync_end);
        LeftOut::apply(self.left_out.as_ref(), &mut config);
        config
    }
}

/// Memory for these rows: a word for each, one for each of its index's nodes, and what the pod itself needs.
fn room_for(shared: &Shareable) -> Budget {
    Budget {
        hwcc_bytes: (12 * shared.rows + (8 << 20)).next_multiple_of(4096),
        cxl_bytes: (shared.bytes + (64 << 20)).next_multiple_of(4096),
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct BenchResult {
    /// The workload's figures, in virtual time.
    pub report: Report,
    /// How the simulation ended.
    pub outcome: Outcome,
    /// Equal runs have equal hashes.
    pub trace_hash: u64,
    /// Verbs of the run proper, without loading and checking: for verbs per second of the caller's clock.
    pub verbs: u64,
    /// Virtual time of the run.
    pub virtual_ns: u64,
    /// Where the workers' virtual time went, warm-up included; zeros under the adversary.
    pub time_use: TimeUse,
    /// Everything that is wrong; empty if all is well.
    pub problems: Vec<String>,
}

/// A database that is loaded and ready to run.
pub struct Loaded<E: PodEngine, B> {
    run: BenchSim<B>,
    pod: E,
    design: E::Design,
    catalog: Arc<Catalog>,
    initial: Vec<(HistoryKey, u64)>,
    /// How often it ran.
    runs: u16,
}

/// Loads, runs and checks, on the row engine.
pub fn run<B: Benchmark>(run: &BenchSim<B>) -> BenchResult {
    let loaded = load::<row::RowPod, B>(run, &Policies::default());
    loaded.expect("the usual policies suit every memory").run()
}

/// Makes a pod of this engine and design, loads the database, and shares it if the run asks for that.
///
/// # Errors
/// If the design does not suit the run's memory or tables.
pub fn load<E: PodEngine, B: Benchmark>(
    run: &BenchSim<B>,
    design: &E::Design,
) -> Result<Loaded<E, B>, TxnError> {
    let catalog = Arc::new(catalog_of(&run.benchmark.schemas()));
    let mut config = run.pod();
    config.max_tables = catalog.relations().len() as u16;
    let configure = |plan: &Plan| run.sim_config(plan.len() as usize, plan.sync_end());
    let setup = Setup {
        design,
        config,
        whole: run.whole(),
        catalog: Arc::clone(&catalog),
        budget: run.budget,
        log: run.log,
        records: run.records(),
        configure: &configure,
    };
    let pod = E::start(&setup)?;
    let (run, design) = (run.clone(), design.clone());
    let mut loaded = Loaded { run, pod, design, catalog, initial: Vec::new(), runs: 0 };
    loaded.fill();
    if loaded.run.share_all {
        loaded.share(1.0);
    }
    Ok(loaded)
}

/// What the workers of a run share outside the pod.
#[derive(Default)]
struct Stage {
    running: Cell<u32>,
    stats: RefCell<Vec<WorkerStats>>,
}

impl<E: PodEngine, B: Benchmark> Loaded<E, B> {
    /// Runs the workers, and checks what the run asks for.
    pub fn run(mut self) -> BenchResult {
        self.go()
    }

    /// Runs the workers of a timed run with this workload, which differs in what is run and not in the
    /// database, on the database and the caches as the last run left them: loading at full scale takes a
    /// minute, a point of a curve seconds. Every call draws other inputs; the sequence of calls replays.
    pub fn measure(&mut self, benchmark: B) -> BenchResult {
        assert!(!self.run.records() && !self.run.check, "a history or a check covers one run");
        self.run.benchmark = benchmark;
        self.go()
    }

    fn go(&mut self) -> BenchResult {
        self.runs += 1;
        let stage = self.start_workers();
        let (before, figures_before) = (self.pod.simulation().verbs(), self.pod.figures(false));
        let sim = self.pod.simulation().run();
        let verbs = sim.verbs - before;
        let stats = WorkerStats::merged(stage.stats.borrow().iter());
        let failures = (sim.completed() && self.run.check).then(|| self.conditions(&stats));
        let mut problems: Vec<String> = failures.clone().unwrap_or_default();
        problems.extend(stats.stopped.iter().map(|error| format!("a worker was stopped: {error}")));
        if !sim.completed() {
            problems.push(sim.outcome.to_string());
        } else if self.run.records() {
            problems.extend(self.pod.check());
        }
        if let Some(recorder) = self.pod.recorder() {
            let verdict = serializability::check(&recorder.history(std::mem::take(&mut self.initial)));
            problems.extend(verdict.anomalies.iter().map(|anomaly| anomaly.to_string()));
        }
        let figures = self.pod.figures(sim.completed()).since(&figures_before);
        let report = Report::new(self.about(), &stats, failures, figures);
        let SimReport { outcome, trace_hash, virtual_ns, time_use, .. } = sim;
        BenchResult { report, outcome, trace_hash, verbs, virtual_ns, time_use, problems }
    }

    fn start_workers(&mut self) -> Rc<Stage> {
        let stage = Rc::new(Stage::default());
        let workers = self.run.workers * self.pod.at_once();
        stage.running.set(u32::from(self.run.hosts) * u32::from(workers));
        let config = self.config();
        for host in 0..self.run.hosts {
            let partitions = self.run.partitions_of(host);
            for worker in 0..workers {
                let (index, workers) = (worker.into(), workers.into());
                let place = WorkerInfo { partitions: &partitions, owned: None, worker: index, workers };
                let workload = self.run.benchmark.worker(place);
                let engine = Rc::clone(&self.pod.hosts()[usize::from(host)]);
                let (stage, config) = (Rc::clone(&stage), config.clone());
                let body = move |cx: &Cx<Sim>| work::<E, B>(cx, &engine, &workload, &config, &stage);
                self.pod.simulation().spawn(HostId(host), WorkerId(worker), body);
            }
        }
        let seen = Rc::clone(&stage);
        self.pod.start_helpers(move || seen.running.get() == 0);
        stage
    }

    fn config(&self) -> RunConfig {
        let BenchSim { length, max_attempts, back_off_ns, .. } = self.run;
        let plain = RunConfig { run: self.runs.max(1), max_attempts, back_off_ns, ..RunConfig::new(length) };
        match self.run.log {
            None => plain,
            Some(_) => RunConfig { durability: Durability::Storage, in_flight: usize::MAX, ..plain },
        }
    }

    /// The workload's conditions over the whole database.
    fn conditions(&mut self, stats: &WorkerStats) -> Vec<String> {
        let hosts = self.pod.hosts().to_vec();
        let whole = Whole::<E> {
            hosts: &hosts,
            catalog: &self.catalog,
            sim: RefCell::new(self.pod.simulation()),
            failure: RefCell::new(None),
            engine: PhantomData,
        };
        let verdict = self.run.benchmark.check(&whole, Acknowledged::Exactly(&stats.acknowledged));
        whole.failure.take().into_iter().chain(verdict.failures).collect()
    }

    fn about(&self) -> About {
        let run = &self.run;
        let mut settings = run.benchmark.settings();
        settings.extend(self.config().settings());
        settings.insert("share_all".to_owned(), run.share_all.to_string());
        let log = run.log.map(|log| format!("epochs of {} ms", log.epoch_ns as f64 / 1e6));
        settings.insert("log".to_owned(), log.unwrap_or_else(|| "none".to_owned()));
        let backend = match &run.kind {
            Kind::Adversarial => "simulated, adversarial: times mean nothing".to_owned(),
            Kind::Timed(profile) => format!("simulated, virtual time of profile {}", profile.name),
        };
        let (workload, protocol) = (run.benchmark.name().to_owned(), E::protocol(&self.design));
        About { workload, protocol, backend, settings, seed: run.seed, hosts: run.hosts.into() }
    }
}

/// The log of a benchmark whose epochs last so long, busy or not.
pub fn log_of_epochs(epoch_ns: u64) -> LogOptions {
    LogOptions { epoch_ns, busy_factor: 1, ..LogOptions::default() }
}

fn work<E: PodEngine, B: Benchmark>(
    cx: &Cx<Sim>,
    host: &E::Host,
    workload: &B::Worker,
    config: &RunConfig,
    stage: &Stage,
) {
    let mut session = host.session(cx);
    let stats = run_worker(cx, &mut session, workload, config);
    stage.stats.borrow_mut().push(stats);
    stage.running.set(stage.running.get() - 1);
    // Others may still need this host's rows.
    while stage.running.get() > 0 {
        host.attend(cx);
        cx.pause();
    }
    host.attend(cx);
}

/// The rows of all hosts, for the workload's check.
struct Whole<'a, E: PodEngine> {
    hosts: &'a [Rc<E::Host>],
    catalog: &'a Catalog,
    sim: RefCell<&'a mut Simulation>,
    failure: RefCell<Option<String>>,
    engine: PhantomData<E>,
}

impl<E: PodEngine> Snapshot for Whole<'_, E> {
    fn rows(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) {
        let relation = self.catalog.relation(table).expect("a table of the workload");
        let (row_len, copies) = (relation.row_len, if relation.replicated { 1 } else { self.hosts.len() });
        for (host, id) in self.hosts[..copies].iter().zip(0..) {
            let its = Rc::clone(host);
            let read = self.sim.borrow_mut().try_alone(HostId(id), WorkerId(0), move |cx| {
                let mut bytes = Vec::new();
                let shown = its.each_row(cx, table, |_, row| bytes.extend_from_slice(row.bytes()));
                shown.map(|()| bytes)
            });
            match read {
                Ok(Ok(bytes)) => bytes.chunks_exact(row_len).for_each(|row| visit(Row::new(row))),
                Ok(Err(refused)) => self.fail(format!("reading {table} after the run: {refused}")),
                Err(stopped) => self.fail(format!("reading {table} after the run: {stopped}")),
            }
        }
    }
}

impl<E: PodEngine> Whole<'_, E> {
    fn fail(&self, what: String) {
        self.failure.borrow_mut().get_or_insert(what);
    }
}
