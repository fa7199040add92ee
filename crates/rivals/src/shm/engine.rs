//! A host of a pod whose rows are all shared, as an engine.

use std::sync::atomic::Ordering;

use liger_engine::protocol::{HostEngine, Replicas, Rival, Show, tree_error};
use liger_engine::{At, Catalog, Key, Relation, Row, TxnError};
use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::PodError;
use liger_pod::heap::{BlockClass, WordClass};
use liger_pod::plan::PartitionId;

use super::host::full;
use super::rows::{RowAt, block_len};
use super::word::{RowWord, State};
use super::{ShmHost, ShmSession};
use crate::sundial::Lease;

impl HostEngine for ShmHost {
    type Session<'h, F: Fabric + 'h> = ShmSession<'h, F>;

    fn id(&self) -> HostId {
        self.me
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn partition_count(&self) -> u16 {
        self.plan.config().partitions
    }

    fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    fn session<'h, F: Fabric>(&'h self, cx: &'h Cx<F>) -> ShmSession<'h, F> {
        ShmSession::new(cx, self)
    }

    /// Nobody asks another host for anything.
    fn attend<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.housekeep(cx);
        0
    }

    fn fills(&self, partition: PartitionId) -> bool {
        partition.home(self.plan.config().hosts) == self.me
    }

    fn put<F: Fabric>(&self, cx: &Cx<F>, at: At<'_>, key: &Key, bytes: &[u8]) -> Result<(), TxnError> {
        let word = self.heap.alloc_word(cx, WordClass::Tuple).map_err(full)?;
        let len = block_len(at.relation.row_len);
        let row = RowAt { word, block: self.heap.alloc(cx, BlockClass::Loose, len).map_err(full)? };
        self.write_new(cx, row, 0, bytes);
        cx.fence(); // Before an entry leads to it.
        let lease = Lease { born: true, ..RowWord::next_row(cx, cx.load(word), 0) };
        cx.store(word, RowWord::new(State::Live, lease).0);
        self.fresh.set(word, lease.wts);
        let added = self.index(at).insert(cx, &self.tree_env(), key.words(), row.entry());
        match added.map_err(|error| tree_error(at.table(), error))? {
            true => Ok(()),
            false => Err(TxnError::DuplicateKey { index: at.table() }),
        }
    }

    fn each_own<F: Fabric>(&self, cx: &Cx<F>, of: &Relation, show: Show<'_>) -> Result<(), TxnError> {
        let (end, mut bytes) = (Key::greatest(of.key_words), Vec::new());
        let _pin = self.epochs.pin(cx);
        for partition in self.own_partitions() {
            self.each_entry(cx, At::new(of, partition), |key, row| {
                if *key != end {
                    bytes.clear();
                    // At rest nobody is in the way; who is shows in `check`.
                    if self.read(cx, row, of.row_len, &mut bytes).is_ok() {
                        show(key, Row::new(&bytes));
                    }
                }
            })?;
        }
        Ok(())
    }

    fn problems<F: Fabric>(&self, cx: &Cx<F>) -> Result<Vec<String>, TxnError> {
        let checked = self.check(cx)?;
        let left = checked.dead_entries;
        let left = (left > 0).then(|| format!("{left} entries of removed rows are left"));
        Ok(checked.problems.into_iter().chain(left).collect())
    }

    /// Things that wait for other hosts before they can be reused, and entries that wait for memory.
    fn backlog<F: Fabric>(&self, cx: &Cx<F>) -> usize {
        self.epochs.backlog(cx) + self.leftovers.lock(cx).len()
    }

    fn mark_fenced(&self) {
        self.fenced.store(true, Ordering::Relaxed);
    }
}

impl Rival for ShmHost {
    fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Relaxed)
    }

    /// The rows stay where they are; nobody shows this host's partitions any more.
    fn leave<F: Fabric>(self, cx: &Cx<F>) -> Result<(), PodError> {
        self.member.leave(cx)?.finish(cx)
    }
}
