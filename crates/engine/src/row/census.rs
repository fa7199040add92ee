//! How many rows this host has of a range of keys, for those who watch: nothing is locked for longer than a
//! batch, and rows that come or go meanwhile are counted or not.

use liger_fabric::{Cx, DataAddr, Fabric};
use liger_pod::plan::PartitionId;

use super::block::row_start;
use super::rows::Rows;
use crate::tables::key::{Key, KeyRange};
use crate::txn::TableId;

/// Rows passed under one hold of a share's latch.
const BATCH: usize = 256;

/// What a host has of a range of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// Rows.
    pub rows: u64,
    /// Those of them that are in shared memory too.
    pub shared_rows: u64,
    /// Bytes of the rows and their keys.
    pub bytes: u64,
}

impl Rows {
    /// Where the block of a row of this host is in shared memory, and how many of its bytes are in use;
    /// `None` if the row is not shared.
    pub fn block_of<F: Fabric>(
        &self,
        cx: &Cx<F>,
        (partition, table): (PartitionId, TableId),
        key: &Key,
    ) -> Option<(DataAddr, usize)> {
        debug_assert!(self.owns(partition), "a row of this host");
        let part = self.part(cx, (partition, table));
        let at = part.address(part.tree.get(key.words())?)?;
        Some((at.block(), row_start(part.key_words) as usize + part.row_len))
    }

    /// Counts the rows of a range in a partition; none where another host owns it. After a restart, rows that
    /// are not made yet are not counted.
    pub fn census<F: Fabric>(
        &self,
        cx: &Cx<F>,
        table: TableId,
        partition: PartitionId,
        range: &KeyRange,
    ) -> Census {
        let mut found = Census::default();
        let mut last: Option<Key> = None;
        while self.owns(partition) {
            let part = self.part(cx, (partition, table));
            let from = last.as_ref().unwrap_or(&range.low);
            let mut at = part.tree.lower_bound(from.words());
            let mut passed = 0;
            while let Some(cursor) = at.filter(|_| passed < BATCH) {
                let (words, row) = part.tree.entry(cursor);
                let key = Key::from_words(words);
                at = part.tree.next(cursor);
                if range.ends_before(&key) {
                    return found;
                }
                if last.is_some_and(|last| last == key) {
                    continue;
                }
                passed += 1;
                found.rows += 1;
                found.shared_rows += u64::from(part.address(row).is_some());
                found.bytes += (8 * part.key_words + part.row_len) as u64;
                last = Some(key);
            }
            if passed < BATCH {
                break;
            }
        }
        found
    }
}
