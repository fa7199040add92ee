//! Transactions that belong to no worker.
//!
//! [`HostSession`] borrows its worker's context and its host, so it lives on the stack of one thread, and its
//! transaction with it. Who serves clients on threads of their own keeps a [`DetachedTxn`] for each instead,
//! and runs its steps with a worker from the pool (instance/pool.rs). A transaction that rests between two
//! steps, because its client thinks or it waits for something, holds its locks and no worker; nor does one
//! that waits for a row's lock in the middle of a step (method/tries.rs).
//!
//! Invariants:
//! 1. One thread uses a transaction at a time.
//! 2. What a transaction holds is with the session or in its state, also after a panic of whoever uses it.
//! 3. A transaction's locks name its number while it runs. While it rests they name that number, too, or if
//!    numbers are scarce `Holder::PARKED` (the method's). Nothing of that is seen by other hosts: to them,
//!    the host holds its rows all the time.
//! 4. A transaction that is open is ended by whoever has it, on some worker, before it is dropped.

use liger_fabric::{Cx, Fabric};

use super::Host;
use super::session::{Course, HostSession, sleep_for};
use super::transaction::Txn;
use crate::instance::{Holder, WorkerPool, WorkerToken};
use crate::method::{Holds, Method, Running, TxnState};
use crate::txn::{Durability, TxnError};

/// How long who finds no number waits for one.
const REST_NS: u64 = 50_000;
/// Memory that a room keeps for the next transaction, at most.
const KEPT_BYTES: usize = 256 << 10;

/// A transaction, or room for the next one, that no worker has at present.
pub struct DetachedTxn<M: Method>(Option<Rest<M>>);

/// What is left of a session that rests.
struct Rest<M: Method> {
    txn: Box<TxnState>,
    held: Box<M::Held>,
    course: Course,
    number: Number,
}

/// What the locks of a transaction that rests name.
enum Number {
    /// Nothing: it has none.
    None,
    /// Its number: its next step follows at once.
    Kept,
    /// Its number, as one of those that may.
    Resting,
    /// `Holder::PARKED`.
    Parked,
}

/// A session in use: its state goes back when the use ends, however that is.
struct Attached<'s, F: Fabric, M: Method> {
    session: Option<HostSession<'s, F, M>>,
    token: &'s mut Option<WorkerToken>,
    state: &'s mut Option<Rest<M>>,
}

impl<F: Fabric, M: Method> Drop for Attached<'_, F, M> {
    fn drop(&mut self) {
        let Some(HostSession { txn, course }) = self.session.take() else { return };
        let number = txn.detach(course.open);
        *self.token = txn.running.seat.token;
        *self.state = Some(Rest { txn: txn.running.state, held: txn.held, course, number });
    }
}

impl<M: Method> Rest<M> {
    fn is_kept(&self) -> bool {
        matches!(self.number, Number::Kept)
    }
}

impl<M: Method> DetachedTxn<M> {
    /// Room for transactions of a host, one after the other, each as durable as said.
    pub fn new<F: Fabric>(cx: &Cx<F>, host: &Host<M>, durability: Durability) -> Self {
        let (txn, held) = (Box::new(TxnState::new(cx, &host.instance)), Box::default());
        let mut course = Course::default();
        course.durability = durability;
        Self(Some(Rest { txn, held, course, number: Number::None }))
    }

    /// Runs a step of it on the calling thread, as the worker whose token this is, or another one of its pool
    /// if it waits in between.
    ///
    /// # Panics
    /// If there is no token.
    pub fn attach<F: Fabric, R>(
        &mut self,
        (cx, host): (&Cx<F>, &Host<M>),
        (pool, token): (&WorkerPool, &mut Option<WorkerToken>),
        work: impl FnOnce(&mut HostSession<'_, F, M>) -> R,
    ) -> R {
        let Rest { txn, held, course, number } = self.0.take().expect("it is back after each use");
        let worker = token.as_ref().expect("a step has a worker").worker();
        let txn = Txn::on(cx, host, (txn, held), (token.take(), Some(pool)));
        let mut attached = Attached { session: Some(HostSession { txn, course }), token, state: &mut self.0 };
        let session = attached.session.as_mut().expect("taken when it is dropped");
        let running = &mut session.txn.running;
        running.seat.run_as(&mut running.state, worker);
        session.txn.go_on(number);
        work(session)
    }

    /// Its worker is given back: its next step may be a long way off.
    pub fn rest<F: Fabric>(&mut self, cx: &Cx<F>, host: &Host<M>) {
        let Some(Rest { txn, held, course, .. }) = self.0.take_if(|rest| rest.is_kept()) else { return };
        let mut txn = Txn::on(cx, host, (txn, held), (None, None));
        let number = txn.rest();
        self.0 = Some(Rest { txn: txn.running.state, held: txn.held, course, number });
    }

    /// Rows that it has to look at if it rests now: all that it holds, where numbers are scarce.
    pub fn rows_to_park(&self, host: &Host<M>) -> usize {
        if host.transactions.could_rest() { 0 } else { self.resting().held.count() }
    }

    /// Gives back what a large transaction needed, and the next one hardly will.
    pub fn shrink(&mut self) {
        let Some(Rest { txn, held, course: Course { open: false, .. }, .. }) = &mut self.0 else { return };
        debug_assert_eq!(held.count(), 0, "what is not open holds nothing");
        if txn.memory() + held.memory() > KEPT_BYTES {
            txn.forget_memory();
            held.forget_memory();
        }
    }

    fn resting(&self) -> &Rest<M> {
        self.0.as_ref().expect("it is back after each use")
    }

    /// Whether its last transaction is as durable as said. That needs no worker.
    ///
    /// # Errors
    /// As [`crate::Session::is_durable`].
    pub fn is_durable<F: Fabric>(&self, cx: &Cx<F>, host: &Host<M>) -> Result<bool, TxnError> {
        let course = &self.resting().course;
        match course.durability {
            Durability::Storage => course.is_durable(cx, host, course.last),
            _ => Ok(true),
        }
    }

    /// Sleeps until it may be, but not long.
    pub fn sleep_until_durable<F: Fabric>(&self, cx: &Cx<F>, host: &Host<M>) {
        sleep_for(cx, host, self.resting().course.last);
    }

    /// The number of the transaction that is open, by which others see what it waits for
    /// ([`Waits::of`](crate::instance::Waits::of)); `None` while it rests.
    pub fn number(&self) -> Option<u8> {
        let rest = self.resting();
        rest.is_kept().then_some(rest.txn.me.index() as u8)
    }

    /// Whether a transaction has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.0.as_ref().is_some_and(|rest| rest.course.open)
    }
}

impl<M: Method> Drop for DetachedTxn<M> {
    fn drop(&mut self) {
        debug_assert!(!self.is_open() || std::thread::panicking(), "dropped with all that it holds");
    }
}

impl<F: Fabric, M: Method> Txn<'_, F, M> {
    /// It has a worker again.
    fn go_on(&mut self, number: Number) {
        let open = &self.host.transactions;
        let Running { state, seat } = &mut self.running;
        match number {
            Number::None => {
                while !open.take_number(&mut state.me) {
                    seat.rest_without_worker(state, REST_NS, false);
                }
            }
            Number::Kept => {}
            Number::Resting => open.go_on(),
            Number::Parked => {
                while !open.unpark(state.round, &mut state.me) {
                    seat.rest_without_worker(state, REST_NS, false);
                }
                let (method, txn) = self.parts();
                method.unpark(txn);
                debug_assert_ne!(self.running.state.me, Holder::PARKED, "it has a number");
            }
        }
    }

    /// A step is over.
    fn detach(&self, is_open: bool) -> Number {
        if is_open {
            return Number::Kept;
        }
        let holds = self.held.count();
        debug_assert!(holds == 0 || std::thread::panicking(), "what has ended holds nothing");
        self.host.transactions.give_number(self.running.state.me);
        Number::None
    }

    /// Its next step may be a long way off.
    fn rest(&mut self) -> Number {
        let open = &self.host.transactions;
        if open.may_rest() {
            return Number::Resting;
        }
        debug_assert!(self.running.seat.pool.is_none(), "no step runs");
        let (method, txn) = self.parts();
        method.park(txn);
        open.park(self.running.state.me, self.running.state.round);
        Number::Parked
    }
}
