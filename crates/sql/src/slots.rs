//! Slots: what a host's sessions run their transactions in, on workers that they have only while they do
//! something.
//!
//! Sessions are many and live on threads of their own. A session runs its transaction itself, on its own
//! thread: waking another thread for a statement costs more than most statements do. For a statement it takes
//! a worker of its host from the pool (`liger_engine::row::WorkerPool`), of which there are a few; a
//! transaction whose client thinks, or that waits for a lock, sleeps, or waits for its log, has none.
//!
//! ```text
//!   session, on any thread                        worker 0, the attendant, on a thread of its own
//!   begin: takes a room and a worker, begins      answers other hosts,
//!   call(job), call(job), ...                     runs jobs that are transactions
//!   rest: gives the worker back                   of their own (numbers, garbage)
//!   call(job), ...: takes a worker again
//!   commit: commits, gives the worker back,
//!           waits until durable
//! ```
//!
//! A room is what a transaction needs beside a worker: a context, locks and changes, its picture of the
//! catalog. Some rooms are kept for the next transactions, without what a large one needed.
//!
//! Invariants:
//! 1. Worker 0 serves other hosts all the time, resting briefly between two looks when there is nothing; so
//!    no other worker has to.
//! 2. A slot that is dropped rolls back and gives its worker back.
//! 3. [`Slots::close`] takes every room away, also those in use, between two steps of their transactions:
//!    these are rolled back, and who runs them is told so at the next step (57P01).
//! 4. Who changes the catalog says so in a counter that all hosts see, before its first change and behind its
//!    end. It decides nothing: it says when it is worth looking for a newer catalog, and for those who wait
//!    for a relation. A host that dies with it set makes the others look each time.
//!
//! This is not for the simulator: there, transactions are run directly.

mod bell;
mod directory;
mod listeners;
mod room;
mod statement;
mod turns;
mod worker;

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use liger_engine::Durability;
use liger_engine::db::Host;
use liger_engine::row::{RowSession, Step, WorkerPool, WorkerToken};
use liger_fabric::native::HostMemory;

use crate::catalog::change::Working;
use crate::catalog::{HostCatalog, sequence};
use crate::error::{Result, Severity, SqlError, SqlState};
use crate::observe::Observed;
use crate::storage::access::{Access, is_conflict};
use crate::storage::classes::Classes;
use crate::storage::notices;
use crate::storage::undo::UndoLog;
use crate::types::Oid;
pub use bell::{Bell, Ringing};
pub use directory::Directory;
pub use listeners::Listeners;
use room::{Room, rooms};
pub use turns::{TakesTurns, Turn};
use worker::{Attendant, look};

/// Rooms that are kept for the next transactions, at most.
const SPARE: usize = 64;

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

/// A snapshot that a transaction of some host reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exported {
    /// The host.
    pub host: u8,
    /// As of when (docs/protocols/snapshots.md).
    pub moment: u64,
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

/// Where a room is: in here, and not any more once it was taken away for good.
type RoomCell = Arc<Mutex<Option<Box<dyn Room>>>>;

#[derive(Default)]
struct Pool {
    /// All rooms, and those that nobody uses.
    rooms: Vec<RoomCell>,
    free: Vec<RoomCell>,
    /// Makes more.
    makes: Option<Arc<dyn Fn() -> Box<dyn Room> + Send + Sync>>,
    /// For worker 0.
    orders: VecDeque<Order>,
    closed: bool,
}

/// The workers of a host. Shared by all its sessions.
pub struct Slots {
    pool: Mutex<Pool>,
    workers: Arc<WorkerPool>,
    /// Wakes worker 0, while there is one.
    wakes_attendant: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    observed: Observed,
    advisory: Ringing,
    turns: TakesTurns,
    listeners: Arc<Listeners>,
    directory: Directory,
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
        let (advisory, turns, listeners) = (Ringing::default(), TakesTurns::default(), Arc::default());
        let directory = Directory::default();
        let (private_bytes, workers) = (Arc::default(), Arc::default());
        Arc::new(Slots {
            pool,
            workers,
            wakes_attendant,
            observed,
            advisory,
            turns,
            listeners,
            directory,
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
        let (borrowing, tokens) = host.lend(1..workers);
        *lock(&self.wakes_attendant) = Some(Arc::new(host.waker()));
        host.alone(|session| {
            lock(&self.pool).makes = Some(rooms(self, catalog, borrowing, durability));
            self.workers.fill(tokens);
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
        drop(pool);
        self.workers.close();
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

    /// Takes every room away, waiting for the steps that run.
    fn take_back(&self) {
        self.close();
        let mut pool = lock(&self.pool);
        (pool.makes, pool.free) = (None, Vec::new());
        let rooms = std::mem::take(&mut pool.rooms);
        drop(pool);
        let mut taken: Vec<Box<dyn Room>> = Vec::new();
        for room in rooms {
            let Some(mut room) = lock(&room).take() else { continue };
            // Those that run may wait for the worker that it has.
            room.rest();
            taken.push(room);
        }
        taken.iter_mut().for_each(|room| room.end());
        self.workers.fill(Vec::new());
    }

    /// Sessions wait again for workers after [`Slots::close`].
    pub fn open(&self) {
        lock(&self.pool).closed = false;
        self.workers.open();
    }

    /// What is known of this host.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Bytes that the temporary objects of all sessions take (storage/private.rs).
    pub fn private_bytes(&self) -> &Arc<AtomicU64> {
        &self.private_bytes
    }

    /// How many workers nobody uses at present.
    pub fn idle(&self) -> usize {
        self.workers.idle()
    }

    /// Whether somebody waits for a worker. Costs a load.
    pub fn is_wanted(&self) -> bool {
        self.workers.is_wanted()
    }

    /// Waits for a worker and begins a transaction. `goes_on` is asked now and then while it waits.
    ///
    /// # Errors
    /// Those of `goes_on`; if the host ends.
    pub fn begin(
        self: &Arc<Self>,
        changes_catalog: bool,
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Slot> {
        let slot = self.borrow(goes_on)?;
        slot.in_room(|room| room.begin(changes_catalog))?;
        Ok(slot)
    }

    /// Brings the host's picture of the catalog up to what all hosts have committed, in no session's
    /// transaction. Worker 0 does so if no other one is free: whoever has them may be waiting for this. While
    /// somebody is changing the catalog the picture stays as it is, and nobody waits for that.
    ///
    /// # Errors
    /// Those of the engine, but no conflicts.
    pub fn look(self: &Arc<Self>) -> Result<()> {
        let free = self.workers.try_take(Step::First).map(|token| self.slot(token)).transpose()?;
        let looked = match free {
            Some(slot) => slot.in_room(|room| room.renew()),
            None => self.beside(None, |running| look(running.tx, running.host)),
        };
        // A conflict at its end tells of a change, too.
        let is_changing =
            |error: &SqlError| error.state == SqlState::LOCK_NOT_AVAILABLE || is_conflict(error);
        looked.or_else(|error| if is_changing(&error) { Ok(()) } else { Err(error) })
    }

    /// Waits for a worker, and takes a room.
    fn borrow(self: &Arc<Self>, goes_on: &mut dyn FnMut() -> Result<()>) -> Result<Slot> {
        self.slot(self.workers.take(Step::First, goes_on)?.ok_or_else(shut_down)?)
    }

    /// A room, with this worker.
    fn slot(self: &Arc<Self>, token: WorkerToken) -> Result<Slot> {
        let mut pool = lock(&self.pool);
        let place = pool.free.pop().or_else(|| {
            let place: RoomCell = Arc::new(Mutex::new(Some(pool.makes.clone()?())));
            pool.rooms.push(place.clone());
            Some(place)
        });
        drop(pool);
        let Some(place) = place else {
            self.workers.give(token);
            return Err(shut_down());
        };
        let slot = Slot { slots: self.clone(), place };
        // Refused, it would be in the pool again.
        let mut token = Some(token);
        let put = slot.in_room(|room| {
            token.take().into_iter().for_each(|token| room.put(token));
            Ok(())
        });
        token.into_iter().for_each(|token| self.workers.give(token));
        put.map(|()| slot)
    }

    /// Nobody uses the room any more, and no transaction is open in it.
    fn give_back(&self, place: &RoomCell) {
        let mut pool = lock(&self.pool);
        if pool.makes.is_none() {
            // All rooms are being taken away.
            return;
        }
        if pool.free.len() < SPARE {
            return pool.free.push(place.clone());
        }
        let at = pool.rooms.iter().position(|room| Arc::ptr_eq(room, place));
        at.into_iter().for_each(|at| drop(pool.rooms.swap_remove(at)));
    }

    /// Runs a transaction of one job on worker 0, which no session can occupy, and runs it again after
    /// conflicts, for a bounded time: for short ones that tell nobody anything, and are needed in the middle
    /// of another one (`nextval`).
    ///
    /// # Errors
    /// Those of the job and of the commit; 40001 when the time is over.
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
    /// As [`Slots::aside`].
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
    pub fn listeners(&self) -> &Listeners {
        &self.listeners
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
        let listeners = self.listeners.clone();
        self.later(None, move |running| {
            if listeners.is_wanted() {
                return Ok(());
            }
            notices::set_listening(running.tx, &classes, false)?;
            while !notices::take(running.tx, &classes)?.1 {}
            Ok(())
        });
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

/// A transaction of a session. Dropped, it is rolled back.
pub struct Slot {
    slots: Arc<Slots>,
    place: RoomCell,
}

impl Slot {
    fn in_room<R>(&self, work: impl FnOnce(&mut dyn Room) -> Result<R>) -> Result<R> {
        work(&mut **lock(&self.place).as_mut().ok_or_else(shut_down)?)
    }

    /// The number of the transaction among those of its host, by which others see what it waits for; `None`
    /// while it has no worker.
    pub fn number(&self) -> Option<u8> {
        self.in_room(|room| Ok(room.number())).unwrap_or_default()
    }

    /// Waits for a worker, if it has none. `goes_on` is asked now and then meanwhile.
    ///
    /// # Errors
    /// Those of `goes_on`; 57P01 if the host ends.
    pub fn go_on(&self, goes_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.in_room(|room| room.go_on(goes_on))
    }

    /// Gives its worker back: the statement is over, or waits.
    pub fn rest(&self) {
        // A room that was taken away has none.
        let _ = self.in_room(|room| {
            room.rest();
            Ok(())
        });
    }

    /// Between two steps of a statement: gives its worker back if others have waited for one for a while, and
    /// says whether it did.
    pub fn lend(&self) -> bool {
        self.in_room(|room| Ok(room.lend())).unwrap_or(false)
    }

    /// A transaction that has changed nothing yet, and read nothing but the catalog, reads from now on what
    /// has committed by now, as of one moment (a snapshot): it locks nothing, and can change nothing. False
    /// if it has changed something, the pod keeps no log, or one has failed. With `of` it reads what another
    /// transaction does. `goes_on` is asked now and then while it waits.
    ///
    /// # Errors
    /// Those of `goes_on`; conflicts, 55000 if that other one is not open any more or the catalog has changed
    /// since, and those of the engine: the transaction can only be rolled back.
    pub fn read_snapshot(
        &self,
        of: Option<Exported>,
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool> {
        self.in_room(|room| room.read_snapshot(of, goes_on))
    }

    /// What others need to read the same, if the transaction reads a snapshot.
    ///
    /// # Errors
    /// 57P01 if the host ends.
    pub fn exported(&self) -> Result<Option<Exported>> {
        self.in_room(|room| room.exported())
    }

    /// Runs a job in the transaction. After an error of the engine (40001 and the like) the transaction can
    /// only be rolled back.
    ///
    /// # Errors
    /// Those of the job; 57P01 if the host ends.
    pub fn call<R>(&self, job: impl FnOnce(&mut Running<'_>) -> Result<R>) -> Result<R> {
        let (mut job, mut made) = (Some(job), None);
        let mut step = |running: &mut Running<'_>| {
            let job = job.take().expect("it is run once");
            job(running).map(|result| made = Some(result))
        };
        self.in_room(|room| room.step(&mut step))?;
        Ok(made.expect("it was run"))
    }

    /// The pod's counter of announced changes of the catalog, how many there are at present in its lower
    /// half.
    ///
    /// # Errors
    /// 57P01 if the host ends.
    pub fn announcements(&self) -> Result<u64> {
        self.in_room(|room| Ok(room.announcements()))
    }

    /// Whether open transactions keep this host from taking over what a dead one had: one that waits for
    /// others has to end then, for they may wait for that.
    ///
    /// # Errors
    /// 57P01 if the host ends.
    pub fn is_held_up(&self) -> Result<bool> {
        self.in_room(|room| Ok(room.is_held_up()))
    }

    /// The transaction is to change the catalog: see invariant 4.
    ///
    /// # Errors
    /// 57P01 if the host ends.
    pub fn announce(&self) -> Result<()> {
        self.in_room(|room| room.announce())
    }

    /// Commits, and returns once that is as durable as the host's sessions are; `rings` then. `waits` is told
    /// that it waits for that.
    ///
    /// # Errors
    /// 40001 and those of the engine; nothing has happened then, but after 40003 nobody knows.
    pub fn commit(self, rings: Option<Bell>, waits: &mut dyn FnMut()) -> Result<()> {
        self.in_room(|room| room.commit(rings, waits))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // What cannot be ended is taken away, with all that it holds.
        if self.in_room(|room| room.roll_back()).is_ok() {
            self.slots.give_back(&self.place);
        }
    }
}
