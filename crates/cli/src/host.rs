//! One host of a benchmark, in a process of its own.
//!
//! A worker that panics takes the whole host with it, as a real host would go: its latches are never
//! released.

#![expect(
    clippy::disallowed_methods,
    reason = "orders are read, and progress is told, by threads of their own"
)]

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use liger_engine::TableId;
use liger_engine::db::{DataDirectory, DbError, Host, JoinOptions, Pod};
use liger_engine::recovery::checkpointer::{CheckpointCounts, Checkpointer, Taken};
use liger_engine::recovery::{Loaded, Plan};
use liger_engine::row::{Loader as RowLoader, Moves, RowHost, RowSession};
use liger_fabric::native::{HostMemory, MemorySpec, NativeHost};
use liger_fabric::shadow::ShadowHost;
use liger_fabric::{Fabric, HostId};
use liger_pod::selftest::Effort;
use liger_workload::storage::{CheckpointFigures, StorageFigures};
use liger_workload::tpcc::driver::{Length, RunConfig, Watch, run_worker};
use liger_workload::tpcc::load::Loader;
use liger_workload::tpcc::schema::{self, Tables, warehouse_key};
use liger_workload::{EngineFigures, WorkerStats};

use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::job::{Backend, Homes, Job};

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
/// A joining host waits so long for an answer; processes may share few processors.
const SELF_TEST: Effort = Effort { answer_ns: 30_000_000_000, ..Effort::USUAL };

/// Carries out orders until there are none.
pub fn run() -> Result<ExitCode, Failure> {
    let say_it = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say_it(panic);
        std::process::exit(PANIC_CODE);
    }));
    let orders = read_orders();
    let Ok(Order::Join { memory, host, job }) = orders.recv() else {
        return Err(Failure::Refused("this command is for `liger bench`".to_owned()));
    };
    let (host, backend, cache) = (HostId(host), job.backend, job.shadow_config());
    match backend {
        Backend::Native => {
            let joined = Serving::join(&memory, host, *job, |native| native, || may_enter(&orders));
            serve(orders, joined)
        }
        Backend::Shadow => {
            let over = |native| ShadowHost::over(native, cache);
            let joined = Serving::join(&memory, host, *job, over, || may_enter(&orders));
            serve(orders, joined)
        }
    }
}

/// Says that this host has read the pod's files, and waits until all have.
fn may_enter(orders: &Receiver<Order>) {
    tell(&Answer::Done);
    let next = orders.recv();
    assert_eq!(next, Ok(Order::Enter), "the second order of a recovery");
}

/// Carries out the orders that follow joining.
fn serve<M: HostMemory>(
    orders: Receiver<Order>,
    joined: Result<Serving<M>, DbError>,
) -> Result<ExitCode, Failure> {
    let mut carried = match joined {
        Ok(serving) => serving,
        Err(error) => return fail(&error.to_string(), true),
    };
    tell(&Answer::Done);
    for order in orders {
        if order == Order::Leave {
            carried.host.leave().map_err(|error| Failure::Broken(error.to_string()))?;
            tell(&Answer::Done);
            return Ok(ExitCode::SUCCESS);
        }
        match carried.carry_out(order) {
            Ok(answer) => tell(&answer),
            Err(message) => return fail(&message, false),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn fail(message: &str, refused: bool) -> Result<ExitCode, Failure> {
    tell(&Answer::Failed { message: message.to_owned(), refused });
    Ok(ExitCode::FAILURE)
}

/// Reads orders in a thread, so that the end of the input ends the host at once, whatever it is doing.
fn read_orders() -> Receiver<Order> {
    let (sender, orders) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let order = line.ok().and_then(|line| serde_json::from_str(&line).ok());
            let Some(order) = order else { break };
            let last = order == Order::Leave;
            if sender.send(order).is_err() || last {
                return;
            }
        }
        std::process::exit(1);
    });
    orders
}

static OUT: Mutex<()> = Mutex::new(());

fn tell(answer: &Answer) {
    tell_with(answer, &[]);
}

fn tell_with(answer: &Answer, bytes: &[u8]) {
    let _turn = OUT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut line = serde_json::to_vec(answer).expect("every key is a string");
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    // Nobody listens any more: the end of the input will end this process.
    let _ = out.write_all(&line).and_then(|()| out.write_all(bytes)).and_then(|()| out.flush());
}

/// A host that has joined.
struct Serving<M: HostMemory> {
    host: Host<M>,
    job: Job,
    tables: Tables,
    /// What is recovered, and from where.
    recovery: Option<(DataDirectory, Plan)>,
}

impl<M: HostMemory> Serving<M> {
    fn join(
        memory: &str,
        host: HostId,
        job: Job,
        over: impl FnOnce(NativeHost) -> M,
        enter: impl FnOnce(),
    ) -> Result<Self, DbError> {
        let spec: MemorySpec = memory.parse()?;
        let pod = Pod::open_as(&spec, &job.pod_config(), &schema::schemas())?;
        let tables = Tables::of(pod.catalog()).expect("the pod has TPC-C's tables");
        let mut options = JoinOptions::new(pod.plan());
        options.engine.budget = job.budget();
        options.self_test = SELF_TEST;
        options.seed = job.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut recovery = None;
        if let Some(data) = &job.data {
            let cx = pod.control();
            let directory = DataDirectory::open(&cx, &data.path, pod.identity(0))?;
            let plan = data.recover.then(|| directory.plan(&cx)).transpose()?;
            if data.recover {
                enter();
            }
            let mut storage = directory.hold(&cx, host, plan.as_ref())?;
            storage.set_replay_bytes(data.replay_limit);
            options.storage = Some(storage);
            recovery = plan.map(|plan| (directory, plan));
        }
        Ok(Self { host: pod.join_through(host, options, over)?, job, tables, recovery })
    }

    fn carry_out(&mut self, order: Order) -> Result<Answer, String> {
        match order {
            Order::Load => self.load(),
            Order::Share => {
                let tables = [self.tables.customer, self.tables.stock];
                let shared = self.host.alone(|session| session.host().share_all(session.cx(), &tables));
                shared.map(|rows| Answer::Moved { rows }).map_err(|error| error.to_string())
            }
            Order::Recover => self.recover(),
            Order::Checkpoint => {
                self.host.checkpoint().map(|()| Answer::Done).map_err(|error| error.to_string())
            }
            Order::Run => Ok(self.run()),
            Order::Settle => Ok(self.settle()),
            Order::Check => self.check(),
            Order::Dump { table } => self.dump(TableId(table)),
            Order::Join { .. } | Order::Enter | Order::Leave => unreachable!("the first and the last order"),
        }
    }

    /// This host's warehouses.
    fn warehouses(&self) -> Vec<i16> {
        let engine = self.host.engine();
        let relation = engine.catalog().relation(self.tables.warehouse).expect("a table of the pod");
        let is_ours = |w: &i16| {
            let partition = relation.partition_of(&warehouse_key(*w), engine.partition_count());
            engine.owner(partition) == engine.id()
        };
        (1..=self.job.scale.warehouses).filter(is_ours).collect()
    }

    /// Fills the warehouses, each worker its share; ITEM is the first one's.
    fn load(&mut self) -> Result<Answer, String> {
        let (workers, warehouses) = (self.job.workers, self.warehouses());
        let source = Loader::new(self.tables, self.job.scale, self.job.seed, LOAD_DATE_US);
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
                source.load_items(&mut emit, |_| ())?;
            }
            for w in warehouses.iter().skip(me.into()).step_by(workers.into()) {
                source.load_warehouse(*w, &mut emit, |_| ())?;
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

    fn recover(&mut self) -> Result<Answer, String> {
        let (data, plan) = self.recovery.take().expect("this host was to recover");
        let recovered = self.host.recover(&data, &plan, self.job.workers);
        let Loaded { bytes, log_bytes, rows, changes } = recovered.map_err(|error| error.to_string())?;
        Ok(Answer::Recovered { bytes, log_bytes, rows, changes })
    }

    fn run(&mut self) -> Answer {
        let own = self.warehouses();
        let (job, tables) = (self.job.clone(), self.tables);
        let watch = job.watched.then(Arc::<Watch>::default);
        let _reporter = watch.clone().map(Reporter::start);
        let start = self.host.pod().plan().counter(START_COUNTER);
        let before = self.host.checkpoints(Checkpointer::counts).unwrap_or_default();
        let ran = self.host.run(job.workers, |session| {
            let cx = session.cx();
            let homes = homes_of(&job, &own, cx.worker().0);
            cx.fetch_add(start, 1);
            while cx.load(start) < job.all_workers() {
                session.serve();
                cx.pause();
            }
            run_both(session, &job, &tables, homes, watch.clone())
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

/// Date of the initial rows: 2026-01-01.
const LOAD_DATE_US: i64 = 1_767_225_600_000_000;

fn homes_of(job: &Job, own: &[i16], worker: u8) -> Vec<i16> {
    match job.homes {
        Homes::AnyLocal => own.to_vec(),
        Homes::Own if own.len() < job.workers.into() => vec![own[usize::from(worker) % own.len()]],
        Homes::Own => own.iter().copied().skip(worker.into()).step_by(job.workers.into()).collect(),
    }
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
fn run_both<F: Fabric>(
    session: &mut RowSession<'_, F>,
    job: &Job,
    tables: &Tables,
    homes: Vec<i16>,
    watch: Option<Arc<Watch>>,
) -> (WorkerStats, EngineFigures) {
    let (cx, host) = (session.cx(), session.host());
    let length = |seconds: f64| Length::Time { warm_up_ns: 0, measured_ns: (seconds * 1e9) as u64 };
    // Two runs a generation.
    let first_run = job.data.as_ref().map_or(1, |data| 2 * data.generation as u16 - 1);
    let config = RunConfig {
        tables: *tables,
        scale: job.scale,
        database_seed: job.seed,
        run: first_run,
        mix: job.mix,
        remote: job.remote,
        homes,
        length: length(job.warm_up_s),
        max_attempts: None,
        durability: job.durability.into(),
        watch,
        in_flight: job.in_flight,
    };
    let warm_up = run_worker(cx, session, &config);
    let before = counted(host.moves());
    let mut stats =
        run_worker(cx, session, &RunConfig { run: first_run + 1, length: length(job.seconds), ..config });
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

/// What was written and removed since the counts were `before`.
fn storage_figures(all: &Checkpointer, before: &CheckpointCounts, log_bytes: u64) -> StorageFigures {
    let counts = all.counts();
    let since = all.recent().filter(|taken| taken.begin_epoch > before.last_begin_epoch);
    let taken =
        since.map(|Taken { bytes, took_ns, .. }| CheckpointFigures { bytes, seconds: took_ns as f64 / 1e9 });
    StorageFigures {
        replay_limit_bytes: all.options().replay_bytes,
        checkpoints: counts.checkpoints - before.checkpoints,
        checkpoints_given_up: counts.given_up - before.given_up,
        log_bytes,
        log_bytes_most: counts.log_bytes_most,
        log_bytes_removed: counts.bytes_removed - before.bytes_removed,
        log_segments_removed: counts.segments_removed - before.segments_removed,
        taken: taken.collect(),
        failures: all.failure().into_iter().map(ToString::to_string).collect(),
        ..StorageFigures::default()
    }
}

fn counted(moves: &Moves) -> [u64; 4] {
    [&moves.moved_in, &moves.moved_out, &moves.messages, &moves.messages_dropped]
        .map(|counter| counter.load(Ordering::Relaxed))
}

/// What the whole pod's heap holds.
fn add_usage<F: Fabric>(figures: &mut EngineFigures, host: &RowHost, session: &RowSession<'_, F>) {
    let usage = host.usage(session.cx());
    let sync = [
        ("tuple words", usage.tuple_bytes),
        ("index words", usage.mapping_bytes),
        ("claimed chunks", usage.word_chunk_bytes),
    ];
    let data = [
        ("rows", usage.row_bytes),
        ("index nodes", usage.node_bytes),
        ("index records", usage.scratch_bytes),
        ("claimed chunks", usage.block_chunk_bytes),
    ];
    figures.hwcc_bytes = sync.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    figures.cxl_bytes = data.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    figures.hwcc_tuple_bytes = usage.tuple_bytes + usage.mapping_bytes;
}
