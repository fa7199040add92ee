//! The rows of other hosts that a transaction holds, and how they are found again.

use std::ops::{Deref, DerefMut};

use liger_pod::heap::TupleAddr;
use liger_pod::plan::PartitionId;

use super::block::Shape;
use crate::protocol::index_map::{IndexMap, Listed, Named};
use crate::tables::key::Key;
use crate::txn::TableId;

/// A row of another host that this transaction holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForeignRow {
    pub(super) hash: u64,
    pub(super) at: TupleAddr,
    pub(super) table: TableId,
    pub(super) partition: PartitionId,
    pub(super) key: Key,
    pub(super) row_len: usize,
    pub(super) llsn: u64,
    pub(super) wrote: bool,
}

impl ForeignRow {
    /// The shape of its block.
    pub(super) fn shape(&self) -> Shape {
        Shape { key_words: self.key.width(), row_len: self.row_len }
    }
}

impl Named for ForeignRow {
    type Name = (TableId, PartitionId, Key);

    fn name(&self) -> (TableId, PartitionId, Key) {
        (self.table, self.partition, self.key)
    }
}

/// The rows of other hosts that a transaction holds.
#[derive(Default)]
pub(super) struct Borrowed {
    /// By name.
    rows: Listed<ForeignRow>,
    /// Where rows are among them, by address.
    addresses: IndexMap<TupleAddr>,
}

impl Borrowed {
    /// Adds a row; its number.
    pub(super) fn add(&mut self, row: ForeignRow) -> usize {
        let i = self.rows.add(row);
        self.addresses.put(row.at, i);
        i
    }

    /// The row with this key, if it is held.
    pub(super) fn of_key(&mut self, table: TableId, partition: PartitionId, key: &Key) -> Option<usize> {
        self.rows.number(&(table, partition, *key))
    }

    /// The row at this address, if it is held.
    pub(super) fn of_address(&self, at: TupleAddr) -> Option<&ForeignRow> {
        self.addresses.get(&at).map(|i| &self.rows[i])
    }

    /// Forgets the row that was added last.
    pub(super) fn pop(&mut self) {
        let Some(row) = self.rows.pop() else { return };
        self.addresses.remove(&row.at);
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.addresses.clear();
    }
}

impl Deref for Borrowed {
    type Target = [ForeignRow];

    fn deref(&self) -> &[ForeignRow] {
        &self.rows
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut [ForeignRow] {
        &mut self.rows
    }
}

#[cfg(test)]
mod tests {
    use liger_fabric::{DataAddr, SyncAddr};

    use super::*;

    fn at(n: u64) -> TupleAddr {
        TupleAddr::new(DataAddr::new(64 * (n + 1)), SyncAddr::new(8 * n), 1)
    }

    fn row(n: u64) -> ForeignRow {
        ForeignRow {
            hash: n,
            at: at(n),
            table: TableId(1),
            partition: PartitionId((n % 3) as u16),
            key: Key::from_words(&[n]),
            row_len: 8,
            llsn: 0,
            wrote: false,
        }
    }

    #[test]
    fn rows_are_found_by_key_and_by_address() {
        let mut rows = Borrowed::default();
        for n in 0..100 {
            assert_eq!(rows.of_key(TableId(1), PartitionId((n % 3) as u16), &Key::from_words(&[n])), None);
            assert_eq!(rows.add(row(n)) as u64, n);
            for held in 0..=n {
                let key = Key::from_words(&[held]);
                assert_eq!(
                    rows.of_key(TableId(1), PartitionId((held % 3) as u16), &key),
                    Some(held as usize)
                );
                assert_eq!(rows.of_address(at(held)).map(|row| row.hash), Some(held));
            }
            assert_eq!(rows.of_key(TableId(2), PartitionId((n % 3) as u16), &Key::from_words(&[n])), None);
        }
        for n in (20..100).rev() {
            rows.pop();
            assert_eq!(rows.of_key(TableId(1), PartitionId((n % 3) as u16), &Key::from_words(&[n])), None);
            assert!(rows.of_address(at(n)).is_none());
        }
        for n in 20..60 {
            assert_eq!(rows.add(row(n)) as u64, n);
            assert_eq!(rows.of_key(TableId(1), PartitionId(1), &Key::from_words(&[19])), Some(19));
            assert_eq!(rows.of_address(at(n)).map(|row| row.hash), Some(n));
        }
        rows.clear();
        assert_eq!(rows.of_key(TableId(1), PartitionId(0), &Key::from_words(&[0])), None);
        assert!(rows.of_address(at(101)).is_none() && rows.is_empty());
    }
}
