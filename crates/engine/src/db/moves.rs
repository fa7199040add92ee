//! Partitions that go from one living host to another, for whoever asks for that while a host works.

use std::sync::Arc;

use liger_fabric::HostId;
use liger_fabric::native::HostMemory;
use liger_pod::owner::Ownership;
use liger_pod::plan::PartitionId;

use super::{Host, SERVICE_WORKER};
use crate::row::RowHost;

/// A partition that is to come has come after this time, or stays where it is.
const COMES_NS: u64 = 30_000_000_000;

/// Asks for partitions on behalf of a host; from any thread.
pub struct PartitionMoves<M: HostMemory> {
    memory: M,
    engine: Arc<RowHost>,
    seed: u64,
}

impl<M: HostMemory> Host<M> {
    /// Where partitions are asked for.
    pub fn partition_moves(&self) -> PartitionMoves<M> {
        let group = &self.group;
        PartitionMoves { memory: group.memory.clone(), engine: group.engine.clone(), seed: group.seed }
    }
}

impl<M: HostMemory> PartitionMoves<M> {
    /// Asks the owner of a partition to hand it over to a host, without waiting; false if it is that host's
    /// already, or somebody is to have it. The pod keeps logs, or nothing is handed over.
    ///
    /// # Errors
    /// If there is no such partition or host, in words.
    pub fn ask(&self, partition: PartitionId, to: HostId) -> Result<bool, String> {
        if partition.0 >= self.engine.partition_count() {
            return Err(format!(
                "there is no partition {partition}: the pod has {}",
                self.engine.partition_count()
            ));
        }
        if !self.engine.plan().hosts().any(|host| host == to) {
            return Err(format!("there is no host {}", to.0));
        }
        if self.engine.log().is_none() {
            return Err("the pod keeps no log: its partitions stay where they are".to_owned());
        }
        let cx = self.memory.cx(SERVICE_WORKER, self.seed);
        Ok(self.engine.move_partition(&cx, partition, to))
    }

    /// From now on this host asks for no partitions, and none is on its way to it when this returns, but
    /// after half a minute; those that it has then. For whoever lets it go.
    pub fn ask_for_none(&self) -> Vec<PartitionId> {
        self.ask_for_share(false);
        let cx = self.memory.cx(SERVICE_WORKER, self.seed);
        let (plan, me) = (self.engine.plan(), self.engine.id());
        let comes = |partition| Ownership::load(&cx, plan, partition).is_some_and(|it| it.next == Some(me));
        let until_ns = cx.now_ns() + COMES_NS;
        while plan.partitions().any(comes) && cx.now_ns() < until_ns {
            cx.pause();
        }
        plan.partitions().filter(|partition| self.engine.holds(*partition)).collect()
    }

    /// From now on this host asks for partitions of others if it has less than its share of them; or it does
    /// not any more.
    pub fn ask_for_share(&self, asks: bool) {
        self.engine.ask_for_partitions(asks);
    }
}
