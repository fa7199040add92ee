//! Filling a pod before it is used, and reading all of it afterwards. Nobody else works on this host
//! meanwhile.

use liger_fabric::{Cx, Fabric};
use liger_pod::heap::{BlockClass, WordClass};
use liger_pod::plan::PartitionId;
use liger_store::bwtree::{Entries, Trace};

use super::host::{ShmHost, full};
use super::rows::{RowAt, block_len};
use super::word::{RowWord, State};
use crate::copies::CopiesToBe;
use crate::sundial::Lease;
use liger_engine::Key;
use liger_engine::Relation;
use liger_engine::protocol::each_of;
use liger_engine::protocol::tree_error;
use liger_engine::{NewRow, Row};
use liger_engine::{TableId, TxnError};

/// Entries of an index that are read at once.
const BATCH: usize = 64;

/// Puts rows of one host's partitions into shared memory, without locks or transactions.
///
/// Rows of other hosts' partitions are passed over, so that every host can be given the same rows. Replicated
/// tables become visible with [`ShmLoader::finish`].
pub struct ShmLoader<'h> {
    host: &'h ShmHost,
    copies: CopiesToBe,
}

impl<'h> ShmLoader<'h> {
    /// A loader for this host.
    pub fn new(host: &'h ShmHost) -> Self {
        Self { host, copies: CopiesToBe::default() }
    }

    /// Adds a row and its index entries where they belong to this host.
    ///
    /// # Errors
    /// If the row is not the table's, is there already, or there is no room.
    pub fn put<F: Fabric>(&mut self, cx: &Cx<F>, table: TableId, row: &NewRow) -> Result<(), TxnError> {
        let host = self.host;
        each_of(&host.catalog, table, row, |relation, key, bytes| {
            if relation.replicated {
                return self.copies.add(relation, key, bytes);
            }
            let partition = relation.partition_of(key, host.partition_count());
            if host.own_partitions().any(|own| own == partition) {
                host.put(cx, (relation, partition), key, bytes)?;
            }
            Ok(())
        })
    }

    /// Makes the replicated tables visible.
    pub fn finish<F: Fabric>(self, cx: &Cx<F>) {
        self.copies.finish(cx, &self.host.copies);
    }
}

impl ShmHost {
    fn put<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (relation, partition): (&Relation, PartitionId),
        key: &Key,
        bytes: &[u8],
    ) -> Result<(), TxnError> {
        let word = self.heap.alloc_word(cx, WordClass::Tuple).map_err(full)?;
        let len = block_len(relation.row_len);
        let at = RowAt { word, block: self.heap.alloc(cx, BlockClass::Loose, len).map_err(full)? };
        self.write_new(cx, at, 0, bytes);
        cx.fence(); // Before an entry leads to it.
        let lease = Lease { born: true, ..RowWord::next_life(cx, cx.load(word), 0) };
        cx.store(word, RowWord::new(State::Live, lease).0);
        self.fresh.set(word, lease.wts);
        let added = self.index(relation, partition).insert(cx, &self.tree_env(), key.words(), at.entry());
        match added.map_err(|error| tree_error(relation.id, error))? {
            true => Ok(()),
            false => Err(TxnError::DuplicateKey { index: relation.id }),
        }
    }

    /// Shows the rows of a relation in a partition, with their places, from the first to the end's entry.
    pub(super) fn each_entry<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (relation, partition): (&Relation, PartitionId),
        mut show: impl FnMut(&Key, RowAt),
    ) -> Result<(), TxnError> {
        let (mut entries, mut trace) = (Entries::default(), Trace::new());
        let mut from = Some(Key::zero(relation.key_words));
        while let Some(low) = from {
            entries.clear();
            trace.clear();
            let index = self.index(relation, partition);
            let read = index.scan(cx, &self.tree_env(), low.words(), None, BATCH, &mut entries, &mut trace);
            read.map_err(|error| tree_error(relation.id, error))?;
            from = None;
            for (words, entry) in entries.iter() {
                let key = Key::from_words(words);
                show(&key, RowAt::of_entry(entry));
                from = key.next();
            }
        }
        Ok(())
    }

    /// Shows all rows of a table in this host's partitions, in key order (of a replicated table, this host's
    /// copy). The pod is at rest.
    ///
    /// # Errors
    /// If there is no such table, or its rows cannot be read.
    pub fn for_each_row<F: Fabric>(
        &self,
        cx: &Cx<F>,
        table: TableId,
        mut show: impl FnMut(&Key, Row<'_>),
    ) -> Result<(), TxnError> {
        let relation = self.catalog.relation(table)?;
        if relation.replicated {
            self.copies.each(cx, table, show);
            return Ok(());
        }
        let (end, mut bytes) = (Key::greatest(relation.key_words), Vec::new());
        let _pin = self.epochs.pin(cx);
        for partition in self.own_partitions() {
            self.each_entry(cx, (relation, partition), |key, at| {
                if *key != end {
                    bytes.clear();
                    // At rest nobody is in the way; who is shows in `check`.
                    if self.read(cx, at, relation.row_len, &mut bytes).is_ok() {
                        show(key, Row::new(&bytes));
                    }
                }
            })?;
        }
        Ok(())
    }
}
