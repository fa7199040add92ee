//! How many rows a host has of a table, for those who watch: nothing is locked.
//!
//! A host knows the rows of its own places. What the whole pod has is estimated from these, which is close
//! where rows are spread by hash.

use super::access::Access;
use super::classes::{Bound, Home};
use super::table::TableRows;
use crate::types::Oid;

/// What this host has of a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableCensus {
    /// Rows.
    pub rows: u64,
    /// Those of them that are in shared memory too.
    pub shared_rows: u64,
    /// Bytes of rows, and of values outside of them.
    pub table_bytes: u64,
    /// Bytes of entries, by index.
    pub indexes: Vec<(Oid, u64)>,
    /// Places of this host.
    pub own_places: u16,
    /// All places.
    pub places: u16,
}

impl TableCensus {
    /// Bytes of entries of all indexes.
    pub fn index_bytes(&self) -> u64 {
        self.indexes.iter().map(|(_, bytes)| bytes).sum()
    }

    /// A count of this host as that of the whole pod.
    pub fn of_pod(&self, count: u64) -> u64 {
        match self.own_places {
            0 => 0,
            own => count * u64::from(self.places) / u64::from(own),
        }
    }
}

impl TableRows {
    /// Counts the rows in this host's places.
    pub fn census(&self, tx: &dyn Access) -> TableCensus {
        let own: Vec<u16> = (0..tx.places()).filter(|place| tx.is_own(*place)).collect();
        let count = |home: &Home| {
            let places = own.iter();
            let each =
                places.map(|at| tx.census(home.table, *at, &home.range(*at, Bound::Open, Bound::Open)));
            each.fold((0, 0, 0), |(rows, shared, bytes), one| {
                (rows + one.rows, shared + one.shared_rows, bytes + one.bytes)
            })
        };
        let (rows, shared_rows, bytes) = count(&self.home);
        let outside = self.overflow.as_ref().map_or(0, |home| count(home).2);
        let indexes = self.indexes.iter().map(|index| (index.oid, count(&index.home).2)).collect();
        TableCensus {
            rows,
            shared_rows,
            table_bytes: bytes + outside,
            indexes,
            own_places: own.len() as u16,
            places: tx.places(),
        }
    }
}
