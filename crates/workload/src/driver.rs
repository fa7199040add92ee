//! One worker's loop: take an input, run it until it commits, count. The same for every workload.
//!
//! 1. A closed loop without think times: the next transaction starts when the last one has ended. A worker
//!    may stand for several clients: while some transactions wait to become durable, it runs the next ones.
//!    Latency runs from the first attempt to the acknowledged commit, back-off and retries included; beside
//!    it to the commit itself.
//! 2. Under [`Length::Time`] a transaction counts as measured when it commits or is rolled back within the
//!    measured time, or is given up at its end; its acknowledgement may come later. Under
//!    [`Length::Transactions`] the same seed runs the same inputs, which is what a simulator replays.
//! 3. A transaction that meets a conflict is tried again with the same input until it commits, the attempts
//!    allowed are used up, or the time is over; it is never replaced by an easier one.
//! 4. An error that is neither a conflict nor the rollback that the input asked for ends the worker; the
//!    statistics say which error it was.
//!
//! Verbs that the engine performs on behalf of other hosts during a transaction (serving their requests) are
//! counted with that transaction. A worker that has ended may still have to serve others: that is the
//! caller's business.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use liger_engine::Durability;
use liger_engine::{Conflict, Session, Ticket, Transaction, TxnError};
use liger_fabric::{Counts, Cx, Fabric, HostId, WorkerId};
use serde::{Deserialize, Serialize};

use crate::charge::Charged;
use crate::histogram::Histogram;
use crate::random::Rng;
use crate::stats::{KindStats, WorkerStats};

/// A workload as one of its workers runs it: its parameters, with the worker's share of the database.
pub trait Workload {
    /// One worker's stream of inputs, with the buffers that its transactions use.
    type Source;
    /// What a transaction is asked to do.
    type Input;

    /// The types of its transactions, by [`Self::kind`].
    const KINDS: &'static [&'static str];
    /// What its transactions do to the database, by their place in [`Effects`].
    const EFFECTS: &'static [&'static str];

    /// Whether transactions of this type are run at all.
    fn has(&self, kind: usize) -> bool {
        let _ = kind;
        true
    }

    /// Bytes of content that a transaction makes up for each row that it changes: work of the application
    /// that is charged in simulated time.
    fn content_bytes(&self) -> u32 {
        0
    }

    /// The inputs of one worker in one run.
    fn source(&self, worker: RunWorker, rng: Rng) -> Self::Source;

    /// The next input; `now_us` is the time, for workloads that store dates.
    fn draw(&self, source: &mut Self::Source, now_us: i64) -> Self::Input;

    /// The transaction's type, a place in [`Self::KINDS`].
    fn kind(&self, input: &Self::Input) -> usize;

    /// Runs one input once, within a transaction.
    ///
    /// # Errors
    /// [`TxnError::Rollback`] if the input asks for that; whatever the engine says otherwise.
    fn run<T: Transaction>(
        &self,
        source: &mut Self::Source,
        txn: &mut T,
        input: &Self::Input,
    ) -> Result<Effects, TxnError>;
}

/// Which worker it is, in which run against its database: keeps keys apart that are made up by workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunWorker {
    /// Number of the run, 1 to 1023.
    pub run: u16,
    /// The worker's host.
    pub host: HostId,
    /// Its number there.
    pub worker: WorkerId,
}

/// Effects that a workload can tell apart.
pub const MAX_EFFECTS: usize = 6;

/// What a transaction that committed has done to the database, as the consistency check counts it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Effects([u64; MAX_EFFECTS]);

impl Effects {
    /// None.
    pub const NONE: Self = Self([0; MAX_EFFECTS]);

    /// With `n` of the effect at this place.
    #[must_use]
    pub const fn with(mut self, place: usize, n: u64) -> Self {
        self.0[place] += n;
        self
    }

    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, n)| *sum += n);
    }

    fn by_name(&self, names: &[&str]) -> BTreeMap<String, u64> {
        names.iter().zip(self.0).map(|(name, n)| ((*name).to_owned(), n)).collect()
    }
}

/// How long a worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// For a time by the context's clock, nanoseconds.
    Time {
        /// Not counted.
        warm_up_ns: u64,
        /// Counted.
        measured_ns: u64,
    },
    /// For a number of transactions of this worker.
    Transactions {
        /// Not counted.
        warm_up: u64,
        /// Counted.
        measured: u64,
    },
}

impl Length {
    /// Whether the time, if it is one, is over at `now_ns` for who began at `started_ns`.
    fn is_over(self, started_ns: u64, now_ns: u64) -> bool {
        match self {
            Length::Time { warm_up_ns, measured_ns } => now_ns >= started_ns + warm_up_ns + measured_ns,
            Length::Transactions { .. } => false,
        }
    }
}

/// How a worker runs, whatever the workload. All workers of a run have the same.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Which run against this database it is, 1 to 1023.
    pub run: u16,
    /// How long.
    pub length: Length,
    /// Attempts after which a transaction is given up; `None`: only the end of the time ends it.
    pub max_attempts: Option<u32>,
    /// After a conflict a worker waits for a random time up to this, nanoseconds, as in Tigon's artifact
    /// (100 us); `None`: as long as the engine thinks right.
    pub back_off_ns: Option<u64>,
    /// When a transaction counts as committed.
    pub durability: Durability,
    /// Where acknowledged transactions are counted as they come, for somebody who watches.
    pub watch: Option<Arc<Watch>>,
    /// Transactions of this worker that may wait for that at once, at least 1: so many clients it stands for;
    /// `usize::MAX`: as many as there are.
    pub in_flight: usize,
}

impl RunConfig {
    /// The first run against a database, one client a worker, nothing durable.
    pub fn new(length: Length) -> Self {
        let durability = Durability::None;
        Self { run: 1, length, max_attempts: None, back_off_ns: None, durability, watch: None, in_flight: 1 }
    }

    /// The parameters by name, for a report. The number of workers is the caller's.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let back_off = self.back_off_ns.map_or("engine".to_owned(), |ns| format!("up to {ns} ns"));
        let in_flight = match self.in_flight {
            usize::MAX => "unbounded".to_owned(),
            most => most.to_string(),
        };
        let settings = [
            ("durability", self.durability.name().to_owned()),
            ("in_flight", in_flight),
            ("back_off", back_off),
        ];
        settings.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// Acknowledged transactions so far, of all workers that count here.
#[derive(Debug)]
pub struct Watch {
    names: &'static [&'static str],
    effects: [AtomicU64; MAX_EFFECTS],
}

impl Watch {
    /// Counts from zero for a workload with these effects.
    pub fn new(names: &'static [&'static str]) -> Self {
        Self { names, effects: Default::default() }
    }

    /// The counts by the names of [`WorkerStats::acknowledged`].
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let counts = self.effects.iter().map(|count| count.load(Ordering::Relaxed));
        self.names.iter().zip(counts).map(|(name, n)| ((*name).to_owned(), n)).collect()
    }

    fn add(&self, effects: &Effects) {
        for (sum, n) in self.effects.iter().zip(effects.0) {
            if n > 0 {
                sum.fetch_add(n, Ordering::Relaxed);
            }
        }
    }
}

/// How the work on one input ended.
enum Ended {
    Committed(Effects),
    RolledBack,
    GivenUp,
    Stopped(TxnError),
}

/// A committed transaction that has not been acknowledged.
struct Pending {
    ticket: Ticket,
    kind: usize,
    from_ns: u64,
    committed_ns: u64,
    effects: Effects,
    /// It committed in the measured time.
    measured: bool,
}

/// What was counted for one transaction type.
#[derive(Clone, Default)]
struct Tally {
    committed: u64,
    rolled_back: u64,
    retries: u64,
    given_up: u64,
    latency_ns: Histogram,
    commit_ns: Histogram,
    verbs: Counts,
}

/// Aborted attempts by [`Conflict::index`].
type Conflicts = [u64; Conflict::ALL.len()];

/// One worker's run.
struct Worker<'a, F: Fabric, S, W: Workload> {
    cx: &'a Cx<F>,
    session: &'a mut S,
    workload: &'a W,
    config: &'a RunConfig,
    source: W::Source,
    /// By [`Workload::KINDS`].
    tallies: Vec<Tally>,
    conflicts: Conflicts,
    /// Committed, and not durable yet; oldest first.
    pending: VecDeque<Pending>,
    acknowledged: Effects,
    /// When the worker began, and when its measured time began.
    started_ns: u64,
    measured_from_ns: Option<u64>,
}

/// Runs transactions as `config` says and returns what was measured.
///
/// # Panics
/// When nothing may be in flight, or the run number is out of range.
pub fn run_worker<F: Fabric, S: Session, W: Workload>(
    cx: &Cx<F>,
    session: &mut S,
    workload: &W,
    config: &RunConfig,
) -> WorkerStats {
    assert!(config.in_flight > 0, "nothing may be in flight");
    assert!((1..1024).contains(&config.run), "run {} is not 1 to 1023", config.run);
    let who = RunWorker { run: config.run, host: cx.host(), worker: cx.worker() };
    let source = workload.source(who, Rng::new(cx.random()));
    let started_ns = cx.now_ns();
    let mut worker = Worker {
        cx,
        session,
        workload,
        config,
        source,
        tallies: vec![Tally::default(); W::KINDS.len()],
        conflicts: Conflicts::default(),
        pending: VecDeque::new(),
        acknowledged: Effects::NONE,
        started_ns,
        measured_from_ns: None,
    };
    let mut stopped = None;
    let mut ran = 0;
    while stopped.is_none() && !worker.is_over(ran) {
        let input = workload.draw(&mut worker.source, (cx.now_ns() / 1000) as i64);
        stopped = worker.run_one(&input);
        ran += 1;
    }
    let settled = worker.acknowledge(0);
    worker.finish(stopped.or(settled.err()))
}

impl<F: Fabric, S: Session, W: Workload> Worker<'_, F, S, W> {
    /// Whether the run is over, before its transaction number `ran` (from 0); starts the measured time when
    /// it is due.
    fn is_over(&mut self, ran: u64) -> bool {
        let now_ns = self.cx.now_ns();
        let (due, over) = match self.config.length {
            Length::Time { warm_up_ns, .. } => {
                (now_ns >= self.started_ns + warm_up_ns, self.out_of_time(now_ns))
            }
            Length::Transactions { warm_up, measured } => (ran >= warm_up, ran >= warm_up + measured),
        };
        if due && self.measured_from_ns.is_none() {
            self.measured_from_ns = Some(now_ns);
        }
        over
    }

    /// Whether the time, if there is a limit, is over at `now_ns`.
    fn out_of_time(&self, now_ns: u64) -> bool {
        self.config.length.is_over(self.started_ns, now_ns)
    }

    /// Runs one input to its end; an error that ends the worker comes back.
    fn run_one(&mut self, input: &W::Input) -> Option<TxnError> {
        let (from_ns, verbs_before) = (self.cx.now_ns(), self.cx.counts());
        let kind = self.workload.kind(input);
        let mut met = Conflicts::default();
        let ended = self.attempts(input, &mut met);
        let now_ns = self.cx.now_ns();
        // What the end of the time cuts off counts too: nobody would see a transaction that cannot make
        // progress.
        let in_time = !self.out_of_time(now_ns) || matches!(ended, Ended::GivenUp);
        let measured = self.measured_from_ns.is_some() && in_time;
        if measured {
            let tally = &mut self.tallies[kind];
            for (sum, n) in self.conflicts.iter_mut().zip(met) {
                *sum += n;
            }
            tally.retries += met.iter().sum::<u64>() - u64::from(matches!(ended, Ended::GivenUp));
            tally.verbs = tally.verbs.plus(&self.cx.counts().since(&verbs_before));
            match ended {
                Ended::RolledBack => tally.rolled_back += 1,
                Ended::GivenUp => tally.given_up += 1,
                Ended::Committed(_) | Ended::Stopped(_) => (),
            }
        }
        match ended {
            Ended::Stopped(error) => return Some(error),
            Ended::Committed(effects) => {
                let ticket = self.session.ticket();
                if self.config.durability == Durability::Storage {
                    // The oldest that waits asks for itself alone: this one's epoch would last longer.
                    self.session.want_durable(ticket);
                }
                let committed_ns = now_ns;
                self.pending.push_back(Pending { ticket, kind, from_ns, committed_ns, effects, measured });
            }
            Ended::RolledBack | Ended::GivenUp => (),
        }
        self.acknowledge(self.config.in_flight - 1).err()
    }

    /// Acknowledges what has become durable; waits until at most `most` transactions are left.
    fn acknowledge(&mut self, most: usize) -> Result<(), TxnError> {
        let mut turn = 0;
        while let Some(oldest) = self.pending.front() {
            let waits = self.config.durability == Durability::Storage;
            if waits && !self.session.is_durable(oldest.ticket)? {
                if self.pending.len() <= most {
                    break;
                }
                self.session.wait_for(oldest.ticket, turn);
                turn += 1;
                continue;
            }
            turn = 0;
            let Pending { kind, from_ns, committed_ns, effects, measured, .. } =
                self.pending.pop_front().expect("seen");
            self.acknowledged.add(&effects);
            if let Some(watch) = &self.config.watch {
                watch.add(&effects);
            }
            if measured {
                let tally = &mut self.tallies[kind];
                tally.committed += 1;
                tally.latency_ns.record(self.cx.now_ns() - from_ns);
                tally.commit_ns.record(committed_ns - from_ns);
            }
        }
        Ok(())
    }

    /// Tries one input until it ends, and counts the conflicts it met.
    fn attempts(&mut self, input: &W::Input, met: &mut Conflicts) -> Ended {
        let (cx, workload, source) = (self.cx, self.workload, &mut self.source);
        for attempt in 1u32.. {
            let attempt_once = |txn: &mut S::Txn| {
                let mut charged = Charged::new(cx, txn, workload.content_bytes());
                workload.run(source, &mut charged, input)
            };
            match self.session.attempt(attempt_once) {
                Ok(effects) => return Ended::Committed(effects),
                Err(TxnError::Rollback) => return Ended::RolledBack,
                Err(TxnError::Conflict(reason)) => met[reason.index()] += 1,
                Err(error) => return Ended::Stopped(error),
            }
            let out_of_time = self.config.length.is_over(self.started_ns, cx.now_ns());
            if self.config.max_attempts == Some(attempt) || out_of_time {
                return Ended::GivenUp;
            }
            match self.config.back_off_ns {
                None => self.session.back_off(attempt),
                Some(most) => {
                    let until_ns = self.cx.now_ns() + self.cx.random_below(most + 1);
                    while self.cx.now_ns() < until_ns {
                        self.session.pause();
                    }
                }
            }
        }
        unreachable!("a transaction met 2^32 conflicts")
    }

    fn finish(self, stopped: Option<TxnError>) -> WorkerStats {
        let mut stats = WorkerStats { workers: 1, ..WorkerStats::default() };
        let from_ns = self.measured_from_ns.unwrap_or_else(|| self.cx.now_ns());
        stats.measured_ns = match self.config.length {
            // What ends after the measured time is not counted, so the time is exactly the one asked for.
            Length::Time { measured_ns, .. } if stopped.is_none() => measured_ns,
            _ => self.cx.now_ns() - from_ns,
        };
        let all = W::KINDS.iter().zip(self.tallies).enumerate();
        for (_, (kind, tally)) in all.filter(|(place, _)| self.workload.has(*place)) {
            let Tally { committed, rolled_back, retries, given_up, latency_ns, commit_ns, verbs } = tally;
            let counts = KindStats { committed, rolled_back, retries, given_up, ..Default::default() };
            let plain = KindStats { latency_ns, commit_ns, ..counts };
            let entry = stats.kinds.entry((*kind).to_owned()).or_insert(plain);
            entry.add_verbs(&verbs);
        }
        let reasons = Conflict::ALL.iter().zip(self.conflicts).filter(|(_, n)| *n > 0);
        stats.aborts = reasons.map(|(reason, n)| (reason.name().to_owned(), n)).collect();
        stats.acknowledged = self.acknowledged.by_name(W::EFFECTS);
        stats.stopped = stopped.map(|error| error.to_string()).into_iter().collect();
        stats
    }
}
