//! A host whose rows are in memory servers, as an engine.

use liger_engine::protocol::{HostEngine, Replicas, Show};
use liger_engine::{At, Catalog, Key, Relation, Row, TxnError};
use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::plan::PartitionId;

use super::servers::Version;
use super::{MotorHost, MotorSession};

impl HostEngine for MotorHost {
    type Session<'h, F: Fabric + 'h> = MotorSession<'h, F>;

    fn id(&self) -> HostId {
        self.me
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn partition_count(&self) -> u16 {
        self.partitions
    }

    fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    fn session<'h, F: Fabric>(&'h self, cx: &'h Cx<F>) -> MotorSession<'h, F> {
        MotorSession::new(cx, self)
    }

    /// Nobody asks a compute server for anything.
    fn attend<F: Fabric>(&self, _cx: &Cx<F>) -> usize {
        0
    }

    fn fills(&self, partition: PartitionId) -> bool {
        partition.home(self.hosts) == self.me
    }

    fn put<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<(), TxnError> {
        let mut share = self.servers.share(cx, at.ids());
        let tuple = share.place(key);
        let tuple = &mut share.tuples[tuple as usize];
        if tuple.newest().is_some() {
            return Err(TxnError::DuplicateKey { index: at.table() });
        }
        tuple.add(Version { at: 0, live: true, bytes: bytes.into(), delta: 0 }, 0);
        Ok(())
    }

    fn each_own<F: Fabric>(&self, cx: &Cx<F>, of: &Relation, show: Show<'_>) -> Result<(), TxnError> {
        for partition in self.own_partitions() {
            let share = self.servers.share(cx, (partition, of.id));
            share.each_live(|key, version| show(key, Row::new(&version.bytes)));
        }
        Ok(())
    }

    fn problems<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, TxnError> {
        Ok(self.check(cx))
    }

    fn backlog<F: Fabric>(&self, _cx: &Cx<F>) -> usize {
        0
    }

    /// It is no member of any pod, and sends no heartbeat.
    fn mark_fenced(&self) {}
}
