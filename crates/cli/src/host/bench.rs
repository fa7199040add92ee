//! A workload on one host, whichever engine runs it: filled, run, brought to rest, checked and read.
//!
//! Not here: what only one engine has (logs and recovery of the row engine).

#![expect(clippy::disallowed_methods, reason = "progress is told by a thread of its own")]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use liger_engine::db::WorkerGroup;
use liger_engine::protocol::HostEngine;
use liger_engine::{Session, TableId, TxnError};
use liger_fabric::native::HostMemory;
use liger_fabric::{Cx, Fabric, HostId, WorkerId};
use liger_pod::plan::PartitionId;
use liger_workload::benchmark::{Benchmark, Owned, WorkerInfo};
use liger_workload::driver::{Length, RunConfig, Watch, Workload, run_worker};
use liger_workload::{EngineFigures, WorkerStats};

use super::figures::Counted;
use crate::control::{Answer, Order};
use crate::job::{Bench, Job, on_bench};
use crate::orders::{tell, tell_with};

/// Bytes of rows handed over at once.
const DUMP_BYTES: usize = 256 << 10;
/// Rows between two rounds of serving other hosts while this one is being filled.
const ROWS_PER_ROUND: u64 = 256;
/// Rows between two reports of progress.
pub(super) const ROWS_PER_REPORT: u64 = 20_000;
/// Time between two reports of acknowledged transactions.
const REPORT_EVERY: Duration = Duration::from_millis(5);
/// The pod's counter that workers meet at before they run.
const START_COUNTER: u64 = 0;
/// Rounds in which a host waits for others to let go of what it has retired.
const QUIESCE_ROUNDS: u32 = 200_000;

/// What reports call the processor time of all workers in the measured time: workers never sleep, so where it
/// is less than that time, other programs have had their processors.
pub const PROCESSOR_NS: &str = "workers_processor_ns";

/// A host's engine and workers, and what is run on them.
pub(super) struct Benched<'a, E: HostEngine, M: HostMemory> {
    pub(super) group: &'a mut WorkerGroup<E, M>,
    pub(super) job: &'a Job,
}

impl<E: Counted, M: HostMemory> Benched<'_, E, M> {
    /// Carries out an order that every engine knows.
    pub(super) fn carry_out(&mut self, bench: &Bench, order: Order) -> Result<Answer, String> {
        match order {
            Order::Load => on_bench!(bench, it => self.load(it)),
            Order::Share => {
                let tables = on_bench!(bench, it => it.shared_tables());
                self.share(&tables)
            }
            Order::RunOne => {
                on_bench!(bench, it => self.run_one(it));
                Ok(Answer::Done)
            }
            Order::Run { seconds } => {
                let (stats, figures) = on_bench!(bench, it => self.run(it, seconds));
                Ok(Answer::Ran { stats: Box::new(stats), figures: Box::new(figures) })
            }
            Order::Quiesce => Ok(self.quiesce()),
            Order::Check => self.check(),
            Order::Dump { table } => self.dump(TableId(table)),
            other => Err(format!("this is not the time for {other:?}")),
        }
    }

    /// This host's partitions: those that it had in a new pod, whoever owns them by now.
    fn partitions(&self) -> Vec<u16> {
        let engine = self.group.engine();
        let is_ours = |p: &u16| p % u16::from(self.job.hosts) == u16::from(engine.id().0);
        (0..engine.partition_count()).filter(is_ours).collect()
    }

    /// Fills the partitions, each worker its share; replicated tables are the first one's.
    fn load<B: Benchmark>(&mut self, benchmark: &B) -> Result<Answer, String> {
        let (workers, partitions) = (self.job.workers, self.partitions());
        let (total, host) = (AtomicU64::new(0), self.group.shared_engine());
        let loaded = self.group.run(workers, |cx, _| {
            let (me, put) = (cx.worker().0, Cell::new(0u64));
            host.load(cx, |rows| {
                let mut emit = |table, row: &_| {
                    put.set(put.get() + 1);
                    if put.get().is_multiple_of(ROWS_PER_ROUND) {
                        host.attend(cx);
                    }
                    if put.get().is_multiple_of(ROWS_PER_REPORT) {
                        tell(&Answer::Progress { rows: ROWS_PER_REPORT });
                    }
                    rows(table, row)
                };
                if me == 0 {
                    benchmark.load_replicated(&mut emit)?;
                }
                let mine = partitions.iter().skip(me.into()).step_by(workers.into());
                mine.into_iter().try_for_each(|p| benchmark.load_partition(*p, &mut emit))
            })?;
            total.fetch_add(put.get(), Ordering::Relaxed);
            Ok::<(), TxnError>(())
        });
        for worker in loaded {
            worker.map_err(|panic| panic.to_string())?.map_err(|error| error.to_string())?;
        }
        Ok(Answer::Moved { rows: total.into_inner() })
    }

    /// Makes the host's rows of these tables ready for others.
    pub(super) fn share(&mut self, tables: &[TableId]) -> Result<Answer, String> {
        let host = self.group.shared_engine();
        let shared = self.group.alone(|cx, _| host.share(cx, tables, 1.0));
        shared.map(|rows| Answer::Moved { rows }).map_err(|error| error.to_string())
    }

    /// Runs the workload, all workers of the pod from one moment on.
    pub(super) fn run<B: Benchmark>(&mut self, benchmark: &B, seconds: f64) -> (WorkerStats, EngineFigures) {
        let (own, job, host) = (self.partitions(), self.job, self.group.shared_engine());
        let owned = {
            let (host, count) = (Arc::clone(&host), host.partition_count());
            Owned::new(move || (0..count).filter(|p| host.fills(PartitionId(*p))).collect())
        };
        let watch = job.watched.then(|| Arc::new(Watch::new(B::Worker::EFFECTS)));
        let _reporter = watch.clone().map(Reporter::start);
        let start = self.group.pod().plan().counter(START_COUNTER);
        let ran = self.group.run(job.workers, |cx, session| {
            let worker = benchmark.worker(place_of(job, (&own, Some(&owned)), cx.worker()));
            cx.fetch_add(start, 1);
            while cx.load(start) < job.all_workers() {
                host.attend(cx);
                cx.pause();
            }
            let counted = || host.counted();
            run_both((cx, session), job, &worker, (seconds, watch.clone()), counted)
        });
        // A panic has ended the process.
        let ran: Vec<_> = ran.into_iter().map(|worker| worker.expect("no worker panicked")).collect();
        let stats = WorkerStats::merged(ran.iter().map(|(stats, ..)| stats));
        // Counts of the whole host: as the first worker saw them.
        let mut figures = ran[0].1.clone();
        figures.more.insert(PROCESSOR_NS.to_owned(), ran.iter().map(|(.., processor_ns)| processor_ns).sum());
        (stats, figures)
    }

    /// One transaction on each worker.
    fn run_one<B: Benchmark>(&mut self, benchmark: &B) {
        let (own, job) = (self.partitions(), self.job);
        let length = Length::Transactions { warm_up: 0, measured: 1 };
        let ran = self.group.run(job.workers, |cx, session| {
            let worker = benchmark.worker(place_of(job, (&own, None), cx.worker()));
            run_worker(cx, session, &worker, &RunConfig { length, ..config_of(job, None) });
        });
        // A panic has ended the process.
        ran.into_iter().for_each(|worker| worker.expect("no worker panicked"));
    }

    /// Lets mail and reclamation come to rest.
    pub(super) fn quiesce(&mut self) -> Answer {
        let (host, memory) = (self.group.shared_engine(), self.group.memory().clone());
        self.group.alone(|cx, _| {
            let mut backlog = usize::MAX;
            for _ in 0..QUIESCE_ROUNDS {
                let handled = host.stand_in(cx);
                backlog = host.backlog(cx);
                if handled == 0 && backlog == 0 {
                    break;
                }
                cx.pause();
            }
            let mut figures = host.held(cx, host.id() == HostId(0));
            figures.more.extend(memory.tally().into_iter().map(|(name, n)| (name.to_owned(), n)));
            Answer::Quiesced { backlog: backlog as u64, figures: Box::new(figures) }
        })
    }

    /// Checks the engine's invariants.
    pub(super) fn check(&mut self) -> Result<Answer, String> {
        let host = self.group.shared_engine();
        let found = self.group.alone(|cx, _| host.problems(cx));
        let complaint = self.group.memory().complaint();
        let found = found.map(|problems| problems.into_iter().chain(complaint).collect());
        found.map(|problems| Answer::Checked { problems }).map_err(|error| format!("checking: {error}"))
    }

    /// Hands over all rows of a table.
    pub(super) fn dump(&mut self, table: TableId) -> Result<Answer, String> {
        let host = self.group.shared_engine();
        self.group.alone(|cx, _| {
            let mut rows = Vec::with_capacity(DUMP_BYTES + 4096);
            let hand_over = |rows: &mut Vec<u8>| {
                tell_with(&Answer::Rows { bytes: rows.len() }, rows);
                rows.clear();
            };
            let shown = host.each_row(cx, table, |_, row| {
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
fn place_of<'a>(
    job: &Job,
    (partitions, owned): (&'a [u16], Option<&'a Owned>),
    worker: WorkerId,
) -> WorkerInfo<'a> {
    WorkerInfo { partitions, owned, worker: worker.0.into(), workers: job.workers.into() }
}

/// How a worker runs first in the pod's present generation.
fn config_of(job: &Job, watch: Option<Arc<Watch>>) -> RunConfig {
    RunConfig {
        // Two runs a generation.
        run: job.data.as_ref().map_or(1, |data| 2 * data.generation as u16 - 1),
        length: Length::Transactions { warm_up: 0, measured: 0 },
        max_attempts: None,
        back_off_ns: None,
        durability: job.durability.into(),
        watch,
        in_flight: job.in_flight,
    }
}

/// Warms up, then measures: two runs of the driver, so that the host's counters can be read in between.
fn run_both<F: Fabric, S: Session, W: Workload>(
    (cx, session): (&Cx<F>, &mut S),
    job: &Job,
    worker: &W,
    (seconds, watch): (f64, Option<Arc<Watch>>),
    counted: impl Fn() -> EngineFigures,
) -> (WorkerStats, EngineFigures, u64) {
    let length = |seconds: f64| Length::Time { warm_up_ns: 0, measured_ns: (seconds * 1e9) as u64 };
    let config = config_of(job, watch);
    let first = RunConfig { length: length(job.warm_up_s), ..config.clone() };
    let warm_up = run_worker(cx, session, worker, &first);
    let (before, processor_ns) = (counted(), processor_ns());
    let second = RunConfig { run: config.run + 1, length: length(seconds), ..config };
    let mut stats = run_worker(cx, session, worker, &second);
    let (figures, processor_ns) = (counted().since(&before), self::processor_ns() - processor_ns);
    for (name, n) in warm_up.acknowledged {
        *stats.acknowledged.entry(name).or_default() += n;
    }
    stats.stopped.extend(warm_up.stopped);
    (stats, figures, processor_ns)
}

/// Processor time of this thread.
fn processor_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    1_000_000_000 * now.tv_sec as u64 + now.tv_nsec as u64
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
