//! One host of the pod: some threads of the compute server, and copies of replicated tables.
//!
//! Invariants:
//! 1. A thread runs one of its transactions at a time; it gives way to the next while one waits for memory
//!    servers.
//! 2. Replicated tables are copied to the compute server when the pod is loaded, and only read.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use liger_fabric::{Cx, Fabric, HostId, Latch};
use liger_pod::plan::PartitionId;

use super::servers::{MemoryServers, Who};

use liger_engine::history::HistorySink;
use liger_engine::protocol::{HostEngine, Replicas};
use liger_engine::{Catalog, TxnError};

/// One host.
pub struct MotorHost {
    pub(super) me: HostId,
    pub(super) hosts: u8,
    pub(super) partitions: u16,
    pub(super) catalog: Arc<Catalog>,
    pub(super) servers: Arc<MemoryServers>,
    coroutines: u8,
    /// Whoever holds one runs on it.
    pub(super) threads: Vec<Latch<()>>,
    pub(super) replicas: Replicas,
    pub(super) history: Option<Arc<dyn HistorySink>>,
    /// Round trips to memory servers.
    pub round_trips: AtomicU64,
}

impl MotorHost {
    /// A host of a pod with so many hosts and partitions, whose threads each run `coroutines` transactions.
    ///
    /// # Errors
    /// [`TxnError::Unsuited`] if there is no remote memory.
    pub fn new<F: Fabric>(
        cx: &Cx<F>,
        (hosts, partitions): (u8, u16),
        (threads, coroutines): (u8, u8),
        catalog: Arc<Catalog>,
        servers: Arc<MemoryServers>,
        history: Option<Arc<dyn HistorySink>>,
    ) -> Result<Self, TxnError> {
        if !cx.has_remote_memory() {
            let why = "no remote memory is known (a hardware profile describes it in its section [rdma])";
            return Err(TxnError::Unsuited { what: "reaching memory servers by RDMA", why });
        }
        Ok(Self {
            me: cx.host(),
            hosts,
            partitions,
            servers,
            coroutines,
            threads: (0..threads).map(|_| Latch::default()).collect(),
            replicas: Replicas::new(&catalog),
            history,
            round_trips: AtomicU64::new(0),
            catalog,
        })
    }

    /// Who keeps the history of this host's transactions.
    pub(super) fn history(&self) -> Option<&dyn HistorySink> {
        self.history.as_deref().map(|history| history as &dyn HistorySink)
    }

    /// The thread that a worker's transactions run on.
    pub(super) fn thread<F: Fabric>(&self, cx: &Cx<F>) -> &Latch<()> {
        &self.threads[usize::from(cx.worker().0 / self.coroutines)]
    }

    /// Who a worker is to others.
    pub(super) fn who<F: Fabric>(&self, cx: &Cx<F>) -> Who {
        u32::from(cx.host().0) << 8 | (u32::from(cx.worker().0) + 1)
    }

    /// The partitions that this host loads and shows.
    pub(super) fn own_partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        (0..self.partitions).map(PartitionId).filter(|partition| self.fills(*partition))
    }

    /// What is wrong with this host's partitions, while nobody works: locks that nobody gave back.
    pub fn check<F: Fabric>(&self, cx: &Cx<F>) -> Vec<String> {
        let mut problems = Vec::new();
        for partition in self.own_partitions() {
            for relation in self.catalog.relations() {
                let share = self.servers.share(cx, (partition, relation.id));
                let locked = share.tuples.iter().filter(|tuple| tuple.lock != 0).count();
                if locked > 0 {
                    problems.push(format!("{}, partition {partition}: {locked} locked", relation.name));
                }
            }
        }
        problems
    }
}
