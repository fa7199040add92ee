//! One worker's loop: take an input, run it until it commits, count.
//!
//! 1. A closed loop without think times: the next transaction starts when the last one has ended. A worker
//!    may stand for several clients: while some transactions wait to become durable, it runs the next ones.
//!    Latency runs from the first attempt to the acknowledged commit, back-off and retries included.
//! 2. Under [`Length::Time`] a transaction counts as measured when it *ends* within the measured time, or is
//!    given up at its end. Under [`Length::Transactions`] the same seed runs the same inputs, which is what a
//!    simulator replays.
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

use liger_engine::log::Durability;
use liger_engine::{Conflict, Session, Ticket, Transaction, TxnError};
use liger_fabric::{Counts, Cx, Fabric};
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::random::Rng;
use crate::stats::{KindStats, WorkerStats};
use crate::tpcc::Scale;
use crate::tpcc::charge::Charged;
use crate::tpcc::generate::Generator;
use crate::tpcc::input::{Input, Kind, Mix, Remote};
use crate::tpcc::schema::{Tables, history_id};
use crate::tpcc::{delivery, new_order, order_status, payment, stock_level};

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

/// What a worker runs. All workers of a run have the same, except for `homes`.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The tables' numbers.
    pub tables: Tables,
    /// The loaded scale.
    pub scale: Scale,
    /// The loader's seed.
    pub database_seed: u64,
    /// Which run against this database it is, 1 to 1023: keeps HISTORY's keys apart.
    pub run: u16,
    /// Whose transactions.
    pub mix: Mix,
    /// How many of them are remote.
    pub remote: Remote,
    /// This worker's home warehouses (see [`crate::tpcc::generate::Homes`]).
    pub homes: Vec<i16>,
    /// How long.
    pub length: Length,
    /// Attempts after which a transaction is given up; `None`: only the end of the time ends it.
    pub max_attempts: Option<u32>,
    /// When a transaction counts as committed.
    pub durability: Durability,
    /// Where acknowledged transactions are counted as they come, for somebody who watches.
    pub watch: Option<Arc<Watch>>,
    /// Transactions of this worker that may wait for that at once, at least 1: so many clients it stands for.
    pub in_flight: usize,
}

impl RunConfig {
    /// The parameters by name, for a report. The placement of homes is the caller's, and so is the number
    /// of workers.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let settings = [
            ("warehouses", self.scale.warehouses.to_string()),
            ("items", self.scale.items.to_string()),
            ("customers_per_district", self.scale.customers.to_string()),
            ("database_seed", self.database_seed.to_string()),
            ("mix", self.mix.name().to_owned()),
            ("remote", self.remote.to_string()),
            ("durability", self.durability.name().to_owned()),
            ("in_flight", self.in_flight.to_string()),
        ];
        settings.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// Acknowledged transactions so far, of all workers that count here.
#[derive(Default, Debug)]
pub struct Watch {
    new_orders: AtomicU64,
    payments: AtomicU64,
    deliveries: AtomicU64,
    skipped_districts: AtomicU64,
}

impl Watch {
    /// The counts by the names of [`WorkerStats::acknowledged`].
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let counts = [
            (NEW_ORDERS, &self.new_orders),
            (PAYMENTS, &self.payments),
            (DELIVERIES, &self.deliveries),
            (SKIPPED_DISTRICTS, &self.skipped_districts),
        ];
        counts.map(|(name, count)| (name.to_owned(), count.load(Ordering::Relaxed))).into()
    }

    fn add(&self, effects: &Effects) {
        let Effects { new_orders, payments, deliveries, skipped_districts } = *effects;
        self.new_orders.fetch_add(new_orders, Ordering::Relaxed);
        self.payments.fetch_add(payments, Ordering::Relaxed);
        self.deliveries.fetch_add(deliveries, Ordering::Relaxed);
        self.skipped_districts.fetch_add(skipped_districts, Ordering::Relaxed);
    }
}

/// What a transaction that committed has entered, as the consistency check counts it.
#[derive(Clone, Copy, Default, Debug)]
struct Effects {
    new_orders: u64,
    payments: u64,
    deliveries: u64,
    skipped_districts: u64,
}

/// Runs one input once, within a transaction.
fn run_input<T: Transaction>(
    txn: &mut T,
    tables: &Tables,
    input: &Input,
    history: i64,
) -> Result<Effects, TxnError> {
    let none = Effects::default();
    Ok(match input {
        Input::NewOrder(input) => {
            new_order::run(txn, tables, input)?;
            Effects { new_orders: 1, ..none }
        }
        Input::Payment(input) => {
            payment::run(txn, tables, input, history)?;
            Effects { payments: 1, ..none }
        }
        Input::OrderStatus(input) => {
            order_status::run(txn, tables, input)?;
            none
        }
        Input::Delivery(input) => {
            let output = delivery::run(txn, tables, input)?;
            let deliveries = output.delivered.len() as u64;
            Effects { deliveries, skipped_districts: output.skipped.into(), ..none }
        }
        Input::StockLevel(input) => {
            stock_level::run(txn, tables, input)?;
            none
        }
    })
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
    kind: Kind,
    from_ns: u64,
    effects: Effects,
    /// It ran in the measured time.
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
    verbs: Counts,
}

/// Aborted attempts by [`Conflict::index`].
type Conflicts = [u64; Conflict::ALL.len()];

/// One worker's run.
struct Worker<'a, F: Fabric, S> {
    cx: &'a Cx<F>,
    session: &'a mut S,
    config: &'a RunConfig,
    tallies: [Tally; Kind::ALL.len()],
    conflicts: Conflicts,
    /// Committed, and not durable yet; oldest first.
    pending: VecDeque<Pending>,
    acknowledged: Effects,
    payments_tried: u64,
    /// When the worker began, and when its measured time began.
    started_ns: u64,
    measured_from_ns: Option<u64>,
}

/// Runs transactions as `config` says and returns what was measured.
///
/// # Panics
/// When `config` holds a scale that does not validate, no home warehouse, or a run number out of range.
pub fn run_worker<F: Fabric, S: Session>(cx: &Cx<F>, session: &mut S, config: &RunConfig) -> WorkerStats {
    config.scale.validate().expect("the configuration's scale");
    assert!(config.in_flight > 0, "nothing may be in flight");
    assert!((1..1024).contains(&config.run), "run {} is not 1 to 1023", config.run);
    let rng = Rng::new(cx.random());
    let RunConfig { scale, database_seed, mix, remote, .. } = *config;
    let mut generator = Generator::new(scale, database_seed, mix, remote, config.homes.clone(), rng);
    let started_ns = cx.now_ns();
    let mut worker = Worker {
        cx,
        session,
        config,
        tallies: Default::default(),
        conflicts: Conflicts::default(),
        pending: VecDeque::new(),
        acknowledged: Effects::default(),
        payments_tried: 0,
        started_ns,
        measured_from_ns: None,
    };
    let mut stopped = None;
    let mut ran = 0;
    while stopped.is_none() && !worker.is_over(ran) {
        let input = generator.next((cx.now_ns() / 1000) as i64);
        stopped = worker.run_one(&input);
        ran += 1;
    }
    let settled = worker.acknowledge(0);
    worker.finish(stopped.or(settled.err()))
}

impl<F: Fabric, S: Session> Worker<'_, F, S> {
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
        match self.config.length {
            Length::Time { warm_up_ns, measured_ns } => now_ns >= self.started_ns + warm_up_ns + measured_ns,
            Length::Transactions { .. } => false,
        }
    }

    /// Runs one input to its end; an error that ends the worker comes back.
    fn run_one(&mut self, input: &Input) -> Option<TxnError> {
        let (from_ns, verbs_before) = (self.cx.now_ns(), self.cx.counts());
        let mut met = Conflicts::default();
        let ended = self.attempts(input, &mut met);
        let now_ns = self.cx.now_ns();
        // What the end of the time cuts off counts too: nobody would see a transaction that cannot make
        // progress.
        let in_time = !self.out_of_time(now_ns) || matches!(ended, Ended::GivenUp);
        let measured = self.measured_from_ns.is_some() && in_time;
        if measured {
            let tally = &mut self.tallies[input.kind() as usize];
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
                let (ticket, kind) = (self.session.ticket(), input.kind());
                self.pending.push_back(Pending { ticket, kind, from_ns, effects, measured });
            }
            Ended::RolledBack | Ended::GivenUp => (),
        }
        self.acknowledge(self.config.in_flight - 1).err()
    }

    /// Acknowledges what has become durable; waits until at most `most` transactions are left.
    fn acknowledge(&mut self, most: usize) -> Result<(), TxnError> {
        while let Some(oldest) = self.pending.front() {
            let waits = self.config.durability == Durability::Storage;
            if waits && !self.session.is_durable(oldest.ticket)? {
                if self.pending.len() <= most {
                    break;
                }
                self.session.wait_a_turn();
                continue;
            }
            let Pending { kind, from_ns, effects, measured, .. } = self.pending.pop_front().expect("seen");
            self.acknowledged.new_orders += effects.new_orders;
            self.acknowledged.payments += effects.payments;
            self.acknowledged.deliveries += effects.deliveries;
            self.acknowledged.skipped_districts += effects.skipped_districts;
            if let Some(watch) = &self.config.watch {
                watch.add(&effects);
            }
            let now_ns = self.cx.now_ns();
            if measured && !self.out_of_time(now_ns) {
                let tally = &mut self.tallies[kind as usize];
                tally.committed += 1;
                tally.latency_ns.record(now_ns - from_ns);
            }
        }
        Ok(())
    }

    /// Tries one input until it ends, and counts the conflicts it met.
    fn attempts(&mut self, input: &Input, met: &mut Conflicts) -> Ended {
        self.payments_tried += u64::from(input.kind() == Kind::Payment);
        let (host, worker) = (self.cx.host(), self.cx.worker());
        let history = history_id(self.config.run, host, worker, self.payments_tried);
        let (cx, tables) = (self.cx, &self.config.tables);
        for attempt in 1u32.. {
            let attempt_once =
                |txn: &mut S::Txn| run_input(&mut Charged::new(cx, txn), tables, input, history);
            match self.session.attempt(attempt_once) {
                Ok(effects) => return Ended::Committed(effects),
                Err(TxnError::Rollback) => return Ended::RolledBack,
                Err(TxnError::Conflict(reason)) => met[reason.index()] += 1,
                Err(error) => return Ended::Stopped(error),
            }
            if self.config.max_attempts == Some(attempt) || self.out_of_time(self.cx.now_ns()) {
                return Ended::GivenUp;
            }
            self.session.back_off(attempt);
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
        for (kind, tally) in Kind::ALL.into_iter().zip(self.tallies) {
            let Tally { committed, rolled_back, retries, given_up, latency_ns, verbs } = tally;
            let plain =
                KindStats { committed, rolled_back, retries, given_up, latency_ns, ..Default::default() };
            let entry = stats.kinds.entry(kind.name().to_owned()).or_insert(plain);
            entry.add_verbs(&verbs);
        }
        let reasons = Conflict::ALL.iter().zip(self.conflicts).filter(|(_, n)| *n > 0);
        stats.aborts = reasons.map(|(reason, n)| (reason.name().to_owned(), n)).collect();
        let Effects { new_orders, payments, deliveries, skipped_districts } = self.acknowledged;
        stats.acknowledged = BTreeMap::from([
            (NEW_ORDERS.to_owned(), new_orders),
            (PAYMENTS.to_owned(), payments),
            (DELIVERIES.to_owned(), deliveries),
            (SKIPPED_DISTRICTS.to_owned(), skipped_districts),
        ]);
        stats.stopped = stopped.map(|error| error.to_string()).into_iter().collect();
        stats
    }
}

/// Name under which [`WorkerStats::acknowledged`] counts orders entered.
pub const NEW_ORDERS: &str = "new_orders";
/// Name under which it counts payments made.
pub const PAYMENTS: &str = "payments";
/// Name under which it counts orders delivered.
pub const DELIVERIES: &str = "deliveries";
/// Name under which it counts districts that a Delivery found nothing in.
pub const SKIPPED_DISTRICTS: &str = "skipped_districts";
