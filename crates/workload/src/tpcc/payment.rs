//! Payment (TPC-C 2.5): a customer, 15 % of them of another warehouse, pays to a district.
//!
//! Rows touched: 1 warehouse, 1 district and 1 customer (all changed), 1 insert into HISTORY. In 60 % of the
//! cases the customer is found by last name, whether or not the warehouse is another one.

use liger_engine::{Announced, NewRow, RowMut, Transaction, TxnError};

use crate::tpcc::input::{PaymentInput, Who};
use crate::tpcc::lookup::{self, must_exist};
use crate::tpcc::schema::{self, Tables, customer, district, history, warehouse};

/// What the terminal shows (2.5.3.4), without the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentOutput {
    /// The customer's number.
    pub c: i32,
    /// `C_FIRST` and `C_LAST`.
    pub name: (String, String),
    /// `C_BALANCE` after the payment, cents.
    pub balance_cents: i64,
    /// `C_DISCOUNT`, in 1/10000.
    pub discount: i64,
    /// The first 200 characters of `C_DATA`, of a customer with bad credit.
    pub data: Option<String>,
}

const DATA_MAX: usize = 500;

/// The new `C_DATA` of a customer with bad credit (2.5.2.2): the payment, then what was there, cut to 500
/// characters.
fn bad_credit_data(c: i32, input: &PaymentInput, old: &str) -> String {
    let PaymentInput { w, d, c_w, c_d, amount_cents, .. } = input;
    let (whole, cents) = (amount_cents / 100, amount_cents % 100);
    let mut data = format!("{c} {c_d} {c_w} {d} {w} {whole}.{cents:02} ");
    data.push_str(old);
    let cut = data.floor_char_boundary(DATA_MAX);
    data.truncate(cut);
    data
}

fn pay(row: &mut RowMut<'_>, c: i32, input: &PaymentInput) -> PaymentOutput {
    let balance_cents = row.get(customer::C_BALANCE).wrapping_sub(input.amount_cents);
    row.set(customer::C_BALANCE, balance_cents);
    let ytd = row.get(customer::C_YTD_PAYMENT).wrapping_add(input.amount_cents);
    row.set(customer::C_YTD_PAYMENT, ytd);
    let payments = row.get(customer::C_PAYMENT_CNT).wrapping_add(1);
    row.set(customer::C_PAYMENT_CNT, payments);
    let bad_credit = row.get(customer::C_CREDIT) == "BC";
    let data = bad_credit.then(|| bad_credit_data(c, input, row.get(customer::C_DATA)));
    if let Some(data) = &data {
        row.set(customer::C_DATA, data);
    }
    PaymentOutput {
        c,
        name: (row.get(customer::C_FIRST).to_owned(), row.get(customer::C_LAST).to_owned()),
        balance_cents,
        discount: row.get(customer::C_DISCOUNT),
        data: data.map(|mut data| {
            data.truncate(data.floor_char_boundary(200));
            data
        }),
    }
}

/// Runs a Payment; `history_id` is the key of its HISTORY row.
///
/// # Errors
/// Whatever the engine says.
pub fn run<T: Transaction>(
    txn: &mut T,
    tables: &Tables,
    input: &PaymentInput,
    history_id: i64,
) -> Result<PaymentOutput, TxnError> {
    let PaymentInput { w, d, c_w, c_d, amount_cents, .. } = *input;
    if let Who::Number(c) = input.who {
        txn.announce(&[Announced::update(tables.customer, schema::customer_key(c_w, c_d, c))]);
    }
    let key = schema::warehouse_key(w);
    let found = txn.update(tables.warehouse, &key, |row| {
        let ytd = row.get(warehouse::W_YTD).wrapping_add(amount_cents);
        row.set(warehouse::W_YTD, ytd);
        row.get(warehouse::W_NAME).to_owned()
    })?;
    let mut data = must_exist(found, tables.warehouse, &key)?;

    let key = schema::district_key(w, d);
    let found = txn.update(tables.district, &key, |row| {
        let ytd = row.get(district::D_YTD).wrapping_add(amount_cents);
        row.set(district::D_YTD, ytd);
        data.push_str("    ");
        data.push_str(row.get(district::D_NAME));
    })?;
    must_exist(found, tables.district, &key)?;

    let c = lookup::customer(txn, tables, c_w, c_d, &input.who)?;
    let key = schema::customer_key(c_w, c_d, c);
    let found = txn.update(tables.customer, &key, |row| pay(row, c, input))?;
    let output = must_exist(found, tables.customer, &key)?;

    use history::*;
    let mut row = NewRow::new(ROW_LEN);
    row.set(H_W_ID, w).set(H_ID, history_id).set(H_D_ID, d);
    row.set(H_C_W_ID, c_w).set(H_C_D_ID, c_d).set(H_C_ID, c);
    row.set(H_DATE, input.date_us).set(H_AMOUNT, amount_cents).set(H_DATA, &data);
    txn.insert(tables.history, &row)?;
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_credit_data_is_cut() {
        let who = Who::Number(7);
        let input = PaymentInput { w: 1, d: 2, c_w: 3, c_d: 4, who, amount_cents: 123_405, date_us: 0 };
        assert_eq!(bad_credit_data(7, &input, "old"), "7 4 3 2 1 1234.05 old");
        let long = bad_credit_data(7, &input, &"x".repeat(500));
        assert_eq!((long.len(), &long[..19]), (500, "7 4 3 2 1 1234.05 x"));
    }
}
