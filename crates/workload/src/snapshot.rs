//! The whole database as a consistency check reads it, and what it compares it with.

use std::collections::BTreeMap;

use liger_engine::{Row, TableId};

/// Every row of every partition of a quiescent database.
pub trait Snapshot {
    /// Hands each row of `table` to `visit` once, in any order.
    fn rows(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>));
}

/// What workers were told is committed, since the database was loaded (`WorkerStats::acknowledged`).
#[derive(Clone, Copy, Debug)]
pub enum Acknowledged<'a> {
    /// Not known; not checked.
    Unknown,
    /// No worker or host died: exactly this is in the database.
    Exactly(&'a BTreeMap<String, u64>),
    /// Some died: at least this is in the database, and perhaps commits whose acknowledgement died with the
    /// worker.
    AtLeast(&'a BTreeMap<String, u64>),
}
