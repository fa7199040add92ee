//! One host, in a process of its own: of a benchmark, or of a pod directory.
//!
//! A worker that panics takes the whole host with it, as a real host would go: its latches are never
//! released.

#![expect(clippy::disallowed_methods, reason = "a number that is taken is waited for")]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use liger_engine::TableId;
use liger_engine::db::{DataDirectory, DbError, Host, JoinOptions, Pod};
use liger_engine::recovery::Plan;
use liger_engine::recovery::checkpointer::Checkpointer;
use liger_engine::row::RowHost;
use liger_engine::row::policy::Patient;
use liger_fabric::HostId;
use liger_fabric::native::{HostMemory, MemorySpec, NativeHost};
use liger_fabric::paced::PacedHost;
use liger_fabric::shadow::ShadowHost;
use liger_pod::PodError;
use liger_pod::membership;
use liger_pod::owner::Ownership;
use liger_pod::selftest::Effort;
use liger_server::log::Level;
use liger_workload::benchmark::Benchmark;
use liger_workload::ledger;

use crate::connections::Connections;
use crate::control::{Answer, Order};
use crate::engines::Engine;
use crate::failure::Failure;
use crate::job::{Backend, Bench, Job, Rebalance, Sql, on_bench};
use crate::orders::{Orders, Shown, tell};

pub mod bench;
mod diary;
mod figures;
mod log;
mod restart;
mod rivals;
mod sql;
mod waiting;

use bench::{Benched, ROWS_PER_REPORT};
use figures::storage_figures;
use sql::SqlService;

/// A worker's panic ends the process with this code, as an uncaught panic of the main thread does.
const PANIC_CODE: i32 = 101;
/// Statements wait so long for a row that another transaction holds: their clients have to do again what is
/// given up, and other transactions mostly end within two messages of theirs.
const SQL_WAIT: Patient = Patient { writers_ns: 1_000_000, readers_ns: 500_000, colleagues_ns: 200_000_000 };
/// A joining host waits so long for an answer; processes may share few processors.
const SELF_TEST: Effort = Effort { answer_ns: 30_000_000_000, ..Effort::USUAL };

/// A host whose number is still somebody else's tries again after this time, for so long.
const TRY_AGAIN: Duration = Duration::from_millis(5);
const TRY_FOR: Duration = Duration::from_secs(60);

/// Carries out orders until there are none; clients, once they are let in, come to the socket `clients`.
pub fn run(orders: &Orders, clients: Option<&Path>) -> Result<ExitCode, Failure> {
    let say_it = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say_it(panic);
        if !liger_sql::panics::is_caught() {
            std::process::exit(PANIC_CODE);
        }
    }));
    let Ok(Order::Join { memory, host, again, job }) = orders.next() else {
        return Err(Failure::Refused("this command is for `liger bench` and `liger up`".to_owned()));
    };
    let (cache, pace) = (job.shadow_config(), job.pace.clone());
    let joining = Joining { orders, clients, memory, host: HostId(host), again };
    waiting::tell_long_ones();
    match job.backend {
        Backend::Native => joining.serve(*job, |native| native),
        Backend::Shadow => joining.serve(*job, |native| ShadowHost::over(native, cache)),
        Backend::Paced => {
            let (profile, clocks) = match pace.expect("checked when the job was made").open() {
                Ok(opened) => opened,
                Err(failure) => return fail(&failure.to_string(), true),
            };
            joining.serve(*job, |native| PacedHost::over(native, clocks, &profile))
        }
    }
}

/// A host that is to join, and who it is to work for.
struct Joining<'a> {
    orders: &'a Orders,
    clients: Option<&'a Path>,
    memory: String,
    host: HostId,
    again: bool,
}

impl Joining<'_> {
    /// Joins through what `over` puts before the memory, and carries out orders.
    fn serve<M: HostMemory>(self, job: Job, over: impl FnOnce(NativeHost) -> M) -> Result<ExitCode, Failure> {
        let Self { orders, clients, memory, host, again } = self;
        match job.engine() {
            Engine::Row(_) => {
                let enter = || may_enter(orders);
                serve(orders, clients, Serving::join(&memory, (host, again), job, over, enter))
            }
            Engine::Rival(rival) => rivals::run(orders, (&memory, host), &job, rival, over),
        }
    }
}

/// Decides the random numbers of all workers.
fn seed_of(job: &Job) -> u64 {
    job.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Waits until this host's earlier incarnation is recovered. Its files are the successor's until then.
fn await_recovery(pod: &Pod, host: HostId) -> Result<(), DbError> {
    let (cx, started) = (pod.control(), Instant::now());
    // The others may first have to find out that it is dead.
    let try_for = TRY_FOR + 10 * Duration::from_nanos(pod.plan().config().lease_ns);
    loop {
        let slot = membership::Slot::load(&cx, pod.plan(), host)?;
        if slot.state == membership::HostState::Free {
            return Ok(());
        }
        if started.elapsed() >= try_for {
            let membership::Slot { state, incarnation, .. } = slot;
            return Err(PodError::HostNotRecovered { host, state, incarnation }.into());
        }
        std::thread::sleep(TRY_AGAIN);
    }
}

/// Says that this host has read the pod's files, and waits until all have.
fn may_enter(orders: &Orders) {
    tell(&Answer::Done);
    let next = orders.next();
    assert_eq!(next, Ok(Order::Enter), "the second order of a recovery");
}

/// Carries out the orders that follow joining.
fn serve<M: HostMemory>(
    orders: &Orders,
    clients: Option<&Path>,
    joined: Result<Serving<M>, DbError>,
) -> Result<ExitCode, Failure> {
    let mut carried = match joined {
        Ok(serving) => serving,
        Err(error) => return fail(&error.to_string(), true),
    };
    waiting::over();
    carried.show_log(&orders.shown);
    // A host joins once.
    let _ = orders.shown.wake.set(Box::new(carried.host.waker()));
    tell(&Answer::Done);
    let mut connections = None;
    loop {
        let order = match &connections {
            None => orders.next().ok(),
            Some(connections) => match orders.next_if_any() {
                Ok(None) => {
                    carried.serve_clients(connections, orders)?;
                    continue;
                }
                order => order.ok().flatten(),
            },
        };
        let Some(order) = order else { return Ok(ExitCode::SUCCESS) };
        if order == Order::Leave {
            let telling = carried.job.telling.clone();
            carried.leave(&orders.shown)?;
            diary::note(&telling, Level::Info, "host_left", &[]);
            tell(&Answer::Done);
            return Ok(ExitCode::SUCCESS);
        }
        if order == Order::GiveUp {
            match carried.sync() {
                Ok(answer) => tell(&answer),
                Err(message) => return fail(&message, false),
            }
            diary::note(&carried.job.telling, Level::Info, "host_gives_up", &[]);
            // Nothing is given back: to the others it is dead, which they know how to deal with.
            std::process::exit(0);
        }
        let carried_out = match (order, clients) {
            (Order::Open, Some(path)) => carried.connections(path, &orders.shown).map(|opened| {
                connections = Some(opened);
                Answer::Done
            }),
            (order, _) => carried.carry_out(order),
        };
        if let Some(failure) = carried.host.failure() {
            return fail(&failure, false);
        }
        if carried.host.engine().is_fenced() {
            return fail("the pod has declared this host dead", false);
        }
        match carried_out {
            Ok(answer) => tell(&answer),
            Err(message) => return fail(&message, false),
        }
    }
}

fn fail(message: &str, refused: bool) -> Result<ExitCode, Failure> {
    tell(&Answer::Failed { message: message.to_owned(), refused });
    Ok(ExitCode::FAILURE)
}

/// Who serves clients.
enum Clients {
    Ledger(Connections),
    Sql(SqlService),
}

/// What the pod holds.
enum Contents {
    Sql(Sql),
    Bench(Bench),
    Ledger(ledger::schema::Tables, ledger::Book),
}

impl Contents {
    fn bench(&self) -> Result<Bench, String> {
        match self {
            Self::Bench(bench) => Ok(bench.clone()),
            Self::Ledger(..) | Self::Sql(_) => {
                Err("this order is for a workload, and the pod holds none".to_owned())
            }
        }
    }
}

/// A host that has joined.
struct Serving<M: HostMemory> {
    host: Host<M>,
    job: Job,
    tables: Contents,
    /// What is recovered, and from where.
    recovery: Option<(DataDirectory, Plan)>,
    /// Whose the partitions were when it came to rest; none if it has not, or one was on its way.
    at_rest: Option<Vec<Option<Ownership>>>,
}

impl<M: HostMemory> Serving<M> {
    fn join(
        memory: &str,
        (host, again): (HostId, bool),
        job: Job,
        over: impl FnOnce(NativeHost) -> M,
        enter: impl FnOnce(),
    ) -> Result<Self, DbError> {
        let spec: MemorySpec = memory.parse()?;
        let pod = Pod::open_as(&spec, &job.pod_config(), &job.schemas())?;
        let tables = match (job.book, job.sql) {
            (None, Some(sql)) => Some(Contents::Sql(sql)),
            (Some(book), _) => ledger::schema::Tables::of(pod.catalog()).map(|t| Contents::Ledger(t, book)),
            (None, None) => Some(Contents::Bench(job.bench.clone())),
        };
        let tables = tables.expect("the pod has the workload's tables");
        let mut recovery = None;
        if let Some(data) = job.data.as_ref().filter(|data| data.recover && !again) {
            let cx = pod.control();
            let directory = DataDirectory::open(&cx, &data.path, pod.identity(0))?;
            let plan = directory.plan_of_begun(&cx)?;
            waiting::over();
            enter();
            recovery = Some((directory, plan));
        }
        if again {
            waiting::now("the other hosts to take over what its last incarnation has left");
            await_recovery(&pod, host)?;
        }
        let mut joined = pod.join_through(host, Self::options(&pod, host, &job)?, over)?;
        diary::note(&job.telling, Level::Info, "host_started", &[("host", &host.0)]);
        if let Some(data) = job.data.as_ref().filter(|_| again) {
            let directory = DataDirectory::open(&pod.control(), &data.path, pod.identity(0))?;
            joined.recover_replicas(&directory)?;
        }
        if job.rebalance == Rebalance::Auto {
            // Once its rows are there, or it is known what they are made from.
            joined.partition_moves().ask_for_share(true);
        }
        Ok(Self { host: joined, job, tables, recovery, at_rest: None })
    }

    fn options(pod: &Pod, host: HostId, job: &Job) -> Result<JoinOptions, DbError> {
        let mut options = JoinOptions::new(pod.plan());
        options.engine.budget = job.budget();
        if let Engine::Row(policies) = job.engine() {
            options.engine.policies = policies;
        }
        if job.sql.is_some() {
            options.engine.wait = &SQL_WAIT;
        }
        let least = options.engine.transaction_bytes;
        let usual = || usual_transaction_bytes(machine_bytes(), job.hosts).max(least);
        options.engine.transaction_bytes = job.transaction_bytes.unwrap_or_else(usual);
        options.engine.keep.dram_bytes = job.old_version_bytes.unwrap_or(options.engine.keep.dram_bytes);
        options.engine.hearer = Some(diary::hearer(&job.telling));
        options.self_test = SELF_TEST;
        options.waits_for = waiting::now;
        options.seed = seed_of(job);
        if let Some(data) = &job.data {
            let cx = pod.control();
            let directory = DataDirectory::open(&cx, &data.path, pod.identity(0))?;
            let mut storage = directory.hold(&cx, host)?;
            storage.set_replay_bytes(data.replay_limit);
            storage.set_restore_percent(data.restore_percent);
            options.storage = Some(storage);
        }
        Ok(options)
    }

    /// Lets clients in.
    fn connections(&mut self, clients: &Path, shown: &Shown) -> Result<Clients, String> {
        match self.tables {
            Contents::Ledger(tables, _) => {
                let (durability, workers) = (self.job.durability.into(), self.job.workers);
                Connections::open(clients, tables, durability, workers, self.host.waker())
                    .map(Clients::Ledger)
                    .map_err(|failure| failure.to_string())
            }
            Contents::Sql(sql) => {
                waiting::now("the catalog, of which other hosts have a part");
                let opened = SqlService::open(&mut self.host, &self.job, sql, shown).map(Clients::Sql);
                waiting::over();
                opened
            }
            Contents::Bench(_) => Err("this pod's workload runs by itself".to_owned()),
        }
    }

    /// Works for clients until there is an order.
    fn serve_clients(&mut self, clients: &Clients, orders: &Orders) -> Result<(), Failure> {
        let shown = &orders.shown;
        let connections = match clients {
            Clients::Ledger(connections) => connections,
            Clients::Sql(service) => {
                let served = service.serve(&mut self.host, self.job.workers, shown);
                return served.map_err(Failure::Broken);
            }
        };
        let worked = self.host.run(self.job.workers, |session| {
            let worked = connections.work(session, shown).map_err(|error| error.to_string());
            if worked.is_err() {
                // The others of this host are as useless.
                shown.want();
            }
            worked
        });
        // A panic has ended the process.
        let mut worked = worked.into_iter().map(|worker| worker.expect("no worker panicked"));
        worked.try_for_each(|ended| ended.map_err(Failure::Broken))
    }

    fn carry_out(&mut self, order: Order) -> Result<Answer, String> {
        match order {
            Order::Load => match self.tables {
                Contents::Bench(ref bench) => {
                    let bench = bench.clone();
                    self.benched().carry_out(&bench, Order::Load)
                }
                Contents::Ledger(tables, book) => self.load_ledger(tables, &book),
                Contents::Sql(_) => Ok(Answer::Moved { rows: 0 }),
            },
            Order::Share => {
                let tables = match &self.tables {
                    Contents::Bench(bench) => on_bench!(bench, it => it.shared_tables()),
                    Contents::Ledger(tables, _) => vec![tables.accounts],
                    Contents::Sql(_) => Vec::new(),
                };
                self.benched().share(&tables)
            }
            Order::Recover => self.recover(),
            Order::RunOne => {
                let bench = self.tables.bench()?;
                self.benched().carry_out(&bench, Order::RunOne)
            }
            Order::AwaitRows => self.await_rows(),
            Order::Checkpoint => {
                self.host.checkpoint().map(|()| Answer::Done).map_err(|error| error.to_string())
            }
            Order::Run { seconds } => {
                let bench = self.tables.bench()?;
                Ok(self.run_bench(&bench, seconds))
            }
            Order::Sync => self.sync(),
            Order::Quiesce => {
                self.await_moves();
                let answer = self.benched().quiesce();
                self.at_rest = self.settled_owners();
                Ok(answer)
            }
            Order::Check => self.while_settled(|serving| serving.benched().check()),
            Order::Dump { table } => self.dump(TableId(table)),
            Order::GoOn => {
                self.host.partition_moves().ask_for_share(self.job.rebalance == Rebalance::Auto);
                Ok(Answer::Done)
            }
            Order::Join { .. }
            | Order::Enter
            | Order::Leave
            | Order::GiveUp
            | Order::Open
            | Order::Drain
            | Order::Move { .. }
            | Order::AskForNone
            | Order::Point { .. }
            | Order::Status => Err(format!("this is not the time for {order:?}")),
        }
    }

    /// Fills the accounts of the host's partitions.
    fn load_ledger(&mut self, tables: ledger::schema::Tables, book: &ledger::Book) -> Result<Answer, String> {
        let loaded = self.host.load(|rows| {
            let mut put = 0u64;
            ledger::schema::load(book, |row| {
                put += 1;
                if put.is_multiple_of(ROWS_PER_REPORT) {
                    tell(&Answer::Progress { rows: ROWS_PER_REPORT });
                }
                rows.put(tables.accounts, row)
            })
        });
        loaded.map(|rows| Answer::Moved { rows }).map_err(|error| error.to_string())
    }

    /// Runs the workload, and says what was written to storage meanwhile.
    fn run_bench(&mut self, bench: &Bench, seconds: f64) -> Answer {
        let before = self.host.checkpoints(Checkpointer::counts).unwrap_or_default();
        let (stats, mut figures) = on_bench!(bench, it => self.benched().run(it, seconds));
        if let Some(log) = self.host.engine().log() {
            let storage = |all: &_| storage_figures(all, &before, log.held_bytes());
            figures.storage = self.host.checkpoints(storage).ok();
        }
        Answer::Ran { stats: Box::new(stats), figures: Box::new(figures) }
    }

    fn benched(&mut self) -> Benched<'_, RowHost, M> {
        Benched { group: self.host.group(), job: &self.job }
    }

    fn sync(&mut self) -> Result<Answer, String> {
        let plan = self.host.pod().plan().clone();
        self.host.alone(|session| {
            let (cx, host) = (session.cx(), session.host());
            let Some(log) = host.log() else { return Ok(Answer::Done) };
            let serve = |cx: &_| {
                host.attend(cx);
                membership::members(cx, &plan)
            };
            let synced = log.wait_durable(cx, log.clock().now(cx), serve);
            synced.map(|()| Answer::Done).map_err(|failure| failure.to_string())
        })
    }
}

/// What the changes of a transaction may take if nobody says: the hosts of a pod share half of a machine.
fn usual_transaction_bytes(machine_bytes: u64, hosts: u8) -> u64 {
    machine_bytes / 2 / u64::from(hosts)
}

/// The memory of this machine, or what its control group leaves this process of it.
fn machine_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    let machine = machine.totalram * u64::from(machine.mem_unit);
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max");
    let group = group.ok().and_then(|most| most.trim().parse::<u64>().ok());
    group.map_or(machine, |most| most.min(machine))
}
