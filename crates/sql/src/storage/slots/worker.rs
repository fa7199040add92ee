//! A worker of a host at work: it carries out orders, and rests when there are none.
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use liger_engine::Session;
use liger_engine::row::RowSession;
use liger_fabric::{Cx, Fabric, SyncAddr};

use super::{After, Ended, Order, Running, Slots, Step, WholeJob, rolled_back, shut_down};
use crate::catalog::HostCatalog;
use crate::catalog::change::Working;
use crate::error::{Result, SqlError, SqlState};
use crate::observe::Painter;
use crate::storage::access::{Access, attempt, is_conflict};
use crate::storage::garbage;
use crate::storage::undo::UndoLog;

/// How long a new transaction waits at most for an announced change of the catalog.
const DDL_WAIT_NS: u64 = 50_000_000;
/// How long a conflict of a transaction that has told nobody anything is retried, at most.
const RETRY_NS: u64 = 5_000_000_000;
/// How long worker 0 rests when nobody wants anything; twice as long each time, from the first to the last.
const REST: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(500));
/// How long worker 0 looks without rest after somebody wanted something: a host that puts many rows here asks
/// for each, and a rest takes several times as long as an answer.
const AWAKE_NS: u64 = 50_000;
/// How often a waiting worker looks whether its host has been ruled out.
const LOOK: Duration = Duration::from_millis(100);
/// Turns of rest of worker 0 between two looks for garbage, and rows that it removes at once: whoever wants
/// something then waits for so many.
const SWEEP: (u32, usize) = (1024, 16);

pub(super) struct Worker<'a> {
    pub(super) slots: &'a Slots,
    pub(super) catalog: &'a HostCatalog,
    pub(super) ddl: SyncAddr,
}

impl Worker<'_> {
    pub(super) fn serve_sessions<F: Fabric>(&self, session: &mut RowSession<'_, F>) -> Result<()> {
        let mut queue = self.slots.queue();
        loop {
            if queue.closed {
                return Ok(());
            }
            if let Some(order) = queue.orders.pop_front() {
                drop(queue);
                self.carry_out(session, order);
                queue = self.slots.queue();
                continue;
            }
            queue.idle += 1;
            queue = match self.slots.came.wait_timeout(queue, LOOK) {
                Ok((queue, _)) => queue,
                Err(poisoned) => poisoned.into_inner().0,
            };
            queue.idle -= 1;
            self.check_member(session)?;
        }
    }

    /// Worker 0: other hosts first, then short transactions, then garbage.
    pub(super) fn attend<'h, F: Fabric>(
        &self,
        session: &mut RowSession<'h, F>,
        goes_on: &mut dyn FnMut(&RowSession<'h, F>) -> bool,
    ) -> Result<()> {
        let (mut rest, mut turns, mut busy_ns) = (REST.0, 0u32, 0);
        let mut painter = Painter::new(session.host());
        loop {
            self.check_member(session)?;
            if !goes_on(session) {
                self.slots.close();
                return Ok(());
            }
            let served = session.serve();
            let order = {
                let mut queue = self.slots.queue();
                if queue.closed {
                    return Ok(());
                }
                queue.own.pop_front()
            };
            let is_busy = served > 0 || order.is_some();
            if let Some(order) = order {
                self.carry_out(session, order);
            }
            let now_ns = session.cx().now_ns();
            painter.paint(session, now_ns, &self.slots.observed);
            if is_busy {
                (rest, busy_ns) = (REST.0, now_ns);
            }
            if now_ns - busy_ns < AWAKE_NS {
                session.cx().pause();
                continue;
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(SWEEP.0) && self.sweep(session) {
                turns -= 1;
                continue;
            }
            rest = (2 * rest).min(REST.1);
            let queue = self.slots.queue();
            if queue.own.is_empty() && !queue.closed {
                // A few microseconds more or less do not matter, and neither does a panic elsewhere.
                let _ = self.slots.came_for_attendant.wait_timeout(queue, rest);
            }
        }
    }

    /// Removes some rows of objects that are gone, if nobody is in the way; false if there are none.
    fn sweep<F: Fabric>(&self, session: &mut RowSession<'_, F>) -> bool {
        let catalog = self.catalog;
        let swept = attempt(session, |tx| {
            let now = catalog.begin(tx)?;
            garbage::sweep(tx, &now, SWEEP.1)
        });
        swept.unwrap_or(false)
    }

    fn check_member<F: Fabric>(&self, session: &RowSession<'_, F>) -> Result<()> {
        match session.host().is_overruled() {
            true => Err(SqlError::new(SqlState::ADMIN_SHUTDOWN, "this host has been ruled out of the pod")),
            false => Ok(()),
        }
    }

    fn carry_out<F: Fabric>(&self, session: &mut RowSession<'_, F>, order: Order) {
        let cx = session.cx();
        match order {
            Order::Begin { jobs, said, changes_catalog } => {
                let announced = self.enter(cx, changes_catalog);
                let ended = self.run_steps(session, &jobs, &said);
                drop(announced);
                let committed = matches!(ended, Ended::Committed(Ok(())));
                self.slots.observed.count(session.cx().worker().0, committed);
                // Who is gone waits for nothing.
                match ended {
                    Ended::Gone => {}
                    Ended::RolledBack => _ = said.send(Ok(())),
                    Ended::Committed(ended) => {
                        let _ = said.send(ended.and_then(|()| self.settle(session)));
                    }
                }
            }
            Order::Whole { mut job, said, changes_catalog } => {
                let announced = self.enter(cx, changes_catalog);
                let ended = self.run_whole(session, &mut job);
                drop(announced);
                let _ = said.send(ended.and_then(|()| self.settle(session)));
            }
        }
    }

    /// Waits for changes of the catalog that are announced, or announces one.
    fn enter<'c, F: Fabric>(&self, cx: &'c Cx<F>, changes_catalog: bool) -> Option<Announced<'c, F>> {
        if changes_catalog {
            return Some(Announced::new(cx, self.ddl));
        }
        let waits = |now: u64| now as u32 != 0 && now != self.slots.stale.load(Ordering::Relaxed);
        let (started, mut now) = (cx.now_ns(), cx.load(self.ddl));
        while waits(now) {
            if cx.now_ns() - started > DDL_WAIT_NS {
                self.slots.stale.store(now, Ordering::Relaxed);
                break;
            }
            self.nap(REST.1);
            now = cx.load(self.ddl);
        }
        None
    }

    /// Rests without a task.
    fn nap(&self, rest: Duration) {
        // Nobody ever sends.
        let (_sender, nothing) = channel::<()>();
        let _ = nothing.recv_timeout(rest);
    }

    /// Runs jobs until the session ends the transaction or goes.
    fn run_steps<F: Fabric>(
        &self,
        session: &mut RowSession<'_, F>,
        jobs: &Receiver<Step>,
        said: &Sender<Result<()>>,
    ) -> Ended {
        let (host, catalog, mut ends) = (session.host(), self.catalog, After::Stay);
        let ended = attempt(session, |tx| {
            let mut undo = UndoLog::default();
            let mut begun: Option<Working> = None;
            loop {
                let step = match jobs.recv_timeout(LOOK) {
                    Ok(_) if self.slots.queue().closed => return Err(shut_down()),
                    Ok(step) => step,
                    Err(RecvTimeoutError::Timeout) if host.is_overruled() || self.slots.queue().closed => {
                        return Err(shut_down());
                    }
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => return Err(shut_down()),
                };
                if matches!(step, Step::Commit) {
                    ends = After::Commit;
                    return Ok(());
                }
                let ran = match begun.take().map_or_else(|| catalog.begin(tx).map(Working::new), Ok) {
                    Err(error) => Err(error),
                    Ok(mut working) => {
                        let ran = run_job(tx, &mut working, &mut undo, catalog, |running| match step {
                            Step::Run(job) => job(running),
                            Step::Turn(turn) => {
                                ends = turn(running);
                                Ok(())
                            }
                            Step::Commit => Ok(()),
                        });
                        begun = Some(working);
                        ran
                    }
                };
                match ends {
                    After::Stay => _ = said.send(ran),
                    After::Commit => return Ok(()),
                    After::RollBack => return Err(rolled_back()),
                }
            }
        });
        match ends {
            After::Stay => Ended::Gone,
            After::RollBack => Ended::RolledBack,
            After::Commit => Ended::Committed(ended),
        }
    }

    fn run_whole<F: Fabric>(&self, session: &mut RowSession<'_, F>, job: &mut WholeJob) -> Result<()> {
        let (catalog, cx) = (self.catalog, session.cx());
        let started = cx.now_ns();
        for conflicts in 1u32.. {
            let ended = attempt(session, |tx| {
                let mut working = Working::new(catalog.begin(tx)?);
                run_job(tx, &mut working, &mut UndoLog::default(), catalog, |running: &mut Running<'_>| {
                    job(running)
                })
            });
            match ended {
                Err(error) if is_conflict(&error) && cx.now_ns() - started < RETRY_NS => {
                    session.back_off(conflicts.min(4));
                    if conflicts > 4 {
                        // Somebody else needs the processor to get done.
                        let limit = Duration::from_micros(20) * (1 << conflicts.min(9));
                        self.nap(limit.min(Duration::from_micros(20 + cx.random_below(5_000))));
                    }
                }
                ended => return ended,
            }
        }
        unreachable!("a transaction met 2^32 conflicts")
    }

    /// Waits until the last transaction is durable.
    fn settle<F: Fabric>(&self, session: &mut RowSession<'_, F>) -> Result<()> {
        let ticket = session.ticket();
        let wants = session.durability() == liger_engine::log::Durability::Storage;
        let mut turns = 0;
        while wants && !session.is_durable(ticket)? {
            turns += 1;
            // Storage takes longer than a few turns.
            if turns > 16 { self.nap(REST.0) } else { session.wait_a_turn() }
        }
        Ok(())
    }
}

/// Runs a job; a panic is an error.
fn run_job(
    tx: &mut dyn Access,
    catalog: &mut Working,
    undo: &mut UndoLog,
    host: &HostCatalog,
    job: impl FnOnce(&mut Running<'_>) -> Result<()>,
) -> Result<()> {
    let mut running = Running { tx, catalog, undo, host };
    catch_unwind(AssertUnwindSafe(|| job(&mut running))).unwrap_or_else(|panic| {
        let message = format!("internal error: {}", text_of(&*panic));
        Err(SqlError::new(SqlState::INTERNAL_ERROR, message))
    })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic")
}

/// A change of the catalog that all hosts know of: how many there are in the lower half of the counter.
struct Announced<'c, F: Fabric> {
    cx: &'c Cx<F>,
    at: SyncAddr,
}

impl<'c, F: Fabric> Announced<'c, F> {
    fn new(cx: &'c Cx<F>, at: SyncAddr) -> Self {
        cx.fetch_add(at, (1 << 32) + 1);
        Self { cx, at }
    }
}

impl<F: Fabric> Drop for Announced<'_, F> {
    fn drop(&mut self) {
        self.cx.fetch_add(self.at, (1 << 32) - 1);
    }
}
