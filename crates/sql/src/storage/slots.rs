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
//!    it (for 50 ms): otherwise the read locks of one after the other would never let it in. The
//!    counter decides nothing but who waits: a host that dies with it set delays the others once per
//!    change.
//!
//! This is not for the simulator: there, transactions are run directly.

mod worker;

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use liger_engine::row::RowSession;
use liger_fabric::Fabric;

use super::access::Access;
use super::sequence;
use super::undo::UndoLog;
use crate::catalog::HostCatalog;
use crate::catalog::change::Working;
use crate::error::{Result, SqlError, SqlState};
use crate::observe::Observed;
use crate::types::Oid;
use worker::Worker;

/// The pod's counter in which changes of the catalog are announced.
const DDL_COUNTER: u64 = 62;
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
    observed: Observed,
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
        Arc::new(Slots {
            queue: Mutex::default(),
            came,
            came_for_attendant,
            stale: AtomicU64::new(0),
            observed: Observed::default(),
        })
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

    /// What is known of this host.
    pub fn observed(&self) -> &Observed {
        &self.observed
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
