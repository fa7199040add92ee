//! The rows of other hosts that a transaction holds, and how they are found again.
//!
//! 1. A row is held once. While they are few they are looked through; of more than [`FEW`] keys and addresses
//!    are kept in order, because looking through all of them for each row would take a large transaction
//!    quadratic time.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use liger_pod::heap::TupleAddr;

use crate::key::Key;
use crate::txn::TableId;

/// Looking through so many takes no longer than a tree.
const FEW: usize = 32;

/// A row of another host that this transaction holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForeignRow {
    pub(super) hash: u64,
    pub(super) at: TupleAddr,
    pub(super) table: TableId,
    pub(super) partition: u16,
    pub(super) key: Key,
    pub(super) row_len: usize,
    pub(super) llsn: u64,
    pub(super) wrote: bool,
}

impl ForeignRow {
    fn name(&self) -> (TableId, u16, Key) {
        (self.table, self.partition, self.key)
    }
}

/// The rows of other hosts that a transaction holds.
#[derive(Default)]
pub(super) struct Borrowed {
    list: Vec<ForeignRow>,
    /// Where rows are in `list`, once they are more than [`FEW`]: by name, and by address.
    names: BTreeMap<(TableId, u16, Key), usize>,
    places: BTreeMap<TupleAddr, usize>,
}

impl Borrowed {
    /// Adds a row; its number.
    pub(super) fn add(&mut self, row: ForeignRow) -> usize {
        let i = self.list.len();
        if i == FEW {
            self.names.extend(self.list.iter().enumerate().map(|(i, row)| (row.name(), i)));
            self.places.extend(self.list.iter().enumerate().map(|(i, row)| (row.at, i)));
        }
        if i >= FEW {
            self.names.insert(row.name(), i);
            self.places.insert(row.at, i);
        }
        self.list.push(row);
        i
    }

    /// The row with this key, if it is held.
    pub(super) fn of_key(&self, table: TableId, partition: u16, key: &Key) -> Option<usize> {
        let name = (table, partition, *key);
        if self.list.len() <= FEW {
            return self.list.iter().rposition(|row| row.name() == name);
        }
        self.names.get(&name).copied()
    }

    /// The row at this address, if it is held.
    pub(super) fn of_address(&self, at: TupleAddr) -> Option<&ForeignRow> {
        if self.list.len() <= FEW {
            return self.list.iter().rfind(|row| row.at == at);
        }
        self.places.get(&at).map(|i| &self.list[*i])
    }

    /// Forgets the row that was added last.
    pub(super) fn pop(&mut self) {
        let Some(row) = self.list.pop() else { return };
        if self.list.len() < FEW {
            self.names.clear();
            self.places.clear();
        } else {
            self.names.remove(&row.name());
            self.places.remove(&row.at);
        }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.names.clear();
        self.places.clear();
    }
}

impl Deref for Borrowed {
    type Target = [ForeignRow];

    fn deref(&self) -> &[ForeignRow] {
        &self.list
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut [ForeignRow] {
        &mut self.list
    }
}

#[cfg(test)]
mod tests {
    use liger_fabric::{DataAddr, SyncAddr};

    use super::*;

    fn at(n: u64) -> TupleAddr {
        TupleAddr::new(DataAddr::new(64 * n), SyncAddr::new(8 * n), 1)
    }

    fn row(n: u64) -> ForeignRow {
        ForeignRow {
            hash: n,
            at: at(n),
            table: TableId(1),
            partition: (n % 3) as u16,
            key: Key::from_words(&[n]),
            row_len: 8,
            llsn: 0,
            wrote: false,
        }
    }

    #[test]
    fn few_and_many_rows_are_found_by_key_and_by_address() {
        let mut rows = Borrowed::default();
        for n in 0..100 {
            assert_eq!(rows.of_key(TableId(1), (n % 3) as u16, &Key::from_words(&[n])), None);
            assert_eq!(rows.add(row(n)) as u64, n);
            for held in 0..=n {
                let key = Key::from_words(&[held]);
                assert_eq!(rows.of_key(TableId(1), (held % 3) as u16, &key), Some(held as usize));
                assert_eq!(rows.of_address(at(held)).map(|row| row.hash), Some(held));
            }
            assert_eq!(rows.of_key(TableId(2), (n % 3) as u16, &Key::from_words(&[n])), None);
        }
        // Back below the number from which on keys are kept in order, and up again.
        for n in (20..100).rev() {
            rows.pop();
            assert_eq!(rows.of_key(TableId(1), (n % 3) as u16, &Key::from_words(&[n])), None);
            assert!(rows.of_address(at(n)).is_none());
        }
        for n in 20..60 {
            assert_eq!(rows.add(row(n)) as u64, n);
            assert_eq!(rows.of_key(TableId(1), 1, &Key::from_words(&[19])), Some(19));
            assert_eq!(rows.of_address(at(n)).map(|row| row.hash), Some(n));
        }
        rows.clear();
        assert_eq!(rows.of_key(TableId(1), 0, &Key::from_words(&[0])), None);
        assert!(rows.of_address(at(101)).is_none() && rows.is_empty());
    }
}
