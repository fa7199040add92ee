//! Every condition finds the one thing that it is there for.

mod common;

use std::collections::BTreeMap;

use common::*;
use liger_engine::{Key, Row, TableId};
use liger_workload::driver::run_worker;
use liger_workload::tpcc::Scale;
use liger_workload::tpcc::check::Condition::*;
use liger_workload::tpcc::check::{Acknowledged, Condition, Findings, KEPT, Snapshot, check};
use liger_workload::tpcc::schema::{
    Tables, customer, customer_key, district, district_key, history, lines_of, new_orders_of, order_key,
    order_line, orders, stock, stock_key, warehouse, warehouse_key,
};

/// A database after a few hundred transactions, which is consistent.
struct Ran {
    memory: Memory,
    tables: Tables,
    scale: Scale,
    told: BTreeMap<String, u64>,
}

fn ran() -> Ran {
    let scale = Scale::reduced(2, 100);
    let (mut memory, tables) = loaded(scale);
    let Plan { worker, config } = plan(tables, scale, 400);
    let stats = run_worker(&cx(5), &mut memory, &worker, &config);
    let ran = Ran { memory, tables, scale, told: stats.acknowledged };
    assert!(ran.findings().is_consistent(), "{:#?}", ran.findings().lines());
    ran
}

impl Ran {
    fn findings(&self) -> Findings {
        check(&self.memory, &self.tables, &self.scale, DATABASE_SEED, Acknowledged::Exactly(&self.told))
    }

    /// Exactly these conditions must be violated.
    #[track_caller]
    fn violates(&self, expected: &[Condition]) -> Findings {
        let findings = self.findings();
        let found: Vec<Condition> = findings.counts().keys().copied().collect();
        assert_eq!(found, expected, "{:#?}", findings.lines());
        findings
    }

    fn row(&self, table: TableId, key: &Key) -> Row<'_> {
        Row::new(&self.memory.tables[&table].rows[key])
    }

    fn remove(&mut self, table: TableId, key: &Key) {
        self.memory.tables.get_mut(&table).unwrap().rows.remove(key).expect("the row to remove");
    }

    /// The newest order of a district, and a line of it.
    fn newest(&self, w: i16, d: i16) -> (i32, Key) {
        let next = self.row(self.tables.district, &district_key(w, d)).get(district::D_NEXT_O_ID);
        assert!(next > self.scale.orders() + 1, "the run entered an order");
        let range = lines_of(w, d, next - 1, next);
        let rows = &self.memory.tables[&self.tables.order_line].rows;
        (next - 1, *rows.range(range.low..).next().expect("a line").0)
    }

    fn oldest_undelivered(&self, w: i16, d: i16) -> i32 {
        let rows = &self.memory.tables[&self.tables.new_order].rows;
        let first = rows.range(new_orders_of(w, d).low..).next().expect("an undelivered order");
        Row::new(first.1).get(liger_workload::tpcc::schema::new_order::NO_O_ID)
    }
}

#[test]
fn warehouse_and_district_money() {
    let mut ran = ran();
    let (key, d_key) = (warehouse_key(2), district_key(2, 7));
    let ytd = ran.row(ran.tables.warehouse, &key).get(warehouse::W_YTD);
    ran.memory.corrupt(ran.tables.warehouse, &key, warehouse::W_YTD, ytd + 1);
    let findings = ran.violates(&[C1, C8]);
    let first = &findings.failures()[0];
    assert_eq!((first.key.as_str(), first.expected, first.found), ("warehouse 2", ytd, ytd + 1));

    // Now the district has the same cent too much: condition 1 is content again, condition 9 is not.
    let d_ytd = ran.row(ran.tables.district, &d_key).get(district::D_YTD);
    ran.memory.corrupt(ran.tables.district, &d_key, district::D_YTD, d_ytd + 1);
    ran.violates(&[C8, C9]);
    ran.memory.corrupt(ran.tables.warehouse, &key, warehouse::W_YTD, ytd);
    ran.violates(&[C1, C9]);
}

#[test]
fn order_numbers() {
    let mut ran = ran();
    let key = district_key(1, 3);
    let next = ran.row(ran.tables.district, &key).get(district::D_NEXT_O_ID);
    ran.memory.corrupt(ran.tables.district, &key, district::D_NEXT_O_ID, next + 1);
    ran.violates(&[C2, OrderNumbers]);
    ran.memory.corrupt(ran.tables.district, &key, district::D_NEXT_O_ID, next - 1);
    let found = ran.findings();
    assert!(found.counts().contains_key(&C2) && found.counts().contains_key(&OrderNumbers));
}

#[test]
fn a_hole_in_new_order() {
    let mut ran = ran();
    let hole = ran.oldest_undelivered(1, 1) + 1;
    ran.remove(ran.tables.new_order, &order_key(1, 1, hole));
    ran.violates(&[C3, C5, C11, Commits]);
}

#[test]
fn order_and_line_counts() {
    let mut ran = ran();
    let (o, line) = ran.newest(1, 5);
    let key = order_key(1, 5, o);
    let due = ran.row(ran.tables.orders, &key).get(orders::O_OL_CNT);
    ran.memory.corrupt(ran.tables.orders, &key, orders::O_OL_CNT, due + 1);
    ran.violates(&[C4, C6]);
    ran.memory.corrupt(ran.tables.orders, &key, orders::O_OL_CNT, due);
    ran.remove(ran.tables.order_line, &line);
    ran.violates(&[C4, C6, StockYtd, StockOrderCnt, StockQuantity]);
}

#[test]
fn carriers_and_delivery_dates() {
    let mut ran = ran();
    let o = ran.oldest_undelivered(2, 2);
    ran.memory.corrupt(ran.tables.orders, &order_key(2, 2, o), orders::O_CARRIER_ID, Some(3));
    ran.violates(&[C5, C7, DeliveryCnt]);
    ran.memory.corrupt(ran.tables.orders, &order_key(2, 2, o), orders::O_CARRIER_ID, None);

    // An initial order's delivered lines cost nothing, so that only its date is wrong.
    let line = lines_of(2, 2, 1, 2);
    let key = *ran.memory.tables[&ran.tables.order_line].rows.range(line.low..).next().unwrap().0;
    ran.memory.corrupt(ran.tables.order_line, &key, order_line::OL_DELIVERY_D, None);
    ran.violates(&[C7]);
}

#[test]
fn history() {
    let mut ran = ran();
    let (key, row) = ran.memory.tables[&ran.tables.history].rows.iter().next().unwrap();
    let (key, amount) = (*key, Row::new(row).get(history::H_AMOUNT));
    ran.memory.corrupt(ran.tables.history, &key, history::H_AMOUNT, amount + 1);
    ran.violates(&[C8, C9, C10, YtdPayment]);
    ran.remove(ran.tables.history, &key);
    ran.violates(&[C8, C9, C10, YtdPayment, PaymentCnt, Commits]);
}

#[test]
fn customers() {
    let mut ran = ran();
    let (table, key) = (ran.tables.customer, customer_key(2, 6, 11));
    let row = ran.row(table, &key);
    let (balance, ytd) = (row.get(customer::C_BALANCE), row.get(customer::C_YTD_PAYMENT));
    let (payments, deliveries) = (row.get(customer::C_PAYMENT_CNT), row.get(customer::C_DELIVERY_CNT));
    ran.memory.corrupt(table, &key, customer::C_BALANCE, balance - 1);
    ran.violates(&[C10, C12]);
    // Money moved from one column to the other: only condition 12's sum is right.
    ran.memory.corrupt(table, &key, customer::C_YTD_PAYMENT, ytd + 1);
    ran.violates(&[C10, YtdPayment]);
    ran.memory.corrupt(table, &key, customer::C_BALANCE, balance);
    ran.violates(&[C12, YtdPayment]);
    ran.memory.corrupt(table, &key, customer::C_YTD_PAYMENT, ytd);
    ran.memory.corrupt(table, &key, customer::C_PAYMENT_CNT, payments + 1);
    ran.violates(&[PaymentCnt]);
    ran.memory.corrupt(table, &key, customer::C_PAYMENT_CNT, payments);
    ran.memory.corrupt(table, &key, customer::C_DELIVERY_CNT, deliveries + 1);
    ran.violates(&[C11, DeliveryCnt]);
}

#[test]
fn stocks() {
    let mut ran = ran();
    let (table, key) = (ran.tables.stock, stock_key(1, 77));
    let row = ran.row(table, &key);
    let (quantity, ytd) = (row.get(stock::S_QUANTITY), row.get(stock::S_YTD));
    let (count, remote) = (row.get(stock::S_ORDER_CNT), row.get(stock::S_REMOTE_CNT));
    let memory = &mut ran.memory;
    memory.corrupt(table, &key, stock::S_YTD, ytd + 1);
    ran.violates(&[StockYtd]);
    ran.memory.corrupt(table, &key, stock::S_YTD, ytd);
    ran.memory.corrupt(table, &key, stock::S_ORDER_CNT, count + 1);
    ran.violates(&[StockOrderCnt]);
    ran.memory.corrupt(table, &key, stock::S_ORDER_CNT, count);
    ran.memory.corrupt(table, &key, stock::S_REMOTE_CNT, remote + 1);
    ran.violates(&[StockRemoteCnt]);
    ran.memory.corrupt(table, &key, stock::S_REMOTE_CNT, remote);
    // 91 more is the same modulo 91, but out of range.
    for wrong in [quantity + 1, quantity + 91, quantity - 91] {
        ran.memory.corrupt(table, &key, stock::S_QUANTITY, wrong);
        ran.violates(&[StockQuantity]);
    }
}

#[test]
fn lines_of_the_run() {
    let mut ran = ran();
    let (o, line) = ran.newest(2, 9);
    let amount = ran.row(ran.tables.order_line, &line).get(order_line::OL_AMOUNT);
    ran.memory.corrupt(ran.tables.order_line, &line, order_line::OL_AMOUNT, amount + 1);
    ran.violates(&[LineAmount]);
    ran.memory.corrupt(ran.tables.order_line, &line, order_line::OL_AMOUNT, amount);
    let key = order_key(2, 9, o);
    let all_local = ran.row(ran.tables.orders, &key).get(orders::O_ALL_LOCAL);
    ran.memory.corrupt(ran.tables.orders, &key, orders::O_ALL_LOCAL, 1 - all_local);
    ran.violates(&[AllLocal]);
}

#[test]
fn missing_rows_and_wild_keys() {
    let mut ran = ran();
    ran.remove(ran.tables.stock, &stock_key(2, 500));
    let findings = ran.violates(&[Keys]);
    assert_eq!(findings.failures()[0].to_string().matches("expected 0, found 1").count(), 1);
    let key = stock_key(2, 501);
    ran.memory.corrupt(ran.tables.stock, &key, stock::S_W_ID, 300);
    ran.memory.corrupt(ran.tables.stock, &key, stock::S_I_ID, -4);
    ran.violates(&[Keys]);
}

#[test]
fn a_lost_acknowledgement_is_no_failure_after_a_crash_but_a_lost_commit_is() {
    let mut ran = ran();
    let found = |ran: &Ran, exact: bool| {
        let told = match exact {
            true => Acknowledged::Exactly(&ran.told),
            false => Acknowledged::AtLeast(&ran.told),
        };
        check(&ran.memory, &ran.tables, &ran.scale, DATABASE_SEED, told).is_consistent()
    };
    *ran.told.get_mut("payments").unwrap() -= 1;
    assert!(!found(&ran, true) && found(&ran, false));
    *ran.told.get_mut("payments").unwrap() += 2;
    assert!(!found(&ran, true) && !found(&ran, false));
}

/// Every row of one table comes twice, as if a tuple were in two partitions.
struct Twice<'a>(&'a Memory, TableId);

impl Snapshot for Twice<'_> {
    fn rows(&self, table: TableId, visit: &mut dyn FnMut(Row<'_>)) {
        self.0.rows(table, visit);
        if table == self.1 {
            self.0.rows(table, visit);
        }
    }
}

#[test]
fn doubled_rows_are_found_and_findings_bounded() {
    let ran = ran();
    let Tables { warehouse, district, customer, history, new_order, orders, order_line, stock, .. } =
        ran.tables;
    for table in [warehouse, district, customer, history, new_order, orders, order_line, stock] {
        let twice = Twice(&ran.memory, table);
        let findings = check(&twice, &ran.tables, &ran.scale, DATABASE_SEED, Acknowledged::Unknown);
        assert!(!findings.is_consistent(), "{table:?}");
        if table != history {
            assert!(findings.counts().contains_key(&Keys), "{table:?}");
        }
        assert!(findings.failures().len() <= KEPT * Condition::ALL.len());
        let rows = ran.memory.tables[&table].rows.len();
        let bounded = findings.lines().iter().any(|line| line.ends_with("findings in all"));
        assert_eq!(bounded, rows > KEPT, "{table:?}");
    }
}
