//! Thousands of transactions of every type on a small database: every condition holds, and replays are exact.

mod common;

use std::collections::BTreeMap;

use common::*;
use liger_engine::{Session, TxnError};
use liger_workload::WorkerStats;
use liger_workload::driver::{Length, run_worker};
use liger_workload::tpcc::check::{Acknowledged, Condition, check};
use liger_workload::tpcc::input::{
    DeliveryInput, Kind, Line, Mix, NewOrderInput, OrderStatusInput, PaymentInput, Remote, StockLevelInput,
    Who,
};
use liger_workload::tpcc::load::{Loader, Progress, initial_price, initial_quantity};
use liger_workload::tpcc::nurand::last_name;
use liger_workload::tpcc::schema::{self, customer, district, order_line, orders, stock, warehouse};
use liger_workload::tpcc::workload::TpccWorker;
use liger_workload::tpcc::{Scale, delivery, new_order, order_status, payment, stock_level};

fn assert_consistent(memory: &Memory, plan: &Plan, told: &BTreeMap<String, u64>) {
    let TpccWorker { tables, scale, database_seed, .. } = &plan.worker;
    let findings = check(memory, tables, scale, *database_seed, Acknowledged::Exactly(told));
    assert!(findings.is_consistent(), "{:#?}", findings.lines());
}

#[test]
fn initial_database_is_consistent_and_in_proportion() {
    for scale in [Scale::reduced(2, 100), Scale { warehouses: 1, items: 50, customers: 1500 }] {
        let (memory, tables) = loaded(scale);
        assert_consistent(&memory, &plan(tables, scale, 0), &BTreeMap::new());
        let (w, c) = (scale.warehouses as usize, scale.customers as usize);
        let rows = |table| memory.tables[&table].rows.len();
        assert_eq!(rows(tables.customer), w * 10 * c);
        assert_eq!(rows(tables.history), w * 10 * c);
        assert_eq!(rows(tables.orders), w * 10 * c);
        assert_eq!(rows(tables.new_order), w * 10 * c * 3 / 10);
        assert_eq!(rows(tables.stock), w * scale.items as usize);
        assert_eq!(rows(tables.item), scale.items as usize);
        let lines = rows(tables.order_line) as f64 / (w * 10 * c) as f64;
        assert!((9.3..10.7).contains(&lines), "{lines} lines per order");
    }
}

#[test]
fn rows_come_in_key_order_and_load_is_golden() {
    let scale = Scale::reduced(2, 100);
    let (memory, tables) = loaded(scale);
    assert_eq!(memory.fingerprint(), loaded(scale).0.fingerprint());
    // Golden: whoever changes the loader changes every database that a seed names, and says so here.
    assert_eq!(memory.fingerprint(), GOLDEN_LOAD);
    let loader = Loader::new(tables, scale, DATABASE_SEED, 1);
    let mut last: BTreeMap<_, (u64, Vec<u8>)> = BTreeMap::new();
    let mut emitted = 0;
    let mut last_progress = Progress { warehouse: 0, rows: 0 };
    let emit = |table, row: &liger_engine::NewRow| {
        emitted += 1;
        let layout = schema_of(table, &tables).layout().unwrap();
        let key = layout.primary.key_of(row.bytes());
        let before = last.insert(table, (key.words()[0], bytes_of(&key)));
        assert!(before.is_none_or(|(_, before)| before < bytes_of(&key)));
        Ok::<_, TxnError>(())
    };
    loader.load_warehouse(2, emit, |progress| last_progress = progress).unwrap();
    assert_eq!(last_progress, Progress { warehouse: 2, rows: emitted });
    let failing = loader.load_warehouse(1, |_, _| Err("full"), |_| ());
    assert_eq!(failing, Err("full"));
}

fn bytes_of(key: &liger_engine::Key) -> Vec<u8> {
    key.words().iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn schema_of(table: liger_engine::TableId, tables: &schema::Tables) -> liger_engine::TableSchema {
    let all = [
        (tables.warehouse, schema::warehouse::schema()),
        (tables.district, schema::district::schema()),
        (tables.customer, schema::customer::schema()),
        (tables.history, schema::history::schema()),
        (tables.new_order, schema::new_order::schema()),
        (tables.orders, schema::orders::schema()),
        (tables.order_line, schema::order_line::schema()),
        (tables.stock, schema::stock::schema()),
    ];
    all.into_iter().find(|(id, _)| *id == table).expect("a table of a warehouse").1
}

const GOLDEN_LOAD: u64 = 3_774_525_402_733_129_011;
const GOLDEN_RUN: u64 = 14_127_141_485_773_827_321;

fn run(plan: &Plan, memory: &mut Memory, seed: u64) -> WorkerStats {
    let stats = run_worker(&cx(seed), memory, &plan.worker, &plan.config);
    assert_eq!(stats.stopped, Vec::<String>::new());
    stats
}

#[test]
fn every_mix_and_remote_share_keeps_every_condition() {
    let scale = Scale::reduced(3, 100);
    let heavy = Remote::Percent { new_order: 60, payment: 90 };
    let shares =
        [(Mix::Spec, Remote::Spec), (Mix::Spec, heavy), (Mix::Artifact, heavy), (Mix::FirstTwo, heavy)];
    for (mix, remote) in shares {
        let (mut memory, tables) = loaded(scale);
        let mut plan = plan(tables, scale, 5000);
        (plan.worker.mix, plan.worker.remote) = (mix, remote);
        let stats = run(&plan, &mut memory, 7);
        assert_consistent(&memory, &plan, &stats.acknowledged);
        // Some ten lines of 2250 New-Orders, each with an item and a stock row.
        assert!(memory.kept > 2250 * 10, "{} rows announced", memory.kept);
        let cards = if mix == Mix::FirstTwo { [2500, 2500, 0, 0, 0] } else { [2250, 2150, 200, 200, 200] };
        for (kind, expected) in Kind::ALL.into_iter().zip(cards) {
            // What is never run is not in the report either.
            assert_eq!(stats.kinds.contains_key(kind.name()), expected > 0, "{kind:?}");
            let Some(of) = stats.kinds.get(kind.name()) else { continue };
            assert_eq!(of.committed + of.rolled_back, expected, "{kind:?}");
            assert_eq!(of.latency_ns.len(), of.committed);
        }
        let rolled_back = stats.kinds["new_order"].rolled_back;
        assert!((5..60).contains(&rolled_back), "{rolled_back} of 2250 rolled back");
        assert_eq!(stats.acknowledged["new_orders"], stats.kinds["new_order"].committed);
        let per_delivery = stats.acknowledged["deliveries"] as f64 / 200.0;
        assert!(if mix == Mix::Spec { per_delivery > 5.0 } else { per_delivery <= 1.0 }, "{per_delivery}");
    }
}

#[test]
fn a_seed_replays_to_the_same_bytes() {
    let scale = Scale::reduced(2, 100);
    let once = |seed| {
        let (mut memory, tables) = loaded(scale);
        run(&plan(tables, scale, 1000), &mut memory, seed);
        memory.fingerprint()
    };
    assert_eq!(once(3), once(3));
    assert_ne!(once(3), once(4));
    assert_eq!(once(3), GOLDEN_RUN);
}

#[test]
fn conflicts_are_retried_with_the_same_input() {
    let scale = Scale::reduced(2, 100);
    let (mut calm, tables) = loaded(scale);
    let plan = plan(tables, scale, 500);
    run(&plan, &mut calm, 5);
    let (mut rough, _) = loaded(scale);
    rough.conflict_every = Some(331);
    let stats = run(&plan, &mut rough, 5);
    let retries = stats.total().retries;
    assert!(retries > 20, "{retries}");
    assert_eq!((stats.aborts["write-locked"], rough.attempts), (retries, 500 + retries));
    assert_consistent(&rough, &plan, &stats.acknowledged);
    // Dates differ, since time passed; the money and the counters do not.
    let balances = |memory: &Memory| -> i64 {
        let rows = memory.tables[&tables.customer].rows.values();
        rows.map(|row| liger_engine::Row::new(row).get(customer::C_BALANCE)).sum()
    };
    assert_eq!(balances(&calm), balances(&rough));
}

#[test]
fn attempts_can_be_limited_and_what_was_given_up_left_no_trace() {
    let scale = Scale::reduced(2, 100);
    let (mut memory, tables) = loaded(scale);
    memory.conflict_every = Some(40);
    let mut plan = plan(tables, scale, 500);
    plan.config.max_attempts = Some(1);
    let stats = run(&plan, &mut memory, 5);
    let total = stats.total();
    assert!(total.given_up > 100 && total.retries == 0, "{} {}", total.given_up, total.retries);
    assert_eq!(total.given_up, stats.aborted());
    assert_eq!(total.committed + total.rolled_back + total.given_up, 500);
    assert_consistent(&memory, &plan, &stats.acknowledged);
}

#[test]
fn timed_runs_measure_after_the_warm_up_only() {
    let scale = Scale::reduced(1, 100);
    let (mut memory, tables) = loaded(scale);
    let length = Length::Time { warm_up_ns: 500_000, measured_ns: 2_000_000 };
    let mut plan = plan(tables, scale, 0);
    plan.config.length = length;
    let stats = run(&plan, &mut memory, 5);
    assert_eq!(stats.measured_ns, 2_000_000);
    let measured = stats.kinds["new_order"].committed;
    let all = stats.acknowledged["new_orders"];
    // The clock moves with the transactions, so the warm-up has a fifth of them.
    let share = measured as f64 / all as f64;
    assert!(all > 100 && (0.7..0.9).contains(&share), "{measured} of {all}");
    assert_consistent(&memory, &plan, &stats.acknowledged);
}

#[test]
fn two_runs_in_a_row_do_not_collide() {
    let scale = Scale::reduced(2, 100);
    let (mut memory, tables) = loaded(scale);
    let mut told = WorkerStats::default();
    for number in [1, 2] {
        let mut plan = plan(tables, scale, 300);
        plan.config.run = number;
        told.merge(&run(&plan, &mut memory, 5));
    }
    assert_consistent(&memory, &plan(tables, scale, 0), &told.acknowledged);
}

#[test]
fn missing_rows_stop_the_worker() {
    let scale = Scale::reduced(1, 100);
    let (mut memory, tables) = loaded(scale);
    memory.tables.get_mut(&tables.warehouse).unwrap().rows.clear();
    let Plan { worker, config } = plan(tables, scale, 100);
    let stats = run_worker(&cx(1), &mut memory, &worker, &config);
    assert!(stats.stopped[0].contains("a row is missing"), "{:?}", stats.stopped);
}

#[test]
fn lost_updates_are_found_even_where_the_specification_does_not_look() {
    let scale = Scale::reduced(2, 100);
    let cases = [
        (true, vec![Condition::StockYtd, Condition::StockOrderCnt, Condition::StockQuantity]),
        (false, vec![Condition::C10, Condition::YtdPayment, Condition::PaymentCnt]),
    ];
    for (of_stock, expected) in cases {
        let (mut memory, tables) = loaded(scale);
        memory.lose = Some((if of_stock { tables.stock } else { tables.customer }, 97));
        run(&plan(tables, scale, 1000), &mut memory, 5);
        let findings = findings(&memory, &tables, &scale);
        for condition in expected {
            assert!(findings.counts().contains_key(&condition), "{condition:?}: {:?}", findings.counts());
        }
        let of_specification = findings.counts().keys().any(|condition| *condition <= Condition::C12);
        assert_eq!(of_specification, !of_stock, "the specification's conditions do not look at STOCK");
    }
}

#[test]
fn one_new_order_by_hand() {
    let scale = Scale::reduced(2, 100);
    let (mut memory, tables) = loaded(scale);
    let line = |item, supply_w, quantity| Line { item, supply_w, quantity };
    // The same item twice: the second line must see what the first one left.
    let lines = vec![line(5, 1, 10), line(5, 1, 10), line(9, 2, 3)];
    let input = NewOrderInput { w: 1, d: 4, c: 8, lines, entry_us: 77 };
    let output = memory.attempt(|txn| new_order::run(txn, &tables, &input)).unwrap();
    assert_eq!(output.o_id, scale.orders() + 1);
    let price = |i| initial_price(DATABASE_SEED, i);
    let sum = 20 * price(5) + 3 * price(9);
    assert_eq!(output.lines.iter().map(|l| l.amount_cents).sum::<i64>(), sum);
    let exact = sum as f64
        * (1.0 - output.discount as f64 / 1e4)
        * (1.0 + (output.w_tax + output.d_tax) as f64 / 1e4);
    assert!((output.total_cents as f64 - exact).abs() < 0.51);
    let taken = |before: i16, n: i16| if before >= n + 10 { before - n } else { before - n + 91 };
    let first = taken(initial_quantity(DATABASE_SEED, 1, 5), 10);
    assert_eq!((output.lines[0].stock, output.lines[1].stock), (first, taken(first, 10)));

    let row = |table, key| liger_engine::Row::new(&memory.tables[&table].rows[&key]);
    let remote = row(tables.stock, schema::stock_key(2, 9));
    let counters =
        (remote.get(stock::S_YTD), remote.get(stock::S_ORDER_CNT), remote.get(stock::S_REMOTE_CNT));
    assert_eq!(counters, (3, 1, 1));
    let order = row(tables.orders, schema::order_key(1, 4, output.o_id));
    assert_eq!((order.get(orders::O_C_ID), order.get(orders::O_ALL_LOCAL)), (8, 0));
    assert_eq!((order.get(orders::O_CARRIER_ID), order.get(orders::O_ENTRY_D)), (None, 77));
    let dist = remote.get(stock::S_DIST_04).to_owned();
    let lines = schema::lines_of(1, 4, output.o_id, output.o_id + 1);
    let of_order = memory.tables[&tables.order_line].rows.range(lines.low..lines.high.unwrap());
    assert_eq!(of_order.clone().count(), 3);
    let third = liger_engine::Row::new(of_order.last().unwrap().1);
    assert_eq!((third.get(order_line::OL_NUMBER), third.get(order_line::OL_DIST_INFO)), (3, &dist[..]));

    // A rolled back order leaves nothing, not even its number.
    let before = memory.fingerprint();
    let lines = vec![line(5, 1, 10), line(scale.unused_item(), 1, 1)];
    let input = NewOrderInput { lines, ..input };
    assert_eq!(memory.attempt(|txn| new_order::run(txn, &tables, &input)), Err(TxnError::Rollback));
    assert_eq!(memory.fingerprint(), before);
}

#[test]
fn one_payment_by_hand() {
    let scale = Scale::reduced(2, 100);
    let (mut memory, tables) = loaded(scale);
    // Three more bearers of one name: of four in order of first names it is the second.
    let name = last_name(0);
    for (c, first) in [(1, "CC"), (2, "BB"), (3, "DD"), (4, "AA")] {
        let key = schema::customer_key(2, 3, c);
        memory.corrupt(tables.customer, &key, customer::C_LAST, &name);
        memory.corrupt(tables.customer, &key, customer::C_FIRST, first);
    }
    let key = schema::customer_key(2, 3, 2);
    memory.corrupt(tables.customer, &key, customer::C_CREDIT, "BC");
    let who = Who::LastName(name);
    let input = PaymentInput { w: 1, d: 9, c_w: 2, c_d: 3, who, amount_cents: 12_34, date_us: 5 };
    let id = schema::history_id(1, liger_fabric::HostId(0), liger_fabric::WorkerId(0), 1);
    let output = memory.attempt(|txn| payment::run(txn, &tables, &input, id)).unwrap();
    assert_eq!((output.c, output.balance_cents), (2, -1000 - 1234));
    assert!(output.data.unwrap().starts_with("2 3 2 9 1 12.34 "));
    let row = |table, key| liger_engine::Row::new(&memory.tables[&table].rows[&key]);
    let paid = row(tables.customer, key);
    assert_eq!((paid.get(customer::C_YTD_PAYMENT), paid.get(customer::C_PAYMENT_CNT)), (2234, 2));
    let initial = i64::from(scale.customers) * 1000;
    assert_eq!(row(tables.warehouse, schema::warehouse_key(1)).get(warehouse::W_YTD), 10 * initial + 1234);
    assert_eq!(row(tables.district, schema::district_key(1, 9)).get(district::D_YTD), initial + 1234);
    assert_eq!(memory.tables[&tables.history].rows.len(), 2 * 10 * scale.customers as usize + 1);
}

#[test]
fn one_delivery_and_the_reads_around_it() {
    let scale = Scale::reduced(1, 100);
    let (mut memory, tables) = loaded(scale);
    let input = DeliveryInput { w: 1, first_d: 1, last_d: 10, carrier: 6, date_us: 99 };
    let output = memory.attempt(|txn| delivery::run(txn, &tables, &input)).unwrap();
    assert_eq!((output.delivered.len(), output.skipped), (10, 0));
    let (d, o, c, amount) = output.delivered[3];
    assert_eq!((d, o), (4, scale.delivered() + 1));
    let input = OrderStatusInput { w: 1, d, who: Who::Number(c) };
    let status = memory.attempt(|txn| order_status::run(txn, &tables, &input)).unwrap();
    assert_eq!((status.o_id, status.carrier, status.balance_cents), (o, Some(6), amount - 1000));
    assert_eq!(status.lines.iter().map(|line| line.amount_cents).sum::<i64>(), amount);
    assert!(status.lines.iter().all(|line| line.delivered_us == Some(99)));

    // All that is left goes out, then every district is skipped.
    let left = scale.orders() - scale.delivered() - 1;
    let all = DeliveryInput { w: 1, first_d: 1, last_d: 10, carrier: 1, date_us: 100 };
    for _ in 0..left {
        assert_eq!(memory.attempt(|txn| delivery::run(txn, &tables, &all)).unwrap().skipped, 0);
    }
    assert_eq!(memory.attempt(|txn| delivery::run(txn, &tables, &all)).unwrap().skipped, 10);
    assert!(findings(&memory, &tables, &scale).is_consistent());
}

#[test]
fn stock_level_counts_items_once() {
    let scale = Scale { warehouses: 1, items: 20, customers: 30 };
    let (mut memory, tables) = loaded(scale);
    let quantity = |i| i32::from(initial_quantity(DATABASE_SEED, 1, i));
    for threshold in [10, 15, 20, 101] {
        let input = StockLevelInput { w: 1, d: 2, threshold };
        let output = memory.attempt(|txn| stock_level::run(txn, &tables, &input)).unwrap();
        // About 200 lines over 20 items: every item occurs.
        assert_eq!(output.items, 20);
        assert_eq!(output.low as usize, (1..=20).filter(|i| quantity(*i) < threshold).count());
    }
}
