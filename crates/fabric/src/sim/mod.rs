//! A simulated pod in one thread: coroutines as workers, memory that is truly incoherent, every choice from a
//! seed.
//!
//! ```
//! use liger_fabric::sim::{SimConfig, Simulation};
//! use liger_fabric::{DataAddr, HostId, SyncAddr, WorkerId};
//!
//! let (flag, data) = (SyncAddr::new(0), DataAddr::new(64));
//! let mut sim = Simulation::new(SimConfig::adversarial(2, 4096, 7));
//! sim.spawn(HostId(0), WorkerId(0), move |cx| {
//!     cx.publish(data, &[42]);
//!     cx.store(flag, 1);
//! });
//! sim.spawn(HostId(1), WorkerId(0), move |cx| {
//!     while cx.load(flag) == 0 {
//!         cx.pause();
//!     }
//!     let mut byte = [0];
//!     cx.refresh(data, &mut byte);
//!     assert_eq!(byte, [42]);
//! });
//! sim.run().expect_completed();
//! ```
//!
//! Invariants:
//! 1. A run is a function of its configuration and program: no clock, no thread, no address, no hashing
//!    order.
//! 2. A verb is a point where others may run (in virtual time, `spend` is another); between two such points a
//!    worker is alone.
//! 3. A worker of a dead host runs no more; its destructors do, and their verbs do nothing.
//!
//! What it does not do: tear data inside a line, reorder a worker's data accesses, or lose messages of the
//! network.

use crate::fabric::Fabric;
mod bells;
mod call_sites;
mod config;
mod coroutine;
mod disk_calls;
mod explain;
mod explore;
mod incoherent;
mod machine;
mod network;
mod remote;
mod report;
mod rules;
mod schedule;
mod script;
mod timed;
mod verbs;

use std::cell::{Cell, RefCell, RefMut};
use std::panic::Location;
use std::rc::Rc;

pub use crate::profile::{
    Cache, Compute, Hwcc, Memory, Net, Pcc, Profile, ProfileError, Quantity, Rdma, Wait,
};
pub use call_sites::Listed;
pub use config::{Adversary, Kill, KillAt, Mode, SimConfig};
pub use explain::{Actor, Rule, Site, Verb, Violation};
pub use explore::{Exploration, explore};
pub use incoherent::CrashDomain;
pub use report::{HostReport, Outcome, Report, TimeUse};
pub(crate) use schedule::Random;
pub use schedule::Scheduler;

use crate::cx::{Cx, HostId, WorkerId};
use crate::disk::SimDisks;
use coroutine::{Door, Thread, unwind_killed};
use machine::State;
use rules::Broken;

/// One worker's door to a simulated pod.
pub struct Sim {
    state: Rc<RefCell<State>>,
    me: usize,
    door: Door,
    timed: bool,
}

/// A pod and the workers that run on it.
pub struct Simulation {
    state: Rc<RefCell<State>>,
    threads: Vec<Thread>,
}

impl Simulation {
    /// An empty pod, its memory all zeros, its disks empty.
    pub fn new(config: SimConfig) -> Self {
        let disks = SimDisks::new(config.seed);
        Self::with_disks(config, disks)
    }

    /// An empty pod with the disks of another one: its next run.
    pub fn with_disks(config: SimConfig, disks: SimDisks) -> Self {
        Self { state: Rc::new(RefCell::new(State::new(config, disks))), threads: Vec::new() }
    }

    /// The pod's disks.
    pub fn disks(&self) -> SimDisks {
        self.state.borrow().disks.clone()
    }

    /// Adds a worker; it starts with [`Self::run`].
    pub fn spawn(&mut self, host: HostId, worker: WorkerId, body: impl FnOnce(&Cx<Sim>) + 'static) {
        let index = self.add(host, worker, false, body);
        let state = &mut *self.state.borrow_mut();
        state.picker.add(index, &mut state.random);
    }

    /// Adds a worker that starts when its host has died once: the host's next incarnation. It never runs if
    /// the host lives.
    pub fn spawn_after_crash(
        &mut self,
        host: HostId,
        worker: WorkerId,
        body: impl FnOnce(&Cx<Sim>) + 'static,
    ) {
        self.add(host, worker, true, body);
    }

    fn add(
        &mut self,
        host: HostId,
        worker: WorkerId,
        waits: bool,
        body: impl FnOnce(&Cx<Sim>) + 'static,
    ) -> usize {
        let mut state = self.state.borrow_mut();
        let me = state.add_worker(host, worker, waits);
        assert_eq!(me, self.threads.len(), "a worker's number is its thread's");
        // Incarnations of one worker number differ in their random numbers.
        let seed = state.config.seed.wrapping_add((me as u64) << 48);
        let timed = state.is_timed();
        drop(state);
        let state = Rc::clone(&self.state);
        self.threads.push(Thread::new(move |door| {
            body(&Cx::new(Sim { state, me, door, timed }, host, worker, seed));
        }));
        me
    }

    /// Runs `body` to its end with nobody else running and no adversary, and lets everything reach the shared
    /// memory: for preparing memory before a run and looking at it afterwards.
    ///
    /// # Panics
    /// If `body` does, breaks a rule, or waits for somebody.
    #[track_caller]
    pub fn alone<R: 'static>(
        &mut self,
        host: HostId,
        worker: WorkerId,
        body: impl FnOnce(&Cx<Sim>) -> R + 'static,
    ) -> R {
        self.try_alone(host, worker, body).unwrap_or_else(|failure| panic!("a lone worker failed: {failure}"))
    }

    /// As [`Self::alone`], for programs that are expected to fail.
    ///
    /// # Errors
    /// What stopped `body`, if it did not end by itself.
    pub fn try_alone<R: 'static>(
        &mut self,
        host: HostId,
        worker: WorkerId,
        body: impl FnOnce(&Cx<Sim>) -> R + 'static,
    ) -> Result<R, Box<Outcome>> {
        let result = Rc::new(Cell::new(None));
        let slot = Rc::clone(&result);
        self.state.borrow_mut().quiesce();
        let index = self.add(host, worker, false, move |cx| slot.set(Some(body(cx))));
        assert!(!self.state.borrow().quiet, "a lone worker starts no other one");
        let stop = self.state.borrow_mut().stop.take();
        self.state.borrow_mut().quiet = true;
        self.resume(index);
        let mut state = self.state.borrow_mut();
        assert!(state.quiet, "nobody else ran beside the lone worker");
        state.quiet = false;
        state.quiesce();
        let failure = std::mem::replace(&mut state.stop, stop);
        if self.threads[index].alive() {
            state.retire(index);
            drop(state);
            self.unwind(index);
        }
        result.take().ok_or_else(|| Box::new(failure.expect("a lone worker that does not end was stopped")))
    }

    /// Verbs so far, of everybody.
    pub fn verbs(&self) -> u64 {
        self.state.borrow().step
    }

    /// Lets the next run end as [`Outcome::OutOfVerbs`] after so many more verbs: everybody dies at once.
    pub fn end_after(&mut self, verbs: u64) {
        let mut state = self.state.borrow_mut();
        state.config.max_verbs = state.step + verbs;
    }

    /// Kills a host after so many more verbs of everybody, if it still lives then.
    pub fn kill_after(&mut self, host: HostId, verbs: u64, domain: CrashDomain) {
        let mut state = self.state.borrow_mut();
        assert!(usize::from(host.0) < state.config.hosts, "host {} is not in this pod", host.0);
        let at = KillAt::Step(state.step + verbs);
        state.kills.push((host, at, domain));
    }

    /// Runs all workers until they have ended or something stops the run. More workers may be added
    /// afterwards and run on the memory as it is.
    pub fn run(&mut self) -> Report {
        self.state.borrow_mut().choose_first();
        loop {
            let state = self.state.borrow();
            let (victims, next) = (!state.victims.is_empty(), state.current);
            let over = state.stop.is_some() || state.picker.runnable().is_empty();
            debug_assert!(over || victims || state.picker.runnable().contains(&(next as u16)), "{next} runs");
            drop(state);
            if victims {
                self.unwind_victims();
            } else if over {
                break;
            } else {
                self.resume(next);
            }
        }
        self.unwind_everybody();
        self.state.borrow_mut().report()
    }

    fn unwind_victims(&mut self) {
        loop {
            let victim = self.state.borrow_mut().victims.pop();
            let Some(victim) = victim else { return };
            self.unwind(victim);
            self.state.borrow_mut().choose_if_gone();
        }
    }

    /// Ends all workers that have not ended; those that never ran are dropped.
    fn unwind_everybody(&mut self) {
        for index in 0..self.threads.len() {
            if self.threads[index].alive() {
                self.state.borrow_mut().retire(index);
                self.unwind(index);
            }
        }
        assert!(self.threads.iter().all(|thread| !thread.alive()), "a run leaves no worker behind");
    }

    fn unwind(&mut self, index: usize) {
        if self.threads[index].started() {
            self.resume(index);
            assert!(!self.threads[index].alive(), "a killed worker caught its own unwinding and went on");
        } else {
            self.threads[index].discard();
            assert!(!self.threads[index].alive(), "a worker that was never started is over");
        }
    }

    fn resume(&mut self, index: usize) {
        debug_assert!(!self.state.borrow().workers[index].done, "worker {index} has ended");
        let Some(end) = self.threads[index].resume() else { return };
        self.state.borrow_mut().ended(index, end);
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.unwind_everybody();
        }
    }
}

impl Sim {
    /// Kills a host now (for tests that steer a crash to a place in the program). A worker may kill its own
    /// host.
    pub fn kill_host(&self, host: HostId, domain: CrashDomain) {
        let mut state = self.state.borrow_mut();
        if self.is_inert(&mut state) {
            return;
        }
        state.kill(usize::from(host.0), domain);
        drop(state);
        self.suspend();
    }

    /// While `spared`, nobody is killed: no planned death comes, and no host is cut off.
    pub fn spare_all(&self, spared: bool) {
        self.state.borrow_mut().spared = spared;
    }

    /// Kills a host before the so many-th verb (from 1) that it calls from now on, if it still lives then.
    pub fn kill_before(&self, host: HostId, verb: u64, domain: CrashDomain) {
        let mut state = self.state.borrow_mut();
        let at = KillAt::HostStep(state.hosts[usize::from(host.0)].verbs + verb);
        state.kills.push((host, at, domain));
    }

    /// From now on the report lists every verb of these hosts (bit h for host h), and of no others.
    pub fn list_verbs(&self, hosts: u16) {
        self.state.borrow_mut().call_sites.list(hosts);
    }

    /// Which incarnation of a host this is, from 1: what its processes are named by.
    pub fn incarnation(&self, host: HostId) -> u64 {
        self.state.borrow().hosts[usize::from(host.0)].incarnation()
    }

    fn is_inert(&self, state: &mut State) -> bool {
        let inert = state.workers[self.me].inert || std::thread::panicking();
        if inert {
            state.inert_verb(self.me);
        }
        inert
    }

    /// Gives control back; unwinds if this worker may not go on.
    fn suspend(&self) {
        self.door.suspend();
        let mut state = self.state.borrow_mut();
        debug_assert!(state.workers[self.me].killed || state.current == self.me, "it is {}'s turn", self.me);
        if state.workers[self.me].killed {
            state.workers[self.me].inert = true;
            drop(state);
            unwind_killed();
        }
    }

    /// The turn before a verb; `None` when the worker is dying and the verb must do nothing.
    #[inline]
    fn enter(
        &self,
        verb: Verb,
        at: u64,
        len: usize,
        place: &'static Location<'static>,
    ) -> Option<RefMut<'_, State>> {
        let mut state = self.state.borrow_mut();
        if state.config.sabotage.is_some() {
            let turns = state.stall(self.me);
            drop(state);
            (0..turns).for_each(|_| Fabric::pause(self));
            state = self.state.borrow_mut();
        }
        if self.is_inert(&mut state) {
            return None;
        }
        if state.before(self.me, verb, at, place) {
            drop(state);
            self.suspend();
            state = self.state.borrow_mut();
        }
        if at.saturating_add(len as u64) > state.config.len as u64 {
            self.leave(state, Err(Broken::out_of_bounds(at)))
        } else {
            Some(state)
        }
    }

    /// The end of a verb: stops the run if it broke a rule.
    #[inline]
    fn leave<T>(&self, mut state: RefMut<'_, State>, result: Result<T, Broken>) -> T {
        match result {
            Ok(value) => value,
            Err(broken) => {
                state.violation(self.me, &broken);
                state.workers[self.me].inert = true;
                drop(state);
                unwind_killed();
            }
        }
    }
}
