//! Order-Status (TPC-C 2.6): a customer's newest order and where its lines are. Read-only.

use std::ops::ControlFlow;

use liger_engine::{Transaction, TxnError};

use crate::tpcc::input::OrderStatusInput;
use crate::tpcc::lookup::{self, must_exist};
use crate::tpcc::schema::{self, Tables, customer, order_line, orders};

/// What the terminal shows (2.6.3.3). Money in cents, dates in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatusOutput {
    /// The customer's number.
    pub c: i32,
    /// `C_FIRST`, `C_MIDDLE` and `C_LAST`.
    pub name: (String, String, String),
    /// `C_BALANCE`.
    pub balance_cents: i64,
    /// The newest order's number.
    pub o_id: i32,
    /// When it was entered.
    pub entry_us: i64,
    /// Who carried it, if it was delivered.
    pub carrier: Option<i16>,
    /// Its lines.
    pub lines: Vec<LineStatus>,
}

/// A line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineStatus {
    /// The item.
    pub item: i32,
    /// Who supplies it.
    pub supply_w: i16,
    /// How many.
    pub quantity: i16,
    /// What it costs.
    pub amount_cents: i64,
    /// When it was delivered.
    pub delivered_us: Option<i64>,
}

/// Runs an Order-Status.
///
/// # Errors
/// Whatever the engine says.
pub fn run<T: Transaction>(
    txn: &mut T,
    tables: &Tables,
    input: &OrderStatusInput,
) -> Result<OrderStatusOutput, TxnError> {
    let OrderStatusInput { w, d, who } = input;
    let c = lookup::customer(txn, tables, *w, *d, who)?;
    let key = schema::customer_key(*w, *d, c);
    let found = txn.get(tables.customer, &key, |row| {
        let name = [customer::C_FIRST, customer::C_LAST].map(|column| row.get(column).to_owned());
        (name, row.get(customer::C_MIDDLE).to_owned(), row.get(customer::C_BALANCE))
    })?;
    let ([first, last], middle, balance_cents) = must_exist(found, tables.customer, &key)?;

    let mut newest = None;
    let range = schema::orders_of(*w, *d, c);
    txn.scan_index(tables.orders_by_customer, &range, |row| {
        newest = Some((row.get(orders::O_ID), row.get(orders::O_ENTRY_D), row.get(orders::O_CARRIER_ID)));
        ControlFlow::Break(())
    })?;
    let (o_id, entry_us, carrier) = must_exist(newest, tables.orders_by_customer.0, &range.low)?;

    let mut lines = Vec::with_capacity(15);
    txn.scan(tables.order_line, &schema::lines_of(*w, *d, o_id, o_id.wrapping_add(1)), |_, row| {
        lines.push(LineStatus {
            item: row.get(order_line::OL_I_ID),
            supply_w: row.get(order_line::OL_SUPPLY_W_ID),
            quantity: row.get(order_line::OL_QUANTITY),
            amount_cents: row.get(order_line::OL_AMOUNT),
            delivered_us: row.get(order_line::OL_DELIVERY_D),
        });
        ControlFlow::Continue(())
    })?;
    let name = (first, middle, last);
    Ok(OrderStatusOutput { c, name, balance_cents, o_id, entry_us, carrier, lines })
}
