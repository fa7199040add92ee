//! A host of a pod whose rows are all in shared memory, in real memory: the engine of `crate::shm` with its
//! workers.
//!
//! There is no log and no takeover: the locks of such a host that dies stay where they are.

use std::sync::Arc;

use liger_fabric::native::{HostMemory, NativeHost};
use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::membership::{self, Member};
use liger_pod::selftest::Effort;

use super::{Crew, DbError, Pod, SERVICE_WORKER};
use crate::shm::{Options, ShmHost};

/// How a host joins such a pod.
pub struct ShmOptions {
    /// How the engine works: the same on all hosts.
    pub engine: Options,
    /// How thoroughly the memory is tested.
    pub self_test: Effort,
    /// Decides the random numbers of the host's workers, together with host, worker and run.
    pub seed: u64,
}

impl Pod {
    /// Joins as host `host` of a pod whose rows are all in shared memory, through what `over` puts before
    /// the pod's memory.
    ///
    /// # Errors
    /// As [`Pod::join_with`]; and if the memory is too large, or too small for the tables' indexes.
    pub fn join_shm<M: HostMemory>(
        &self,
        host: HostId,
        options: ShmOptions,
        over: impl FnOnce(NativeHost) -> M,
    ) -> Result<Crew<ShmHost, M>, DbError> {
        let memory = over(NativeHost::new(self.mapping.clone(), self.plan.config().sync_mode, host));
        assert_eq!(memory.host(), host, "the memory is another host's");
        let cx = memory.cx(SERVICE_WORKER, options.seed);
        let member = self.admit(&cx, &options.self_test)?;
        let engine = ShmHost::new(&cx, &self.plan, self.catalog.clone(), member, options.engine)?;
        Ok(Crew::start(self.clone(), memory, Arc::new(engine), options.seed))
    }

    /// Makes the caller's host a member, once it has tested the memory.
    pub(super) fn admit<F: Fabric>(&self, cx: &Cx<F>, self_test: &Effort) -> Result<Member, DbError> {
        let joining = membership::join(cx, &self.plan, cx.process())?;
        if let Err(failed) = joining.self_test(cx, self_test) {
            // The failure is what counts; that the number could not be given back as well shows in the pod.
            let _ = joining.abandon(cx);
            return Err(failed.into());
        }
        Ok(joining.finish(cx)?)
    }
}
