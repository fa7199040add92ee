//! Charges a transaction's calls: what an application and the way into the engine cost on the host itself.
//!
//! An engine charges what it does to its indexes and rows. The rest of a call (building the key or the row,
//! finding the table, what the application computes from the row) happens on both sides of the call, so it is
//! charged here: one [`Work::Call`] before each, a [`Work::Change`] for each row that is to be changed, and
//! [`Work::Content`] for what the workload makes up of it. It passes no time but a simulated one.
//!
//! What it does not charge: hints, which are part of the calls they announce.

use std::ops::ControlFlow;

use liger_engine::{Announced, IndexId, Key, KeyRange, NewRow, Row, RowMut, TableId, Transaction, TxnError};
use liger_fabric::{Cx, Fabric, Work};

/// A transaction whose calls are charged.
pub struct Charged<'a, F: Fabric, T> {
    cx: &'a Cx<F>,
    txn: &'a mut T,
    /// Bytes that the workload makes up for a row that it changes, in units of 64.
    content: u32,
}

impl<'a, F: Fabric, T: Transaction> Charged<'a, F, T> {
    /// Charges the calls of `txn` to the caller's worker; `content_bytes` are made up for a row that changes.
    pub fn new(cx: &'a Cx<F>, txn: &'a mut T, content_bytes: u32) -> Self {
        Self { cx, txn, content: content_bytes.div_ceil(64) }
    }

    fn called(&mut self) -> &mut T {
        self.cx.spend(Work::Call, 1);
        self.txn
    }

    fn changing(&mut self, rows: u32) {
        self.cx.spend(Work::Change, rows);
        self.cx.spend(Work::Content, rows * self.content);
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
        self.changing(1);
        self.called().update(table, key, f)
    }

    fn insert(&mut self, table: TableId, row: &NewRow) -> Result<(), TxnError> {
        self.changing(1);
        self.called().insert(table, row)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, TxnError> {
        self.cx.spend(Work::Change, 1);
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
        mut visit: impl FnMut(&Key, &mut RowMut<'_>) -> ControlFlow<()>,
    ) -> Result<(), TxnError> {
        let mut rows = 0;
        self.called().update_range(table, range, |key, row| {
            rows += 1;
            visit(key, row)
        })?;
        self.changing(rows);
        Ok(())
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
