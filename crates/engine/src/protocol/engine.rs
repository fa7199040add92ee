//! One host's engine, whichever it is: all that is needed to fill a host, to run workloads on it, and to read
//! and check it afterwards, in real memory or in a simulation.
//!
//! Not here: how a host joins and leaves, what an engine can do beyond that (logs, SQL), and its figures.

use liger_fabric::native::IDLE_NS;
use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::PodError;
use liger_pod::plan::PartitionId;

use crate::catalog::{At, Catalog, Relation};
use crate::protocol::load::Loader;
use crate::protocol::replicas::Replicas;
use crate::tables::key::Key;
use crate::tables::record::{NewRow, Row};
use crate::txn::{Session, TableId, TxnError};

/// Takes the rows of a load.
pub type Emit<'a> = &'a mut dyn FnMut(TableId, &NewRow) -> Result<(), TxnError>;

/// Is shown rows, in some order.
pub type Show<'a> = &'a mut dyn FnMut(&Key, Row<'_>);

/// One host's engine. It is shared by the host's workers.
pub trait HostEngine: Send + Sync + 'static {
    /// What a worker runs transactions through.
    type Session<'h, F: Fabric + 'h>: Session;

    /// This host's number.
    fn id(&self) -> HostId;

    /// The pod's tables.
    fn catalog(&self) -> &Catalog;

    /// Number of partitions in the pod; each begins on its home ([`PartitionId::home`]).
    fn partition_count(&self) -> u16;

    /// This host's copies of replicated tables.
    fn replicas(&self) -> &Replicas;

    /// A session of the caller's worker.
    fn session<'h, F: Fabric>(&'h self, cx: &'h Cx<F>) -> Self::Session<'h, F>;

    /// One turn of a worker that runs no transaction: mail, then housekeeping. Returns the number of messages
    /// handled.
    fn attend<F: Fabric>(&self, cx: &Cx<F>) -> usize;

    /// As [`HostEngine::attend`], for all workers of the host and its helper while none of them runs.
    fn stand_in<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.attend(cx)
    }

    /// For how long nobody misses the next turn behind one that found nothing to do, but for mail, which
    /// wakes whoever sleeps at the host's [`liger_pod::bells::Bell::Work`].
    fn idle_ns<F: Fabric>(&self, cx: &Cx<F>) -> u64 {
        let _ = cx;
        IDLE_NS
    }

    /// Whether a thread beside the workers calls [`HostEngine::help`] all the time.
    fn is_helped(&self) -> bool {
        false
    }

    /// One turn of that thread. Returns the number of messages moved.
    fn help<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        let _ = cx;
        0
    }

    /// Whether this host is to be filled with the rows of a partition, and shows them.
    fn fills(&self, partition: PartitionId) -> bool;

    /// Adds a row to a partition that this host fills, which nobody uses yet.
    ///
    /// # Errors
    /// If its key is there already, or there is no room.
    fn put<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<(), TxnError>;

    /// Puts the rows that `fill` hands over into partitions and copies of this host that lack them; rows of
    /// other hosts are passed over. Of a replicated table one call gets all rows.
    ///
    /// # Errors
    /// The first of `fill`, and what is wrong with a row or the memory.
    fn load<F: Fabric>(
        &self,
        cx: &Cx<F>,
        fill: impl FnOnce(Emit<'_>) -> Result<(), TxnError>,
    ) -> Result<(), TxnError>
    where
        Self: Sized,
    {
        let mut loader = Loader::new(self);
        fill(&mut |table, row| loader.put(cx, table, row))?;
        loader.finish(cx);
        Ok(())
    }

    /// Makes so much of the host's rows of these tables (1.0: all) ready for other hosts, where the engine
    /// knows such a state. Returns how many rows that were.
    ///
    /// # Errors
    /// If there is no room for them.
    fn share<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId], part: f64) -> Result<u64, TxnError> {
        let _ = (cx, tables, part);
        Ok(0)
    }

    /// Brings the host to where it is after long use of what other hosts share of these tables.
    ///
    /// # Errors
    /// If what the others share is damaged.
    fn warm_up<F: Fabric>(&self, cx: &Cx<F>, tables: &[TableId]) -> Result<(), TxnError> {
        let _ = (cx, tables);
        Ok(())
    }

    /// Shows the rows of a table that this host fills, partition by partition in key order (of a replicated
    /// table, this host's copy); the pod is at rest.
    ///
    /// # Errors
    /// If there is no such table, or its rows cannot be read.
    fn each_row<F: Fabric>(
        &self,
        cx: &Cx<F>,
        table: TableId,
        mut visit: impl FnMut(&Key, Row<'_>),
    ) -> Result<(), TxnError> {
        let relation = self.catalog().relation(table)?;
        if relation.replicated {
            self.replicas().each(cx, table, |key, _, row| visit(key, row));
            return Ok(());
        }
        self.each_own(cx, relation, &mut visit)
    }

    /// As [`HostEngine::each_row`], of a relation that has partitions.
    ///
    /// # Errors
    /// If its rows cannot be read.
    fn each_own<F: Fabric>(&self, cx: &Cx<F>, of: &Relation, show: Show<'_>) -> Result<(), TxnError>;

    /// What is wrong with the host's own structures; the pod is at rest.
    ///
    /// # Errors
    /// If they cannot be read.
    fn problems<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, TxnError>;

    /// What this host still has to get rid of before it is at rest: memory that was retired, mail.
    fn backlog<F: Fabric>(&self, cx: &Cx<F>) -> usize;

    /// Lets the host fall silent: its heartbeat stops, and its transactions end.
    fn mark_fenced(&self);
}

/// An engine of a pod that stands still when it loses a host: nobody takes over. The row engine is compared
/// with such ones.
pub trait Rival: HostEngine {
    /// True once the pod has ruled that the host is not a member any more.
    fn is_fenced(&self) -> bool;

    /// Leaves the pod, which has come to rest.
    ///
    /// # Errors
    /// If the others take the host for dead.
    fn leave<F: Fabric>(self, cx: &Cx<F>) -> Result<(), PodError>;
}
