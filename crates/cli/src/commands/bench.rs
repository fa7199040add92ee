//! `liger bench`: a pod of real processes, a workload on it, and a check of every row afterwards.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use liger_engine::Durability;
use liger_workload::benchmark::Benchmark;
use liger_workload::report::About;
use liger_workload::{Acknowledged, EngineFigures, Report, WorkerStats};

use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::job::{Bench, Job, on_bench};
use crate::memory::PodMemory;
use crate::plot::{Figure, svg};
use crate::pod::log_bytes;
use crate::terminal::Phase;
use crate::verify::AllRows;
pub use pod::PodArguments;
pub use tpcc::{HomesName, MixName};

mod chaos;
mod crash;
mod kills;
pub mod ledger;
mod others;
mod pod;
mod shown;
mod sql;
mod temporary;
mod tpcc;

/// Hosts that work on an order answer, or say how far they are, within this time.
const PATIENCE: Duration = Duration::from_secs(300);
/// A host that is this silent is dead where no host is to die: a busy machine must not end a measurement.
const CALM_LEASE: Duration = Duration::from_secs(20);

/// The shadow backend's count of what was left out.
const OMISSIONS: &str = "shadow_omissions";

/// Why a crash needs transactions that are on storage.
const LOST_WITH_MEMORY: &str = "--crash-after loses the shared memory, which only --durability storage \
                                survives: add that, or --keep-memory";

/// What is run.
#[derive(Subcommand)]
pub enum Workload {
    /// TPC-C (not tpmC: no think times), then its consistency conditions and more over the whole database.
    Tpcc(Box<tpcc::TpccArguments>),
    #[command(flatten)]
    Others(others::Others),
    /// TPC-C through SQL, against Liger or PostgreSQL: any server that speaks its protocol.
    TpccSql(Box<sql::SqlArguments>),
    /// Transfers that clients outside the hosts ask for and remember, while hosts fail; then every one of
    /// them is looked for.
    Ledger(Box<ledger::LedgerArguments>),
}

/// Runs a workload.
pub fn run(workload: &Workload) -> Result<ExitCode, Failure> {
    match workload {
        Workload::Tpcc(arguments) => tpcc::run(arguments),
        Workload::Others(workload) => others::run(workload),
        Workload::TpccSql(arguments) => sql::run(arguments),
        Workload::Ledger(arguments) => ledger::run(arguments),
    }
}

/// Writes a picture.
fn write_svg(path: &PathBuf, figure: &Figure) -> Result<(), Failure> {
    std::fs::write(path, svg::render(figure))
        .map_err(|e| Failure::Refused(format!("{}: {e}: name a file that can be written", path.display())))
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

/// Runs a workload on a pod of its own; with `crash`, kills all hosts so many seconds into the run, and
/// keeps the memory or does not.
fn run_job(pod: &PodArguments, mut job: Job, crash: Option<(f64, bool)>) -> Result<ExitCode, Failure> {
    let mut fleet = Fleet::new()?;
    let memory = PodMemory::make(&pod.memory, &job.pod_config(), &job.schemas(), (pod.keep, pod.force))?;
    let _clocks = job.pace.as_mut().map(|pace| pace.make_clocks(memory.bytes())).transpose()?;
    if let Some(data) = &mut job.data {
        data.generation = if data.recover {
            let phase = Phase::of_bytes("looking for what is left", log_bytes(&data.path));
            memory.begin(&data.path, &phase)?
        } else {
            memory.create(&data.path)?
        };
    }
    if let Some((seconds, keep_memory)) = crash {
        let survived = crash::run(fleet, memory, job, seconds, (&pod.memory, keep_memory))?;
        println!("{}", if pod.json { survived.json() } else { survived.table() });
        return Ok(if survived.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let report = measure(&mut fleet, &memory, &job);
    // Hosts end before their memory is removed.
    drop(fleet);
    let report = report?;
    drop(memory);
    println!("{}", if pod.json { report.json() } else { report.table() });
    let good = report.consistent == Some(true) && report.stopped.is_empty();
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a workload on a pod of its own, and checks every row.
pub fn run_once(pod: &PodArguments, bench: Bench) -> Result<Report, Failure> {
    let job = pod.job(bench)?;
    let mut fleet = Fleet::new()?;
    let memory = PodMemory::make(&pod.memory, &job.pod_config(), &job.schemas(), (false, false))?;
    // Hosts end before their memory goes.
    let report = measure(&mut fleet, &memory, &job);
    drop(fleet);
    report
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
        let Answer::Ran { stats: of_host, figures: measured } = answer else { return Err(answer.unasked()) };
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
            return Err(answer.unasked());
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
        other => Err(other.unasked()),
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
    let mut failures = quiesce(fleet, figures)?;
    for (host, answer) in fleet.order_all(|_| Order::Check, PATIENCE, |_| ())?.into_iter().enumerate() {
        let Answer::Checked { problems } = answer else { return Err(answer.unasked()) };
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
fn quiesce(fleet: &mut Fleet, figures: &mut EngineFigures) -> Result<Vec<String>, Failure> {
    fleet.order_all(|_| Order::Quiesce, PATIENCE, |_| ())?;
    let mut failures = Vec::new();
    for (host, answer) in fleet.order_all(|_| Order::Quiesce, PATIENCE, |_| ())?.into_iter().enumerate() {
        let Answer::Quiesced { backlog, figures: memory } = answer else { return Err(answer.unasked()) };
        figures.merge(&memory);
        if backlog > 0 {
            failures.push(format!("host {host}: {backlog} retired blocks were never freed"));
        }
    }
    Ok(failures)
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
        protocol: job.engine().protocol(),
        backend: format!("{}, {}, {}", job.backend_label(), memory.kind, job.sync),
        settings: all,
        seed: job.seed,
        hosts: job.hosts.into(),
    }
}
