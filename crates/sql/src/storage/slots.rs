//! Slots: a host's workers, lent to sessions for a transaction each.
//!
//! A transaction belongs to a worker of its host, of which there are at most 31; sessions are many and live
//! on threads of their own. A session borrows a worker, sends it jobs one after the other (a statement,
//! say), and gives it back with a commit or a rollback. What is waited for is waited for on condition
//! variables: an idle worker, and one whose transaction waits for its client, burn no processor time.
//!
//! ```text
//!   session                                  worker n                        worker 0, the attendant
//!   begin ------------------------------->   begins a transaction            answers other hosts,
//!   call(job), call(job), ... ----------->   runs them                       runs jobs that are transactions
//!   commit ------------------------------>   commits, waits until durable    of their own (numbers, garbage)
//! ```
//!
//! Invariants:
//! 1. Worker 0 serves other hosts all the time, resting briefly between two looks when there is nothing; so
//!    no other worker has to.
//! 2. A slot that is dropped rolls back. A job that panics fails its transaction, not its host.
//! 3. Who changes the catalog says so in a counter that all hosts see, and new transactions wait a little for
//!    it ([`DDL_WAIT_NS`]): otherwise the read locks of one after the other would never let it in. The
//!    counter decides nothing but who waits: a host that dies with it set delays the others once per
//!    change.
//!
//! This is not for the simulator: there, transactions are run directly.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use liger_engine::Session;
use liger_engine::row::RowSession;
use liger_fabric::{Cx, Fabric, SyncAddr};

use super::access::{Access, attempt, is_conflict};
use super::undo::UndoLog;
use super::{garbage, sequence};
use crate::catalog::HostCatalog;
use crate::catalog::change::Working;
use crate::error::{Result, SqlError, SqlState};
use crate::types::Oid;

/// The pod's counter in which changes of the catalog are announced.
const DDL_COUNTER: u64 = 62;
/// How long a new transaction waits at most for an announced change of the catalog.
const DDL_WAIT_NS: u64 = 50_000_000;
/// How long a conflict of a transaction that has told nobody anything is retried, at most.
const RETRY_NS: u64 = 5_000_000_000;
/// How long worker 0 rests when nobody wants anything; twice as long each time, from the first to the last.
const REST: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(500));
/// How often a waiting worker looks whether its host has been ruled out.
const LOOK: Duration = Duration::from_millis(100);
/// Turns of rest of worker 0 between two looks for garbage, and rows that it removes at once.
const SWEEP: (u32, usize) = (1024, 64);

/// A running transaction, as a job sees it.
pub struct Running<'a> {
    /// The engine's transaction.
    pub tx: &'a mut dyn Access,
    /// Its picture of the catalog.
    pub catalog: &'a mut Working,
    /// What its savepoints need.
    pub undo: &'a mut UndoLog,
    /// The host's catalog, for its numbers.
    pub host: &'a HostCatalog,
}

type Job = Box<dyn FnOnce(&mut Running<'_>) -> Result<()> + Send>;
type WholeJob = Box<dyn FnMut(&mut Running<'_>) -> Result<()> + Send>;

enum Order {
    /// A transaction whose jobs come one by one; the second is for what each says.
    Begin { jobs: Receiver<Step>, said: Sender<Result<()>>, changes_catalog: bool },
    /// A transaction of one job, which is run again after conflicts.
    Whole { job: WholeJob, said: Sender<Result<()>>, changes_catalog: bool },
}

enum Step {
    Run(Job),
    /// A job that says itself what becomes of the transaction, and tells its result by other ways.
    Turn(Turn),
    Commit,
}

type Turn = Box<dyn FnOnce(&mut Running<'_>) -> After + Send>;

/// What becomes of a transaction after a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// It goes on.
    Stay,
    /// It commits.
    Commit,
    /// It is rolled back.
    RollBack,
}

/// How the jobs of a transaction ended.
enum Ended {
    /// The session is gone.
    Gone,
    RolledBack,
    Committed(Result<()>),
}

#[derive(Default)]
struct Queue {
    orders: VecDeque<Order>,
    /// For worker 0.
    own: VecDeque<Order>,
    idle: usize,
    closed: bool,
}

/// The workers of a host. Shared by all its sessions and workers.
pub struct Slots {
    queue: Mutex<Queue>,
    came: Condvar,
    came_for_attendant: Condvar,
    /// An announcement that was waited for in vain: its host has died.
    stale: AtomicU64,
}

fn shut_down() -> SqlError {
    SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}

/// Nobody sees it: the session asked for it.
fn rolled_back() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "the session has rolled back")
}

impl Slots {
    /// No workers yet.
    pub fn new() -> Arc<Slots> {
        let (came, came_for_attendant) = (Condvar::new(), Condvar::new());
        Arc::new(Slots { queue: Mutex::default(), came, came_for_attendant, stale: AtomicU64::new(0) })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the work: running transactions are rolled back, soon or when their next step is due.
    pub fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        queue.orders.clear();
        queue.own.clear();
        drop(queue);
        self.came.notify_all();
        self.came_for_attendant.notify_all();
    }

    /// Takes orders again after [`Slots::close`], once workers are at work.
    pub fn open(&self) {
        self.queue().closed = false;
    }

    /// How many workers wait for a session at present.
    pub fn idle(&self) -> usize {
        self.queue().idle
    }

    fn post(&self, order: Order, to_attendant: bool) -> Result<()> {
        let mut queue = self.queue();
        if queue.closed {
            return Err(shut_down());
        }
        if to_attendant {
            queue.own.push_back(order);
            self.came_for_attendant.notify_one();
        } else {
            queue.orders.push_back(order);
            self.came.notify_one();
        }
        Ok(())
    }

    /// Asks for a worker and begins a transaction there. The first [`Slot::call`] waits for it.
    ///
    /// # Errors
    /// If the host ends.
    pub fn begin(&self, changes_catalog: bool) -> Result<Slot> {
        let ((steps, jobs), (said, answers)) = (channel(), channel());
        self.post(Order::Begin { jobs, said, changes_catalog }, false)?;
        Ok(Slot { steps, answers })
    }

    /// Runs a transaction of one job, and runs it again after conflicts, for a bounded time: for jobs that
    /// tell nobody anything before they return.
    ///
    /// # Errors
    /// Those of the job and of the commit; 40001 when the time is over.
    pub fn once<R: Send + 'static>(
        &self,
        changes_catalog: bool,
        job: impl FnMut(&mut Running<'_>) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        self.whole(false, changes_catalog, job)
    }

    /// As [`Slots::once`], on worker 0, which no session can occupy: for short transactions that are needed
    /// in the middle of another one (`nextval`).
    ///
    /// # Errors
    /// As [`Slots::once`].
    pub fn aside<R: Send + 'static>(
        &self,
        job: impl FnMut(&mut Running<'_>) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        self.whole(true, false, job)
    }

    /// The next number of a sequence: `nextval`. Not for sequences that the caller's own transaction has made
    /// or changed, which only that transaction can see (`sequence::take` is for these), and not from a job
    /// that itself runs aside.
    ///
    /// # Errors
    /// If there are no more (2200H), or there is no such sequence.
    pub fn next_number(&self, host: &HostCatalog, oid: Oid) -> Result<i64> {
        if let Some(number) = host.sequences().take(oid) {
            return Ok(number);
        }
        let mut block = self.aside(move |running| {
            let catalog = running.catalog.catalog();
            let sequence = catalog.sequence(oid).ok_or_else(|| {
                SqlError::new(SqlState::UNDEFINED_TABLE, format!("there is no sequence with oid {oid}"))
            })?;
            sequence::take(running.tx, catalog, sequence, sequence.cache)
        })?;
        let number = block.take().expect("at least one was taken");
        host.sequences().put(oid, block);
        Ok(number)
    }

    fn whole<R: Send + 'static>(
        &self,
        aside: bool,
        changes_catalog: bool,
        mut job: impl FnMut(&mut Running<'_>) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let (said, answers) = channel();
        let result = Arc::new(Mutex::new(None));
        let out = result.clone();
        let job = Box::new(move |running: &mut Running<'_>| {
            let made = job(running)?;
            *out.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
            Ok(())
        });
        self.post(Order::Whole { job, said, changes_catalog }, aside)?;
        answers.recv().map_err(|_| shut_down())??;
        let made = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(made.expect("the job has returned"))
    }

    /// Works as one of the host's workers until [`Slots::close`]. All workers of a host are to do so,
    /// worker 0 among them.
    ///
    /// # Errors
    /// If the host has been ruled out of the pod.
    pub fn work<F: Fabric>(&self, session: &mut RowSession<'_, F>, catalog: &HostCatalog) -> Result<()> {
        self.work_while(session, catalog, &mut |_| true)
    }

    /// As [`Slots::work`]; worker 0 asks `goes_on` between its turns, and closes when that says no.
    ///
    /// # Errors
    /// As [`Slots::work`].
    pub fn work_while<'h, F: Fabric>(
        &self,
        session: &mut RowSession<'h, F>,
        catalog: &HostCatalog,
        goes_on: &mut dyn FnMut(&RowSession<'h, F>) -> bool,
    ) -> Result<()> {
        let worker = Worker { slots: self, catalog, ddl: session.host().plan().counter(DDL_COUNTER) };
        let ended = match session.cx().worker().0 {
            0 => worker.attend(session, goes_on),
            _ => worker.serve_sessions(session),
        };
        if ended.is_err() {
            self.close();
        }
        ended
    }
}

/// A transaction on a worker that a session has borrowed. Dropped, it is rolled back.
pub struct Slot {
    steps: Sender<Step>,
    answers: Receiver<Result<()>>,
}

impl Slot {
    /// Runs a job in the transaction and waits for it. After an error of the engine (40001 and the like) the
    /// transaction can only be rolled back.
    ///
    /// # Errors
    /// Those of the job.
    pub fn call<R: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut Running<'_>) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let (out, made) = channel();
        let job = Box::new(move |running: &mut Running<'_>| {
            let result = job(running)?;
            // Nobody waits for it only if the session is gone.
            let _ = out.send(result);
            Ok(())
        });
        self.steps.send(Step::Run(job)).map_err(|_| shut_down())?;
        self.answers.recv().map_err(|_| shut_down())??;
        Ok(made.recv().expect("sent before the answer"))
    }

    /// Sends a turn off; it runs once a worker is free. What it was asked to do it tells by itself.
    /// [`Slot::turned`] waits for its end. A turn that cannot run is dropped.
    ///
    /// # Errors
    /// If the host ends.
    pub fn turn(&mut self, turn: impl FnOnce(&mut Running<'_>) -> After + Send + 'static) -> Result<()> {
        self.steps.send(Step::Turn(Box::new(turn))).map_err(|_| shut_down())
    }

    /// Waits until the turn has ended, and the transaction with it if the turn said so: then this slot is of
    /// no more use.
    ///
    /// # Errors
    /// Of the transaction's begin, or of its commit.
    pub fn turned(&mut self) -> Result<()> {
        self.answers.recv().map_err(|_| shut_down())?
    }

    /// Commits, and returns once that is as durable as the host's sessions are.
    ///
    /// # Errors
    /// 40001 and those of the engine; nothing has happened then, but after `IO_ERROR` nobody knows.
    pub fn commit(self) -> Result<()> {
        self.steps.send(Step::Commit).map_err(|_| shut_down())?;
        self.answers.recv().map_err(|_| shut_down())?
    }
}

struct Worker<'a> {
    slots: &'a Slots,
    catalog: &'a HostCatalog,
    ddl: SyncAddr,
}

impl Worker<'_> {
    fn serve_sessions<F: Fabric>(&self, session: &mut RowSession<'_, F>) -> Result<()> {
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
    fn attend<'h, F: Fabric>(
        &self,
        session: &mut RowSession<'h, F>,
        goes_on: &mut dyn FnMut(&RowSession<'h, F>) -> bool,
    ) -> Result<()> {
        let (mut rest, mut turns) = (REST.0, 0u32);
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
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(SWEEP.0) && self.sweep(session) {
                turns -= 1;
                continue;
            }
            rest = if is_busy { REST.0 } else { (2 * rest).min(REST.1) };
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
