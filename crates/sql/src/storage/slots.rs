//! Slots: a host's workers, lent to sessions for a transaction each.
//!
//! A transaction belongs to a worker of its host, of which there are at most 31; sessions are many and live
//! on threads of their own. A session borrows a worker that is free and runs its transaction itself, on its
//! own thread: waking another thread for a statement costs more than most statements do. Who finds no
//! worker free waits in line, and a transaction that waits for its client occupies a worker and no
//! processor.
//!
//! ```text
//!   session, on any thread                        worker 0, the attendant, on a thread of its own
//!   begin: takes a free worker, begins            answers other hosts,
//!   call(job), call(job), ...                     runs jobs that are transactions
//!   commit: commits, waits until durable,         of their own (numbers, garbage)
//!           gives the worker back
//! ```
//!
//! Invariants:
//! 1. Worker 0 serves other hosts all the time, resting briefly between two looks when there is nothing; so
//!    no other worker has to.
//! 2. A slot that is dropped rolls back and gives its worker back.
//! 3. [`Slots::close`] takes every worker away, also lent ones, between two steps of their transactions:
//!    these are rolled back, and who runs them is told so at the next step (57P01).
//! 4. Who changes the catalog says so in a counter that all hosts see, before its first change and behind its
//!    end. It decides nothing: it says when it is worth looking for a newer catalog, and for those who wait
//!    for a relation. A host that dies with it set makes the others look each time.
//! 5. Who has just come takes a free worker in front of those in line only until the first of these has
//!    been overtaken so once, or has waited for [`LOOK`]: nobody is overtaken again and again.
//!
//! This is not for the simulator: there, transactions are run directly.

mod bell;
mod directory;
mod post;
mod turns;
mod worker;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use liger_engine::Durability;
use liger_engine::db::Host;
use liger_engine::row::RowSession;
use liger_fabric::native::HostMemory;

use super::access::{Access, is_conflict};
use super::classes::Classes;
use super::notices;
use super::sequence;
use super::undo::UndoLog;
use crate::catalog::HostCatalog;
use crate::catalog::change::Working;
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::observe::Observed;
use crate::types::Oid;
pub use bell::{Bell, Ringing};
pub use directory::Directory;
pub use post::Post;
pub use turns::{TakesTurns, Turn};
use worker::{Attendant, Worker, lend, look};

/// How often who waits for a worker looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

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

type Job = Box<dyn FnMut(&mut Running<'_>) -> Result<()> + Send>;

/// A transaction of one job for worker 0, which is run again after conflicts.
struct Order {
    /// `None`: to hand over what is in this host's inbox.
    job: Option<Job>,
    /// `None`: nobody waits for it, and it outlasts [`Slots::close`].
    said: Option<Sender<Result<()>>>,
    /// It needs the catalog; otherwise it runs also while somebody changes that.
    reads_catalog: bool,
    /// What is rung after its commit.
    rings: Option<Bell>,
}

/// Where a worker is: in here when nobody uses it, empty once it was taken away for good.
type Berth = Arc<Mutex<Option<Box<dyn Worker>>>>;

/// A session in line for a worker.
struct Waiting {
    bell: Arc<Condvar>,
    /// It has waited for [`LOOK`], or was woken and found that somebody else was faster.
    overdue: bool,
}

#[derive(Default)]
struct Pool {
    free: Vec<Berth>,
    line: VecDeque<Waiting>,
    all: Vec<Berth>,
    /// For worker 0.
    orders: VecDeque<Order>,
    closed: bool,
}

impl Pool {
    /// A free worker, for somebody who has just come.
    fn take_free(&mut self) -> Option<Berth> {
        let may = !self.closed && self.line.front().is_none_or(|first| !first.overdue);
        may.then(|| self.free.pop())?
    }

    /// Wakes the first in line if there is something for it.
    fn wake_first(&self) {
        if let (Some(first), false) = (self.line.front(), self.free.is_empty()) {
            first.bell.notify_one();
        }
    }

    fn wake_all(&self) {
        self.line.iter().for_each(|one| one.bell.notify_one());
    }
}

/// The workers of a host. Shared by all its sessions.
pub struct Slots {
    pool: Mutex<Pool>,
    /// Wakes worker 0, while there is one.
    wakes_attendant: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    observed: Observed,
    advisory: Ringing,
    turns: TakesTurns,
    post: Arc<Post>,
    directory: Directory,
    /// Sessions that wait for a worker, and workers that are lent to sessions that wait for a lock.
    wanting: AtomicU32,
    stuck: AtomicU32,
    /// Bytes of the temporary objects of all sessions.
    private_bytes: Arc<AtomicU64>,
}

fn shut_down() -> SqlError {
    let message = "terminating connection due to administrator command";
    SqlError::notice(Severity::Fatal, SqlState::ADMIN_SHUTDOWN, message)
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slots {
    /// No workers yet.
    pub fn new() -> Arc<Slots> {
        let wakes_attendant = Mutex::default();
        let (pool, observed) = (Mutex::default(), Observed::default());
        let (advisory, turns, post) = (Ringing::default(), TakesTurns::default(), Arc::default());
        let directory = Directory::default();
        let (wanting, stuck) = (AtomicU32::new(0), AtomicU32::new(0));
        let private_bytes = Arc::default();
        Arc::new(Slots {
            pool,
            wakes_attendant,
            observed,
            advisory,
            turns,
            post,
            directory,
            wanting,
            stuck,
            private_bytes,
        })
    }

    /// Lends `workers` workers of a host, the calling thread being worker 0, until [`Slots::close`] or until
    /// `goes_on`, which worker 0 asks between its turns, says no. Sessions may come before that and wait.
    ///
    /// # Errors
    /// If the host has been ruled out of the pod.
    pub fn work<M: HostMemory>(
        self: &Arc<Self>,
        host: &mut Host<M>,
        workers: u8,
        (catalog, durability): (&Arc<HostCatalog>, Durability),
        mut goes_on: impl FnMut(&RowSession<'_, M::View>) -> bool,
    ) -> Result<()> {
        let lent = host.sessions(1..workers);
        *lock(&self.wakes_attendant) = Some(Arc::new(host.waker()));
        host.alone(|session| {
            let berth = |owned| Arc::new(Mutex::new(Some(lend(self, catalog, owned, durability))));
            let berths: Vec<Berth> = lent.into_iter().map(berth).collect();
            {
                let mut pool = lock(&self.pool);
                (pool.all, pool.free) = (berths.clone(), berths);
                pool.wake_all();
            }
            let attendant = Attendant { slots: self, catalog };
            let ended = attendant.attend(session, &mut goes_on);
            self.take_back();
            ended
        })
    }

    /// Ends the work: running transactions are rolled back, soon or when their next step is due.
    pub fn close(&self) {
        let mut pool = lock(&self.pool);
        pool.closed = true;
        pool.orders.retain(|order| order.said.is_none());
        pool.wake_all();
        drop(pool);
        self.wake_attendant();
    }

    /// Worker 0 is to look what there is to do. From any thread.
    pub fn wake_attendant(&self) {
        let wakes = lock(&self.wakes_attendant).clone();
        wakes.iter().for_each(|wake| wake());
    }

    fn wants_attendant(&self) -> bool {
        let pool = lock(&self.pool);
        pool.closed || !pool.orders.is_empty()
    }

    /// Takes every worker away, waiting for the steps that run.
    fn take_back(&self) {
        self.close();
        let mut pool = lock(&self.pool);
        pool.free.clear();
        let all = std::mem::take(&mut pool.all);
        drop(pool);
        // Dropped, they roll back.
        all.iter().for_each(|berth| drop(lock(berth).take()));
    }

    /// Sessions wait again for workers after [`Slots::close`].
    pub fn open(&self) {
        lock(&self.pool).closed = false;
    }

    /// What is known of this host.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Bytes that the temporary objects of all sessions take (storage/private.rs).
    pub fn private_bytes(&self) -> &Arc<AtomicU64> {
        &self.private_bytes
    }

    /// How many workers wait for a session at present.
    pub fn idle(&self) -> usize {
        lock(&self.pool).free.len()
    }

    /// Waits for a free worker and begins a transaction there. `goes_on` is asked now and then while it
    /// waits.
    ///
    /// # Errors
    /// Those of `goes_on`; if the host ends.
    pub fn begin(
        self: &Arc<Self>,
        changes_catalog: bool,
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Slot> {
        let slot = self.borrow(goes_on)?;
        slot.on_worker(|worker| worker.begin(changes_catalog))?;
        Ok(slot)
    }

    /// Brings the host's picture of the catalog up to what all hosts have committed, in no session's
    /// transaction. Worker 0 does so if no other one is free: whoever has them may be waiting for this. While
    /// somebody is changing the catalog the picture stays as it is, and nobody waits for that.
    ///
    /// # Errors
    /// As [`Slots::once`], but no conflicts.
    pub fn look(self: &Arc<Self>) -> Result<()> {
        let mut pool = lock(&self.pool);
        let free = pool.take_free().map(|berth| self.slot(&pool, berth));
        drop(pool);
        let looked = match free {
            Some(slot) => slot.on_worker(|worker| worker.renew()),
            None => self.beside(None, |running| look(running.tx, running.host)),
        };
        // A conflict at its end tells of a change, too.
        let is_changing =
            |error: &SqlError| error.state == SqlState::LOCK_NOT_AVAILABLE || is_conflict(error);
        looked.or_else(|error| if is_changing(&error) { Ok(()) } else { Err(error) })
    }

    /// Waits for a free worker.
    fn borrow(self: &Arc<Self>, goes_on: &mut dyn FnMut() -> Result<()>) -> Result<Slot> {
        self.wanting.fetch_add(1, Ordering::Relaxed);
        let borrowed = self.borrow_one(goes_on);
        self.wanting.fetch_sub(1, Ordering::Relaxed);
        borrowed
    }

    fn borrow_one(self: &Arc<Self>, goes_on: &mut dyn FnMut() -> Result<()>) -> Result<Slot> {
        let mut pool = lock(&self.pool);
        if let Some(berth) = pool.take_free() {
            return Ok(self.slot(&pool, berth));
        }
        let bell = Arc::new(Condvar::new());
        pool.line.push_back(Waiting { bell: bell.clone(), overdue: false });
        loop {
            let ended = if pool.closed { Err(shut_down()) } else { goes_on() };
            let at = pool.line.iter().position(|one| Arc::ptr_eq(&one.bell, &bell));
            let at = at.expect("it leaves the line only here");
            if let Err(error) = ended {
                pool.line.remove(at);
                pool.wake_first();
                return Err(error);
            }
            if at == 0
                && let Some(berth) = pool.free.pop()
            {
                pool.line.pop_front();
                pool.wake_first();
                return Ok(self.slot(&pool, berth));
            }
            pool = bell.wait_timeout(pool, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            let own = pool.line.iter_mut().find(|one| Arc::ptr_eq(&one.bell, &bell));
            own.expect("it leaves the line only here").overdue = true;
        }
    }

    fn slot(self: &Arc<Self>, pool: &Pool, berth: Berth) -> Slot {
        let worker = pool.all.iter().position(|one| Arc::ptr_eq(one, &berth)).map_or(0, |at| at + 1);
        Slot { slots: self.clone(), berth, worker: worker as u8 }
    }

    fn give_back(&self, berth: Berth) {
        let mut pool = lock(&self.pool);
        if pool.all.iter().any(|one| Arc::ptr_eq(one, &berth)) {
            pool.free.push(berth);
            pool.wake_first();
        }
    }

    /// Runs a transaction of one job, and runs it again after conflicts, for a bounded time: for jobs that
    /// tell nobody anything before they return.
    ///
    /// # Errors
    /// Those of the job and of the commit; 40001 when the time is over.
    pub fn once<R>(
        self: &Arc<Self>,
        changes_catalog: bool,
        mut job: impl FnMut(&mut Running<'_>) -> Result<R>,
    ) -> Result<R> {
        let slot = self.borrow(&mut || Ok(()))?;
        let mut made = None;
        let mut job = |running: &mut Running<'_>| job(running).map(|result| made = Some(result));
        slot.on_worker(|worker| worker.whole(changes_catalog, &mut job))?;
        Ok(made.expect("the job has returned"))
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
        self.ordered(true, None, job)
    }

    /// As [`Slots::aside`], for rows that have nothing to do with the catalog, whoever is changing that;
    /// `rings` after the commit.
    ///
    /// # Errors
    /// As [`Slots::once`].
    pub fn beside<R: Send + 'static>(
        &self,
        rings: Option<Bell>,
        job: impl FnMut(&mut Running<'_>) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        self.ordered(false, rings, job)
    }

    fn ordered<R: Send + 'static>(
        &self,
        reads_catalog: bool,
        rings: Option<Bell>,
        mut job: impl FnMut(&mut Running<'_>) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let ((said, answers), (out, made)) = (channel(), channel());
        let job = Box::new(move |running: &mut Running<'_>| {
            // Whoever asked waits for it.
            job(running).map(|result| drop(out.send(result)))
        });
        let mut pool = lock(&self.pool);
        if pool.closed {
            return Err(shut_down());
        }
        pool.orders.push_back(Order { job: Some(job), said: Some(said), reads_catalog, rings });
        drop(pool);
        self.wake_attendant();
        answers.recv().map_err(|_| shut_down())??;
        Ok(made.try_iter().last().expect("the job has returned"))
    }

    /// As [`Slots::beside`], and waits for nothing: it is done when there are workers, as long as this host
    /// lives.
    pub fn later(
        &self,
        rings: Option<Bell>,
        job: impl FnMut(&mut Running<'_>) -> Result<()> + Send + 'static,
    ) {
        let order = Order { job: Some(Box::new(job)), said: None, reads_catalog: false, rings };
        lock(&self.pool).orders.push_back(order);
        self.wake_attendant();
    }

    /// How sessions learn that advisory locks have been given back.
    pub fn advisory(&self) -> &Ringing {
        &self.advisory
    }

    /// Who runs alone among those that have conflicted.
    pub fn turns(&self) -> &TakesTurns {
        &self.turns
    }

    /// Who listens to what.
    pub fn post(&self) -> &Post {
        &self.post
    }

    /// Who is served here.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Hands over what is in this host's inbox, before it returns if there are workers.
    pub fn deliver(&self) {
        let (said, answers) = channel();
        let mut pool = lock(&self.pool);
        if !pool.closed {
            pool.orders.push_back(Order { job: None, said: Some(said), reads_catalog: false, rings: None });
            drop(pool);
            self.wake_attendant();
            // What is not handed over now is when there are workers again.
            let _ = answers.recv();
        }
    }

    /// Soon tells all hosts that nobody here listens, if that is so then.
    pub fn fall_silent(&self, classes: Arc<Classes>) {
        let post = self.post.clone();
        self.later(None, move |running| {
            if post.is_wanted() {
                return Ok(());
            }
            notices::set_listening(running.tx, &classes, false)?;
            while !notices::take(running.tx, &classes)?.1 {}
            Ok(())
        });
    }

    /// The session that has a worker waits for a lock, or does no longer.
    pub fn note_stuck(&self, worker: bool, begins: bool) {
        match begins {
            _ if !worker => 0,
            true => self.stuck.fetch_add(1, Ordering::Relaxed),
            false => self.stuck.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Whether all workers are lent to sessions that wait for locks, while others wait for a worker:
    /// whoever could give a lock back is perhaps among these.
    pub fn is_stuck(&self) -> bool {
        let workers = lock(&self.pool).all.len();
        self.wanting.load(Ordering::Relaxed) > 0 && self.stuck.load(Ordering::Relaxed) as usize >= workers
    }

    /// The next number of a sequence: `nextval`. Not for sequences that the caller's own transaction has made
    /// or begun anew, which only that transaction can use (`sequence::take` is for these), and not from a job
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
}

/// A transaction on a worker that a session has borrowed. Dropped, it is rolled back.
pub struct Slot {
    slots: Arc<Slots>,
    berth: Berth,
    worker: u8,
}

impl Slot {
    /// The worker's number.
    pub fn worker(&self) -> u8 {
        self.worker
    }

    fn on_worker<R>(&self, work: impl FnOnce(&mut dyn Worker) -> Result<R>) -> Result<R> {
        work(&mut **lock(&self.berth).as_mut().ok_or_else(shut_down)?)
    }

    /// Runs a job in the transaction. After an error of the engine (40001 and the like) the transaction can
    /// only be rolled back.
    ///
    /// # Errors
    /// Those of the job; 57P01 if the worker has been taken away.
    pub fn call<R>(&self, job: impl FnOnce(&mut Running<'_>) -> Result<R>) -> Result<R> {
        let (mut job, mut made) = (Some(job), None);
        let mut step = |running: &mut Running<'_>| {
            let job = job.take().expect("it is run once");
            job(running).map(|result| made = Some(result))
        };
        self.on_worker(|worker| worker.step(&mut step))?;
        Ok(made.expect("it was run"))
    }

    /// The pod's counter of announced changes of the catalog, how many there are at present in its lower
    /// half.
    ///
    /// # Errors
    /// 57P01 if the worker has been taken away.
    pub fn announcements(&self) -> Result<u64> {
        self.on_worker(|worker| Ok(worker.announcements()))
    }

    /// Whether open transactions keep this host from taking over what a dead one had: one that waits for
    /// others has to end then, for they may wait for that.
    ///
    /// # Errors
    /// 57P01 if the worker has been taken away.
    pub fn is_held_up(&self) -> Result<bool> {
        self.on_worker(|worker| Ok(worker.is_held_up()))
    }

    /// The transaction is to change the catalog: see invariant 4.
    ///
    /// # Errors
    /// 57P01 if the worker has been taken away.
    pub fn announce(&self) -> Result<()> {
        self.on_worker(|worker| {
            worker.announce();
            Ok(())
        })
    }

    /// Commits, and returns once that is as durable as the host's sessions are; `rings` then.
    ///
    /// # Errors
    /// 40001 and those of the engine; nothing has happened then, but after 40003 nobody knows.
    pub fn commit(self, rings: Option<Bell>) -> Result<()> {
        self.on_worker(|worker| worker.commit(rings))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(worker) = &mut *lock(&self.berth) {
            worker.roll_back();
        }
        self.slots.give_back(self.berth.clone());
    }
}
