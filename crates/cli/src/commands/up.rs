//! `liger up` and `liger recover`: a pod in a directory, and the process that supervises its hosts.

#![expect(clippy::disallowed_methods, reason = "a memory's name has the time in it")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum};
use liger_engine::recovery::salvage::Dead;
use liger_pod::plan::all_hosts;
use liger_sql::storage::classes::Family;
use liger_workload::benchmark::Benchmark;
use liger_workload::ledger::Book;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::benchmark::Tpcc;
use liger_workload::tpcc::generate::Homes;
use liger_workload::tpcc::input::{Mix, Remote};

use super::supervise::supervise;
use super::upkeep::Upkeep;
use crate::access::{Access, AccessArguments};
use crate::engines::EngineArguments;
use crate::failure::Failure;
use crate::interrupt::{Left, register};
use crate::job::{
    Backend, Bench, Durable, Holds, Isolation, Job, Rebalance, SQL_RING_BYTES, Sizes, Sql, default_cxl_bytes,
    default_hwcc_bytes, sync_bytes,
};
use crate::memory::{Outlived, check_room, hosts_of, usual_budget};
use crate::pod::{PodDir, PodFile, Running};
use crate::telling::Telling;
use crate::{leftovers, sizes, terminal};

/// Workers of a host with SQL, unless told.
const SQL_WORKERS: u8 = 4;
/// Partitions of a host with SQL: what a takeover spreads over the others.
const SQL_PARTITIONS: u16 = 4;
/// Less is not enough for what SQL itself changes.
const LEAST_TRANSACTION_BYTES: u64 = 16 << 20;

/// What a pod holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Tables {
    /// What clients of PostgreSQL put into it.
    Sql,
    /// Accounts, and transfers between them that clients ask for.
    Ledger,
    /// TPC-C's nine tables.
    Tpcc,
}

/// A new pod.
#[derive(Args)]
pub struct UpArguments {
    /// The pod's directory, which is made [default: liger-data, where the command is given]
    #[arg(conflicts_with = "data")]
    dir: Option<PathBuf>,
    /// The pod's directory, said by name
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Hosts, each a process, 1 to 16
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    hosts: u8,
    /// Hosts that the pod has room for, up to 16: `liger add` starts others than those of --hosts; for SQL
    /// [default: as many as --hosts]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=16))]
    max_hosts: Option<u8>,
    /// Workers of each host, 1 to 31, for SQL at least 2 [default: 4 for SQL, otherwise 1]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=31))]
    workers: Option<u8>,
    /// What the pod holds
    #[arg(long, value_enum, default_value = "sql")]
    tables: Tables,
    /// Where clients of SQL find host 0; host 1 is behind it, and so on
    #[arg(long, default_value_t = 5432)]
    port: u16,
    #[command(flatten)]
    ledger: LedgerSize,
    /// TPC-C's warehouses [default: one for each host]
    #[arg(long, value_parser = clap::value_parser!(i16).range(1..))]
    warehouses: Option<i16>,
    /// Divides TPC-C's customers, orders and items
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=1000))]
    scale_divisor: i32,
    /// At which level SQL's transactions are that ask for none [default: serializable]
    #[arg(long, value_enum)]
    isolation: Option<Isolation>,
    #[command(flatten)]
    access: AccessArguments,
    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    shape: PodShape,
    /// Leave a host alone that has failed, and the pod if all have: by default they are started again
    #[arg(long)]
    no_restart: bool,
}

/// How a pod of a directory is made.
#[derive(Args, Clone)]
pub struct PodShape {
    /// What stands between hosts and memory: the processor's caches, or a software cache for each host
    #[arg(long, value_enum, default_value = "native")]
    pub backend: Backend,
    /// Data memory that the pod uses, like 512M; `liger grow` gives it more [default: enough]
    #[arg(long, value_parser = sizes::parse)]
    pub memory: Option<u64>,
    /// Data memory that the pod has room for, like 4G: it may grow so far while it serves [default: as much
    /// as --memory]
    #[arg(long, value_parser = sizes::parse)]
    pub max_memory: Option<u64>,
    /// Memory of a host that the changes of one transaction may take until it commits, like 512M; 16M or
    /// more [default: its share of half of the machine's memory, at least 4G]
    #[arg(long, value_parser = sizes::parse)]
    pub transaction_memory: Option<u64>,
    /// Memory of a host that old versions of rows may take, like 1G, which transactions want that only read:
    /// beyond it the oldest go, and whoever wants them is told so (72000) [default: 256M]
    #[arg(long, value_parser = sizes::parse)]
    pub old_versions: Option<u64>,
    /// A host that sends no heartbeat for so long is dead, like 500ms. That is for hosts that hang: if a
    /// process ends, the others hear of it at once
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub lease: Duration,
    /// Whether a host that has less than its share of the partitions, because it was away or is new, gets
    /// more from the others by itself, or by `liger rebalance` alone
    #[arg(long, value_enum, default_value = "auto")]
    pub rebalance: Rebalance,
    /// When a transaction counts as committed; hosts always keep a log, so "none" is refused
    #[arg(long, value_enum, default_value = "pod")]
    pub durability: Durable,
    #[command(flatten)]
    upkeep: Upkeep,
    /// Whether rows in shared memory have checksums, by which flipped bits are noticed, on or off
    #[arg(long, default_value = "on", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub row_checksums: bool,
    /// Decides the database, the transactions, and what is killed when
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// How large a ledger is.
#[derive(Args, Clone)]
pub struct LedgerSize {
    /// The ledger's accounts in each partition
    #[arg(long, default_value_t = 10_000)]
    accounts: u32,
    /// The ledger's partitions [default: one for each worker of the pod]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    partitions: Option<u16>,
}

/// A pod that starts again.
#[derive(Args)]
pub struct RecoverArguments {
    /// The pod's directory
    dir: PathBuf,
    /// Leave a host alone that has failed, and the pod if all have: by default they are started again
    #[arg(long)]
    no_restart: bool,
    /// Give the shared memory up that has outlived the hosts, and with it what was acknowledged at durability
    /// "pod" and is in no log
    #[arg(long)]
    discard_memory: bool,
    /// The pod's hosts run no more, where that cannot be seen from here: they ran on other machines, or
    /// before this one was started again. If one does run, both are lost
    #[arg(long)]
    hosts_are_gone: bool,
    /// Data memory that the pod uses from now on, like 512M
    #[arg(long, value_parser = sizes::parse)]
    memory: Option<u64>,
    /// Data memory that it has room for: `liger grow` gives it more than --memory while it serves [default:
    /// as much as --memory; without that, what it had]
    #[arg(long, value_parser = sizes::parse, requires = "memory")]
    max_memory: Option<u64>,
    /// Hosts that the pod has room for from now on, more than before and up to 16, but not more than it has
    /// partitions; for SQL. Its memory grows by what they need, unless --memory says otherwise
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=16))]
    max_hosts: Option<u8>,
    /// At which level SQL's transactions are from now on that ask for none
    #[arg(long, value_enum)]
    isolation: Option<Isolation>,
}

/// Reads `500ms`, `2s` or `1.5s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || "write a time like 500ms or 2s, more than 0 and less than a day".to_owned();
    let (number, factor) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => return Err(bad()),
    };
    let seconds = number.trim().parse::<f64>().map_err(|_| bad())? * factor;
    Some(seconds).filter(|s| (0.001..86_400.0).contains(s)).map(Duration::from_secs_f64).ok_or_else(bad)
}

/// Accounts of a partition that remote transfers use, of so many.
pub fn hot_accounts(accounts: u32) -> u32 {
    (accounts / 10).clamp(1, 1000)
}

impl LedgerSize {
    /// The ledger of a pod.
    pub fn book(&self, hosts: u8, workers: u8, seed: u64) -> Result<Book, Failure> {
        let partitions = self.partitions.unwrap_or(u16::from(hosts) * u16::from(workers));
        let book = Book {
            partitions,
            accounts: self.accounts,
            hot: hot_accounts(self.accounts),
            remote_percent: 20,
            seed,
        };
        book.validate()
            .map_err(|error| Failure::Refused(format!("{error}: see --accounts and --partitions")))?;
        if partitions < hosts.into() {
            return Err(Failure::Refused(format!(
                "{partitions} partitions for {hosts} hosts: each needs one: raise --partitions or lower \
                 --hosts"
            )));
        }
        Ok(book)
    }
}

impl PodShape {
    /// A pod's directory, made; `contents` are what it is to hold.
    pub fn make(
        &self,
        path: &std::path::Path,
        (hosts, initial_hosts, workers): (u8, u8, u8),
        contents: Holds,
    ) -> Result<PodDir, Failure> {
        if self.durability == Durable::None {
            let message =
                "--durability none keeps no log, and takeover and recovery need one: use pod or storage";
            return Err(Failure::Refused(message.to_owned()));
        }
        if self.backend == Backend::Paced {
            let message = "--backend paced is for `liger bench tpcc`: its clocks end with the process that \
                           makes them, and this pod may outlive that: use native or shadow";
            return Err(Failure::Refused(message.to_owned()));
        }
        self.upkeep.check()?;
        if let Some(bytes) = self.transaction_memory.filter(|bytes| *bytes < LEAST_TRANSACTION_BYTES) {
            let (bytes, least) = (sizes::show(bytes), sizes::show(LEAST_TRANSACTION_BYTES));
            let message = format!("--transaction-memory is {bytes}, at least {least} are needed: raise it");
            return Err(Failure::Refused(message));
        }
        let bench = if let Holds::Tpcc(tpcc) = contents { Bench::Tpcc(tpcc) } else { Bench::default() };
        let memory = self.memory.unwrap_or_else(|| match &contents {
            Holds::Sql(_) => (512u64 << 20) + u64::from(hosts) * u64::from(workers) * SQL_RING_BYTES,
            Holds::Ledger(book) => (512u64 << 20) + (book.all_accounts() * 512).next_multiple_of(1 << 20),
            Holds::Tpcc(tpcc) => {
                default_cxl_bytes(hosts, &tpcc.shareable()) + ((u64::from(hosts) * u64::from(workers)) << 25)
            }
        });
        let Sizes { cxl_bytes, usable_bytes } = Sizes::of(memory, self.max_memory)?;
        let hwcc_bytes = match &contents {
            Holds::Ledger(_) | Holds::Sql(_) => sync_bytes(cxl_bytes / 8),
            Holds::Tpcc(tpcc) => default_hwcc_bytes(hosts, &tpcc.shareable(), cxl_bytes),
        };
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let job = Job {
            book: if let Holds::Ledger(book) = contents { Some(book) } else { None },
            sql: if let Holds::Sql(sql) = contents { Some(sql) } else { None },
            access: Access::default(),
            telling: Telling::default(),
            hosts,
            initial_hosts: all_hosts(initial_hosts),
            workers,
            backend: self.backend,
            pace: None,
            omit: None,
            bench,
            engine: EngineArguments::of_rows(self.row_checksums),
            seconds: 0.0,
            warm_up_s: 0.0,
            hwcc_bytes,
            cxl_bytes,
            usable_bytes,
            budget: (0, 0),
            sync: "hwcc".to_owned(),
            share_all: false,
            seed: self.seed,
            data: Some(self.upkeep.data(absolute.join("data"), false)),
            durability: self.durability,
            in_flight: 1,
            lease_ms: self.lease.as_millis() as u64,
            watched: true,
            transaction_bytes: self.transaction_memory,
            old_version_bytes: self.old_versions,
            rebalance: self.rebalance,
        };
        let job = Job { budget: usual_budget(&job)?, ..job };
        check_room(&job)?;
        let file = PodFile::new(new_memory(&absolute), self.lease.as_millis() as u64, job);
        PodDir::create(path, file)
    }
}

/// A name for the pod's memory: in memory, if there is a place for files in it.
pub fn new_memory(dir: &std::path::Path) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let shared = PathBuf::from(leftovers::SHARED);
    let folder = if shared.is_dir() { shared } else { dir.to_owned() };
    folder.join(format!("liger-{}-{}", std::process::id(), now.as_nanos())).display().to_string()
}

fn no_levels() -> Failure {
    let message = "--isolation is for pods with SQL: the transactions of the ledger and of TPC-C \
                   are serializable: leave it out";
    Failure::Refused(message.to_owned())
}

/// Makes a pod and supervises it.
pub fn up(arguments: &UpArguments) -> Result<ExitCode, Failure> {
    let UpArguments { hosts: initial_hosts, tables, .. } = *arguments;
    let hosts = arguments.max_hosts.unwrap_or(initial_hosts);
    if hosts < initial_hosts {
        let message = format!("--max-hosts {hosts} is less than --hosts {initial_hosts}: raise it");
        return Err(Failure::Refused(message));
    }
    let path = arguments.dir.as_ref().or(arguments.data.as_ref());
    let path = path.map_or(Path::new("liger-data"), PathBuf::as_path);
    let workers = arguments.workers.unwrap_or(if tables == Tables::Sql { SQL_WORKERS } else { 1 });
    let contents = match tables {
        Tables::Ledger | Tables::Tpcc if hosts > initial_hosts => {
            let message = "--max-hosts is for pods with SQL: those of the ledger and of TPC-C have all hosts \
                           from the start";
            return Err(Failure::Refused(message.to_owned()));
        }
        Tables::Sql if workers < 2 => {
            let message = "--workers 1 is too few for SQL: one serves the other hosts, so name 2 or more";
            return Err(Failure::Refused(message.to_owned()));
        }
        Tables::Sql if arguments.port.checked_add(hosts.into()).is_none() => {
            let port = arguments.port;
            return Err(Failure::Refused(format!("--port {port} leaves no ports for {hosts} hosts")));
        }
        Tables::Ledger | Tables::Tpcc if arguments.isolation.is_some() => return Err(no_levels()),
        Tables::Sql => {
            arguments.telling.check(arguments.port, hosts)?;
            let partitions = u16::from(hosts) * SQL_PARTITIONS;
            let isolation = arguments.isolation.unwrap_or_default();
            Holds::Sql(Sql { partitions, port: arguments.port, classes: Family::Fine, isolation })
        }
        Tables::Ledger => Holds::Ledger(arguments.ledger.book(hosts, workers, arguments.shape.seed)?),
        Tables::Tpcc => {
            let scale = Scale::reduced(arguments.warehouses.unwrap_or(hosts.into()), arguments.scale_divisor);
            scale.validate().map_err(|error| Failure::Refused(error.to_string()))?;
            let (mix, remote, homes) = (Mix::Spec, Remote::Spec, Homes::Own);
            Holds::Tpcc(Tpcc { scale, seed: arguments.shape.seed, mix, remote, homes })
        }
    };
    leftovers::tell(None);
    // What an interrupted start has made goes, if it has made all of it.
    let is_new = std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
    terminal::note_interrupts()?;
    let unfinished = is_new.then(|| register(Left::Folder(path.to_owned())));
    let access = arguments.access.access(path)?;
    let mut dir = arguments.shape.make(path, (hosts, initial_hosts, workers), contents)?;
    access.prepare()?;
    (dir.file.job.access, dir.file.job.telling) = (access, arguments.telling.clone());
    dir.save()?;
    let running = match Running::start(dir) {
        Err(failure @ Failure::Interrupted(_)) if unfinished.is_some() => {
            // As if it had never begun; what cannot be removed is named at the next try.
            let _ = std::fs::remove_dir_all(path);
            return Err(failure);
        }
        started => started?,
    };
    drop(unfinished);
    supervise(running, !arguments.no_restart)
}

/// For how many hosts the files of a pod have room, if for more than it is known to have: a start that was to
/// give it room has come so far. If not, such a start is forgotten.
fn is_wide(dir: &mut PodDir) -> Result<Option<u8>, Failure> {
    let Some(hosts) = dir.widens_to() else { return Ok(None) };
    if hosts_of(&dir.data(), dir.file.job.identity())? == hosts {
        return Ok(Some(hosts));
    }
    dir.forget_widen();
    Ok(None)
}

fn half_wide(dir: &PodDir, begun: u8) -> Failure {
    let path = dir.path().display();
    Failure::Refused(format!(
        "{path} gets room for {begun} hosts, and the start that was to give it that has not ended: say \
         `liger recover {path}` without --max-hosts, and again with it when the pod has started"
    ))
}

/// Starts a pod again and supervises it.
pub fn recover(arguments: &RecoverArguments) -> Result<ExitCode, Failure> {
    let mut dir = PodDir::open(&arguments.dir)?;
    if arguments.isolation.is_some() && dir.file.job.sql.is_none() {
        return Err(no_levels());
    }
    leftovers::tell(Some(&dir));
    terminal::note_interrupts()?;
    let sizes = arguments.memory.map(|memory| Sizes::of(memory, arguments.max_memory)).transpose()?;
    let widens = match (is_wide(&mut dir)?, arguments.max_hosts) {
        (Some(begun), Some(hosts)) if begun != hosts => return Err(half_wide(&dir, begun)),
        (Some(_), _) => true,
        (None, Some(hosts)) => dir.widen(hosts, sizes)?,
        (None, None) => false,
    };
    match sizes {
        Some(sizes) => dir.resize(sizes)?,
        None if widens => {}
        None => dir.forget_resize()?,
    }
    // Saved when it is known that nobody serves.
    if let (Some(isolation), Some(sql)) = (arguments.isolation, &mut dir.file.job.sql) {
        sql.isolation = isolation;
    }
    let dead = if arguments.hosts_are_gone { Dead::Vouched } else { Dead::Proven };
    let outlived = Outlived { discard: arguments.discard_memory, dead };
    let (running, recovered) = Running::recover(dir, outlived)?;
    eprintln!("read {:.1} MB of images and logs", recovered.bytes as f64 / 1e6);
    supervise(running, !arguments.no_restart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        for bad in ["", "5", "s", "-1s", "0s", "2d", "nans"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
