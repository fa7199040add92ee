//! The workers of one host, whichever engine they run, and the thread that stands in for them.
//!
//! Invariants:
//! 1. Either workers run, or the service takes their turns: never both, for they use the same numbers.
//! 2. A worker whose work is done goes on answering other hosts until all of its host are done; so does the
//!    helper of an engine that has one.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use liger_fabric::native::{HostMemory, NativeHost, Service, WorkerPanicked, run_workers};
use liger_fabric::{Cx, WorkerId};
use liger_pod::bells::{self, Bell};

use super::{DbError, Pod, SERVICE_WORKER};
use crate::protocol::engine::{HostEngine, Rival};
use crate::row::{RowHost, WorkerToken};

/// Silences the host if a thread panics that keeps it in the pod: a host that lives, and ships nothing or
/// takes nothing over, would keep all others from going on.
pub(super) struct Fuse<'a, E: HostEngine>(pub(super) &'a E);

impl<E: HostEngine> Drop for Fuse<'_, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.mark_fenced();
        }
    }
}

/// Counts a worker's work as done, also when it panics.
struct Done<'a>(&'a AtomicU32);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let running = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(running > 0 || std::thread::panicking(), "a worker's work is done once");
    }
}

/// A host's engine with its workers, in this process. It answers the other hosts until it is dropped.
pub struct WorkerGroup<E: HostEngine, M: HostMemory = NativeHost> {
    pub(super) pod: Pod,
    pub(super) memory: M,
    pub(super) engine: Arc<E>,
    pub(super) service: Service,
    pub(super) seed: u64,
}

impl<E: HostEngine, M: HostMemory> WorkerGroup<E, M> {
    /// Starts to answer other hosts for an engine that has become a member.
    pub(super) fn start(pod: Pod, memory: M, engine: Arc<E>, seed: u64) -> Self {
        assert_eq!(engine.id(), memory.host(), "an engine works through its own host's memory");
        let served = engine.clone();
        let attend = move |cx: &_| {
            let _fuse = Fuse(&*served);
            if served.stand_in(cx) > 0 { 0 } else { served.idle_ns(cx) }
        };
        let mail = bells::bell(pod.plan(), memory.host(), Bell::Work);
        let service = Service::start(&memory, SERVICE_WORKER, seed, Some(mail), attend);
        Self { pod, memory, engine, service, seed }
    }

    /// The pod.
    pub fn pod(&self) -> &Pod {
        &self.pod
    }

    /// The host's way to the pod's memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The engine.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// The engine, for work that runs in the group's own workers.
    pub fn shared_engine(&self) -> Arc<E> {
        self.engine.clone()
    }

    /// What the service said when it panicked, if it has: the host is silent since then.
    pub fn failure(&self) -> Option<String> {
        self.service.failure().map(|failure| format!("the service has panicked: {failure}"))
    }

    /// Runs `work` on `workers` threads, each with its own session, and waits for all of them; results come
    /// in worker order.
    ///
    /// # Panics
    /// If the pod was not configured for so many workers and the engine's helper.
    pub fn run<T: Send>(
        &mut self,
        workers: u8,
        work: impl Fn(&Cx<M::View>, &mut E::Session<'_, M::View>) -> T + Sync,
    ) -> Vec<Result<T, WorkerPanicked>> {
        let config = self.pod.plan().config();
        let threads = workers + u8::from(self.engine.is_helped());
        assert!(threads <= config.workers, "{threads} workers, the pod has room for {}", config.workers);
        self.seed = self.seed.wrapping_add(1);
        let _rest = self.service.rest();
        let running = AtomicU32::new(workers.into());
        let mail = bells::bell(self.pod.plan(), self.memory.host(), Bell::Work);
        let ran = run_workers(std::slice::from_ref(&self.memory), threads, self.seed, |cx| {
            let is_helper = cx.worker().0 == workers;
            let result = (!is_helper).then(|| {
                let mut session = self.engine.session(cx);
                let _done = Done(&running);
                work(cx, &mut session)
            });
            // Those that are done sleep there.
            cx.ring(mail);
            let mut idle = 0u32;
            while running.load(Ordering::Acquire) > 0 {
                let moved = || if is_helper { self.engine.help(cx) } else { self.engine.attend(cx) };
                // A helper that has work does it at once: workers wait for what it brings.
                idle = if moved() > 0 { 0 } else { idle + 1 };
                if !is_helper || idle > 0 {
                    bells::pass(cx, mail, idle, || moved() > 0 || running.load(Ordering::Acquire) == 0);
                }
            }
            result
        });
        assert_eq!(ran.len(), usize::from(threads), "what each thread came to");
        ran.into_iter().filter_map(Result::transpose).collect()
    }

    /// Runs `work` on the calling thread, as the host's only worker.
    pub fn alone<T>(&mut self, work: impl FnOnce(&Cx<M::View>, &mut E::Session<'_, M::View>) -> T) -> T {
        self.seed = self.seed.wrapping_add(1);
        let _rest = self.service.rest();
        let cx = self.memory.cx(SERVICE_WORKER, self.seed);
        work(&cx, &mut self.engine.session(&cx))
    }

    /// Stops answering. Returns the engine, and a context for its last steps.
    pub(super) fn dismiss(self) -> (Arc<E>, Cx<M::View>) {
        let Self { memory, engine, service, seed, .. } = self;
        drop(service);
        (engine, memory.cx(SERVICE_WORKER, seed))
    }
}

impl<E: Rival, M: HostMemory> WorkerGroup<E, M> {
    /// Leaves the pod. What only this host had is gone with it, and nobody shows its partitions any more:
    /// call it when the pod comes to rest.
    ///
    /// # Errors
    /// If the service has panicked, or the others take the host for dead.
    pub fn leave(self) -> Result<(), DbError> {
        if let Some(failure) = self.failure() {
            return Err(DbError::Failed(failure));
        }
        let (engine, cx) = self.dismiss();
        let engine = Arc::into_inner(engine).expect("only the service shared it");
        Ok(engine.leave(&cx)?)
    }
}

/// What a thread needs, beside a worker, to run steps of a host's transactions.
pub struct Borrowing<M: HostMemory = NativeHost> {
    memory: M,
    engine: Arc<RowHost>,
    seed: AtomicU64,
}

impl<M: HostMemory> Borrowing<M> {
    /// A context for one thread at a time. It runs as whatever worker it has.
    pub fn cx(&self) -> Cx<M::View> {
        self.memory.cx(SERVICE_WORKER, self.seed.fetch_add(1 << 20, Ordering::Relaxed))
    }

    /// The host's engine.
    pub fn engine(&self) -> &Arc<RowHost> {
        &self.engine
    }
}

impl<M: HostMemory> WorkerGroup<RowHost, M> {
    /// These workers: see [`super::Host::lend`].
    pub(super) fn lend(&mut self, workers: Range<u8>) -> (Borrowing<M>, Vec<WorkerToken>) {
        let config = self.pod.plan().config();
        assert!(
            workers.start > 0 && workers.end <= config.workers,
            "workers {workers:?} of {}",
            config.workers
        );
        self.seed = self.seed.wrapping_add(1);
        self.engine.lend(&workers, u8::MAX);
        let (memory, engine) = (self.memory.clone(), self.engine.clone());
        let cx = memory.cx(WorkerId(workers.start), self.seed);
        assert!(!workers.is_empty(), "nobody is lent: {workers:?}");
        let tokens = workers.map(|worker| WorkerToken::new(&cx, &engine, WorkerId(worker))).collect();
        (Borrowing { memory, engine, seed: AtomicU64::new(self.seed) }, tokens)
    }
}
