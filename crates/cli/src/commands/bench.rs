//! `liger bench tpcc`: a pod of real processes, TPC-C on it, and a check of every row afterwards.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use liger_engine::db::SyncMode;
use liger_engine::log::Durability;
use liger_fabric::native::MemorySpec;
use liger_fabric::shadow::Omission;
use liger_workload::benchmark::Benchmark;
use liger_workload::report::About;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::benchmark::Tpcc;
use liger_workload::tpcc::generate::Homes;
use liger_workload::tpcc::input::{Mix, Remote};
use liger_workload::{Acknowledged, EngineFigures, Report, WorkerStats};

use crate::commands::up::{duration, new_memory};
use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::job::{Backend, Bench, Data, Durable, Job, default_cxl_bytes, default_hwcc_bytes, on_bench};
use crate::memory::{PodMemory, check_config};
use crate::pace::Pace;
use crate::plot::{Figure, svg};
use crate::sizes;
use crate::terminal::Phase;
use crate::verify::AllRows;
use chaos::KillMode;
use temporary::Temporary;

mod chaos;
mod crash;
mod kills;
pub mod ledger;
mod shown;
mod sql;
mod temporary;

/// Hosts that work on an order answer, or say how far they are, within this time.
const PATIENCE: Duration = Duration::from_secs(300);
/// A host that is this silent is dead where no host is to die: a busy machine must not end a measurement.
const CALM_LEASE: Duration = Duration::from_secs(20);

/// The shadow backend's count of what was left out.
const OMISSIONS: &str = "shadow_omissions";

/// Clients that a worker stands for when each waits for storage.
const CLIENTS: usize = 1000;

/// Why a crash needs transactions that are on storage.
const LOST_WITH_MEMORY: &str = "--crash-after loses the shared memory, which only --durability storage \
                                survives: add that, or --keep-memory";

/// A log cannot be kept shorter than this: a host writes so much while a checkpoint is taken.
const MIN_REPLAY_LIMIT: u64 = 256 << 10;

/// What is run.
#[derive(Subcommand)]
pub enum Workload {
    /// TPC-C (not tpmC: no think times), then its consistency conditions and more over the whole database.
    Tpcc(Box<TpccArguments>),
    /// TPC-C through SQL, against Liger or PostgreSQL: any server that speaks its protocol.
    TpccSql(Box<sql::SqlArguments>),
    /// Transfers that clients outside the hosts ask for and remember, while hosts fail; then every one of
    /// them is looked for.
    Ledger(Box<ledger::LedgerArguments>),
}

/// [`Mix`] on the command line.
#[derive(Clone, Copy, ValueEnum)]
pub enum MixName {
    /// The specification's transactions.
    Spec,
    /// As Tigon's artifact has them: Delivery serves one district, remote customers are found by number.
    Artifact,
    /// Half New-Orders and half Payments, otherwise the artifact's: the evaluation of Pasha.
    FirstTwo,
}

impl From<MixName> for Mix {
    fn from(name: MixName) -> Self {
        match name {
            MixName::Spec => Mix::Spec,
            MixName::Artifact => Mix::Artifact,
            MixName::FirstTwo => Mix::FirstTwo,
        }
    }
}

/// [`Homes`] on the command line.
#[derive(Clone, Copy, ValueEnum)]
pub enum HomesName {
    /// In the worker's own share of its host's warehouses.
    Own,
    /// In any warehouse of its host.
    AnyLocal,
}

impl From<HomesName> for Homes {
    fn from(name: HomesName) -> Self {
        match name {
            HomesName::Own => Homes::Own,
            HomesName::AnyLocal => Homes::AnyLocal,
        }
    }
}

/// A TPC-C run.
#[derive(Args)]
#[command(args_override_self = true)]
pub struct TpccArguments {
    /// Hosts of the pod, each a process, 1 to 16
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    hosts: u8,
    /// Workers of each host, 1 to 31
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=31))]
    workers: u8,
    /// What stands between hosts and memory: the processor's caches, a software cache for each host, or
    /// caches and memory at the pace of a hardware profile
    #[arg(long, value_enum, default_value = "native")]
    backend: Backend,
    /// The hardware of the paced backend: a built-in profile (see `liger sim tpcc --help`), or a file like
    /// those of `liger probe --out`
    #[arg(long)]
    profile: Option<String>,
    /// On the shadow backend, leave this out, to see it noticed: a step's name, or 'invalidate at FILE:LINE'
    #[arg(long)]
    omit: Option<Omission>,
    /// Remote transactions: "spec", or percentages of New-Orders and Payments like "60/90"
    #[arg(long, default_value = "spec")]
    remote: Remote,
    /// Whose definition of the transactions
    #[arg(long, value_enum, default_value = "spec")]
    mix: MixName,
    /// Warehouses of the whole pod, at least one for each host [default: hosts * workers]
    #[arg(long, value_parser = clap::value_parser!(i16).range(1..))]
    warehouses: Option<i16>,
    /// Divides customers, orders and items, for a quick look
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=1000))]
    scale_divisor: i32,
    /// Measured time
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// Time before it, in seconds
    #[arg(long, default_value_t = 2.0, value_parser = seconds_or_none)]
    warm_up: f64,
    /// Memory of the pod: memfd, a file, /dev/daxN.M, or a PCI resource
    #[arg(long, default_value = "memfd")]
    memory: MemorySpec,
    /// Hardware-coherent memory, like 64M [default: enough for every shared row]
    #[arg(long, value_parser = sizes::parse)]
    hwcc: Option<u64>,
    /// Data memory, like 2G [default: enough for every shared row]
    #[arg(long, value_parser = sizes::parse)]
    cxl: Option<u64>,
    /// Hardware-coherent memory that shared rows may use before rows move out [default: 7/8]
    #[arg(long, value_parser = sizes::parse)]
    hwcc_budget: Option<u64>,
    /// Data memory that shared rows may use before rows move out [default: 7/8]
    #[arg(long, value_parser = sizes::parse)]
    cxl_budget: Option<u64>,
    /// How sync words work: hwcc (coherent) or pcc (past the cache) [default: hwcc, or as the profile's]
    #[arg(long)]
    sync: Option<SyncMode>,
    /// Share every CUSTOMER and STOCK row before the run, as published evaluations do
    #[arg(long)]
    share_all: bool,
    /// Where transactions are at home: each worker's own warehouses, or any of its host
    #[arg(long, value_enum, default_value = "own")]
    homes: HomesName,
    /// When a transaction counts as committed; "pod" and "storage" need --data
    #[arg(long, value_enum, default_value = "none")]
    durability: Durable,
    /// Keep a log and checkpoints in this directory
    #[arg(long)]
    data: Option<PathBuf>,
    /// Bytes of log, like 64M, that a recovery may have to read for each host: checkpoints are taken as often
    /// as that needs
    #[arg(long, value_parser = sizes::parse, default_value = "256M")]
    replay_limit: u64,
    /// Start from what --data holds instead of loading; give the same --hosts and --warehouses
    #[arg(long, requires = "data")]
    recover: bool,
    /// Transactions of a worker that may wait to become durable [default: 1000 with storage, else 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    in_flight: Option<u32>,
    /// Kill all hosts so many seconds into the run, recover from --data, and check that what was acknowledged
    /// is there
    #[arg(long, value_parser = seconds, requires = "data")]
    crash_after: Option<f64>,
    /// With --crash-after: the shared memory outlives the hosts
    #[arg(long, requires = "crash_after")]
    keep_memory: bool,
    /// Let a random host fail about so often, like 2s; it joins again. Needs --durability pod or storage; the
    /// pod is kept in --data, or removed after the run
    #[arg(long, value_parser = duration, conflicts_with_all = ["crash_after", "recover", "share_all"])]
    kill_every: Option<Duration>,
    /// How it fails
    #[arg(long, value_enum, default_value = "kill", requires = "kill_every")]
    kill_mode: KillMode,
    /// Failures after which no more are caused
    #[arg(long, requires = "kill_every")]
    kills: Option<u32>,
    /// With --kill-every: a host whose heartbeat stops for so long is dead
    #[arg(long, default_value = "500ms", value_parser = duration)]
    lease: Duration,
    /// With --kill-every: draw what happened into this SVG file
    #[arg(long, requires = "kill_every")]
    svg: Option<PathBuf>,
    /// Decides the database and the transactions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Leave the memory file for `liger inspect`
    #[arg(long)]
    keep: bool,
    /// Destroy what the memory holds
    #[arg(long)]
    force: bool,
}

fn seconds_or_none(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|s| (0.0..=86_400.0).contains(s));
    seconds.ok_or_else(|| "a number of seconds up to 86400 is needed".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    seconds_or_none(text)
        .ok()
        .filter(|s| *s >= 0.001)
        .ok_or_else(|| "a number of seconds from 0.001 to 86400 is needed".to_owned())
}

impl TpccArguments {
    fn job(&self) -> Result<Job, Failure> {
        let warehouses = self.warehouses.unwrap_or(i16::from(self.hosts) * i16::from(self.workers));
        if warehouses < self.hosts.into() {
            return Err(Failure::Refused(format!(
                "{warehouses} warehouses for {} hosts: each needs one: raise --warehouses or lower --hosts",
                self.hosts
            )));
        }
        let scale = Scale::reduced(warehouses, self.scale_divisor);
        scale.validate().map_err(|error| Failure::Refused(error.to_string()))?;
        let Self { seed, mix, remote, homes, .. } = *self;
        let tpcc = Tpcc { scale, seed, mix: mix.into(), remote, homes: homes.into() };
        let shareable = tpcc.shareable();
        let cxl_bytes = self.cxl.unwrap_or_else(|| default_cxl_bytes(self.hosts, &shareable));
        let hwcc_bytes = self.hwcc.unwrap_or_else(|| default_hwcc_bytes(self.hosts, &shareable, cxl_bytes));
        // Before memory is full: then rows leave one by one, and not in a hurry.
        let most = |bytes: u64| bytes / 8 * 7;
        let (hwcc_budget, cxl_budget) = (most(hwcc_bytes), most(cxl_bytes));
        let budget = (self.hwcc_budget.unwrap_or(hwcc_budget), self.cxl_budget.unwrap_or(cxl_budget));
        for (name, budget, bytes) in [("hwcc", budget.0, hwcc_bytes), ("cxl", budget.1, cxl_bytes)] {
            if budget > bytes {
                return Err(Failure::Refused(format!(
                    "--{name}-budget is {}, the pod has {}: lower it, or raise --{name}",
                    sizes::show(budget),
                    sizes::show(bytes)
                )));
            }
        }
        if self.omit.is_some() && self.backend != Backend::Shadow {
            let message = "--omit needs --backend shadow: elsewhere nothing can be left out";
            return Err(Failure::Refused(message.to_owned()));
        }
        if self.durability != Durable::None && self.data.is_none() && self.kill_every.is_none() {
            let name = Durability::from(self.durability).name();
            return Err(Failure::Refused(format!("--durability {name} keeps a log: say where with --data")));
        }
        if self.kill_every.is_some() && (self.durability == Durable::None || self.hosts < 2) {
            return Err(Failure::Refused(
                "--kill-every needs a host that survives and a log: give --hosts 2 or more, and --durability \
                 pod or storage"
                    .to_owned(),
            ));
        }
        if self.crash_after.is_some() && self.durability != Durable::Storage && !self.keep_memory {
            return Err(Failure::Refused(LOST_WITH_MEMORY.to_owned()));
        }
        if self.keep_memory && self.durability == Durable::None {
            let message = "--durability none keeps no log, and so no memory: use pod or storage";
            return Err(Failure::Refused(message.to_owned()));
        }
        let (pace, sync) = Pace::asked(self.backend, self.profile.as_deref(), self.sync)?;
        if pace.is_some() && self.kill_every.is_some() {
            let message = "--kill-every is not for --backend paced, whose clocks end with the process that \
                           makes them: use native or shadow";
            return Err(Failure::Refused(message.to_owned()));
        }
        let in_flight = self.in_flight.map_or_else(
            || if self.durability == Durable::Storage { CLIENTS } else { 1 },
            |clients| clients as usize,
        );
        let path = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let (recover, replay_limit) = (self.recover, self.replay_limit);
        if replay_limit < MIN_REPLAY_LIMIT {
            return Err(Failure::Refused(format!(
                "--replay-limit is {}, at least {} are needed",
                sizes::show(replay_limit),
                sizes::show(MIN_REPLAY_LIMIT)
            )));
        }
        let data = |it| Data { path: path(it), recover, generation: 1, replay_limit };
        let data = self.data.as_ref().map(data);
        let job = Job {
            book: None,
            sql: None,
            access: Default::default(),
            telling: Default::default(),
            hosts: self.hosts,
            workers: self.workers,
            backend: self.backend,
            pace,
            omit: self.omit.as_ref().map(ToString::to_string),
            bench: Bench::Tpcc(tpcc),
            seconds: self.seconds,
            warm_up_s: self.warm_up,
            hwcc_bytes,
            cxl_bytes,
            budget,
            sync: sync.to_string(),
            share_all: self.share_all,
            seed: self.seed,
            data,
            durability: self.durability,
            in_flight,
            lease_ms: self.kill_every.map_or(CALM_LEASE, |_| self.lease).as_millis() as u64,
            watched: self.crash_after.is_some(),
        };
        check_config(&job.pod_config(), &job.catalog())?;
        Ok(job)
    }
}

/// Runs a workload.
pub fn run(workload: &Workload) -> Result<ExitCode, Failure> {
    match workload {
        Workload::Tpcc(arguments) => run_tpcc(arguments),
        Workload::TpccSql(arguments) => sql::run(arguments),
        Workload::Ledger(arguments) => ledger::run(arguments),
    }
}

/// Writes a picture.
fn write_svg(path: &PathBuf, figure: &Figure) -> Result<(), Failure> {
    std::fs::write(path, svg::render(figure))
        .map_err(|e| Failure::Refused(format!("{}: {e}: name a file that can be written", path.display())))
}

/// TPC-C while hosts fail one at a time.
fn run_with_kills(arguments: &TpccArguments, job: Job, period: Duration) -> Result<ExitCode, Failure> {
    let (path, _temporary) = Temporary::unless(arguments.data.as_ref());
    let plan = chaos::Plan {
        time: Duration::from_secs_f64(job.seconds + job.warm_up_s),
        kill_every: Some(period),
        mode: arguments.kill_mode,
        kills: arguments.kills.unwrap_or(u32::MAX),
        crash_after: None,
        keep_memory: false,
        seed: job.seed,
    };
    let memory = match &arguments.memory {
        // Hosts that come later open it by its name.
        MemorySpec::Memfd => new_memory(&path),
        named => named.to_string(),
    };
    let survived = kills::run(job, (&path, memory), arguments.lease, plan, arguments.svg.as_ref())?;
    println!("{}", if arguments.json { survived.json() } else { survived.table() });
    Ok(if survived.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_tpcc(arguments: &TpccArguments) -> Result<ExitCode, Failure> {
    let mut job = arguments.job()?;
    if let Some(period) = arguments.kill_every {
        return run_with_kills(arguments, job, period);
    }
    let mut fleet = Fleet::new()?;
    let flags = (arguments.keep, arguments.force);
    let memory = PodMemory::make(&arguments.memory, &job.pod_config(), &job.schemas(), flags)?;
    let _clocks = job.pace.as_mut().map(|pace| pace.make_clocks(memory.bytes())).transpose()?;
    if let Some(data) = &mut job.data {
        data.generation = if data.recover { memory.begin(&data.path)? } else { memory.create(&data.path)? };
    }
    if let Some(seconds) = arguments.crash_after {
        let survived = crash::run(fleet, memory, job, seconds, (&arguments.memory, arguments.keep_memory))?;
        println!("{}", if arguments.json { survived.json() } else { survived.table() });
        return Ok(if survived.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let report = measure(&mut fleet, &memory, &job);
    // Hosts end before their memory is removed.
    drop(fleet);
    let report = report?;
    drop(memory);
    println!("{}", if arguments.json { report.json() } else { report.table() });
    let good = report.consistent == Some(true) && report.stopped.is_empty();
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The whole run, from the first host's start to the last one's end.
fn measure(fleet: &mut Fleet, memory: &PodMemory, job: &Job) -> Result<Report, Failure> {
    prepare(fleet, memory, job)?;
    let run_s = job.seconds + job.warm_up_s;
    let phase = Phase::start(&format!("running for {run_s} s"));
    let ran = fleet.order_all(
        |_| Order::Run { seconds: job.seconds },
        PATIENCE + Duration::from_secs_f64(run_s),
        |_| (),
    )?;
    phase.done("ran");
    let mut figures = EngineFigures::default();
    let mut stats = WorkerStats::default();
    for answer in ran {
        let Answer::Ran { stats: of_host, figures: measured } = answer else { return Err(confused(&answer)) };
        stats.merge(&of_host);
        figures.merge(&measured);
    }
    // What was acknowledged before a recovery is not known here.
    let exactly = job.data.as_ref().is_none_or(|data| !data.recover);
    let told = &stats.acknowledged;
    let told = if exactly { Acknowledged::Exactly(told) } else { Acknowledged::AtLeast(told) };
    let (failures, _) = verify(fleet, job, told, &mut figures)?;
    fleet.dismiss(PATIENCE)?;
    if let (Some(omitted), Some(0)) = (&job.omit, figures.more.get(OMISSIONS)) {
        let message =
            format!("--omit {omitted}: no host came by it: it has another name, or needs another run");
        return Err(Failure::Refused(message));
    }
    Ok(Report::new(about(job, memory), &stats, Some(failures), figures))
}

/// Starts the hosts and lets them join.
fn prepare_hosts(fleet: &mut Fleet, memory: &PodMemory, job: &Job) -> Result<(), Failure> {
    let phase = Phase::start(&format!("{} hosts join", job.hosts));
    for _ in 0..job.hosts {
        fleet.start_host()?;
    }
    let join = |host| Order::Join {
        memory: memory.name.clone(),
        host: host as u8,
        again: false,
        job: Box::new(job.clone()),
    };
    fleet.order_all(join, PATIENCE, |_| ())?;
    if job.data.as_ref().is_some_and(|data| data.recover) {
        // All have read the files: now they may write.
        fleet.order_all(|_| Order::Enter, PATIENCE, |_| ())?;
    }
    phase.done("joined, the memory passed its test");
    Ok(())
}

/// Starts the hosts and fills the database.
fn prepare(fleet: &mut Fleet, memory: &PodMemory, job: &Job) -> Result<(), Failure> {
    prepare_hosts(fleet, memory, job)?;
    if job.data.as_ref().is_some_and(|data| data.recover) {
        recover(fleet)?;
    } else {
        let phase = Phase::of_rows(&format!("loading {}", job.bench.name()), job.rows());
        let rows = rows_of(&fleet.order_all(|_| Order::Load, PATIENCE, |rows| phase.add(rows))?)?;
        phase.done(&format!("{rows} rows"));
    }
    if let Some(data) = &job.data {
        let phase = Phase::start("taking a checkpoint");
        fleet.order_all(|_| Order::Checkpoint, PATIENCE, |_| ())?;
        phase.done(&format!("on storage in {}", data.path.display()));
    }
    if job.share_all {
        let phase = Phase::start("sharing every row that others may touch");
        let rows = rows_of(&fleet.order_all(|_| Order::Share, PATIENCE, |_| ())?)?;
        phase.done(&format!("{rows} rows"));
    }
    Ok(())
}

/// What a recovery has read and put into partitions.
#[derive(Clone, Copy, Default)]
struct Recovered {
    bytes: u64,
    log_bytes: u64,
    rows: u64,
    changes: u64,
}

/// Fills all hosts with what the pod's files hold.
fn recover(fleet: &mut Fleet) -> Result<Recovered, Failure> {
    let phase = Phase::start("recovering");
    let mut all = Recovered::default();
    for answer in fleet.order_all(|_| Order::Recover, PATIENCE, |_| ())? {
        let Answer::Recovered { bytes, log_bytes, rows, changes } = answer else {
            return Err(confused(&answer));
        };
        all.bytes += bytes;
        all.log_bytes = all.log_bytes.max(log_bytes);
        all.rows += rows;
        all.changes += changes;
    }
    let log_mb = all.log_bytes as f64 / 1e6;
    phase.done(&format!("{} rows, {} changes from {log_mb:.1} MB of logs", all.rows, all.changes));
    Ok(all)
}

fn rows_of(answers: &[Answer]) -> Result<u64, Failure> {
    let rows = |answer: &Answer| match answer {
        Answer::Moved { rows } => Ok(*rows),
        other => Err(confused(other)),
    };
    answers.iter().map(rows).sum()
}

/// Checks the whole database and every host's engine; returns what is wrong, and how many acknowledged
/// transactions are lost.
fn verify(
    fleet: &mut Fleet,
    job: &Job,
    told: Acknowledged<'_>,
    figures: &mut EngineFigures,
) -> Result<(Vec<String>, u64), Failure> {
    let phase = Phase::start("checking every row");
    let mut failures = settle(fleet, figures)?;
    for (host, answer) in fleet.order_all(|_| Order::Check, PATIENCE, |_| ())?.into_iter().enumerate() {
        let Answer::Checked { problems } = answer else { return Err(confused(&answer)) };
        failures.extend(problems.into_iter().map(|problem| format!("host {host}: {problem}")));
    }
    let catalog = job.catalog();
    let rows = AllRows::new(fleet, &catalog);
    let verdict = job.bench.check(&rows, told);
    if let Some(failure) = rows.into_failure() {
        return Err(failure);
    }
    failures.extend(verdict.failures);
    phase.done(if failures.is_empty() { "all conditions hold" } else { "NOT consistent" });
    Ok((failures, verdict.lost))
}

/// Lets the pod come to rest: what one host still had to say may wake another, so all of them twice.
fn settle(fleet: &mut Fleet, figures: &mut EngineFigures) -> Result<Vec<String>, Failure> {
    fleet.order_all(|_| Order::Settle, PATIENCE, |_| ())?;
    let mut failures = Vec::new();
    for (host, answer) in fleet.order_all(|_| Order::Settle, PATIENCE, |_| ())?.into_iter().enumerate() {
        let Answer::Settled { backlog, figures: memory } = answer else { return Err(confused(&answer)) };
        figures.merge(&memory);
        if backlog > 0 {
            failures.push(format!("host {host}: {backlog} retired blocks were never freed"));
        }
    }
    Ok(failures)
}

fn confused(answer: &Answer) -> Failure {
    Failure::Broken(format!("a host answered what it was not asked: {answer:?}"))
}

fn about(job: &Job, memory: &PodMemory) -> About {
    let replay_limit = job.data.as_ref().map_or(0, |data| data.replay_limit);
    let settings = [
        ("replay_limit_bytes", replay_limit.to_string()),
        ("omitted", job.omit.clone().unwrap_or_else(|| "nothing".to_owned())),
        ("share_all", job.share_all.to_string()),
        ("sync", job.sync.clone()),
        ("durability", Durability::from(job.durability).name().to_owned()),
        ("in_flight_per_worker", job.in_flight.to_string()),
        ("workers_per_host", job.workers.to_string()),
        ("warm_up_s", job.warm_up_s.to_string()),
        ("hwcc_bytes", job.hwcc_bytes.to_string()),
        ("cxl_bytes", job.cxl_bytes.to_string()),
        ("hwcc_budget_bytes", job.budget.0.to_string()),
        ("cxl_budget_bytes", job.budget.1.to_string()),
    ];
    let mut all = on_bench!(&job.bench, benchmark => benchmark.settings());
    all.extend(settings.map(|(name, value)| (name.to_owned(), value)));
    About {
        workload: job.bench.name().to_owned(),
        protocol: "row engine, two-phase locking, no waiting".to_owned(),
        backend: format!("{}, {}, {}", job.backend_label(), memory.kind, job.sync),
        settings: all,
        seed: job.seed,
        hosts: job.hosts.into(),
    }
}
