//! A host's workers, lent to transactions for as long as these do something.
//!
//! A worker is a number, a ring of the log and a mailbox; there are at most 31 on a host, and usually a few.
//! Transactions are many: one that waits, for its client, for a lock, or until it is durable, holds none. So
//! threads of their own run steps of transactions, each with a [`WorkerToken`] from the pool.
//!
//! Invariants:
//! 1. There are so many tokens as workers were lent; whoever has one may run as that worker, and nobody else.
//! 2. Who begins a transaction is admitted only while fewer transactions do something than there are workers:
//!    more of them at once would only be more in each other's way. A transaction that goes on, and may hold
//!    what others wait for, is admitted always, and comes before those; but one that has lent its worker in
//!    the middle of a long statement stands behind those who waited then, and overtakes nobody.
//! 3. A transaction that waits for a row's lock lays its worker down, and counts as doing something for a
//!    short time yet: who waits long keeps nobody from beginning.
//! 4. Who has laid its worker down and finds none when it goes on comes before those who begin, too.
//! 5. Who has just come overtakes those in line only until the first of these has waited for [`LOOK`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use liger_fabric::{Cx, Fabric, WorkerId};

use super::Instance;
use crate::log::WorkerLog;

/// How often who waits for a worker looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// The right to run as one of a host's workers, and that worker's ring of the log.
#[derive(Debug)]
pub struct WorkerToken {
    pub(crate) worker: WorkerId,
    pub(crate) log: Option<WorkerLog>,
}

impl WorkerToken {
    /// Of a worker of the caller's host. There is one of them at a time.
    pub fn new<F: Fabric>(cx: &Cx<F>, host: &Instance, worker: WorkerId) -> Self {
        Self { worker, log: host.log.as_ref().map(|log| log.worker(cx, worker)) }
    }

    /// The worker's number.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }
}

/// What a transaction wants a worker for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Its first step.
    First,
    /// Another one.
    Next,
    /// Another one, after it has lent its worker: behind all who wait to begin.
    Again,
}

/// Somebody in line.
struct Waiting {
    bell: Arc<Condvar>,
    /// It has waited for [`LOOK`], or was woken and found that somebody else was faster.
    overdue: bool,
}

#[derive(Default)]
struct State {
    free: Vec<WorkerToken>,
    lent: usize,
    /// Transactions that do something, or have begun to wait for a lock in the middle of a step.
    active: usize,
    first: VecDeque<Waiting>,
    next: VecDeque<Waiting>,
    /// Transactions that would go on in the middle of a step.
    going_on: usize,
    closed: bool,
}

impl State {
    fn line(&mut self, step: Step) -> &mut VecDeque<Waiting> {
        match step {
            Step::First | Step::Again => &mut self.first,
            Step::Next => &mut self.next,
        }
    }

    fn may_begin(&self) -> bool {
        self.active < self.lent && self.going_on == 0
    }

    /// A worker for whoever is next in this line.
    fn take(&mut self, step: Step) -> Option<WorkerToken> {
        let admitted = match step {
            Step::First | Step::Again => self.may_begin() && self.next.is_empty(),
            Step::Next => true,
        };
        let token = admitted.then(|| self.free.pop())??;
        self.active += 1;
        Some(token)
    }

    /// A worker for somebody who has just come.
    fn take_at_once(&mut self, step: Step) -> Option<WorkerToken> {
        let overtakes = step != Step::Again;
        let may = !self.closed && self.line(step).front().is_none_or(|first| overtakes && !first.overdue);
        may.then(|| self.take(step))?
    }

    /// Wakes the first in line for whom there is something.
    fn wake(&self) {
        let may_begin = self.may_begin();
        let first = self.next.front().or(if may_begin { self.first.front() } else { None });
        if let (Some(first), false) = (first, self.free.is_empty()) {
            first.bell.notify_one();
        }
    }
}

/// The workers of a host that are lent. Shared by all that borrow them.
#[derive(Default)]
pub struct WorkerPool {
    state: Mutex<State>,
    /// How many wait for one.
    wanted: AtomicU32,
}

impl WorkerPool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are lent, in place of all that were before.
    pub fn fill(&self, tokens: Vec<WorkerToken>) {
        let mut state = self.state();
        (state.lent, state.free, state.active) = (tokens.len(), tokens, 0);
        let all = state.first.iter().chain(&state.next);
        all.for_each(|one| one.bell.notify_one());
    }

    /// Whoever wants a worker is refused, and who waits.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.first.iter().chain(&state.next).for_each(|one| one.bell.notify_one());
    }

    /// Whoever wants a worker waits for it again.
    pub fn open(&self) {
        self.state().closed = false;
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Workers that nobody uses.
    pub fn idle(&self) -> usize {
        self.state().free.len()
    }

    /// Whether somebody waits for one, as far as the caller knows. Costs a load.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// A worker, if there is one for this step now.
    pub fn try_take(&self, step: Step) -> Option<WorkerToken> {
        self.state().take_at_once(step)
    }

    /// A worker for this step; waits for it, and asks `goes_on` now and then. `None`: the pool is closed.
    ///
    /// # Errors
    /// Those of `goes_on`.
    pub fn take<E>(
        &self,
        step: Step,
        mut goes_on: impl FnMut() -> Result<(), E>,
    ) -> Result<Option<WorkerToken>, E> {
        let mut state = self.state();
        if let Some(token) = state.take_at_once(step) {
            return Ok(Some(token));
        }
        self.wanted.fetch_add(1, Ordering::Relaxed);
        let bell = Arc::new(Condvar::new());
        state.line(step).push_back(Waiting { bell: bell.clone(), overdue: false });
        loop {
            let ended = if state.closed { Some(Ok(None)) } else { goes_on().err().map(Err) };
            let at = state.line(step).iter().position(|one| Arc::ptr_eq(&one.bell, &bell));
            let at = at.expect("it leaves the line only here");
            let token = if ended.is_none() && at == 0 { state.take(step) } else { None };
            if ended.is_some() || token.is_some() {
                state.line(step).remove(at);
                self.wanted.fetch_sub(1, Ordering::Relaxed);
                state.wake();
                return ended.unwrap_or(Ok(token));
            }
            state = bell.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            let own = state.line(step).iter_mut().find(|one| Arc::ptr_eq(&one.bell, &bell));
            own.expect("it leaves the line only here").overdue = true;
        }
    }

    /// A worker for who ends what is left after [`WorkerPool::close`], if there is one now.
    pub fn take_at_last(&self) -> Option<WorkerToken> {
        debug_assert!(self.is_closed(), "others come before");
        let mut state = self.state();
        let token = state.free.pop()?;
        state.active += 1;
        Some(token)
    }

    /// The step is over.
    pub fn give(&self, token: WorkerToken) {
        let mut state = self.state();
        state.active -= 1;
        state.free.push(token);
        state.wake();
    }

    /// The transaction waits in the middle of its step; `long`: others may begin in its place.
    pub(crate) fn lay_down(&self, token: WorkerToken, long: bool) {
        let mut state = self.state();
        state.active -= usize::from(long);
        state.free.push(token);
        state.wake();
    }

    /// It goes on; `long` as before. `rest` is called for as long as there is no worker. Not refused when the
    /// pool is closed: its step is still to end.
    pub(crate) fn pick_up(&self, long: bool, mut rest: impl FnMut()) -> WorkerToken {
        let mut waits = false;
        loop {
            let mut state = self.state();
            if let Some(token) = state.free.pop() {
                state.active += usize::from(long);
                state.going_on -= usize::from(waits);
                self.wanted.fetch_sub(waits.into(), Ordering::Relaxed);
                // Who begins has waited for this one.
                state.wake();
                return token;
            }
            if !std::mem::replace(&mut waits, true) {
                state.going_on += 1;
                self.wanted.fetch_add(1, Ordering::Relaxed);
            }
            drop(state);
            rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(workers: u8) -> WorkerPool {
        let pool = WorkerPool::default();
        pool.fill((1..=workers).map(|worker| WorkerToken { worker: WorkerId(worker), log: None }).collect());
        pool
    }

    #[test]
    fn who_begins_is_admitted_while_fewer_are_at_work_than_there_are_workers() {
        let pool = pool(2);
        let take = |step| pool.try_take(step);
        let (one, two) = (take(Step::First).expect("free"), take(Step::First).expect("free"));
        assert!(take(Step::Next).is_none(), "both are in use");
        pool.lay_down(one, false);
        assert!(take(Step::First).is_none(), "two are at work, one of which waits");
        let next = take(Step::Next).expect("one is laid down");
        let (mut rests, mut next) = (0, Some(next));
        let one = pool.pick_up(false, || {
            assert!(pool.is_wanted(), "it waits for one");
            rests += 1;
            if rests == 3 {
                pool.give(next.take().expect("the third time comes once"));
            }
        });
        assert!(rests == 3 && !pool.is_wanted());
        pool.lay_down(one, true);
        let mut other = Some(take(Step::First).expect("it waits long"));
        let one = pool.pick_up(true, || {
            pool.give(other.take().expect("it is free then"));
            assert!(take(Step::First).is_none(), "who goes on comes first");
        });
        pool.give(one);
        pool.give(two);
        assert!(take(Step::First).is_some() && take(Step::First).is_some() && pool.idle() == 0);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "those who wait are threads")]
    fn who_has_lent_a_worker_overtakes_nobody() {
        let pool = pool(1);
        let token = pool.try_take(Step::First).expect("free");
        let came = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let waits = |name| {
                let taken = pool.take(Step::First, || Ok::<(), ()>(())).expect("it is not stopped");
                came.lock().expect("no panic").push(name);
                pool.give(taken.expect("it is open"));
            };
            scope.spawn(move || waits("begins"));
            while !pool.is_wanted() {
                std::thread::yield_now();
            }
            pool.give(token);
            // At once, which is sooner than anybody wakes up.
            let again = pool.take(Step::Again, || Ok::<(), ()>(())).expect("it is not stopped");
            came.lock().expect("no panic").push("goes on");
            pool.give(again.expect("it is open"));
        });
        assert_eq!(came.into_inner().expect("no panic"), ["begins", "goes on"]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "those who wait are threads")]
    fn who_waits_gets_the_next_one_or_is_told_that_there_is_none() {
        let pool = pool(1);
        let token = pool.try_take(Step::First).expect("free");
        let stopped = pool.take(Step::First, || Err("enough"));
        assert_eq!(stopped.err(), Some("enough"));
        std::thread::scope(|scope| {
            let waits = |step| pool.take(step, || Ok::<(), ()>(())).expect("it is not stopped");
            let (next, first) =
                (scope.spawn(move || waits(Step::Next)), scope.spawn(move || waits(Step::First)));
            let waiting = |state: MutexGuard<'_, State>| state.first.len() + state.next.len();
            while waiting(pool.state()) < 2 {
                std::thread::yield_now();
            }
            pool.give(token);
            let token = next.join().expect("it does not panic").expect("it goes on before others begin");
            assert!(!first.is_finished());
            pool.give(token);
            assert!(first.join().expect("it does not panic").is_some(), "the only one");
        });
        pool.close();
        assert!(pool.take(Step::Next, || Ok::<(), ()>(())).expect("it is not stopped").is_none());
        assert!(pool.try_take(Step::Next).is_none() && pool.is_closed());
    }
}
