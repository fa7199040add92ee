//! Delivery (TPC-C 2.7): the oldest undelivered order of each of a warehouse's districts goes out, in one
//! transaction.
//!
//! Rows touched, for each district: 1 undelivered order (deleted), 1 order, 5 to 15 lines and 1 customer (all
//! changed). A district without an undelivered order is skipped and counted (2.7.4.2). The specification lets
//! a business run it deferred, from a queue; here it runs when it is asked for and its time is its response
//! time.

use std::ops::ControlFlow;

use liger_engine::{Transaction, TxnError};

use crate::tpcc::input::DeliveryInput;
use crate::tpcc::lookup::must_exist;
use crate::tpcc::schema::{self, Tables, customer, new_order, order_line, orders};

/// What the result file says (2.7.3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryOutput {
    /// District, order, customer and the sum of its lines in cents, of every order delivered.
    pub delivered: Vec<(i16, i32, i32, i64)>,
    /// Districts that had nothing to deliver.
    pub skipped: u32,
}

/// Runs a Delivery.
///
/// # Errors
/// Whatever the engine says.
pub fn run<T: Transaction>(
    txn: &mut T,
    tables: &Tables,
    input: &DeliveryInput,
) -> Result<DeliveryOutput, TxnError> {
    let mut output = DeliveryOutput { delivered: Vec::with_capacity(10), skipped: 0 };
    for d in input.first_d..=input.last_d {
        match deliver(txn, tables, input, d)? {
            Some((o, c, amount_cents)) => output.delivered.push((d, o, c, amount_cents)),
            None => output.skipped += 1,
        }
    }
    Ok(output)
}

fn deliver<T: Transaction>(
    txn: &mut T,
    tables: &Tables,
    input: &DeliveryInput,
    d: i16,
) -> Result<Option<(i32, i32, i64)>, TxnError> {
    let w = input.w;
    let mut oldest = None;
    txn.scan(tables.new_order, &schema::new_orders_of(w, d), |_, row| {
        oldest = Some(row.get(new_order::NO_O_ID));
        ControlFlow::Break(())
    })?;
    let Some(o) = oldest else { return Ok(None) };
    let key = schema::order_key(w, d, o);
    let deleted = txn.delete(tables.new_order, &key)?;
    must_exist(deleted.then_some(()), tables.new_order, &key)?;

    let found = txn.update(tables.orders, &key, |row| {
        row.set(orders::O_CARRIER_ID, Some(input.carrier));
        row.get(orders::O_C_ID)
    })?;
    let c = must_exist(found, tables.orders, &key)?;

    let mut amount_cents: i64 = 0;
    let lines = schema::lines_of(w, d, o, o.wrapping_add(1));
    txn.update_range(tables.order_line, &lines, |_, row| {
        row.set(order_line::OL_DELIVERY_D, Some(input.date_us));
        amount_cents = amount_cents.wrapping_add(row.get(order_line::OL_AMOUNT));
        ControlFlow::Continue(())
    })?;

    let key = schema::customer_key(w, d, c);
    let found = txn.update(tables.customer, &key, |row| {
        let balance = row.get(customer::C_BALANCE).wrapping_add(amount_cents);
        row.set(customer::C_BALANCE, balance);
        let deliveries = row.get(customer::C_DELIVERY_CNT).wrapping_add(1);
        row.set(customer::C_DELIVERY_CNT, deliveries);
    })?;
    must_exist(found, tables.customer, &key)?;
    Ok(Some((o, c, amount_cents)))
}
