//! Starts one host's workers as threads of this process.

use std::any::Any;
use std::sync::Arc;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{Mapping, Native, SyncMode};
use crate::cx::{Cx, HostId, WorkerId};

/// A worker that panicked. The rest of the host went on; a real host would treat this as its own death.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("worker {} of host {} panicked: {message}", worker.0, host.0)]
pub struct WorkerPanicked {
    /// Its host.
    pub host: HostId,
    /// Its number.
    pub worker: WorkerId,
    /// What it said.
    pub message: String,
}

/// Runs `work` on `n_workers` threads, each with its own context, and waits for all of them. Results come in worker
/// order. Where the process may use at least as many processors as there are workers, each is bound to one.
///
/// Host and worker numbers and `seed` decide the workers' random numbers, as in [`Cx::new`].
#[expect(clippy::disallowed_methods, reason = "the backend is where workers are started")]
pub fn run_workers<T: Send>(
    mapping: &Arc<Mapping>,
    sync_mode: SyncMode,
    host: HostId,
    n_workers: u8,
    seed: u64,
    work: impl Fn(&Cx<Native>) -> T + Sync,
) -> Vec<Result<T, WorkerPanicked>> {
    let processors = allowed_processors();
    let run_one = |worker: WorkerId| {
        if processors.len() >= usize::from(n_workers) {
            let slot = usize::from(host.0) * usize::from(n_workers) + usize::from(worker.0);
            bind_to(processors[slot % processors.len()]);
        }
        work(&Cx::new(Native::with_sync_mode(mapping.clone(), sync_mode), host, worker, seed))
    };
    std::thread::scope(|scope| {
        let run_one = &run_one;
        let start = |worker| (worker, scope.spawn(move || run_one(worker)));
        let started: Vec<_> = (0..n_workers).map(WorkerId).map(start).collect();
        let finish = |(worker, thread): (WorkerId, std::thread::ScopedJoinHandle<'_, T>)| {
            thread.join().map_err(|panic| WorkerPanicked { host, worker, message: message_of(&*panic) })
        };
        started.into_iter().map(finish).collect()
    })
}

fn allowed_processors() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).collect()
}

/// Best effort: a worker that may not be bound still runs.
fn bind_to(processor: usize) {
    let mut only = CpuSet::new();
    only.set(processor);
    let _ = sched_setaffinity(None, &only);
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::SyncAddr;

    #[test]
    fn results_come_in_worker_order_and_panics_as_values() {
        let mapping = Mapping::anonymous(4096).expect("memory");
        let outcome = run_workers(&mapping, SyncMode::Hwcc, HostId(3), 4, 1, |cx| {
            cx.fetch_add(SyncAddr::new(64), 1);
            assert!(cx.worker().0 != 2, "worker {} gives up", cx.worker().0);
            cx.worker().0
        });
        let panicked =
            WorkerPanicked { host: HostId(3), worker: WorkerId(2), message: "worker 2 gives up".to_owned() };
        assert_eq!(outcome, [Ok(0), Ok(1), Err(panicked), Ok(3)]);
        let total = run_workers(&mapping, SyncMode::Hwcc, HostId(0), 1, 1, |cx| cx.load(SyncAddr::new(64)));
        assert_eq!(total, [Ok(4)]);
    }
}
