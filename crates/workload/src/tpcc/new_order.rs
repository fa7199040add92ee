//! New-Order (TPC-C 2.4): enters an order of 5 to 15 lines and takes them from stock.
//!
//! Rows touched: 1 warehouse, 1 district (changed), 1 customer, 5 to 15 items and stock rows (changed), and
//! inserts of 1 order, 1 undelivered order, 5 to 15 lines. An item may occur in several lines, so a
//! transaction must see its own earlier change of a stock row. One transaction in a hundred asks for an
//! unused item in its last line and is rolled back after all other work was done.

use liger_engine::{Announced, NewRow, Transaction, TxnError};

use crate::tpcc::input::{Line, NewOrderInput};
use crate::tpcc::lookup::must_exist;
use crate::tpcc::schema::{self, Tables, customer, district, item, new_order, order_line, orders, stock};

/// What the terminal shows (2.4.3.4). Money in cents, rates in 1/10000.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrderOutput {
    /// Number of the order.
    pub o_id: i32,
    /// `C_LAST`.
    pub last: String,
    /// `C_CREDIT`.
    pub credit: String,
    /// `C_DISCOUNT`.
    pub discount: i64,
    /// `W_TAX`.
    pub w_tax: i64,
    /// `D_TAX`.
    pub d_tax: i64,
    /// Sum of the lines, less the discount, plus the taxes, rounded half up.
    pub total_cents: i64,
    /// The lines.
    pub lines: Vec<LineOutput>,
}

/// One line as the terminal shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineOutput {
    /// `I_NAME`.
    pub name: String,
    /// `S_QUANTITY` after this line was taken.
    pub stock: i16,
    /// `B` where both `I_DATA` and `S_DATA` contain "ORIGINAL", else `G`.
    pub brand: char,
    /// `I_PRICE`.
    pub price_cents: i64,
    /// `OL_AMOUNT`.
    pub amount_cents: i64,
}

/// What a stock row becomes when `ordered` are taken: at least ten stay, else 91 are delivered first
/// (2.4.2.2). Stays in 10 to 100, so that the quantity modulo 91 says it all; the consistency check rests on
/// that.
pub(super) fn stock_after(quantity: i16, ordered: i16) -> i16 {
    if quantity >= ordered + 10 { quantity - ordered } else { quantity - ordered + 91 }
}

/// Sum of the lines with discount and taxes (rates in 1/10000), in cents, rounded half up.
fn total(sum_cents: i64, discount: i64, taxes: i64) -> i64 {
    const UNIT: i64 = 10_000;
    let exact = sum_cents * (UNIT - discount) * (UNIT + taxes);
    (exact + UNIT * UNIT / 2).div_euclid(UNIT * UNIT)
}

/// Runs a New-Order.
///
/// # Errors
/// [`TxnError::Rollback`] when an item does not exist; whatever the engine says otherwise.
pub fn run<T: Transaction>(
    txn: &mut T,
    tables: &Tables,
    input: &NewOrderInput,
) -> Result<NewOrderOutput, TxnError> {
    let NewOrderInput { w, d, c, .. } = *input;
    let mut soon = Vec::with_capacity(2 * input.lines.len() + 1);
    soon.push(Announced::read(tables.customer, schema::customer_key(w, d, c)));
    for line in &input.lines {
        soon.push(Announced::read(tables.item, schema::item_key(line.item)));
        soon.push(Announced::update(tables.stock, schema::stock_key(line.supply_w, line.item)));
    }
    txn.announce(&soon);
    let key = schema::warehouse_key(w);
    let found = txn.get(tables.warehouse, &key, |row| row.get(schema::warehouse::W_TAX))?;
    let w_tax = must_exist(found, tables.warehouse, &key)?;

    let key = schema::district_key(w, d);
    let found = txn.update(tables.district, &key, |row| {
        let o_id = row.get(district::D_NEXT_O_ID);
        row.set(district::D_NEXT_O_ID, o_id.wrapping_add(1));
        (o_id, row.get(district::D_TAX))
    })?;
    let (o_id, d_tax) = must_exist(found, tables.district, &key)?;

    let key = schema::customer_key(w, d, c);
    let found = txn.get(tables.customer, &key, |row| {
        let text = |column: &str| column.to_owned();
        let (last, credit) = (text(row.get(customer::C_LAST)), text(row.get(customer::C_CREDIT)));
        (last, credit, row.get(customer::C_DISCOUNT))
    })?;
    let (last, credit, discount) = must_exist(found, tables.customer, &key)?;

    let mut row = NewRow::default();
    enter_order(txn, tables, input, o_id, &mut row)?;
    let mut lines = Vec::with_capacity(input.lines.len());
    for (number, line) in (1..).zip(&input.lines) {
        lines.push(enter_line(txn, tables, input, o_id, number, line, &mut row)?);
    }
    let sum_cents = lines.iter().map(|line| line.amount_cents).sum();
    let total_cents = total(sum_cents, discount, w_tax + d_tax);
    Ok(NewOrderOutput { o_id, last, credit, discount, w_tax, d_tax, total_cents, lines })
}

fn enter_order<T: Transaction>(
    txn: &mut T,
    tables: &Tables,
    input: &NewOrderInput,
    o_id: i32,
    row: &mut NewRow,
) -> Result<(), TxnError> {
    let NewOrderInput { w, d, c, .. } = *input;
    let all_local = input.lines.iter().all(|line| line.supply_w == w);
    row.reset(orders::ROW_LEN).set(orders::O_W_ID, w).set(orders::O_D_ID, d).set(orders::O_ID, o_id);
    row.set(orders::O_C_ID, c).set(orders::O_ENTRY_D, input.entry_us).set(orders::O_CARRIER_ID, None);
    row.set(orders::O_OL_CNT, input.lines.len() as i16).set(orders::O_ALL_LOCAL, i16::from(all_local));
    txn.insert(tables.orders, row)?;
    row.reset(new_order::ROW_LEN).set(new_order::NO_W_ID, w).set(new_order::NO_D_ID, d);
    row.set(new_order::NO_O_ID, o_id);
    txn.insert(tables.new_order, row)
}

fn enter_line<T: Transaction>(
    txn: &mut T,
    tables: &Tables,
    input: &NewOrderInput,
    o_id: i32,
    number: i16,
    line: &Line,
    row: &mut NewRow,
) -> Result<LineOutput, TxnError> {
    let of_item = |row: liger_engine::Row<'_>| {
        let original = row.get(item::I_DATA).contains("ORIGINAL");
        (row.get(item::I_PRICE), row.get(item::I_NAME).to_owned(), original)
    };
    let Some((price_cents, name, item_original)) =
        txn.get(tables.item, &schema::item_key(line.item), of_item)?
    else {
        return Err(TxnError::Rollback);
    };

    use order_line::*;
    row.reset(ROW_LEN).set(OL_W_ID, input.w).set(OL_D_ID, input.d).set(OL_O_ID, o_id).set(OL_NUMBER, number);
    let dist_column = schema::S_DIST[usize::from(input.d as u16 - 1)];
    let key = schema::stock_key(line.supply_w, line.item);
    let found = txn.update(tables.stock, &key, |from| {
        let left = stock_after(from.get(stock::S_QUANTITY), line.quantity);
        from.set(stock::S_QUANTITY, left);
        let ytd = from.get(stock::S_YTD).wrapping_add(i32::from(line.quantity));
        from.set(stock::S_YTD, ytd);
        let orders = from.get(stock::S_ORDER_CNT).wrapping_add(1);
        from.set(stock::S_ORDER_CNT, orders);
        if line.supply_w != input.w {
            let remote = from.get(stock::S_REMOTE_CNT).wrapping_add(1);
            from.set(stock::S_REMOTE_CNT, remote);
        }
        row.set(OL_DIST_INFO, from.get(dist_column));
        (left, from.get(stock::S_DATA).contains("ORIGINAL"))
    })?;
    let (left, stock_original) = must_exist(found, tables.stock, &key)?;

    let amount_cents = price_cents * i64::from(line.quantity);
    row.set(OL_I_ID, line.item).set(OL_SUPPLY_W_ID, line.supply_w).set(OL_QUANTITY, line.quantity);
    row.set(OL_AMOUNT, amount_cents).set(OL_DELIVERY_D, None);
    txn.insert(tables.order_line, row)?;
    let brand = if item_original && stock_original { 'B' } else { 'G' };
    Ok(LineOutput { name, stock: left, brand, price_cents, amount_cents })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_stays_between_10_and_100() {
        for quantity in 10..=100 {
            for ordered in 1..=10 {
                let left = stock_after(quantity, ordered);
                assert!((10..=100).contains(&left));
                assert_eq!((quantity - ordered - left).rem_euclid(91), 0);
            }
        }
    }

    #[test]
    fn totals_are_exact() {
        assert_eq!(total(10_000, 0, 0), 10_000);
        // 100.00 less 50 % plus 40 %: 70.00
        assert_eq!(total(10_000, 5000, 4000), 7000);
        // 0.01 less half: 0.005, rounded up
        assert_eq!(total(1, 5000, 0), 1);
        assert_eq!(total(1, 5001, 0), 0);
        // The largest possible order does not overflow.
        assert_eq!(total(15 * 10 * 10_000, 0, 4000), 15 * 10 * 14_000);
    }
}
