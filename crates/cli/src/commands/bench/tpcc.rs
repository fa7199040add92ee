//! `liger bench tpcc`: its arguments, and the ways to run it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use liger_engine::Durability;
use liger_fabric::native::MemorySpec;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::benchmark::Tpcc;
use liger_workload::tpcc::generate::Homes;
use liger_workload::tpcc::input::{Mix, Remote};

use super::chaos::{self, KillMode};
use super::pod::PodArguments;
use super::temporary::Temporary;
use super::{LOST_WITH_MEMORY, kills, run_job, seconds};
use crate::commands::up::{duration, new_memory};
use crate::commands::upkeep::Upkeep;
use crate::failure::Failure;
use crate::job::{Bench, Durable, Job};
use crate::memory::check_config;

/// Clients that a worker stands for when each waits for storage.
const CLIENTS: usize = 1000;

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
    /// In the worker's share of those that its host owns at the time; as "own" where partitions stay
    Owned,
}

impl From<HomesName> for Homes {
    fn from(name: HomesName) -> Self {
        match name {
            HomesName::Own => Homes::Own,
            HomesName::AnyLocal => Homes::AnyLocal,
            HomesName::Owned => Homes::Owned,
        }
    }
}

/// A TPC-C run.
#[derive(Args)]
#[command(args_override_self = true)]
pub struct TpccArguments {
    #[command(flatten)]
    pod: PodArguments,
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
    /// Where transactions are at home: in each worker's share of its host's warehouses, in any of its host,
    /// or in the worker's share of those whose partitions its host owns at the time
    #[arg(long, value_enum, default_value = "own")]
    homes: HomesName,
    /// When a transaction counts as committed; "pod" and "storage" need --data
    #[arg(long, value_enum, default_value = "none")]
    durability: Durable,
    /// Keep a log and checkpoints in this directory
    #[arg(long)]
    data: Option<PathBuf>,
    #[command(flatten)]
    upkeep: Upkeep,
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
    #[arg(long, default_value = "5s", value_parser = duration)]
    lease: Duration,
    /// With --kill-every: draw what happened into this SVG file
    #[arg(long, requires = "kill_every")]
    svg: Option<PathBuf>,
}

impl TpccArguments {
    fn job(&self) -> Result<Job, Failure> {
        let PodArguments { hosts, workers, seed, .. } = self.pod;
        let warehouses = self.warehouses.unwrap_or(i16::from(hosts) * i16::from(workers));
        if warehouses < hosts.into() {
            return Err(Failure::Refused(format!(
                "{warehouses} warehouses for {hosts} hosts: each needs one: raise --warehouses or lower \
                 --hosts"
            )));
        }
        let scale = Scale::reduced(warehouses, self.scale_divisor);
        scale.validate().map_err(|error| Failure::Refused(error.to_string()))?;
        let Self { mix, remote, homes, .. } = *self;
        let tpcc = Tpcc { scale, seed, mix: mix.into(), remote, homes: homes.into() };
        let of_logs = [
            ("--durability", self.durability != Durable::None),
            ("--data", self.data.is_some()),
            ("--kill-every", self.kill_every.is_some()),
        ];
        self.pod.engine.refuse_beside(&of_logs, "keeps no log, and no host of it may die")?;
        let mut job = self.pod.job(Bench::Tpcc(tpcc))?;
        if self.durability != Durable::None && self.data.is_none() && self.kill_every.is_none() {
            let name = Durability::from(self.durability).name();
            return Err(Failure::Refused(format!("--durability {name} keeps a log: say where with --data")));
        }
        if self.kill_every.is_some() && (self.durability == Durable::None || hosts < 2) {
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
        if job.pace.is_some() && self.kill_every.is_some() {
            let message = "--kill-every is not for --backend paced, whose clocks end with the process that \
                           makes them: use native or shadow";
            return Err(Failure::Refused(message.to_owned()));
        }
        let in_flight = self.in_flight.map_or_else(
            || if self.durability == Durable::Storage { CLIENTS } else { 1 },
            |clients| clients as usize,
        );
        let path = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        self.upkeep.check()?;
        job.data = self.data.as_ref().map(|it| self.upkeep.data(path(it), self.recover));
        (job.durability, job.in_flight) = (self.durability, in_flight);
        if self.kill_every.is_some() {
            job.lease_ms = self.lease.as_millis() as u64;
        }
        job.watched = self.crash_after.is_some();
        check_config(&job.pod_config(), &job.catalog())?;
        Ok(job)
    }
}

/// TPC-C while hosts fail one at a time.
fn run_with_kills(arguments: &TpccArguments, mut job: Job, period: Duration) -> Result<ExitCode, Failure> {
    let (path, _temporary) = Temporary::unless(arguments.data.as_ref());
    let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
    job.data = Some(arguments.upkeep.data(absolute.join("data"), false));
    let plan = chaos::Plan {
        time: Duration::from_secs_f64(job.seconds + job.warm_up_s),
        kill_every: Some(period),
        mode: arguments.kill_mode,
        kills: arguments.kills.unwrap_or(u32::MAX),
        crash_after: None,
        keep_memory: false,
        seed: job.seed,
    };
    let memory = match &arguments.pod.memory {
        // Hosts that come later open it by its name.
        MemorySpec::Memfd => new_memory(&path),
        named => named.to_string(),
    };
    let survived = kills::run(job, (&path, memory), arguments.lease, plan, arguments.svg.as_ref())?;
    println!("{}", if arguments.pod.json { survived.json() } else { survived.table() });
    Ok(if survived.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs TPC-C.
pub(super) fn run(arguments: &TpccArguments) -> Result<ExitCode, Failure> {
    let job = arguments.job()?;
    if let Some(period) = arguments.kill_every {
        return run_with_kills(arguments, job, period);
    }
    let crash = arguments.crash_after.map(|seconds| (seconds, arguments.keep_memory));
    run_job(&arguments.pod, job, crash)
}
