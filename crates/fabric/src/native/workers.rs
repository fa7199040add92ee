//! Starts one host's workers as threads of this process.

use std::any::Any;
use std::sync::Arc;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{Mapping, Native};
use crate::cx::{Cx, HostId, WorkerId};
use crate::sync_mode::SyncMode;

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

/// Runs `work` on `n_workers` threads of host `host`, each with its own context, and waits for all of them.
/// Results come in worker order. Where the process may use at least as many processors as there are workers,
/// each is bound to one.
///
/// Host and worker numbers and `seed` decide the workers' random numbers, as in [`Cx::new`].
pub fn run_workers<T: Send>(
    mapping: &Arc<Mapping>,
    sync_mode: SyncMode,
    host: HostId,
    n_workers: u8,
    seed: u64,
    work: impl Fn(&Cx<Native>) -> T + Sync,
) -> Vec<Result<T, WorkerPanicked>> {
    let workers: Vec<_> = (0..n_workers).map(|worker| (host, WorkerId(worker))).collect();
    run_all(mapping, sync_mode, &workers, seed, work)
}

/// As [`run_workers`] for hosts `0..n_hosts` at once, all in this process: what a test of several hosts
/// needs. Results come in order of host, then worker.
pub fn run_hosts<T: Send>(
    mapping: &Arc<Mapping>,
    sync_mode: SyncMode,
    n_hosts: u8,
    n_workers: u8,
    seed: u64,
    work: impl Fn(&Cx<Native>) -> T + Sync,
) -> Vec<Result<T, WorkerPanicked>> {
    let of_host = |host| (0..n_workers).map(move |worker| (HostId(host), WorkerId(worker)));
    let workers: Vec<_> = (0..n_hosts).flat_map(of_host).collect();
    run_all(mapping, sync_mode, &workers, seed, work)
}

#[expect(clippy::disallowed_methods, reason = "the backend is where workers are started")]
fn run_all<T: Send>(
    mapping: &Arc<Mapping>,
    sync_mode: SyncMode,
    workers: &[(HostId, WorkerId)],
    seed: u64,
    work: impl Fn(&Cx<Native>) -> T + Sync,
) -> Vec<Result<T, WorkerPanicked>> {
    let processors = allowed_processors();
    let run_one = |slot: usize, host: HostId, worker: WorkerId| {
        if processors.len() >= workers.len() {
            // Hosts in other processes start at other processors.
            let first = usize::from(workers[0].0.0) * workers.len();
            bind_to(processors[(first + slot) % processors.len()]);
        }
        work(&Cx::new(Native::with_sync_mode(mapping.clone(), sync_mode), host, worker, seed))
    };
    std::thread::scope(|scope| {
        let run_one = &run_one;
        let start = |(slot, &(host, worker))| scope.spawn(move || run_one(slot, host, worker));
        let started: Vec<_> = workers.iter().enumerate().map(start).collect();
        let finish =
            |(thread, &(host, worker)): (std::thread::ScopedJoinHandle<'_, T>, &(HostId, WorkerId))| {
                thread.join().map_err(|panic| WorkerPanicked { host, worker, message: message_of(&*panic) })
            };
        started.into_iter().zip(workers).map(finish).collect()
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

pub(super) fn message_of(panic: &(dyn Any + Send)) -> String {
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

    #[test]
    fn hosts_run_at_once() {
        let mapping = Mapping::anonymous(4096).expect("memory");
        let met = run_hosts(&mapping, SyncMode::Hwcc, 3, 2, 1, |cx| {
            cx.fetch_add(SyncAddr::new(0), 1);
            while cx.load(SyncAddr::new(0)) < 6 {
                cx.pause();
            }
            cx.host().0 * 10 + cx.worker().0
        });
        assert_eq!(met, [0, 1, 10, 11, 20, 21].map(Ok));
    }
}
