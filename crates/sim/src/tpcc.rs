//! TPC-C on a simulated pod of row engines.
//!
//! Two uses of one program. *Adversarial*: a tiny database under hostile schedules and caches; its history
//! must be serializable, the consistency conditions and the proofs of no lost update must hold over the whole
//! database, every invariant of the engine too. *Timed*: a large database on the hardware of a profile; the
//! figures are virtual time, and say so.
//!
//! Invariants:
//! 1. A run is a function of its [`TpccSim`].
//! 2. Loading, sharing and checking take no virtual time.
//!
//! Not here: how long a run takes on the machine that simulates (the caller has the clock).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use liger_engine::log::Durability;
use liger_engine::row::{Budget, Loader as RowLoader, RowHost, RowSession};
use liger_engine::{Catalog, NewRow, Row, TableId, TableSchema, TxnError};
use liger_fabric::sim::{
    Adversary, Mode, Outcome, Profile, Report as SimReport, Sim, SimConfig, Simulation, TimeUse,
};
use liger_fabric::{Cx, HostId, WorkerId};
use liger_pod::plan::{PodConfig, SUPERBLOCK_BYTES};
use liger_workload::report::{About, EngineFigures, Report};
use liger_workload::stats::WorkerStats;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::check::{Acknowledged, Snapshot, check};
use liger_workload::tpcc::driver::{Length, RunConfig, run_worker};
use liger_workload::tpcc::generate::Homes;
use liger_workload::tpcc::input::{Mix, Remote};
use liger_workload::tpcc::load::Loader;
use liger_workload::tpcc::schema::Tables;

use crate::history::Key as HistoryKey;
use crate::pod::{PodSetup, SimPod};
use crate::scenario::LeftOut;
use crate::serializability;

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
pub struct TpccSim {
    /// Decides everything.
    pub seed: u64,
    /// Hosts of the pod.
    pub hosts: u8,
    /// Workers of each host.
    pub workers: u8,
    /// Memory and schedules.
    pub kind: Kind,
    /// Size of the database; warehouse w lives on host w modulo the number of hosts.
    pub scale: Scale,
    /// Which transactions touch other warehouses.
    pub remote: Remote,
    /// Whose transactions.
    pub mix: Mix,
    /// Which of its host's warehouses a worker serves.
    pub homes: Homes,
    /// How long; times are virtual.
    pub length: Length,
    /// Attempts after which a transaction is given up; `None`: only the end of the time ends it.
    pub max_attempts: Option<u32>,
    /// Shared memory that rows and their index may use; `None`: all that was laid out, which is enough.
    pub budget: Option<Budget>,
    /// Share all customers and all stock before the run, which other warehouses may touch: the state that
    /// Tigon's evaluation starts from (OSDI'25, section 6.1).
    pub share_all: bool,
    /// Check the whole database afterwards.
    pub check: bool,
    /// Verbs after which an adversarial run counts as stuck.
    pub max_verbs: u64,
    /// What a mutated run leaves out.
    pub left_out: Option<LeftOut>,
}

impl TpccSim {
    /// A tiny database under the adversary; shape and sizes follow from the seed.
    pub fn adversarial(seed: u64) -> Self {
        let mut pick = crate::Picker::new(seed ^ 0x5450_4343);
        let hosts = 2 + pick.below(2) as u8;
        let warehouses = i16::from(hosts) + pick.below(2) as i16;
        let remote = [Remote::Spec, Remote::Percent { new_order: 60, payment: 90 }][pick.below(2) as usize];
        Self {
            seed,
            hosts,
            workers: 1 + pick.below(2) as u8,
            kind: Kind::Adversarial,
            scale: Scale { warehouses, items: 20, customers: 10 },
            remote,
            mix: [Mix::Spec, Mix::Artifact][pick.below(2) as usize],
            homes: Homes::AnyLocal,
            length: Length::Transactions { warm_up: 0, measured: 6 + pick.below(12) },
            max_attempts: None,
            // From much less than one transaction needs to more than all of them.
            budget: Some(Budget { hwcc_bytes: 1 << 20, cxl_bytes: 256 << pick.below(11) }),
            share_all: false,
            check: true,
            max_verbs: 20_000_000,
            left_out: None,
        }
    }

    /// Tigon's pod and workload (OSDI'25, figure 4): 8 hosts with 3 workers, 24 warehouses, everything shared
    /// that may be. `divisor` reduces items and customers (1: the full size, some 5 GB of this machine's
    /// memory).
    pub fn tigon(profile: Arc<Profile>, divisor: i32, remote: Remote, measured_ns: u64) -> Self {
        Self {
            seed: 1,
            hosts: 8,
            workers: 3,
            kind: Kind::Timed(profile),
            scale: if divisor == 1 { Scale::full(24) } else { Scale::reduced(24, divisor) },
            remote,
            mix: Mix::Artifact,
            homes: Homes::AnyLocal,
            length: Length::Time { warm_up_ns: measured_ns / 4, measured_ns },
            max_attempts: None,
            budget: None,
            share_all: true,
            check: false,
            max_verbs: u64::MAX,
            left_out: None,
        }
    }

    fn records(&self) -> bool {
        matches!(self.kind, Kind::Adversarial)
    }

    /// The layout of a pod with room for sharing every row that the workload shares.
    fn pod(&self) -> PodConfig {
        let Scale { warehouses, items, customers } = self.scale;
        let (stock, customer) =
            (i64::from(warehouses) * i64::from(items), i64::from(warehouses) * 10 * i64::from(customers));
        let rows = (stock + customer) as u64;
        // A word for each row, one for each of its index's nodes, and what the pod itself needs.
        let hwcc_bytes = (12 * rows + (8 << 20)).next_multiple_of(4096);
        // 384 bytes of stock, 768 of customers, 64 of index for each, chunks half full.
        let cxl_bytes = (600 * stock as u64 + 1100 * customer as u64 + (64 << 20)).next_multiple_of(4096);
        let mut pod = if self.records() {
            PodConfig::small(self.hosts, self.workers)
        } else {
            PodConfig::new(self.hosts, self.workers, hwcc_bytes, cxl_bytes)
        };
        pod.partitions = warehouses as u16;
        pod
    }

    fn homes_of(&self, host: u8, worker: u8) -> Vec<i16> {
        let (partitions, hosts) = (self.scale.warehouses, i16::from(self.hosts));
        let of_host: Vec<i16> =
            (1..=self.scale.warehouses).filter(|w| w % partitions % hosts == i16::from(host)).collect();
        self.homes.pick(&of_host, usize::from(worker), usize::from(self.workers))
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct TpccSimResult {
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
pub struct LoadedTpcc {
    run: TpccSim,
    pod: SimPod,
    tables: Tables,
    initial: Vec<(HistoryKey, u64)>,
    /// How often it ran.
    runs: u16,
}

const DATABASE_SEED: u64 = 0x7063_6374;

/// Loads, runs and checks.
pub fn run(run: &TpccSim) -> TpccSimResult {
    load(run).run()
}

/// Loads the database, and shares it if the run asks for that.
pub fn load(run: &TpccSim) -> LoadedTpcc {
    let mut schemas: Vec<TableSchema> = Vec::new();
    let mut next = 0u16;
    let tables = Tables::create(|schema| {
        let first = next;
        next += 1 + schema.indexes.len() as u16;
        schemas.push(schema.clone());
        let indexes = (first + 1..next).map(|id| liger_engine::IndexId(TableId(id))).collect();
        Ok::<_, TxnError>((TableId(first), indexes))
    });
    let tables = tables.expect("numbering does not fail");
    let catalog = Arc::new(Catalog::new(&schemas).expect("valid schemas"));
    let mut pod = run.pod();
    pod.max_tables = catalog.relations().len() as u16;
    let setup = PodSetup {
        budget: run.budget,
        record: run.records(),
        remote_entries: if run.records() { 256 } else { 1 << 20 },
        node_entries: if run.records() { 256 } else { 1 << 18 },
        ..PodSetup::new(pod, Arc::clone(&catalog))
    };
    let built = SimPod::new(&setup, |plan| sim_config(run, plan.len() as usize, plan.sync_end()));
    let mut loaded = LoadedTpcc {
        run: run.clone(),
        pod: built.expect("an empty pod has room"),
        tables,
        initial: Vec::new(),
        runs: 0,
    };
    loaded.fill();
    if run.records() {
        loaded.initial = initial_keys(&catalog, run, &tables);
    }
    if run.share_all {
        let shared = [tables.customer, tables.stock];
        let moved = loaded.pod.on_every_host(move |cx, host| host.share_all(cx, &shared));
        for moved in moved {
            moved.expect("the layout has room for all");
        }
    }
    loaded
}

fn sim_config(run: &TpccSim, len: usize, sync_end: u64) -> SimConfig {
    let hosts = usize::from(run.hosts);
    let mut config = match &run.kind {
        Kind::Adversarial => SimConfig {
            mode: Mode::Adversarial(Adversary::swarm(run.seed)),
            max_verbs: run.max_verbs,
            ..SimConfig::adversarial(hosts, len, run.seed)
        },
        Kind::Timed(profile) => SimConfig::timed(hosts, len, run.seed, Arc::clone(profile)),
    };
    config.sync = Some(SUPERBLOCK_BYTES..sync_end);
    LeftOut::apply(run.left_out.as_ref(), &mut config);
    config
}

fn generate<E>(
    run: &TpccSim,
    tables: &Tables,
    is_mine: impl Fn(i16) -> bool,
    mut emit: impl FnMut(TableId, &NewRow) -> Result<(), E>,
) -> Result<(), E> {
    let loader = Loader::new(*tables, run.scale, DATABASE_SEED, 1);
    loader.load_items(&mut emit, |_| ())?;
    let mut mine = (1..=run.scale.warehouses).filter(|w| is_mine(*w));
    mine.try_for_each(|w| loader.load_warehouse(w, &mut emit, |_| ()))
}

/// The key of every row and index entry of the initial database, which have version 0.
fn initial_keys(catalog: &Catalog, run: &TpccSim, tables: &Tables) -> Vec<(HistoryKey, u64)> {
    let mut keys = Vec::new();
    let emitted = generate(
        run,
        tables,
        |_| true,
        |table, row| {
            let (layout, indexes) = catalog.relation(table)?.table()?;
            keys.push((HistoryKey::new(table.0, layout.primary.key_of(row.bytes()).words()), 0));
            for (index, id) in layout.indexes.iter().zip(indexes) {
                keys.push((HistoryKey::new(id.0.0, index.key.key_of(row.bytes()).words()), 0));
            }
            Ok::<_, TxnError>(())
        },
    );
    emitted.expect("the catalog's own tables");
    keys
}

/// What the workers of a run share outside the pod.
#[derive(Default)]
struct Stage {
    running: Cell<u32>,
    stats: RefCell<Vec<WorkerStats>>,
}

impl LoadedTpcc {
    fn fill(&mut self) {
        let (run, tables) = (self.run.clone(), self.tables);
        let filled = self.pod.on_every_host(move |cx, host| {
            let mut loader = RowLoader::new(host);
            let owns = |w: i16| host.owner((w % run.scale.warehouses) as u16) == host.id();
            generate(&run, &tables, owns, |table, row| loader.put(cx, table, row))?;
            loader.finish(cx);
            Ok::<_, TxnError>(())
        });
        filled.into_iter().for_each(|filled| filled.expect("loading an empty database"));
    }

    /// Runs the workers, and checks what the run asks for.
    pub fn run(mut self) -> TpccSimResult {
        self.go()
    }

    /// Runs the workers of a timed run with these remote shares, on the database and the caches as the last
    /// run left them: loading at full scale takes a minute, a point of a curve seconds. Every call draws
    /// other inputs; the sequence of calls replays.
    pub fn measure(&mut self, remote: Remote) -> TpccSimResult {
        assert!(!self.run.records() && !self.run.check, "a history or a check covers one run");
        self.run.remote = remote;
        self.go()
    }

    fn go(&mut self) -> TpccSimResult {
        self.runs += 1;
        let stage = self.start_workers();
        let before = self.pod.sim.verbs();
        let sim = self.pod.sim.run();
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
        if let Some(recorder) = &self.pod.recorder {
            let verdict = serializability::check(&recorder.history(std::mem::take(&mut self.initial)));
            problems.extend(verdict.anomalies.iter().map(|anomaly| anomaly.to_string()));
        }
        let report = Report::new(self.about(), &stats, failures, self.engine_figures(&sim));
        let SimReport { outcome, trace_hash, virtual_ns, time_use, .. } = sim;
        TpccSimResult { report, outcome, trace_hash, verbs, virtual_ns, time_use, problems }
    }

    fn start_workers(&mut self) -> Rc<Stage> {
        let stage = Rc::new(Stage::default());
        stage.running.set(u32::from(self.run.hosts) * u32::from(self.run.workers));
        for host in 0..self.run.hosts {
            for worker in 0..self.run.workers {
                let engine = Rc::clone(&self.pod.hosts[usize::from(host)]);
                let (stage, config) = (Rc::clone(&stage), self.worker_config(host, worker));
                let body = move |cx: &Cx<Sim>| work(cx, &engine, &config, &stage);
                self.pod.sim.spawn(HostId(host), WorkerId(worker), body);
            }
        }
        stage
    }

    fn worker_config(&self, host: u8, worker: u8) -> RunConfig {
        let TpccSim { scale, mix, remote, length, max_attempts, .. } = self.run;
        RunConfig {
            tables: self.tables,
            scale,
            database_seed: DATABASE_SEED,
            run: self.runs.max(1),
            mix,
            remote,
            homes: self.run.homes_of(host, worker),
            length,
            max_attempts,
            durability: Durability::None,
            watch: None,
            in_flight: 1,
        }
    }

    /// The consistency conditions over the whole database.
    fn conditions(&mut self, stats: &WorkerStats) -> Vec<String> {
        let (sim, hosts) = (RefCell::new(&mut self.pod.sim), &self.pod.hosts);
        let failure = RefCell::new(None);
        let whole = Whole { sim, hosts, item: self.tables.item, failure };
        let told = Acknowledged::Exactly(&stats.acknowledged);
        let findings = check(&whole, &self.tables, &self.run.scale, DATABASE_SEED, told);
        whole.failure.take().into_iter().chain(findings.lines()).collect()
    }

    fn about(&self) -> About {
        let run = &self.run;
        let mut settings = self.worker_config(0, 0).settings();
        settings.insert("share_all".to_owned(), run.share_all.to_string());
        settings.insert("homes".to_owned(), format!("{:?}", run.homes));
        let backend = match &run.kind {
            Kind::Adversarial => "simulated, adversarial: times mean nothing".to_owned(),
            Kind::Timed(profile) => format!("simulated, virtual time of profile {}", profile.name),
        };
        let (workload, protocol) = ("tpcc".to_owned(), "row".to_owned());
        About { workload, protocol, backend, settings, seed: run.seed, hosts: run.hosts.into() }
    }

    fn engine_figures(&mut self, sim: &SimReport) -> EngineFigures {
        let mut figures = EngineFigures::default();
        for host in &self.pod.hosts {
            let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            let moves = host.moves();
            figures.shared_tuples += read(&moves.shared_rows);
            figures.moves_in += read(&moves.moved_in);
            figures.moves_out += read(&moves.moved_out);
            *figures.more.entry("messages".to_owned()).or_default() += read(&moves.messages);
        }
        if sim.completed() {
            let first = Rc::clone(&self.pod.hosts[0]);
            let usage = self.pod.sim.alone(first.id(), WorkerId(0), move |cx| first.usage(cx));
            figures.hwcc_tuple_bytes = usage.tuple_bytes;
            let named = |name: &str, bytes| (name.to_owned(), bytes);
            figures.hwcc_bytes = BTreeMap::from([
                named("tuple words", usage.tuple_bytes),
                named("index", usage.mapping_bytes),
            ]);
            figures.cxl_bytes =
                BTreeMap::from([named("rows", usage.row_bytes), named("index", usage.node_bytes)]);
        }
        figures
    }
}

fn work(cx: &Cx<Sim>, host: &RowHost, config: &RunConfig, stage: &Stage) {
    let mut session = RowSession::new(cx, host);
    let stats = run_worker(cx, &mut session, config);
    stage.stats.borrow_mut().push(stats);
    stage.running.set(stage.running.get() - 1);
    // Others may still need this host's rows.
    while stage.running.get() > 0 {
        session.serve();
        cx.pause();
    }
    session.serve();
}

/// The rows of all hosts, for the consistency check.
struct Whole<'a> {
    sim: RefCell<&'a mut Simulation>,
    hosts: &'a [Rc<RowHost>],
    /// The table that every host has a copy of.
    item: TableId,
    failure: RefCell<Option<String>>,
}

impl Snapshot for Whole<'_> {
    fn rows(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) {
        let copies = if table == self.item { 1 } else { self.hosts.len() };
        for host in &self.hosts[..copies] {
            let its = Rc::clone(host);
            let read = self.sim.borrow_mut().try_alone(host.id(), WorkerId(0), move |cx| {
                let (mut bytes, mut len) = (Vec::new(), 0);
                let shown = its.for_each_row(cx, table, |_, row| {
                    len = row.bytes().len();
                    bytes.extend_from_slice(row.bytes());
                });
                shown.map(|()| (bytes, len))
            });
            match read {
                Ok(Ok((bytes, len))) => bytes.chunks_exact(len.max(1)).for_each(|row| visit(Row::new(row))),
                Ok(Err(refused)) => self.fail(format!("reading {table} after the run: {refused}")),
                Err(stopped) => self.fail(format!("reading {table} after the run: {stopped}")),
            }
        }
    }
}

impl Whole<'_> {
    fn fail(&self, what: String) {
        self.failure.borrow_mut().get_or_insert(what);
    }
}
