//! The initial database (TPC-C 4.3.3), from a seed.
//!
//! 1. Every row follows from (seed, table, key) alone. So every host loads its own warehouses with nothing
//!    shared but the seed, in any order; ITEM comes out equal on every host; and [`initial_quantity`] and
//!    [`initial_price`] tell the consistency check what a row held before the run.
//! 2. Rows of one table come in key order, which is what a bulk load wants.
//! 3. The initial database satisfies all twelve consistency conditions; a reduced scale keeps the proportions
//!    that they rest on (W_YTD is the sum of the initial payments, 70 % of the orders are delivered).

use liger_engine::{NewRow, TableId};
use liger_fabric::{HostId, WorkerId};

use crate::random::Rng;
use crate::tpcc::nurand::{NuRand, last_name};
use crate::tpcc::schema::{self, Tables};
use crate::tpcc::{DISTRICTS, Scale};

/// What the first payment of every customer was, in cents.
pub const INITIAL_PAYMENT_CENTS: i64 = 1000;

const STREAM_WAREHOUSE: u64 = 1;
const STREAM_DISTRICT: u64 = 2;
const STREAM_CUSTOMER: u64 = 3;
const STREAM_HISTORY: u64 = 4;
const STREAM_PERMUTATION: u64 = 5;
const STREAM_ORDER: u64 = 6;
const STREAM_ITEM: u64 = 7;
const STREAM_STOCK: u64 = 8;

fn item_rng(seed: u64, i: i32) -> Rng {
    Rng::keyed(seed, &[STREAM_ITEM, i as u64])
}

fn stock_rng(seed: u64, w: i16, i: i32) -> Rng {
    Rng::keyed(seed, &[STREAM_STOCK, w as u64, i as u64])
}

fn price(rng: &mut Rng) -> i64 {
    rng.between(100, 10_000)
}

fn quantity(rng: &mut Rng) -> i16 {
    rng.between(10, 100) as i16
}

/// `I_PRICE` of an item, in cents; it never changes.
pub fn initial_price(seed: u64, i: i32) -> i64 {
    price(&mut item_rng(seed, i))
}

/// `S_QUANTITY` of a stock row before the run.
pub fn initial_quantity(seed: u64, w: i16, i: i32) -> i16 {
    quantity(&mut stock_rng(seed, w, i))
}

/// Random letters and digits; every tenth on average contains "ORIGINAL" somewhere (4.3.3.1).
fn data_string(rng: &mut Rng) -> String {
    let mut text = rng.a_string(26, 50);
    if rng.percent(10) {
        let at = rng.below((text.len() - 7) as u64) as usize;
        text.replace_range(at..at + 8, "ORIGINAL");
    }
    text
}

struct Address {
    street_1: String,
    street_2: String,
    city: String,
    state: String,
    zip: String,
}

fn address(rng: &mut Rng) -> Address {
    Address {
        street_1: rng.a_string(10, 20),
        street_2: rng.a_string(10, 20),
        city: rng.a_string(10, 20),
        state: rng.letters(2),
        zip: rng.n_string(4, 4) + "11111",
    }
}

/// Makes the initial rows. Rows go to `emit`, whose first error ends the load.
#[derive(Clone, Debug)]
pub struct Loader {
    tables: Tables,
    scale: Scale,
    seed: u64,
    names: NuRand,
    /// Date of everything the loader enters, microseconds.
    date_us: i64,
}

/// How far a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The warehouse that is being loaded; 0 for ITEM.
    pub warehouse: i16,
    /// Rows of it emitted so far.
    pub rows: u64,
}

/// Counts rows on their way to `emit` and reports every [`Sink::EVERY`].
struct Sink<'a, E> {
    emit: &'a mut dyn FnMut(TableId, &NewRow) -> Result<(), E>,
    progress: &'a mut dyn FnMut(Progress),
    at: Progress,
    row: NewRow,
}

impl<E> Sink<'_, E> {
    const EVERY: u64 = 10_000;

    fn put(&mut self, table: TableId, len: usize, fill: impl FnOnce(&mut NewRow)) -> Result<(), E> {
        fill(self.row.reset(len));
        (self.emit)(table, &self.row)?;
        self.at.rows += 1;
        if self.at.rows.is_multiple_of(Self::EVERY) {
            (self.progress)(self.at);
        }
        Ok(())
    }
}

impl Loader {
    /// A loader for a database of a validated scale.
    ///
    /// # Panics
    /// When the scale does not validate.
    pub fn new(tables: Tables, scale: Scale, seed: u64, date_us: i64) -> Self {
        scale.validate().expect("the scale was validated");
        Self { tables, scale, seed, names: NuRand::load(seed), date_us }
    }

    fn rng(&self, stream: u64, w: i16, d: i16, n: i32) -> Rng {
        Rng::keyed(self.seed, &[stream, w as u64, d as u64, n as u64])
    }

    /// ITEM, for every host.
    ///
    /// # Errors
    /// The first error of `emit`.
    pub fn load_items<E>(
        &self,
        mut emit: impl FnMut(TableId, &NewRow) -> Result<(), E>,
        mut progress: impl FnMut(Progress),
    ) -> Result<(), E> {
        use schema::item::*;
        let at = Progress { warehouse: 0, rows: 0 };
        let mut sink = Sink { emit: &mut emit, progress: &mut progress, at, row: NewRow::default() };
        for i in 1..=self.scale.items {
            let mut rng = item_rng(self.seed, i);
            sink.put(self.tables.item, ROW_LEN, |row| {
                row.set(I_ID, i).set(I_PRICE, price(&mut rng)).set(I_IM_ID, rng.between(1, 10_000) as i32);
                row.set(I_NAME, &rng.a_string(14, 24)).set(I_DATA, &data_string(&mut rng));
            })?;
        }
        (sink.progress)(sink.at);
        Ok(())
    }

    /// Everything of warehouse `w`, table by table.
    ///
    /// # Errors
    /// The first error of `emit`.
    pub fn load_warehouse<E>(
        &self,
        w: i16,
        mut emit: impl FnMut(TableId, &NewRow) -> Result<(), E>,
        mut progress: impl FnMut(Progress),
    ) -> Result<(), E> {
        assert!((1..=self.scale.warehouses).contains(&w), "warehouse {w} of {}", self.scale.warehouses);
        let at = Progress { warehouse: w, rows: 0 };
        let sink = &mut Sink { emit: &mut emit, progress: &mut progress, at, row: NewRow::default() };
        self.warehouse(w, sink)?;
        (1..=DISTRICTS).try_for_each(|d| self.district(w, d, sink))?;
        for d in 1..=DISTRICTS {
            (1..=self.scale.customers).try_for_each(|c| self.customer(w, d, c, sink))?;
        }
        for d in 1..=DISTRICTS {
            (1..=self.scale.customers).try_for_each(|c| self.history(w, d, c, sink))?;
        }
        (1..=self.scale.items).try_for_each(|i| self.stock(w, i, sink))?;
        for d in 1..=DISTRICTS {
            self.orders(w, d, sink)?;
        }
        for d in 1..=DISTRICTS {
            (1..=self.scale.orders()).try_for_each(|o| self.lines(w, d, o, sink))?;
        }
        for d in 1..=DISTRICTS {
            let undelivered = self.scale.delivered() + 1..=self.scale.orders();
            undelivered.into_iter().try_for_each(|o| self.new_order(w, d, o, sink))?;
        }
        (sink.progress)(sink.at);
        Ok(())
    }

    fn warehouse<E>(&self, w: i16, sink: &mut Sink<'_, E>) -> Result<(), E> {
        use schema::warehouse::*;
        let mut rng = self.rng(STREAM_WAREHOUSE, w, 0, 0);
        let ytd = i64::from(DISTRICTS) * i64::from(self.scale.customers) * INITIAL_PAYMENT_CENTS;
        sink.put(self.tables.warehouse, ROW_LEN, |row| {
            row.set(W_ID, w).set(W_YTD, ytd).set(W_TAX, rng.between(0, 2000));
            row.set(W_NAME, &rng.a_string(6, 10));
            let Address { street_1, street_2, city, state, zip } = address(&mut rng);
            row.set(W_STREET_1, &street_1).set(W_STREET_2, &street_2).set(W_CITY, &city);
            row.set(W_STATE, &state).set(W_ZIP, &zip);
        })
    }

    fn district<E>(&self, w: i16, d: i16, sink: &mut Sink<'_, E>) -> Result<(), E> {
        use schema::district::*;
        let mut rng = self.rng(STREAM_DISTRICT, w, d, 0);
        let ytd = i64::from(self.scale.customers) * INITIAL_PAYMENT_CENTS;
        sink.put(self.tables.district, ROW_LEN, |row| {
            row.set(D_W_ID, w).set(D_ID, d).set(D_NEXT_O_ID, self.scale.orders() + 1);
            row.set(D_YTD, ytd).set(D_TAX, rng.between(0, 2000)).set(D_NAME, &rng.a_string(6, 10));
            let Address { street_1, street_2, city, state, zip } = address(&mut rng);
            row.set(D_STREET_1, &street_1).set(D_STREET_2, &street_2).set(D_CITY, &city);
            row.set(D_STATE, &state).set(D_ZIP, &zip);
        })
    }

    fn customer<E>(&self, w: i16, d: i16, c: i32, sink: &mut Sink<'_, E>) -> Result<(), E> {
        use schema::customer::*;
        let mut rng = self.rng(STREAM_CUSTOMER, w, d, c);
        // The first thousand bear each name once, so that no name is without a customer.
        let number = match c <= 1000 {
            true => c as u32 - 1,
            false => self.names.last_number(&mut rng, &self.scale),
        };
        let credit = if rng.percent(10) { "BC" } else { "GC" };
        sink.put(self.tables.customer, ROW_LEN, |row| {
            row.set(C_W_ID, w).set(C_D_ID, d).set(C_ID, c);
            row.set(C_LAST, &last_name(number)).set(C_MIDDLE, "OE").set(C_FIRST, &rng.a_string(8, 16));
            row.set(C_CREDIT, credit).set(C_CREDIT_LIM, 5_000_000).set(C_DISCOUNT, rng.between(0, 5000));
            row.set(C_BALANCE, -INITIAL_PAYMENT_CENTS).set(C_YTD_PAYMENT, INITIAL_PAYMENT_CENTS);
            row.set(C_PAYMENT_CNT, 1).set(C_DELIVERY_CNT, 0).set(C_SINCE, self.date_us);
            let Address { street_1, street_2, city, state, zip } = address(&mut rng);
            row.set(C_STREET_1, &street_1).set(C_STREET_2, &street_2).set(C_CITY, &city);
            row.set(C_STATE, &state).set(C_ZIP, &zip).set(C_PHONE, &rng.n_string(16, 16));
            row.set(C_DATA, &rng.a_string(300, 500));
        })
    }

    fn history<E>(&self, w: i16, d: i16, c: i32, sink: &mut Sink<'_, E>) -> Result<(), E> {
        use schema::history::*;
        let mut rng = self.rng(STREAM_HISTORY, w, d, c);
        let counter = u64::from(d as u16 - 1) * self.scale.customers as u64 + c as u64;
        let id = schema::history_id(0, HostId(0), WorkerId(0), counter);
        sink.put(self.tables.history, ROW_LEN, |row| {
            row.set(H_W_ID, w).set(H_ID, id).set(H_D_ID, d);
            row.set(H_C_W_ID, w).set(H_C_D_ID, d).set(H_C_ID, c);
            row.set(H_DATE, self.date_us).set(H_AMOUNT, INITIAL_PAYMENT_CENTS);
            row.set(H_DATA, &rng.a_string(12, 24));
        })
    }

    fn stock<E>(&self, w: i16, i: i32, sink: &mut Sink<'_, E>) -> Result<(), E> {
        use schema::stock::*;
        let mut rng = stock_rng(self.seed, w, i);
        sink.put(self.tables.stock, ROW_LEN, |row| {
            row.set(S_W_ID, w).set(S_I_ID, i).set(S_QUANTITY, quantity(&mut rng));
            row.set(S_YTD, 0).set(S_ORDER_CNT, 0).set(S_REMOTE_CNT, 0);
            for column in schema::S_DIST {
                row.set(column, &rng.a_string(24, 24));
            }
            row.set(S_DATA, &data_string(&mut rng));
        })
    }

    /// How many lines an initial order has; its lines come from the rest of the same stream.
    fn order_rng(&self, w: i16, d: i16, o: i32) -> (Rng, i16) {
        let mut rng = self.rng(STREAM_ORDER, w, d, o);
        let lines = rng.between(5, 15) as i16;
        (rng, lines)
    }

    fn orders<E>(&self, w: i16, d: i16, sink: &mut Sink<'_, E>) -> Result<(), E> {
        use schema::orders::*;
        let customers = self.rng(STREAM_PERMUTATION, w, d, 0).permutation(self.scale.customers as u32);
        for (o, c) in (1..=self.scale.orders()).zip(customers) {
            let (mut rng, lines) = self.order_rng(w, d, o);
            let carrier = rng.between(1, 10) as i16;
            sink.put(self.tables.orders, ROW_LEN, |row| {
                row.set(O_W_ID, w).set(O_D_ID, d).set(O_ID, o).set(O_C_ID, c as i32);
                row.set(O_ENTRY_D, self.date_us).set(O_OL_CNT, lines).set(O_ALL_LOCAL, 1);
                row.set(O_CARRIER_ID, (o <= self.scale.delivered()).then_some(carrier));
            })?;
        }
        Ok(())
    }

    fn lines<E>(&self, w: i16, d: i16, o: i32, sink: &mut Sink<'_, E>) -> Result<(), E> {
        use schema::order_line::*;
        let (mut rng, lines) = self.order_rng(w, d, o);
        let delivered = o <= self.scale.delivered();
        for number in 1..=lines {
            let item = rng.between(1, i64::from(self.scale.items)) as i32;
            let amount = rng.between(1, 999_999);
            sink.put(self.tables.order_line, ROW_LEN, |row| {
                row.set(OL_W_ID, w).set(OL_D_ID, d).set(OL_O_ID, o).set(OL_NUMBER, number);
                row.set(OL_I_ID, item).set(OL_SUPPLY_W_ID, w).set(OL_QUANTITY, 5);
                row.set(OL_AMOUNT, if delivered { 0 } else { amount });
                row.set(OL_DELIVERY_D, delivered.then_some(self.date_us));
                row.set(OL_DIST_INFO, &rng.a_string(24, 24));
            })?;
        }
        Ok(())
    }

    fn new_order<E>(&self, w: i16, d: i16, o: i32, sink: &mut Sink<'_, E>) -> Result<(), E> {
        use schema::new_order::*;
        sink.put(self.tables.new_order, ROW_LEN, |row| {
            row.set(NO_W_ID, w).set(NO_D_ID, d).set(NO_O_ID, o);
        })
    }
}
