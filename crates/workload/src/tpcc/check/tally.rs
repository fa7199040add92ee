//! The running sums of the check: one pass over each table, in an order in which every row finds what it
//! needs.
//!
//! WAREHOUSE, DISTRICT, HISTORY, ORDER and NEW-ORDER come first; ORDER-LINE then knows its order's customer
//! and carrier; CUSTOMER and STOCK come last and are compared row by row with what the inserts add up to.
//! What belongs to a warehouse or district as a whole is compared in [`Tally::conclude`].

use std::collections::BTreeMap;

use liger_engine::Row;

use super::{Acknowledged, Condition, Findings, Snapshot};
use crate::tpcc::load::{initial_price, initial_quantity};
use crate::tpcc::schema::{
    Tables, customer, district, history, new_order, order_line, orders, stock, warehouse,
};
use crate::tpcc::workload::{DELIVERIES, NEW_ORDERS, PAYMENTS};
use crate::tpcc::{DISTRICTS, Scale};

#[derive(Clone, Default)]
struct OfWarehouse {
    seen: bool,
    ytd: i64,
    districts_ytd: i64,
    paid: i64,
}

#[derive(Clone, Default)]
struct OfDistrict {
    seen: bool,
    ytd: i64,
    paid: i64,
    next_o_id: i32,
    /// By order number less one.
    orders: Vec<OfOrder>,
    order_rows: i64,
    line_rows: i64,
    /// Sum of O_OL_CNT.
    lines_due: i64,
    /// Sum of C_DELIVERY_CNT.
    deliveries: i64,
}

/// An order. Numbers beyond what the district knows are kept nowhere: they are findings.
#[derive(Clone, Copy, Default)]
struct OfOrder {
    customer: i32,
    lines_due: i16,
    /// Bit n - 1: line n was seen.
    lines: u16,
    seen: bool,
    undelivered: bool,
    carrier: bool,
    all_local: bool,
    away_lines: u8,
}

#[derive(Clone, Copy, Default)]
struct OfCustomer {
    paid: i64,
    delivered: i64,
    payments: u32,
    /// Top bit: the customer's row was seen.
    deliveries: u32,
}

#[derive(Clone, Copy, Default)]
struct OfStock {
    ytd: i32,
    lines: i32,
    away_lines: i32,
    seen: bool,
}

const SEEN: u32 = 1 << 31;

pub(super) struct Tally {
    scale: Scale,
    seed: u64,
    prices: Vec<i64>,
    warehouses: Vec<OfWarehouse>,
    districts: Vec<OfDistrict>,
    customers: Vec<OfCustomer>,
    stocks: Vec<OfStock>,
    history_rows: i64,
    findings: Findings,
}

/// Place of `number` (from 1) of `count`, or nothing if it is out of range.
fn place(number: i32, count: i32) -> Option<usize> {
    (1..=count).contains(&number).then(|| number as usize - 1)
}

impl Tally {
    pub(super) fn new(scale: Scale, seed: u64) -> Self {
        let warehouses = scale.warehouses as usize;
        let districts = warehouses * DISTRICTS as usize;
        Self {
            scale,
            seed,
            prices: (1..=scale.items).map(|i| initial_price(seed, i)).collect(),
            warehouses: vec![OfWarehouse::default(); warehouses],
            districts: vec![OfDistrict::default(); districts],
            customers: vec![OfCustomer::default(); districts * scale.customers as usize],
            stocks: vec![OfStock::default(); warehouses * scale.items as usize],
            history_rows: 0,
            findings: Findings::default(),
        }
    }

    pub(super) fn read(&mut self, snapshot: &dyn Snapshot, tables: &Tables) {
        snapshot.rows(tables.warehouse, &mut |row| self.warehouse(row));
        snapshot.rows(tables.district, &mut |row| self.district(row));
        snapshot.rows(tables.history, &mut |row| self.history(row));
        snapshot.rows(tables.orders, &mut |row| self.order(row));
        snapshot.rows(tables.new_order, &mut |row| self.new_order(row));
        snapshot.rows(tables.order_line, &mut |row| self.order_line(row));
        self.orders_and_customers();
        snapshot.rows(tables.customer, &mut |row| self.customer(row));
        snapshot.rows(tables.stock, &mut |row| self.stock(row));
    }

    fn warehouse_at(&self, w: i16) -> Option<usize> {
        place(w.into(), self.scale.warehouses.into())
    }

    fn district_at(&self, w: i16, d: i16) -> Option<usize> {
        Some(self.warehouse_at(w)? * DISTRICTS as usize + place(d.into(), DISTRICTS.into())?)
    }

    fn customer_at(&self, w: i16, d: i16, c: i32) -> Option<usize> {
        Some(self.district_at(w, d)? * self.scale.customers as usize + place(c, self.scale.customers)?)
    }

    fn stock_at(&self, w: i16, i: i32) -> Option<usize> {
        Some(self.warehouse_at(w)? * self.scale.items as usize + place(i, self.scale.items)?)
    }

    /// Reports a key out of range, or a second row of a key: `found` rows where one was expected.
    fn bad_key(&mut self, table: &str, key: &[i64], found: i64) {
        self.findings.report(Condition::Keys, || format!("{table} {key:?}"), i64::from(found > 1), found);
    }

    fn warehouse(&mut self, row: Row<'_>) {
        let w = row.get(warehouse::W_ID);
        let Some(at) = self.warehouse_at(w) else { return self.bad_key(warehouse::NAME, &[w.into()], 1) };
        let of = &mut self.warehouses[at];
        if std::mem::replace(&mut of.seen, true) {
            return self.bad_key(warehouse::NAME, &[w.into()], 2);
        }
        of.ytd = row.get(warehouse::W_YTD);
    }

    fn district(&mut self, row: Row<'_>) {
        let (w, d) = (row.get(district::D_W_ID), row.get(district::D_ID));
        let key = [w.into(), d.into()];
        let Some(at) = self.district_at(w, d) else { return self.bad_key(district::NAME, &key, 1) };
        let of = &mut self.districts[at];
        if std::mem::replace(&mut of.seen, true) {
            return self.bad_key(district::NAME, &key, 2);
        }
        of.ytd = row.get(district::D_YTD);
        of.next_o_id = row.get(district::D_NEXT_O_ID);
        self.warehouses[at / DISTRICTS as usize].districts_ytd += of.ytd;
    }

    fn history(&mut self, row: Row<'_>) {
        use history::*;
        self.history_rows += 1;
        let amount = row.get(H_AMOUNT);
        let (w, d) = (row.get(H_W_ID), row.get(H_D_ID));
        match self.district_at(w, d) {
            Some(at) => {
                self.districts[at].paid += amount;
                self.warehouses[at / DISTRICTS as usize].paid += amount;
            }
            None => self.bad_key(NAME, &[w.into(), row.get(H_ID), d.into()], 1),
        }
        let (c_w, c_d, c) = (row.get(H_C_W_ID), row.get(H_C_D_ID), row.get(H_C_ID));
        match self.customer_at(c_w, c_d, c) {
            Some(at) => {
                self.customers[at].paid += amount;
                self.customers[at].payments += 1;
            }
            None => self.bad_key(NAME, &[w.into(), row.get(H_ID), c_w.into(), c_d.into(), c.into()], 1),
        }
    }

    fn order(&mut self, row: Row<'_>) {
        use orders::*;
        let (w, d, o, c) = (row.get(O_W_ID), row.get(O_D_ID), row.get(O_ID), row.get(O_C_ID));
        let key = [w.into(), d.into(), o.into(), c.into()];
        let at = self.district_at(w, d).zip(self.customer_at(w, d, c)).map(|(at, _)| at);
        let Some(of) = at.map(|at| &mut self.districts[at]) else { return self.bad_key(NAME, &key, 1) };
        let due = row.get(O_OL_CNT);
        of.order_rows += 1;
        of.lines_due += i64::from(due);
        // An order number at or above D_NEXT_O_ID is what condition 2 is about; the check stays within it, so
        // that a wild number cannot make it ask for memory.
        let Some(slot) = place(o, of.next_o_id.saturating_sub(1)) else {
            let expected = i64::from(of.next_o_id) - 1;
            return self.findings.report(Condition::C2, || format!("orders {key:?}"), expected, o.into());
        };
        if of.orders.len() <= slot {
            of.orders.resize(slot + 1, OfOrder::default());
        }
        let order = &mut of.orders[slot];
        if order.seen {
            return self.bad_key(NAME, &key, 2);
        }
        *order = OfOrder {
            customer: c,
            lines_due: due,
            seen: true,
            carrier: row.get(O_CARRIER_ID).is_some(),
            all_local: row.get(O_ALL_LOCAL) == 1,
            ..OfOrder::default()
        };
    }

    /// The order with this number, if its row was seen.
    fn order_at(&mut self, w: i16, d: i16, o: i32) -> Option<&mut OfOrder> {
        let at = self.district_at(w, d)?;
        let orders = &mut self.districts[at].orders;
        let slot = place(o, orders.len() as i32)?;
        orders[slot].seen.then_some(&mut orders[slot])
    }

    fn new_order(&mut self, row: Row<'_>) {
        use new_order::*;
        let (w, d, o) = (row.get(NO_W_ID), row.get(NO_D_ID), row.get(NO_O_ID));
        let key = [w.into(), d.into(), o.into()];
        match self.order_at(w, d, o) {
            None => {
                self.findings.report(Condition::C5, || format!("new_order {key:?} without its order"), 1, 0)
            }
            Some(order) if order.undelivered => self.bad_key(NAME, &key, 2),
            Some(order) => order.undelivered = true,
        }
    }

    fn order_line(&mut self, row: Row<'_>) {
        use order_line::*;
        let (w, d, o, n) = (row.get(OL_W_ID), row.get(OL_D_ID), row.get(OL_O_ID), row.get(OL_NUMBER));
        let key = [w.into(), d.into(), o.into(), n.into()];
        let Some(at) = self.district_at(w, d) else { return self.bad_key(NAME, &key, 1) };
        self.districts[at].line_rows += 1;
        let supply_w = row.get(OL_SUPPLY_W_ID);
        let Some(order) = self.order_at(w, d, o) else {
            return self.findings.report(Condition::C6, || format!("line {key:?} without its order"), 1, 0);
        };
        let bit = if (1..=15).contains(&n) { 1 << (n - 1) } else { 0 };
        if bit == 0 || order.lines & bit != 0 {
            return self.bad_key(NAME, &key, if bit == 0 { 1 } else { 2 });
        }
        order.lines |= bit;
        order.away_lines += u8::from(supply_w != w);
        let (c, carrier) = (order.customer, order.carrier);
        let delivered = row.get(OL_DELIVERY_D).is_some();
        if delivered {
            let customer = self.customer_at(w, d, c).expect("checked when the order was read");
            self.customers[customer].delivered += row.get(OL_AMOUNT);
        }
        self.findings.equal(Condition::C7, || format!("line {key:?}"), carrier.into(), delivered.into());
        if o > self.scale.orders() {
            self.line_of_run(row, &key);
        }
    }

    /// A line that was entered by the run, not by the loader: it was taken from a stock row.
    fn line_of_run(&mut self, row: Row<'_>, key: &[i64; 4]) {
        use order_line::*;
        let (i, quantity) = (row.get(OL_I_ID), row.get(OL_QUANTITY));
        let supply_w = row.get(OL_SUPPLY_W_ID);
        let Some(at) = self.stock_at(supply_w, i) else {
            return self.bad_key(NAME, &[&key[..], &[supply_w.into(), i.into()]].concat(), 1);
        };
        let of = &mut self.stocks[at];
        of.ytd = of.ytd.wrapping_add(quantity.into());
        of.lines += 1;
        of.away_lines += i32::from(supply_w != row.get(OL_W_ID));
        let amount = i64::from(quantity) * self.prices[i as usize - 1];
        self.findings.equal(Condition::LineAmount, || format!("line {key:?}"), amount, row.get(OL_AMOUNT));
    }

    /// With all orders and lines read: every order by itself, and the deliveries of every customer and
    /// district.
    fn orders_and_customers(&mut self) {
        for (at, of) in self.districts.iter().enumerate() {
            let (w, d) = (at / DISTRICTS as usize + 1, at % DISTRICTS as usize + 1);
            for (o, order) in (1..).zip(&of.orders).filter(|(_, order)| order.seen) {
                let key = || format!("order [{w}, {d}, {o}]");
                let found = i64::from(order.undelivered);
                self.findings.equal(Condition::C5, key, i64::from(!order.carrier), found);
                let due = order.lines_due;
                if u32::from(order.lines) != (1u32 << due.clamp(0, 16)) - 1 {
                    let lines = order.lines.count_ones();
                    self.findings.report(Condition::C6, key, due.into(), lines.into());
                }
                let local = order.away_lines == 0;
                self.findings.equal(Condition::AllLocal, key, local.into(), order.all_local.into());
                if order.carrier && o > self.scale.delivered() {
                    let c = at * self.scale.customers as usize + order.customer as usize - 1;
                    self.customers[c].deliveries += 1;
                }
            }
        }
    }

    fn customer(&mut self, row: Row<'_>) {
        use customer::*;
        let (w, d, c) = (row.get(C_W_ID), row.get(C_D_ID), row.get(C_ID));
        let key = [w.into(), d.into(), c.into()];
        let Some(at) = self.customer_at(w, d, c) else { return self.bad_key(NAME, &key, 1) };
        let of = self.customers[at];
        if of.deliveries & SEEN != 0 {
            return self.bad_key(NAME, &key, 2);
        }
        self.customers[at].deliveries |= SEEN;
        let (balance, ytd) = (row.get(C_BALANCE), row.get(C_YTD_PAYMENT));
        let text = || format!("customer {key:?}");
        let mut equal = |condition, expected, found| self.findings.equal(condition, text, expected, found);
        equal(Condition::C10, of.delivered - of.paid, balance);
        equal(Condition::C12, of.delivered, balance.wrapping_add(ytd));
        equal(Condition::YtdPayment, of.paid, ytd);
        equal(Condition::PaymentCnt, of.payments.into(), row.get(C_PAYMENT_CNT).into());
        equal(Condition::DeliveryCnt, of.deliveries.into(), row.get(C_DELIVERY_CNT).into());
        self.districts[at / self.scale.customers as usize].deliveries += i64::from(row.get(C_DELIVERY_CNT));
    }

    fn stock(&mut self, row: Row<'_>) {
        use stock::*;
        let (w, i) = (row.get(S_W_ID), row.get(S_I_ID));
        let key = [w.into(), i.into()];
        let Some(at) = self.stock_at(w, i) else { return self.bad_key(NAME, &key, 1) };
        if std::mem::replace(&mut self.stocks[at].seen, true) {
            return self.bad_key(NAME, &key, 2);
        }
        let of = self.stocks[at];
        let text = || format!("stock {key:?}");
        let mut equal =
            |condition, expected, found: i64| self.findings.equal(condition, text, expected, found);
        equal(Condition::StockYtd, of.ytd.into(), row.get(S_YTD).into());
        equal(Condition::StockOrderCnt, of.lines.into(), row.get(S_ORDER_CNT).into());
        equal(Condition::StockRemoteCnt, of.away_lines.into(), row.get(S_REMOTE_CNT).into());
        let left = i64::from(initial_quantity(self.seed, w, i)) - i64::from(of.ytd);
        equal(Condition::StockQuantity, (left - 10).rem_euclid(91) + 10, row.get(S_QUANTITY).into());
    }

    pub(super) fn conclude(mut self, acknowledged: Acknowledged<'_>) -> Findings {
        self.missing_rows();
        for (w, of) in (1..).zip(&self.warehouses).filter(|(_, of)| of.seen) {
            let key = || format!("warehouse {w}");
            self.findings.equal(Condition::C1, key, of.districts_ytd, of.ytd);
            self.findings.equal(Condition::C8, key, of.paid, of.ytd);
        }
        for at in 0..self.districts.len() {
            if self.districts[at].seen {
                self.conclude_district(at);
            }
        }
        self.acknowledged(acknowledged);
        self.findings
    }

    /// Rows that the loader made and nobody may delete.
    fn missing_rows(&mut self) {
        let seen = [
            ("warehouse", self.warehouses.iter().filter(|of| !of.seen).count()),
            ("district", self.districts.iter().filter(|of| !of.seen).count()),
            ("customer", self.customers.iter().filter(|of| of.deliveries & SEEN == 0).count()),
            ("stock", self.stocks.iter().filter(|of| !of.seen).count()),
        ];
        for (table, missing) in seen {
            let key = || format!("rows of {table} that are missing");
            self.findings.equal(Condition::Keys, key, 0, missing as i64);
        }
    }

    fn conclude_district(&mut self, at: usize) {
        let of = &self.districts[at];
        let (w, d) = (at / DISTRICTS as usize + 1, at % DISTRICTS as usize + 1);
        let key = || format!("district [{w}, {d}]");
        let mut equal = |condition, expected, found| self.findings.equal(condition, key, expected, found);
        equal(Condition::C4, of.lines_due, of.line_rows);
        equal(Condition::C9, of.paid, of.ytd);
        let newest = i64::from(of.next_o_id) - 1;
        equal(Condition::C2, newest, of.orders.len() as i64);
        equal(Condition::OrderNumbers, newest, of.order_rows);
        let undelivered = |order: &&OfOrder| order.undelivered;
        let count = of.orders.iter().filter(undelivered).count() as i64;
        let first = of.orders.iter().position(|order| order.undelivered);
        let last = of.orders.iter().rposition(|order| order.undelivered);
        if let (Some(first), Some(last)) = (first, last) {
            equal(Condition::C2, newest, last as i64 + 1);
            equal(Condition::C3, (last - first) as i64 + 1, count);
        }
        equal(Condition::C11, of.order_rows - count, i64::from(self.scale.delivered()) + of.deliveries);
    }

    fn acknowledged(&mut self, acknowledged: Acknowledged<'_>) {
        let (told, exact) = match acknowledged {
            Acknowledged::Unknown => return,
            Acknowledged::Exactly(told) => (told, true),
            Acknowledged::AtLeast(told) => (told, false),
        };
        let districts = self.districts.len() as i64;
        let orders: i64 = self.districts.iter().map(|of| of.order_rows).sum();
        let undelivered = self.districts.iter().flat_map(|of| &of.orders).filter(|o| o.undelivered).count();
        let initial = |per_district: i32| districts * i64::from(per_district);
        let entered = BTreeMap::from([
            (NEW_ORDERS, orders - initial(self.scale.orders())),
            (PAYMENTS, self.history_rows - initial(self.scale.customers)),
            (DELIVERIES, orders - undelivered as i64 - initial(self.scale.delivered())),
        ]);
        for (name, found) in entered {
            let told = told.get(name).copied().unwrap_or(0) as i64;
            if found < told || (exact && found != told) {
                self.findings.report(Condition::Commits, || name.to_owned(), told, found);
            }
        }
    }
}
