//! The whole database as a consistency check reads it.

use liger_engine::{Row, TableId};

/// Every row of every partition of a quiescent database.
pub trait Snapshot {
    /// Hands each row of `table` to `visit` once, in any order.
    fn rows(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>));
}
