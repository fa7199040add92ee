//! What a benchmark runs: everything that its hosts must know, as one value that travels to them.

use std::path::PathBuf;

use liger_engine::Durability;
use liger_engine::db::{Pod, PodConfig, SyncMode};
use liger_engine::recovery::Identity;
use liger_engine::recovery::checkpointer::RESTORE_PERCENT;
use liger_engine::row::Budget;
use liger_engine::{Catalog, TableSchema};
use liger_fabric::shadow::ShadowConfig;
use liger_pod::plan::cells_per_word;
use liger_sql::exec::IsolationLevel;
use liger_sql::storage::classes::{Classes, Family};
use liger_workload::benchmark::{Benchmark, Shareable, Verdict};
use liger_workload::ledger::{self, Book};
use liger_workload::snapshot::{Acknowledged, Snapshot};
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::benchmark::Tpcc;
use liger_workload::tpcc::generate::Homes;
use liger_workload::tpcc::input::{Mix, Remote};
use liger_workload::workloads;
use serde::{Deserialize, Serialize};

use crate::access::Access;
use crate::engines::{Engine, EngineArguments};
use crate::failure::Failure;
use crate::pace::Pace;
use crate::sizes;
use crate::telling::Telling;

macro_rules! define_bench {
    ($d:tt own { $($own:ident $($own_at:ident)::+)* } offered { $($name:ident $($at:ident)::+)* }) => {
        /// A workload that hosts run by themselves, with its database.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Bench {
            $($own(liger_workload::$($own_at)::+),)*
            $($name(liger_workload::$($at)::+),)*
        }

        $(impl From<liger_workload::$($own_at)::+> for Bench {
            fn from(workload: liger_workload::$($own_at)::+) -> Self {
                Self::$own(workload)
            }
        })*

        $(impl From<liger_workload::$($at)::+> for Bench {
            fn from(workload: liger_workload::$($at)::+) -> Self {
                Self::$name(workload)
            }
        })*

        /// Calls generic code with whichever workload it is.
        macro_rules! on_bench {
            ($d bench:expr, $d benchmark:ident => $d code:expr) => {
                match $d bench {
                    $($crate::job::Bench::$own($d benchmark) => $d code,)*
                    $($crate::job::Bench::$name($d benchmark) => $d code,)*
                }
            };
        }
    };
}
workloads!(define_bench ($));
#[expect(clippy::single_component_path_imports, reason = "it is a macro of this module")]
pub(crate) use on_bench;

impl Bench {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        on_bench!(self, benchmark => benchmark.name())
    }

    /// What its rows take when all are shared that hosts can share.
    pub fn shareable(&self) -> Shareable {
        on_bench!(self, benchmark => benchmark.shareable())
    }

    /// What all rows take where they live in shared memory.
    pub fn whole(&self) -> Shareable {
        on_bench!(self, benchmark => benchmark.whole())
    }

    /// Is the whole database right?
    pub fn check(&self, rows: &dyn Snapshot, told: Acknowledged<'_>) -> Verdict {
        on_bench!(self, benchmark => benchmark.check(rows, told))
    }
}

impl Default for Bench {
    /// The least TPC-C: what a pod that holds something else has in this place.
    fn default() -> Self {
        let (scale, mix, remote, homes) = (Scale::full(1), Mix::Spec, Remote::Spec, Homes::Own);
        Self::Tpcc(Tpcc { scale, seed: 1, mix, remote, homes })
    }
}

/// What stands between a host and the pod's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The processor's own caches.
    Native,
    /// A software cache for each host: incoherent on every machine, and slow.
    Shadow,
    /// The processor's own caches, at the pace of a hardware profile.
    Paced,
}

/// Whether partitions go to hosts that have less than their share by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Rebalance {
    /// Those hosts ask for them.
    #[default]
    Auto,
    /// Somebody says so.
    Manual,
}

/// At which level SQL's transactions are that ask for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Each statement reads what had committed when it began; who changes a row that somebody holds
    /// waits.
    ReadCommitted,
    /// The transaction reads what had committed when it began; who changes what others have changed since is
    /// told so (40001).
    RepeatableRead,
    /// As if one transaction ran after the other; who would break that is told so (40001).
    #[default]
    Serializable,
}

impl Isolation {
    /// As the sessions know it.
    pub fn level(self) -> IsolationLevel {
        match self {
            Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
            Isolation::RepeatableRead => IsolationLevel::RepeatableRead,
            Isolation::Serializable => IsolationLevel::Serializable,
        }
    }
}

/// When a transaction counts as committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Durable {
    /// When its locks are released; nothing outlives the hosts.
    None,
    /// When its record is in shared memory: it survives any host.
    Pod,
    /// When the logs of all hosts hold it on storage: it survives the loss of the shared memory.
    Storage,
}

impl From<Durable> for Durability {
    fn from(name: Durable) -> Self {
        match name {
            Durable::None => Self::None,
            Durable::Pod => Self::Pod,
            Durable::Storage => Self::Storage,
        }
    }
}

/// Where a pod's data is kept.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Data {
    /// The directory.
    pub path: PathBuf,
    /// The pod in it is recovered instead of loaded.
    pub recover: bool,
    /// How often the pod's memory was made: keeps the keys of its runs apart.
    pub generation: u64,
    /// Bytes of log a host that a recovery may have to read.
    pub replay_limit: u64,
    /// Percent of a thread's time for making rows that nobody waits for.
    #[serde(default = "usual_restore_percent")]
    pub restore_percent: u8,
}

/// What pods have that were made before one could say it.
fn usual_restore_percent() -> u8 {
    RESTORE_PERCENT
}

/// Bytes of a worker's ring of the log in a pod with SQL.
pub const SQL_RING_BYTES: u64 = 16 << 20;

/// A pod with SQL.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sql {
    /// Its partitions.
    pub partitions: u16,
    /// Where clients find host 0; the others are behind it.
    pub port: u16,
    /// Which lengths rows can have.
    #[serde(default)]
    pub classes: Family,
    /// At which level transactions are that ask for none.
    #[serde(default)]
    pub isolation: Isolation,
}

/// What a new pod is to hold.
#[derive(Clone, Copy)]
pub enum Holds {
    /// A ledger.
    Ledger(Book),
    /// TPC-C.
    Tpcc(Tpcc),
    /// What SQL puts into it.
    Sql(Sql),
}

/// What a pod holds, and what is run on it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The ledger, if the pod holds that. `bench` means nothing then.
    pub book: Option<Book>,
    /// The pod holds what SQL puts into it. `bench` means nothing then.
    #[serde(default)]
    pub sql: Option<Sql>,
    /// Who may connect to it.
    #[serde(default)]
    pub access: Access,
    /// What its hosts tell.
    #[serde(default)]
    pub telling: Telling,
    /// Hosts of the pod.
    pub hosts: u8,
    /// Those that were there when the memory was made, bit h for host h; 0: all.
    #[serde(default)]
    pub initial_hosts: u16,
    /// Workers of each host.
    pub workers: u8,
    /// What stands between hosts and memory.
    pub backend: Backend,
    /// At which hardware's pace the hosts run, if not at their own.
    #[serde(default)]
    pub pace: Option<Pace>,
    /// What all hosts leave out, as `shadow::Omission` reads it.
    pub omit: Option<String>,
    /// The database and what runs on it.
    #[serde(default)]
    pub bench: Bench,
    /// The engine of every host.
    #[serde(default)]
    pub engine: EngineArguments,
    /// Measured time.
    pub seconds: f64,
    /// Time before it.
    pub warm_up_s: f64,
    /// Bytes of the sync region.
    pub hwcc_bytes: u64,
    /// Bytes of the data region.
    pub cxl_bytes: u64,
    /// Those of them that the pod may use: it can grow to all of them while it serves. None: all.
    #[serde(default)]
    pub usable_bytes: Option<u64>,
    /// Bytes that the changes of one transaction may take; none: as much as there can be.
    #[serde(default)]
    pub transaction_bytes: Option<u64>,
    /// Bytes of a host's own memory that old versions of rows may take, which readers of snapshots want.
    #[serde(default)]
    pub old_version_bytes: Option<u64>,
    /// Whether a host that has less than its share of the partitions asks for more.
    #[serde(default)]
    pub rebalance: Rebalance,
    /// Bytes of both that shared rows may use before rows move out.
    pub budget: (u64, u64),
    /// How sync words work: `hwcc` or `pcc`.
    pub sync: String,
    /// Share every row before the run that other hosts may touch.
    pub share_all: bool,
    /// Decides the database and the transactions.
    pub seed: u64,
    /// Where the data is kept; nowhere by default.
    pub data: Option<Data>,
    /// When a transaction counts as committed.
    pub durability: Durable,
    /// How long a host may be silent before the others take it for dead, in milliseconds.
    pub lease_ms: u64,
    /// Transactions of a worker that may wait for that at once.
    pub in_flight: usize,
    /// Hosts say every few milliseconds what they have acknowledged.
    pub watched: bool,
}

impl Job {
    /// The pod's configuration.
    pub fn pod_config(&self) -> PodConfig {
        let config = PodConfig {
            partitions: match (self.book, self.sql) {
                (Some(book), _) => book.partitions,
                (None, Some(sql)) => sql.partitions,
                (None, None) => on_bench!(&self.bench, benchmark => benchmark.partitions()),
            },
            sync_mode: self.sync.parse::<SyncMode>().expect("checked when the job was made"),
            ..PodConfig::new(self.hosts, self.workers, self.hwcc_bytes, self.cxl_bytes)
        };
        let initial_hosts = if self.initial_hosts == 0 { config.initial_hosts } else { self.initial_hosts };
        let config = PodConfig { initial_hosts, ..config };
        let log_ring_bytes = match (&self.data, self.sql) {
            (None, _) => 0,
            // Whole tables are loaded in one transaction, and a record has half a ring.
            (Some(_), Some(_)) => SQL_RING_BYTES,
            (Some(_), None) => config.log_ring_bytes,
        };
        let config = PodConfig { log_ring_bytes, lease_ns: self.lease_ms * 1_000_000, ..config };
        let catalog = self.catalog();
        Pod::config_for(&self.engine().config_for(config, &catalog), &catalog)
    }

    /// The engine of every host.
    pub fn engine(&self) -> Engine {
        self.engine.engine(false, self.workers).expect("checked when the job was made")
    }

    /// What all files of the pod agree on, but for its number.
    pub fn identity(&self) -> Identity {
        let configuration = u64::from(self.pod_config().partitions);
        Identity::new(0, configuration, &self.catalog(), self.hosts)
    }

    /// The tables' schemas.
    pub fn schemas(&self) -> Vec<TableSchema> {
        match (self.book, self.sql) {
            (Some(_), _) => ledger::schema::schemas(),
            (None, Some(sql)) => Classes::schemas_of_family(sql.classes),
            (None, None) => on_bench!(&self.bench, benchmark => benchmark.schemas()),
        }
    }

    /// The tables.
    pub fn catalog(&self) -> Catalog {
        Catalog::new(&self.schemas()).expect("the workloads' schemas are valid")
    }

    /// What the pod holds, in a word.
    pub fn holds(&self) -> &'static str {
        match (self.book, self.sql) {
            (Some(_), _) => "ledger",
            (None, Some(_)) => "sql",
            (None, None) => self.bench.name(),
        }
    }

    /// Whether clients may come: the other workloads run by themselves.
    pub fn has_clients(&self) -> bool {
        self.book.is_some() || self.sql.is_some()
    }

    /// What reports call the backend.
    pub fn backend_label(&self) -> String {
        match (&self.pace, self.backend) {
            (Some(pace), _) => pace.label(),
            (None, Backend::Native) => "native".to_owned(),
            (None, Backend::Shadow) => "shadow".to_owned(),
            (None, Backend::Paced) => unreachable!("refused when the job was made"),
        }
    }

    /// What shared rows may use.
    pub fn budget(&self) -> Budget {
        Budget { hwcc_bytes: self.budget.0, cxl_bytes: self.budget.1 }
    }

    /// The cache of each host, if the backend has one.
    pub fn shadow_config(&self) -> ShadowConfig {
        let omission = self.omit.as_ref().map(|text| text.parse().expect("checked when the job was made"));
        ShadowConfig { omission, ..ShadowConfig::new(self.seed) }
    }

    /// Workers of the whole pod.
    pub fn all_workers(&self) -> u64 {
        u64::from(self.hosts) * u64::from(self.workers)
    }

    /// About how many rows the whole database starts with.
    pub fn rows(&self) -> u64 {
        if self.sql.is_some() {
            return 0;
        }
        if let Some(book) = &self.book {
            return book.all_accounts() * u64::from(self.hosts);
        }
        on_bench!(&self.bench, benchmark => benchmark.rows())
    }
}

/// How much data memory a pod has, and uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sizes {
    /// Bytes that it has room for.
    pub cxl_bytes: u64,
    /// Those that it uses; none: all.
    pub usable_bytes: Option<u64>,
}

impl Sizes {
    /// So many bytes, and room for so many.
    pub fn of(memory: u64, max_memory: Option<u64>) -> Result<Self, Failure> {
        match max_memory {
            Some(most) if most < memory => {
                let (most, memory) = (sizes::show(most), sizes::show(memory));
                Err(Failure::Refused(format!("--max-memory {most} is less than --memory {memory}: raise it")))
            }
            Some(most) if most > memory => Ok(Self { cxl_bytes: most, usable_bytes: Some(memory) }),
            _ => Ok(Self { cxl_bytes: memory, usable_bytes: None }),
        }
    }
}

impl Job {
    /// Gives the pod other memory; its sync memory as much more or less.
    pub fn resize(&mut self, to: Sizes) {
        let scaled = |bytes: u64| {
            (u128::from(bytes) * u128::from(to.cxl_bytes) / u128::from(self.cxl_bytes.max(1))) as u64
        };
        let hwcc_bytes = sync_bytes(scaled(self.hwcc_bytes));
        (self.hwcc_bytes, self.cxl_bytes, self.usable_bytes) = (hwcc_bytes, to.cxl_bytes, to.usable_bytes);
    }
}

/// Tuples that hosts can share, index entries among them, and half as many again.
fn tuples(shareable: &Shareable) -> u64 {
    (shareable.rows + shareable.entries) * 3 / 2
}

/// So much sync memory, in whole MiB, but neither less than a small pod needs nor more than the largest has a
/// use for: cells of rows lie in its first 2 GiB.
pub fn sync_bytes(wanted: u64) -> u64 {
    wanted.next_multiple_of(1 << 20).clamp(8 << 20, 4 << 30)
}

/// Data memory that holds every row that hosts can share, with room to spare.
pub fn default_cxl_bytes(hosts: u8, shareable: &Shareable) -> u64 {
    let lanes = u64::from(hosts) * u64::from(hosts) * (128 << 10);
    // An index entry takes some 100 bytes while its leaf is rewritten and the old one waits to be freed.
    let all = (64 << 20) + lanes + shareable.bytes * 3 / 2 + tuples(shareable) * 256;
    all.next_multiple_of(1 << 20)
}

/// Sync memory for all these rows on any engine, beside `cxl_bytes` of data memory.
pub fn default_hwcc_bytes(hosts: u8, shareable: &Shareable, cxl_bytes: u64) -> u64 {
    let pairs = u64::from(hosts) * u64::from(hosts) * 1024;
    // A word, as rows have that are all in shared memory or that more than 8 hosts share, and a leaf's share.
    let rows = tuples(shareable) * 9 * 3 / 2;
    // Every chunk of data memory, 256 KiB or 4096 lines, has a word, and one for each 512 words of its cells.
    let words = 1 + 4096u64.div_ceil(512 * cells_per_word(hosts));
    let all = (4 << 20) + pairs + rows + (cxl_bytes >> 18) * 8 * words;
    all.next_multiple_of(1 << 20)
}

#[cfg(test)]
mod tests {
    use clap::Subcommand;
    use liger_workload::declared::Hostile;

    use super::*;
    use crate::commands::bench::Workload;
    use crate::commands::sim::Simulation;

    fn has_one_name<B: Hostile + Into<Bench>>() {
        let bench: Bench = B::tiny(&mut |_| 0).benchmark.into();
        let (name, text) = (bench.name(), serde_json::to_string(&bench).expect("plain values"));
        assert!(text.starts_with(&format!("{{\"{name}\":")), "{text}");
        assert_eq!(serde_json::from_str::<Bench>(&text).expect("as written"), bench);
        assert!(Workload::has_subcommand(name) && Simulation::has_subcommand(name), "no command {name}");
    }

    macro_rules! each_workload {
        (own { $($own:ident $($own_at:ident)::+)* } offered { $($name:ident $($at:ident)::+)* }) => {
            $(has_one_name::<liger_workload::$($own_at)::+>();)*
            $(has_one_name::<liger_workload::$($at)::+>();)*
        };
    }

    #[test]
    fn a_workload_is_called_the_same_in_commands_orders_and_reports() {
        workloads!(each_workload);
    }
}
