//! Charges a transaction's calls: what an application and the way into the engine cost on the host itself.
//!
//! An engine charges what it does to its indexes and rows. The rest of a call (building the key or the row,
//! finding the table, what the application computes from the row) happens on both sides of the call, so it is
//! charged here, one [`Work::Call`] before each. It passes no time but a simulated one.
//!
//! What it does not charge: hints, which are part of the calls they announce.

use std::ops::ControlFlow;

use liger_engine::{Announced, IndexId, Key, KeyRange, NewRow, Row, RowMut, TableId, Transaction, TxnError};
use liger_fabric::{Cx, Fabric, Work};

/// A transaction whose calls are charged.
pub struct Charged<'a, F: Fabric, T> {
    cx: &'a Cx<F>,
    txn: &'a mut T,
}

impl<'a, F: Fabric, T: Transaction> Charged<'a, F, T> {
    /// Charges the calls of `txn` to the caller's worker.
    pub fn new(cx: &'a Cx<F>, txn: &'a mut T) -> Self {
        Self { cx, txn }
    }

    fn called(&mut self) -> &mut T {
        self.cx.spend(Work::Call, 1);
        self.txn
    }
}

impl<F: Fabric, T: Transaction> Transaction for Charged<'_, F, T> {
    fn announce(&mut self, rows: &[Announced]) {
        self.txn.announce(rows);
    }

    fn get<R>(
        &mut self,
        table: TableId,
        key: &Key,
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, TxnError> {
        self.called().get(table, key, f)
    }

    fn update<R>(
        &mut self,
        table: TableId,
        key: &Key,
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, TxnError> {
        self.called().update(table, key, f)
    }

    fn insert(&mut self, table: TableId, row: &NewRow) -> Result<(), TxnError> {
        self.called().insert(table, row)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, TxnError> {
        self.called().delete(table, key)
    }

    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: impl FnMut(&Key, Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        self.called().scan(table, range, visit)
    }

    fn update_range(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: impl FnMut(&Key, &mut RowMut<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        self.called().update_range(table, range, visit)
    }

    fn scan_index(
        &mut self,
        index: IndexId,
        range: &KeyRange,
        visit: impl FnMut(Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        self.called().scan_index(index, range, visit)
    }
}
