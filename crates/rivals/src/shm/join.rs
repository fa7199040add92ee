//! A host of a pod whose rows are all in shared memory, in real memory.

use liger_engine::db::{DbError, Pod, WorkerGroup};
use liger_fabric::HostId;
use liger_fabric::native::{HostMemory, NativeHost};
use liger_pod::selftest::Effort;

use super::{Options, ShmHost};

/// How a host joins such a pod.
pub struct ShmOptions {
    /// How the engine works: the same on all hosts.
    pub engine: Options,
    /// How thoroughly the memory is tested.
    pub self_test: Effort,
    /// Decides the random numbers of the host's workers, together with host, worker and run.
    pub seed: u64,
}

/// Joins `pod` as host `host`, through what `over` puts before the pod's memory.
///
/// # Errors
/// As [`Pod::join_with`]; and if the memory is too large, or too small for the tables' indexes.
pub fn join<M: HostMemory>(
    pod: &Pod,
    host: HostId,
    options: ShmOptions,
    over: impl FnOnce(NativeHost) -> M,
) -> Result<WorkerGroup<ShmHost, M>, DbError> {
    let ShmOptions { engine, self_test, seed } = options;
    pod.join_engine(host, &self_test, seed, over, |cx, plan, catalog, member| {
        ShmHost::new(cx, plan, catalog, member, engine)
    })
}
