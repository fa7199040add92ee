//! What anybody may ask a host, and its log, while its workers go on: what it owns and how it is; the epoch,
//! what is durable, and that more becomes so.
//!
//! It is no worker: it only loads sync words, and sets a request of its own host's. A host leaves when nobody
//! has its [`Onlooker`] or [`LogWatch`] any more.

use std::sync::Arc;

use liger_fabric::Cx;
use liger_fabric::native::HostMemory;
use liger_pod::membership;

use super::{Host, SERVICE_WORKER};
use crate::log::ship::LogFailure;
use crate::row::RowHost;

/// Where a pod's log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogPoint {
    /// The pod's epoch: what has committed is of this one or of an earlier one.
    pub epoch: u64,
    /// Everything up to here is on storage, at all members.
    pub durable: u64,
}

/// A host, to look at; from any thread.
pub struct Onlooker<M: HostMemory> {
    memory: M,
    engine: Arc<RowHost>,
    seed: u64,
}

impl<M: HostMemory> Onlooker<M> {
    /// What `see` sees in the host, now.
    pub fn look<T>(&self, see: impl FnOnce(&Cx<M::View>, &RowHost) -> T) -> T {
        see(&self.memory.cx(SERVICE_WORKER, self.seed), &self.engine)
    }
}

/// A host's log, to look at.
pub struct LogWatch<M: HostMemory> {
    memory: M,
    engine: Arc<RowHost>,
    plan: liger_pod::plan::Plan,
    seed: u64,
}

impl<M: HostMemory> Host<M> {
    /// This host, for whoever only looks.
    pub fn onlooker(&self) -> Onlooker<M> {
        let group = &self.group;
        Onlooker { memory: group.memory.clone(), engine: group.engine.clone(), seed: group.seed }
    }

    /// This host's log, for whoever only looks.
    pub fn log_watch(&self) -> LogWatch<M> {
        let group = &self.group;
        let plan = group.pod.plan().clone();
        LogWatch { memory: group.memory.clone(), engine: group.engine.clone(), plan, seed: group.seed }
    }
}

impl<M: HostMemory> LogWatch<M> {
    /// Looks, and asks for `wanted` to become durable, without waiting; none if the host has no log, or is
    /// no member any more.
    ///
    /// # Errors
    /// If `wanted` is not durable and never will be: the log of a member has ended.
    pub fn look(&self, wanted: u64) -> Result<Option<LogPoint>, LogFailure> {
        let Some(log) = self.engine.log().filter(|_| !self.engine.is_fenced()) else { return Ok(None) };
        let cx = self.memory.cx(SERVICE_WORKER, self.seed);
        let members = membership::members(&cx, &self.plan);
        log.is_durable(&cx, wanted, || members)?;
        // Read in this order: what is durable is older than the epoch.
        let durable = log.pod_durable(&cx, members);
        Ok(Some(LogPoint { epoch: log.clock().now(&cx), durable }))
    }
}
