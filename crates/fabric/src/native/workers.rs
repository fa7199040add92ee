//! Starts hosts' workers as threads of this process.

use std::any::Any;
use std::sync::Arc;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{HostMemory, Mapping, Native, NativeHost};
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

/// Runs `work` on `n_workers` threads of each of `hosts`, each with its own context, and waits for all of
/// them. Results come in order of host, then worker. Where the process may use at least as many processors as
/// there are workers, each is bound to one.
///
/// Host and worker numbers and `seed` decide the workers' random numbers, as in [`Cx::new`].
#[expect(clippy::disallowed_methods, reason = "the backend is where workers are started")]
pub fn run_workers<M: HostMemory, T: Send>(
    hosts: &[M],
    n_workers: u8,
    seed: u64,
    work: impl Fn(&Cx<M::View>) -> T + Sync,
) -> Vec<Result<T, WorkerPanicked>> {
    let of_host = |host| (0..n_workers).map(move |worker| (host, WorkerId(worker)));
    let workers: Vec<(&M, WorkerId)> = hosts.iter().flat_map(of_host).collect();
    let is_first = |(at, host): (usize, &M)| hosts[..at].iter().all(|other| other.host() != host.host());
    assert!(hosts.iter().enumerate().all(is_first), "a host is started once");
    let processors = allowed_processors();
    let run_one = |slot: usize, host: &M, worker: WorkerId| {
        if processors.len() >= workers.len() {
            // Hosts in other processes start at other processors.
            let first = usize::from(hosts[0].host().0) * workers.len();
            bind_to(processors[(first + slot) % processors.len()]);
        }
        work(&host.cx(worker, seed))
    };
    std::thread::scope(|scope| {
        let run_one = &run_one;
        let start = |(slot, &(host, worker))| scope.spawn(move || run_one(slot, host, worker));
        let started: Vec<_> = workers.iter().enumerate().map(start).collect();
        let finish = |(thread, &(host, worker)): (std::thread::ScopedJoinHandle<'_, T>, &(&M, WorkerId))| {
            let panicked = |panic: Box<dyn Any + Send>| message_of(&*panic);
            let ended = thread.join().map_err(panicked);
            ended.map_err(|message| WorkerPanicked { host: host.host(), worker, message })
        };
        started.into_iter().zip(&workers).map(finish).collect()
    })
}

/// As [`run_workers`] for hosts `0..n_hosts` of a native pod, all in this process: what a test of several
/// hosts needs.
pub fn run_hosts<T: Send>(
    mapping: &Arc<Mapping>,
    sync_mode: SyncMode,
    n_hosts: u8,
    n_workers: u8,
    seed: u64,
    work: impl Fn(&Cx<Native>) -> T + Sync,
) -> Vec<Result<T, WorkerPanicked>> {
    let host = |host| NativeHost::new(mapping.clone(), sync_mode, HostId(host));
    let hosts: Vec<NativeHost> = (0..n_hosts).map(host).collect();
    run_workers(&hosts, n_workers, seed, work)
}

pub(crate) fn allowed_processors() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).collect()
}

/// Best effort: a worker that may not be bound still runs.
pub(crate) fn bind_to(processor: usize) {
    debug_assert!(processor < CpuSet::MAX_CPU, "processor {processor} is none that was allowed");
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
        let third = NativeHost::new(mapping.clone(), SyncMode::Hwcc, HostId(3));
        let outcome = run_workers(&[third], 4, 1, |cx| {
            cx.fetch_add(SyncAddr::new(64), 1);
            assert!(cx.worker().0 != 2, "worker {} gives up", cx.worker().0);
            cx.worker().0
        });
        let panicked =
            WorkerPanicked { host: HostId(3), worker: WorkerId(2), message: "worker 2 gives up".to_owned() };
        assert_eq!(outcome, [Ok(0), Ok(1), Err(panicked), Ok(3)]);
        let total = run_hosts(&mapping, SyncMode::Hwcc, 1, 1, 1, |cx| cx.load(SyncAddr::new(64)));
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
