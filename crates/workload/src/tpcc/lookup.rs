//! What several transactions share: rows that must exist, and customers found by last name.

use std::ops::ControlFlow;

use liger_engine::{Key, TableId, Transaction, TxnError};

use crate::tpcc::input::Who;
use crate::tpcc::schema::{self, Tables, customer};

/// A row that the loader made and nobody deletes, or that this transaction has just found, is not there.
pub(super) fn must_exist<R>(found: Option<R>, table: TableId, key: &Key) -> Result<R, TxnError> {
    found.ok_or(TxnError::Damaged { table, what: "database: a row is missing", found: key.words()[0] })
}

/// The number of the customer that `who` names. Of several customers of one last name it is the one at place
/// n/2 rounded up, in order of first names (2.5.2.2, 2.6.2.2).
pub(super) fn customer<T: Transaction>(
    txn: &mut T,
    tables: &Tables,
    w: i16,
    d: i16,
    who: &Who,
) -> Result<i32, TxnError> {
    let last = match who {
        Who::Number(c) => return Ok(*c),
        Who::LastName(last) => last,
    };
    let mut numbers = Vec::new();
    let range = schema::customers_named(w, d, last);
    txn.scan_index(tables.customer_by_name, &range, |row| {
        numbers.push(row.get(customer::C_ID));
        ControlFlow::Continue(())
    })?;
    let middle = numbers.len().div_ceil(2).checked_sub(1).map(|place| numbers[place]);
    must_exist(middle, tables.customer_by_name.0, &range.low)
}
