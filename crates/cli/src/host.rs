//! One host, in a process of its own: of a benchmark, or of a pod directory.
//!
//! A worker that panics takes the whole host with it, as a real host would go: its latches are never
//! released.

#![expect(
    clippy::disallowed_methods,
    reason = "progress is told by a thread of its own, and a number that is taken is waited for"
)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use liger_engine::TableId;
use liger_engine::db::{DataDirectory, DbError, Host, JoinOptions, Pod};
use liger_engine::recovery::Plan;
use liger_engine::recovery::checkpointer::Checkpointer;
use liger_engine::row::policy::Patient;
use liger_engine::row::{Loader as RowLoader, RowSession};
use liger_fabric::native::{HostMemory, MemorySpec, NativeHost};
use liger_fabric::paced::PacedHost;
use liger_fabric::shadow::ShadowHost;
use liger_fabric::{Fabric, HostId, WorkerId};
use liger_pod::membership;
use liger_pod::selftest::Effort;
use liger_workload::benchmark::{Benchmark, Place};
use liger_workload::driver::{Length, RunConfig, Watch, Workload, run_worker};
use liger_workload::ledger;
use liger_workload::{EngineFigures, WorkerStats};

use crate::control::{Answer, Order};
use crate::desks::{Desks, show};
use crate::failure::Failure;
use crate::job::{Backend, Bench, Job, Sql, on_bench};
use crate::orders::{Orders, Shown, tell, tell_with};

mod figures;
mod log;
mod restart;
mod sql;

use figures::{add_usage, counted, storage_figures};
use restart::config_of;
use sql::SqlDesk;

/// A worker's panic ends the process with this code, as an uncaught panic of the main thread does.
const PANIC_CODE: i32 = 101;
/// Bytes of rows handed over at once.
const DUMP_BYTES: usize = 256 << 10;
/// Rows between two rounds of serving other hosts while this one is being filled.
const ROWS_PER_ROUND: u64 = 256;
/// Time between two reports of acknowledged transactions.
const REPORT_EVERY: Duration = Duration::from_millis(5);
/// Rows between two reports of progress.
const ROWS_PER_REPORT: u64 = 20_000;
/// The pod's counter that workers meet at before they run.
const START_COUNTER: u64 = 0;
/// Rounds in which a host waits for others to let go of what it has retired.
const SETTLE_ROUNDS: u32 = 200_000;
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
    let (host, backend, cache, pace) = (HostId(host), job.backend, job.shadow_config(), job.pace.clone());
    let enter = || may_enter(orders);
    match backend {
        Backend::Native => {
            let joined = Serving::join(&memory, (host, again), *job, |native| native, enter);
            serve(orders, clients, joined)
        }
        Backend::Shadow => {
            let over = |native| ShadowHost::over(native, cache.clone());
            let joined = Serving::join(&memory, (host, again), *job, over, enter);
            serve(orders, clients, joined)
        }
        Backend::Paced => {
            let (profile, clocks) = match pace.expect("checked when the job was made").open() {
                Ok(opened) => opened,
                Err(failure) => return fail(&failure.to_string(), true),
            };
            let over = |native| PacedHost::over(native, clocks, &profile);
            let joined = Serving::join(&memory, (host, again), *job, over, enter);
            serve(orders, clients, joined)
        }
    }
}

/// Waits until this host's earlier life is recovered. Its files are the heir's until then.
fn await_recovery(pod: &Pod, host: HostId) -> Result<(), DbError> {
    let (cx, started) = (pod.control(), Instant::now());
    loop {
        let slot = membership::Slot::load(&cx, pod.plan(), host)?;
        if slot.state == membership::HostState::Free || started.elapsed() >= TRY_FOR {
            return Ok(());
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
    carried.host.alone(|session| show(session.cx(), session.host(), &orders.shown));
    carried.show_log(&orders.shown);
    tell(&Answer::Done);
    let mut desks = None;
    loop {
        let order = match &desks {
            None => orders.next().ok(),
            Some(desks) => match orders.next_if_any() {
                Ok(None) => {
                    carried.serve_clients(desks, orders)?;
                    continue;
                }
                order => order.ok().flatten(),
            },
        };
        let Some(order) = order else { return Ok(ExitCode::SUCCESS) };
        if order == Order::Leave {
            carried.leave(&orders.shown)?;
            tell(&Answer::Done);
            return Ok(ExitCode::SUCCESS);
        }
        if order == Order::GiveUp {
            match carried.sync() {
                Ok(answer) => tell(&answer),
                Err(message) => return fail(&message, false),
            }
            // Nothing is given back: to the others it is dead, which they know how to deal with.
            std::process::exit(0);
        }
        let carried_out = match (order, clients) {
            (Order::Open, Some(path)) => carried.desks(path, &orders.shown).map(|opened| {
                desks = Some(opened);
                Answer::Done
            }),
            (order, _) => carried.carry_out(order),
        };
        if let Some(failure) = carried.host.failure() {
            return fail(&failure, false);
        }
        if carried.host.engine().is_overruled() {
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
    Ledger(Desks),
    Sql(SqlDesk),
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
            enter();
            recovery = Some((directory, plan));
        }
        if again {
            await_recovery(&pod, host)?;
        }
        let mut joined = pod.join_through(host, Self::options(&pod, host, &job)?, over)?;
        if let Some(data) = job.data.as_ref().filter(|_| again) {
            let directory = DataDirectory::open(&pod.control(), &data.path, pod.identity(0))?;
            joined.recover_replicas(&directory)?;
        }
        Ok(Self { host: joined, job, tables, recovery })
    }

    fn options(pod: &Pod, host: HostId, job: &Job) -> Result<JoinOptions, DbError> {
        let mut options = JoinOptions::new(pod.plan());
        options.engine.budget = job.budget();
        if job.sql.is_some() {
            options.engine.wait = &SQL_WAIT;
        }
        options.self_test = SELF_TEST;
        options.seed = job.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if let Some(data) = &job.data {
            let cx = pod.control();
            let directory = DataDirectory::open(&cx, &data.path, pod.identity(0))?;
            let mut storage = directory.hold(&cx, host)?;
            storage.set_replay_bytes(data.replay_limit);
            options.storage = Some(storage);
        }
        Ok(options)
    }

    /// Lets clients in.
    fn desks(&mut self, clients: &Path, shown: &Shown) -> Result<Clients, String> {
        match self.tables {
            Contents::Ledger(tables, _) => {
                Desks::open(clients, tables, self.job.durability.into(), self.job.workers)
                    .map(Clients::Ledger)
                    .map_err(|failure| failure.to_string())
            }
            Contents::Sql(sql) => SqlDesk::open(&mut self.host, &self.job, sql, shown).map(Clients::Sql),
            Contents::Bench(_) => Err("this pod's workload runs by itself".to_owned()),
        }
    }

    /// Works for clients until there is an order.
    fn serve_clients(&mut self, clients: &Clients, orders: &Orders) -> Result<(), Failure> {
        let shown = &orders.shown;
        let desks = match clients {
            Clients::Ledger(desks) => desks,
            Clients::Sql(desk) => {
                let served = desk.serve(&mut self.host, self.job.workers, shown);
                return served.map_err(Failure::Broken);
            }
        };
        let worked = self.host.run(self.job.workers, |session| {
            let worked = desks.work(session, shown).map_err(|error| error.to_string());
            if worked.is_err() {
                // The others of this host are as useless.
                shown.wanted.store(true, Ordering::Relaxed);
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
                Contents::Bench(ref bench) => on_bench!(bench.clone(), it => self.load(&it)),
                Contents::Ledger(tables, book) => self.load_ledger(tables, &book),
                Contents::Sql(_) => Ok(Answer::Moved { rows: 0 }),
            },
            Order::Share => {
                let tables = match &self.tables {
                    Contents::Bench(bench) => on_bench!(bench, it => it.shared_tables()),
                    Contents::Ledger(tables, _) => vec![tables.accounts],
                    Contents::Sql(_) => Vec::new(),
                };
                let shared = self.host.alone(|session| session.host().share_all(session.cx(), &tables));
                shared.map(|rows| Answer::Moved { rows }).map_err(|error| error.to_string())
            }
            Order::Recover => self.recover(),
            Order::RunOne => {
                on_bench!(self.tables.bench()?, it => self.run_one(&it));
                Ok(Answer::Done)
            }
            Order::AwaitRows => self.await_rows(),
            Order::Checkpoint => {
                self.host.checkpoint().map(|()| Answer::Done).map_err(|error| error.to_string())
            }
            Order::Run { seconds } => Ok(on_bench!(self.tables.bench()?, it => self.run(&it, seconds))),
            Order::Sync => self.sync(),
            Order::Settle => Ok(self.settle()),
            Order::Check => self.check(),
            Order::Dump { table } => self.dump(TableId(table)),
            Order::Join { .. }
            | Order::Enter
            | Order::Leave
            | Order::GiveUp
            | Order::Open
            | Order::Drain
            | Order::Point { .. }
            | Order::Status => Err(format!("this is not the time for {order:?}")),
        }
    }

    /// This host's partitions: those that it had in a new pod, whoever owns them by now.
    fn partitions(&self) -> Vec<u16> {
        let engine = self.host.engine();
        let is_ours = |p: &u16| p % u16::from(self.job.hosts) == u16::from(engine.id().0);
        (0..engine.partition_count()).filter(is_ours).collect()
    }

    /// Fills the partitions, each worker its share; replicated tables are the first one's.
    fn load<B: Benchmark>(&mut self, benchmark: &B) -> Result<Answer, String> {
        let (workers, partitions) = (self.job.workers, self.partitions());
        let total = AtomicU64::new(0);
        let loaded = self.host.run(workers, |session| {
            let (cx, host) = (session.cx(), session.host());
            let me = cx.worker().0;
            let mut rows = RowLoader::new(host);
            let mut put = 0u64;
            let mut emit = |table, row: &_| {
                put += 1;
                if put.is_multiple_of(ROWS_PER_ROUND) {
                    session.serve();
                }
                if put.is_multiple_of(ROWS_PER_REPORT) {
                    tell(&Answer::Progress { rows: ROWS_PER_REPORT });
                }
                rows.put(cx, table, row)
            };
            if me == 0 {
                benchmark.load_replicated(&mut emit)?;
            }
            for p in partitions.iter().skip(me.into()).step_by(workers.into()) {
                benchmark.load_partition(*p, &mut emit)?;
            }
            if me == 0 {
                rows.finish(cx);
            }
            total.fetch_add(put, Ordering::Relaxed);
            Ok::<(), liger_engine::TxnError>(())
        });
        for worker in loaded {
            worker.map_err(|panic| panic.to_string())?.map_err(|error| error.to_string())?;
        }
        Ok(Answer::Moved { rows: total.into_inner() })
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

    fn run<B: Benchmark>(&mut self, benchmark: &B, seconds: f64) -> Answer {
        let own = self.partitions();
        let job = self.job.clone();
        let watch = job.watched.then(|| Arc::new(Watch::new(B::Worker::EFFECTS)));
        let _reporter = watch.clone().map(Reporter::start);
        let start = self.host.pod().plan().counter(START_COUNTER);
        let before = self.host.checkpoints(Checkpointer::counts).unwrap_or_default();
        let ran = self.host.run(job.workers, |session| {
            let cx = session.cx();
            let worker = benchmark.worker(place_of(&job, &own, cx.worker()));
            cx.fetch_add(start, 1);
            while cx.load(start) < job.all_workers() {
                session.serve();
                cx.pause();
            }
            run_both(session, &job, &worker, (seconds, watch.clone()))
        });
        // A panic has ended the process.
        let ran: Vec<_> = ran.into_iter().map(|worker| worker.expect("no worker panicked")).collect();
        let stats = Box::new(WorkerStats::merged(ran.iter().map(|(stats, _)| stats)));
        // Counts of the whole host: as the first worker saw them.
        let mut figures = Box::new(ran[0].1.clone());
        if let Some(log) = self.host.engine().log() {
            let storage = |all: &_| storage_figures(all, &before, log.held_bytes());
            figures.storage = self.host.checkpoints(storage).ok();
        }
        Answer::Ran { stats, figures }
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

    fn settle(&mut self) -> Answer {
        let is_first = self.host.id() == HostId(0);
        let memory = self.host.memory().clone();
        self.host.alone(|session| {
            let (cx, host) = (session.cx(), session.host());
            let mut backlog = usize::MAX;
            for _ in 0..SETTLE_ROUNDS {
                let handled = session.serve();
                backlog = host.backlog(cx);
                if handled == 0 && backlog == 0 {
                    break;
                }
                cx.pause();
            }
            let mut figures = EngineFigures {
                shared_tuples: host.moves().shared_rows.load(Ordering::Relaxed),
                ..EngineFigures::default()
            };
            figures.more.extend(memory.tally().into_iter().map(|(name, n)| (name.to_owned(), n)));
            if is_first {
                add_usage(&mut figures, host, session);
            }
            Answer::Settled { backlog: backlog as u64, figures: Box::new(figures) }
        })
    }

    fn check(&mut self) -> Result<Answer, String> {
        let found = self.host.alone(|session| {
            let (cx, host) = (session.cx(), session.host());
            let mut problems = host.check(cx).problems;
            problems.extend(host.check_entries(cx)?);
            Ok::<_, liger_engine::TxnError>(problems)
        });
        let complaint = self.host.memory().complaint();
        let found = found.map(|problems| problems.into_iter().chain(complaint).collect());
        found.map(|problems| Answer::Checked { problems }).map_err(|error| format!("checking: {error}"))
    }

    fn dump(&mut self, table: TableId) -> Result<Answer, String> {
        self.host.alone(|session| {
            let mut rows = Vec::with_capacity(DUMP_BYTES + 4096);
            let hand_over = |rows: &mut Vec<u8>| {
                tell_with(&Answer::Rows { bytes: rows.len() }, rows);
                rows.clear();
            };
            let shown = session.host().for_each_row(session.cx(), table, |_, row| {
                rows.extend_from_slice(row.bytes());
                if rows.len() >= DUMP_BYTES {
                    hand_over(&mut rows);
                }
            });
            shown.map_err(|error| format!("reading table {table}: {error}"))?;
            hand_over(&mut rows);
            Ok(Answer::Done)
        })
    }
}

/// Which of its host's workers it is, and what the host has.
fn place_of<'a>(job: &Job, partitions: &'a [u16], worker: WorkerId) -> Place<'a> {
    Place { partitions, worker: worker.0.into(), workers: job.workers.into() }
}

/// Says every few milliseconds what was acknowledged, until it is dropped.
struct Reporter {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    fn start(watch: Arc<Watch>) -> Self {
        let done = Arc::<AtomicBool>::default();
        let stop = done.clone();
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(REPORT_EVERY);
                tell(&Answer::Acknowledged { counts: watch.counts() });
            }
        });
        Self { done, thread: Some(thread) }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        // It only counts and writes.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Warms up, then measures: two runs of the driver, so that the host's counters can be read in between.
fn run_both<F: Fabric, W: Workload>(
    session: &mut RowSession<'_, F>,
    job: &Job,
    worker: &W,
    (seconds, watch): (f64, Option<Arc<Watch>>),
) -> (WorkerStats, EngineFigures) {
    let (cx, host) = (session.cx(), session.host());
    let length = |seconds: f64| Length::Time { warm_up_ns: 0, measured_ns: (seconds * 1e9) as u64 };
    let config = config_of(job, watch);
    let first = RunConfig { length: length(job.warm_up_s), ..config.clone() };
    let warm_up = run_worker(cx, session, worker, &first);
    let before = counted(host.moves());
    let second = RunConfig { run: config.run + 1, length: length(seconds), ..config };
    let mut stats = run_worker(cx, session, worker, &second);
    let after = counted(host.moves());
    for (name, n) in warm_up.acknowledged {
        *stats.acknowledged.entry(name).or_default() += n;
    }
    stats.stopped.extend(warm_up.stopped);
    let mut figures = EngineFigures {
        moves_in: after[0] - before[0],
        moves_out: after[1] - before[1],
        ..EngineFigures::default()
    };
    figures.more.insert("messages".to_owned(), after[2] - before[2]);
    figures.more.insert("messages_dropped".to_owned(), after[3] - before[3]);
    (stats, figures)
}
