//! What every workload on real processes is told: the pod, its memory, and how long.

use clap::{Args, Command, FromArgMatches};
use liger_engine::db::SyncMode;
use liger_fabric::native::MemorySpec;
use liger_fabric::shadow::Omission;

use super::{CALM_LEASE, seconds, seconds_or_none};
use crate::engines::EngineArguments;
use crate::failure::Failure;
use crate::job::{Backend, Bench, Durable, Job, Rebalance, default_cxl_bytes, default_hwcc_bytes};
use crate::pace::Pace;
use crate::sizes;

/// The pod of a benchmark.
#[derive(Args)]
pub struct PodArguments {
    /// Hosts of the pod, each a process, 1 to 16
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub hosts: u8,
    /// Workers of each host, 1 to 31
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=31))]
    pub workers: u8,
    #[command(flatten)]
    pub engine: EngineArguments,
    /// What stands between hosts and memory: the processor's caches, a software cache for each host, or
    /// caches and memory at the pace of a hardware profile
    #[arg(long, value_enum, default_value = "native")]
    pub backend: Backend,
    /// The hardware of the paced backend: a built-in profile (see `liger sim tpcc --help`), or a file like
    /// those of `liger probe --out`
    #[arg(long)]
    pub profile: Option<String>,
    /// On the shadow backend, leave this out, to see it noticed: a step's name, or 'invalidate at FILE:LINE'
    #[arg(long)]
    pub omit: Option<Omission>,
    /// Measured time
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    pub seconds: f64,
    /// Time before it, in seconds
    #[arg(long, default_value_t = 2.0, value_parser = seconds_or_none)]
    pub warm_up: f64,
    /// Memory of the pod: memfd, a file, /dev/daxN.M, or a PCI resource
    #[arg(long, default_value = "memfd")]
    pub memory: MemorySpec,
    /// Hardware-coherent memory, like 64M [default: enough for every shared row]
    #[arg(long, value_parser = sizes::parse)]
    pub hwcc: Option<u64>,
    /// Data memory, like 2G [default: enough for every shared row]
    #[arg(long, value_parser = sizes::parse)]
    pub cxl: Option<u64>,
    /// Hardware-coherent memory that shared rows may use before rows move out [default: 7/8]
    #[arg(long, value_parser = sizes::parse)]
    pub hwcc_budget: Option<u64>,
    /// Data memory that shared rows may use before rows move out [default: 7/8]
    #[arg(long, value_parser = sizes::parse)]
    pub cxl_budget: Option<u64>,
    /// How sync words work: hwcc (coherent) or pcc (past the cache) [default: hwcc, or as the profile's]
    #[arg(long)]
    pub sync: Option<SyncMode>,
    /// Share every row before the run that other hosts may touch, as published evaluations do
    #[arg(long)]
    pub share_all: bool,
    /// Decides the database and the transactions
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
    /// Leave the memory file for `liger inspect`
    #[arg(long)]
    pub keep: bool,
    /// Destroy what the memory holds
    #[arg(long)]
    pub force: bool,
}

impl Default for PodArguments {
    fn default() -> Self {
        let command = Self::augment_args(Command::new("pod")).no_binary_name(true);
        let none = command.get_matches_from([""; 0]);
        Self::from_arg_matches(&none).expect("every option has a default")
    }
}

impl PodArguments {
    /// This workload on the pod: without a log, every worker one client.
    pub fn job(&self, bench: Bench) -> Result<Job, Failure> {
        let own_memory = [
            ("--share-all", self.share_all),
            ("--hwcc-budget", self.hwcc_budget.is_some()),
            ("--cxl-budget", self.cxl_budget.is_some()),
        ];
        self.engine.refuse_beside(&own_memory, "does not choose which rows are shared")?;
        let shareable = self.engine.engine(false, self.workers)?.shared_of(&bench)?;
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
        let (pace, sync) = Pace::asked(self.backend, self.profile.as_deref(), self.sync)?;
        Ok(Job {
            book: None,
            sql: None,
            access: Default::default(),
            telling: Default::default(),
            hosts: self.hosts,
            initial_hosts: 0,
            workers: self.workers,
            backend: self.backend,
            pace,
            omit: self.omit.as_ref().map(ToString::to_string),
            bench,
            engine: self.engine.clone(),
            seconds: self.seconds,
            warm_up_s: self.warm_up,
            hwcc_bytes,
            cxl_bytes,
            usable_bytes: None,
            budget,
            sync: sync.to_string(),
            share_all: self.share_all,
            seed: self.seed,
            data: None,
            durability: Durable::None,
            in_flight: 1,
            lease_ms: CALM_LEASE.as_millis() as u64,
            watched: false,
            transaction_bytes: None,
            old_version_bytes: None,
            rebalance: Rebalance::default(),
        })
    }
}
