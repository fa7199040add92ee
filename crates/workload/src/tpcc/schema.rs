//! The nine tables of TPC-C (1.3), with the specification's column names, and their keys.
//!
//! 1. All tables but ITEM are placed by warehouse: warehouse `w` lives in partition `w` modulo the number of
//!    partitions. ITEM is never written and is replicated.
//! 2. Warehouses, districts and line numbers are SMALLINT, so that every key the transactions look up, except
//!    those of ORDER-LINE and HISTORY, is one 8-byte word.
//! 3. Money is DECIMAL(2) and rates are DECIMAL(4): exact integers.
//!
//! HISTORY has no key in the specification. Here it is (`H_W_ID`, `H_ID`), where `H_ID` is unique without any
//! coordination: see [`history_id`]. Counters that the specification caps at four digits are INT, so that
//! long runs do not wrap.

use liger_engine::{Catalog, Col, IndexId, Key, KeyRange, TableId, TableSchema, Text, table};
use liger_fabric::{HostId, WorkerId};

table! {
    /// Warehouses.
    pub mod warehouse: "warehouse" {
        W_ID: SmallInt,
        W_YTD: Decimal<2>,
        W_TAX: Decimal<4>,
        W_NAME: Text<10>,
        W_STREET_1: Text<20>,
        W_STREET_2: Text<20>,
        W_CITY: Text<20>,
        W_STATE: Text<2>,
        W_ZIP: Text<9>,
    }
    primary key (W_ID);
}

table! {
    /// Districts, ten of each warehouse.
    pub mod district: "district" {
        D_W_ID: SmallInt,
        D_ID: SmallInt,
        D_NEXT_O_ID: Int,
        D_YTD: Decimal<2>,
        D_TAX: Decimal<4>,
        D_NAME: Text<10>,
        D_STREET_1: Text<20>,
        D_STREET_2: Text<20>,
        D_CITY: Text<20>,
        D_STATE: Text<2>,
        D_ZIP: Text<9>,
    }
    primary key (D_W_ID, D_ID);
}

table! {
    /// Customers.
    pub mod customer: "customer" {
        C_W_ID: SmallInt,
        C_D_ID: SmallInt,
        C_ID: Int,
        C_BALANCE: Decimal<2>,
        C_YTD_PAYMENT: Decimal<2>,
        C_PAYMENT_CNT: Int,
        C_DELIVERY_CNT: Int,
        C_DISCOUNT: Decimal<4>,
        C_CREDIT: Text<2>,
        C_LAST: Text<16>,
        C_FIRST: Text<16>,
        C_MIDDLE: Text<2>,
        C_CREDIT_LIM: Decimal<2>,
        C_SINCE: Timestamp,
        C_STREET_1: Text<20>,
        C_STREET_2: Text<20>,
        C_CITY: Text<20>,
        C_STATE: Text<2>,
        C_ZIP: Text<9>,
        C_PHONE: Text<16>,
        C_DATA: Text<500>,
    }
    primary key (C_W_ID, C_D_ID, C_ID);
    index "customer_by_name" (C_W_ID, C_D_ID, C_LAST, C_FIRST);
}

table! {
    /// Payments made.
    pub mod history: "history" {
        H_W_ID: SmallInt,
        H_ID: BigInt,
        H_D_ID: SmallInt,
        H_C_W_ID: SmallInt,
        H_C_D_ID: SmallInt,
        H_C_ID: Int,
        H_DATE: Timestamp,
        H_AMOUNT: Decimal<2>,
        H_DATA: Text<24>,
    }
    primary key (H_W_ID, H_ID);
}

table! {
    /// Orders that have not been delivered.
    pub mod new_order: "new_order" {
        NO_W_ID: SmallInt,
        NO_D_ID: SmallInt,
        NO_O_ID: Int,
    }
    primary key (NO_W_ID, NO_D_ID, NO_O_ID);
}

table! {
    /// Orders. (`order` is a word of SQL, hence the plural.)
    pub mod orders: "orders" {
        O_W_ID: SmallInt,
        O_D_ID: SmallInt,
        O_ID: Int,
        O_C_ID: Int,
        O_ENTRY_D: Timestamp,
        O_CARRIER_ID: Null<SmallInt>,
        O_OL_CNT: SmallInt,
        O_ALL_LOCAL: SmallInt,
    }
    primary key (O_W_ID, O_D_ID, O_ID);
    index "orders_by_customer" (O_W_ID, O_D_ID, O_C_ID, O_ID desc);
}

table! {
    /// Lines of orders.
    pub mod order_line: "order_line" {
        OL_W_ID: SmallInt,
        OL_D_ID: SmallInt,
        OL_O_ID: Int,
        OL_NUMBER: SmallInt,
        OL_I_ID: Int,
        OL_SUPPLY_W_ID: SmallInt,
        OL_QUANTITY: SmallInt,
        OL_AMOUNT: Decimal<2>,
        OL_DELIVERY_D: Null<Timestamp>,
        OL_DIST_INFO: Text<24>,
    }
    primary key (OL_W_ID, OL_D_ID, OL_O_ID, OL_NUMBER);
}

table! {
    /// Items, the same on every host.
    pub mod item: "item" {
        I_ID: Int,
        I_IM_ID: Int,
        I_PRICE: Decimal<2>,
        I_NAME: Text<24>,
        I_DATA: Text<50>,
    }
    primary key (I_ID);
    replicated;
}

table! {
    /// Stock of each item in each warehouse.
    pub mod stock: "stock" {
        S_W_ID: SmallInt,
        S_I_ID: Int,
        S_QUANTITY: SmallInt,
        S_YTD: Int,
        S_ORDER_CNT: Int,
        S_REMOTE_CNT: Int,
        S_DIST_01: Text<24>,
        S_DIST_02: Text<24>,
        S_DIST_03: Text<24>,
        S_DIST_04: Text<24>,
        S_DIST_05: Text<24>,
        S_DIST_06: Text<24>,
        S_DIST_07: Text<24>,
        S_DIST_08: Text<24>,
        S_DIST_09: Text<24>,
        S_DIST_10: Text<24>,
        S_DATA: Text<50>,
    }
    primary key (S_W_ID, S_I_ID);
}

/// The columns `S_DIST_01` to `S_DIST_10`, by district number less one.
pub const S_DIST: [Col<Text<24>>; 10] = [
    stock::S_DIST_01,
    stock::S_DIST_02,
    stock::S_DIST_03,
    stock::S_DIST_04,
    stock::S_DIST_05,
    stock::S_DIST_06,
    stock::S_DIST_07,
    stock::S_DIST_08,
    stock::S_DIST_09,
    stock::S_DIST_10,
];

/// The nine tables, in the order in which [`Tables::create`] asks for them.
pub fn schemas() -> Vec<TableSchema> {
    let mut all = Vec::new();
    let listed = Tables::create(|schema| {
        all.push(schema.clone());
        let none = TableId(u16::MAX);
        Ok::<_, std::convert::Infallible>((none, vec![IndexId(none); schema.indexes.len()]))
    });
    listed.expect("listing cannot fail");
    all
}

/// The tables and indexes as a catalog has numbered them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables {
    /// WAREHOUSE.
    pub warehouse: TableId,
    /// DISTRICT.
    pub district: TableId,
    /// CUSTOMER.
    pub customer: TableId,
    /// HISTORY.
    pub history: TableId,
    /// NEW-ORDER.
    pub new_order: TableId,
    /// ORDER.
    pub orders: TableId,
    /// ORDER-LINE.
    pub order_line: TableId,
    /// ITEM.
    pub item: TableId,
    /// STOCK.
    pub stock: TableId,
    /// Customers of a district by last and first name.
    pub customer_by_name: IndexId,
    /// Orders of a customer, newest first.
    pub orders_by_customer: IndexId,
}

impl Tables {
    /// The numbers that `catalog` has given them; `None` if a table is missing.
    pub fn of(catalog: &Catalog) -> Option<Self> {
        let number = |schema: &TableSchema| {
            let table = catalog.table_named(&schema.name).ok_or(())?;
            let (_, indexes) =
                catalog.relation(table).and_then(|relation| relation.table()).map_err(|_| ())?;
            Ok::<_, ()>((table, indexes.to_vec()))
        };
        Self::create(number).ok()
    }

    /// Hands every table to `create`, which returns the numbers of the table and of its indexes in the
    /// schema's order.
    ///
    /// # Errors
    /// The first error of `create`.
    ///
    /// # Panics
    /// When `create` returns another number of indexes than the schema has.
    pub fn create<E>(
        mut create: impl FnMut(&TableSchema) -> Result<(TableId, Vec<IndexId>), E>,
    ) -> Result<Self, E> {
        let mut plain = |schema: TableSchema| create(&schema).map(|(table, _)| table);
        let warehouse = plain(warehouse::schema())?;
        let district = plain(district::schema())?;
        let history = plain(history::schema())?;
        let new_order = plain(new_order::schema())?;
        let order_line = plain(order_line::schema())?;
        let item = plain(item::schema())?;
        let stock = plain(stock::schema())?;
        let mut indexed = |schema: TableSchema| {
            let (table, indexes) = create(&schema)?;
            assert_eq!(indexes.len(), 1, "table {} has one index", schema.name);
            Ok((table, indexes[0]))
        };
        let (customer, customer_by_name) = indexed(customer::schema())?;
        let (orders, orders_by_customer) = indexed(orders::schema())?;
        Ok(Self {
            warehouse,
            district,
            customer,
            history,
            new_order,
            orders,
            order_line,
            item,
            stock,
            customer_by_name,
            orders_by_customer,
        })
    }
}

/// A HISTORY number that no other worker, run or host uses: `run` (1 to 1023; 0 is the loader's), host,
/// worker and a counter, from the top bits down.
pub fn history_id(run: u16, host: HostId, worker: WorkerId, counter: u64) -> i64 {
    assert!(run < 1024 && host.0 < 16 && worker.0 < 32 && counter < 1 << 40, "history id out of range");
    (i64::from(run) << 49) | (i64::from(host.0) << 45) | (i64::from(worker.0) << 40) | counter as i64
}

/// Key of a warehouse.
pub fn warehouse_key(w: i16) -> Key {
    Key::build().i16(w).finish()
}

/// Key of a district.
pub fn district_key(w: i16, d: i16) -> Key {
    Key::build().i16(w).i16(d).finish()
}

/// Key of a customer.
pub fn customer_key(w: i16, d: i16, c: i32) -> Key {
    Key::build().i16(w).i16(d).i32(c).finish()
}

/// Key of an order, in ORDER and in NEW-ORDER.
pub fn order_key(w: i16, d: i16, o: i32) -> Key {
    Key::build().i16(w).i16(d).i32(o).finish()
}

/// Key of an item.
pub fn item_key(i: i32) -> Key {
    Key::build().i32(i).finish()
}

/// Key of a stock row.
pub fn stock_key(w: i16, i: i32) -> Key {
    Key::build().i16(w).i32(i).finish()
}

const ORDER_WORDS: usize = 1;
const LINE_WORDS: usize = 2;
const NAME_WORDS: usize = 5;
const ORDERS_BY_CUSTOMER_WORDS: usize = 2;

/// The undelivered orders of a district, oldest first.
pub fn new_orders_of(w: i16, d: i16) -> KeyRange {
    KeyRange::prefix(Key::build().i16(w).i16(d), ORDER_WORDS)
}

/// The lines of the orders `from..to` of a district.
pub fn lines_of(w: i16, d: i16, from: i32, to: i32) -> KeyRange {
    let order = |o| Key::build().i16(w).i16(d).i32(o);
    KeyRange::from_to(order(from), order(to), LINE_WORDS)
}

/// The entries of [`Tables::customer_by_name`] with one last name, in order of first names.
pub fn customers_named(w: i16, d: i16, last: &str) -> KeyRange {
    KeyRange::prefix(Key::build().i16(w).i16(d).text(last, 16), NAME_WORDS)
}

/// The entries of [`Tables::orders_by_customer`] of one customer, newest order first.
pub fn orders_of(w: i16, d: i16, c: i32) -> KeyRange {
    KeyRange::prefix(Key::build().i16(w).i16(d).i32(c), ORDERS_BY_CUSTOMER_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_valid_and_keys_as_wide_as_said() {
        let layout = |schema: TableSchema| schema.layout().unwrap();
        assert_eq!(layout(orders::schema()).primary.words(), ORDER_WORDS);
        assert_eq!(layout(new_order::schema()).primary.words(), ORDER_WORDS);
        assert_eq!(layout(order_line::schema()).primary.words(), LINE_WORDS);
        assert_eq!(layout(customer::schema()).indexes[0].key.words(), NAME_WORDS);
        assert_eq!(layout(orders::schema()).indexes[0].key.words(), ORDERS_BY_CUSTOMER_WORDS);
        for schema in [warehouse::schema(), district::schema(), item::schema(), stock::schema()] {
            assert_eq!(layout(schema).primary.words(), 1);
        }
        assert_eq!(layout(history::schema()).primary.words(), 2);
    }

    #[test]
    fn a_catalog_of_the_schemas_has_every_table() {
        let catalog = Catalog::new(&schemas()).expect("valid schemas");
        let tables = Tables::of(&catalog).expect("all tables");
        assert_eq!(catalog.table_named("stock"), Some(tables.stock));
        assert_eq!(catalog.index_named("orders_by_customer"), Some(tables.orders_by_customer));
        assert_eq!(Tables::of(&Catalog::new(&schemas()[1..]).expect("valid schemas")), None);
    }

    #[test]
    fn every_row_of_a_warehouse_lives_in_its_partition() {
        let schemas = [
            (warehouse::schema(), warehouse_key(9)),
            (district::schema(), district_key(9, 4)),
            (customer::schema(), customer_key(9, 4, 77)),
            (new_order::schema(), order_key(9, 4, 77)),
            (orders::schema(), order_key(9, 4, 77)),
            (order_line::schema(), lines_of(9, 4, 77, 78).low),
            (stock::schema(), stock_key(9, 77)),
        ];
        for (schema, key) in schemas {
            assert_eq!(schema.layout().unwrap().partition_of(&key, 8).0, 1, "{}", schema.name);
        }
        let by_name = &customer::schema().layout().unwrap().indexes[0];
        assert!(by_name.colocated && orders::schema().layout().unwrap().indexes[0].colocated);
    }

    #[test]
    fn row_sizes() {
        // Fixed sizes: what one shared tuple costs in memory follows from them.
        let sizes = [
            warehouse::ROW_LEN,
            district::ROW_LEN,
            customer::ROW_LEN,
            history::ROW_LEN,
            new_order::ROW_LEN,
            orders::ROW_LEN,
            order_line::ROW_LEN,
            item::ROW_LEN,
            stock::ROW_LEN,
        ];
        assert_eq!(sizes, [111, 117, 701, 62, 8, 27, 61, 94, 332]);
    }

    #[test]
    fn history_ids_differ_by_every_part() {
        let id = |run, host, worker, n| history_id(run, HostId(host), WorkerId(worker), n);
        let all = [id(0, 0, 0, 5), id(1, 0, 0, 5), id(0, 1, 0, 5), id(0, 0, 1, 5), id(0, 0, 0, 6)];
        assert_eq!(std::collections::BTreeSet::from(all).len(), 5);
        assert!(id(1023, 15, 31, (1 << 40) - 1) > 0);
    }
}
