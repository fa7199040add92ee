//! A host with what its tables are kept in: it stays in its pod, answers other hosts, runs transactions, and
//! takes over from hosts that die, whatever its access method is.
//!
//! Invariants:
//! 1. A transaction is executed, logged and committed by one host, whatever it has changed, and wherever.
//! 2. The host decides who owns a partition, and when; the method what becomes of what is in it.
//! 3. Latches are taken in this order, and released before a worker waits for another host: the failure
//!    detector's, then those of the method (row/rows.rs), then heap, epochs, lanes, outbox.
//!
//! Rooms: `transaction`, `statement`, `commit`, `session`, `detached`, what runs on it; `service`, mail and
//! housekeeping; `detector`, hosts that die; `deaths`, what is done about their locks; `ownership`, how a
//! partition changes hands; `takeover`, how a dead host's partitions do; `handover`, how a living one's do;
//! `engine`, `entries`, what is asked of any engine.

mod commit;
mod deaths;
mod detached;
mod detector;
mod engine;
mod entries;
mod handover;
mod ownership;
mod recording;
mod service;
mod session;
mod statement;
mod takeover;
mod transaction;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use liger_fabric::{Cx, Fabric, Latch};
use liger_pod::PodError;

pub use detached::DetachedTxn;
pub use detector::Takeover;
pub use session::HostSession;
pub use transaction::Txn;

use crate::catalog::Relation;
use crate::instance::Instance;
use crate::method::{Method, dead};
use crate::protocol::replicas::Replicas;
use crate::recovery::directory::PodFiles;
use crate::txn::TxnError;
use detector::FailureDetector;

/// One host of a pod, and what its tables are kept in.
pub struct Host<M> {
    instance: Arc<Instance>,
    method: M,
    replicas: Replicas,
    /// Where the files of all hosts are, if this one may take over.
    files: Option<PodFiles>,
    detector: Latch<FailureDetector>,
    /// Set when the system says that a process has ended, for the failure detector's next turn.
    doubts: AtomicBool,
    /// This host asks for the partitions that were made for it.
    asks: AtomicBool,
    /// What the failure detector cannot do at present, and why.
    faults: Latch<Vec<String>>,
}

/// What is said of every host is said of this one.
impl<M> Deref for Host<M> {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}

impl<M: Method> Host<M> {
    /// A host that has become a member, with its method; `takeover` is what it needs to take over a dead
    /// host's partitions: without it, it leaves that to others.
    ///
    /// # Errors
    /// If the method does not keep all of the pod's tables.
    pub(crate) fn start<F: Fabric>(
        cx: &Cx<F>,
        instance: Arc<Instance>,
        method: M,
        takeover: Option<Takeover>,
    ) -> Result<Self, TxnError> {
        let is_kept = |relation: &Relation| relation.replicated || method.keeps(relation.method);
        if !instance.catalog.relations().iter().all(is_kept) {
            let why = "this program knows no such access method";
            return Err(TxnError::Unsuited { what: "a table's access method", why });
        }
        let slot = instance.member.slot();
        Ok(Self {
            replicas: Replicas::new(&instance.catalog),
            files: takeover.as_ref().map(|takeover| takeover.files.clone()),
            detector: Latch::new(FailureDetector::new(cx, &instance.plan, slot, takeover)),
            doubts: AtomicBool::new(false),
            asks: AtomicBool::new(false),
            faults: Latch::default(),
            instance,
            method,
        })
    }

    /// What its tables are kept in.
    pub fn method(&self) -> &M {
        &self.method
    }

    /// This host's copies of replicated tables.
    pub(crate) fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    /// Leaves the pod. Its rows go with it: call it when the pod comes to rest.
    ///
    /// # Errors
    /// If the others take this host for dead.
    pub fn leave<F: Fabric>(self, cx: &Cx<F>) -> Result<(), PodError> {
        let Self { instance, method, .. } = self;
        debug_assert!(instance.transactions.have_ended(u64::MAX), "a host leaves when it is at rest");
        drop(method);
        Arc::into_inner(instance).expect("only its method shared it").leave(cx)
    }
}

/// Protocol steps of hosts that a mutation test can leave out.
pub(crate) fn sabotage_steps() -> impl Iterator<Item = &'static str> {
    let hosts = [
        detector::SABOTAGE_STEPS,
        commit::SABOTAGE_STEPS,
        statement::SABOTAGE_STEPS,
        deaths::SABOTAGE_STEPS,
        takeover::SABOTAGE_STEPS,
    ];
    hosts
        .into_iter()
        .chain([handover::SABOTAGE_STEPS, recording::SABOTAGE_STEPS, dead::SABOTAGE_STEPS])
        .flatten()
        .copied()
}
