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

use super::servers::{MemoryServers, Version, Who};
use crate::copies::{Copies, CopiesToBe};
use liger_engine::Catalog;
use liger_engine::Key;
use liger_engine::history::HistorySink;
use liger_engine::protocol::each_of;
use liger_engine::{NewRow, Row};
use liger_engine::{TableId, TxnError};

/// One host.
pub struct MotorHost {
    pub(super) me: HostId,
    hosts: u8,
    partitions: u16,
    pub(super) catalog: Arc<Catalog>,
    pub(super) servers: Arc<MemoryServers>,
    coroutines: u8,
    /// Whoever holds one runs on it.
    pub(super) threads: Vec<Latch<()>>,
    pub(super) copies: Copies,
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
            copies: Copies::new(&catalog),
            history,
            round_trips: AtomicU64::new(0),
            catalog,
        })
    }

    /// This host's number.
    pub fn id(&self) -> HostId {
        self.me
    }

    /// The thread that a worker's transactions run on.
    pub(super) fn thread<F: Fabric>(&self, cx: &Cx<F>) -> &Latch<()> {
        &self.threads[usize::from(cx.worker().0 / self.coroutines)]
    }

    /// Who a worker is to others.
    pub(super) fn who<F: Fabric>(&self, cx: &Cx<F>) -> Who {
        u32::from(cx.host().0) << 8 | (u32::from(cx.worker().0) + 1)
    }

    /// Partitions of the pod.
    pub fn partition_count(&self) -> u16 {
        self.partitions
    }

    /// The partitions that this host loads and shows.
    fn own_partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        (0..self.partitions).map(PartitionId).filter(|p| p.home(self.hosts) == self.me)
    }

    /// Shows the rows of a table that this host has loaded the partitions of (of a replicated table, the
    /// copy). Nobody works.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn for_each_row<F: Fabric>(
        &self,
        cx: &Cx<F>,
        table: TableId,
        mut show: impl FnMut(&Key, Row<'_>),
    ) -> Result<(), TxnError> {
        if self.catalog.relation(table)?.replicated {
            self.copies.each(cx, table, show);
            return Ok(());
        }
        for partition in self.own_partitions() {
            let share = self.servers.share(cx, (table, partition));
            share.each_live(|key, version| show(key, Row::new(&version.bytes)));
        }
        Ok(())
    }

    /// What is wrong with this host's partitions, while nobody works: locks that nobody gave back.
    pub fn check<F: Fabric>(&self, cx: &Cx<F>) -> Vec<String> {
        let mut problems = Vec::new();
        for partition in self.own_partitions() {
            for relation in self.catalog.relations() {
                let share = self.servers.share(cx, (relation.id, partition));
                let locked = share.tuples.iter().filter(|tuple| tuple.lock != 0).count();
                if locked > 0 {
                    problems.push(format!("{}, partition {partition}: {locked} locked", relation.name));
                }
            }
        }
        problems
    }
}

/// Puts rows into the partitions of one host, without locks or transactions.
pub struct MotorLoader<'h> {
    host: &'h MotorHost,
    copies: CopiesToBe,
}

impl<'h> MotorLoader<'h> {
    /// A loader for this host.
    pub fn new(host: &'h MotorHost) -> Self {
        Self { host, copies: CopiesToBe::default() }
    }

    /// Adds a row and its index entries where they belong to this host.
    ///
    /// # Errors
    /// If the row is not the table's, or is there already.
    pub fn put<F: Fabric>(&mut self, cx: &Cx<F>, table: TableId, row: &NewRow) -> Result<(), TxnError> {
        let host = self.host;
        each_of(&host.catalog, table, row, |relation, key, bytes| {
            let duplicate = TxnError::DuplicateKey { index: relation.id };
            if relation.replicated {
                return self.copies.add(relation, key, bytes);
            }
            let partition = relation.partition_of(key, host.partitions);
            if !host.own_partitions().any(|own| own == partition) {
                return Ok(());
            }
            let mut share = host.servers.share(cx, (relation.id, partition));
            let tuple = share.place(key);
            let tuple = &mut share.tuples[tuple as usize];
            if tuple.newest().is_some() {
                return Err(duplicate);
            }
            tuple.add(Version { at: 0, live: true, bytes: bytes.into(), delta: 0 }, 0);
            Ok(())
        })
    }

    /// Makes the replicated tables visible.
    pub fn finish<F: Fabric>(self, cx: &Cx<F>) {
        self.copies.finish(cx, &self.host.copies);
    }
}
