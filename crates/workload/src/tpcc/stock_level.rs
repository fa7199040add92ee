//! Stock-Level (TPC-C 2.8): how many items of a district's last 20 orders run low. Read-only, about 200 lines
//! and as many stock rows, all of the home warehouse.
//!
//! The specification would be content with read-committed isolation; here it is serializable like everything
//! else.

use std::ops::ControlFlow;

use liger_engine::{Announced, Transaction, TxnError};

use crate::tpcc::input::StockLevelInput;
use crate::tpcc::lookup::must_exist;
use crate::tpcc::schema::{self, Tables, district, order_line, stock};

/// Orders looked at.
const RECENT_ORDERS: i32 = 20;

/// What the terminal shows (2.8.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevelOutput {
    /// Items of the recent orders whose stock is below the threshold.
    pub low: u32,
    /// Different items in the recent orders.
    pub items: u32,
}

/// Runs a Stock-Level.
///
/// # Errors
/// Whatever the engine says.
pub fn run<T: Transaction>(
    txn: &mut T,
    tables: &Tables,
    input: &StockLevelInput,
) -> Result<StockLevelOutput, TxnError> {
    let StockLevelInput { w, d, threshold } = *input;
    let key = schema::district_key(w, d);
    let found = txn.get(tables.district, &key, |row| row.get(district::D_NEXT_O_ID))?;
    let next_o_id = must_exist(found, tables.district, &key)?;

    let mut items = Vec::with_capacity(300);
    let recent = schema::lines_of(w, d, next_o_id.saturating_sub(RECENT_ORDERS), next_o_id);
    txn.scan(tables.order_line, &recent, |_, row| {
        items.push(row.get(order_line::OL_I_ID));
        ControlFlow::Continue(())
    })?;
    items.sort_unstable();
    items.dedup();
    let stock = items.iter().map(|&i| Announced::read(tables.stock, schema::stock_key(w, i)));
    txn.announce(&stock.collect::<Vec<_>>());
    let mut low = 0;
    for &i in &items {
        let key = schema::stock_key(w, i);
        let found = txn.get(tables.stock, &key, |row| row.get(stock::S_QUANTITY))?;
        let quantity = must_exist(found, tables.stock, &key)?;
        low += u32::from(i32::from(quantity) < threshold);
    }
    Ok(StockLevelOutput { low, items: items.len() as u32 })
}
