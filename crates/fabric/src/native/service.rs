//! A thread that stands in for a host's workers while none of them runs.
//!
//! Other hosts may ask a host for something at any time: for rows, for the self-test at their join, for its
//! part in reclamation. Workers answer between their own transactions; this thread does so the rest of the
//! time.
//!
//! Invariants:
//! 1. It takes turns as one worker number, and takes none while a [`Rest`] lives: whoever holds one may use
//!    that number.
//! 2. It sleeps between turns for as long as the last one has said, or until its bell is rung
//!    ([`Fabric::doze`]), it is nudged, or somebody wants a rest.
//! 3. A turn that panics ends the thread; [`Service::failure`] says so, and rests are granted at once.

#![expect(clippy::disallowed_methods, reason = "the backend is where threads are started")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::HostMemory;
use super::workers::message_of;
use crate::addr::SyncAddr;
use crate::cx::{Cx, WorkerId};
use crate::fabric::Fabric;

/// What a turn without work asks for if it knows nothing better: a fraction of what a joining host waits for
/// an answer.
pub const IDLE_NS: u64 = 50_000;

#[derive(Default)]
struct State {
    /// Rests asked for or held.
    rests: u32,
    /// The thread is between turns and waits.
    resting: bool,
    /// Somebody wants the next turn now.
    nudged: bool,
    stop: bool,
    ended: bool,
    failure: Option<String>,
}

impl State {
    /// Somebody wants something of the thread itself.
    fn is_called(&self) -> bool {
        self.rests > 0 || self.stop || self.nudged
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is only ever assigned to, so a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread; it ends when this is dropped.
pub struct Service {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Wakes the thread if it sleeps at its bell.
    ring: Box<dyn Fn() + Send + Sync>,
}

/// A way to have a service's next turn begin now.
#[derive(Clone)]
pub struct Nudge(Arc<Shared>);

impl Nudge {
    /// Ends the present sleep, or keeps the next one from beginning.
    pub fn nudge(&self) {
        self.0.lock().nudged = true;
        self.0.changed.notify_all();
    }
}

/// While it lives, the service takes no turn.
#[must_use = "the service goes on when this is dropped"]
pub struct Rest<'a> {
    shared: &'a Shared,
}

impl Service {
    /// Starts a service that takes turns as worker `worker` of the host. A turn returns for how many
    /// nanoseconds the thread may sleep; 0: there may be more to do. Where there is a bell, a turn that found
    /// nothing is taken once more before the thread sleeps there.
    pub fn start<M: HostMemory>(
        host: &M,
        worker: WorkerId,
        seed: u64,
        bell: Option<SyncAddr>,
        turn: impl Fn(&Cx<M::View>) -> u64 + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let ringing = host.clone();
        let ring = Box::new(move || {
            if let Some(bell) = bell {
                ringing.cx(worker, seed).ring(bell);
            }
        });
        let (inner, host) = (shared.clone(), host.clone());
        let thread = std::thread::spawn(move || {
            let cx = host.cx(worker, seed);
            let ended = catch_unwind(AssertUnwindSafe(|| serve(&inner, &cx, bell, &turn)));
            let mut state = inner.lock();
            assert!(!state.ended, "a service ends once");
            state.ended = true;
            state.failure = ended.err().map(|panic| message_of(&*panic));
            inner.changed.notify_all();
        });
        Self { shared, thread: Some(thread), ring }
    }

    /// Calls the thread out of its sleep.
    fn call(&self, what: impl FnOnce(&mut State)) {
        what(&mut self.shared.lock());
        self.shared.changed.notify_all();
        (self.ring)();
    }

    /// Waits until the thread is between two turns and keeps it there.
    pub fn rest(&self) -> Rest<'_> {
        self.call(|state| state.rests += 1);
        let mut state = self.shared.lock();
        while !state.resting && !state.ended {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        assert!(state.rests > 0, "a rest counts until it is dropped");
        Rest { shared: &self.shared }
    }

    /// A way to end its sleeps early.
    pub fn nudge(&self) -> Nudge {
        Nudge(self.shared.clone())
    }

    /// What the thread said when it panicked, if it did.
    pub fn failure(&self) -> Option<String> {
        self.shared.lock().failure.clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.call(|state| state.stop = true);
        if let Some(thread) = self.thread.take() {
            // Its panic is kept in the state.
            let _ = thread.join();
        }
    }
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        let rests = &mut self.shared.lock().rests;
        assert!(*rests > 0, "a rest ends once");
        *rests -= 1;
        self.shared.changed.notify_all();
    }
}

/// Takes turns until it is told to stop.
fn serve<F: Fabric>(shared: &Shared, cx: &Cx<F>, bell: Option<SyncAddr>, turn: &impl Fn(&Cx<F>) -> u64) {
    loop {
        let mut state = shared.lock();
        while state.rests > 0 && !state.stop {
            if !state.resting {
                state.resting = true;
                shared.changed.notify_all();
            }
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        (state.resting, state.nudged) = (false, false);
        if state.stop {
            return;
        }
        assert_eq!(state.rests, 0, "no turn is taken during a rest");
        drop(state);
        match (turn(cx), bell) {
            (0, _) => {}
            (_, Some(bell)) => cx.doze(bell, || if shared.lock().is_called() { 0 } else { turn(cx) }),
            (rest_ns, None) => {
                let state = shared.lock();
                let time = Duration::from_nanos(rest_ns);
                // Timed out or called: the next turn is due either way.
                let _ = shared.changed.wait_timeout_while(state, time, |state| !state.is_called());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::HostId;
    use crate::native::{Mapping, Native, NativeHost};
    use crate::sync_mode::SyncMode;

    const TURNS: SyncAddr = SyncAddr::new(64);

    fn service(mapping: &Arc<Mapping>, fails_at: u64) -> Service {
        let host = NativeHost::new(mapping.clone(), SyncMode::Hwcc, HostId(1));
        Service::start(&host, WorkerId(2), 1, None, move |cx| {
            assert_eq!((cx.host(), cx.worker()), (HostId(1), WorkerId(2)));
            assert!(cx.fetch_add(TURNS, 1) < fails_at, "enough");
            0
        })
    }

    #[test]
    fn takes_no_turn_during_a_rest() {
        let mapping = Mapping::anonymous(4096).expect("memory");
        let cx = Cx::new(Native::new(mapping.clone()), HostId(0), WorkerId(0), 1);
        let service = service(&mapping, u64::MAX);
        while cx.load(TURNS) < 100 {
            cx.pause();
        }
        let (rest, second) = (service.rest(), service.rest());
        let turns = cx.load(TURNS);
        drop(rest);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(cx.load(TURNS), turns);
        drop(second);
        while cx.load(TURNS) == turns {
            cx.pause();
        }
        drop(service);
        let turns = cx.load(TURNS);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(cx.load(TURNS), turns);
    }

    #[test]
    fn a_nudge_ends_a_sleep() {
        let mapping = Mapping::anonymous(4096).expect("memory");
        let host = NativeHost::new(mapping.clone(), SyncMode::Hwcc, HostId(1));
        let service = Service::start(&host, WorkerId(2), 1, None, move |cx| {
            cx.fetch_add(TURNS, 1);
            3_600_000_000_000
        });
        let cx = Cx::new(Native::new(mapping), HostId(0), WorkerId(0), 1);
        for turns in 1..10 {
            while cx.load(TURNS) < turns {
                cx.pause();
            }
            service.nudge().nudge();
        }
        // Neither a rest nor the end waits for the sleep.
        drop(service.rest());
        drop(service);
    }

    #[test]
    fn a_panic_is_told_and_blocks_nobody() {
        let mapping = Mapping::anonymous(4096).expect("memory");
        let service = service(&mapping, 10);
        while service.failure().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _rest = service.rest();
        assert_eq!(service.failure().as_deref(), Some("enough"));
    }
}
